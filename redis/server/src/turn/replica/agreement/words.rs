//! Random requests: few keys of all types under the same names, most of them about to expire, in
//! a few databases.

use stillframe_commands::Random;

/// `k` stands for a key, `v` for a small number, `t` for a short time in milliseconds, `@` for a
/// unix time near now, `d` for a database, `!` for a payload of DUMP.
const REQUESTS: [&str; 149] = [
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
    "LMOVEM k k LEFT LEFT COUNT v OBO",
    "LMOVEM k k RIGHT LEFT EXACTLY v BULK",
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
    "STILLFRAME BRANCH d d",
    "STILLFRAME BRANCH d d REPLACE",
    "STILLFRAME BRANCH 0 1 REPLACE",
    "STILLFRAME BRANCHDB 1 0 REPLACE",
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
    "XADD k * f v",
    "XADD k * f v",
    "XADD k * f v g v",
    "XADD k NOMKSTREAM * f v",
    "XADD k MAXLEN 3 * f v",
    "XADD k MAXLEN ~ 2 * f v",
    "XADD k MINID ~ @ * f v",
    "XADD k @-v f v",
    "XTRIM k MAXLEN v",
    "XTRIM k MINID @",
    "XDEL k @-v @-v",
    "XSETID k @-v",
    "XSETID k @ ENTRIESADDED 9 MAXDELETEDID 0-v",
    "XGROUP CREATE k g 0 MKSTREAM",
    "XGROUP CREATE k g $ MKSTREAM",
    "XGROUP CREATE k h @ MKSTREAM ENTRIESREAD v",
    "XGROUP SETID k g 0",
    "XGROUP DESTROY k g",
    "XGROUP CREATECONSUMER k g c",
    "XGROUP DELCONSUMER k g c",
    "XREADGROUP GROUP g c COUNT 2 STREAMS k >",
    "XREADGROUP GROUP g d STREAMS k k > >",
    "XREADGROUP GROUP g d NOACK COUNT 1 STREAMS k >",
    "XREADGROUP GROUP g c STREAMS k 0",
    "XREAD COUNT 1 STREAMS k 0",
    "XACK k g @-v @-v",
    "XCLAIM k g d 0 @-v @-0",
    "XCLAIM k g d 0 @-v FORCE JUSTID TIME @ RETRYCOUNT 3",
    "XAUTOCLAIM k g d 0 0 COUNT 2",
    "XAUTOCLAIM k g c 5 0 JUSTID",
    "FUNCTION LOAD REPLACE LIBRARY",
    "FUNCTION DELETE lib",
    "FUNCTION FLUSH",
    "FCALL both 2 k k v",
    "FCALL both 2 k k v",
];

/// Requests that may make their client wait.
const WAITING: [&str; 13] = [
    "BLPOP k 0",
    "BRPOP k k 0",
    "BLPOP k k k 0",
    "BLMOVE k k LEFT RIGHT 0",
    "BRPOPLPUSH k k 0",
    "BLMPOP 0 2 k k LEFT COUNT 2",
    "BZPOPMIN k 0",
    "BZPOPMAX k k 0",
    "BZMPOP 0 1 k MAX",
    "XREAD BLOCK 0 STREAMS k $",
    "XREADGROUP GROUP g c BLOCK 0 STREAMS k >",
    "XREADGROUP GROUP g d BLOCK 0 COUNT 1 NOACK STREAMS k >",
    "XREADGROUP GROUP g d BLOCK 0 STREAMS k k > >",
];

/// Scripts of several effects, some of which end by an error behind them: what was done remains.
const SCRIPTS: [&str; 8] = [
    "EVAL redis.call('SET',KEYS[1],ARGV[1])return(redis.call('LPUSH',KEYS[2],ARGV[1])) 2 k k v",
    "EVAL redis.call('DEL',KEYS[1])redis.call('XADD',KEYS[1],'*','f','1')error('x') 1 k",
    "EVAL redis.call('SELECT',ARGV[1])redis.call('INCR',KEYS[1])redis.call('SELECT',ARGV[2])\
     redis.call('INCR',KEYS[1])return(redis.call('NOPE')) 1 k d d",
    "EVAL redis.call('SWAPDB',0,1)redis.call('PEXPIRE',KEYS[1],ARGV[1])\
     return(redis.call('RENAME',KEYS[1],KEYS[2])) 2 k k t",
    "EVAL redis.call('STILLFRAME','BRANCH',0,1,'REPLACE')redis.call('PEXPIRE',KEYS[1],ARGV[1])\
     return(redis.call('RENAME',KEYS[1],KEYS[2])) 2 k k t",
    "EVAL redis.call('XADD',KEYS[1],'*','f',redis.call('TIME')[1])\
     redis.call('XREADGROUP','GROUP','g','c','STREAMS',KEYS[1],'>') 1 k",
    "EVAL redis.pcall('SPOP',KEYS[1])redis.pcall('LPOP',KEYS[1])redis.pcall('ZPOPMIN',KEYS[1])\
     redis.call('RESTORE',KEYS[2],ARGV[1],ARGV[2],'REPLACE')return{} 2 k k t !",
    "EVAL redis.call('SET',KEYS[1],ARGV[1],'PX',ARGV[2])while(1)do(redis.call)('INCRBY',KEYS[1],\
     math.pow(2,53))end 1 k v t",
];

/// Source of a library with one function, which takes two keys and a value.
const LIBRARY: &[u8] = b"#!lua name=lib\n\
    redis.register_function('both', function(keys, args) \
    redis.call('SET', keys[1], args[1]) return redis.call('RPUSH', keys[2], args[1]) end)";

/// Requests that move databases or keys, which meet all others.
const MOVING: [&str; 8] = [
    "STILLFRAME BRANCH 0 1",
    "STILLFRAME BRANCH 1 0 REPLACE",
    "SWAPDB 0 1",
    "SWAPDB 1 0",
    "MOVE k d",
    "RENAME k k",
    "COPY k k DB d REPLACE",
    "SELECT d",
];

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
    let line = match random.below(13) {
        0..=2 => pick(random, &WAITING),
        3 | 4 => pick(random, &MOVING),
        5 => pick(random, &SCRIPTS),
        _ => pick(random, &REQUESTS),
    };
    line.split(' ').map(|word| fill(random, now, prefix, word)).collect()
}

fn fill(random: &mut Random, now: i64, prefix: &str, word: &str) -> Vec<u8> {
    match word {
        "k" => format!("{prefix}{}", random.below(3)).into_bytes(),
        "k*" => format!("{prefix}*").into_bytes(),
        "@-v" => format!("{}-{}", now - 5 + random.below(60) as i64, random.below(5)).into_bytes(),
        "0-v" => format!("0-{}", random.below(5)).into_bytes(),
        "@-0" => format!("{}-0", now - 5 + random.below(60) as i64).into_bytes(),
        "LIBRARY" => LIBRARY.to_vec(),
        "v" => random.below(5).to_string().into_bytes(),
        "t" => (1 + random.below(40)).to_string().into_bytes(),
        "@" => (now - 5 + random.below(60) as i64).to_string().into_bytes(),
        "d" => random.below(2).to_string().into_bytes(),
        "!" => PAYLOAD.to_vec(),
        word => word.as_bytes().to_vec(),
    }
}
