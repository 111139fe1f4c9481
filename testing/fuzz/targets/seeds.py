#!/usr/bin/env python3
"""Writes the seed corpora of the fuzz targets: seeds.py beside them. They are committed; run this again after
a change of a format. The targets make checksums right themselves, so most seeds carry zeros there.

Files beside them that are named by a digest were found by the fuzzers; docs/internals/proofs.md
says how. Those named by a server were saved or dumped by it, payloads without version and checksum."""

import pathlib
import struct

HERE = pathlib.Path(__file__).parent
SOURCES = HERE.parents[2] / "library" / "durability" / "src"


def fixture(path, version):
    return bytes.fromhex("".join((SOURCES / path / f"version_{version}.hex").read_text().split()))


def checkpoint(words, per_block):
    file = b"STILLCKP" + struct.pack("<IIQQQ16sII", 1, per_block, words, 7, 1, b"imprint", 0, 0)
    for start in range(0, words, per_block):
        count = min(per_block, words - start)
        file += struct.pack("<IIQ", 0, count * 8, start)
        file += b"".join(struct.pack("<Q", start + word) for word in range(count))
    return file + b"STILLEND" + struct.pack("<QQQQ", 7, words, -(-words // per_block), 0)


def increment(runs, flags=0, words=40):
    file = b"STILLCKP" + struct.pack("<IIQQQ16sII", 3, 1024, words, 7, 1, b"imprint", 0, 0)
    file += struct.pack("<Q16sII", 0, b"test", 0, 0) + struct.pack("<QQQII", 9, 6, 8, flags, 0)
    for run in runs:
        payload = b"".join(
            struct.pack("<Q", start << 16 | count) + bytes(8 * count) for start, count in run
        )
        file += struct.pack("<IIQ", 0, len(payload), run[0][0]) + payload
    return file + b"STILLEND" + struct.pack("<QQQQ", 7, words, len(runs), 0)


def packed(words):
    file = b"STILLCKP" + struct.pack("<IIQQQ16sII", 3, 1025, words, 7, 1, b"imprint", 0, 0)
    file += struct.pack("<Q16sII", 0, b"test", 0, 0) + struct.pack("<QQQII", 9, 0, 0, 1, 0)
    zeros = b"\x1f\0\x01\0" + bytes([words * 8 - 25]) + b"\x50" + bytes(5)  # a zero, its copies, 5 more
    payload = struct.pack("<I", words * 8) + zeros
    file += struct.pack("<IIQ", 0, len(payload) | 1 << 31, 0) + payload
    return file + b"STILLEND" + struct.pack("<QQQQ", 7, words, 1, 0)


def log(first, payloads, unsynced, marked=False):
    file = b"STILLLOG" + struct.pack("<IIQQQ16sII", 3, 0, first, 1, 42, b"test", 0, 0)
    for number, payload in enumerate(payloads):
        file += struct.pack("<IIQIQ", 5, len(payload), first + number, min(number, unsynced), 9) + payload
        if marked:
            file += struct.pack("<IIQIQ", 5, 0, first + number, 2**32 - 1, 0)
    return file


def ziplist(*entries):
    body, before, tail = b"", 0, 10
    for entry in entries:
        tail = 10 + len(body)
        entry = (bytes([before]) if before < 254 else b"\xfe" + struct.pack("<I", before)) + entry
        body, before = body + entry, len(entry)
    return struct.pack("<IIH", 11 + len(body), tail, len(entries)) + body + b"\xff"


def listpack(*elements):
    body = b"".join(element + bytes([len(element)]) for element in elements)
    return struct.pack("<IH", 7 + len(body), len(elements)) + body + b"\xff"


def string(text):
    return (bytes([len(text)]) if len(text) < 64 else b"\x40" + bytes([len(text)])) + text


FIRST = struct.pack("<Q", 1 << 40)
# Two fields, one of which expires.
EXPIRING = listpack(b"\x81f", b"\x81v", b"\x00", b"\x81g", b"\x81w", b"\xf4" + FIRST)


def values():
    """A value for each layout of a collection, by a name."""
    long_zl = ziplist(b"\x02ab", b"\x40\x03abc", b"\x80\0\0\0\x01z", b"\xc0\x39\x30", b"\xf0\1\2\3", b"\xfe\xff", b"\xf5")
    wide_zl = ziplist(b"\xd0\1\2\3\4", b"\xe0\1\2\3\4\5\6\7\x88", b"\x03f.g", b"\x031e3")
    long_lp = listpack(b"\x05", b"\xc1\x2c", b"\xdf\xff", b"\xf1\x88\x13", b"\xf2\1\2\3", b"\xf3\1\2\3\4", b"\xf4\1\2\3\4\5\6\7\x88")
    text_lp = listpack(b"\x82ab", b"\xe0\x03abc", b"\xf0\3\0\0\0xyz", b"\x831.5")
    return {
        "list-ziplist": (10, string(long_zl)),
        "list-ziplists": (14, b"\x02" + string(long_zl) + string(wide_zl)),
        "list-nodes": (18, b"\x03\x02" + string(long_lp) + b"\x01\x03one\x02" + string(text_lp)),
        "set-intset-2": (11, string(struct.pack("<IIhhh", 2, 3, -5, 0, 7))),
        "set-intset-8": (11, string(struct.pack("<IIqq", 8, 2, -(1 << 40), 1 << 50))),
        "hash-zipmap": (9, string(b"\x02\x01f\x01\x02v--\xfe\x02\0\0\0gg\x00\x00\xff")),
        "hash-ziplist": (13, string(wide_zl)),
        "hash-listpack": (16, string(text_lp)),
        "sorted-ziplist": (12, string(ziplist(b"\x01a", b"\xf5", b"\x01b", b"\x031.5"))),
        "sorted-listpack": (17, string(listpack(b"\x81a", b"\x05", b"\x81b", b"\x831e3"))),
        "sorted-binary": (5, b"\x02\x01b" + struct.pack("<d", 2.5) + b"\x01a" + struct.pack("<d", -1e300)),
        "sorted-text": (3, b"\x03\x01a\x031.5\x01b\xfe\x01c\xff"),
        "set": (2, b"\x02\x01a\xc0\x05"),
        "hash-expires": (24, FIRST + b"\x02\x00\x01f\x01v\x01\x01g\x01w"),
        "hash-expires-early": (22, b"\x02\x00\x01f\x01v\x40\x99\x01g\x01w"),
        "hash-expires-valkey": (22, b"\x02\x01f\x01v" + b"\xff" * 8 + b"\x01g\x01w" + FIRST),
        "hash-listpack-expires": (25, FIRST + string(EXPIRING)),
        "hash-listpack-expires-early": (23, string(EXPIRING)),
        "array": (28, b"\x03\x01\x09\x01\x00\x01a\x02\x01" + FIRST + b"\x05\x02" + struct.pack("<d", 1.5)),
        "packed": (16, b"\xc3\x0e\x12\x0c" + b"\x12\0\0\0\x02\0\x86aaaaaa" + b"\x01\x07\x81" + b"b"),
    }


STREAMS = (15, 19, 21, 26, 27)


def payload():
    seeds = {name: bytes([kind]) + value for name, (kind, value) in values().items()}
    seeds["string"] = b"\x00\xc3\x04\x0a\x00a\xe0\x00"
    seeds["stream"] = b"\x13\x01\x01i\x02lp"
    seeds |= {f"stream-{kind}": bytes([kind]) + stream(kind) for kind in STREAMS}
    return seeds


def stream(kind):
    """Three entries, one deleted, one with names of its own, a group with one pending entry."""

    def stream_id(ms, seq):
        return struct.pack(">QQ", ms, seq)

    node = [2, 1, 1, b"f", 0, 2, 0, 0, b"v", 4, 3, 1, 0, 7, 4, 0, 2, 1, 1, b"g", b"w", 6]
    node = listpack(*(bytes([item]) if isinstance(item, int) else b"\x81" + item for item in node))
    numbers = b"\x02\x07\x02" + (b"\x05\x01\x06\x01\x03" if kind > 15 else b"")
    group = b"\x01g\x05\x01" + (b"\x01" if kind > 15 else b"")
    pending = b"\x01" + stream_id(5, 1) + struct.pack("<Q", 1000) + b"\x02"
    times = struct.pack("<Q", 1000) * (2 if kind > 19 else 1)
    consumers = b"\x01\x01c" + times + b"\x01" + stream_id(5, 1) + (b"\x00" if kind > 26 else b"")
    producers = b"\x10\x20\x01\x01p\x01\x01m\x05\x01\x01\x00" if kind > 25 else b""
    entries = b"\x01" + string(stream_id(5, 1)) + string(node)
    return entries + numbers + b"\x01" + group + pending + consumers + producers


def rdb():
    stream_id = b"\x10" + bytes(range(16))
    group = b"\x01\x01g\x01\x02%s\x01" + bytes(24) + b"\x05\x01\x01c" + bytes(8) + b"\x01" + bytes(16)
    streams = b"\x01" + stream_id + b"\x02lp\x01\x02\x03"
    value = {
        0: b"\x01v",
        1: b"\x02\x01a\xc0\x05",
        3: b"\x02\x01a\x011\x01b\xfd",
        4: b"\x01\x01a\x01b",
        5: b"\x01\x01a12345678",
        7: b"\x81\0\0\0\0\0\0\0\x01\x01\x05\x02\x06\x031234\x0412345678\x05\x01s\0",
        15: streams + group % b"",
        16: b"\x01z",
        18: b"\x02\x01\x01a\x02\x01b",
        19: streams + b"\x01\x02\x03\x04\x05" + group % b"\x03",
    }
    seeds = {f"type-{kind}": bytes([kind]) + b"\x01k" + text for kind, text in value.items()}
    seeds["strings"] = (
        b"\xfa\x09redis-ver\x067.0.15\xfe\x00\xfb\x03\x01\x00\x01i\xc1\x39\x30\x00\x01l\xc3\x04\x0a\x00a"
        b"\xe0\x00\xfc\x00\x00\x01\x00\x00\x00\x00\x00\xf9\x07\x00\x40\x01m\x80\x00\x00\x00\x01v"
    )
    seeds["sections"] = b"\xf5\x03lib\xf7\x01\x02\x01\x02\x01\x00\xfe\x03\xfd\x01\x00\x00\x00\xf8\x05\x00\x01k\xc2abcd"
    seeds |= {f"stream-{kind}": bytes([kind]) + b"\x01k" + stream(kind) for kind in STREAMS}
    seeds["metadata"] = b"\xfc" + FIRST + b"\xf3\x01\1\2\3\4\x05\x01s\x00\x00\x01k\x01v"
    seeds["slot-info"] = b"\xfe\x00\xf4\x07\x02\x00\x00\x01k\x01v"
    for name, (kind, text) in values().items():
        seeds[name] = bytes([kind]) + b"\x01k" + text
    seeds["whole"] = b"REDIS0004\xfe\x00\x00\x01k\x01v\xff"
    return seeds


def resp():
    set_ex = b"*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n$2\r\nPX\r\n$4\r\n1000\r\n"
    return {
        "set": b"\x07" + set_ex,
        "pipeline": b"\x03" + set_ex * 2 + b"*1\r\n$4\r\nPING\r\n*0\r\n*-1\r\n",
        "inline": b"\x05SET \"a\\x41\\n\" 'b c'\r\nPING\n\r\n",
        "lengths": b"\x01*2\r\n$16\r\n0123456789abcdef\r\n$0\r\n\r\n*1\r\n$99\r\n",
        "replies": b"%1\r\n+a\r\n*3\r\n:1\r\n$-1\r\n_\r\n",
        "numbers": b"~2\r\n,1.5\r\n#t\r\n",
        "errors": b"\x02*1\r\nx\r\n",
    }


def commands():
    """Programs; what the numbers mean is the order of the tables there."""
    return {
        name: bytes([size]) + b"".join(bytes([number, 0, 3, number % 8, 10, 15]) for number in numbers)
        for name, size, numbers in [
            ("packed", 1, range(60, 84)),
            ("large", 0, range(120, 144)),
            ("raw", 1, range(200, 220)),
        ]
    } | {"one": b"\x01\x40\x00\x04\x00\xff\x03abc\x10\x11"}


def scripts():
    """The first byte: 0 a script, 1 a script in words, 2 a library, 3 a library in words."""
    sources = {
        "limits": b"local n = redis.call('INCR', KEYS[1]) if n > tonumber(ARGV[2]) then return 0 end return 1",
        "replies": b"return redis.pcall('raw', '*2\\r\\n:1\\r\\n$2\\r\\nab\\r\\n')",
        "resp3": b"redis.setresp(3) return redis.call('raw', '%1\\r\\n+a\\r\\n#t\\r\\n')",
        "json": b"return cjson.encode(cjson.decode('{\"a\":[1,2.5,null,{\"b\":true}]}'))",
        "msgpack": b"return {cmsgpack.unpack(cmsgpack.pack(1, -2.5, 'x', {1, {a = 2}}))}",
        "struct": b"return {struct.unpack('>I2<i4bh', struct.pack('>I2<i4bh', 65535, -2, -1, 7))}",
        "offset": b"return {struct.unpack('b', 'abc', 0/0)}",
        "bits": b"return {bit.tohex(bit.bnot(5)), bit.lshift(1, 31), string.format('%5.1f%q', 1, 'x')}",
        "endless": b"while true do pcall(function() while true do end end) end",
        "greedy": b"local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(i) end",
        "coroutine": b"return coroutine.wrap(function(a) return redis.call('x', a) end)('y')",
        "global": b"rawset(_G, 'x', 1) string.len = nil getmetatable('').__index = {}",
    }
    library = b"redis.register_function{function_name = 'f', callback = function(k, a) return {k, a} end}"
    seeds = {name: b"\0" + source for name, source in sources.items()}
    return seeds | {"library": b"\2" + library, "words": b"\1" + bytes(range(60)), "call": b"\1\x09\x27\x1f\x28\x04\x22\x1b\x23\x05"}


CORPORA = {
    "commands": commands(),
    "checkpoint": {
        "version-1": fixture("checkpoint", 1),
        "version-2": fixture("checkpoint", 2),
        "version-3": fixture("checkpoint", 3),
        "increment": increment([[(0, 1), (2, 3)], [(5, 2), (39, 1)]]),
        "increment-empty": increment([]),
        "increment-packed": increment([[(0, 1), (2, 3)]], flags=1),
        "packed": packed(30),
        "empty": checkpoint(0, 1),
        "blocks": checkpoint(9, 4),
        "word": checkpoint(1, 2),
    },
    "log": {
        "version-2": fixture("log", 2),
        "version-3": fixture("log", 3),
        "marked": log(5, [b"one", b"", b"three"], 0, marked=True),
        "mark-damaged": log(5, [b"one"], 0, marked=True)[:-28] + b"\x01" + bytes(15) + b"\xff" * 4 + bytes(8),
        "mark-alone": log(5, [b"one"], 0, marked=True)[:64] + log(5, [b""], 0, marked=True)[-28:],
        "empty": log(1, [], 0),
        "batch": log(5, [b"one", b"", b"three", b"4444"], 0),
        "unsynced": log(5, [b"one", b"", b"three", b"4444"], 9),
        "torn": log(5, [b"one"], 0) + bytes(30),
    },
    "payload": payload(),
    "rdb": rdb(),
    "resp": resp(),
    "scripts": scripts(),
    "canary": {"get": b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"},
}

for target, seeds in CORPORA.items():
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    for name, seed in seeds.items():
        (folder / name).write_bytes(seed)
