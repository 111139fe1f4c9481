"""How a process ends that has servers, stores and threads open, what a forked child may do, and what
Ctrl-C ends.

Each program here ends by itself, within its time, without a signal.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from stillframe import Server, Store
from stopped import Program, ended

ROUNDS = int(os.environ.get("STILLFRAME_KILLS", "5"))
SECONDS = 120

OPEN = """
import asyncio, logging, os, sys, threading, time
import numpy as np
import redis
import stillframe
from stillframe import ArraySpec, Server, Store

class Quiet(logging.Handler):
    def emit(self, record):
        record.getMessage()

logger = logging.Logger("stillframe", logging.DEBUG)
logger.addHandler(Quiet())
server = Server(sys.argv[1] + "/server", logger=logger, appendonly=True, save="3600 1",
                loglevel="debug")
other = Server(sys.argv[1] + "/other", save="")
store = Store.open(sys.argv[1] + "/store", {"a": ArraySpec("int64", (1000,))}, log="everysec")
plain = Store.open(sys.argv[1] + "/plain", {"a": ArraySpec("int64", (1000,))}, every=0.001)
client = server.client()
view, branch, reader = store.view(), store.branch(), store.reader()
followed = np.zeros(1000, np.int64)
plain.follow("a", followed)
"""

THREADS = """
def forever(work):
    def run():
        try:
            while True:
                work()
        except (OSError, redis.RedisError, stillframe.Error):
            pass  # it ends before its threads
    threading.Thread(target=run, daemon=True).start()

def change():
    with store.mutate("a") as a:
        a += 1
    store.point()

def write():
    followed[:] += 1
    plain.snapshot()

forever(lambda: server.execute("INCR", "n"))
forever(lambda: client.incr("m"))
forever(lambda: server.client().blpop("none", timeout=0))
forever(lambda: other.execute("BLPOP", "none", 0))
forever(change)
forever(write)
forever(lambda: reader.view(timeout=10)["a"])
messages = client.pubsub()
messages.subscribe("channel")
forever(lambda: messages.get_message(timeout=10))
async def count():
    asked = server.asyncio_client()
    while True:
        await asked.incr("o")
forever(lambda: asyncio.run(count()))
while not (server.execute("EXISTS", "n", "m", "o") == 3 and plain.stats()["newest"]):
    time.sleep(0.001)
store.wait_durable()
server.execute("SET", "key", 1)
"""


def run(program: str, folder: Path, code: int = 0) -> str:
    """Runs a program to its end; what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == code, f"it ended with {done.returncode}:\n{done.stderr}"
    assert "panicked" not in done.stderr and "Fatal" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("end", ["pass", "sys.exit(3)", "raise SystemExit(3)", "os._exit(3)"])
def test_a_process_ends_with_all_open_and_in_use(tmp_path: Path, end: str) -> None:
    for round in range(ROUNDS):
        folder = tmp_path / str(round)
        folder.mkdir()
        run(OPEN + THREADS + end, folder, 0 if end == "pass" else 3)
        with Server(folder / "server", appendonly=True, save="") as server:
            assert int(server.execute("GET", "n")) > 0
            assert end == "os._exit(3)" or server.execute("GET", "key") == b"1"
        with Store.open(folder / "store", log="everysec") as store:
            assert (store["a"].numpy() == store["a"][0]).all()
        with Store.open(folder / "plain") as plain:
            assert (plain["a"].numpy() == plain["a"][0]).all()


CHILD = """
def refused(call):
    try:
        call()
    except (stillframe.WrongProcess, redis.ConnectionError) as error:
        assert "fork" in str(error), error
    else:
        raise SystemExit(f"{call}: a child may do it")

def mutate():
    with store.mutate("a") as a:
        a += 1

def act():
    with store.act():
        pass

def ask():
    asyncio.run(server.asyncio_client().ping())

def child():
    calls = [
        lambda: server.execute("PING"), lambda: server.pipeline().execute("PING").run(),
        lambda: server.client().ping(), client.ping, ask, server.close, lambda: server.has_ended,
        lambda: pipeline.run(), lambda: other.execute("PING"), lambda: other.client().ping(),
        mutate, act, lambda: store["a"][0], lambda: store["a"].__setitem__(0, 1),
        lambda: store.scatter("a", [1], [2]), lambda: store["a"].resize(1000),
        lambda: store["a"].append([1]), lambda: store.scalars.update(a=1),
        lambda: dict(store.scalars), store.point, store.checkpoint,
        lambda: store.checkpoint(wait=False), store.wait_durable, store.view, store.branch,
        store.reader, store.stats, store.recovery, store.close, lambda: store.close(give_up=True),
        lambda: view["a"], lambda: view.scalars, lambda: branch["a"],
        lambda: branch.write("a", 0, 1), lambda: reader.view(timeout=1), plain.snapshot,
    ]
    for call in calls:
        refused(call)
    # It opens things of its own.
    with Server(sys.argv[1] + f"/child-{os.getpid()}", save="") as mine:
        assert mine.client().incr("n") == 1
    with Store.open(sys.argv[1] + f"/store-{os.getpid()}", {"a": ArraySpec("f8", (3,))}) as mine:
        mine["a"][...] = 1
pipeline = server.pipeline().execute("PING")
server.execute("PING"), other.execute("PING"), client.ping()
"""


