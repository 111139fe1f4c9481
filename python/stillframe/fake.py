"""The entry points of fakeredis that tests use most, on a real server in this process.

``import stillframe.fake as fakeredis``: then ``FakeRedis()``, ``FakeStrictRedis()`` and
``FakeAsyncRedis()`` (``aioredis.FakeRedis()``) are clients of redis-py, with their ``from_url``,
and ``FakeServer()`` is what several of them share. As there, clients of one address share a
server, those without an address have one of their own, and ``FakeConnection`` is a class for pools.

Each ``FakeServer`` begins empty, keeps its files in a temporary directory, and ends with the last
object that uses it; that of an address with the process.
"""

from __future__ import annotations

import inspect
import os
import shutil
import tempfile
import weakref
from types import SimpleNamespace
from typing import Any, ClassVar

import redis
import redis.asyncio
import redis.asyncio.connection
import redis.connection

from . import _redis, _redis_asyncio
from ._server import Server


class FakeServer:
    """A server with nothing in it. ``version`` and ``server_type`` of fakeredis change nothing;
    ``settings`` are directives, as for :class:`stillframe.Server`."""

    _at: ClassVar[dict[tuple[Any, ...], FakeServer]] = {}

    def __init__(self, version: Any = None, server_type: Any = None, **settings: Any) -> None:
        directory = tempfile.mkdtemp(prefix="stillframe-")
        self.server = Server(directory, **{"save": "", **settings})
        self._has_users = not {"requirepass", "aclfile", "user"}.isdisjoint(settings)
        self._connected = True
        weakref.finalize(self, _remove, self.server, directory, os.getpid())

    @classmethod
    def at(cls, options: dict[str, Any]) -> FakeServer:
        """The one of an address: of host and port, or of a path. A child of this process has others."""
        path = options.get("path")
        address = (path,) if path else (options.get("host", "localhost"), options.get("port", 6379))
        key = (os.getpid(), *address)
        return cls._at.get(key) or cls._at.setdefault(key, cls())

    @property
    def connected(self) -> bool:
        """Whether it answers. While it is false, clients get a ``ConnectionError``."""
        return self._connected

    @connected.setter
    def connected(self, value: bool) -> None:
        self._connected = value
        if not value:
            for kind in ("normal", "pubsub"):
                self.server.execute("CLIENT", "KILL", "TYPE", kind)

    def _check(self) -> None:
        if not self._connected:
            raise redis.ConnectionError("this FakeServer is not connected")


def _remove(server: Server, directory: str, process: int) -> None:
    if os.getpid() == process:  # a child leaves its parent's files alone
        server._end()
        shutil.rmtree(directory, ignore_errors=True)


def _known(connection: type, options: dict[str, Any], server: FakeServer) -> dict[str, Any]:
    """What a connection of this redis-py takes that has no socket; a server without users knows no
    password."""
    names = set(inspect.signature(connection.__init__).parameters)  # type: ignore[misc]
    if not server._has_users:
        names -= {"username", "password", "credential_provider"}
    return {name: value for name, value in options.items() if name in names}


class FakeConnection(_redis.MemoryConnection):
    """A connection of redis-py to ``server``, or to that of the address."""

    def __init__(self, *, server: FakeServer | None = None, **options: Any) -> None:
        self._fake = server or FakeServer.at(options)
        kept = _known(redis.connection.AbstractConnection, options, self._fake)
        super().__init__(server=self._fake.server, **kept)

    def _connect(self) -> Any:
        self._fake._check()
        return super()._connect()


class FakeAsyncConnection(_redis_asyncio.MemoryConnection):
    """The same for asyncio."""

    def __init__(self, *, server: FakeServer | None = None, **options: Any) -> None:
        self._fake = server or FakeServer.at(options)
        kept = _known(redis.asyncio.connection.AbstractConnection, options, self._fake)
        super().__init__(server=self._fake.server, **kept)

    async def _connect(self) -> None:
        self._fake._check()
        await super()._connect()


#: What names the server; without any of them, and without arguments by position, it is a new one.
_ADDRESS = ("host", "port", "unix_socket_path")
#: What fakeredis takes, and what has no meaning for a server that is real.
_OF_FAKEREDIS = ("version", "server_type", "lua_modules", "connected", "client_class")


def _pool(client: Any, connection: type, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The pool of a client of redis-py with these arguments, with connections in memory."""
    is_named = bool(args) or any(options.get(name) is not None for name in _ADDRESS)
    server = options.pop("server", None) or (None if is_named else FakeServer())
    found = client(*args, **options)
    found.auto_close_connection_pool = False
    # Nobody waits for a network: no limit of time, and no second try, unless they are asked for.
    kept = found.connection_pool.connection_kwargs
    if "socket_timeout" not in options:
        kept["socket_timeout"] = None
    if "retry" not in options:
        kept.pop("retry", None)
    return _led(found.connection_pool, connection, server)


def _led(pool: Any, connection: type, server: FakeServer | None) -> Any:
    """A pool whose connections lead to a server."""
    pool.connection_class = connection
    pool.connection_kwargs["server"] = server or FakeServer.at(pool.connection_kwargs)
    return pool


def _split(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is for the pool, and what is for the client that has one."""
    options = {name: value for name, value in options.items() if name not in _OF_FAKEREDIS}
    names = ("single_connection_client", "auto_close_connection_pool")
    return options, {name: options.pop(name) for name in names if name in options}


class FakeRedis(redis.Redis):
    """``redis.Redis`` on ``server``, on that of the address, or on one of its own."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options, mine = _split(options)
        pool = options.get("connection_pool") or _pool(redis.Redis, FakeConnection, args, options)
        super().__init__(connection_pool=pool, **mine)
        self.auto_close_connection_pool = "connection_pool" not in options
        self.fake_server = pool.connection_kwargs.get("server")

    @classmethod
    def from_url(cls, url: str, **options: Any) -> FakeRedis:
        """A client of the server at the address of a URL."""
        options, mine = _split(options)
        server = options.pop("server", None)
        pool = redis.ConnectionPool.from_url(url, **options)
        made = cls(connection_pool=_led(pool, FakeConnection, server), **mine)
        made.auto_close_connection_pool = True
        return made


FakeStrictRedis = FakeRedis


class FakeAsyncRedis(redis.asyncio.Redis):
    """The same for asyncio."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options, mine = _split(options)
        pool = options.get("connection_pool") or _pool(
            redis.asyncio.Redis, FakeAsyncConnection, args, options
        )
        super().__init__(connection_pool=pool, **mine)
        self.auto_close_connection_pool = "connection_pool" not in options
        self.fake_server = pool.connection_kwargs.get("server")

    @classmethod
    def from_url(
        cls,
        url: str,
        single_connection_client: bool = False,
        auto_close_connection_pool: bool | None = None,
        **options: Any,
    ) -> FakeAsyncRedis:
        """A client of the server at the address of a URL."""
        options, _ = _split(options)
        server = options.pop("server", None)
        pool = redis.asyncio.ConnectionPool.from_url(url, **options)
        pool = _led(pool, FakeAsyncConnection, server)
        made = cls(connection_pool=pool, single_connection_client=single_connection_client)
        made.auto_close_connection_pool = auto_close_connection_pool is not False
        return made


#: As ``fakeredis.aioredis``.
aioredis = SimpleNamespace(
    FakeConnection=FakeAsyncConnection,
    FakeRedis=FakeAsyncRedis,
    FakeServer=FakeServer,
    FakeStrictRedis=FakeAsyncRedis,
)
