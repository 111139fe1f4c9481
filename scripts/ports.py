"""Ports for servers that are started as processes, as tools/measure/src/port.rs has them.

They lie below those that Linux gives to connections. Each process holds the first port of every
block that it hands out, so no two processes hand out the same one.
"""
import socket
import threading

PORTS = range(12_000, 32_000)
BLOCK = 50

_lock = threading.Lock()
_firsts = []
_rest = iter(())
_blocks = iter(PORTS[::BLOCK])


def _bound(port):
    """A socket that is bound to the port; None if another one is."""
    bound = socket.socket()
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", port))
        bound.listen()
        return bound
    except OSError:
        bound.close()
        return None


def own_port():
    """A port of 127.0.0.1 that no other caller in any process gets while this process lives."""
    global _rest
    with _lock:
        while True:
            for port in _rest:
                probe = _bound(port)
                if probe:
                    probe.close()
                    return port
            start = next(_blocks)
            first = _bound(start)
            if first:
                _firsts.append(first)
                _rest = iter(range(start + 1, start + BLOCK))
