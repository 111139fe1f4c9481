//! The log restores what clients did, whatever depended on the clock or on chance.

use stillframe_peers::requests::ALL;

use crate::journal::server;
use crate::mixed::requests;
use crate::support::{Client, Random, Reply, rounds, wait_until};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Commands on collections, most of them random or timed in some way; `?` stands for a number.
const COLLECTIONS: [&str; 62] = [
    "RPUSH list? a? b c d e",
    "LPUSH list? x? y",
    "LPOP list?",
    "RPOP list? 2",
    "LMOVE list? list? LEFT RIGHT",
    "RPOPLPUSH list? list?",
    "LREM list? 0 b",
    "LSET list? 0 z?",
    "LINSERT list? BEFORE c new?",
    "LTRIM list? 0 20",
    "LMPOP 2 list? list? LEFT COUNT 2",
    "BLPOP list? 0.001",
    "BRPOP list? list? 0.001",
    "BLMOVE list? list? RIGHT LEFT 0.001",
    "BRPOPLPUSH list? list? 0.001",
    "RPUSHX list? more",
    "SADD set? a? b? c? d? 1 2 3",
    "SREM set? b?",
    "SPOP set?",
    "SPOP set? 2",
    "SMOVE set? set? a?",
    "SINTERSTORE set? set? set?",
    "SUNIONSTORE set? set? set?",
    "SDIFFSTORE set? set? set?",
    "HSET hash? f? v? g? 1",
    "HSETNX hash? f? w",
    "HDEL hash? f?",
    "HINCRBY hash? n 3",
    "HINCRBYFLOAT hash? x 0.1",
    "HMSET hash? m? v",
    "ZADD zset? 1 a? 2.5 b? inf c?",
    "ZADD zset? NX CH 7 d?",
    "ZINCRBY zset? 0.3 a?",
    "ZREM zset? b?",
    "ZPOPMIN zset?",
    "ZPOPMAX zset? 2",
    "ZMPOP 1 zset? MIN",
    "BZPOPMIN zset? 0.001",
    "BZPOPMAX zset? 0.001",
    "ZUNIONSTORE zset? 2 zset? zset?",
    "ZINTERSTORE zset? 2 zset? set?",
    "ZRANGESTORE zset? zset? 0 3",
    "ZREMRANGEBYRANK zset? 0 0",
    "ZREMRANGEBYSCORE zset? 2 3",
    "GEOADD geo? 13.361389 38.115556 p?",
    "GEOSEARCHSTORE zset? geo? FROMLONLAT 15 37 BYRADIUS 500 km",
    "SETBIT bits? ? 1",
    "BITOP XOR bits? bits? bits?",
    "BITFIELD bits? INCRBY i8 3 ?",
    "PFADD hll? a? b c",
    "PFMERGE hll? hll? hll?",
    "SORT set? ALPHA STORE list?",
    "EXPIRE list? 100000",
    "PEXPIRE set? 7",
    "PEXPIRE hash? 9",
    "EXPIRE zset? 3000",
    "PERSIST list?",
    "RENAME list? list?",
    "COPY zset? zset? REPLACE",
    "UNLINK hash?",
    "DEL set? zset?",
    "MOVE zset? 3",
];

/// Expiry, type and value of every key.
pub(crate) type Contents = BTreeMap<(usize, String), String>;

/// All that a server holds, of every type.
pub(crate) fn contents(client: &mut Client) -> Contents {
    contents_by(client, Client::call)
}

