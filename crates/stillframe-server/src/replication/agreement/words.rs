//! Random requests: few keys of all types under the same names, most of them about to expire, in
//! a few databases.

use stillframe_redis::Random;

/// `k` stands for a key, `v` for a small number, `t` for a short time in milliseconds, `@` for a
/// unix time near now, `d` for a database, `!` for a payload of DUMP.
const REQUESTS: [&str; 108] = [
    "SET k v",
    "SET k v PX t",
    "SET k v PXAT @ NX",
    "SET k v KEEPTTL GET",
    "SET k v XX PX t",
    "SETNX k v",
    "GETSET k v",
    "GETDEL k",
    "GETEX k PX t",
    "GETEX k PXAT @",
    "GETEX k PERSIST",
    "GET k",
    "APPEND k v",
    "SETRANGE k v v",
    "INCR k",
    "INCRBYFLOAT k 0.1",
    "MSET k v k v k v",
    "MSETNX k v k v",
    "SETBIT k v 1",
    "BITOP XOR k k k",
    "BITFIELD k INCRBY i8 3 v",
    "PFADD k v v",
    "PFCOUNT k k",
    "PFMERGE k k k",
    "RPUSH k v v v",
    "LPUSH k v",
    "RPUSHX k v",
    "LPOP k",
    "RPOP k 2",
    "LREM k 0 v",
    "LSET k 0 v",
    "LINSERT k BEFORE v v",
    "LTRIM k 0 5",
    "LMOVE k k LEFT RIGHT",
    "RPOPLPUSH k k",
    "LMPOP 2 k k RIGHT COUNT 2",
    "SADD k v v v x",
    "SREM k v",
    "SPOP k",
    "SPOP k 2",
    "SMOVE k k v",
    "SINTERSTORE k k k",
    "SUNIONSTORE k k k",
    "SDIFFSTORE k k k",
    "HSET k v v v v",
    "HSETNX k v v",
    "HDEL k v",
    "HINCRBY k v 3",
    "HINCRBYFLOAT k v 0.3",
    "ZADD k v a v b v c",
    "ZADD k XX CH v a",
    "ZADD k INCR 0.5 b",
    "ZINCRBY k 0.3 a",
    "ZREM k b",
    "ZPOPMIN k",
    "ZPOPMAX k 2",
    "ZMPOP 2 k k MIN",
    "ZUNIONSTORE k 2 k k",
    "ZINTERSTORE k 2 k k WEIGHTS 2 0.1",
    "ZDIFFSTORE k 2 k k",
    "ZRANGESTORE k k 0 2",
    "ZREMRANGEBYRANK k 0 0",
    "ZREMRANGEBYSCORE k 2 3",
    "GEOADD k 13.361389 38.115556 p",
    "GEOSEARCHSTORE k k FROMLONLAT 15 37 BYRADIUS 500 km",
    "SORT k ALPHA STORE k",
    "SORT k BY nosort STORE k",
    "SORT k BY k* STORE k",
    "SORT k ALPHA GET k* GET # STORE k",
    "PEXPIRE k t",
    "PEXPIRE k t NX",
    "PEXPIRE k t GT",
    "PEXPIREAT k @",
    "EXPIRE k -1",
    "EXPIRE k 1",
    "PERSIST k",
    "DEL k",
    "DEL k k k",
    "UNLINK k k",
    "RENAME k k",
    "RENAME k k",
    "RENAMENX k k",
    "COPY k k",
    "COPY k k REPLACE",
    "COPY k k DB d REPLACE",
    "MOVE k d",
    "MOVE k d",
    "RESTORE k 0 !",
    "RESTORE k t ! REPLACE",
    "RESTORE k @ ! ABSTTL REPLACE",
    "SWAPDB d d",
    "SWAPDB d d",
    "SWAPDB 0 1",
    "FLUSHDB",
    "FLUSHALL",
    "SELECT d",
    "SELECT d",
    "EXISTS k k k",
    "TYPE k",
    "KEYS *",
    "RANDOMKEY",
    "PUBLISH channel v",
    "DBSIZE",
    "WATCH k",
    "UNWATCH",
    "WAIT 0 0",
    "OBJECT ENCODING k",
    "TOUCH k k",
];

/// Requests that may make their client wait.
const WAITING: [&str; 9] = [
    "BLPOP k 0",
    "BRPOP k k 0",
    "BLPOP k k k 0",
    "BLMOVE k k LEFT RIGHT 0",
    "BRPOPLPUSH k k 0",
    "BLMPOP 0 2 k k LEFT COUNT 2",
    "BZPOPMIN k 0",
    "BZPOPMAX k k 0",
    "BZMPOP 0 1 k MAX",
];

/// Requests that move databases or keys, which meet all others.
const MOVING: [&str; 6] =
    ["SWAPDB 0 1", "SWAPDB 1 0", "MOVE k d", "RENAME k k", "COPY k k DB d REPLACE", "SELECT d"];

/// A string as DUMP gives it, without a checksum.
const PAYLOAD: &[u8] = b"\x00\x01v\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00";

/// One of `words`.
pub(super) fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[random.below(from.len())]
}

/// A request at unix time `now`, of keys whose names begin with `prefix`; now and then a script
/// that runs some.
pub(super) fn request(random: &mut Random, now: i64, prefix: &str) -> Vec<Vec<u8>> {
    if random.below(10) == 0 {
        let count = 1 + random.below(3);
        let requests: Vec<_> = (0..count).map(|_| plain(random, now, prefix)).collect();
        return stillframe_peers::requests::script(&requests);
    }
    plain(random, now, prefix)
}

fn plain(random: &mut Random, now: i64, prefix: &str) -> Vec<Vec<u8>> {
    let line = match random.below(12) {
        0..=2 => pick(random, &WAITING),
        3 | 4 => pick(random, &MOVING),
        _ => pick(random, &REQUESTS),
    };
    line.split(' ').map(|word| fill(random, now, prefix, word)).collect()
}

fn fill(random: &mut Random, now: i64, prefix: &str, word: &str) -> Vec<u8> {
    match word {
        "k" => format!("{prefix}{}", random.below(3)).into_bytes(),
        "k*" => format!("{prefix}*").into_bytes(),
        "v" => random.below(5).to_string().into_bytes(),
        "t" => (1 + random.below(40)).to_string().into_bytes(),
        "@" => (now - 5 + random.below(60) as i64).to_string().into_bytes(),
        "d" => random.below(2).to_string().into_bytes(),
        "!" => PAYLOAD.to_vec(),
        word => word.as_bytes().to_vec(),
    }
}
