//! A key whose time has come, and that nothing has met since, when a command overwrites or removes
//! it: reply, notifications, counters and the stream to replicas, beside redis-server.

use super::streams::{listen, next};
use crate::notifications::messages;
use crate::support::{Client, Kind, Reply, Server, Setup, redis_is_here};

/// What is there before each request. `d` expires before it, in both databases.
const BEFORE: [&str; 14] = [
    "FLUSHALL",
    "SET s v",
    "SET int 5",
    "RPUSH l a b",
    "SADD set a b",
    "ZADD z 1 a 2 b",
    "HSET h f v",
    "GEOADD g 13.3 38.1 here",
    "PFADD hll a",
    "SELECT 1",
    "SET d old PX 1",
    "SELECT 0",
    "SET d old PX 1",
    "SET e old PX 1",
];

/// Requests on `d`, whose time has come. `none` has never existed, `@` is a payload of DUMP.
const REQUESTS: [&str; 84] = [
    "SET d v",
    "SET d v KEEPTTL",
    "SET d v NX",
    "SET d v XX",
    "SET d v GET",
    "SET d v PX 100000",
    "SET d v PXAT 1",
    "SETEX d 100 v",
    "SETNX d v",
    "GETSET d v",
    "GETDEL d",
    "GETEX d PERSIST",
    "GETEX d PXAT 1",
    "MSET d v e v",
    "MSET d v d w",
    "MSETNX d v e v",
    "MSETNX d v s v",
    "APPEND d v",
    "SETRANGE d 2 v",
    "SETRANGE d 0 ",
    "SETBIT d 3 1",
    "INCR d",
    "INCRBYFLOAT d 1.5",
    "BITFIELD d SET u8 0 5",
    "BITOP AND d s int",
    "BITOP AND d none",
    "BITOP NOT d d",
    "PFADD d a",
    "PFMERGE d hll",
    "PFMERGE d none",
    "DEL d e",
    "UNLINK d none",
    "EXPIRE d 100",
    "PEXPIREAT d 1",
    "PERSIST d",
    "RENAME s d",
    "RENAME d s",
    "RENAMENX s d",
    "COPY s d",
    "COPY s d REPLACE",
    "COPY s d DB 1",
    "COPY s d DB 1 REPLACE",
    "COPY d s REPLACE",
    "MOVE s 1",
    "MOVE d 1",
    "SWAPDB 0 1",
    "RESTORE d 0 @",
    "RESTORE d 0 @ REPLACE",
    "RESTORE d 100000 @ REPLACE",
    "RESTORE d 1 @ REPLACE ABSTTL",
    "RESTORE d 1 @ ABSTTL",
    "RESTORE d 0 damaged REPLACE",
    "RESTORE s 0 @ REPLACE",
    "RESTORE s 1 @ REPLACE ABSTTL",
    "SORT l ALPHA STORE d",
    "SORT none STORE d",
    "SORT d STORE d",
    "SUNIONSTORE d set",
    "SUNIONSTORE d none",
    "SINTERSTORE d set none",
    "SINTERSTORE d d",
    "SDIFFSTORE d none set",
    "ZUNIONSTORE d 1 z",
    "ZUNIONSTORE d 1 none",
    "ZINTERSTORE d 2 z none",
    "ZINTERSTORE d 2 d z",
    "ZDIFFSTORE d 1 none",
    "ZRANGESTORE d z 0 -1",
    "ZRANGESTORE d z 5 6",
    "ZRANGESTORE d none 0 -1",
    "GEOSEARCHSTORE d g FROMLONLAT 13 38 BYRADIUS 500 km",
    "GEOSEARCHSTORE d g FROMLONLAT 100 38 BYRADIUS 5 km",
    "GEORADIUS g 100 38 5 km STORE d",
    "GEOSEARCHSTORE d none FROMLONLAT 13 38 BYRADIUS 5 km",
    "LMOVE l d LEFT RIGHT",
    "LMOVE d l LEFT RIGHT",
    "RPOPLPUSH l d",
    "BLMOVE l d LEFT RIGHT 0.1",
    "LPUSHX d v",
    "SMOVE set d a",
    "SADD d v",
    "HSET d f v",
    "ZADD d XX 1 a",
    "FLUSHDB",
];

