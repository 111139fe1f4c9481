"""The entry points of fakeredis that tests use most, on a real server in this process.

``import stillframe.fake as fakeredis``: then ``FakeRedis()``, ``FakeStrictRedis()`` and
``FakeAsyncRedis()`` are clients of redis-py, and ``FakeServer()`` is what several of them share.
Each ``FakeServer`` begins empty, keeps its files in a temporary directory, and ends with the last
object that uses it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from typing import Any

import redis
import redis.asyncio

from . import _redis, _redis_asyncio
from ._server import Server


class FakeServer:
    """A server with nothing in it."""

    def __init__(self, **settings: Any) -> None:
        directory = tempfile.mkdtemp(prefix="stillframe-")
        self.server = Server(directory, **{"save": "", **settings})
        weakref.finalize(self, _remove, self.server, directory, os.getpid())


def _remove(server: Server, directory: str, process: int) -> None:
    if os.getpid() == process:  # a child leaves its parent's files alone
        server._end()
        shutil.rmtree(directory, ignore_errors=True)


_OF_SOCKETS = ("host", "port", "unix_socket_path", "version", "server_type", "connected")


def _options(options: dict[str, Any]) -> dict[str, Any]:
    """Without those that name a socket, or what to imitate."""
    return {name: value for name, value in options.items() if name not in _OF_SOCKETS}


class FakeRedis(redis.Redis):
    """``redis.Redis`` on a server of its own, or on ``server``."""

    def __init__(self, *, server: FakeServer | None = None, **options: Any) -> None:
        self.fake_server = server or FakeServer()
        pool = _redis.pool(self.fake_server.server, _options(options))
        super().__init__(connection_pool=pool)
        self.auto_close_connection_pool = True  # it is this client's alone


FakeStrictRedis = FakeRedis


class FakeAsyncRedis(redis.asyncio.Redis):
    """The same for asyncio."""

    def __init__(self, *, server: FakeServer | None = None, **options: Any) -> None:
        self.fake_server = server or FakeServer()
        pool = _redis_asyncio.pool(self.fake_server.server, _options(options))
        super().__init__(connection_pool=pool)
        self.auto_close_connection_pool = True  # it is this client's alone
