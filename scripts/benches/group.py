"""A replicated group: writes beside one server and a replica that is waited for, the time without a
leader after kill -9, and what a member that joins does to clients.

All members run on this machine and share its cores and its disk.
"""

import heapq
import random
import selectors
import socket
import time

from benches.load import load, start_load, finish_load
from benches.servers import Client, Server, encode, in_turns, key_name, say, spread
from ports import own_port

DEPTHS = (1, 16)
CLIENTS = 50
ELECTION_MS = 1000
VALUE_BYTES = 1024
LOG = ["--appendonly", "yes", "--appendfsync", "always"]


class Group:
    """Three members; others may join."""

    def __init__(self, options):
        self.options = options
        self.ports = {member: (own_port(), own_port()) for member in (1, 2, 3, 4)}
        self.members = {}
        self.folders = {}
        for member in (1, 2, 3):
            self.start(member)
        self.leader()

    def address(self, member):
        raft, client = self.ports[member]
        return f"127.0.0.1:{raft}/127.0.0.1:{client}"

    def start(self, member, *more):
        raft, client = self.ports[member]
        peers = ",".join(f"{it}={self.address(it)}" for it in (1, 2, 3))
        flags = ["--raft-id", str(member), "--raft-listen", f"127.0.0.1:{raft}",
                 "--raft-peers", peers, "--raft-election-timeout", str(ELECTION_MS), *more]
        folder = self.folders.get(member)
        server = Server("imprint", self.options, flags, port=client, folder=folder)
        self.folders[member] = server.folder
        self.members[member] = server

    def leader(self):
        """The number of the member that serves."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for member, server in self.members.items():
                if server.client.info("raft_serves", section="raft")[0] == "1":
                    return member
            time.sleep(0.01)
        raise SystemExit("no member serves")

    def kill(self, member):
        server = self.members.pop(member)
        server.process.kill()
        server.process.wait()

    def stop(self):
        for server in self.members.values():
            server.stop()


class Replicated:
    """redis-server with a replica, of which each batch of writes is waited for."""

    def __init__(self, options, flags):
        self.primary = Server("redis", options, flags)
        replica = [*flags, "--replicaof", f"127.0.0.1 {self.primary.port}"]
        self.replica = Server("redis", options, replica)
        while self.replica.client.info("master_link_status", section="replication")[0] != "up":
            time.sleep(0.05)
        self.port = self.primary.port

    def stop(self):
        self.replica.stop()
        self.primary.stop()


def drive(port, depth, seconds, options, waits):
    """Batches of SETs by 50 connections, each as soon as the reply to the last is there: writes a
    second and the 99th percentile of a batch in milliseconds."""
    poll, draw = selectors.DefaultSelector(), random.Random(1)
    value = bytes(draw.randrange(97, 122) for _ in range(64))
    sets = [encode("SET", key_name(number), value) for number in range(options.throughput_keys)]
    expected = b"+OK\r\n" * depth + (b":1\r\n" if waits else b"")
    wait = encode("WAIT", 1, 0) if waits else b""

    def send(connection):
        batch = b"".join(draw.choice(sets) for _ in range(depth)) + wait
        connection["sent"], connection["got"] = time.monotonic(), b""
        connection["socket"].sendall(batch)

    for _ in range(CLIENTS):
        connection = {"socket": socket.create_connection(("127.0.0.1", port))}
        connection["socket"].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        poll.register(connection["socket"], selectors.EVENT_READ, connection)
        send(connection)
    began = time.monotonic()
    latencies = []
    while time.monotonic() < began + seconds:
        for key, _ in poll.select(1):
            connection = key.data
            connection["got"] += connection["socket"].recv(1 << 16)
            if len(connection["got"]) >= len(expected):
                if connection["got"] != expected:
                    raise SystemExit(f"a server replied {connection['got'][:100]}")
                latencies.append(time.monotonic() - connection["sent"])
                send(connection)
    for key in list(poll.get_map().values()):
        key.fileobj.close()
    worst = heapq.nlargest(max(len(latencies) // 100, 1), latencies)
    return {"writes": len(latencies) * depth / seconds, "p99_ms": worst[-1] * 1e3}


def contenders(options):
    """What is started for each row, and whether batches end with WAIT."""
    def group():
        started = Group(options)
        started.port = started.members[started.leader()].port
        return started

    return {
        "one, appendfsync always": (lambda: Server("imprint", options, LOG), False),
        "a group of three": (group, False),
        "redis-server, one, appendfsync always": (lambda: Server("redis", options, LOG), False),
        "redis-server, a replica, WAIT 1": (lambda: Replicated(options, []), True),
        "redis-server, both appendfsync always, WAIT 1": (lambda: Replicated(options, LOG), True),
    }


def measure_writes(options):
    rows = contenders(options)
    results = {name: {depth: [] for depth in DEPTHS} for name in rows}
    for turn in range(options.rounds):
        for name in in_turns(list(rows), turn):
            say(f"writes, round {turn + 1}: {name}")
            start, waits = rows[name]
            server = start()
            for depth in DEPTHS:
                drive(server.port, depth, 1, options, waits)
                seconds = options.throughput_ms / 1000
                results[name][depth].append(drive(server.port, depth, seconds, options, waits))
            server.stop()
    return results


def applied(server):
    """The last log entry that a member has applied."""
    return int(server.client.info("raft_applied_index", section="raft")[0])


def write_somewhere(group, value):
    """Writes at whichever member takes it; returns when it has."""
    while True:
        for server in group.members.values():
            try:
                with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
                    connection.sendall(encode("SET", "k", value))
                    if connection.recv(100) == b"+OK\r\n":
                        return
            except OSError:
                pass
        time.sleep(0.002)


def measure_failover(options):
    group, milliseconds = Group(options), []
    for number in range(options.failovers):
        write_somewhere(group, number)
        leader = group.leader()
        began = time.monotonic()
        group.kill(leader)
        write_somewhere(group, number + 0.5)
        milliseconds.append((time.monotonic() - began) * 1e3)
        group.start(leader)
        while len({applied(server) for server in group.members.values()}) > 1:
            time.sleep(0.02)
    group.stop()
    say(f"{options.failovers} leaders killed")
    return milliseconds


def measure_joining(options):
    """Latency at a steady rate without and with a member that joins."""
    group = Group(options)
    leader = group.members[group.leader()]
    keys = options.megabytes * 1_000_000 // VALUE_BYTES
    say(f"filling {keys} keys")
    fill = ["--rate", "max", "--clients", 16, "--pipeline", 64, "--keys", keys,
            "--value-size", VALUE_BYTES, "--fill", "--duration", "1s"]
    load(leader, options, *fill)
    # All members and the load on the cores of one machine: the lead may have moved.
    leader = group.members[group.leader()]
    # The log before it goes, so that the one that joins gets the dump. An image of the group's own
    # accord may be under way.
    for begin in (lambda: None, lambda: leader.client.call("BGSAVE")):
        begin()
        while leader.saving():
            time.sleep(0.1)
    words = ["--rate", options.join_rate, "--clients", CLIENTS, "--keys", keys,
             "--value-size", VALUE_BYTES, "--duration", f"{options.idle_seconds:g}s"]
    without = load(leader, options, *words)
    running = start_load(leader, options, *words)
    time.sleep(1)
    began = time.monotonic()
    group.start(4, "--raft-join", "yes")
    leader.client.call("STILLFRAME", "RAFT", "ADD", 4, group.address(4))
    joined = group.members[4]
    while applied(joined) + options.join_rate < applied(leader):
        time.sleep(0.05)
    seconds = time.monotonic() - began
    with_it = finish_load(running)
    # A member that follows answers no DBSIZE.
    here, there = (it.client.info("db0", section="keyspace")[0] for it in (joined, leader))
    if here.split(",")[0] != there.split(",")[0]:
        raise SystemExit(f"the member that joined has {here}, the leader {there}")
    group.stop()
    return {"without": slowest(without), "with": slowest(with_it), "seconds": seconds}


def slowest(report):
    """The largest quantiles of any phase of a load: idle, or while an image is taken."""
    latencies = [it["latency"] for it in report["phases"] if it["count"]]
    return {name: max(it[name] for it in latencies) for name in ("p99_us", "max_us")}


def measure(options):
    return {"writes": measure_writes(options), "failover_ms": measure_failover(options)}


def measure_joins(options):
    return [measure_joining(options) for _ in range(options.join_rounds)]


def report(results, options):
    print("\n## A group\n\nWrites of 64 bytes by 50 connections, thousands a second, and the 99th "
          "percentile of a batch in ms.\n")
    print("| | " + " | ".join(f"depth {depth} | p99" for depth in DEPTHS) + " |")
    print("|---" * (1 + 2 * len(DEPTHS)) + "|")
    for name, depths in results["writes"].items():
        cells = []
        for depth in DEPTHS:
            runs = depths[depth]
            cells.append(spread([run["writes"] / 1e3 for run in runs], "{:.1f}"))
            cells.append(spread([run["p99_ms"] for run in runs], "{:.1f}"))
        print(f"| {name} | " + " | ".join(cells) + " |")
    failover = results["failover_ms"]
    print(f"\nFrom kill -9 of the leader to the first acknowledged write, {len(failover)} times, "
          f"election timeout {ELECTION_MS} ms: {spread(failover)} ms.")


def report_joins(runs, options):
    print("\n## A member that joins")
    for run in runs:
        print(f"\nA member joins {options.megabytes} MB at {options.join_rate} writes/s in "
              f"{run['seconds']:.1f} s: p99 {run['without']['p99_us'] / 1e3:.2f} ms without, "
              f"{run['with']['p99_us'] / 1e3:.2f} with; max {run['without']['max_us'] / 1e3:.1f} "
              f"and {run['with']['max_us'] / 1e3:.1f} ms.")