/// These overwrite a key without a look at it while no notification is wanted: then the key does
/// not count as expired, and no DEL of it is sent before them.
const UNSEEN: [&str; 5] =
    ["SET d v", "MSET d v e v", "MSET d v d w", "BITOP AND d s int", "RENAME s d"];

/// All that a server shows of one request.
#[derive(Debug, PartialEq)]
struct Shown {
    reply: Reply,
    notifications: Vec<String>,
    /// Changes counted, and keys that have expired.
    counted: [i64; 2],
    sent: Vec<Vec<String>>,
}

fn show(server: &Server, notify: &str) -> Vec<(&'static str, Shown)> {
    let mut client = server.client();
    client.ok("DEBUG SET-ACTIVE-EXPIRE 0");
    client.ask(&format!("CONFIG SET notify-keyspace-events {notify}"));
    let mut listener = server.client();
    listener.ok("PSUBSCRIBE __key*");
    let payload = {
        client.ok("SET s v");
        client.call(&[b"DUMP", b"s"]).bytes().expect("a payload").to_vec()
    };
    client.ok("FLUSHALL");
    let mut replica = listen(server.port);
    REQUESTS
        .map(|request| {
            BEFORE.iter().for_each(|line| _ = client.ask(line));
            std::thread::sleep(std::time::Duration::from_millis(3));
            client.ok("SET begin v");
            while next(&mut replica).get(1).is_none_or(|word| word != "begin") {}
            messages(&mut listener);
            let counts = |client: &mut Client| {
                ["rdb_changes_since_last_save", "expired_keys"].map(|name| client.info_int(name))
            };
            let before = counts(&mut client);
            let word = |word: &'static str| if word == "@" { &payload } else { word.as_bytes() };
            let words: Vec<&[u8]> = request.split(' ').map(word).collect();
            let reply = client.call(&words);
            let after = counts(&mut client);
            let notifications = messages(&mut listener);
            client.ok("SET mark v");
            let mut sent: Vec<_> = std::iter::from_fn(|| Some(next(&mut replica)))
                .take_while(|words| words.get(1).is_none_or(|word| word != "mark"))
                .collect();
            // Which database comes first: a server says it when it changes.
            sent.retain(|words| words[0] != "SELECT");
            sent.iter_mut().flatten().for_each(|word| {
                if word.len() >= 12 && word.parse::<i64>().is_ok() {
                    "a time".clone_into(word);
                }
            });
            let counted = [after[0] - before[0], after[1] - before[1]];
            (request, Shown { reply, notifications, counted, sent })
        })
        .into()
}

#[test]
fn an_expired_key_is_overwritten_as_in_redis() {
    if !redis_is_here("an_expired_key_is_overwritten_as_in_redis") {
        return;
    }
    let flags = ["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0", "--save", ""];
    for notify in ["KEAnm", "\"\""] {
        let [theirs, ours] = [Kind::Redis, Kind::subject("imprint")].map(|kind| {
            let mut shown = show(&Setup::new(kind).flags(&flags).start(), notify);
            let unseen = |request: &&str| notify != "KEAnm" && UNSEEN.contains(request);
            for (_, shown) in shown.iter_mut().filter(|(request, _)| unseen(request)) {
                shown.counted[1] = 0;
                shown.sent.retain(|words| !["MULTI", "DEL", "EXEC"].contains(&&*words[0]));
            }
            shown
        });
        let different: Vec<_> = theirs.iter().zip(&ours).filter(|(a, b)| a != b).collect();
        assert!(different.is_empty(), "redis-server and here, {notify}: {different:#?}");
    }
}
