//! Keyspace notifications of random commands, message by message beside redis-server.

use crate::support::{Client, Kind, Peer, Random, Reply, Server, are_here, redis_is_here, rounds};

/// Every message since the last call: an answered PING comes after all that was sent before.
pub(crate) fn messages(listener: &mut Client) -> Vec<String> {
    listener.send(&[b"PING", b"the end"]);
    let mut found = Vec::new();
    loop {
        let reply = listener.reply();
        let words: Vec<String> = match &reply {
            Reply::List(words) => words.iter().map(Reply::text).collect(),
            other => vec![other.text()],
        };
        if words.last().is_some_and(|word| word == "the end") {
            return found;
        }
        found.push(words.join(" "));
    }
}

/// A command on few keys of two databases. Times are in the past or far away.
fn command(random: &mut Random, round: usize) -> String {
    let (a, b) = (random.pick(&["a", "b", "c", "d"]), random.pick(&["a", "b", "c", "d"]));
    if random.below(3) == 0 {
        let (s, t) = (random.pick(&["s", "t", "a"]), random.pick(&["s", "t", "b"]));
        return stream_command(random, round + 1, s, t);
    }
    let n = random.below(20);
    let lines = [
        format!("SET {a} {n}"),
        format!("SET {a} {n} EX 1000"),
        format!("SET {a} {n} NX GET"),
        format!("SET {a} {n} XX KEEPTTL"),
        format!("SETEX {a} 1000 {n}"),
        format!("SETNX {a} {n}"),
        format!("MSET {a} {n} {b} {n}"),
        format!("MSETNX {a} {n} {b} {n}"),
        format!("GETSET {a} {n}"),
        format!("GETDEL {a}"),
        format!("GETEX {a}"),
        format!("GETEX {a} EX 100"),
        format!("GETEX {a} PERSIST"),
        format!("GETEX {a} PXAT 1"),
        format!("APPEND {a} {n}"),
        format!("SETRANGE {a} {n} xyz"),
        format!("INCR {a}"),
        format!("DECRBY {a} 3"),
        format!("INCRBYFLOAT {a} 1.5"),
        format!("GET {a}"),
        format!("MGET {a} {b}"),
        format!("EXISTS {a} {b}"),
        format!("TYPE {a}"),
        format!("TTL {a}"),
        format!("STRLEN {a}"),
        format!("OBJECT ENCODING {a}"),
        format!("TOUCH {a}"),
        format!("DEL {a} {b}"),
        format!("UNLINK {a}"),
        format!("EXPIRE {a} 1000"),
        format!("EXPIRE {a} -1"),
        format!("PEXPIREAT {a} 1"),
        format!("PERSIST {a}"),
        format!("RENAME {a} {b}"),
        format!("RENAMENX {a} {b}"),
        format!("COPY {a} {b} REPLACE"),
        format!("COPY {a} {b} DB 1"),
        format!("MOVE {a} 1"),
        format!("SELECT {}", n % 2),
        format!("PSETEX {a} 1 x"),
        "FLUSHDB".to_owned(),
        "FLUSHALL".to_owned(),
    ];
    let at = random.below(lines.len() * 2);
    lines.get(at).cloned().unwrap_or_else(|| collection_command(random, a, b))
}

