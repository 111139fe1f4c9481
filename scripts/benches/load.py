"""Throughput, saves, full syncs by `stillframe load`, and the memory of elements.

What a server does not offer is reported as such.
"""

import contextlib
import json
import pathlib
import random
import statistics
import subprocess
import threading
import time

from benches.servers import RIVALS, Server, dialect, encode, in_turns, key_name, say, spread, title

OPERATIONS = {
    "SET": ("string", "1:0"), "GET": ("string", "0:1"), "HSET": ("hash", "1:0"),
    "LPUSH": ("list", "1:0"), "ZADD": ("zset", "1:0"),
}


class NotOffered(Exception):
    """The server lacks a command."""


def start_load(server, options, *words, unix=False):
    line = ["nice", "-n", str(options.nice)] if options.nice else []
    target = f"unix:{server.socket}" if unix else f"127.0.0.1:{server.port}"
    line += [options.stillframe, "load", "--target", target, "--json", "-"]
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


def load(server, options, *words, unix=False):
    return finish_load(start_load(server, options, *words, unix=unix))


def cases(options):
    """What is measured of an operation: bytes of a value, queries at once, by a unix socket."""
    return [(size, depth, unix) for unix in ([False, True] if options.unix else [False])
            for size in options.value_sizes for depth in options.depths]


def measure_case(server, operation, case, turn, options, figures):
    """One operation, added to the figures: queries a second, and microseconds of the server's
    processor time for each. The server is new and has all keys, of the case's size; LPUSH begins
    with no list."""
    workload, ratio = OPERATIONS[operation]
    size, depth, unix = case
    words = ["--clients", 50, "--pipeline", depth,
             "--keys", options.throughput_keys, "--value-size", size,
             "--workload", workload, "--ratio", ratio, "--seed", turn + 1]
    try:
        if operation == "GET":
            words += ["--protocol-check"]
        if operation != "LPUSH":
            load(server, options, *words, "--fill", "--rate", 100, "--duration", "10ms")
        words += ["--rate", "max", "--duration", f"{options.throughput_ms}ms"]
        # Beside one contender of each round, so that it takes turns, too.
        if server.name == options.contenders[0] and operation == "SET":
            words += ["--null-server"]
        before = server.processor_us()
        report = load(server, options, *words, unix=unix)
        each = (server.processor_us() - before) / report["answered"]
        # The length of the run, since a last batch may end after it.
        rate = report["answered"] / report["elapsed_s"]
        figures.setdefault(server.name, []).append((rate, each))
        if report["floor"]:
            figures.setdefault("null", []).append((report["floor"]["rate"], None))
    except NotOffered as lacking:
        say(f"{server.name}: {operation}: {lacking}")
        figures[server.name] = None


def measure_throughput(options):
    """Queries a second by operation and case, contender, round; None: not offered. Each case has a
    server of its own, so that none pays for memory that others took or left, and contenders take
    turns case by case."""
    results = {}
    for turn in range(options.rounds):
        for operation in options.operations:
            for case in cases(options):
                size, depth, unix = case
                by = ", unix socket" if unix else ""
                figures = results.setdefault(f"{operation}, {size} B, depth {depth}{by}", {})
                for name in in_turns(options.contenders, turn):
                    server = Server(name, options)
                    try:
                        measure_case(server, operation, case, turn, options, figures)
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
    kept["begin_usec"] = server.begin_usec()
    if kept["seconds"] is None:
        say(f"{server.name}: the save did not end within {options.idle_seconds} s: "
            "give more --idle-seconds")
    return kept


def full_words(options, seconds):
    """SET as fast as replies come."""
    return ["--rate", "max", "--clients", 16, "--pipeline", 16, "--keys", options.keys,
            "--value-size", options.value_size, "--duration", f"{round(seconds * 1000)}ms"]


def measure_memory(server, options, words):
    """Bytes before, and at the peak of a save under a load; its latencies are not taken."""
    running = start_load(server, options, *words(options, 1.9 * options.idle_seconds))
    time.sleep(min(2, options.idle_seconds / 4))
    before = peak = server.memory()
    server.client.call("BGSAVE")
    while server.saving():
        peak = max(peak, server.memory())
        time.sleep(0.05)
    report = finish_load(running)
    server.saved_well()
    return {"before": before, "peak": peak,
            "writes_per_s": report["answered"] / report["elapsed_s"]}


