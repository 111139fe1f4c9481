"""The fixtures for pytest, and the entry points of fakeredis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
