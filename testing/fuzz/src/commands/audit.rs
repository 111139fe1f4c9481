//! Claims on the data that hold after any requests, checked as a client.
//!
//! - DBSIZE, KEYS and SCAN agree.
//! - The commands of its type read each key, and its length is the number of their elements.
//! - RESTORE takes DUMP's payload of each key and gives the same data.

use stillframe_resp::{Reply, decode_reply};
use stillframe_server::InProcess;

/// Elements after which a list, set, hash or stream is asked for its length only.
const ELEMENTS_MAX: i64 = 10_000;

/// Audits all databases but those whose numbers are in `passed`.
pub(super) fn audit(server: &mut InProcess, passed: impl Fn(usize) -> bool) {
    server.reconnect();
    server.stop_clock();
    let before = server.digest();
    let filled = |(db, keys): (usize, usize)| (keys > 0 && !passed(db)).then_some((db, keys));
    for (db, keys) in server.keys().into_iter().enumerate().filter_map(filled) {
        server.ask(&[b"SELECT", db.to_string().as_bytes()]);
        let names = texts(server.ask(&[b"KEYS", b"*"]));
        assert_eq!(number(server.ask(&[b"DBSIZE"])), keys as i64);
        assert_eq!(names.len(), keys, "database {db}");
        assert_eq!(scanned(server), keys, "database {db}");
        names.iter().for_each(|key| examine(server, key));
    }
    assert_eq!(server.digest(), before, "what was dumped and restored");
}

/// Keys that SCAN gives.
fn scanned(server: &mut InProcess) -> usize {
    let (mut cursor, mut keys) = (b"0".to_vec(), 0);
    loop {
        let reply = server.ask(&[b"SCAN", &cursor, b"COUNT", b"7"]);
        let Ok(Some((Reply::Array(parts), _))) = decode_reply(reply) else {
            panic!("SCAN is answered {}", reply.escape_ascii());
        };
        let [Reply::Bulk(next), Reply::Array(found)] = &parts[..] else { panic!("{parts:?}") };
        keys += found.len();
        if *next == b"0" {
            return keys;
        }
        cursor = next.to_vec();
    }
}

/// Reads a key in every way, and puts it back.
fn examine(server: &mut InProcess, key: &[u8]) {
    let kind = server.ask(&[b"TYPE", key]).to_vec();
    let (length, all, each): (&[u8], &[&[u8]], i64) = match &kind[..] {
        b"+string\r\n" => (b"STRLEN", &[b"GET", key], 1),
        b"+list\r\n" => (b"LLEN", &[b"LRANGE", key, b"0", b"-1"], 1),
        b"+set\r\n" => (b"SCARD", &[b"SMEMBERS", key], 1),
        b"+hash\r\n" => (b"HLEN", &[b"HGETALL", key], 2),
        b"+zset\r\n" => (b"ZCARD", &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"], 2),
        b"+stream\r\n" => (b"XLEN", &[b"XRANGE", key, b"-", b"+"], 1),
        b"+array\r\n" => (b"ARCOUNT", &[b"ARSCAN", key, b"0", b"18446744073709551614"], 1),
        kind => panic!("{} is of type {}", key.escape_ascii(), kind.escape_ascii()),
    };
    let length = number(server.ask(&[length, key]));
    if length <= ELEMENTS_MAX || kind == b"+string\r\n" {
        assert_eq!(length, size(server.ask(all)) / each, "{}", key.escape_ascii());
    }
    let may_be_empty = [&b"+string\r\n"[..], b"+stream\r\n"].contains(&&kind[..]);
    assert!(length > 0 || may_be_empty, "{} holds nothing", key.escape_ascii());
    let at = number(server.ask(&[b"PEXPIRETIME", key])).max(0).to_string();
    let payload = texts(server.ask(&[b"DUMP", key])).swap_remove(0);
    let restore: [&[u8]; 6] = [b"RESTORE", key, at.as_bytes(), &payload, b"REPLACE", b"ABSTTL"];
    let reply = server.ask(&restore);
    assert_eq!(reply, b"+OK\r\n", "{}: {}", key.escape_ascii(), reply.escape_ascii());
}

fn number(reply: &[u8]) -> i64 {
    match decode_reply(reply) {
        Ok(Some((Reply::Integer(number), _))) => number,
        _ => panic!("no number: {}", reply.escape_ascii()),
    }
}

/// Replies of an array, or bytes of a text.
fn size(reply: &[u8]) -> i64 {
    match decode_reply(reply) {
        Ok(Some((Reply::Array(replies), _))) => replies.len() as i64,
        Ok(Some((Reply::Bulk(text), _))) => text.len() as i64,
        _ => panic!("neither an array nor a text: {}", reply.escape_ascii()),
    }
}

/// One text or many.
fn texts(reply: &[u8]) -> Vec<Vec<u8>> {
    let text = |reply: &Reply<'_>| match reply {
        Reply::Bulk(text) => text.to_vec(),
        other => panic!("no text: {other:?}"),
    };
    match decode_reply(reply) {
        Ok(Some((Reply::Array(replies), _))) => replies.iter().map(text).collect(),
        Ok(Some((reply, _))) => vec![text(&reply)],
        other => panic!("no texts: {other:?}"),
    }
}
