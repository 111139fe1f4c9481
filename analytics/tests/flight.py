"""SQL by Arrow Flight, as ADBC asks it, on a server that clients write to meanwhile.

flight.py PROGRAM
"""

import base64
import contextlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight
from adbc_driver_flightsql import DatabaseOptions

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
from ports import own_port  # noqa: E402

ACCOUNTS = 200


class Client:
    """A client on a unix socket, for replies of RESP2."""

    def __init__(self, path: Path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        self.file = self.socket.makefile("rb")

    def send(self, *requests):
        for words in requests:
            words = [str(word).encode() for word in words]
            text = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
            self.socket.sendall(b"*%d\r\n" % len(words) + text)
        return [self.reply() for _ in requests]

    def __call__(self, *words):
        return self.send(words)[0]

    def reply(self):
        line = self.file.readline()[:-2]
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return rest


@contextlib.contextmanager
def server(program: str, *flags: str):
    with tempfile.TemporaryDirectory() as folder:
        path, port = Path(folder) / "socket", own_port()
        line = [program, "serve", "--dir", folder, "--port", "0", "--unixsocket", str(path)]
        line += ["--save", "", "--query-port", str(port), *flags]
        process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
        lines = []
        for said in process.stderr:
            lines.append(said)
            if "Ready to accept" in said:
                break
        else:
            raise RuntimeError("".join(lines))
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            yield path, f"grpc://127.0.0.1:{port}", process
        finally:
            process.terminate()
            assert process.wait(60) == 0, "it ends as a server does"


def ask(connection, sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetch_arrow_table().to_pylist()


def one(connection, sql):
    [row] = ask(connection, sql)
    [value] = row.values()
    return value


def refused(sentence, action):
    try:
        action()
    except Exception as error:  # of several kinds, each with the sentence
        assert sentence in str(error), f"{sentence!r} in {error}"
        return
    raise AssertionError(f"not refused: {sentence}")


def connect(address, user=None, password=None):
    options = {}
    if user is not None:
        login = base64.b64encode(f"{user}:{password}".encode()).decode()
        options[DatabaseOptions.AUTHORIZATION_HEADER.value] = f"Basic {login}"
    return flight.connect(address, db_kwargs=options, autocommit=True)


def session(address, user, password):
    """One that has logged in, and keeps its view."""
    return flight.connect(
        address, db_kwargs={"username": user, "password": password}, autocommit=True
    )


def instants(program):
    """Money moves between accounts in transactions: each answer has all of it."""
    with server(program, "--appendonly", "yes") as (path, address, _):
        client = Client(path)
        client.send(*[("HSET", f"account:{n}", "money", 100) for n in range(ACCOUNTS)])
        client.send(*[("SET", f"pad:{n}", n) for n in range(3_000)])
        client("ACL", "SETUSER", "ada", "on", ">secret", "+@all", "allkeys")
        done = threading.Event()

        def move():
            mover, round = Client(path), 0
            while not done.is_set():
                round += 1
                mover.send(
                    ("MULTI",),
                    ("HINCRBY", f"account:{round * 7 % ACCOUNTS}", "money", -1),
                    ("HINCRBY", f"account:{round * 11 % ACCOUNTS}", "money", 1),
                    ("SET", "round", round),
                    ("EXEC",),
                )
                if round % 500 == 0:
                    mover("BGREWRITEAOF")

        mover = threading.Thread(target=move)
        mover.start()
        try:
            money = "select sum(cast(value as bigint)) from hashes where key like 'account:%'"
            rounds = "select cast(value as bigint) from strings where key = 'round'"
            while not client("EXISTS", "round") == b"1":
                time.sleep(0.01)
            with connect(address) as fresh, session(address, "ada", "secret") as kept:
                first, last = one(kept, rounds), 0
                for _ in range(3):
                    assert one(fresh, money) == 100 * ACCOUNTS
                    assert one(kept, money) == 100 * ACCOUNTS
                    now = one(fresh, rounds)
                    assert now >= last, "each question sees what was there when it came"
                    last = now
                    assert one(kept, rounds) == first, "a session is of one instant"
                assert last > first
                assert one(fresh, "select count(*) from keys where key like 'pad:%'") == 3_000
        finally:
            done.set()
            mover.join()


def rights(program):
    with server(program) as (path, address, _):
        client = Client(path)
        client("MSET", "own:1", "a", "other:1", "b")
        client("ACL", "SETUSER", "ada", "on", ">secret", "+stillframe|view", "%R~own:*")
        client("ACL", "SETUSER", "bob", "on", ">secret", "+get", "~*")
        client("ACL", "SETUSER", "default", "off")
        keys = "select key from keys order by key"
        for opened in (session, connect):
            with opened(address, "ada", "secret") as ada:
                assert ask(ada, keys) == [{"key": "own:1"}]
        def asks(opened, *login):
            with opened(address, *login) as connection:
                ask(connection, keys)

        refused("invalid username-password", lambda: asks(connect, "ada", "wrong"))
        refused("invalid username-password", lambda: asks(session, "ada", "wrong"))
        refused("invalid username-password", lambda: asks(connect))
        refused("no permissions", lambda: asks(session, "bob", "secret"))

        # Rules that change count for a session that is open.
        with session(address, "ada", "secret") as ada:
            assert ask(ada, keys) == [{"key": "own:1"}]
            client("ACL", "SETUSER", "ada", "resetkeys", "%R~other:*")
            assert ask(ada, keys) == [{"key": "other:1"}]
            client("ACL", "SETUSER", "ada", "off")
            refused("invalid username-password", lambda: ask(ada, keys))


def bounds(program):
    """Questions reach no file; a view that is given up ends with that sentence, and its session
    goes on with another."""
    with server(program, "--views-memory", "1mb") as (path, address, _):
        client = Client(path)
        client.send(*[("SET", f"k{n}", "x" * 100_000) for n in range(30)])
        client("ACL", "SETUSER", "ada", "on", ">secret", "+@all", "allkeys")
        with session(address, "ada", "secret") as ada:
            for sql in (
                "copy (select 1) to '/tmp/stillframe-flight-test.csv'",
                "create external table t stored as csv location '/etc/passwd'",
                "create view v as select 1",
                "insert into keys select * from keys",
                "set datafusion.execution.batch_size = 1",
                "select 1; select 2",
                "select nothing from keys",
                "select * from '/etc/passwd'",
            ):
                refused("", lambda: ask(ada, sql))
            assert not Path("/tmp/stillframe-flight-test.csv").exists()
            assert one(ada, "select count(*) from strings where length(value) = 100000") == 30
            client.send(*[("SET", f"k{n}", "y") for n in range(30)])
            client("PING")
            assert one(ada, "select count(*) from strings where length(value) = 100000") < 30
            assert one(ada, "select count(*) from keys") == 30
            names = {row["table_name"] for row in tables(ada)}
            assert {"keys", "strings", "hashes", "pending"} <= names, names
            ask(ada, "create table ys as string 'k*' (n bigint from key, v text from value)")
            assert one(ada, "select sum(n) from ys where v = 'y'") == sum(range(30))


def costly(program):
    """No statement ends the server, however deep it is or long a value it asks for."""
    with server(program) as (path, address, process):
        Client(path)("SET", "k", "v")
        with connect(address) as it:
            for sql, sentence in (
                ("select " + "+".join(["1"] * 100_000), "names, words and operators"),
                (" union all ".join(["select 1"] * 20_000), "names, words and operators"),
                ("select " + "(" * 10_000 + "1" + ")" * 10_000, "RecursionLimit"),
                (";" * 1_000_000, "one statement at a time"),
                ("select length(repeat('x', 2000000000))", "repeat"),
                ("select range(0, 1000000000)", "range"),
            ):
                refused(sentence, lambda: ask(it, sql))
            deep = "+".join(["1"] * 1_900)
            assert one(it, f"select {deep}") == 1_900
            assert one(it, f"select {'+'.join(['elements'] * 900)} from keys") == 900
            many = ", ".join(f"'{n}'" for n in range(20_000))
            assert one(it, f"select count(*) from keys where key in ({many}, 'k')") == 1
            either = " or ".join([f"key = '{n}'" for n in range(600)])
            assert one(it, f"select count(*) from keys where {either} or key = 'k'") == 1
        assert process.poll() is None


def slow(program):
    """Who stops in the middle of an answer holds no view for long, and hears of it."""
    for flags, sentence in (
        (("--views-timeout", "1"), "not read for too long"),
        (("--views-timeout", "0", "--views-memory", "1mb"), "the view was given up"),
    ):
        with server(program, *flags) as (path, address, _):
            client, text = Client(path), "x" * 500_000
            for n in range(300):
                client("HSET", "large", f"f{n}", text)
            client.send(*[("SET", f"k{n}", text) for n in range(10)])
            with connect(address) as it, it.cursor() as cursor:
                cursor.execute("select field, value from hashes")
                rows = cursor.fetch_record_batch()
                rows.read_next_batch()
                client.send(*[("SET", f"k{n}", "y") for n in range(10)])
                while "1" in flags and b"views_read_open:0" not in client("INFO", "everything"):
                    time.sleep(0.05)
                refused(sentence, rows.read_all)


def tables(connection):
    found = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
    schemas = [schema for catalog in found for schema in catalog["catalog_db_schemas"]]
    return [table for schema in schemas for table in schema["db_schema_tables"]]


def all_types(program):
    with server(program) as (path, address, _):
        client = Client(path)
        client("SET", "s", "12", "PX", 1_000_000)
        client("RPUSH", "l", "a", "b", "7")
        client("SADD", "t", "1", "2", "three")
        client("ZADD", "z", "1.5", "m", "-inf", "n")
        client("HSET", "h", "f", "v", "g", "9")
        client("HPEXPIRE", "h", 900_000, "FIELDS", 1, "f")
        client("XADD", "x", "1-1", "a", "1", "b", "two")
        client("XADD", "x", "2-1", "c", "3")
        client("XGROUP", "CREATE", "x", "g", "0")
        client("XREADGROUP", "GROUP", "g", "me", "COUNT", 1, "STREAMS", "x", ">")
        client("SADD", "large", *range(20_000))
        with connect(address) as it:
            types = ask(it, "select key, type, elements from keys order by key")
            assert [tuple(row.values()) for row in types] == [
                ("h", "hash", 2), ("l", "list", 3), ("large", "set", 20_000), ("s", "string", 1),
                ("t", "set", 3), ("x", "stream", 2), ("z", "zset", 2),
            ], types
            assert [row["value"] for row in ask(it, 'select value from lists order by "index"')] \
                == ["a", "b", "7"]
            assert one(it, "select count(distinct member) from sets where key = 'large'") == 20_000
            assert 0 < one(it, "select ttl from hashes where field = 'f'") <= 900_000
            assert one(it, "select ttl from hashes where field = 'g'") is None
            assert 0 < one(it, "select ttl from strings") <= 1_000_000
            assert one(it, "select score from zsets where member = 'm'") == 1.5
            [entry, _] = ask(it, "select id, fields from streams order by id")
            assert entry == {
                "id": "1-1",
                "fields": [{"field": "a", "value": "1"}, {"field": "b", "value": "two"}],
            }, entry
            [group] = ask(it, "select name, last_id, consumers, pending from groups")
            assert group == {"name": "g", "last_id": "1-1", "consumers": 1, "pending": 1}, group
            assert one(it, "select consumer from pending") == "me"


if __name__ == "__main__":
    for part in (all_types, rights, bounds, costly, slow, instants):
        part(sys.argv[1])
        print(f"{part.__name__}: right")
