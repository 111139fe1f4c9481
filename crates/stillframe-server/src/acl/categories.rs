//! Which categories a command is in, and what it does with its keys.
//!
//! Most follows from the flags of the command table; the rest is listed here as Redis 7.0 has it.
//! `table_tests.rs` compares the categories of every command with redis-server's.

use stillframe_redis::flags;

/// Every category, in Redis's order.
pub(crate) const NAMES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// The members of categories that do not follow from flags.
#[rustfmt::skip]
const MEMBERS: [(&str, &[&str]); 13] = [
    ("keyspace", &[
        "swapdb",
        "copy", "dbsize", "del", "dump", "exists", "expire", "expireat", "expiretime", "flushall",
        "flushdb", "keys", "migrate", "move", "object|encoding", "object|freq", "object|help",
        "object|idletime", "object|refcount", "persist", "pexpire", "pexpireat", "pexpiretime",
        "pttl", "randomkey", "rename", "renamenx", "restore", "restore-asking", "scan", "touch",
        "ttl", "type", "unlink",
    ]),
    ("set", &[
        "sadd", "scard", "sdiff", "sdiffstore", "sinter", "sintercard", "sinterstore",
        "sismember", "smembers", "smismember", "smove", "sort", "sort_ro", "spop", "srandmember",
        "srem", "sscan", "sunion", "sunionstore",
    ]),
    ("sortedset", &[
        "bzmpop", "bzpopmax", "bzpopmin", "sort", "sort_ro", "zadd", "zcard", "zcount", "zdiff",
        "zdiffstore", "zincrby", "zinter", "zintercard", "zinterstore", "zlexcount", "zmpop",
        "zmscore", "zpopmax", "zpopmin", "zrandmember", "zrange", "zrangebylex", "zrangebyscore",
        "zrangestore", "zrank", "zrem", "zremrangebylex", "zremrangebyrank", "zremrangebyscore",
        "zrevrange", "zrevrangebylex", "zrevrangebyscore", "zrevrank", "zscan", "zscore",
        "zunion", "zunionstore",
    ]),
    ("list", &[
        "blmove", "blmpop", "blpop", "brpop", "brpoplpush", "lindex", "linsert", "llen", "lmove",
        "lmpop", "lpop", "lpos", "lpush", "lpushx", "lrange", "lrem", "lset", "ltrim", "rpop",
        "rpoplpush", "rpush", "rpushx", "sort", "sort_ro",
    ]),
    ("hash", &[
        "hdel", "hexists", "hget", "hgetall", "hincrby", "hincrbyfloat", "hkeys", "hlen", "hmget",
        "hmset", "hrandfield", "hscan", "hset", "hsetnx", "hstrlen", "hvals",
    ]),
    ("string", &[
        "append", "decr", "decrby", "get", "getdel", "getex", "getrange", "getset", "incr",
        "incrby", "incrbyfloat", "lcs", "mget", "mset", "msetnx", "psetex", "set", "setex",
        "setnx", "setrange", "strlen", "substr",
    ]),
    ("bitmap", &[
        "bitcount", "bitfield", "bitfield_ro", "bitop", "bitpos", "getbit", "setbit",
    ]),
    ("hyperloglog", &[
        "pfadd", "pfcount", "pfdebug", "pfmerge", "pfselftest",
    ]),
    ("geo", &[
        "geoadd", "geodist", "geohash", "geopos", "georadius", "georadius_ro",
        "georadiusbymember", "georadiusbymember_ro", "geosearch", "geosearchstore",
    ]),
    ("admin", &[
        "acl|deluser", "acl|dryrun", "acl|getuser", "acl|list", "acl|load", "acl|log", "acl|save",
        "acl|setuser", "acl|users", "bgrewriteaof", "bgsave", "client|kill", "client|list",
        "client|no-evict", "client|pause", "client|unblock", "client|unpause", "config|get",
        "config|resetstat", "config|rewrite", "config|set", "debug", "failover", "lastsave",
        "latency|doctor", "latency|graph", "latency|histogram", "latency|history",
        "latency|latest", "latency|reset", "monitor", "psync", "replconf", "replicaof", "role",
        "save", "shutdown", "slaveof", "slowlog|get", "slowlog|len", "slowlog|reset", "sync",
    ]),
    ("dangerous", &[
        "lastsave", "role", "swapdb",
        "flushall", "flushdb", "info", "keys", "migrate", "restore", "restore-asking",
        "sort", "sort_ro",
    ]),
    ("connection", &[
        "auth", "client|caching", "client|getname", "client|getredir", "client|help", "client|id",
        "client|info", "client|kill", "client|list", "client|no-evict", "client|pause",
        "client|reply", "client|setname", "client|tracking", "client|trackinginfo",
        "client|unblock", "client|unpause", "command", "command|count", "command|docs",
        "command|getkeys", "command|getkeysandflags", "command|help", "command|info",
        "command|list", "echo", "hello", "ping", "quit", "reset", "select", "wait",
    ]),
    ("transaction", &[
        "discard", "exec", "multi", "unwatch", "watch",
    ]),
];

