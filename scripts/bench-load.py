#!/usr/bin/env python3
"""Measures `stillframe serve` beside the real redis-server with `stillframe load`, in one run.

Contenders take turns, round by round, so that whatever else the machine does hits all of them; the
figures to look at are the ratios. Medians of the rounds, the lowest and highest beside them:

  1. throughput: SET, GET, HSET (one hash), LPUSH (one list), ZADD (one set), one query at a time
     and 16 pipelined, 50 connections, as fast as answers come;
  2. saving: SET at a fixed rate (open loop, latency from the intended time) without and with a
     background save of the whole dataset; the same while one more client changes one large hash;
     beside each round the same load on a null server, which only answers: what this machine and
     the generator do to latency by themselves. Memory (proportional set size of server and
     children) in saves of their own, since to read it holds the server up;
  3. full sync: the same load while a real redis-server becomes a replica and gets everything;
  4. memory (only if asked for by --parts memory; two minutes): bytes an element takes in small
     strings, a large hash, a large set, a large sorted set, and small lists.

What is timed is verified: numbers of keys, every GET, the replica's keys and values. What a server
does not offer is told as such. Needs redis-server (scripts/install-peers.sh) and a release build
(cargo build --release). At full size: about an hour, 12 GB of memory.

    scripts/bench-load.py --out figures.json > figures.md
    scripts/bench-load.py --tiny --stillframe target/debug/stillframe    # tries the script out
"""

import argparse
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
LOADER = importlib.machinery.SourceFileLoader("bench_server", str(HERE / "bench-server.py"))
SPEC = importlib.util.spec_from_loader("bench_server", LOADER)
base = importlib.util.module_from_spec(SPEC)
LOADER.exec_module(base)
say, spread = base.say, base.spread

OPERATIONS = {
    "SET": ("string", "1:0"), "GET": ("string", "0:1"), "HSET": ("hash", "1:0"),
    "LPUSH": ("list", "1:0"), "ZADD": ("zset", "1:0"),
}
DEPTHS = (1, 16)


class NotOffered(Exception):
    """The server lacks a command."""


