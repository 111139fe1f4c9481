//! Every command refuses keys of the wrong type in the same words, and does nothing then.

use std::collections::BTreeSet;

use stillframe_peers::transcript::escape;

use crate::errors::WRONG_TYPE;
use crate::harness::Harness;

/// A key of each type, by the letter that forms name types by.
const KEYS: [(char, &str); 6] = [
    ('s', "SET s text"),
    ('l', "RPUSH l a b"),
    ('h', "HSET h f 1"),
    ('e', "SADD e a b"),
    ('z', "ZADD z 1 a 2 b"),
    ('x', "XADD x 1-1 f v"),
];

/// The types that a command takes, and a request; `@` is a key of another type. A request comes
/// once for each place of a key.
const FORMS: [(&str, &str); 171] = [
    ("s", "GET @"),
    ("s", "GETDEL @"),
    ("s", "GETEX @"),
    ("s", "GETEX @ PX 100"),
    ("s", "GETSET @ v"),
    ("s", "SET @ v GET"),
    ("s", "SET @ v NX GET"),
    ("s", "APPEND @ v"),
    ("s", "STRLEN @"),
    ("s", "GETRANGE @ 0 -1"),
    ("s", "SUBSTR @ 0 -1"),
    ("s", "SETRANGE @ 0 v"),
    ("s", "SETRANGE @ 0 "),
    ("s", "INCR @"),
    ("s", "DECR @"),
    ("s", "INCRBY @ 1"),
    ("s", "DECRBY @ 1"),
    ("s", "INCRBYFLOAT @ 1"),
    ("s", "SETBIT @ 1 1"),
    ("s", "GETBIT @ 1"),
    ("s", "BITCOUNT @"),
    ("s", "BITPOS @ 1"),
    ("s", "BITOP NOT to @"),
    ("s", "BITOP AND to s @"),
    ("s", "BITFIELD @ GET u8 0"),
    ("s", "BITFIELD @ SET u8 0 1"),
    ("s", "BITFIELD_RO @ GET u8 0"),
    ("s", "PFADD @ a"),
    ("s", "PFCOUNT @"),
    ("s", "PFCOUNT none @"),
    ("s", "PFMERGE @ none"),
    ("s", "PFMERGE to @"),
    ("s", "PFDEBUG ENCODING @"),
    ("l", "LPUSH @ v"),
    ("l", "RPUSH @ v"),
    ("l", "LPUSHX @ v"),
    ("l", "RPUSHX @ v"),
    ("l", "LPOP @"),
    ("l", "RPOP @ 2"),
    ("l", "LLEN @"),
    ("l", "LINDEX @ 0"),
    ("l", "LSET @ 0 v"),
    ("l", "LINSERT @ BEFORE a v"),
    ("l", "LRANGE @ 0 -1"),
    ("l", "LREM @ 0 a"),
    ("l", "LTRIM @ 0 0"),
    ("l", "LPOS @ a"),
    ("l", "LMOVE @ l LEFT LEFT"),
    ("l", "LMOVE l @ LEFT LEFT"),
    ("l", "RPOPLPUSH @ l"),
    ("l", "RPOPLPUSH l @"),
    ("l", "LMPOP 2 none @ LEFT"),
    ("l", "BLPOP @ 0"),
    ("l", "BRPOP none @ 0"),
    ("l", "BLMOVE @ l LEFT LEFT 0"),
    ("l", "BLMOVE l @ LEFT LEFT 0"),
    ("l", "BRPOPLPUSH @ l 0"),
    ("l", "BRPOPLPUSH l @ 0"),
    ("l", "BLMPOP 0 1 @ LEFT"),
    ("h", "HSET @ f v"),
    ("h", "HMSET @ f v"),
    ("h", "HSETNX @ f v"),
    ("h", "HGET @ f"),
    ("h", "HMGET @ f"),
    ("h", "HGETALL @"),
    ("h", "HDEL @ f"),
    ("h", "HEXISTS @ f"),
    ("h", "HLEN @"),
    ("h", "HSTRLEN @ f"),
    ("h", "HKEYS @"),
    ("h", "HVALS @"),
    ("h", "HINCRBY @ f 1"),
    ("h", "HINCRBYFLOAT @ f 1"),
    ("h", "HRANDFIELD @"),
    ("h", "HRANDFIELD @ -3 WITHVALUES"),
    ("h", "HSCAN @ 0"),
    ("e", "SADD @ a"),
    ("e", "SREM @ a"),
    ("e", "SMEMBERS @"),
    ("e", "SISMEMBER @ a"),
    ("e", "SMISMEMBER @ a"),
    ("e", "SCARD @"),
    ("e", "SPOP @"),
    ("e", "SPOP @ 0"),
    ("e", "SRANDMEMBER @"),
    ("e", "SRANDMEMBER @ -2"),
    ("e", "SMOVE @ e a"),
    ("e", "SMOVE e @ a"),
    ("e", "SINTER @ e"),
    ("e", "SINTER e @"),
    ("e", "SUNION e @"),
    ("e", "SDIFF @ e"),
    ("e", "SDIFF e @"),
    ("e", "SINTERSTORE to e @"),
    ("e", "SUNIONSTORE to @ e"),
    ("e", "SDIFFSTORE to e @"),
    ("e", "SINTERCARD 2 e @"),
    ("e", "SSCAN @ 0"),
    ("z", "ZADD @ 1 a"),
    ("z", "ZADD @ INCR 1 a"),
    ("z", "ZINCRBY @ 1 a"),
    ("z", "ZREM @ a"),
    ("z", "ZCARD @"),
    ("z", "ZSCORE @ a"),
    ("z", "ZMSCORE @ a"),
    ("z", "ZRANK @ a"),
    ("z", "ZREVRANK @ a"),
    ("z", "ZCOUNT @ 0 1"),
    ("z", "ZLEXCOUNT @ - +"),
    ("z", "ZRANGE @ 0 -1"),
    ("z", "ZREVRANGE @ 0 -1"),
    ("z", "ZRANGEBYSCORE @ 0 1"),
    ("z", "ZREVRANGEBYSCORE @ 1 0"),
    ("z", "ZRANGEBYLEX @ - +"),
    ("z", "ZREVRANGEBYLEX @ + -"),
    ("z", "ZRANGESTORE to @ 0 -1"),
    ("z", "ZREMRANGEBYRANK @ 0 -1"),
    ("z", "ZREMRANGEBYSCORE @ 0 1"),
    ("z", "ZREMRANGEBYLEX @ - +"),
    ("z", "ZPOPMIN @"),
    ("z", "ZPOPMAX @ 2"),
    ("z", "ZMPOP 2 none @ MIN"),
    ("z", "BZPOPMIN @ 0"),
    ("z", "BZPOPMAX none @ 0"),
    ("z", "BZMPOP 0 1 @ MIN"),
    ("z", "ZRANDMEMBER @"),
    ("z", "ZRANDMEMBER @ 2 WITHSCORES"),
    ("z", "ZSCAN @ 0"),
    ("ze", "ZUNION 2 z @"),
    ("ze", "ZINTER 2 z @"),
    ("ze", "ZDIFF 2 z @"),
    ("ze", "ZUNIONSTORE to 2 z @"),
    ("ze", "ZINTERSTORE to 2 @ z"),
    ("ze", "ZDIFFSTORE to 2 @ z"),
    ("ze", "ZINTERCARD 2 z @"),
    ("z", "GEOADD @ 1 1 a"),
    ("z", "GEOPOS @ a"),
    ("z", "GEOHASH @ a"),
    ("z", "GEODIST @ a b"),
    ("z", "GEOSEARCH @ FROMLONLAT 1 1 BYRADIUS 1 km"),
    ("z", "GEOSEARCHSTORE to @ FROMLONLAT 1 1 BYRADIUS 1 km"),
    ("z", "GEORADIUS @ 1 1 1 km"),
    ("z", "GEORADIUS_RO @ 1 1 1 km"),
    ("z", "GEORADIUSBYMEMBER @ a 1 km"),
    ("z", "GEORADIUSBYMEMBER_RO @ a 1 km"),
    ("lez", "SORT @ ALPHA"),
    ("lez", "SORT @ ALPHA STORE to"),
    ("lez", "SORT_RO @ ALPHA"),
    ("x", "XADD @ * f v"),
    ("x", "XADD @ NOMKSTREAM * f v"),
    ("x", "XTRIM @ MAXLEN 1"),
    ("x", "XDEL @ 1-1"),
    ("x", "XLEN @"),
    ("x", "XRANGE @ - +"),
    ("x", "XREVRANGE @ + -"),
    ("x", "XSETID @ 9-9"),
    ("x", "XREAD STREAMS @ 0"),
    ("x", "XREAD STREAMS x @ 0 0"),
    ("x", "XREADGROUP GROUP g c STREAMS @ >"),
    ("x", "XACK @ g 1-1"),
    ("x", "XGROUP CREATE @ g 0 MKSTREAM"),
    ("x", "XGROUP CREATECONSUMER @ g c"),
    ("x", "XGROUP DELCONSUMER @ g c"),
    ("x", "XGROUP DESTROY @ g"),
    ("x", "XGROUP SETID @ g 0"),
    ("x", "XPENDING @ g"),
    ("x", "XCLAIM @ g c 0 1-1"),
    ("x", "XAUTOCLAIM @ g c 0 -"),
    ("x", "XINFO CONSUMERS @ g"),
    ("x", "XINFO GROUPS @"),
    ("x", "XINFO STREAM @"),
];

