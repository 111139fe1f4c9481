"""Where a write that nobody announced was caught: the lines that ``faulthandler`` writes."""

from __future__ import annotations

import faulthandler
import fcntl
import os
import re
import signal
import threading

_HERE = os.path.dirname(__file__)
#: Bytes of lines that are kept.
_BYTES_MAX = 1 << 20
_lock = threading.Lock()
_started: tuple[int, int] | None = None


def start() -> tuple[int, int]:
    """A file, and a signal on which ``faulthandler`` appends to it what its thread does."""
    global _started
    with _lock:
        if _started is None:
            file = os.memfd_create("stillframe-lines")
            fcntl.fcntl(file, fcntl.F_SETFL, os.O_WRONLY | os.O_APPEND)
            number = next(
                number
                for number in range(signal.SIGRTMAX - 1, signal.SIGRTMIN, -1)
                if signal.getsignal(number) == signal.SIG_DFL
            )
            faulthandler.register(number, file=file, all_threads=False)
            _started = file, number
        return _started


def last_line(slot: int) -> str:
    """File and line of the last write that was caught in this store."""
    assert _started is not None
    file, _ = _started
    with _lock:
        size = os.fstat(file).st_size
        text = os.pread(file, size, 0).decode(errors="replace")
        if size > _BYTES_MAX:
            os.ftruncate(file, 0)
    _, _, found = text.rpartition(f"#{slot:02}\n")
    stack = re.findall(r'^  File "(.+)", line (\d+) in ', found.partition("#")[0], re.M)
    outside = [(name, line) for name, line in stack if not name.startswith(_HERE)]
    return ":".join((outside or stack)[0]) if stack else "code that is not Python's"