def start_load(server, options, *words):
    line = ["nice", "-n", str(options.nice)] if options.nice else []
    line += [options.stillframe, "load", "--target", f"127.0.0.1:{server.port}", "--json", "-"]
    return subprocess.Popen(line + [str(word) for word in words], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish_load(process):
    """The report of a load; a lacking command is no failure of the script."""
    out, said = process.communicate()
    last = said.strip().splitlines()[-1] if said.strip() else "it said nothing"
    if process.returncode != 0 and "unknown command" in last:
        raise NotOffered(last)
    # Queries that came too late are a finding; errors and wrong answers are not.
    if not out or (process.returncode != 0 and "no answer" not in last):
        raise SystemExit(f"a load failed: {last}")
    return json.loads(out)


def load(server, options, *words):
    return finish_load(start_load(server, options, *words))


def in_turns(names, turn):
    return names[turn % len(names):] + names[:turn % len(names)]


def measure_operation(server, operation, turn, options, results):
    """One operation at every depth, added to the results."""
    workload, ratio = OPERATIONS[operation]
    for depth in DEPTHS:
        figures = results.setdefault(f"{operation}, depth {depth}", {})
        words = ["--rate", "max", "--clients", 50, "--pipeline", depth,
                 "--keys", options.throughput_keys, "--value-size", 64,
                 "--workload", workload, "--ratio", ratio, "--seed", turn + 1,
                 "--duration", f"{options.throughput_ms}ms"]
        if operation == "GET":
            words += ["--fill", "--protocol-check"]
        try:
            report = load(server, options, *words)
            # The length of the run, since a last batch may end after it.
            rate = report["answered"] / report["elapsed_s"]
            figures.setdefault(server.name, []).append(rate)
        except NotOffered as lacking:
            say(f"{server.name}: {operation}: {lacking}")
            figures[server.name] = None


def measure_throughput(options):
    """Queries a second by operation and depth, contender, round; None: not offered."""
    results = {}
    for turn in range(options.rounds):
        for name in in_turns(options.contenders, turn):
            server = base.Server(name, options)
            try:
                for operation in OPERATIONS:
                    measure_operation(server, operation, turn, options, results)
            finally:
                server.stop()
        say(f"throughput: round {turn + 1} of {options.rounds}")
    return results


def page_words(options, *name):
    """The page of a run, if pages are kept."""
    if not options.pages:
        return []
    pathlib.Path(options.pages).mkdir(parents=True, exist_ok=True)
    return ["--html", pathlib.Path(options.pages) / f"{'-'.join(map(str, name))}.html"]


def set_words(options, seconds):
    return ["--rate", options.rate, "--clients", 50, "--keys", options.keys,
            "--value-size", options.value_size, "--duration", f"{round(seconds * 1000)}ms"]


def hash_words(options, seconds):
    return ["--workload", "hash", "--rate", options.hash_rate, "--clients", 1,
            "--keys", options.fields, "--value-size", 64,
            "--duration", f"{round(seconds * 1000)}ms"]


def phase(report, name):
    return next((it for it in report["phases"] if it["phase"] == name), None)


def slower(one, than_ms):
    """Queries that took longer."""
    return next(it["count"] for it in one["slower"] if it["than_ms"] == than_ms)


def figures_of(report, busy):
    """What is kept of one run: normal operation, the busy phase, and what makes it doubtful."""
    kept = {"late_own": report["late"]["own"], "held": report["late"]["held"],
            "sent": report["sent"], "unanswered": report["unanswered"],
            "cpu_share": report["cpu_share"]}
    for name, one in (("normal", phase(report, "normal")), (busy, phase(report, busy)),
                      ("floor", report["floor"])):
        kept[name] = one and {**one["latency"], "count": one["count"],
                              "over_5_ms": slower(one, 5) / one["count"] * 1e6}
    stretches = report["saves" if busy == "saving" else "syncs"]
    ended = [it for it in stretches if it["to_ns"] is not None]
    kept["seconds"] = (ended[0]["to_ns"] - ended[0]["from_ns"]) / 1e9 if ended else None
    return kept


def measure_save(server, options, with_hash, turn):
    """One round: half of the time idle, and a save in the other half."""
    seconds = 1.9 * options.idle_seconds
    words = set_words(options, seconds) + [
        "--bgsave-every", f"{round(options.idle_seconds * 1000)}ms"]
    words += page_words(options, "hash" if with_hash else "string", server.name, turn)
    words += ["--null-server"]
    beside = start_load(server, options, *hash_words(options, seconds)) if with_hash else None
    report = load(server, options, *words)
    kept = figures_of(report, "saving")
    if beside:
        kept["hash"] = figures_of(finish_load(beside), "saving")
    deadline = time.monotonic() + 600
    while server.saving() and time.monotonic() < deadline:
        time.sleep(0.05)
    server.saved_well()
    if kept["seconds"] is None:
        say(f"{server.name}: the save did not end within {options.idle_seconds} s: "
            "give more --idle-seconds")
    return kept


def measure_memory(server, options):
    """Bytes before, and at the peak of a save under the same load; its latencies are not taken."""
    seconds = 1.9 * options.idle_seconds
    running = start_load(server, options, *set_words(options, seconds))
    time.sleep(min(2, options.idle_seconds / 4))
    before = peak = server.memory()
    server.client.call("BGSAVE")
    while server.saving():
        peak = max(peak, server.memory())
        time.sleep(0.05)
    finish_load(running)
    return {"before": before, "peak": peak}


def has_hash(server, options):
    """Fills the one large hash, if the server has hashes."""
    try:
        load(server, options, "--workload", "hash", "--fill", "--keys", options.fields,
             "--value-size", 64, "--rate", 100, "--clients", 1, "--duration", "100ms")
    except NotOffered as lacking:
        say(f"{server.name}: no hashes: {lacking}")
        return False
    return True


def fill_strings(server, options):
    load(server, options, "--fill", "--keys", options.keys, "--value-size", options.value_size,
         "--rate", 100, "--clients", 1, "--duration", "100ms")
    size = server.client.call("DBSIZE")
    if size != options.keys:
        raise SystemExit(f"{server.name}: {size} keys instead of {options.keys}")
    say(f"{server.name} holds {size} keys")


def measure_saving(options):
    results = {"string": {}, "hash": {}, "memory": {}}
    servers = {}
    try:
        for name in options.contenders:
            servers[name] = base.Server(name, options)
            fill_strings(servers[name], options)
            # A first save warms what only the first one touches; its figures are not taken.
            measure_save(servers[name], options, False, "warm")
        for part in ("string", "hash"):
            ready = list(options.contenders)
            if part == "hash":
                ready = [name for name in ready if has_hash(servers[name], options)]
            for turn in range(options.rounds):
                for name in in_turns(ready, turn) if ready else []:
                    kept = measure_save(servers[name], options, part == "hash", turn)
                    results[part].setdefault(name, []).append(kept)
                say(f"saving, {part}: round {turn + 1} of {options.rounds}")
        for turn in range(min(options.rounds, 3)):
            for name in in_turns(options.contenders, turn):
                kept = measure_memory(servers[name], options)
                results["memory"].setdefault(name, []).append(kept)
            say(f"memory: round {turn + 1}")
    finally:
        for server in servers.values():
            server.stop()
    return results


def wait_for(what, seconds, condition):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise NotOffered(f"{what} did not happen in {seconds} s")
        time.sleep(0.05)


def measure_sync(server, options, turn):
    """One round: a new replica gets everything in the middle of a load."""
    replica = base.Server("redis", options)
    try:
        replica.client.call("CONFIG", "SET", "repl-diskless-load", "disabled")
        seconds = 2 * options.idle_seconds
        words = set_words(options, seconds) + page_words(options, "sync", server.name, turn)
        running = start_load(server, options, *words)

        def replicate():
            time.sleep(options.idle_seconds / 2)
            replica.client.call("REPLICAOF", "127.0.0.1", server.port)

        helper = threading.Thread(target=replicate)
        helper.start()
        report = finish_load(running)
        helper.join()
        up = lambda: replica.client.info("master_link_status")[0] == "up"
        wait_for("the replica's link", options.sync_seconds, up)
        same = lambda: (replica.client.info("master_repl_offset")
                        == server.client.info("master_repl_offset"))
        wait_for("an equal offset", 60, same)
        verify_replica(server, replica, options)
        return figures_of(report, "syncing")
    finally:
        replica.stop()


def verify_replica(server, replica, options):
    sizes = [it.client.call("DBSIZE") for it in (server, replica)]
    if sizes[0] != sizes[1]:
        raise SystemExit(f"{server.name}: {sizes[0]} keys, its replica {sizes[1]}")
    choose = random.Random(2)
    for _ in range(2000):
        key = base.key_name(choose.randrange(options.keys))
        if server.client.call("GET", key) != replica.client.call("GET", key):
            raise SystemExit(f"{server.name}: its replica has another value of {key.decode()}")


def measure_syncs(options):
    results = {}
    lacking = set()
    for turn in range(options.rounds):
        for name in in_turns(options.contenders, turn):
            if name in lacking:
                continue
            server = base.Server(name, options)
            try:
                if name == "redis":
                    server.client.call("CONFIG", "SET", "repl-diskless-sync-delay", 0)
                # What is written while the replica loads must fit: else redis-server cuts it
                # off again and again, and ours lets writers wait.
                server.client.call("CONFIG", "SET", "client-output-buffer-limit", "replica 0 0 0")
                fill_strings(server, options)
                kept = measure_sync(server, options, turn)
                results.setdefault(name, []).append(kept)
            except NotOffered as why:
                say(f"{name}: no full sync: {why}")
                lacking.add(name)
            finally:
                server.stop()
        say(f"full sync: round {turn + 1} of {options.rounds}")
    return results


def shapes(scale):
    """Requests that make a million elements, divided by scale, of each shape."""
    million = 1_000_000 // scale
    value = b"value:%010d"
    some = lambda start, make: [part for at in range(start, start + 500) for part in make(at)]
    batches = range(0, million, 500)
    return {
        "small strings": (million, [("SET", b"key:%012d" % at, value % at)
                                    for at in range(million)]),
        "one hash": (million, [("HSET", "h", *some(start, lambda at: (b"field:%d" % at,
                                                                      value % at)))
                               for start in batches]),
        "one set": (million, [("SADD", "s", *some(start, lambda at: (b"member:%d" % at,)))
                              for start in batches]),
        "one sorted set": (million, [("ZADD", "z", *some(start, lambda at: (at % 5000 / 4,
                                                                            b"member:%d" % at)))
                                     for start in batches]),
        "lists of 20": (million * 2, [("RPUSH", b"list:%d" % at, *[value % part
                                                                  for part in range(20)])
                                      for at in range(million // 10)]),
    }


def measure_elements(options):
    """Bytes an element takes, by shape and contender."""
    results = {}
    for shape, (elements, requests) in shapes(100 if options.tiny else 1).items():
        for name in options.contenders:
            server = base.Server(name, options)
            try:
                before = server.memory()
                for start in range(0, len(requests), 1000):
                    batch = requests[start:start + 1000]
                    server.client.socket.sendall(b"".join(base.encode(*it) for it in batch))
                    for _ in batch:
                        server.client.reply()
                time.sleep(1)  # what is freed in the background is freed
                figure = (server.memory() - before) / elements
                results.setdefault(shape, {})[name] = figure
            finally:
                server.stop()
        say(f"memory: {shape}")
    return results


def report_elements(results):
    print("\n## Memory, bytes an element (proportional set size, less that of an empty server)\n")
    print("| shape | redis-server | stillframe (imprint) | ratio |\n|---|---|---|---|")
    for shape, figures in results.items():
        ours, theirs = figures.get("imprint"), figures.get("redis")
        shown = [f"{figure:.1f}" if figure else "-" for figure in (theirs, ours)]
        ratio = f"{ours / theirs:.2f}" if ours and theirs else "-"
        print(f"| {shape} | {shown[0]} | {shown[1]} | {ratio} |")


def report_throughput(results):
    print("## Throughput, queries a second (`stillframe load --rate max`, 50 connections)\n")
    print("| operation | redis-server | stillframe (imprint) | ratio |\n|---|---|---|---|")
    for test, figures in results.items():
        shown = {name: spread(values) if values else "not offered"
                 for name, values in figures.items()}
        ours, theirs = figures.get("imprint"), figures.get("redis")
        ratio = f"{statistics.median(ours) / statistics.median(theirs):.2f}" \
            if ours and theirs else "-"
        print(f"| {test} | {shown.get('redis', '-')} | {shown.get('imprint', '-')} | {ratio} |")


def report_latency(title, busy, results):
    print(f"\n## {title}\n")
    print(f"| server | normal p99, ms | {busy} p99, ms | p99 ratio | normal max, ms "
          f"| {busy} max, ms | normal, over 5 ms a million | {busy}, over 5 ms a million "
          f"| {busy}, s | late sends |\n|---|---|---|---|---|---|---|---|---|---|")
    floors = []
    for name, rounds in results.items():
        whole = [one for one in rounds if one["normal"] and one[busy]]
        floors += [one["floor"] for one in whole if one["floor"]]
        if not whole:
            print(f"| {name} | no phase was seen | | | | | | | | |")
            continue
        pick = lambda where, what, by=1e3, form="{:.2f}": spread(
            [it[where][what] / by for it in whole], form)
        ratio = spread([it[busy]["p99_us"] / it["normal"]["p99_us"] for it in whole], "{:.2f}")
        ended = [it["seconds"] for it in whole if it["seconds"] is not None]
        late = sum(it["late_own"] for it in whole) / max(1, sum(it["sent"] for it in whole))
        print(f"| {name} | {pick('normal', 'p99_us')} | {pick(busy, 'p99_us')} | {ratio} "
              f"| {pick('normal', 'max_us')} | {pick(busy, 'max_us')} "
              f"| {pick('normal', 'over_5_ms', 1, '{:.0f}')} "
              f"| {pick(busy, 'over_5_ms', 1, '{:.0f}')} "
              f"| {spread(ended, '{:.1f}') if ended else '-'} | {late:.2%} |")
    if floors:
        pick = lambda what, by, form: spread([it[what] / by for it in floors], form)
        print(f"| null server | {pick('p99_us', 1e3, '{:.2f}')} "
              f"| | | {pick('max_us', 1e3, '{:.2f}')} "
              f"| | {pick('over_5_ms', 1, '{:.0f}')} | | | |")


def report(results, options):
    print(f"# Server figures under load\n\n{results['machine']}. {options.rounds} rounds, "
          "interleaved; median (lowest to highest).\n")
    if results["throughput"]:
        report_throughput(results["throughput"])
    load_of = (f"SET at {options.rate:,}/s, {options.keys:,} keys of {options.value_size} bytes")
    saving = results["saving"]
    if saving:
        report_latency(f"While saving: {load_of}", "saving", saving["string"])
        beside = f"one client HSETs into {options.fields:,} fields at {options.hash_rate:,}/s"
        report_latency(f"The same while {beside}: the SETs", "saving", saving["hash"])
        hashes = {name: [it["hash"] for it in rounds] for name, rounds in saving["hash"].items()}
        report_latency("The same: the HSETs", "saving", hashes)
        print("\n## Memory of such a save, MiB (server and children)\n")
        print("| server | before | peak | peak / before |\n|---|---|---|---|")
        for name, rounds in saving["memory"].items():
            mib = lambda what: spread([it[what] / (1 << 20) for it in rounds])
            ratio = spread([it["peak"] / it["before"] for it in rounds], "{:.2f}")
            print(f"| {name} | {mib('before')} | {mib('peak')} | {ratio} |")
    if results["memory"]:
        report_elements(results["memory"])
    if results["sync"]:
        report_latency(f"While a replica gets a full sync: {load_of}", "syncing", results["sync"])


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")
    parser.add_argument("--stillframe", default=str(pathlib.Path(target) / "release/stillframe"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--contenders", nargs="+", default=["redis", "imprint"],
                        choices=base.CONTENDERS)
    parser.add_argument("--parts", nargs="+", default=["throughput", "saving", "sync"],
                        choices=["throughput", "saving", "sync", "memory"])
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--value-size", type=int, default=1024)
    parser.add_argument("--rate", type=int, default=30_000, help="SETs a second")
    parser.add_argument("--fields", type=int, default=1_000_000)
    parser.add_argument("--hash-rate", type=int, default=5_000, help="HSETs a second")
    parser.add_argument("--idle-seconds", type=float, default=25,
                        help="before the save; the save must end in as much")
    parser.add_argument("--sync-seconds", type=float, default=120)
    parser.add_argument("--throughput-keys", type=int, default=100_000)
    parser.add_argument("--throughput-ms", type=int, default=4000)
    parser.add_argument("--nice", type=int, default=0,
                        help="priority of the load, -20 to 19; root may give less than 0, so that "
                             "the generator is not what waits for a core")
    parser.add_argument("--pages", help="a folder for the page of each run")
    parser.add_argument("--tiny", action="store_true", help="small sizes, one round: no figures")
    parser.add_argument("--dir", help="where the servers keep their files [a temporary folder]")
    parser.add_argument("--out", help="a file for all figures as JSON")
    options = parser.parse_args()
    if options.tiny:
        options.rounds, options.keys, options.fields = 1, 20_000, 2_000
        options.rate, options.hash_rate, options.idle_seconds = 1_000, 200, 1.5
        options.throughput_keys, options.throughput_ms, options.sync_seconds = 1_000, 200, 10
    return options


def main():
    options = parse_arguments()
    for tool in ("redis-server",):
        if shutil.which(tool) is None:
            raise SystemExit(f"there is no {tool} here: run scripts/install-peers.sh")
    if not os.access(options.stillframe, os.X_OK):
        raise SystemExit(f"there is no {options.stillframe}: run cargo build --release")
    if "/debug/" in options.stillframe:
        say("WARNING: this is a debug build; its figures mean nothing")
    if os.getloadavg()[0] > 0.5:
        say(f"WARNING: the machine is busy (load {os.getloadavg()[0]:.1f})")
    results = {"machine": base.machine(), "load_before": os.getloadavg(),
               "options": vars(options)}
    parts = {"throughput": measure_throughput, "saving": measure_saving, "sync": measure_syncs,
             "memory": measure_elements}
    for part, measure in parts.items():
        results[part] = measure(options) if part in options.parts else {}
        if options.out:
            # After each part: an hour of figures is not lost to the last minute.
            pathlib.Path(options.out).write_text(json.dumps(results, indent=1) + "\n")
    report(results, options)


if __name__ == "__main__":
    main()
