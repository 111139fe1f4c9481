"""A program of which one thread stands still, so that what waits for it waits as long as a test
likes: by ptrace, which names no time."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17
_TRACE_CLONES = 8
_THREADS_TOO = 0x40000000

#: Begins a program that says by `say` how far it is, and waits for a line by `hear`.
HEAD = """
import os, signal, sys, threading
import stillframe
from stillframe import ArraySpec, Server, Store
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what runs in the background
folder = sys.argv[1]
def say(word):
    print(word, flush=True)
def hear():
    sys.stdin.readline()
"""


class Program:
    """A program, which ends with its block at the latest."""

    def __init__(self, text: str, folder: Path) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-c", HEAD + text, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.kill()
        self.child.wait()

    def says(self, word: str) -> None:
        """Waits until it says this."""
        assert self.child.stdout is not None
        assert self.child.stdout.readline().strip() == word

    def go(self) -> None:
        """Lets it go on."""
        assert self.child.stdin is not None
        self.child.stdin.write("\n")
        self.child.stdin.flush()

    def interrupt(self) -> None:
        """Ctrl-C, once its first thread waits."""
        stat = Path(f"/proc/{self.child.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "S":
            time.sleep(0.001)
        self.child.send_signal(signal.SIGINT)

    def threads(self) -> set[int]:
        return {int(task) for task in os.listdir(f"/proc/{self.child.pid}/task")}

    @contextmanager
    def stands_still(self, name: str) -> Iterator[int]:
        """Its thread of this name stands still."""
        of = f"/proc/{self.child.pid}/task"
        (thread,) = (it for it in self.threads() if name == Path(f"{of}/{it}/comm").read_text()[:-1])
        _trace(_SEIZE, thread)
        try:
            _trace(_INTERRUPT, thread)
            os.waitpid(thread, _THREADS_TOO)
            yield thread
        finally:
            _trace(_DETACH, thread)

    @contextmanager
    def next_stands_still(self) -> Iterator[None]:
        """The next thread that it begins stands still; it may go on to begin it."""
        first, there = self.child.pid, self.threads()
        _trace(_SEIZE, first, _TRACE_CLONES)
        self.go()
        os.waitpid(first, _THREADS_TOO)
        (thread,) = self.threads() - there
        os.waitpid(thread, _THREADS_TOO)
        _trace(_DETACH, first)
        try:
            yield
        finally:
            _trace(_DETACH, thread)

    def ends(self) -> None:
        """Waits for its end, which is a good one."""
        assert self.child.wait(60) == 0


def ended(thread: int) -> None:
    """Waits until a thread that stands still is gone."""
    os.waitpid(thread, _THREADS_TOO)


def _trace(what: int, thread: int, options: int = 0) -> None:
    trace = ctypes.CDLL(None, use_errno=True).ptrace
    trace.argtypes, trace.restype = [ctypes.c_long] * 4, ctypes.c_long
    # To leave what is gone is no failure.
    if trace(what, thread, 0, options) != 0 and what != _DETACH:
        pytest.skip(f"!!! ptrace: {os.strerror(ctypes.get_errno())}")
