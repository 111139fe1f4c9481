"""redis.asyncio over connections in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

try:
    import redis.asyncio
    from redis.asyncio.connection import AbstractConnection, ConnectionPool
except ImportError as error:
    raise ImportError("asyncio_client() needs redis-py: pip install 'stillframe[redis]'") from error

if TYPE_CHECKING:
    from ._server import Server
    from ._stillframe import Socket

_READ_BYTES = 65536
#: Bytes that wait for room before the writer is told to wait.
_HIGH, _LOW = 65536, 16384


class MemoryTransport(asyncio.Transport):
    """A stream of asyncio on a connection in memory."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, stream: Socket, protocol: asyncio.Protocol
    ) -> None:
        super().__init__({"peername": ("stillframe", 0)})
        stream.settimeout(0)
        self._loop, self._stream, self._protocol = loop, stream, protocol
        self._output = bytearray()
        self._closing = self._paused = self._full = False
        loop.add_reader(stream.fileno(), self._ready)
        protocol.connection_made(self)

    def _ready(self) -> None:
        """The server has sent something, or makes room."""
        if self._stream is None:
            return
        try:
            self._flush()
            while not (self._paused or self._closing):
                data = self._stream.recv(_READ_BYTES)
                if not data:
                    self._protocol.eof_received()
                    return self._lose(None)
                self._protocol.data_received(data)
        except BlockingIOError:
            pass
        except OSError as error:
            self._lose(error)

    def _flush(self) -> None:
        try:
            while self._output:
                del self._output[: self._stream.send(self._output)]
        except BlockingIOError:
            pass
        if self._full and len(self._output) <= _LOW:
            self._full = False
            self._protocol.resume_writing()
        if self._closing and not self._output:
            self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if self._stream is None:
            return
        self._closing = True
        stream, self._stream = self._stream, cast("Socket", None)
        self._loop.remove_reader(stream.fileno())
        stream.close()
        self._loop.call_soon(self._protocol.connection_lost, error)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Sends bytes, when there is room."""
        if self._stream is None or self._closing:
            return
        self._output += data
        try:
            self._flush()
        except OSError as error:
            return self._lose(error)
        if len(self._output) > _HIGH and not self._full:
            self._full = True
            self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        """Bytes that wait."""
        return len(self._output)

    def pause_reading(self) -> None:
        """Takes nothing until it is resumed."""
        if self._stream is not None and not self._paused:
            self._paused = True
            self._loop.remove_reader(self._stream.fileno())

    def resume_reading(self) -> None:
        """Takes what comes."""
        if self._stream is not None and self._paused:
            self._paused = False
            self._loop.add_reader(self._stream.fileno(), self._ready)
            self._loop.call_soon(self._ready)  # for what came meanwhile

    def is_reading(self) -> bool:
        """Whether it takes what comes."""
        return not (self._paused or self._closing)

    def is_closing(self) -> bool:
        """Whether it ends."""
        return self._closing

    def close(self) -> None:
        """Ends it when all is sent."""
        if self._stream is None or self._closing:
            return
        self._closing = True
        if not self._output:
            self._lose(None)

    def abort(self) -> None:
        """Ends it at once."""
        self._output.clear()
        self._lose(None)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """What takes the bytes."""
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Another that takes them."""
        self._protocol = cast(asyncio.Protocol, protocol)


class MemoryConnection(AbstractConnection):
    """A connection of redis.asyncio to a server in this process."""

    def __init__(self, *, server: Server, **options: Any) -> None:
        self.host, self.port = "stillframe", 0
        self._server = server
        super().__init__(**options)

    def repr_pieces(self) -> list[tuple[str, Any]]:
        """For its representation."""
        return [("server", self._server.directory), ("db", self.db)]

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport = MemoryTransport(loop, self._server.connect(), protocol)
        self._reader = reader
        self._writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        await self.on_connect()

    def _host_error(self) -> str:
        return repr(self._server)


def pool(server: Server, options: dict[str, Any]) -> ConnectionPool:
    """Connections to a server."""
    settings: dict[str, Any] = {"socket_timeout": None, **options}
    return ConnectionPool(connection_class=MemoryConnection, server=server, **settings)


def client(server: Server, options: dict[str, Any]) -> redis.asyncio.Redis:
    """A client with a pool of its own."""
    single = options.pop("single_connection_client", False)
    made: redis.asyncio.Redis = redis.asyncio.Redis(
        connection_pool=pool(server, options), single_connection_client=single
    )
    made.auto_close_connection_pool = True
    return made
