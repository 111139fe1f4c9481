"""Exported files as DuckDB, pyarrow and polars read them, beside a redis-server's replies.

readers.py PROGRAM
"""

import hashlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import polars
import pyarrow.ipc
import pyarrow.parquet


class Redis:
    """A redis-server on a socket of its own folder, with a client for replies of RESP2."""

    def __init__(self, folder: Path):
        self.path = str(folder / "socket")
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--save", "", "--unixsocket", self.path],
            stdout=subprocess.DEVNULL,
            cwd=folder,
        )
        for _ in range(500):
            try:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(self.path)
                break
            except OSError:
                time.sleep(0.02)
        self.file = self.socket.makefile("rb")

    def __call__(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        request = b"*%d\r\n" % len(words)
        request += b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self.socket.sendall(request)
        return self.reply()

    def reply(self):
        line = self.file.readline()[:-2]
        kind, rest = line[:1], line[1:]
        if kind == b"$":
            if rest == b"-1":
                return None
            text = self.file.read(int(rest))
            self.file.read(2)
            return text
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return int(rest) if kind == b":" else rest


def digest(rows):
    """A digest of rows, whatever their order."""
    lines = sorted("\t".join(map(str, row)) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def main(program):
    if shutil.which("redis-server") is None:
        print("!!! SKIPPED: exported files: redis-server is missing")
        return
    folder = Path(tempfile.mkdtemp(prefix="stillframe-readers-"))
    redis = Redis(folder)
    try:
        chance = random.Random(7)
        for number in range(20_000):
            kind = number % 4
            if kind == 0:
                redis("SET", f"s:{number}", chance.random())
            elif kind == 1:
                redis("HSET", f"h:{number}", "price", chance.randrange(1000) / 8, "name", f"n{number}")
            elif kind == 2:
                redis("ZADD", f"z:{number % 50}", chance.randrange(1000) / 4, f"m{number}")
            else:
                redis("XADD", f"x:{number % 9}", "*", "a", number, "a", "twice")
        strings = [(key.decode(), redis("GET", key).decode()) for key in redis("KEYS", "s:*")]
        scores = []
        for key in redis("KEYS", "z:*"):
            reply = redis("ZRANGE", key, 0, -1, "WITHSCORES")
            pairs = zip(reply[::2], reply[1::2])
            scores += [(key.decode(), member.decode(), float(score)) for member, score in pairs]
        prices = [float(redis("HGET", key, "price")) for key in redis("KEYS", "h:*")]
        declared = "create table goods as hash 'h:*' (id bigint from key, price double, name text)"
        for name in ["parquet", "arrow", "csv"]:
            command = [program, "export", redis.path, "--out", folder / name, "--format", name]
            subprocess.run([*command, "--declare", declared, "--quiet"], check=True)
        at = folder / "parquet"
        ask = duckdb.connect().execute

        def rows(sql):
            return ask(sql).fetchall()

        expected = digest(strings)
        assert digest(rows(f"select key, value from '{at}/strings.parquet'")) == expected
        assert digest(rows(f"select key, value from '{folder}/csv/strings.csv'")) == digest(
            (key, float(value)) for key, value in strings
        ), "DuckDB takes numbers in CSV for numbers"
        table = pyarrow.parquet.read_table(at / "strings.parquet", columns=["key", "value"])
        assert digest(tuple(row.values()) for row in table.to_pylist()) == expected
        with pyarrow.ipc.open_file(folder / "arrow" / "strings.arrow") as file:
            table = file.read_all().select(["key", "value"])
            assert digest(tuple(row.values()) for row in table.to_pylist()) == expected
        frame = polars.read_parquet(at / "strings.parquet")
        assert digest(frame.select("key", "value").iter_rows()) == expected
        frame = polars.read_parquet(at / "zsets.parquet").select("key", "member", "score")
        assert digest(frame.iter_rows()) == digest(scores)
        total = rows(f"select sum(price), count(*), min(id) from '{at}/goods.parquet'")
        assert total == [(sum(prices), len(prices), 1)], total
        entries = rows(f"select count(*), min(len(fields)) from '{at}/streams.parquet'")
        assert entries == [(5000, 2)], entries
        types = dict(rows(f"select type, count(*) from '{at}/keys.parquet' group by type"))
        assert types == {"string": 5000, "hash": 5000, "zset": 25, "stream": 9}, types
        statistics = pyarrow.parquet.ParquetFile(at / "goods.parquet").metadata.row_group(0)
        assert statistics.column(0).statistics.has_min_max
        print("DuckDB, pyarrow and polars read what redis-server holds")
    finally:
        redis.process.kill()
        redis.process.wait()
        shutil.rmtree(folder)


main(sys.argv[1])