def verify(server, options):
    """What was timed is what was asked for: keys, values, and a dump that redis-check-rdb takes."""
    report = load(server, options, "--ratio", "0:1", "--protocol-check", "--rate", 1000,
                  "--keys", options.keys, "--value-size", options.value_size,
                  "--duration", "1000ms")
    keys = server.client.call("DBSIZE") - server.client.call("EXISTS", "load:hash")
    if report["missing"] or keys != options.keys:
        raise SystemExit(f"{server.name}: {keys} keys instead of {options.keys}, "
                         f"{report['missing']} reads found no value")
    server.client.call("SAVE")
    # A server checks dumps under that name. Those of later servers have versions of their own.
    reader = dialect(server.name)
    name = reader.removesuffix("-8")
    words = [f"{name}-check-rdb", server.folder / "dump.rdb"]
    check = subprocess.run(words, executable=RIVALS[reader], capture_output=True)
    if check.returncode != 0 or b"RDB looks OK" not in check.stdout:
        raise SystemExit(f"{server.name}: {name}-check-rdb refuses its dump")
    say(f"{server.name}: keys, values and dump verified")


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
    results = {"first": {}, "string": {}, "hash": {}, "memory": {}, "memory_full": {}}
    servers = {}
    try:
        for name in options.contenders:
            servers[name] = Server(name, options)
            fill_strings(servers[name], options)
            # A first save touches what no other does: it has a table of its own.
            results["first"][name] = [measure_save(servers[name], options, False, "first")]
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
                for part, words in (("memory", set_words), ("memory_full", full_words)):
                    kept = measure_memory(servers[name], options, words)
                    results[part].setdefault(name, []).append(kept)
            say(f"memory: round {turn + 1}")
        for server in servers.values():
            verify(server, options)
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
    # A replica speaks the dialect of its primary.
    replica = Server(dialect(server.name), options)
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
        key = key_name(choose.randrange(options.keys))
        if server.client.call("GET", key) != replica.client.call("GET", key):
            raise SystemExit(f"{server.name}: its replica has another value of {key.decode()}")


def measure_syncs(options):
    results = {}
    lacking = set()
    for turn in range(options.rounds):
        for name in in_turns(options.contenders, turn):
            if name in lacking:
                continue
            server = Server(name, options)
            try:
                if name in RIVALS:
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


# Unix milliseconds, in the year 2100.
LATE = 4_102_444_800_000