/// As [`contents`], where `ask` makes the requests.
pub(crate) fn contents_by(
    client: &mut Client,
    mut ask: impl FnMut(&mut Client, &[&[u8]]) -> Reply,
) -> Contents {
    let mut all = Contents::new();
    for db in 0..16 {
        if matches!(client.ask(&format!("SELECT {db}")), Reply::Error(_)) {
            break; // a node of a cluster has one
        }
        let keys = ask(client, &[b"KEYS", b"*"]);
        for key in keys.list().iter().filter_map(Reply::bytes) {
            let mut ask = |words: &[&[u8]]| ask(client, words);
            let kind = ask(&[b"TYPE", key]).text();
            let sorted = |reply: Reply, width: usize| {
                let mut parts: Vec<String> =
                    reply.list().chunks(width).map(|part| format!("{part:?}")).collect();
                parts.sort();
                parts.join(" ")
            };
            let value = match &*kind {
                "string" => format!("{:?}", without_cached_count(ask(&[b"GET", key]))),
                "list" => format!("{:?}", ask(&[b"LRANGE", key, b"0", b"-1"])),
                "zset" => format!("{:?}", ask(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"])),
                "set" => sorted(ask(&[b"SMEMBERS", key]), 1),
                "hash" => sorted(ask(&[b"HGETALL", key]), 2),
                "stream" => stream(&mut ask, key),
                "array" => {
                    let last = (u64::MAX - 1).to_string();
                    let all = ask(&[b"ARSCAN", key, b"0", last.as_bytes()]);
                    format!("{all:?} {:?}", ask(&[b"ARNEXT", key]))
                }
                "none" => continue, // it has just expired
                other => panic!("a key of type {other}"),
            };
            let expire = ask(&[b"PEXPIRETIME", key]).int();
            all.insert((db, key.escape_ascii().to_string()), format!("{expire} {kind} {value}"));
        }
    }
    client.ok("SELECT 0");
    all
}

/// Fails by the keys that differ, with what either holds.
pub(crate) fn assert_same_contents(expected: &Contents, found: &Contents, what: &str) {
    let keys: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    let differ = keys.into_iter().filter(|key| expected.get(*key) != found.get(*key));
    let lines: Vec<String> = differ
        .map(|key| format!("{key:?}: {:?} expected, {:?} found", expected.get(key), found.get(key)))
        .collect();
    assert!(lines.is_empty(), "{what}:\n{}", lines.join("\n"));
}

/// A value as it is, but for the count that a HyperLogLog keeps of itself: PFCOUNT renews that in
/// a replica, too, which tells nobody.
fn without_cached_count(value: Reply) -> Reply {
    match value {
        Reply::Text(mut text) if text.starts_with(b"HYLL") && text.len() >= 16 => {
            text[8..16].fill(0);
            Reply::Text(text)
        }
        other => other,
    }
}

/// All of a stream but when consumers were last seen and which nodes it lies in.
fn stream(ask: &mut impl FnMut(&[&[u8]]) -> Reply, key: &[u8]) -> String {
    let mut text = format!("{:?}", ask(&[b"XRANGE", key, b"-", b"+"]));
    let facts = ask(&[b"XINFO", b"STREAM", key]);
    for fact in facts.list().chunks(2) {
        if !fact[0].text().starts_with("radix") && !fact[0].text().ends_with("-entry") {
            text += &format!(" {fact:?}");
        }
    }
    let mut groups: Vec<String> = Vec::new();
    for group in ask(&[b"XINFO", b"GROUPS", key]).list() {
        let name = group.list()[1].text();
        let pending = ask(&[b"XPENDING", key, name.as_bytes(), b"-", b"+", b"1000"]);
        // Without the time since the delivery.
        let pending: Vec<_> = pending.list().iter().map(Reply::list).collect();
        let pending: Vec<_> = pending.iter().map(|it| (&it[0], &it[1], &it[3])).collect();
        // Without the lag, which follows from what is read by a rule of each version, and what is
        // pending for nobody, which is counted where there is such, or always (Redis 8.8).
        let left_out = ["lag", "nacked-count"];
        let facts = group.list().chunks(2).filter(|it| !left_out.contains(&&*it[0].text()));
        let facts: Vec<_> = facts.collect();
        groups.push(format!(" {facts:?} {pending:?}"));
    }
    groups.sort();
    text + &groups.concat()
}

#[test]
fn whatever_clients_did_comes_back_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut random = Random::new("replayed");
    let mut before: Option<Contents> = None;
    for _ in 0..=rounds(4, 100) {
        let mut server = server("everysec", folder.path()).start();
        let mut client = server.client();
        let after = contents(&mut client);
        if let Some(before) = &before {
            assert_same_contents(before, &after, "what came back differs");
        }
        for _ in 0..400 {
            let commands = match random.below(3) {
                0 => requests(&ALL, &mut random),
                _ => vec![collection(&mut random)],
            };
            for command in commands {
                client.call(&command.iter().map(Vec::as_slice).collect::<Vec<_>>());
            }
        }
        client.call(&[b"DISCARD"]);
        // What was to expire soon has.
        std::thread::sleep(Duration::from_millis(20));
        before = Some(contents(&mut client));
        // Everything is logged at the end of its turn, and written soon after.
        wait_until("all is written", || client.info("aof_buffer_length") == "0");
        server.kill();
    }
}

pub(crate) fn collection(random: &mut Random) -> Vec<Vec<u8>> {
    let line = random.pick(&COLLECTIONS);
    let mut words = String::new();
    for part in line.split_inclusive('?') {
        words += part.trim_end_matches('?');
        if part.ends_with('?') {
            words += &random.below(4).to_string();
        }
    }
    words.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn what_depends_on_the_clock_comes_back_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = server("always", folder.path()).start();
    let mut client = first.client();
    for line in [
        "SET ex v EX 1000",
        "SETEX setex 1000 v",
        "PSETEX psetex 1000000 v",
        "SET float 1",
        "INCRBYFLOAT float 0.1",
        "INCRBYFLOAT float 0.2",
        "SET getex v",
        "GETEX getex EX 1000",
        "SET expire v",
        "EXPIRE expire 1000",
        "SET persist v EX 1000",
        "PERSIST persist",
        "SET gone v PX 1",
        "SET past v",
        "EXPIRE past -1",
        "SET dying v PX 1",
        "SET renamed v EX 1000",
        "RENAME renamed other",
        "COPY other copied",
        "MOVE copied 3",
        "SET again v PX 1",
    ] {
        client.ok(line);
    }
    wait_until("the keys have expired", || client.ask("EXISTS gone dying again").int() == 0);
    client.ok("SETNX again second");
    client.ok("APPEND gone tail");
    let keys = ["ex", "setex", "psetex", "getex", "expire", "persist", "other", "again", "gone"];
    let state = |client: &mut Client| {
        let of = |key: &&str, client: &mut Client| {
            (client.ask(&format!("GET {key}")), client.ask(&format!("PEXPIRETIME {key}")))
        };
        let mut all: Vec<_> = keys.iter().map(|key| of(key, client)).collect();
        all.push((client.ask("GET float"), client.ask("EXISTS past dying")));
        client.ok("SELECT 3");
        all.push((client.ask("GET copied"), client.ask("PEXPIRETIME copied")));
        client.ok("SELECT 0");
        all
    };
    let before = state(&mut client);
    first.kill();
    let again = server("always", folder.path()).start();
    assert_eq!(state(&mut again.client()), before);
}

#[test]
fn what_a_waiting_client_was_given_does_not_come_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = server("always", folder.path()).start();
    let (mut waiting, mut client) = (first.client(), first.client());
    waiting.send(&[b"BLPOP", b"queue", b"0"]);
    wait_until("it waits", || client.info("blocked_clients") == "1");
    client.ok("MULTI");
    client.ok("RPUSH queue given");
    client.ok("RPUSH queue kept");
    client.ok("EXEC");
    assert_eq!(waiting.reply().list().len(), 2);
    waiting.send(&[b"BLMOVE", b"empty", b"moved", b"LEFT", b"LEFT", b"0"]);
    wait_until("it waits", || client.info("blocked_clients") == "1");
    client.ok("RPUSH empty one");
    assert_eq!(waiting.reply().text(), "one");
    first.kill();
    let again = server("always", folder.path()).start();
    let mut client = again.client();
    assert_eq!(client.ask("LRANGE queue 0 -1").list(), [Reply::Text(b"kept".to_vec())]);
    assert_eq!(client.ask("LRANGE moved 0 -1").list(), [Reply::Text(b"one".to_vec())]);
    assert_eq!(client.ask("EXISTS empty").int(), 0);
}