#: How a child may begin: while others hold what it inherits, or while nobody does.
BUSY = """
entered = threading.Event()
def hold():
    with store.act():
        entered.set()
        threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
entered.wait()
"""


@pytest.mark.parametrize("before", ["", BUSY, THREADS], ids=["idle", "in an act", "in use"])
def test_a_forked_child_is_told_and_ends(tmp_path: Path, before: str) -> None:
    program = f"""
import warnings
warnings.simplefilter("ignore")
{OPEN}
{CHILD}
{before}
for _ in range({ROUNDS}):
    pid = os.fork()
    if pid == 0:
        import faulthandler
        faulthandler.dump_traceback_later({SECONDS - 20}, exit=True)
        child()
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert client.set("key", 1) and server.execute("GET", "key") == b"1"
if not {bool(before)}:
    store["a"][...] = 5
    store.close()
os._exit(0)
"""
    run(program, tmp_path)


def test_children_of_multiprocessing_are_told_and_end(tmp_path: Path) -> None:
    program = f"""
import multiprocessing, warnings
warnings.simplefilter("ignore")
{OPEN}
{CHILD}
if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=child) for _ in range(3)]
    for one in children:
        one.start()
    for one in children:
        one.join()
        assert one.exitcode == 0, one.exitcode
    assert client.ping()
"""
    run(program, tmp_path)


WAIT = """
say("ready")
hear()
try:
    {call}
except KeyboardInterrupt:
    say("interrupted")
hear()
{then}
"""


def interrupted(folder: Path, text: str, stops: str | None) -> None:
    """Runs a program that waits for a thread which stands still, with Ctrl-C there, to its end."""
    with Program(text, folder) as program:
        program.says("ready")
        if stops is None:
            with program.next_stands_still():
                program.interrupt()
                program.says("interrupted")
        else:
            with program.stands_still(stops):
                program.go()
                program.interrupt()
                program.says("interrupted")
        program.go()
        program.ends()


def test_ctrl_c_ends_a_wait_for_the_end_of_a_server(tmp_path: Path) -> None:
    begin = 'one = Server(folder, save="3600 1")\none.execute("SET", "key", 1)'
    text = begin + WAIT.format(call="one.close()", then="one.close()")
    interrupted(tmp_path, text, "stillframe")
    with Server(tmp_path, save="") as server:
        assert server.execute("GET", "key") == b"1"


def test_ctrl_c_at_the_end_of_a_process_gives_up_the_end_of_its_server(tmp_path: Path) -> None:
    begin = 'one = Server(folder, appendonly=True, appendfsync="always", save="3600 1")\n'
    text = begin + 'one.execute("SET", "key", 1)\nsay("ready")\nhear()'
    with Program(text, tmp_path) as program:
        program.says("ready")
        with program.stands_still("stillframe") as thread:
            program.go()
            program.interrupt()
            ended(thread)
    with Server(tmp_path, appendonly=True, save="") as server:
        assert server.execute("GET", "key") == b"1"


def test_ctrl_c_ends_a_wait_for_the_end_of_a_store(tmp_path: Path) -> None:
    begin = 'one = Store.open(folder, {"a": ArraySpec("int64", (9,))})\none["a"][...] = 7\n'
    then = """
try:
    one.point()
except stillframe.Error as error:
    assert "closed" in str(error), error
one.close()
"""
    interrupted(tmp_path, begin + WAIT.format(call="one.close()", then=then), "snapshotter")
    with Store.open(tmp_path) as store:
        assert store.recovery()["checkpoint"] and (store["a"][...] == 7).all()


def test_ctrl_c_ends_a_wait_for_the_log(tmp_path: Path) -> None:
    begin = 'one = Store.open(folder, {"a": ArraySpec("int64", (9,))}, log="no")\n'
    call, then = 'one["a"][0] = 7; one.wait_durable()', "one.wait_durable(); os._exit(0)"
    interrupted(tmp_path, begin + WAIT.format(call=call, then=then), "logger")
    with Store.open(tmp_path, log="no") as store:
        assert store["a"][0] == 7


def test_ctrl_c_ends_the_opening_of_a_store(tmp_path: Path) -> None:
    begin = 'Store.open(folder, {"a": ArraySpec("int64", (9,))}).close()\n'
    then = """
while True:
    try:
        Store.open(folder).close()
        break
    except stillframe.InUse:  # as long as it is opened behind
        pass
"""
    interrupted(tmp_path, begin + WAIT.format(call="Store.open(folder)", then=then), None)


def test_ctrl_c_ends_the_load_of_a_server(tmp_path: Path) -> None:
    with Server(tmp_path, save="3600 1") as server:
        for key in range(1000):
            server.execute("SET", key, 1)
    call = "Server(folder, unixsocket=True, key_load_delay=1_000_000)"
    then = 'with Server(folder, save="") as one:\n    assert one.execute("DBSIZE") == 1000'
    with Program(WAIT.format(call=call, then=then), tmp_path) as program:
        program.says("ready")
        program.go()
        path = tmp_path / "stillframe.sock"
        while not path.exists():
            assert program.child.poll() is None
        assert redis.Redis(unix_socket_path=str(path)).info("persistence")["loading"] == 1
        program.interrupt()
        program.says("interrupted")
        program.go()
        program.ends()