/// A command on a stream, which the key may or may not be; times do not show in its reply. `id`
/// rises from call to call.
fn stream_command(random: &mut Random, id: usize, a: &str, b: &str) -> String {
    let (g, c) = (random.pick(&["g", "h"]), random.pick(&["one", "two"]));
    let [old, older] = [(); 2].map(|()| id.saturating_sub(random.below(12)));
    let lines = [
        format!("XADD {a} {id}-1 f v"),
        format!("XADD {a} {id}-* f v g w"),
        format!("XADD {a} NOMKSTREAM MAXLEN 3 {id}-1 f v"),
        format!("XADD {a} MINID = {old} {id}-1 f v"),
        format!("XADD {a} MAXLEN 0 {id}-1 f v"),
        format!("XDEL {a} {old}-1 {older}-1"),
        format!("XTRIM {a} MAXLEN {}", random.below(4)),
        format!("XSETID {a} {id}-5"),
        format!("XGROUP CREATE {a} {g} $ MKSTREAM"),
        format!("XGROUP CREATE {a} {g} {old} ENTRIESREAD 3"),
        format!("XGROUP CREATECONSUMER {a} {g} {c}"),
        format!("XGROUP DELCONSUMER {a} {g} {c}"),
        format!("XGROUP SETID {a} {g} {older}"),
        format!("XGROUP DESTROY {a} {g}"),
        format!("XREADGROUP GROUP {g} {c} COUNT 2 STREAMS {a} >"),
        format!("XREADGROUP GROUP {g} {c} NOACK STREAMS {a} {b} > >"),
        format!("XREADGROUP GROUP {g} {c} STREAMS {a} 0"),
        format!("XACK {a} {g} {old}-1 {older}-1"),
        format!("XCLAIM {a} {g} {c} 0 {old}-1 {older}-1"),
        format!("XCLAIM {a} {g} {c} 0 {old}-1 FORCE LASTID {older}-1"),
        format!("XAUTOCLAIM {a} {g} {c} 0 0 COUNT 2"),
        format!("XPENDING {a} {g}"),
        format!("XRANGE {a} - +"),
        format!("RENAME {a} {b}"),
        format!("COPY {a} {b} REPLACE"),
    ];
    lines[random.below(lines.len())].clone()
}

/// A command on a list, a hash or a set, which the keys may or may not be.
fn collection_command(random: &mut Random, a: &str, b: &str) -> String {
    let n = random.below(6);
    let lines = [
        format!("RPUSH {a} {n} {n}"),
        format!("LPUSH {a} {n}"),
        format!("LPUSHX {a} {n}"),
        format!("LPOP {a}"),
        format!("RPOP {a} {n}"),
        format!("LSET {a} 0 {n}"),
        format!("LINSERT {a} BEFORE {n} x"),
        format!("LREM {a} 0 {n}"),
        format!("LTRIM {a} {n} 3"),
        format!("LMOVE {a} {b} LEFT RIGHT"),
        format!("RPOPLPUSH {a} {b}"),
        format!("LMPOP 2 {a} {b} LEFT COUNT 2"),
        format!("BLPOP {a} {b} 0.001"),
        format!("BLMOVE {a} {b} LEFT RIGHT 0.001"),
        format!("LRANGE {a} 0 -1"),
        format!("HSET {a} {n} x"),
        format!("HSETNX {a} {n} x"),
        format!("HDEL {a} {n} 1"),
        format!("HINCRBY {a} f 1"),
        format!("HINCRBYFLOAT {a} f 0.5"),
        format!("HGET {a} {n}"),
        format!("SADD {a} {n} x"),
        format!("SREM {a} {n} x 1 2 3"),
        format!("SMOVE {a} {b} {n}"),
        format!("SUNIONSTORE {a} {b} c"),
        format!("SINTERSTORE {a} {b} c"),
        format!("SDIFFSTORE {a} {b} c"),
        format!("SISMEMBER {a} {n}"),
        format!("SINTERCARD 2 {a} {b}"),
        format!("SORT {a} ALPHA STORE {b}"),
        format!("HLEN {a}"),
        format!("DEL {a} {b}"),
    ];
    lines[random.below(lines.len())].clone()
}

