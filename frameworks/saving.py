#!/usr/bin/env python3
"""BullMQ under load while the server saves back to back: the latency of jobs, beside others.

    frameworks/saving.py --server target/release/stillframe

Stillframe, redis-server and, where scripts/install-peers.sh has put it, valkey-server take turns,
round by round, each with the same data and the same jobs. A job's latency counts from the moment at
which it is due to its worker. The result is a table in Markdown: of each figure the median of the
rounds, with the lowest and the highest. `run.py bullmq_jobs` installs the packages.
"""
import concurrent.futures
import json
import os
import socket
import subprocess
import threading

import run
import turns

FILL_BATCH = 1000
LOAD_SECONDS = 300


def fill(server, keys):
    """Keys of 1 KiB, which make a save long."""
    value = b"x" * 1024
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        replies = connection.makefile("rb")
        for start in range(0, keys, FILL_BATCH):
            batch = range(start, min(start + FILL_BATCH, keys))
            connection.sendall(b"".join(
                b"*3\r\n$3\r\nSET\r\n$12\r\nkey:%08d\r\n$1024\r\n%s\r\n" % (key, value)
                for key in batch))
            for _ in batch:
                if replies.readline() != b"+OK\r\n":
                    raise RuntimeError(f"{server.name} refused a key")


def info(server, section):
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"INFO %s\r\n" % section.encode())
        replies = connection.makefile("rb")
        text = replies.read(int(replies.readline()[1:])).decode()
    return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)


def save_back_to_back(server, stop):
    """Saves until it is told to stop; the number of saves that ended."""
    saves = 0
    while not stop.is_set():
        server.ask("BGSAVE", b"+Background saving started")
        while info(server, "persistence")["rdb_bgsave_in_progress"] != "0":
            stop.wait(0.02)
            if stop.is_set():
                break
        else:
            saves += 1
    if info(server, "persistence")["rdb_last_bgsave_status"] != "ok":
        raise RuntimeError(f"{server.name}: a save failed")
    return saves


def measure(name, command, options, scratch):
    """p99 and longest latency of a round in milliseconds, and how many saves ended."""
    server = run.Server(name, command, scratch)
    stop = threading.Event()
    try:
        fill(server, options.keys)
        environment = {**os.environ, **turns.node(server.port, options.cache)}
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            saves = pool.submit(save_back_to_back, server, stop)
            try:
                load = subprocess.run(
                    ["node", run.HERE / "saving.js", str(options.rate), str(options.seconds)],
                    env=environment, capture_output=True, text=True, timeout=LOAD_SECONDS)
            finally:
                stop.set()
            if load.returncode != 0:
                raise RuntimeError(f"{name}: {load.stderr.strip()[-300:]}")
            took = sorted(json.loads(load.stdout))
            return took[int(len(took) * 0.99)], took[-1], saves.result()
    finally:
        server.stop()


def main():
    parser = turns.parser(__doc__.splitlines()[0], rounds=3)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=500, help="jobs a second")
    parser.add_argument("--seconds", type=int, default=20)
    rounds = turns.take("saving", measure, parser.parse_args())
    print("| server | job p99, ms | longest job, ms | saves |\n|---|---|---|---|")
    for name, results in rounds.items():
        if not results:
            print(f"| {name} | does not run | | |")
            continue
        p99, longest, saves = zip(*results)
        print(f"| {name} | {turns.spread(p99)} | {turns.spread(longest)} | {sum(saves)} |")


if __name__ == "__main__":
    main()
