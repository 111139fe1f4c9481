"""Checkpoints, recovery and the log of `Store` beside dd and raw fsync.

All contenders take turns, round by round, on the same disk:

  1. a full checkpoint and its recovery beside the faster of two dd each on the disk of --dir: with
     the size of a checkpoint's block (64 KiB), through the page cache (and then fsync), and with
     that of its writes and reads (512 KiB and 1 MiB), past the page cache; on tmpfs by processor
     time, whichever threads spend it; packed ones, increments, merges; recovery of a full
     checkpoint, a packed one and a chain, each also by one thread;
  2. actions a second of the log by policy beside raw writes that are each synced;
  3. commit latency while checkpoints run, with and without a bandwidth cap, and without any;
  4. recovery time against state size and log length;
  5. the writer's mean tick with a log and without; random writes with increments and without.

fio would measure the same as dd does here: one file, front to back, one write at a time. Targets
stand beside the ratios. No round begins that would end after --minutes. Each recovered state is
verified word by word, each log by its effects. Files leave the page cache before they are read.
"""

import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

from benches.servers import ROOT, say

BLOCK_BYTES = 65536
STAGE_BYTES = 524288
STRETCH_BYTES = 1048576


def build(profile):
    command = ["cargo", "build", "-q", "-p", "stillframe-durability", "--example", "figures",
               "--message-format=json"]
    if profile == "release":
        command.append("--release")
    lines = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    artifacts = (json.loads(line) for line in lines.splitlines())
    found = [it["executable"] for it in artifacts
             if it.get("reason") == "compiler-artifact" and it["target"]["name"] == "figures"]
    return found[-1]


def dd(*arguments):
    started = time.monotonic()
    subprocess.run(["dd", "status=none", *arguments], check=True)
    return time.monotonic() - started


def leave_cache(folder):
    """Drops the clean pages of all files of a folder from the page cache."""
    for file in pathlib.Path(folder).iterdir():
        if file.is_file():
            dd(f"if={file}", "of=/dev/null", "iflag=nocache", "count=0")