#[test]
fn notifications_are_those_of_redis() {
    if !redis_is_here("notifications_are_those_of_redis") {
        return;
    }
    let mut random = Random::new("notifications_are_those_of_redis");
    let servers = [Server::start(Kind::Redis), Server::start(Kind::subject("imprint"))];
    let mut sides = servers.each_ref().map(|server| (server.client(), server.client()));
    let settings = ["KEA", "AKEnm", "Kg$", "Ex", "KEgnm", ""];
    for (listener, _) in &mut sides {
        listener.ok("PSUBSCRIBE __key*");
    }
    for round in 0..rounds(3_000, 100_000) {
        let (line, wait) = match round % 300 {
            0 => {
                let classes = settings[round / 300 % settings.len()];
                (format!("CONFIG SET notify-keyspace-events {classes}"), false)
            }
            _ => {
                let line = command(&mut random, round);
                let wait = line.starts_with("PSETEX");
                (line, wait)
            }
        };
        let seen = sides.each_mut().map(|(listener, writer)| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let reply = writer.call(&words);
            if wait {
                // Its time is over for either server once a read says so.
                std::thread::sleep(std::time::Duration::from_millis(3));
                let key = words[1];
                while writer.call(&[b"EXISTS", key]) == Reply::Int(1) {}
            }
            (reply, messages(listener))
        });
        let [theirs, mut ours] = seen;
        let unordered = ["OBJECT", "SPOP"];
        if unordered.iter().any(|name| line.starts_with(name)) {
            ours.0 = theirs.0.clone(); // only the messages matter here
        }
        assert_eq!(theirs, ours, "round {round}: {line}");
    }
}

/// Requests on hashes, message by message beside Redis 8.10.
#[test]
fn fields_are_named_as_by_redis() {
    let test = "fields_are_named_as_by_redis";
    let lines = [
        "HSET h? f? v g? w f? x",
        "HMSET h? f? v",
        "HSETNX h? f? v",
        "HDEL h? f? g? f?",
        "HGETDEL h? FIELDS 2 f? g?",
        "HINCRBY h? n? 3",
        "HINCRBYFLOAT h? n? 0.5",
        "HEXPIRE h? 5000 FIELDS 3 f? g? x",
        "HEXPIRE h? 9000 NX FIELDS 1 f?",
        "HEXPIRE h? 0 FIELDS 2 g? f?",
        "HPEXPIREAT h? 4000000000000 FIELDS 1 f?",
        "HPERSIST h? FIELDS 2 f? n?",
        "HGETEX h? PERSIST FIELDS 2 f? g?",
        "HGETEX h? EX 100 FIELDS 2 f? g?",
        "HGETEX h? PXAT 1 FIELDS 1 f?",
        "HSETEX h? FIELDS 1 f? v",
        "HSETEX h? EX 100 FIELDS 2 f? v g? w",
        "HSETEX h? KEEPTTL FIELDS 1 f? v",
        "HSETEX h? FNX FIELDS 1 f? v",
        "HSETEX h? PXAT 1 FIELDS 2 f? v g? w",
        "DEL h?",
        "COPY h? h?",
        "HLEN h?",
    ];
    compare_messages(test, "AKESTIV", &lines);
}

/// Requests that put one value in place of another, message by message beside Redis 8.10.
#[test]
fn keys_that_are_overwritten_are_told_as_by_redis() {
    let test = "keys_that_are_overwritten_are_told_as_by_redis";
    let lines = [
        "SET k? v",
        "SET k? v EX 100",
        "SET k? v KEEPTTL",
        "SET k? v NX",
        "SET k? v XX",
        "SETEX k? 100 v",
        "SETNX k? v",
        "GETSET k? v",
        "MSET k? v k? w",
        "MSETNX k? v k? w",
        "MSETEX 2 k? v l? w EX 100",
        "MSETEX 2 k? v l? w KEEPTTL",
        "RPUSH l? a",
        "SADD s? a b c",
        "SADD k? a",
        "ZADD z? 1 a 2 b",
        "XADD k? 1-1 f v",
        "HSET k? f v",
        "SINTERSTORE k? s? s?",
        "SUNIONSTORE k? s? s?",
        "SDIFFSTORE k? s? s?",
        "ZUNIONSTORE k? 2 z? s?",
        "ZINTERSTORE k? 2 z? z?",
        "ZDIFFSTORE k? 2 z? z?",
        "ZRANGESTORE k? z? 0 0",
        "GEOADD z? 13.361389 38.115556 p",
        "GEOSEARCHSTORE k? z? FROMLONLAT 13 38 BYRADIUS 500 km",
        "SORT l? ALPHA STORE k?",
        "BITOP NOT k? k?",
        "PFMERGE k? k?",
        "RENAME k? k?",
        "RENAMENX k? l?",
        "COPY k? k?",
        "COPY l? k? REPLACE",
        "COPY k? k? DB 1",
        "COPY k? k? DB 1 REPLACE",
        "MOVE k? 1",
        "DEL k? l? s?",
        "DEL k? z?",
        "RESTORE k? 0 PAYLOAD REPLACE",
        "RESTORE k? 0 PAYLOAD",
    ];
    compare_messages(test, "AEKoc", &lines);
}

