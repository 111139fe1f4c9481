"""Reads and writes under `appendfsync always` on disks whose syncs take milliseconds."""

import pathlib
import subprocess
import tempfile
import time

from benches.load import fill_strings, finish_load, load, start_load
from benches.servers import Server, in_turns, say, spread, title

WRITERS = (1, 50, 1000)
# Of valkey-io/valkey#4029: readers, and writers beside them.
READERS, BESIDE = 50, 8


def measure(options):
    """By delay and case, contender, round: requests a second, and their p99 in microseconds."""
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        shim = pathlib.Path(folder) / "slow-sync.so"
        source = pathlib.Path(__file__).with_name("slow-sync.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
        for turn in range(options.rounds):
            for delay in options.sync_ms:
                for name in in_turns(options.contenders, turn):
                    for case, figures in measure_one(name, shim, delay, options).items():
                        by_name = results.setdefault(f"{delay}", {}).setdefault(case, {})
                        by_name.setdefault(name, []).append(figures)
            say(f"slow-disk: round {turn + 1} of {options.rounds}")
    return results


def measure_one(name, shim, delay, options):
    """All cases at a new server."""
    environment = {"LD_PRELOAD": str(shim), "SLOW_SYNC_US": str(round(delay * 1000))}
    flags = ["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]
    server = Server(name, options, flags, environment=environment)
    try:
        server.client.call("CONFIG", "SET", "appendfsync", "no")
        fill_strings(server, options)
        server.client.call("CONFIG", "SET", "appendfsync", "always")
        figures = {}
        for clients in WRITERS:
            figures[f"SETs of {clients:,}"] = of(load(server, options, *words(options, clients, "1:0")))
            check_slow(server, figures[f"SETs of {clients:,}"], clients, delay)
        # They begin before the readers and end behind them.
        writers = start_load(server, options, *words(options, BESIDE, "1:0", more_ms=4000))
        time.sleep(0.5)
        readers = load(server, options, *words(options, READERS, "0:1"), "--protocol-check")
        figures[f"GETs of {READERS} beside {BESIDE} writers"] = of(readers)
        figures[f"SETs of the {BESIDE}"] = of(finish_load(writers))
        return figures
    finally:
        server.stop()


def words(options, clients, ratio, more_ms=0):
    return ["--rate", "max", "--clients", clients, "--keys", options.keys, "--value-size",
            options.value_size, "--ratio", ratio, "--duration",
            f"{options.throughput_ms + more_ms}ms"]


def of(report):
    one = next(it for it in report["phases"] if it["phase"] == "normal")
    return {"rate": report["answered"] / report["elapsed_s"], "p99_us": one["latency"]["p99_us"]}


def check_slow(server, figures, clients, delay):
    """Each client has one write at a time, and each write waits for a sync."""
    if figures["rate"] > clients * 1000 / delay * 1.05:
        raise SystemExit(f"{server.name} acknowledges what is not synced")


def report(results, options):
    print(f"\n## `appendfsync always` on a slow disk: values of {options.value_size} bytes, one "
          "request at a time, p99 in brackets\n")
    print("| a sync, ms | requests a second | " + " | ".join(map(title, options.contenders))
          + " |\n|---|---" + "|---" * len(options.contenders) + "|")
    for delay, by_case in results.items():
        for case, by_name in by_case.items():
            shown = [f"{spread([one['rate'] for one in by_name[name]])}; "
                     f"{spread([one['p99_us'] / 1000 for one in by_name[name]], '{:.1f}')} ms"
                     for name in options.contenders]
            print(f"| {delay} | {case} | {' | '.join(shown)} |")
