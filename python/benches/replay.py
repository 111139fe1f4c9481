"""A replay buffer that is trained and saved at once: is the file torn, and who waits?

Each step moves an amount between random pairs of rows, so the sum of all is zero at the end of each
step. ``python benches/replay.py --gb 4 --dir DIR`` runs each way in a process of its own:

thread    ``numpy.save`` in a thread, beside the steps
copy      a copy first, then ``numpy.save`` of it in a thread
store     ``stillframe.Store``: scatter, a point each step, a checkpoint
follow    plain numpy, ``Store.follow``; a snapshot of what changed, then a checkpoint
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stillframe import ArraySpec, Store

COLUMNS = 128
PAIRS = 64
Rows = npt.NDArray[np.int64]


def memory(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return 0


class Run:
    """Steps of a trainer, with the longest of them while something is saved."""

    def __init__(self, rows: int) -> None:
        self.rng = np.random.default_rng(1)
        self.rows = rows
        self.steps, self.longest = 0, 0.0

    def next_pairs(self) -> tuple[Rows, Rows]:
        rows = np.unique(self.rng.integers(0, self.rows, 4 * PAIRS))
        amount = np.full((PAIRS, 1), self.steps % 1000 + 1)
        return self.rng.permutation(rows)[: 2 * PAIRS], amount

    def step(self, change: Callable[[Rows, Rows], None]) -> None:
        start = time.perf_counter()
        rows, amount = self.next_pairs()
        change(rows, np.concatenate([amount, -amount]))
        self.steps += 1
        self.longest = max(self.longest, time.perf_counter() - start)


def train(way: str, rows: int, folder: Path) -> dict[str, float | bool]:
    run = Run(rows)
    shape = (rows, COLUMNS)
    store: Store | None = None
    if way in ("store", "follow"):
        store = Store.open(folder / "store", {"replay": ArraySpec("int64", shape)})
        store.checkpoint()
    buffer = np.zeros(shape, np.int64) if way != "store" else store["replay"].numpy()
    if way == "follow":
        store.follow("replay", buffer)

    def change(at: Rows, amount: Rows) -> None:
        if way == "store":
            store.scatter("replay", at, buffer[at] + amount)
            store.point()
        else:
            buffer[at] += amount

    for _ in range(2000):
        run.step(change)
    if way == "follow":
        store.snapshot()
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak of memory
    before, file = memory("VmRSS"), folder / "replay.npy"
    run.steps, run.longest = 0, 0.0
    started = time.perf_counter()
    ended = threading.Event()
    pause = 0.0
    if way == "thread":
        threading.Thread(target=lambda: (np.save(file, buffer), ended.set())).start()
    elif way == "copy":
        copied = buffer.copy()
        pause = time.perf_counter() - started
        threading.Thread(target=lambda: (np.save(file, copied), ended.set())).start()
    else:
        if way == "follow":
            store.snapshot()
        store.checkpoint(wait=False)
        store.point()
        pause = time.perf_counter() - started
    while not (ended.is_set() if store is None else store.stats()["running"] is None):
        run.step(change)
    took = time.perf_counter() - started
    result = {
        "longest_ms": max(run.longest, pause) * 1000,
        "steps_per_s": run.steps / took,
        "save_s": took,
        "memory_gb": (memory("VmHWM") - before) / 1e9,
    }
    if store is not None:
        store.close(give_up=True)
    return result


def resume(way: str, folder: Path) -> dict[str, float | bool]:
    start = time.perf_counter()
    if way in ("thread", "copy"):
        found = np.load(folder / "replay.npy")
        took = time.perf_counter() - start
        torn = bool(found.sum(axis=0).any())
    else:
        with Store.open(folder / "store", checkpoint_on_close=False) as store:
            took = time.perf_counter() - start
            torn = bool(store["replay"].numpy().sum(axis=0).any())
    return {"resume_s": took, "torn": torn}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gb", type=float, default=1.0)
    parser.add_argument("--dir", type=Path, default=Path("replay-data"))
    parser.add_argument("--only", nargs=2, metavar=("PART", "WAY"))
    args = parser.parse_args()
    rows = int(args.gb * 1e9 / 8 / COLUMNS)
    if args.only:
        part, way = args.only
        print(json.dumps(train(way, rows, args.dir) if part == "train" else resume(way, args.dir)))
        return
    print(f"{args.gb} GB\n\n| way | torn | longest step, ms | steps a second | save, s | memory, GB |"
          " resume, s |\n|---|---|---|---|---|---|---|")
    for way in ("thread", "copy", "store", "follow"):
        shutil.rmtree(args.dir, ignore_errors=True)
        args.dir.mkdir(parents=True)
        found: dict[str, float | bool] = {}
        for part in ("train", "resume"):
            command = [sys.executable, __file__, "--gb", str(args.gb), "--dir", str(args.dir)]
            done = subprocess.run([*command, "--only", part, way], capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(done.stderr)
            found |= json.loads(done.stdout)
        print(f"| {way} | {'torn' if found['torn'] else 'whole'} | {found['longest_ms']:.1f} | "
              f"{found['steps_per_s']:,.0f} | {found['save_s']:.2f} | {found['memory_gb']:.2f} | "
              f"{found['resume_s']:.2f} |", flush=True)
    shutil.rmtree(args.dir, ignore_errors=True)


if __name__ == "__main__":
    main()
