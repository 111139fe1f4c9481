"""The server in this process, by direct calls and by redis-py."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import stillframe
from stillframe import Server

from elsewhere import refused_elsewhere

redis = pytest.importorskip("redis")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "data", save="", unixsocket=True) as server:
        yield server


def test_direct_calls(server: Server) -> None:
    assert server.execute("SET", "key", b"\x00\xff") == b"OK"
    assert server.execute("GET", "key") == b"\x00\xff"
    assert server.execute("HSET", "hash", "a", 1, bytearray(b"b"), 2.5) == 2
    assert server.execute("HGETALL", "hash") == [b"a", b"1", b"b", b"2.5"]
    assert server.execute("GET", "none") is None
    with pytest.raises(stillframe.CommandError, match="WRONGTYPE"):
        server.execute("INCR", "hash")
    with pytest.raises(stillframe.CommandError, match="unknown command"):
        server.execute("NOSUCH")
    for wrong in (None, True, object(), ["a"]):
        with pytest.raises(TypeError):
            server.execute("SET", "key", wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="through client"):
        server.execute("subscribe", "channel")
    with pytest.raises(ValueError):
        server.execute()
    assert server.execute("HELLO", 3)[b"proto"] == 3
    assert server.execute("HGETALL", "hash") == {b"a": b"1", b"b": b"2.5"}
    assert server.execute("ZADD", "z", 1.5, "m") == 1
    assert server.execute("ZSCORE", "z", "m") == 1.5
    big = os.urandom(10_000_000)
    server.execute("SET", "big", big)
    assert server.execute("GET", "big") == big


def test_texts_are_decoded_if_asked(tmp_path: Path) -> None:
    with Server(tmp_path, decode=True, save="") as server:
        server.execute("SET", "key", "höher")
        assert server.execute("GET", "key") == "höher"
        server.execute("SET", "key", b"\xff")
        with pytest.raises(UnicodeDecodeError):
            server.execute("GET", "key")
        assert server.execute("PING") == "PONG"


def test_numbers_of_other_types_are_numbers(server: Server) -> None:
    """What enumerations and numpy print is more than the number."""
    np = pytest.importorskip("numpy")
    for number, text in (
        (signal.SIGINT, b"2"), (np.float64(1.5), b"1.5"), (np.int64(-7), b"-7"), (np.uint8(65), b"65"),
        (np.array(9), b"9"), (np.arange(3, dtype="u1"), b"\0\1\2"),
    ):  # fmt: skip
        server.execute("SET", "key", number)
        assert server.execute("GET", "key") == text
    for wrong in (True, None, np.float32(1), np.arange(3), np.bool_(True), [1]):
        with pytest.raises(TypeError):
            server.execute("SET", "key", wrong)


def test_requests_without_a_reply_are_refused(server: Server) -> None:
    for request in (("CLIENT", "REPLY", "OFF"), ("client", b"reply", "skip"), ("REPLCONF", "ACK", 1)):
        with pytest.raises(ValueError, match="no single reply"):
            server.execute(*request)
        with pytest.raises(ValueError, match="no single reply"):
            server.pipeline().execute("PING").execute(*request).run()
    for word in ("MONITOR", "sync"):
        with pytest.raises(ValueError, match="no single reply"):
            server.execute(word)
    assert server.execute("CLIENT", "REPLY", "ON") == b"OK"
    assert server.execute("PING") == b"PONG"
    with pytest.raises(stillframe.CommandError):
        server.execute("CLIENT", "REPLY")


def test_messages_are_not_taken_for_replies(server: Server) -> None:
    server.execute("HELLO", 3)
    server.execute("CLIENT", "TRACKING", "ON", "BCAST")
    other = server.client()
    for number in range(100):
        other.set("key", number)
        assert server.execute("GET", "key") == b"%d" % number
        assert server.pipeline().execute("SET", "mine", 1).execute("PING").run() == [b"OK", b"PONG"]


def test_pipelines(server: Server) -> None:
    pipeline = server.pipeline()
    for number in range(10_000):
        pipeline.execute("SET", f"key:{number}", number)
    assert pipeline.run() == [b"OK"] * 10_000
    pipeline.execute("GET", "key:7").execute("LPUSH", "key:7", 1).execute("PING")
    replies = pipeline.run(errors=True)
    assert (replies[0], replies[2]) == (b"7", b"PONG")
    assert isinstance(replies[1], stillframe.CommandError)
    with pytest.raises(stillframe.CommandError, match="WRONGTYPE"):
        pipeline.execute("LPUSH", "key:7", 1).execute("PING").run()
    assert server.execute("PING") == b"PONG"
    for _ in range(20):
        pipeline.execute("SET", "big", b"x" * 1_000_000).execute("GET", "big")
    assert len(pipeline.run()[1]) == 1_000_000


def test_redis_py(server: Server) -> None:
    client = server.client(decode_responses=True)
    assert client.set("key", "value") and client.get("key") == "value"
    client.hset("hash", mapping={"a": 1, "b": 2})
    assert client.hgetall("hash") == {"a": "1", "b": "2"}
    with pytest.raises(redis.ResponseError):
        client.incr("hash")
    with client.pipeline() as pipe:
        pipe.incr("n").incr("n")
        assert pipe.execute() == [1, 2]
    add = client.register_script("return ARGV[1] + ARGV[2]")
    assert add(args=[2, 3]) == 5
    assert client.xadd("stream", {"a": 1}) and client.xlen("stream") == 1
    messages = client.pubsub()
    messages.subscribe("channel")
    assert messages.get_message(timeout=5)["type"] == "subscribe"
    assert messages.get_message(timeout=0.01) is None
    client.publish("channel", "hello")
    assert messages.get_message(timeout=5)["data"] == "hello"
    messages.close()
    started = time.monotonic()
    assert client.blpop("empty", timeout=0.1) is None
    assert time.monotonic() - started >= 0.1
    impatient = server.client(socket_timeout=0.05, retry=None)
    with pytest.raises(redis.TimeoutError):
        impatient.blpop("empty", timeout=5)
    with client.lock("lock", timeout=5):
        assert client.exists("lock")
    with server.client(db=3) as other:
        other.set("key", 3)
    assert client.get("key") == "value" and client.info("keyspace")["db3"]["keys"] == 1


def test_other_processes_use_the_unix_socket(server: Server) -> None:
    assert server.path is not None
    client = redis.Redis(unix_socket_path=server.path)
    client.set("key", 1)
    assert server.execute("GET", "key") == b"1"


def test_asyncio(server: Server) -> None:
    async def run() -> None:
        client = server.asyncio_client()
        assert await client.set("key", b"v" * 1_000_000)
        assert len(await client.get("key")) == 1_000_000
        replies = await asyncio.gather(*(client.incr("n") for _ in range(100)))
        assert sorted(replies) == list(range(1, 101))
        async with client.pipeline() as pipe:
            for _ in range(1000):
                pipe.incr("m")
            assert (await pipe.execute())[-1] == 1000
        waiting = asyncio.create_task(client.blpop("list", timeout=10))
        await asyncio.sleep(0)
        await client.lpush("list", "x")
        assert await waiting == [b"list", b"x"] or waiting.result() == (b"list", b"x")
        async with client.pubsub() as messages:
            await messages.subscribe("channel")
            assert (await messages.get_message(timeout=5))["type"] == "subscribe"
            await client.publish("channel", "hello")
            assert (await messages.get_message(timeout=5))["data"] == b"hello"
        with pytest.raises(redis.ResponseError):
            await client.lpush("key", 1)
        await client.aclose()

    asyncio.run(run())


def test_event_loops_wait_on_the_descriptor(server: Server) -> None:
    """As kombu does: what is readable is read without a limit of time."""
    stream, poll, epoll = server.connect(), select.poll(), select.epoll()
    poll.register(stream.fileno(), select.POLLIN)
    epoll.register(stream.fileno(), select.EPOLLIN)

    def wait(seconds: float) -> bool:
        chosen = bool(select.select([stream], [], [], seconds)[0])
        assert chosen == bool(poll.poll(0)) == bool(epoll.poll(0))
        return chosen

    def read(wanted: bytes) -> None:
        got = b""
        while len(got) < len(wanted):
            assert wait(60)
            got += stream.recv(len(wanted) - len(got))
        assert got == wanted and not wait(0)

    stream.settimeout(None)
    assert not wait(0)
    stream.sendall(b"SUBSCRIBE c\r\n")
    read(b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n")
    for number in range(100, 300):
        server.execute("PUBLISH", "c", number)
        assert wait(60) and stream.recv(4, socket.MSG_PEEK) == b"*3\r\n"
        read(b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$3\r\n%d\r\n" % number)
    large = b"x" * 2_000_000  # more than there is room for
    stream.sendall(b"*2\r\n$4\r\nPING\r\n$%d\r\n%s\r\n" % (len(large), large))
    while not wait(60) or not stream.recv(65536).endswith(b"x\r\n"):
        pass
    assert not wait(0)
    server.execute("CLIENT", "KILL", "TYPE", "pubsub")
    assert wait(60) and stream.recv(1) == b""


def test_several_servers_and_threads(tmp_path: Path) -> None:
    with Server(tmp_path / "a", save="") as a, Server(tmp_path / "b", save="") as b:
        client = a.client()

        def work(number: int) -> None:
            for _ in range(500):
                a.execute("INCR", "n")
                client.incr("n")
                b.execute("INCRBY", "n", number)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (a.execute("GET", "n"), b.execute("GET", "n")) == (b"4000", b"3000")
        a.execute("SELECT", 5)
        found = []
        thread = threading.Thread(target=lambda: found.append(a.execute("GET", "n")))
        thread.start()
        thread.join()
        assert found == [b"4000"] and a.execute("GET", "n") is None
        with pytest.raises(stillframe.InUse):
            Server(tmp_path / "a")


def test_settings_are_those_of_redis_conf(tmp_path: Path) -> None:
    with Server(tmp_path, maxmemory="123mb", maxmemory_policy="allkeys-lru", save=[60, 5]) as server:
        found = server.client(decode_responses=True).config_get("maxmemory*", "save")
        assert found["maxmemory"] == str(123 << 20) and found["save"] == "60 5"
    for settings, text in (
        ({"nosuch": 1}, "nosuch"),
        ({"maxmemory": "lots"}, "maxmemory"),
        ({"daemonize": True}, "daemonize"),
    ):
        with pytest.raises(stillframe.Error, match=text):
            Server(tmp_path, **settings)
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger = logging.Logger("stillframe", logging.INFO)
    logger.addHandler(Keep())
    with Server(tmp_path, logger=logger):
        pass
    assert lines


def test_what_a_server_cannot_have_is_an_exception(tmp_path: Path) -> None:
    """Each has the engine's text, and a server that runs goes on as it was."""
    pytest.importorskip("numpy")
    store = {"a": stillframe.ArraySpec("f8", (9,))}
    stillframe.Store.open(tmp_path / "store", store).close()
    with pytest.raises(stillframe.Foreign, match="holds the state of"):
        Server(tmp_path / "store")
    (tmp_path / "redis" / "appendonlydir").mkdir(parents=True)
    (tmp_path / "redis" / "appendonlydir" / "appendonly.aof.manifest").write_text(
        "file appendonly.aof.1.incr.aof seq 1 type i\n"
    )
    with pytest.raises(stillframe.Foreign, match="Redis server"):
        Server(tmp_path / "redis", appendonly=True)
    with Server(tmp_path / "data", save="3600 1", maxmemory="100mb") as server:
        server.execute("SET", "key", 1)
        assert f"process {os.getpid()}" in refused_elsewhere("Server", tmp_path / "data")
        server.execute("CONFIG", "SET", "maxmemory", "1mb")
        with pytest.raises(stillframe.CommandError, match="OOM"):
            server.execute("SET", "other", b"x" * (2 << 20))
            server.execute("SET", "another", 1)
        server.execute("CONFIG", "SET", "maxmemory", 0)
        server.execute("DEL", "other")
        value = os.urandom(1_000_000)
        server.execute("SET", "large", value)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        try:
            with pytest.raises(stillframe.CommandError, match="the save failed"):
                server.execute("SAVE")
            with pytest.raises(stillframe.Error, match="could not be saved"):
                server.close()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert server.execute("GET", "large") == value
    with Server(tmp_path / "data", save="") as server:
        assert server.execute("MGET", "key", "large") == [b"1", value]


