"""A save seen by generators that are not ours.

SET at a fixed rate by a process in Python, an open loop that counts each latency from the intended
time of sending, while the server is idle and while it saves; then the memory (proportional set size
of the server and its children) of a save while redis-benchmark overwrites the keys. The keys, a
sample of values and each contender's last dump (redis-check-rdb) are verified.
"""

import multiprocessing
import os
import random
import subprocess
import time

from benches.servers import Client, Server, encode, in_turns, key_name, say, spread

ASK_SECONDS = 0.2


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


def ping_in_open_loop(port, options, stop, out):
    """Sends SETs at a fixed rate until `stop` is set; sends back (intended time, latency) pairs."""
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


def measure(options):
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
            for server in in_turns(servers, turn):
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
    return {"latency": latency, "memory": memory}


def report(results, options):
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
