//! How lookups count: keys that reading commands found and did not find, in INFO and as
//! `keymiss`. Recorded from redis-server 7.0.15.

use crate::harness::Harness;

/// The type of a key, a request that has it for `@`, and hits, misses and `keymiss` events of the
/// request where the key is there and where it is not; `None`: it would wait.
type Row = (char, &'static str, [u64; 3], Option<[u64; 3]>);

#[rustfmt::skip]
const ROWS: [Row; 176] = [
    ('s', "GET @", [1, 0, 0], Some([0, 1, 1])),
    ('s', "GETDEL @", [1, 0, 0], Some([0, 1, 1])),
    ('s', "GETEX @", [1, 0, 0], Some([0, 1, 1])),
    ('s', "GETEX @ PX 100", [1, 0, 0], Some([0, 1, 1])),
    ('s', "GETSET @ v", [1, 0, 0], Some([0, 1, 1])),
    ('s', "SET @ v GET", [1, 0, 0], Some([0, 1, 1])),
    ('s', "SET @ v NX GET", [1, 0, 0], Some([0, 1, 1])),
    ('s', "APPEND @ v", [0, 0, 0], Some([0, 0, 0])),
    ('s', "STRLEN @", [1, 0, 0], Some([0, 1, 1])),
    ('s', "GETRANGE @ 0 -1", [1, 0, 0], Some([0, 1, 1])),
    ('s', "SUBSTR @ 0 -1", [1, 0, 0], Some([0, 1, 1])),
    ('s', "SETRANGE @ 0 v", [0, 0, 0], Some([0, 0, 0])),
    ('s', "SETRANGE @ 0 ", [0, 0, 0], Some([0, 0, 0])),
    ('s', "INCR @", [0, 0, 0], Some([0, 0, 0])),
    ('s', "DECR @", [0, 0, 0], Some([0, 0, 0])),
    ('s', "INCRBY @ 1", [0, 0, 0], Some([0, 0, 0])),
    ('s', "DECRBY @ 1", [0, 0, 0], Some([0, 0, 0])),
    ('s', "INCRBYFLOAT @ 1", [0, 0, 0], Some([0, 0, 0])),
    ('s', "SETBIT @ 1 1", [0, 0, 0], Some([0, 0, 0])),
    ('s', "GETBIT @ 1", [1, 0, 0], Some([0, 1, 1])),
    ('s', "BITCOUNT @", [1, 0, 0], Some([0, 1, 1])),
    ('s', "BITPOS @ 1", [1, 0, 0], Some([0, 1, 1])),
    ('s', "BITOP NOT to @", [1, 0, 0], Some([0, 1, 1])),
    ('s', "BITOP AND to s @", [2, 0, 0], Some([1, 1, 1])),
    ('s', "BITFIELD @ GET u8 0", [1, 0, 0], Some([0, 1, 1])),
    ('s', "BITFIELD @ SET u8 0 1", [0, 0, 0], Some([0, 0, 0])),
    ('s', "BITFIELD_RO @ GET u8 0", [1, 0, 0], Some([0, 1, 1])),
    ('p', "PFADD @ a", [0, 0, 0], Some([0, 0, 0])),
    ('p', "PFCOUNT @", [1, 0, 0], Some([0, 1, 1])),
    ('p', "PFCOUNT none @", [1, 1, 1], Some([0, 2, 2])),
    ('p', "PFMERGE @ none", [1, 1, 1], Some([0, 2, 2])),
    ('p', "PFMERGE to @", [1, 1, 1], Some([0, 2, 2])),
    ('p', "PFDEBUG ENCODING @", [0, 0, 0], Some([0, 0, 0])),
    ('l', "LPUSH @ v", [0, 0, 0], Some([0, 0, 0])),
    ('l', "RPUSH @ v", [0, 0, 0], Some([0, 0, 0])),
    ('l', "LPUSHX @ v", [0, 0, 0], Some([0, 0, 0])),
    ('l', "RPUSHX @ v", [0, 0, 0], Some([0, 0, 0])),
    ('l', "LPOP @", [0, 0, 0], Some([0, 0, 0])),
    ('l', "RPOP @ 2", [0, 0, 0], Some([0, 0, 0])),
    ('l', "LLEN @", [1, 0, 0], Some([0, 1, 1])),
    ('l', "LINDEX @ 0", [1, 0, 0], Some([0, 1, 1])),
    ('l', "LSET @ 0 v", [0, 0, 0], Some([0, 0, 0])),
    ('l', "LINSERT @ BEFORE a v", [0, 0, 0], Some([0, 0, 0])),
    ('l', "LRANGE @ 0 -1", [1, 0, 0], Some([0, 1, 1])),
    ('l', "LREM @ 0 a", [0, 0, 0], Some([0, 0, 0])),
    ('l', "LTRIM @ 0 0", [0, 0, 0], Some([0, 0, 0])),
    ('l', "LPOS @ a", [1, 0, 0], Some([0, 1, 1])),
    ('l', "LMOVE @ l LEFT LEFT", [0, 0, 0], Some([0, 0, 0])),
    ('l', "LMOVE l @ LEFT LEFT", [0, 0, 0], Some([0, 0, 0])),
    ('l', "RPOPLPUSH @ l", [0, 0, 0], Some([0, 0, 0])),
    ('l', "RPOPLPUSH l @", [0, 0, 0], Some([0, 0, 0])),
    ('l', "LMPOP 2 none @ LEFT", [0, 0, 0], Some([0, 0, 0])),
    ('l', "BLPOP @ 0", [0, 0, 0], None),
    ('l', "BRPOP none @ 0", [0, 0, 0], None),
    ('l', "BLMOVE @ l LEFT LEFT 0", [0, 0, 0], None),
    ('l', "BLMOVE l @ LEFT LEFT 0", [0, 0, 0], None),
    ('l', "BRPOPLPUSH @ l 0", [0, 0, 0], None),
    ('l', "BRPOPLPUSH l @ 0", [0, 0, 0], None),
    ('l', "BLMPOP 0 1 @ LEFT", [0, 0, 0], None),
    ('h', "HSET @ f v", [0, 0, 0], Some([0, 0, 0])),
    ('h', "HMSET @ f v", [0, 0, 0], Some([0, 0, 0])),
    ('h', "HSETNX @ f v", [0, 0, 0], Some([0, 0, 0])),
    ('h', "HGET @ f", [1, 0, 0], Some([0, 1, 1])),
    ('h', "HMGET @ f", [1, 0, 0], Some([0, 1, 1])),
    ('h', "HGETALL @", [1, 0, 0], Some([0, 1, 1])),
    ('h', "HDEL @ f", [0, 0, 0], Some([0, 0, 0])),
    ('h', "HEXISTS @ f", [1, 0, 0], Some([0, 1, 1])),
    ('h', "HLEN @", [1, 0, 0], Some([0, 1, 1])),
    ('h', "HSTRLEN @ f", [1, 0, 0], Some([0, 1, 1])),
    ('h', "HKEYS @", [1, 0, 0], Some([0, 1, 1])),
    ('h', "HVALS @", [1, 0, 0], Some([0, 1, 1])),
    ('h', "HINCRBY @ f 1", [0, 0, 0], Some([0, 0, 0])),
    ('h', "HINCRBYFLOAT @ f 1", [0, 0, 0], Some([0, 0, 0])),
    ('h', "HRANDFIELD @", [1, 0, 0], Some([0, 1, 1])),
    ('h', "HRANDFIELD @ -3 WITHVALUES", [1, 0, 0], Some([0, 1, 1])),
    ('h', "HSCAN @ 0", [1, 0, 0], Some([0, 1, 1])),
    ('e', "SADD @ a", [0, 0, 0], Some([0, 0, 0])),
    ('e', "SREM @ a", [0, 0, 0], Some([0, 0, 0])),
    ('e', "SMEMBERS @", [1, 0, 0], Some([0, 1, 1])),
    ('e', "SISMEMBER @ a", [1, 0, 0], Some([0, 1, 1])),
    ('e', "SMISMEMBER @ a", [1, 0, 0], Some([0, 1, 1])),
    ('e', "SCARD @", [1, 0, 0], Some([0, 1, 1])),
    ('e', "SPOP @", [0, 0, 0], Some([0, 0, 0])),
    ('e', "SPOP @ 0", [0, 0, 0], Some([0, 0, 0])),
    ('e', "SRANDMEMBER @", [1, 0, 0], Some([0, 1, 1])),
    ('e', "SRANDMEMBER @ -2", [1, 0, 0], Some([0, 1, 1])),
    ('e', "SMOVE @ e a", [0, 0, 0], Some([0, 0, 0])),
    ('e', "SMOVE e @ a", [0, 0, 0], Some([0, 0, 0])),
    ('e', "SINTER @ e", [2, 0, 0], Some([1, 1, 1])),
    ('e', "SINTER e @", [2, 0, 0], Some([1, 1, 1])),
    ('e', "SUNION e @", [2, 0, 0], Some([1, 1, 1])),
    ('e', "SDIFF @ e", [2, 0, 0], Some([1, 1, 1])),
    ('e', "SDIFF e @", [2, 0, 0], Some([1, 1, 1])),
    ('e', "SINTERSTORE to e @", [2, 0, 0], Some([1, 1, 1])),
    ('e', "SUNIONSTORE to @ e", [2, 0, 0], Some([1, 1, 1])),
    ('e', "SDIFFSTORE to e @", [2, 0, 0], Some([1, 1, 1])),
    ('e', "SINTERCARD 2 e @", [2, 0, 0], Some([1, 1, 1])),
    ('e', "SSCAN @ 0", [1, 0, 0], Some([0, 1, 1])),
    ('z', "ZADD @ 1 a", [0, 0, 0], Some([0, 0, 0])),
    ('z', "ZADD @ INCR 1 a", [0, 0, 0], Some([0, 0, 0])),
    ('z', "ZINCRBY @ 1 a", [0, 0, 0], Some([0, 0, 0])),
    ('z', "ZREM @ a", [0, 0, 0], Some([0, 0, 0])),
    ('z', "ZCARD @", [1, 0, 0], Some([0, 1, 1])),
    ('z', "ZSCORE @ a", [1, 0, 0], Some([0, 1, 1])),
    ('z', "ZMSCORE @ a", [1, 0, 0], Some([0, 1, 1])),
    ('z', "ZRANK @ a", [1, 0, 0], Some([0, 1, 1])),
    ('z', "ZREVRANK @ a", [1, 0, 0], Some([0, 1, 1])),
    ('z', "ZCOUNT @ 0 1", [1, 0, 0], Some([0, 1, 1])),
    ('z', "ZLEXCOUNT @ - +", [1, 0, 0], Some([0, 1, 1])),
    ('z', "ZRANGE @ 0 -1", [1, 0, 0], Some([0, 1, 1])),
    ('z', "ZREVRANGE @ 0 -1", [1, 0, 0], Some([0, 1, 1])),
    ('z', "ZRANGEBYSCORE @ 0 1", [1, 0, 0], Some([0, 1, 1])),
    ('z', "ZREVRANGEBYSCORE @ 1 0", [1, 0, 0], Some([0, 1, 1])),
    ('z', "ZRANGEBYLEX @ - +", [1, 0, 0], Some([0, 1, 1])),
    ('z', "ZREVRANGEBYLEX @ + -", [1, 0, 0], Some([0, 1, 1])),
    ('z', "ZRANGESTORE to @ 0 -1", [1, 0, 0], Some([0, 1, 1])),
    ('z', "ZREMRANGEBYRANK @ 0 -1", [0, 0, 0], Some([0, 0, 0])),
    ('z', "ZREMRANGEBYSCORE @ 0 1", [0, 0, 0], Some([0, 0, 0])),
    ('z', "ZREMRANGEBYLEX @ - +", [0, 0, 0], Some([0, 0, 0])),
    ('z', "ZPOPMIN @", [0, 0, 0], Some([0, 0, 0])),
    ('z', "ZPOPMAX @ 2", [0, 0, 0], Some([0, 0, 0])),
    ('z', "ZMPOP 2 none @ MIN", [0, 0, 0], Some([0, 0, 0])),
    ('z', "BZPOPMIN @ 0", [0, 0, 0], None),
    ('z', "BZPOPMAX none @ 0", [0, 0, 0], None),
    ('z', "BZMPOP 0 1 @ MIN", [0, 0, 0], None),
    ('z', "ZRANDMEMBER @", [1, 0, 0], Some([0, 1, 1])),
    ('z', "ZRANDMEMBER @ 2 WITHSCORES", [1, 0, 0], Some([0, 1, 1])),
    ('z', "ZSCAN @ 0", [1, 0, 0], Some([0, 1, 1])),
    ('z', "ZUNION 2 z @", [2, 0, 0], Some([1, 1, 1])),
    ('z', "ZINTER 2 z @", [2, 0, 0], Some([1, 1, 1])),
    ('z', "ZDIFF 2 z @", [2, 0, 0], Some([1, 1, 1])),
    ('z', "ZUNIONSTORE to 2 z @", [2, 0, 0], Some([1, 1, 1])),
    ('z', "ZINTERSTORE to 2 @ z", [2, 0, 0], Some([1, 1, 1])),
    ('z', "ZDIFFSTORE to 2 @ z", [2, 0, 0], Some([1, 1, 1])),
    ('z', "ZINTERCARD 2 z @", [2, 0, 0], Some([1, 1, 1])),
    ('z', "GEOADD @ 1 1 a", [0, 0, 0], Some([0, 0, 0])),
    ('z', "GEOPOS @ a", [1, 0, 0], Some([0, 1, 1])),
    ('z', "GEOHASH @ a", [1, 0, 0], Some([0, 1, 1])),
    ('z', "GEODIST @ a b", [1, 0, 0], Some([0, 1, 1])),
    ('z', "GEOSEARCH @ FROMLONLAT 1 1 BYRADIUS 1 km", [1, 0, 0], Some([0, 1, 1])),
    ('z', "GEOSEARCHSTORE to @ FROMLONLAT 1 1 BYRADIUS 1 km", [1, 0, 0], Some([0, 1, 1])),
    ('z', "GEORADIUS @ 1 1 1 km", [1, 0, 0], Some([0, 1, 1])),
    ('z', "GEORADIUS_RO @ 1 1 1 km", [1, 0, 0], Some([0, 1, 1])),
    ('z', "GEORADIUSBYMEMBER @ a 1 km", [1, 0, 0], Some([0, 1, 1])),
    ('z', "GEORADIUSBYMEMBER_RO @ a 1 km", [1, 0, 0], Some([0, 1, 1])),
    ('l', "SORT @ ALPHA", [1, 0, 0], Some([0, 1, 1])),
    ('l', "SORT @ ALPHA STORE to", [1, 0, 0], Some([0, 1, 1])),
    ('l', "SORT_RO @ ALPHA", [1, 0, 0], Some([0, 1, 1])),
    ('s', "EXISTS @", [1, 0, 0], Some([0, 1, 1])),
    ('s', "TYPE @", [1, 0, 0], Some([0, 1, 1])),
    ('s', "TTL @", [1, 0, 0], Some([0, 1, 1])),
    ('s', "PTTL @", [1, 0, 0], Some([0, 1, 1])),
    ('s', "EXPIRETIME @", [1, 0, 0], Some([0, 1, 1])),
    ('s', "PEXPIRETIME @", [1, 0, 0], Some([0, 1, 1])),
    ('s', "EXPIRE @ 100", [0, 0, 0], Some([0, 0, 0])),
    ('s', "PERSIST @", [0, 0, 0], Some([0, 0, 0])),
    ('s', "DEL @", [0, 0, 0], Some([0, 0, 0])),
    ('s', "UNLINK @", [0, 0, 0], Some([0, 0, 0])),
    ('s', "TOUCH @", [1, 0, 0], Some([0, 1, 1])),
    ('s', "DUMP @", [1, 0, 0], Some([0, 1, 1])),
    ('s', "RENAME @ to", [0, 0, 0], Some([0, 0, 0])),
    ('s', "RENAMENX @ to", [0, 0, 0], Some([0, 0, 0])),
    ('s', "COPY @ to", [1, 0, 0], Some([0, 1, 1])),
    ('s', "MOVE @ 1", [0, 0, 0], Some([0, 0, 0])),
    ('s', "MGET @", [1, 0, 0], Some([0, 1, 1])),
    ('s', "MSET @ v", [0, 0, 0], Some([0, 0, 0])),
    ('s', "MSETNX @ v", [0, 0, 0], Some([0, 0, 0])),
    ('s', "SETNX @ v", [0, 0, 0], Some([0, 0, 0])),
    ('s', "SET @ v", [0, 0, 0], Some([0, 0, 0])),
    ('s', "SETEX @ 10 v", [0, 0, 0], Some([0, 0, 0])),
    ('s', "LCS @ @", [2, 0, 0], Some([0, 2, 2])),
    ('s', "OBJECT ENCODING @", [1, 0, 0], Some([0, 1, 0])),
    ('s', "OBJECT REFCOUNT @", [1, 0, 0], Some([0, 1, 0])),
    ('s', "OBJECT IDLETIME @", [1, 0, 0], Some([0, 1, 0])),
    ('s', "OBJECT FREQ @", [1, 0, 0], Some([0, 1, 0])),
    ('s', "RESTORE @ 0 x", [0, 0, 0], Some([0, 0, 0])),
];

/// What a request counts as.
fn counted(kind: Option<char>, request: &str) -> [u64; 3] {
    let mut harness = Harness::new().notifies("KEAm");
    harness.all(&["RPUSH l a b", "SADD e a b", "ZADD z 1 a 2 b", "SET s text"]);
    if let Some(kind) = kind {
        let setup = match kind {
            's' => "SET k 12",
            'p' => "PFADD k a",
            'l' => "RPUSH k a b",
            'h' => "HSET k f 1",
            'e' => "SADD k a b",
            _ => "ZADD k 1 a 2 b",
        };
        harness.all(&[setup]);
    }
    harness.events();
    let before = harness.ledger.lookups;
    let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
    harness.ask('a', &words);
    let after = harness.ledger.lookups;
    let misses = harness.events().iter().filter(|event| event.starts_with("keymiss ")).count();
    [after.hits - before.hits, after.misses - before.misses, misses as u64]
}

#[test]
fn lookups_count_as_in_redis() {
    let mut wrong = Vec::new();
    for (kind, form, there, absent) in ROWS {
        let request = form.replace('@', "k");
        let mut compare = |found: [u64; 3], expected: [u64; 3], which: &str| {
            if found != expected {
                wrong.push(format!("{request}, {which}: {found:?}, in Redis {expected:?}"));
            }
        };
        compare(counted(Some(kind), &request), there, "there");
        if let Some(absent) = absent {
            compare(counted(None, &request), absent, "absent");
        }
    }
    assert!(wrong.is_empty(), "hits, misses, events:\n{}", wrong.join("\n"));
}
