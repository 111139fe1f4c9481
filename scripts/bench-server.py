#!/usr/bin/env python3
"""Measures `stillframe serve` beside the real redis-server, in one run.

All contenders are measured on the same machine in turns, round by round, so that whatever else the
machine does hits all of them; the figures to look at are the ratios. Medians of the rounds, with
the lowest and highest round beside them:

  1. throughput: redis-benchmark, SET and GET, one request at a time and 16 pipelined;
  2. latency of SET while nothing else happens and while the dataset (1,000,000 keys of 1 KiB) is
     saved in the background: an open loop, each latency counted from the intended time of sending;
  3. memory (proportional set size of the server and its children) at its peak during such a save
     under full write load.

What is timed is also verified: the number of keys, a sample of values, and every contender's last
dump by redis-check-rdb. Needs redis-server and redis-tools (scripts/install-peers.sh) and a
release build (cargo build --release).

    scripts/bench-server.py --out figures.json > figures.md
"""

import argparse
import csv
import io
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONTENDERS = ("imprint", "fork", "naive", "redis")
ASK_SECONDS = 0.2


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


class Client:
    """A blocking connection; `call` takes words, replies come as bytes, int, None or list."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb", 1 << 16)

    def call(self, *words):
        self.socket.sendall(encode(*words))
        return self.reply()

    def reply(self):
        line = self.file.readline()
        if not line:
            raise SystemExit("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise SystemExit(f"the server refused: {rest.decode()}")
        if kind == b":":
            return int(rest)
        if kind == b"$":
            if int(rest) < 0:
                return None
            return self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return rest

    def info(self, *fields, section="everything"):
        text = self.call("INFO", section).decode()
        values = dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)
        return [values[field] for field in fields]


def encode(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Server:
    def __init__(self, name, options):
        self.name = name
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"bench-{name}-", dir=options.dir))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        common = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder)]
        common += ["--save", ""]
        line = ["redis-server"] if name == "redis" else [
            options.stillframe, "serve", "--snapshot", name]
        self.log = open(self.folder / "log", "wb")
        self.process = subprocess.Popen(line + common, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 30
        while True:
            try:
                self.client = Client(self.port)
                break
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise SystemExit(f"{name} does not start, see {self.folder}/log") from None
                time.sleep(0.02)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def saving(self):
        """Asks for the one section that says so: all of INFO is real work for a server."""
        return self.client.info("rdb_bgsave_in_progress", section="persistence")[0] != "0"

    def saved_well(self):
        if self.client.info("rdb_last_bgsave_status")[0] != "ok":
            raise SystemExit(f"{self.name}: a save failed, see {self.folder}/log")

    def begin_usec(self):
        field = "latest_fork_usec" if self.name == "redis" else "latest_begin_usec"
        return int(self.client.info(field)[0])

    def memory(self):
        """Proportional set size in bytes of the process and all its descendants."""
        pids, total = [self.process.pid], 0
        while pids:
            pid = pids.pop()
            try:
                text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
                for task in os.listdir(f"/proc/{pid}/task"):
                    path = f"/proc/{pid}/task/{task}/children"
                    pids += map(int, pathlib.Path(path).read_text().split())
            except (OSError, ProcessLookupError):
                continue  # it ended meanwhile
            total += sum(int(line.split()[1]) for line in text.splitlines()
                         if line.startswith("Pss:")) * 1024
        return total


def benchmark(port, *arguments):
    line = ["redis-benchmark", "-p", str(port), *map(str, arguments)]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout


def measure_throughput(options):
    """Requests a second by contender (imprint and redis), depth and command, one a round."""
    results = {}
    for turn in range(options.rounds):
        names = ["redis", "imprint"] if turn % 2 == 0 else ["imprint", "redis"]
        for name in names:
            server = Server(name, options)
            for depth in (1, 16):
                count = options.requests * (1 if depth == 1 else 4)
                text = benchmark(server.port, "-t", "set,get", "-n", count, "-P", depth,
                                 "-r", 100_000, "--csv")
                for row in csv.DictReader(io.StringIO(text)):
                    figures = results.setdefault(f"{row['test']} -P {depth}", {})
                    figures.setdefault(name, []).append(float(row["rps"]))
            size = server.client.call("DBSIZE")
            if not 0.5 * 100_000 < size <= 100_000:
                raise SystemExit(f"{name}: {size} keys cannot be what was set")
            server.stop()
        say(f"throughput: round {turn + 1} of {options.rounds}")
    return results


def fill(server, options):
    """Stores every key with a value that does not compress."""
    values = [os.urandom(options.value_size) for _ in range(512)]
    step = 1000
    for start in range(0, options.keys, step):
        batch = range(start, min(start + step, options.keys))
        server.client.socket.sendall(b"".join(
            encode("SET", key_name(i), values[i % 512]) for i in batch))
        for _ in batch:
            server.client.reply()


def key_name(number):
    """As redis-benchmark -r spells it."""
    return b"key:%012d" % number


def ping_in_open_loop(port, options, stop, out):
    """Sends SETs at a fixed rate until told to stop; sends back (intended time, latency) pairs."""
    client = Client(port)
    choose = random.Random(1)
    values = [os.urandom(options.value_size) for _ in range(64)]
    orders = [encode("SET", key_name(choose.randrange(options.keys)), choose.choice(values))
              for _ in range(5000)]
    period, samples, number = 1 / options.rate, [], 0
    start = time.monotonic() + 0.05
    while not stop.is_set():
        intended = start + number * period
        # The last stretch is waited for awake: a sleep's own lateness is not the server's.
        while (left := intended - time.monotonic()) > 0:
            if left > 0.0002:
                time.sleep(left - 0.0002)
        client.socket.sendall(orders[number % len(orders)])
        client.file.readline()
        samples.append((intended, time.monotonic() - intended))
        number += 1
    out.send(samples)


def measure_latency(server, options):
    """One round: microseconds when idle and while saving, and what begin cost."""
    stop = multiprocessing.Event()
    here, there = multiprocessing.Pipe(duplex=False)
    pinger = multiprocessing.Process(
        target=ping_in_open_loop, args=(server.port, options, stop, there))
    pinger.start()
    # Whether a save is running is asked for as often when none is: what asking costs the server and
    # the two cores must not pass for a cost of the save.
    due = time.monotonic() + 0.5 + options.idle_seconds
    while time.monotonic() < due:
        server.saving()
        time.sleep(ASK_SECONDS)
    begun = time.monotonic()
    server.client.call("BGSAVE")
    while server.saving():
        time.sleep(ASK_SECONDS)
    ended = time.monotonic()
    stop.set()
    samples = here.recv()
    pinger.join()
    server.saved_well()
    first = samples[0][0] + 0.45
    idle = [latency for at, latency in samples if first <= at < begun]
    saving = [latency for at, latency in samples if begun - 0.001 <= at < ended]
    return {
        "idle": percentiles(idle), "saving": percentiles(saving), "save_s": ended - begun,
        "begin_usec": server.begin_usec(), "samples": [len(idle), len(saving)],
    }


def percentiles(latencies):
    ordered = sorted(latencies)
    at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e6
    return {"p50_us": at(0.5), "p99_us": at(0.99), "p999_us": at(0.999), "max_us": at(1)}


def measure_memory(server, options):
    """One round: bytes before and at the peak of a save under full write load."""
    line = ["redis-benchmark", "-p", str(server.port), "-t", "set", "-d", str(options.value_size),
            "-r", str(options.keys), "-P", "16", "-c", "16", "-n", "1000000000", "-q"]
    load = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(1)
        base = server.memory()
        before = int(server.client.info("total_commands_processed")[0])
        begun = time.monotonic()
        server.client.call("BGSAVE")
        peak = base
        while server.saving():
            peak = max(peak, server.memory())
            time.sleep(0.02)
        seconds = time.monotonic() - begun
        after = int(server.client.info("total_commands_processed")[0])
    finally:
        load.kill()
        load.wait()
    server.saved_well()
    rate = (after - before) / seconds
    return {"base": base, "peak": peak, "save_s": seconds, "writes_per_s": rate}


def verify(server, options):
    """What was timed is what was asked for."""
    size = server.client.call("DBSIZE")
    if size != options.keys:
        raise SystemExit(f"{server.name}: {size} keys instead of {options.keys}")
    choose = random.Random(2)
    for _ in range(1000):
        value = server.client.call("GET", key_name(choose.randrange(options.keys)))
        if value is None or len(value) != options.value_size:
            raise SystemExit(f"{server.name}: a value is missing or has a wrong length")
    server.client.call("SAVE")
    check = subprocess.run(["redis-check-rdb", server.folder / "dump.rdb"], capture_output=True)
    if check.returncode != 0 or b"RDB looks OK" not in check.stdout:
        raise SystemExit(f"{server.name}: redis-check-rdb refuses its dump")


def measure_saving(options):
    latency = {name: [] for name in options.contenders}
    memory = {name: [] for name in options.contenders}
    servers = []
    try:
        for name in options.contenders:
            servers.append(Server(name, options))
            fill(servers[-1], options)
            say(f"{name} holds {options.keys} keys")
        # A first save warms what only the first one touches; its figures are not taken.
        for server in servers:
            measure_latency(server, options)
        for turn in range(options.rounds):
            order = servers[turn % len(servers):] + servers[:turn % len(servers)]
            for server in order:
                latency[server.name].append(measure_latency(server, options))
            say(f"latency: round {turn + 1} of {options.rounds}")
        for turn in range(options.rounds):
            for server in servers:
                memory[server.name].append(measure_memory(server, options))
            say(f"memory: round {turn + 1} of {options.rounds}")
        for server in servers:
            verify(server, options)
            say(f"{server.name}: keys, values and dump verified")
    finally:
        for server in servers:
            server.stop()
    return latency, memory


def spread(values, form="{:,.0f}"):
    """The median, with the lowest and highest beside it."""
    shown = [form.format(value) for value in (statistics.median(values), min(values), max(values))]
    return f"{shown[0]} ({shown[1]} to {shown[2]})"


def report(results, options):
    print(f"# Server figures\n\n{results['machine']}. {options.rounds} rounds, interleaved; "
          "median (lowest to highest).\n")
    print("## Throughput, requests a second\n")
    print("| redis-benchmark | redis-server | stillframe (imprint) | ratio |\n|---|---|---|---|")
    for test, figures in results["throughput"].items():
        ratio = statistics.median(figures["imprint"]) / statistics.median(figures["redis"])
        print(f"| {test} | {spread(figures['redis'])} | {spread(figures['imprint'])} "
              f"| {ratio:.2f}x |")
    print(f"\n## Latency of SET at {options.rate}/s, microseconds, "
          f"{options.keys:,} keys of {options.value_size} bytes\n")
    print("| server | idle p50 | idle p99 | saving p50 | saving p99 | p99 ratio | saving max "
          "| begin (fork) | save, s |\n|---|---|---|---|---|---|---|---|---|")
    for name, rounds in results["latency"].items():
        pick = lambda phase, what: [one[phase][what] for one in rounds]
        ratios = [one["saving"]["p99_us"] / one["idle"]["p99_us"] for one in rounds]
        print(f"| {name} | {spread(pick('idle', 'p50_us'))} | {spread(pick('idle', 'p99_us'))} "
              f"| {spread(pick('saving', 'p50_us'))} | {spread(pick('saving', 'p99_us'))} "
              f"| {spread(ratios, '{:.2f}')} | {spread(pick('saving', 'max_us'))} "
              f"| {spread([one['begin_usec'] for one in rounds])} "
              f"| {spread([one['save_s'] for one in rounds], '{:.2f}')} |")
    print("\n## Memory of one save under full write load, MiB (server and children)\n")
    print("| server | before | peak | peak / before | writes/s | save, s |")
    print("|---|---|---|---|---|---|")
    for name, rounds in results["memory"].items():
        mib = lambda what: [one[what] / (1 << 20) for one in rounds]
        ratios = [one["peak"] / one["base"] for one in rounds]
        print(f"| {name} | {spread(mib('base'))} | {spread(mib('peak'))} "
              f"| {spread(ratios, '{:.2f}')} | {spread([one['writes_per_s'] for one in rounds])} "
              f"| {spread([one['save_s'] for one in rounds], '{:.2f}')} |")


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo")
                  if line.startswith("model name")), "an unknown processor")
    redis = subprocess.run(["redis-server", "--version"], capture_output=True, text=True).stdout
    return f"{os.cpu_count()} x {model}, Linux {os.uname().release}, {' '.join(redis.split()[:3])}"


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    parser.add_argument("--stillframe", default=str(pathlib.Path(target) / "release/stillframe"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=200_000, help="at depth 1; 4 times at 16")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--value-size", type=int, default=1024)
    parser.add_argument("--rate", type=int, default=2000, help="SETs a second")
    parser.add_argument("--idle-seconds", type=float, default=4)
    parser.add_argument("--contenders", nargs="+", default=CONTENDERS, choices=CONTENDERS)
    parser.add_argument("--skip-throughput", action="store_true")
    parser.add_argument("--dir", help="where the servers keep their files [a temporary folder]")
    parser.add_argument("--out", help="a file for all figures as JSON")
    return parser.parse_args()


def main():
    options = parse_arguments()
    for tool in ("redis-server", "redis-benchmark", "redis-check-rdb"):
        if shutil.which(tool) is None:
            raise SystemExit(f"there is no {tool} here: run scripts/install-peers.sh")
    if not os.access(options.stillframe, os.X_OK):
        raise SystemExit(f"there is no {options.stillframe}: run cargo build --release")
    if "/debug/" in options.stillframe:
        say("WARNING: this is a debug build; its figures mean nothing")
    if os.getloadavg()[0] > 0.5:
        say(f"WARNING: the machine is busy (load {os.getloadavg()[0]:.1f})")
    results = {"machine": machine(), "load_before": os.getloadavg(), "options": vars(options)}
    results["throughput"] = {} if options.skip_throughput else measure_throughput(options)
    results["latency"], results["memory"] = measure_saving(options)
    results["load_after"] = os.getloadavg()
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps(results, indent=1) + "\n")
    report(results, options)


if __name__ == "__main__":
    main()
