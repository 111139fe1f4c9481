#!/usr/bin/env python3
"""Measures Stillframe beside the real redis-server, dd and fsync, in one run.

    scripts/bench.py                                        throughput, saving and sync: an hour
    scripts/bench.py saving --out figures.json > figures.md one part, all its figures as JSON too
    scripts/bench.py all --tiny --stillframe target/debug/stillframe    tries the script out

Parts:
  throughput  SET, GET, HSET (one hash), LPUSH (one list), ZADD (one set) by `stillframe load`, one
              query at a time and 16 pipelined (--depths), 50 connections, as fast as replies come;
              processor time of the server for a query; beside SET, a null server
  saving      SET at a fixed rate by `stillframe load` (open loop, latency from the intended time)
              without and with a background save; the same while one more client changes one large
              hash; beside each round the same load on a null server: what this machine and the
              generator do to latency by themselves; memory, in saves of their own, at that rate
              and at full speed
  plot        the README's picture: SETs over time while one save runs (--svg)
  sync        the same load while a real redis-server becomes a replica and gets everything
  threads     processor time of the command thread for a request, without and with I/O threads
  connections latency of 10,000 connections beside 50 at the same rate, the null server last
              (give it descriptors for all: ulimit -n 40000)
  slow-disk   GETs and SETs under `appendfsync always`, each sync delayed by --sync-ms
  growth      bytes a key of 10,000,000 small ones, commands over 1 ms while they come; SAVE, start;
              bytes a key of a tenth that stays when the others are deleted
  memory      bytes an element takes in small strings, one hash, one set, one sorted set, lists
  group       writes of a group of three beside one server and beside redis-server with WAIT; the
              time without a leader after kill -9
  join        latency at a group while a member joins it
  store       checkpoints, recovery and log of the library's Store beside dd and raw fsync

Contenders take turns, round by round, so that whatever else the machine does hits all of them; the
figures to look at are the ratios. Medians of the rounds stand with the lowest and highest round.
What is timed is verified: numbers of keys, values, dumps, the replica's content, recovered states.
`stillframe lab` measures the algorithms. Needs redis-server (scripts/install-peers.sh), the program
as packages have it (cargo build --profile dist --features measure), and at full size up to 12 GB of
memory.
"""

import argparse
import json
import os
import pathlib
import shutil
import sys

from benches import connections, disk, group, load, plot, store, threads
from benches.servers import CONTENDERS, RIVALS, ROOT, machine, say

PARTS = {
    "throughput": (load.measure_throughput, load.report_throughput),
    "saving": (load.measure_saving, load.report_saving),
    "plot": (plot.measure, plot.report),
    "sync": (load.measure_syncs, load.report_syncs),
    "threads": (threads.measure, threads.report),
    "connections": (connections.measure, connections.report),
    "slow-disk": (disk.measure, disk.report),
    "growth": (load.measure_growth, load.report_growth),
    "memory": (load.measure_elements, load.report_elements),
    "store": (store.measure, store.report),
    "group": (group.measure, group.report),
    "join": (group.measure_joins, group.report_joins),
}
# What a flag stands for where it is not given: of every part, and of those that differ.
USUAL = {"contenders": [*RIVALS, "imprint"], "keys": 2_000_000, "rate": 30_000, "idle_seconds": 25,
         "throughput_ms": 4000, "value_size": 1024, "megabytes": 1000, "actions": 1_000_000, "seconds": 10}
OWN = {"plot": {"contenders": ["redis", "valkey", "imprint"], "keys": 600_000, "rate": 20_000,
                "idle_seconds": 6},
       "connections": {"keys": 100_000, "rate": 20_000, "idle_seconds": 5, "value_size": 100},
       "slow-disk": {"keys": 100_000, "value_size": 64, "dir": "/var/tmp"},
       "growth": {"keys": 10_000_000, "value_size": 16},
       "store": {"dir": "/var/tmp"}, "group": {"dir": "/var/tmp"},
       "join": {"dir": "/var/tmp", "megabytes": 2000, "idle_seconds": 50}}
