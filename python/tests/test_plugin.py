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


@pytest.mark.parametrize(
    ("first", "other", "is_one"),
    [
        (lambda: fake.FakeRedis("a", 1), lambda: fake.FakeStrictRedis(host="a", port=1), True),
        (lambda: fake.FakeRedis("b"), lambda: fake.FakeRedis.from_url("redis://:p@b/0"), True),
        (lambda: fake.FakeRedis(port=2), lambda: fake.FakeRedis(port=3), False),
        (lambda: fake.FakeRedis.from_url("redis://c/0"), lambda: fake.FakeRedis("c", db=1), False),
        (
            lambda: fake.FakeRedis.from_url("rediss://d"),
            lambda: redis.Redis(
                connection_pool=redis.ConnectionPool(connection_class=fake.FakeConnection, host="d")
            ),
            True,
        ),
    ],
)
def test_clients_of_one_address_share_a_server(
    first: Callable[[], Any], other: Callable[[], Any], is_one: bool
) -> None:
    first().set("key", 1)  # the server outlives its client
    assert other().get("key") == (b"1" if is_one else None)
    first().flushall()


def test_options_of_fakeredis_and_of_sockets_are_taken() -> None:
    options: dict[str, Any] = {"version": (7, 4), "server_type": "redis", "lua_modules": set()}
    sockets = {"ssl": True, "password": "none", "socket_connect_timeout": 1, "socket_timeout": 3}
    client = fake.FakeRedis(single_connection_client=True, **options, **sockets)
    assert client.ping() and client.fake_server is not None
    assert fake.FakeRedis(server=fake.FakeServer(7, "redis"), version=6).ping()
    own = fake.FakeServer(requirepass="secret")
    assert fake.FakeRedis(server=own, password="secret").ping()
    with pytest.raises(redis.AuthenticationError):
        fake.FakeRedis(server=own, password="wrong").ping()


def test_a_server_that_is_not_connected_answers_nobody() -> None:
    server = fake.FakeServer()
    client = fake.FakeRedis(server=server, retry=None)
    messages = client.pubsub()
    messages.subscribe("channel")
    assert client.set("key", 1) and messages.get_message(timeout=5)
    # No second try after seconds, and no limit of time, unless they are asked for.
    kept = fake.FakeRedis("f").connection_pool.connection_kwargs
    assert kept["socket_timeout"] is None and "retry" not in kept
    server.connected = False
    with pytest.raises(redis.ConnectionError):
        client.get("key")
    with pytest.raises(redis.ConnectionError):
        messages.get_message(timeout=5)
    server.connected = True
    assert client.get("key") == b"1"


def test_clients_of_asyncio_have_the_same_entry_points() -> None:
    async def run() -> None:
        async with fake.aioredis.FakeRedis(host="e") as one:
            await one.set("key", 1)
        async with fake.FakeAsyncRedis.from_url("redis://e") as other:
            assert await other.get("key") == b"1"
        pool = redis.asyncio.ConnectionPool(
            connection_class=fake.aioredis.FakeConnection, host="e", port=6379
        )
        assert await redis.asyncio.Redis(connection_pool=pool).get("key") == b"1"
        await pool.disconnect()

    import redis.asyncio

    asyncio.run(run())
    assert fake.FakeRedis("e").get("key") == b"1"
