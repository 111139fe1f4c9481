"""A replay buffer that is trained and saved at once: is the file torn, and who waits?

Rows come in pairs that cancel each other, and each step moves an amount between random rows, so the
sum of each column is zero at the end of each step. ``python benches/replay.py --gb 4 --rounds 3
--svg FILE`` runs each way in a process of its own, in turns, and shows medians:

thread    ``numpy.save`` in a thread, beside the steps
copy      a copy first, then ``numpy.save`` of it in a thread
torch     a tensor on the same memory, ``torch.distributed.checkpoint.async_save``
orbax     an array of jax on the CPU, changed by a jitted step, ``orbax`` with its asynchronous save
store     ``stillframe.Store``: scatter, a point each step, a checkpoint
follow    plain numpy, ``Store.follow``; a snapshot of what changed, then a checkpoint

Then another process loads what was saved, once it has imported what it needs. It is torn if a
column's sum is not zero, and else has to be, to the bit, the state at the step at which the save
began. The last two save what changed since a checkpoint of the whole. A way whose packages are
missing is left out, with a line.

``--state optimizer`` has, in the place of the buffer, parameters and the two averages of torch's
Adam, of which each step changes all: ``store`` announces the whole, and ``orbax`` is left out.
Torn is what is not, to the bit, what as many steps make of the same beginning.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stillframe import ArraySpec, Store

COLUMNS = 128
PAIRS = 64
#: Steps before the save begins.
WARM_UP = {"replay": 2000, "optimizer": 3}
NEEDS = {
    "thread": [], "copy": [], "torch": ["torch.distributed.checkpoint"],
    "orbax": ["jax", "orbax.checkpoint"], "store": [], "follow": [],
}
NAMES = {
    "thread": "np.save in a thread", "copy": "copy, then np.save", "torch": "torch dcp.async_save",
    "orbax": "jax, orbax", "store": "Store", "follow": "follow, snapshot",
}
Rows = npt.NDArray[np.int64]
Shape = tuple[int, int]


def memory(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return 0


def fill(buffer: npt.NDArray[Any]) -> None:
    """Rows that hold something, in pairs that cancel each other."""
    pairs = len(buffer) // 2
    some = buffer[: 2 * pairs : 2]
    np.add(np.arange(1, pairs + 1)[:, None], np.arange(COLUMNS), out=some)
    np.negative(some, out=buffer[1 : 2 * pairs : 2])


class Steps:
    """What each step changes; always the same."""

    def __init__(self, rows: int) -> None:
        self.rng = np.random.default_rng(1)
        self.rows = rows
        self.done = 0

    def next(self) -> tuple[Rows, Rows]:
        rows = np.unique(self.rng.integers(0, self.rows, 4 * PAIRS))
        amount = np.full((PAIRS, 1), self.done % 1000 + 1)
        self.done += 1
        return self.rng.permutation(rows)[: 2 * PAIRS], np.concatenate([amount, -amount])


class Adam:
    """Torch's Adam on a buffer of three rows: the parameters, whose gradient is one, and averages."""

    def __init__(self, buffer: npt.NDArray[Any]) -> None:
        import torch

        parameters, mean, square = (torch.from_numpy(row) for row in buffer)
        parameters.grad = torch.ones_like(parameters)
        self.optimizer = torch.optim.Adam([parameters], fused=True)
        averages = {"step": torch.zeros(()), "exp_avg": mean, "exp_avg_sq": square}
        self.optimizer.state[parameters] = averages

    def step(self) -> None:
        self.optimizer.step()