class Bench:
    def __init__(self, options):
        self.options, self.figures, self.program = options, {}, build(options.profile)

    def call(self, *arguments):
        command = [self.program, *map(str, arguments)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def warm(self):
        """A virtual machine's host may have taken memory back that was free, and gives it at seven
        microseconds a page: touched shortly before, it costs all contenders alike."""
        raw = pathlib.Path(self.options.tmpfs) / f"warm-{id(self)}"
        dd("if=/dev/zero", f"of={raw}", "bs=1M", f"count={max(1, 5 * self.options.megabytes // 2)}")
        raw.unlink()

    def add(self, name, value):
        self.figures.setdefault(name, []).append(value)

    def dd_writes(self, place, raw):
        """Leaves a file behind, to be read."""
        size = self.options.megabytes
        sizes = [("direct write", STAGE_BYTES, ["oflag=direct"])] if place == "disk" else []
        rates = []
        for name, block, flags in [*sizes, ("write", BLOCK_BYTES, [])]:
            raw.unlink(missing_ok=True)
            count = max(1, size * 10**6 // block)
            took = dd("if=/dev/zero", f"of={raw}", f"bs={block}", f"count={count}", *flags,
                      "conv=fsync")
            rates.append(block * count / took / 1e6)
            self.add(f"{place}: dd {name}, MB/s", rates[-1])
        self.add(f"{place}: faster dd write, MB/s", max(rates))

    def dd_read(self, place, name, raw, block, *flags):
        leave_cache(raw.parent)
        took = dd(f"if={raw}", "of=/dev/null", f"bs={block}", *flags)
        rate = raw.stat().st_size / took / 1e6
        self.add(f"{place}: dd {name}, MB/s", rate)
        return rate

    def dd_reads(self, place, raw):
        rates = [self.dd_read(place, "read", raw, BLOCK_BYTES)]
        if place == "disk":
            rates.append(self.dd_read(place, "direct read", raw, STRETCH_BYTES, "iflag=direct"))
        self.add(f"{place}: faster dd read, MB/s", max(rates))

    def checkpoint(self, place, store):
        made = self.call("checkpoint", store, self.options.megabytes)
        self.add(f"{place}: checkpoint, MB/s", made["bytes"] / made["seconds"] / 1e6)
        rate = made["bytes"] / made["cpu_seconds"] / 1e6
        self.add(f"{place}: checkpoint, MB a second of a core", rate)
        self.add(f"{place}: begin, us", made["begin_us"])

    def recovery(self, place, name, store, *threads):
        leave_cache(store)
        found = self.call("recover", store, self.options.megabytes, *threads)
        self.add(f"{place}: {name}, MB/s", found["bytes"] / found["seconds"] / 1e6)
        rate = found["bytes"] / found["cpu_seconds"] / 1e6
        self.add(f"{place}: {name}, MB a second of a core", rate)

    def recoveries_of(self, place, store):
        self.recovery(place, "recovery", store)
        self.warm()
        self.recovery(place, "recovery by one thread", store, 1)

    def recoveries_both(self, place, name, store):
        for how, threads in (("recovery", ()), ("recovery by one thread", (1,))):
            self.warm()
            leave_cache(store)
            found = self.call("recover", store, self.options.megabytes, *threads)
            rate = self.options.megabytes / found["seconds"]
            self.add(f"{place}: {name} {how}, MB/s of state", rate)

    def files(self, place, root, turn):
        """Figures in MB/s of true bytes of the file. Who goes first takes turns, too."""
        size = self.options.megabytes
        with tempfile.TemporaryDirectory(dir=root) as folder:
            raw, store = pathlib.Path(folder) / "raw", pathlib.Path(folder) / "store"
            writes = [lambda: self.dd_writes(place, raw), lambda: self.checkpoint(place, store)]
            # What was just written comes slowly from some disks, the first time.
            first = [lambda: self.dd_read(place, "first read", raw, BLOCK_BYTES),
                     lambda: self.recovery(place, "first recovery", store)]
            reads = [lambda: self.dd_reads(place, raw), lambda: self.recoveries_of(place, store)]
            for pair in (writes, first, reads):
                for measure in pair[::-1] if turn % 2 else pair:
                    self.warm()
                    measure()
            raw.unlink()
            shutil.rmtree(store)
            made = self.call("checkpoint", store, size, "pack")
            rate = made["state_bytes"] / made["seconds"] / 1e6
            self.add(f"{place}: packed checkpoint, MB/s of state", rate)
            share = made["bytes"] / made["state_bytes"]
            self.add(f"{place}: packed checkpoint, share of the state", share)
            self.recoveries_both(place, "packed", store)
            shutil.rmtree(store)
            self.call("chain", store, size, 20, 8)
            self.recoveries_both(place, "chain", store)
            shutil.rmtree(store)
            made = self.call("increment", store, size, 5)
            self.add(f"{place}: increment of 5 % of the blocks, s", made["seconds"])
            rate = self.figures[f"{place}: checkpoint, MB/s"][-1]
            self.add(f"{place}: full checkpoint of that, s", size / rate)
            self.add(f"{place}: merge, s", made["merge_seconds"])
            self.call("recover", store, size)

    def logs(self, folder):
        synced = self.call("fsync", folder / "raw", self.options.syncs)
        self.add("raw fsync, a second", synced["times"] / synced["seconds"])
        for policy in ("always", "everysec", "no"):
            done = self.call("log", folder / f"log-{policy}", policy, self.options.actions)
            self.add(f"log {policy}, actions durable a second", done["actions"] / done["seconds"])
            each = done["logged_seconds"] * 1e9 / done["actions"]
            self.add(f"log {policy}, ns for the writer", each)

    def latencies(self, folder):
        size, seconds = self.options.megabytes, self.options.seconds
        caps = {"idle": 0, "beside checkpoints": 1, "with the cap": self.options.cap * 10**6}
        for name, cap in caps.items():
            done = self.call("latency", folder / f"latency-{cap}", size, seconds, cap)
            for figure in ("p50_ms", "p99_ms", "max_ms"):
                self.add(f"commit {name}, {figure}", done[figure])

    def recoveries(self, folder):
        for share in (4, 1):
            size = max(1, self.options.megabytes // share)
            for actions in (0, self.options.actions // 10, self.options.actions):
                done = self.call("replay", folder / f"replay-{share}-{actions}", size, actions)
                self.add(f"recovery of {size} MB and {actions} actions, s", done["seconds"])

    def writers(self, folder):
        size = self.options.megabytes
        for policy in ("none", "no", "everysec", "always"):
            done = self.call("tick", folder / f"tick-{policy}", size, policy)
            self.add(f"mean tick of 1000 updates, log {policy}, us", done["mean_us"])
        for name, value in self.call("write", size).items():
            self.add(f"random write, {name}", value)

    def round(self, number):
        self.files("disk", self.options.dir, number)
        self.files("tmpfs", self.options.tmpfs, number)
        for measure in (self.logs, self.latencies, self.recoveries, self.writers):
            with tempfile.TemporaryDirectory(dir=self.options.dir) as folder:
                measure(pathlib.Path(folder))


def measure(options):
    """The rounds that there is time for."""
    bench = Bench(options)
    started, longest = time.monotonic(), 0
    for number in range(options.rounds):
        begun = time.monotonic()
        if number > 0 and begun - started + longest > options.minutes * 60:
            say(f"store: no time for more than {number} rounds")
            break
        bench.round(number)
        say(f"store: round {number + 1} of {options.rounds}")
        longest = max(longest, time.monotonic() - begun)
    return bench.figures


def ratio(figures, one, other):
    return statistics.median(figures[one]) / statistics.median(figures[other])


def report(figures, _options):
    print("\n## Store: checkpoints, recovery and log\n")
    print("| figure | median | lowest | highest |\n|---|---|---|---|")
    for name, values in figures.items():
        row = (statistics.median(values), min(values), max(values))
        print(f"| {name} | " + " | ".join(f"{value:.4g}" for value in row) + " |")
    least, most = "at least", "at most"
    ratios = [
        ("disk: checkpoint to the faster dd write", "disk: checkpoint, MB/s",
         "disk: faster dd write, MB/s", (least, 0.85)),
        ("disk: recovery to the faster dd read", "disk: recovery, MB/s",
         "disk: faster dd read, MB/s", (least, 0.85)),
        ("disk: first recovery to first dd read", "disk: first recovery, MB/s",
         "disk: dd first read, MB/s", (least, 0.85)),
        *((f"{place}: {name} recovery to that by one thread",
           f"{place}: {name} recovery, MB/s of state",
           f"{place}: {name} recovery by one thread, MB/s of state", None)
          for place in ("disk", "tmpfs") for name in ("packed", "chain")),
        ("disk: increment to full checkpoint, time", "disk: increment of 5 % of the blocks, s",
         "disk: full checkpoint of that, s", None),
        ("commit p99 beside checkpoints to idle", "commit beside checkpoints, p99_ms",
         "commit idle, p99_ms", None),
        ("commit p99 with the cap to idle", "commit with the cap, p99_ms",
         "commit idle, p99_ms", (most, 2)),
        ("log always to raw fsync", "log always, actions durable a second",
         "raw fsync, a second", None),
        ("mean tick with log everysec to none", "mean tick of 1000 updates, log everysec, us",
         "mean tick of 1000 updates, log none, us", None),
        ("random write with increments to without", "random write, increments_ns",
         "random write, full_ns", None),
    ]
    rows = [(name, ratio(figures, one, other), target) for name, one, other, target in ratios]
    for name in ("checkpoint, MB a second of a core", "recovery, MB a second of a core",
                 "recovery by one thread, MB/s"):
        rows.append((f"tmpfs: {name}", statistics.median(figures[f"tmpfs: {name}"]),
                     (least, 1000)))
    print("\n| of medians | value | target | |\n|---|---|---|---|")
    for name, value, target in rows:
        if target is None:
            print(f"| {name} | {value:.3g} | | |")
            continue
        bound, limit = target
        met = value >= limit if bound == least else value <= limit
        print(f"| {name} | {value:.3g} | {bound} {limit} | {'met' if met else 'not met'} |")