# Sizes that try the script out.
TINY = {"rounds": 1, "keys": 20_000, "fields": 2_000, "rate": 1_000, "hash_rate": 200,
        "idle_seconds": 1.5, "throughput_keys": 1_000, "throughput_ms": 200, "sync_seconds": 30,
        "failovers": 2, "join_rate": 100, "scale": 100, "megabytes": 8, "actions": 1_000, "syncs": 10, "seconds": 1,
        "profile": "dev"}


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser.add_argument("parts", nargs="*", metavar="PART", help="see above, or all")
    parser.add_argument("--stillframe", default=str(target / "dist/stillframe"))
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS,
                        help="[redis valkey redis-8 imprint, of those that are here]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keys", type=int, help="[2,000,000]")
    parser.add_argument("--value-size", type=int, help="[1024; connections: 100; growth: 16]")
    parser.add_argument("--rate", type=int, help="SETs a second [30,000]")
    parser.add_argument("--fields", type=int, default=1_000_000, help="of the large hash")
    parser.add_argument("--hash-rate", type=int, default=5_000, help="HSETs a second")
    parser.add_argument("--idle-seconds", type=float,
                        help="before the save, which must end in as much [25]")
    parser.add_argument("--sync-seconds", type=float, default=120, help="longest full sync")
    parser.add_argument("--throughput-keys", type=int, default=100_000)
    parser.add_argument("--throughput-ms", type=int, help="[4000]")
    parser.add_argument("--sync-ms", type=float, nargs="+", default=[1, 2, 5, 10],
                        help="slow-disk: by which each sync is delayed")
    parser.add_argument("--depths", type=int, nargs="+", default=[1, 16],
                        help="throughput: queries at once")
    parser.add_argument("--value-sizes", type=int, nargs="+", default=[64], help="throughput: bytes")
    parser.add_argument("--operations", nargs="+", choices=load.OPERATIONS, default=list(load.OPERATIONS),
                        help="throughput: [all]")
    parser.add_argument("--unix", action="store_true", help="throughput: by unix sockets as well")
    parser.add_argument("--io-threads", type=int, nargs="+", default=[2, 3],
                        help="threads: beside 1")
    parser.add_argument("--nice", type=int, default=0,
                        help="priority of the load, -20 to 19; root may give less than 0, so that "
                             "the generator is not what waits for a core")
    parser.add_argument("--pages", help="a folder for the page of each run of the load")
    parser.add_argument("--svg", help="plot: a file for the picture")
    parser.add_argument("--dir", help="where servers and stores keep their files "
                                      "[a temporary folder; store, group, join, slow-disk: /var/tmp]")
    parser.add_argument("--failovers", type=int, default=50, help="group: leaders killed")
    parser.add_argument("--join-rate", type=int, default=2000, help="join: SETs a second")
    parser.add_argument("--join-rounds", type=int, default=1, help="join: times")
    parser.add_argument("--tmpfs", default="/dev/shm", help="store: a folder in memory")
    parser.add_argument("--megabytes", type=int, help="store: size of the state [1000]")
    parser.add_argument("--actions", type=int, help="store: in the log [1,000,000]")
    parser.add_argument("--syncs", type=int, default=1000, help="store: raw writes and fsyncs")
    parser.add_argument("--seconds", type=int, help="store: of commits, each time [10]")
    parser.add_argument("--cap", type=int, default=200, help="store: bandwidth cap, MB/s")
    parser.add_argument("--minutes", type=float, default=14, help="store: for all rounds")
    parser.add_argument("--profile", choices=("release", "dev"), default="release",
                        help="store: build of the example it runs")
    parser.add_argument("--tiny", action="store_true", help="small sizes, one round: no figures")
    parser.add_argument("--out", help="a file for all figures as JSON")
    options = parser.parse_args()
    options.scale = 1
    options.rounds = 1 if options.tiny else options.rounds
    if unknown := [part for part in options.parts if part not in (*PARTS, "all")]:
        parser.error(f"there is no part {unknown[0]}; parts are {', '.join(PARTS)} and all")
    options.parts = options.parts or ["throughput", "saving", "sync"]
    if "all" in options.parts:
        options.parts = list(PARTS)
    return options


def options_of(part, options):
    """The options of a part: what is given, else its own, else the usual."""
    given = {name: value for name, value in vars(options).items() if value is not None}
    tiny = TINY if options.tiny else {}
    own = argparse.Namespace(**{**vars(options), **USUAL, **OWN.get(part, {}), **given, **tiny})
    here = [name for name in own.contenders
            if name not in RIVALS or shutil.which(RIVALS[name]) is not None]
    if lacking := [name for name in own.contenders if name not in here]:
        say(f"WARNING: no {', '.join(lacking)} here: run scripts/install-peers.sh --build")
    own.contenders = here
    return own


def check(options):
    """Ends the script where something it needs is missing."""
    if options.parts == ["store"]:
        return
    for tool in ("redis-server", "redis-benchmark", "redis-check-rdb"):
        if shutil.which(tool) is None:
            raise SystemExit(f"there is no {tool} here: run scripts/install-peers.sh")
    if not os.access(options.stillframe, os.X_OK):
        raise SystemExit(f"there is no {options.stillframe}: run cargo build --profile dist --features measure")
    if "/debug/" in options.stillframe:
        say("WARNING: this is a debug build; its figures mean nothing")


def main():
    options = parse_arguments()
    check(options)
    if options.dir:
        pathlib.Path(options.dir).mkdir(parents=True, exist_ok=True)
    if os.getloadavg()[0] > 0.5:
        say(f"WARNING: the machine is busy (load {os.getloadavg()[0]:.1f})")
    results = {"machine": machine(), "load_before": os.getloadavg(), "options": vars(options)}
    print(f"# Figures\n\n{results['machine']}. {options.rounds} rounds, interleaved; median "
          "(lowest to highest).")
    for part in options.parts:
        measure, report = PARTS[part]
        own = options_of(part, options)
        results[part] = measure(own)
        report(results[part], own)
        sys.stdout.flush()
        if options.out:
            # After each part: an hour of figures is not lost to the last minute.
            pathlib.Path(options.out).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