def test_a_full_disk_refuses_writes_until_there_is_room(tmp_path: Path) -> None:
    acknowledged = {}
    with Server(tmp_path, appendonly=True, appendfsync="always", save="") as server:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        refused = ""
        try:
            for number in range(200):
                key, value = b"%d" % number, os.urandom(1000)
                try:
                    server.execute("SET", key, value)
                    acknowledged[key] = value
                except (stillframe.CommandError, ConnectionError) as error:
                    refused += str(error)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert "MISCONF" in refused and "File too large" in refused and len(acknowledged) < 200
        for key, value in acknowledged.items():
            assert server.execute("GET", key) == value
        while True:  # the server tries again by itself
            try:
                server.execute("SET", b"late", 1)
                break
            except stillframe.CommandError as error:
                assert "MISCONF" in str(error)
        acknowledged[b"late"] = b"1"
    with Server(tmp_path, appendonly=True, save="") as server:
        assert server.execute("MGET", *acknowledged) == list(acknowledged.values())


def test_tls(tmp_path: Path) -> None:
    with pytest.raises(stillframe.Error, match="set tls-cert-file"):
        Server(tmp_path / "data", tls_port=1)
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
            "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
            "-keyout", str(key), "-out", str(certificate)]  # fmt: skip
    subprocess.run(made, check=True, capture_output=True)
    files = {"tls_cert_file": str(certificate), "tls_key_file": str(key)}
    with pytest.raises(stillframe.Error, match="tls-ca-cert-file"):
        Server(tmp_path / "data", tls_port=1, **files)
    # It holds its port, so that nobody else is given it, and does not listen.
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        with Server(tmp_path / "data", tls_port=port, tls_auth_clients=False, **files) as server:
            client = redis.Redis("localhost", port, ssl=True, ssl_ca_certs=str(certificate))
            assert client.set("key", 1) and server.execute("GET", "key") == b"1"
            trusts_nobody = redis.Redis("localhost", port, ssl=True, retry=None)
            with pytest.raises(redis.ConnectionError, match="self-signed|CERTIFICATE_VERIFY"):
                trusts_nobody.ping()
            client.close()


