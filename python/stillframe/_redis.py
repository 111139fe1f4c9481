"""redis-py over connections in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import redis
    from redis.connection import AbstractConnection, ConnectionPool
except ImportError as error:
    raise ImportError("client() needs redis-py: pip install 'stillframe[redis]'") from error

if TYPE_CHECKING:
    from ._server import Server


class MemoryConnection(AbstractConnection):
    """A connection of redis-py to a server in this process."""

    def __init__(self, server: Server, **options: Any) -> None:
        # Redis-py names these in its errors and figures.
        self.host, self.port = "stillframe", 0
        self._server = server
        super().__init__(**options)

    def repr_pieces(self) -> list[tuple[str, Any]]:
        """For its representation."""
        return [("server", self._server.directory), ("db", self.db)]

    def _connect(self) -> Any:
        stream = self._server.connect()
        stream.settimeout(self.socket_timeout)
        return stream

    def _host_error(self) -> str:
        return repr(self._server)


def pool(server: Server, options: dict[str, Any]) -> ConnectionPool:
    """Connections to a server."""
    settings: dict[str, Any] = {"socket_timeout": None, **options}
    return ConnectionPool(connection_class=MemoryConnection, server=server, **settings)


def client(server: Server, options: dict[str, Any]) -> redis.Redis:
    """A client with a pool of its own."""
    single = options.pop("single_connection_client", False)
    made: redis.Redis = redis.Redis(
        connection_pool=pool(server, options), single_connection_client=single
    )
    made.auto_close_connection_pool = True
    return made
