#!/usr/bin/env python3
"""Jobs added a second, as BullMQ adds them, beside others.

    frameworks/adding.py --server target/release/stillframe

BullMQ adds a job by a script. Node would be the limit, so one job is added by BullMQ through a
proxy, and the EVALSHA seen there is then sent again and again by 50 connections, one or 16
requests at a time. Servers take turns, round by round. At the end each must have as many jobs as
it acknowledged. The result is a table in Markdown: medians with the lowest and the highest, in
thousands a second. `run.py bullmq_jobs` installs the packages.
"""
import os
import selectors
import socket
import subprocess
import threading
import time

import run
import turns

CONNECTIONS = 50


def requests_of(stream):
    """The requests in a stream of them, each as it was sent."""
    at = 0
    while at < len(stream):
        start = at
        line = stream.index(b"\r\n", at)
        count, at = int(stream[at + 1:line]), line + 2
        for _ in range(count):
            line = stream.index(b"\r\n", at)
            at = line + 2 + int(stream[at + 1:line]) + 2
        yield stream[start:at]


def listen_on_the_way(server, options):
    """The last EVALSHA that adds a job, as BullMQ sent it."""
    seen = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        def copy(source, target, keep):
            while data := source.recv(65536):
                if keep is not None:
                    keep.append(data)
                target.sendall(data)

        def accept():
            while True:
                try:
                    client, _ = proxy.accept()
                except OSError:
                    return
                upstream = socket.create_connection(("127.0.0.1", server.port))
                seen.append([])
                for pair in [(client, upstream, seen[-1]), (upstream, client, None)]:
                    threading.Thread(target=copy, args=pair, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        environment = {**os.environ, **turns.node(proxy.getsockname()[1], options.cache)}
        subprocess.run(["node", run.HERE / "adding.js"], env=environment, check=True, timeout=60)
    streams = [b"".join(parts) for parts in seen]
    found = [request for stream in streams for request in requests_of(stream)
             if request.split(b"\r\n")[2].lower() == b"evalsha"]
    return found[-1]


def ask(server, *words):
    """The reply to a request, if it is a number."""
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        parts = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        connection.sendall(b"*%d\r\n%s" % (len(words), parts))
        return int(connection.makefile("rb").readline()[1:])


def throughput(server, request, depth, seconds):
    """Requests answered a second. A reply is a bulk string: two line ends."""
    batch = request * depth
    chooser = selectors.DefaultSelector()
    waits = {}
    for _ in range(CONNECTIONS):
        connection = socket.create_connection(("127.0.0.1", server.port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        chooser.register(connection, selectors.EVENT_READ)
        connection.sendall(batch)
        waits[connection] = 2 * depth
    answered, started = 0, time.monotonic()
    over = started + seconds
    while waits:
        for key, _ in chooser.select():
            connection = key.fileobj
            data = connection.recv(65536)
            if b"-" in data:
                raise RuntimeError(f"{server.name}: {data[:200]}")
            waits[connection] -= data.count(b"\n")
            if waits[connection] == 0:
                answered += depth
                if time.monotonic() < over:
                    connection.sendall(batch)
                    waits[connection] = 2 * depth
                else:
                    del waits[connection]
                    chooser.unregister(connection)
                    connection.close()
    return answered, answered / (time.monotonic() - started)


def measure(name, command, options, scratch):
    """Jobs a second at each depth."""
    server = run.Server(name, command, scratch)
    try:
        request = listen_on_the_way(server, options)
        results = []
        for depth in (1, 16):
            before = ask(server, b"LLEN", b"bull:jobs:wait")
            answered, rate = throughput(server, request, depth, options.seconds)
            added = ask(server, b"LLEN", b"bull:jobs:wait") - before
            if added != answered:
                raise RuntimeError(f"{name} acknowledged {answered} jobs and has {added}")
            results.append(rate / 1000)
        return results
    finally:
        server.stop()


def main():
    parser = turns.parser(__doc__.splitlines()[0], rounds=5)
    parser.add_argument("--seconds", type=float, default=5)
    rounds = turns.take("adding", measure, parser.parse_args())
    print("| server | depth 1 | depth 16 |\n|---|---|---|")
    for name, results in rounds.items():
        if results:
            one, many = zip(*results)
            print(f"| {name} | {turns.spread(one)} | {turns.spread(many)} |")
        else:
            print(f"| {name} | does not run | |")


if __name__ == "__main__":
    main()