/// Random requests, message by message beside Redis 8.10. `?` stands for a digit.
fn compare_messages(test: &str, classes: &str, lines: &[&str]) {
    if !are_here(test, &[Peer::Redis810]) {
        return;
    }
    let mut random = Random::new(test);
    let kinds = [Kind::Newer(Peer::Redis810), Kind::subject("imprint")];
    let servers = kinds.map(Server::start);
    let mut sides = servers.each_ref().map(|server| (server.client(), server.client()));
    for (listener, writer) in &mut sides {
        listener.ok("PSUBSCRIBE __*");
        writer.ok(&format!("CONFIG SET notify-keyspace-events {classes}"));
    }
    sides[1].1.ok("SET payload 7");
    let payload = sides[1].1.ask("DUMP payload").bytes().expect("a payload").to_vec();
    sides[1].1.ok("DEL payload");
    sides.iter_mut().for_each(|(listener, _)| _ = messages(listener));
    for round in 0..rounds(1_000, 20_000) {
        let line = random.pick(lines);
        let digit = |letter: char| match letter {
            '?' => char::from(b'0' + random.below(3) as u8),
            letter => letter,
        };
        let line: String = line.chars().map(digit).collect();
        let words: Vec<&[u8]> = line
            .split(' ')
            .map(|word| if word == "PAYLOAD" { &payload[..] } else { word.as_bytes() })
            .collect();
        let [theirs, ours] = sides.each_mut().map(|(listener, writer)| {
            let reply = writer.call(&words);
            (reply, messages(listener))
        });
        assert_eq!(theirs, ours, "round {round}: {line}");
    }
}

/// Channels and payloads are those of the documents of Redis 8.8.
#[test]
fn fields_are_named_on_channels_of_their_own() {
    let server = Server::start(Kind::subject("imprint"));
    let (mut listener, mut writer) = (server.client(), server.client());
    listener.ok("PSUBSCRIBE __*");
    let space = "pmessage __* __subkeyspace@2__:h hset|1:a,3:b|:";
    let event = "pmessage __* __subkeyevent@2__:hset 1:h|1:a,3:b|:";
    let item = ["a", "b|:"].map(|it| format!("pmessage __* __subkeyspaceitem@2__:h\n{it} hset"));
    let both = "pmessage __* __subkeyspaceevent@2__:hset|h 1:a,3:b|:";
    let key = ["pmessage __* __keyspace@2__:h hset", "pmessage __* __keyevent@2__:hset h"];
    let all = [key[0], key[1], space, event, &item[0], &item[1], both];
    writer.ok("SELECT 2");
    for (classes, wanted) in [
        ("hSTIV", &all[2..]),
        ("KEASTIV", &all[..]),
        ("hS", &[space]),
        ("hT", &[event]),
        ("hI", &[&item[0], &item[1]]),
        ("hV", &[both]),
        ("KhV", &[key[0], both]),
        ("KEA", &all[..2]),
        ("STIV", &[]),
        ("gSTIV", &[]),
    ] {
        writer.ok(&format!("CONFIG SET notify-keyspace-events {classes}"));
        writer.call(&[b"HSET", b"h", b"a", b"1", b"b|:", b"2"]);
        assert_eq!(messages(&mut listener), wanted, "{classes}");
    }
    writer.ok("CONFIG SET notify-keyspace-events AI");
    writer.call(&[b"HSET", b"a\nb", b"f", b"1"]);
    assert!(messages(&mut listener).is_empty(), "a line break would end the key");
}