/// The categories of a command, as bits in the order of [`NAMES`].
pub(crate) fn of(name: &str, command_flags: u32) -> u32 {
    let has = |flag| command_flags & flag != 0;
    let (fast, admin) = (has(flags::FAST), has(flags::ADMIN));
    let starts = |start: &&str| name.starts_with(start);
    let is_script = ["eval", "fcall", "function|", "script|"].iter().any(starts);
    let implied = [
        ("stream", name.starts_with('x') && !["xgroup", "xinfo"].contains(&name)),
        ("scripting", is_script),
        ("read", has(flags::READONLY) && !is_script),
        ("write", has(flags::WRITE)),
        ("pubsub", has(flags::PUBSUB)),
        ("admin", admin),
        ("dangerous", admin),
        ("fast", fast),
        ("slow", !fast),
        ("blocking", has(flags::BLOCKING)),
        ("connection", has(flags::CONNECTION)),
    ];
    let implied = implied.into_iter().filter(|(_, is)| *is).map(|(category, _)| category);
    let listed = MEMBERS.iter().filter(|(_, members)| members.contains(&name));
    let categories = implied.chain(listed.map(|(category, _)| *category));
    categories.fold(0, |bits, category| bits | bit(category.as_bytes()).unwrap_or(0))
}

/// The bit of a category, in any case.
pub(crate) fn bit(category: &[u8]) -> Option<u32> {
    let named = |name: &&str| name.as_bytes().eq_ignore_ascii_case(category);
    NAMES.iter().position(named).map(|index| 1 << index)
}

/// The names of categories given as bits.
pub(crate) fn names(bits: u32) -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().enumerate().filter(move |(index, _)| bits & (1 << index) != 0).map(|(_, n)| n)
}

/// A key is read.
pub(crate) const READ: u8 = 1;
/// A key is written.
pub(crate) const WRITE: u8 = 2;

/// Commands that read facts of a key, not its value.
#[rustfmt::skip]
const LOOK: &[&str] = &[
    "exists", "hexists", "hlen", "hstrlen", "llen", "memory|usage", "object|encoding",
    "object|freq", "object|idletime", "object|refcount", "scard", "sismember", "strlen", "touch",
    "type", "watch", "xlen", "zcard",
];

/// Commands that write keys and reveal nothing of their old values.
#[rustfmt::skip]
const BLIND: &[&str] = &[
    "append", "del", "expire", "expireat", "geoadd", "hdel", "hmset", "hset", "hsetnx", "linsert",
    "lpush", "lpushx", "lrem", "lset", "ltrim", "mset", "msetnx", "persist", "pexpire",
    "pexpireat", "pfadd", "psetex", "restore", "rpush", "rpushx", "sadd", "setex", "setnx",
    "restore-asking", "setrange", "srem", "unlink", "xack", "xadd", "xautoclaim", "xclaim",
    "xdel", "xgroup|create", "xgroup|createconsumer", "xgroup|delconsumer", "xgroup|destroy",
    "xgroup|setid", "xsetid", "xtrim", "zadd", "zrem", "zremrangebylex", "zremrangebyrank",
    "zremrangebyscore",
];

/// How a command accesses its first key, and the others.
pub(crate) fn access(name: &str, command_flags: u32) -> [u8; 2] {
    match name {
        _ if LOOK.contains(&name) => [0, 0],
        _ if BLIND.contains(&name) => [WRITE, WRITE],
        "sort" | "copy" | "georadius" | "georadiusbymember" => [READ, WRITE],
        "pfmerge" => [READ | WRITE, READ],
        "pfdebug" => [READ, READ],
        "blmove" | "brpoplpush" | "lmove" | "rename" | "renamenx" | "rpoplpush" | "smove" => {
            [READ | WRITE, WRITE]
        }
        "bitop" | "geosearchstore" | "sdiffstore" | "sinterstore" | "sunionstore"
        | "zdiffstore" | "zinterstore" | "zrangestore" | "zunionstore" => [WRITE, READ],
        _ if command_flags & flags::READONLY != 0 => [READ, READ],
        _ => [READ | WRITE, READ | WRITE],
    }
}