def small_hash(key):
    """Requests that make a hash of ten fields, and let them expire."""
    fields = [b"field:%d" % at for at in range(10)]
    pairs = [part for field in fields for part in (field, b"value:" + field)]
    return [("HSET", key, *pairs), ("HPEXPIREAT", key, LATE, "FIELDS", 10, *fields)]


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
        # The same, and each field expires.
        "one hash, fields expire": (million, [request for start in batches for request in (
            ("HSET", "h", *some(start, lambda at: (b"field:%d" % at, value % at))),
            ("HPEXPIREAT", "h", LATE, "FIELDS", 500,
             *some(start, lambda at: (b"field:%d" % at,))))]),
        "hashes of 10, fields expire": (million, [request for at in range(million // 10)
                                                  for request in small_hash(b"hash:%d" % at)]),
        "hashes of 10": (million, [small_hash(b"hash:%d" % at)[0] for at in range(million // 10)]),
        "sorted sets of 10": (million, [
            ("ZADD", b"zset:%d" % at, *[word for part in range(10)
                                        for word in (at % 50 + 7 * part, b"member:%d" % part)])
            for at in range(million // 10)]),
        "lists of 20": (million * 2, [("RPUSH", b"list:%d" % at, *[value % part
                                                                  for part in range(20)])
                                      for at in range(million // 10)]),
    }


def measure_elements(options):
    """Bytes an element takes, by shape and contender."""
    results = {}
    for shape, (elements, requests) in shapes(options.scale).items():
        for name in options.contenders:
            server = Server(name, options)
            try:
                command = requests[-1][0]
                if not server.client.call("COMMAND", "INFO", command)[0]:
                    continue
                before = server.memory()
                for start in range(0, len(requests), 1000):
                    batch = requests[start:start + 1000]
                    server.client.socket.sendall(b"".join(encode(*it) for it in batch))
                    for _ in batch:
                        server.client.reply()
                time.sleep(1)  # what is freed in the background is freed
                figure = (server.memory() - before) / elements
                results.setdefault(shape, {})[name] = figure
            finally:
                server.stop()
        say(f"memory: {shape}")
    return results


def measure_growth(options):
    """By contender: bytes a key, seconds of the fill, and the milliseconds of each command that took
    over one, while a server grows key by key; seconds of a SAVE then, and of a start from that."""
    results = {}
    for name in options.contenders:
        server = Server(name, options, ["--rdbcompression", "no"])
        try:
            for words in (("slowlog-log-slower-than", 1000), ("slowlog-max-len", 100_000)):
                server.client.call("CONFIG", "SET", *words)
            before, began = server.memory(), time.monotonic()
            fill_strings(server, options)
            took = time.monotonic() - began
            each = (server.memory() - before) / options.keys
            slow = [entry[2] / 1000 for entry in server.client.call("SLOWLOG", "GET", 100_000)]
            began = time.monotonic()
            server.client.call("SAVE")
            save = time.monotonic() - began
            server.restart()
            if (keys := server.client.call("DBSIZE")) != options.keys:
                raise SystemExit(f"{name} has loaded {keys} of {options.keys} keys")
            start = server.start_s
            results[name] = {"bytes": each, "seconds": took, "slow_ms": slow, "save_s": save,
                             "start_s": start, "left": memory_of_a_tenth(server, options) - before}
        finally:
            server.stop()
    return results


def memory_of_a_tenth(server, options):
    """Bytes that a server takes half a minute after nine of ten keys are deleted, any ones. Rivals
    defragment if they can."""
    with contextlib.suppress(SystemExit):
        server.client.call("CONFIG", "SET", "activedefrag", "yes")
    numbers = [number for number in range(options.keys) if number % 10 != 7]
    random.Random(1).shuffle(numbers)
    for start in range(0, len(numbers), 1000):
        names = [key_name(number) for number in numbers[start:start + 1000]]
        server.client.call("DEL", *names)
    keys = server.client.call("DBSIZE")
    if keys != options.keys - len(numbers):
        raise SystemExit(f"{keys} keys are left")
    time.sleep(30)
    return server.memory()


def report_growth(results, options):
    print(f"\n## Growing to {options.keys:,} keys, values of {options.value_size} bytes\n")
    print("| server | bytes a key | seconds | commands over 1 ms | longest, ms | SAVE, s | start, s "
          "| bytes a key of a tenth, the others deleted |")
    print("|---|---|---|---|---|---|---|---|")
    for name, one in results.items():
        longest = f"{max(one['slow_ms']):.1f}" if one["slow_ms"] else "-"
        print(f"| {title(name)} | {one['bytes']:.1f} | {one['seconds']:.1f} "
              f"| {len(one['slow_ms'])} | {longest} | {one['save_s']:.1f} | {one['start_s']:.1f} "
              f"| {one['left'] / (options.keys // 10):.1f} |")


def ratios(figures, names):
    """Ours to each rival's, of medians."""
    middle = {name: statistics.median(values) for name, values in figures.items() if values}
    mine = middle.get("imprint")
    return [f"{mine / middle[name]:.2f}" if mine and name in middle else "-" for name in names]


def report_elements(results, options):
    names, rivals = options.contenders, [it for it in options.contenders if it in RIVALS]
    heads = [title(name) for name in names] + [f"to {it}" for it in rivals]
    print("\n## Memory, bytes an element (proportional set size, less that of an empty server)\n")
    print(f"| shape | {' | '.join(heads)} |\n{'|---' * (len(heads) + 1)}|")
    for shape, figures in results.items():
        shown = [f"{figures[name]:.1f}" if name in figures else "-" for name in names]
        by_name = {name: [figure] for name, figure in figures.items()}
        print(f"| {shape} | {' | '.join(shown + ratios(by_name, rivals))} |")


def report_throughput(results, options):
    names, rivals = options.contenders, [it for it in options.contenders if it in RIVALS]
    heads = [title(name) for name in names] + ["null server"] + [f"to {it}" for it in rivals]
    lines = "|---" * (len(heads) + 1) + "|"
    print("\n## Throughput, thousand queries a second "
          "(`stillframe load --rate max`, 50 connections)\n")
    print(f"| operation | {' | '.join(heads)} |\n{lines}")
    for test, figures in results.items():
        rates = {name: [rate / 1000 for rate, _ in values]
                 for name, values in figures.items() if values}
        shown = [spread(rates[name], "{:,.1f}") if name in rates else "-"
                 for name in [*names, "null"]]
        print(f"| {test} | {' | '.join(shown + ratios(rates, rivals))} |")
    heads = [title(name) for name in names] + [f"to {it}" for it in rivals]
    lines = "|---" * (len(heads) + 1) + "|"
    print("\n## Processor time of the server for a query, microseconds\n")
    print(f"| operation | {' | '.join(heads)} |\n{lines}")
    for test, figures in results.items():
        times = {name: [each for _, each in values] for name, values in figures.items()
                 if values and name != "null"}
        shown = [spread(times[name], "{:.2f}") if name in times else "-" for name in names]
        print(f"| {test} | {' | '.join(shown + ratios(times, rivals))} |")


def report_latency(title, busy, results):
    print(f"\n## {title}\n")
    print(f"| server | normal p99, ms | {busy} p99, ms | p99 ratio | normal max, ms "
          f"| {busy} max, ms | normal, over 5 ms a million | {busy}, over 5 ms a million "
          f"| {busy}, s | begin (fork), us | late sends |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|")
    floors = []
    for name, rounds in results.items():
        whole = [one for one in rounds if one["normal"] and one[busy]]
        floors += [one["floor"] for one in whole if one["floor"]]
        if not whole:
            print(f"| {name} | no phase was seen | | | | | | | | | |")
            continue
        pick = lambda where, what, by=1e3, form="{:.2f}": spread(
            [it[where][what] / by for it in whole], form)
        ratio = spread([it[busy]["p99_us"] / it["normal"]["p99_us"] for it in whole], "{:.2f}")
        ended = [it["seconds"] for it in whole if it["seconds"] is not None]
        begins = [it["begin_usec"] for it in whole if "begin_usec" in it]
        late = sum(it["late_own"] for it in whole) / max(1, sum(it["sent"] for it in whole))
        print(f"| {name} | {pick('normal', 'p99_us')} | {pick(busy, 'p99_us')} | {ratio} "
              f"| {pick('normal', 'max_us')} | {pick(busy, 'max_us')} "
              f"| {pick('normal', 'over_5_ms', 1, '{:.0f}')} "
              f"| {pick(busy, 'over_5_ms', 1, '{:.0f}')} "
              f"| {spread(ended, '{:.1f}') if ended else '-'} "
              f"| {spread(begins) if begins else '-'} | {late:.2%} |")
    if floors:
        pick = lambda what, by, form: spread([it[what] / by for it in floors], form)
        print(f"| null server | {pick('p99_us', 1e3, '{:.2f}')} "
              f"| | | {pick('max_us', 1e3, '{:.2f}')} "
              f"| | {pick('over_5_ms', 1, '{:.0f}')} | | | | |")


def load_of(options):
    return f"SET at {options.rate:,}/s, {options.keys:,} keys of {options.value_size} bytes"


def report_saving(saving, options):
    report_latency("The first save after a start", "saving", saving["first"])
    report_latency(f"While saving: {load_of(options)}", "saving", saving["string"])
    beside = f"one client HSETs into {options.fields:,} fields at {options.hash_rate:,}/s"
    report_latency(f"The same while {beside}: the SETs", "saving", saving["hash"])
    hashes = {name: [it["hash"] for it in rounds] for name, rounds in saving["hash"].items()}
    report_latency("The same: the HSETs", "saving", hashes)
    report_memory("Memory of such a save", saving["memory"])
    report_memory("Memory of a save under SETs at full speed", saving["memory_full"])


def report_memory(title, memory):
    print(f"\n## {title}, MiB (server and children)\n")
    print("| server | before | peak | peak / before | writes/s |\n|---|---|---|---|---|")
    for name, rounds in memory.items():
        mib = lambda what: spread([it[what] / (1 << 20) for it in rounds])
        ratio = spread([it["peak"] / it["before"] for it in rounds], "{:.2f}")
        writes = spread([it["writes_per_s"] for it in rounds])
        print(f"| {name} | {mib('before')} | {mib('peak')} | {ratio} | {writes} |")


def report_syncs(results, options):
    title = f"While a replica gets a full sync: {load_of(options)}"
    report_latency(title, "syncing", results)