class InThread:
    """``numpy.save`` in a thread, of the array itself or of a copy."""

    #: Bytes that it holds beside the array, also while nothing is saved.
    beside = 0

    def __init__(
        self, shape: Shape, folder: Path, is_copied: bool, dtype: type = np.int64
    ) -> None:
        self.buffer = np.zeros(shape, dtype)
        self.file, self.is_copied = folder / "replay.npy", is_copied

    def fill(self) -> None:
        fill(self.buffer)

    def change(self, rows: Rows, amount: Rows) -> None:
        self.buffer[rows] += amount

    def change_all(self, work: Callable[[], None]) -> None:
        work()

    def optimizer(self) -> Adam:
        return Adam(self.buffer)

    def begin(self) -> None:
        image = self.buffer.copy() if self.is_copied else self.buffer
        self.thread = threading.Thread(target=np.save, args=(self.file, image))
        self.thread.start()

    def is_saving(self) -> bool:
        return self.thread.is_alive()

    def end(self) -> None:
        self.thread.join()

    def load(self) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = np.load(self.file)
        return found


class InTorch(InThread):
    """A tensor on the memory of the array; ``dcp.async_save`` copies it first, as it likes."""

    def __init__(self, shape: Shape, folder: Path, dtype: type = np.int64) -> None:
        super().__init__(shape, folder, False, dtype)
        import torch
        import torch.distributed.checkpoint as dcp

        self.dcp, self.file = dcp, folder / "torch"
        self.state = {"replay": torch.from_numpy(self.buffer)}

    def begin(self) -> None:
        self.future = self.dcp.async_save(self.state, checkpoint_id=str(self.file))

    def is_saving(self) -> bool:
        return not self.future.done()

    def end(self) -> None:
        self.future.result()

    def load(self) -> npt.NDArray[Any]:
        self.dcp.load(self.state, checkpoint_id=str(self.file))
        return self.buffer


class InJax:
    """An array of jax, whose step gives its memory to the next one, if nobody else has it."""

    beside = 0

    def __init__(self, shape: Shape, folder: Path) -> None:
        import jax
        import orbax.checkpoint as ocp

        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_enable_x64", True)
        self.jax, self.ocp, self.file = jax, ocp, folder.absolute() / "orbax"
        self.state = jax.numpy.zeros(shape, np.int64)
        self.add = jax.jit(lambda state, rows, amount: state.at[rows].add(amount), donate_argnums=0)
        self.saver = ocp.AsyncCheckpointer(ocp.StandardCheckpointHandler())

    def fill(self) -> None:
        filled = np.zeros(self.state.shape, np.int64)
        fill(filled)
        del self.state
        self.state = self.jax.numpy.array(filled)

    def change(self, rows: Rows, amount: Rows) -> None:
        self.state = self.add(self.state, rows, amount)
        self.state.block_until_ready()

    def begin(self) -> None:
        self.saver.save(self.file, args=self.ocp.args.StandardSave({"replay": self.state}))
        self.thread = threading.Thread(target=self.saver.wait_until_finished)
        self.thread.start()

    def is_saving(self) -> bool:
        return self.thread.is_alive()

    def end(self) -> None:
        self.thread.join()
        self.saver.close()

    def load(self) -> npt.NDArray[Any]:
        args = self.ocp.args.StandardRestore({"replay": self.state})
        return np.asarray(self.saver.restore(self.file, args=args)["replay"])


class InStore:
    """``stillframe.Store``."""

    beside = 0

    def __init__(self, shape: Shape, folder: Path, dtype: type = np.int64) -> None:
        specs = {"replay": ArraySpec(np.dtype(dtype).name, shape)}
        self.store = Store.open(folder / "store", specs, checkpoint_on_close=False)
        self.buffer = self.store["replay"].numpy()

    def fill(self) -> None:
        with self.store.mutate("replay") as buffer:
            fill(buffer)
        self.store.checkpoint()

    def change(self, rows: Rows, amount: Rows) -> None:
        self.store.scatter("replay", rows, self.buffer[rows] + amount)
        self.store.point()

    def change_all(self, work: Callable[[], None]) -> None:
        with self.store.mutate("replay"):
            work()
        self.store.point()

    def optimizer(self) -> Adam:
        with self.store.mutate("replay") as buffer:
            return Adam(buffer)

    def begin(self) -> None:
        self.store.checkpoint(wait=False)
        self.store.point()

    def is_saving(self) -> bool:
        return self.store.stats()["running"] is not None

    def end(self) -> None:
        self.store.close()

    def load(self) -> npt.NDArray[Any]:
        return self.buffer


