"""A Redis-protocol server in this process."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _stillframe

if TYPE_CHECKING:
    import redis
    import redis.asyncio

Argument = str | bytes | bytearray | memoryview | int | float
Setting = str | int | float | bool | Sequence[str | int]


class Server:
    """The whole server of Stillframe on a thread of its own, without a port unless one is asked.

    Keyword arguments are the directives of redis.conf with ``_`` for ``-``: ``appendonly=True``,
    ``maxmemory="100mb"``, ``save="60 1000"``, ``unixsocket=True`` for a socket in the directory.
    ``decode`` gives texts as ``str`` in :meth:`execute` and :meth:`pipeline`. ``logger`` gets the
    lines of the server's log.

    A program that ends without :meth:`close` shuts the server down, as closing does; one that is
    killed keeps what ``appendfsync`` promises.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        decode: bool = False,
        logger: logging.Logger | None = None,
        **settings: Setting,
    ) -> None:
        self._directory = os.path.abspath(os.fspath(directory))
        self._decode = decode
        if settings.get("unixsocket") is True:
            settings["unixsocket"] = os.path.join(self._directory, "stillframe.sock")
        path = settings.get("unixsocket")
        self._path = str(path) if path else None
        words = [(name.replace("_", "-"), _words(value)) for name, value in settings.items()]
        on_log = logger.log if logger is not None else None
        self._raw = _stillframe.Server.start(self._directory, words, on_log)
        self._local = threading.local()
        # At the end of the process too, before the interpreter ends.
        self._end = weakref.finalize(self, _end, self._raw, os.getpid())

    @property
    def directory(self) -> str:
        """Where its data is."""
        return self._directory

    @property
    def path(self) -> str | None:
        """The unix socket for other processes, if one was asked for."""
        return self._path

    def execute(self, *args: Argument) -> Any:
        """Sends a request and returns its reply; an error of the server is a ``CommandError``.

        Each thread has a connection of its own here, and so its own database, transaction and so
        on.
        """
        return self._direct().execute(*args)

    def pipeline(self) -> Pipeline:
        """Requests that go out together."""
        return Pipeline(self._direct())

    def _direct(self) -> _stillframe.Direct:
        try:
            direct: _stillframe.Direct = self._local.direct
        except AttributeError:
            direct = self._local.direct = self._raw.direct(self._decode)
        return direct

    def connect(self) -> _stillframe.Socket:
        """A connection with the methods of a socket, for other client libraries."""
        return self._raw.connect()

    def client(self, **options: Any) -> redis.Redis:
        """A ``redis.Redis`` of the installed redis-py, with its options (``db``,
        ``decode_responses``, ...), over connections in memory."""
        from . import _redis

        return _redis.client(self, options)

    def asyncio_client(self, **options: Any) -> redis.asyncio.Redis:
        """The same for asyncio: a ``redis.asyncio.Redis``."""
        from . import _redis_asyncio

        return _redis_asyncio.client(self, options)

    @property
    def has_ended(self) -> bool:
        """Whether it was closed, shut down by a client, or failed."""
        return self._raw.has_ended()

    def close(self) -> None:
        """Saves if there is a schedule of saves, and ends. If that fails the error is raised and
        the server goes on. Ctrl-C ends the wait alone: call it again."""
        self._raw.shutdown()
        self._end.detach()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<stillframe.Server {self._directory!r}>"


class Pipeline:
    """Requests that are collected by :meth:`execute` and sent together by :meth:`run`."""

    def __init__(self, direct: _stillframe.Direct) -> None:
        self._direct = direct
        self._requests: list[tuple[Argument, ...]] = []

    def execute(self, *args: Argument) -> Pipeline:
        """Adds a request."""
        self._requests.append(args)
        return self

    def __len__(self) -> int:
        return len(self._requests)

    def run(self, errors: bool = False) -> list[Any]:
        """Sends them and returns the replies in order. The first error is raised once all have
        come; with ``errors`` each is a value in its place."""
        requests, self._requests = self._requests, []
        return self._direct.pipeline(requests, errors)


def _words(value: Setting) -> list[str]:
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    if isinstance(value, (str, int, float)):
        return [str(value)]
    return [str(word) for word in value]


def _end(raw: _stillframe.Server, process: int) -> None:
    if os.getpid() == process:
        raw.shutdown()