def test_it_ends_and_starts_again(tmp_path: Path) -> None:
    server = Server(tmp_path, appendonly=True)
    server.execute("SET", "key", 1)
    client = server.client()
    client.ping()
    server.close()
    assert server.has_ended
    server.close()
    with pytest.raises(ConnectionError):
        server.execute("GET", "key")
    with pytest.raises(redis.ConnectionError):
        client.ping()
    with Server(tmp_path, appendonly=True) as server:
        assert server.execute("GET", "key") == b"1"
        with pytest.raises((ConnectionError, stillframe.Error)):
            server.execute("SHUTDOWN", "NOSAVE")
            server.execute("PING")


def test_a_forked_child_is_told(server: Server) -> None:
    client = server.client()
    client.set("key", 1)
    server.execute("PING")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            server.execute("GET", "key")
        except stillframe.WrongProcess:
            try:
                client.get("key")
            except (redis.ConnectionError, stillframe.WrongProcess) as error:
                code = 0 if "fork" in str(error) else 2
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert client.get("key") == b"1"


@pytest.mark.parametrize(
    "call", ["server.execute('BLPOP', 'a', 0)", "server.client().blpop('a', timeout=0)"]
)
def test_ctrl_c_ends_a_call_that_blocks(tmp_path: Path, call: str) -> None:
    program = f"""
import signal, stillframe
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what runs in the background
with stillframe.Server({str(tmp_path)!r}, save="", unixsocket=True) as server:
    print("ready", flush=True)
    try:
        {call}
    except KeyboardInterrupt:
        assert server.execute("PING") == b"PONG"
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    beside = redis.Redis(unix_socket_path=str(tmp_path / "stillframe.sock"))
    while beside.info("clients")["blocked_clients"] == 0:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    assert child.wait(20) == 0


def test_a_program_that_ends_without_closing_loses_nothing(tmp_path: Path) -> None:
    program = f"""
import stillframe
server = stillframe.Server({str(tmp_path)!r}, save="3600 1")
server.execute("SET", "key", 1)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    with Server(tmp_path, save="") as server:
        assert server.execute("GET", "key") == b"1"


def test_a_kill_loses_nothing_acknowledged(tmp_path: Path) -> None:
    program = f"""
import stillframe
server = stillframe.Server({str(tmp_path)!r}, appendonly=True, appendfsync="always")
while True:
    server.execute("MULTI")
    server.execute("INCR", "a")
    server.execute("INCR", "b")
    print(server.execute("EXEC")[0], flush=True)
"""
    confirmed = 0
    for _ in range(int(os.environ.get("STILLFRAME_KILLS", "5"))):
        child = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        for _ in range(50):
            confirmed = int(child.stdout.readline())
        child.kill()
        lines = child.stdout.read().split("\n")[:-1]
        child.wait()
        confirmed = max([confirmed] + [int(line) for line in lines])
        with Server(tmp_path, appendonly=True) as server:
            a, b = server.execute("MGET", "a", "b")
            assert int(a) >= confirmed and a == b