class Following(InStore):
    """An array of numpy that a store follows."""

    def fill(self) -> None:
        super().fill()
        self.follow()

    def follow(self) -> None:
        self.buffer = self.buffer.copy()
        self.store.follow("replay", self.buffer)
        self.beside = self.buffer.nbytes

    def change(self, rows: Rows, amount: Rows) -> None:
        self.buffer[rows] += amount

    def change_all(self, work: Callable[[], None]) -> None:
        work()

    def optimizer(self) -> Adam:
        self.follow()
        return Adam(self.buffer)

    def begin(self) -> None:
        self.store.snapshot()
        super().begin()


def made(way: str, args: argparse.Namespace) -> Any:
    ways: dict[str, Callable[..., Any]] = {
        "thread": partial(InThread, is_copied=False), "copy": partial(InThread, is_copied=True),
        "torch": InTorch, "orbax": InJax, "store": InStore, "follow": Following,
    }
    if args.state == "optimizer":
        shape = (3, int(args.gb * 1e9 / 4 / 3) // 1024 * 1024)
        return ways[way](shape, args.dir, dtype=np.float32)
    return ways[way]((int(args.gb * 1e9 / 8 / COLUMNS), COLUMNS), args.dir)


def stepper(trained: Any, args: argparse.Namespace) -> Callable[[], None]:
    """Begins the state; one more step."""
    if args.state == "optimizer":
        adam = trained.optimizer()
        return lambda: trained.change_all(adam.step)
    trained.fill()
    steps = Steps(int(args.gb * 1e9 / 8 / COLUMNS))
    return lambda: trained.change(*steps.next())


def train(way: str, args: argparse.Namespace) -> dict[str, float]:
    trained = made(way, args)
    step = stepper(trained, args)
    began, done = WARM_UP[args.state], 0
    for _ in range(began):
        step()
    if way == "follow":
        trained.store.snapshot()
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak of memory
    before = memory("VmRSS")
    started = time.perf_counter()
    trained.begin()
    longest = pause = time.perf_counter() - started
    while trained.is_saving():
        start = time.perf_counter()
        step()
        done += 1
        longest = max(longest, time.perf_counter() - start)
    took = time.perf_counter() - started
    peak = max(0, memory("VmHWM") - before) + trained.beside
    trained.end()
    return {
        "began": began, "pause_ms": pause * 1000, "longest_ms": longest * 1000,
        "steps_per_s": done / took, "save_s": took, "memory_gb": peak / 1e9,
    }


def resume(way: str, args: argparse.Namespace, began: int) -> dict[str, float | bool]:
    for name in NEEDS[way]:
        importlib.import_module(name)
    start = time.perf_counter()
    found = made(way, args).load()
    took = time.perf_counter() - start
    expected = np.zeros_like(found)
    if args.state == "optimizer":
        adam = Adam(expected)
        for _ in range(began):
            adam.step()
        return {"resume_s": took, "torn": not np.array_equal(found, expected)}
    torn = bool(found.sum(axis=0).any())
    steps = Steps(len(found))
    fill(expected)
    for _ in range(began):
        at, amount = steps.next()
        expected[at] += amount
    if not torn and not np.array_equal(found, expected):
        raise SystemExit(f"{way}: what was saved is not the state at step {began}")
    return {"resume_s": took, "torn": torn}


def run(way: str, args: argparse.Namespace) -> dict[str, Any]:
    shutil.rmtree(args.dir, ignore_errors=True)
    args.dir.mkdir(parents=True)
    found: dict[str, Any] = {}
    for part in ("train", "resume"):
        command = [sys.executable, __file__, "--gb", str(args.gb), "--dir", str(args.dir)]
        command += ["--state", args.state]
        command += ["--only", part, way, str(found.get("began", 0))]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        found |= json.loads(done.stdout.splitlines()[-1])
    shutil.rmtree(args.dir)
    return found


def median(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    found = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    found["torn"] = any(one["torn"] for one in rounds)
    return found


def picture(found: dict[str, dict[str, Any]], gb: float) -> str:
    """Bars of the longest step, on a scale of powers of ten, and of memory."""
    style = (
        "<style>svg{color:#222;background:#fff}text{font:14px system-ui,sans-serif;"
        "fill:currentColor}.torn{fill:#c44}.rival{fill:#999}.ours{fill:#27c}"
        "@media(prefers-color-scheme:dark){svg{color:#e8e8e8;background:#16181c}}</style>"
    )
    height = 74 + 34 * len(found)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {height}" role="img" '
        f'aria-label="Longest step and memory while {gb:g} GB are saved">{style}',
        '<text x="170" y="20">longest step while saving [ms], logarithmic</text>',
        '<text x="670" y="20">memory beside the state</text>',
    ]
    for power in range(5):
        x = 170 + 90 * power
        lines.append(f'<path d="M{x} 48V{height - 10}" stroke="currentColor" opacity=".2"/>')
        lines.append(f'<text x="{x}" y="42" text-anchor="middle">{10**power:,}</text>')
    most = max(one["memory_gb"] for one in found.values()) or 1
    for number, (way, one) in enumerate(found.items()):
        y = 56 + 34 * number
        kind = "torn" if one["torn"] else "ours" if way in ("store", "follow") else "rival"
        wide = max(2.0, 90 * np.log10(max(one["longest_ms"], 1.05)))
        room = 150 * max(one["memory_gb"], 0) / most
        torn = ", torn" if one["torn"] else ""
        lines += [
            f'<text x="160" y="{y + 16}" text-anchor="end">{NAMES[way]}</text>',
            f'<rect class="{kind}" x="170" y="{y}" width="{wide:.0f}" height="22"/>',
            f'<text x="{176 + wide:.0f}" y="{y + 16}">{one["longest_ms"]:,.0f} ms{torn}</text>',
            f'<rect class="{kind}" x="670" y="{y}" width="{max(room, 1):.0f}" height="22"/>',
            f'<text x="{676 + room:.0f}" y="{y + 16}">{one["memory_gb"]:.2f} GB</text>',
        ]
    return "\n".join([*lines, "</svg>\n"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--gb", type=float, default=1.0)
    parser.add_argument("--state", choices=WARM_UP, default="replay")
    parser.add_argument("--dir", type=Path, default=Path("replay-data"))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--ways", nargs="*", default=list(NAMES), choices=NAMES)
    parser.add_argument("--svg", type=Path, help="a file for the picture")
    parser.add_argument("--only", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        part, way, began = args.only
        print(json.dumps(train(way, args) if part == "train" else resume(way, args, int(began))))
        return
    if args.state == "optimizer":
        args.ways = [way for way in args.ways if way != "orbax"]
    missing = {way: name for way in args.ways for name in NEEDS[way]
               if importlib.util.find_spec(name.split(".")[0]) is None}
    for way, name in missing.items():
        print(f"!!! SKIPPED: {way}: {name} is missing")
    results: dict[str, list[dict[str, Any]]] = {
        way: [] for way in args.ways if way not in missing
    }
    for _ in range(args.rounds):
        for way, rounds in results.items():
            rounds.append(run(way, args))
            print(f"{NAMES[way]}: {json.dumps(rounds[-1])}", file=sys.stderr)
    found = {way: median(rounds) for way, rounds in results.items()}
    print(f"{args.state} of {args.gb:g} GB, medians of {args.rounds}\n\n"
          "| way | image | longest step | steps a second | save | memory beside it | resume |\n|---|---|---|---|---|---|---|")
    for way, one in found.items():
        print(f"| {NAMES[way]} | {'**torn**' if one['torn'] else 'whole'} | "
              f"{one['longest_ms']:,.1f} ms | {one['steps_per_s']:,.0f} | {one['save_s']:.1f} s | "
              f"{one['memory_gb']:.2f} GB | {one['resume_s']:.1f} s |")
    if args.svg:
        args.svg.write_text(picture(found, args.gb))


if __name__ == "__main__":
    main()
