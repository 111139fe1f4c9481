"""The fixtures for pytest, and the entry points of fakeredis."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stillframe import Server, fake

redis = pytest.importorskip("redis")


@pytest.fixture(scope="session")
def stillframe_seed() -> Callable[[Any], object]:
    return lambda client: client.mset({f"key:{number}": number for number in range(1000)})


@pytest.mark.parametrize("time", range(20))
def test_each_test_has_the_seeded_database(stillframe_client: Any, time: int) -> None:
    assert stillframe_client.dbsize() == 1000
    stillframe_client.flushdb()
    stillframe_client.set("key", time)


def test_the_seed_stays_as_it_is(stillframe_server: Server, stillframe_client: Any) -> None:
    assert stillframe_client.incr("key:7") == 8
    assert stillframe_server.execute("GET", "key:7") == b"7"


@pytest.mark.parametrize("how", ["flushall", "swapdb"])
def test_a_test_that_empties_all_databases_harms_no_other(
    stillframe_server: Server, request: pytest.FixtureRequest, how: str
) -> None:
    stillframe_server.execute("FLUSHALL") if how == "flushall" else stillframe_server.execute(
        "SWAPDB", 0, 15
    )
    assert request.getfixturevalue("stillframe_client").dbsize() == 1000


def test_a_child_leaves_the_files_of_its_parent(tmp_path: Path) -> None:
    program = """
import os, sys
import stillframe.fake
server = stillframe.fake.FakeServer()
if (child := os.fork()) == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert os.path.isdir(server.server.directory)
assert stillframe.fake.FakeRedis(server=server).ping()
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env=environment)
    assert not list(tmp_path.iterdir())


def test_entry_points_of_fakeredis() -> None:
    first, second = fake.FakeRedis(decode_responses=True), fake.FakeStrictRedis(host="a", port=1)
    first.set("key", "value")
    assert first.get("key") == "value" and second.get("key") is None
    server = fake.FakeServer()
    one, other = fake.FakeRedis(server=server), fake.FakeRedis(server=server, db=1)
    one.set("key", 1)
    assert one.get("key") == b"1" and other.get("key") is None
    assert isinstance(one, redis.Redis)

    async def run() -> None:
        client = fake.FakeAsyncRedis(server=server)
        assert await client.get("key") == b"1"
        await client.aclose()

    asyncio.run(run())
