"""Calls a second, one thread: direct calls and redis-py in this process, and redis-py on the unix
socket of redis-server. In turns, the median of five: ``python benches/calls.py``.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import redis
import redis.asyncio

import stillframe

SECONDS = 1.0
TURNS = 5
BATCH = 100


def rate(call: Callable[[], object], calls: int = 1) -> float:
    """How often it runs in a second."""
    count, start = 0, time.perf_counter()
    while (took := time.perf_counter() - start) < SECONDS:
        for _ in range(20):
            call()
        count += 20 * calls
    return count / took


def rate_asyncio(make: Callable[[], redis.asyncio.Redis]) -> float:
    """The same for one task of asyncio."""

    async def run() -> float:
        client = make()
        await client.set("key", "value")
        count, start = 0, time.perf_counter()
        while (took := time.perf_counter() - start) < SECONDS:
            for _ in range(20):
                await client.get("key")
            count += 20
        await client.aclose()
        return count / took

    return asyncio.run(run())


def batch(client: redis.Redis) -> None:
    with client.pipeline(transaction=False) as pipe:
        for _ in range(BATCH):
            pipe.get("key")
        pipe.execute()


def direct_batch(server: stillframe.Server) -> None:
    pipe = server.pipeline()
    for _ in range(BATCH):
        pipe.execute("GET", "key")
    pipe.run()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "redis.sock")
        peer = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder],
            stdout=subprocess.DEVNULL,
        )
        while not Path(path).exists():
            time.sleep(0.01)
        try:
            with stillframe.Server(Path(folder) / "data", save="") as server:
                compare(server, path)
        finally:
            peer.terminate()
            peer.wait()


def compare(server: stillframe.Server, path: str) -> None:
    theirs, ours = redis.Redis(unix_socket_path=path), server.client()
    rows: dict[str, Callable[[], float]] = {}
    for name, args in (
        ("GET", ("GET", "key")),
        ("SET", ("SET", "key", "value")),
        ("HSET", ("HSET", "hash", "field", "value")),
    ):
        rows[f"{name}, redis-py, redis-server"] = lambda a=args: rate(
            lambda: theirs.execute_command(*a)
        )
        rows[f"{name}, redis-py, in memory"] = lambda a=args: rate(
            lambda: ours.execute_command(*a)
        )
        rows[f"{name}, execute"] = lambda a=args: rate(lambda: server.execute(*a))
    rows["GET by 100, redis-py, redis-server"] = lambda: rate(lambda: batch(theirs), BATCH)
    rows["GET by 100, redis-py, in memory"] = lambda: rate(lambda: batch(ours), BATCH)
    rows["GET by 100, pipeline"] = lambda: rate(lambda: direct_batch(server), BATCH)
    rows["GET, asyncio, redis-server"] = lambda: rate_asyncio(
        lambda: redis.asyncio.Redis(unix_socket_path=path)
    )
    rows["GET, asyncio, in memory"] = lambda: rate_asyncio(server.asyncio_client)
    found: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(TURNS):
        for name, measure in rows.items():
            found[name].append(measure())
    medians = {name: statistics.median(rates) for name, rates in found.items()}
    print("| calls a second | median of 5 | to redis-server |\n|---|---|---|")
    for name, median in medians.items():
        base = medians[name.split(",")[0] + (", asyncio" if "asyncio" in name else ", redis-py")
                       + ", redis-server"]
        print(f"| {name} | {median:,.0f} | {median / base:.1f} |")


if __name__ == "__main__":
    main()