/// Commands that take keys of any type, or none.
const OF_ANY: [&str; 52] = [
    "copy",
    "dbsize",
    "del",
    "discard",
    "dump",
    "exists",
    "expire",
    "expireat",
    "expiretime",
    "flushall",
    "flushdb",
    "keys",
    "lcs",
    "mget",
    "move",
    "mset",
    "msetnx",
    "multi",
    "object",
    "object|encoding",
    "object|freq",
    "object|help",
    "object|idletime",
    "object|refcount",
    "persist",
    "pexpire",
    "pexpireat",
    "pexpiretime",
    "pfselftest",
    "psetex",
    "pttl",
    "randomkey",
    "rename",
    "renamenx",
    "restore",
    "scan",
    "select",
    "setex",
    "setnx",
    "stillframe",
    "stillframe|branchdb",
    "swapdb",
    "touch",
    "ttl",
    "type",
    "unlink",
    "unwatch",
    "watch",
    "xgroup",
    "xgroup|help",
    "xinfo",
    "xinfo|help",
];

#[test]
fn keys_of_the_wrong_type_are_refused_and_nothing_is_done() {
    let mut harness = Harness::new().notes_effects().notifies("KEA");
    harness.all(&KEYS.map(|(_, line)| line));
    let before = harness.contents();
    harness.effects();
    harness.events();
    harness.watch_all(KEYS.iter().map(|(_, line)| line.split(' ').nth(1).unwrap().as_bytes()));
    let dirty = harness.ledger.dirty;
    let mut refused = 0;
    for (takes, form) in FORMS {
        for (key, _) in KEYS.iter().filter(|(key, _)| !takes.contains(*key)) {
            let line = form.replace('@', &key.to_string());
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let reply = harness.ask('a', &words);
            let expected = [b"-", WRONG_TYPE.text(), b"\r\n"].concat();
            assert_eq!(escape(&reply), escape(&expected), "{line}");
            refused += 1;
        }
    }
    assert!(refused > 500, "{refused}");
    assert_eq!(harness.contents(), before);
    assert_eq!(harness.ledger.dirty, dirty);
    assert!(!harness.met_changes('w') && harness.effects().is_empty());
    assert!(harness.events().is_empty());
}

#[test]
fn every_command_on_data_is_tried_with_keys_of_the_wrong_type() {
    let words = FORMS.iter().map(|(_, form)| form.split(' ').take(2).collect::<Vec<_>>());
    let named: BTreeSet<String> =
        words.flat_map(|words| [words[0].to_lowercase(), words.join("|").to_lowercase()]).collect();
    let harness = Harness::new();
    let missing: Vec<&str> = harness
        .commands()
        .map(|(name, _)| name)
        .filter(|name| !named.contains(*name) && !OF_ANY.contains(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
