//! Lists, hashes and sets.
//!
//! Few keys, so that types, encodings and empty collections meet each other. Where Redis promises
//! no order, replies are compared without one; where chance decides, only by their length.

use super::prove;
use crate::support::Random;
use crate::support::beside::{By, Words};

const KEYS: [&str; 6] = ["a", "b", "c", "d", "big", "other"];

#[test]
fn random_commands_on_collections_reply_as_redis() {
    prove("random_commands_on_collections_reply_as_redis", By::of, command);
}

fn element(random: &mut Random) -> Vec<u8> {
    match random.below(12) {
        0 => Vec::new(),
        1 => {
            let length = random.below(100);
            random.bytes(length)
        }
        2 => vec![b'x'; 60 + random.below(10)],
        3..6 => format!("text {}", random.below(20)).into_bytes(),
        6 if random.below(8) == 0 => vec![b'y'; random.below(6000)],
        7 => random.pick(&["1.5", "-0", "01", "9223372036854775807"]).as_bytes().to_vec(),
        _ => random.below(30).to_string().into_bytes(),
    }
}

fn number(random: &mut Random) -> String {
    match random.below(10) {
        0 => random.pick(&["x", "", "9223372036854775807", "-9223372036854775808"]).to_owned(),
        _ => (random.below(24) as i64 - 8).to_string(),
    }
}

/// A command from a line in which `K` stands for a key, `E` for an element, `N` for a number and
/// `+` for up to three more of what was before it, now and then many.
fn command(random: &mut Random) -> Words {
    let line = match random.below(10) {
        0..4 => random.pick(&LISTS),
        4..7 => random.pick(&HASHES),
        7..9 => random.pick(&SETS),
        _ => random.pick(&GENERIC),
    };
    let mut words = Words::new();
    let mut unit = Vec::new();
    for word in line.split(' ') {
        if word == "+" {
            let times = if random.below(25) == 0 { 150 } else { random.below(4) };
            for _ in 0..times {
                words.extend(unit.iter().map(|&word| fill(random, word)));
            }
            continue;
        }
        if !matches!(word, "E" | "K") || unit.last().is_none_or(|&last| last != word) {
            unit.clear();
        }
        unit.push(word);
        words.push(fill(random, word));
    }
    words
}

fn fill(random: &mut Random, word: &str) -> Vec<u8> {
    match word {
        "K" => random.pick(&KEYS).as_bytes().to_vec(),
        "E" => element(random),
        "N" => number(random).into_bytes(),
        "LR" => random.pick(&["LEFT", "RIGHT"]).as_bytes().to_vec(),
        word => word.as_bytes().to_vec(),
    }
}

const LISTS: [&str; 30] = [
    "RPUSH K E +",
    "RPUSH K E +",
    "LPUSH K E +",
    "LPUSH K E +",
    "RPUSHX K E +",
    "LPUSHX K E",
    "LPOP K",
    "RPOP K",
    "LPOP K N",
    "RPOP K N",
    "LLEN K",
    "LINDEX K N",
    "LSET K N E",
    "LINSERT K BEFORE E E",
    "LINSERT K AFTER E E",
    "LRANGE K 0 -1",
    "LRANGE K N N",
    "LREM K N E",
    "LREM K 0 E",
    "LTRIM K N N",
    "LTRIM K 0 100",
    "LPOS K E",
    "LPOS K E RANK N COUNT N",
    "LPOS K E COUNT 0 MAXLEN N",
    "LMOVE K K LR LR",
    "RPOPLPUSH K K",
    "LMPOP 2 K K LR COUNT N",
    "LMPOP 1 K LR",
    "BLPOP K K 0.001",
    "BLMOVE K K LR LR 0.001",
];

const HASHES: [&str; 24] = [
    "HSET K E E +",
    "HSET K E E E E +",
    "HSET K E E E E E E",
    "HMSET K E E",
    "HSETNX K E E",
    "HGET K E",
    "HMGET K E E +",
    "HGETALL K",
    "HGETALL K",
    "HDEL K E +",
    "HDEL K E E E",
    "HEXISTS K E",
    "HLEN K",
    "HSTRLEN K E",
    "HKEYS K",
    "HVALS K",
    "HINCRBY K E N",
    "HINCRBY K n N",
    "HINCRBYFLOAT K E 0.5",
    "HINCRBYFLOAT K f 1e2",
    "HRANDFIELD K",
    "HRANDFIELD K N",
    "HRANDFIELD K N WITHVALUES",
    "HSCAN K 0 COUNT 100000",
];

const SETS: [&str; 24] = [
    "SADD K E +",
    "SADD K E +",
    "SADD K 1 2 3 4 5",
    "SREM K E +",
    "SREM K E E E",
    "SMEMBERS K",
    "SMEMBERS K",
    "SISMEMBER K E",
    "SMISMEMBER K E E +",
    "SCARD K",
    "SPOP K 100000",
    "SRANDMEMBER K",
    "SRANDMEMBER K N",
    "SMOVE K K E",
    "SINTER K K +",
    "SUNION K K +",
    "SDIFF K K +",
    "SINTERSTORE K K K",
    "SUNIONSTORE K K K +",
    "SDIFFSTORE K K K",
    "SINTERCARD 2 K K LIMIT N",
    "SSCAN K 0 COUNT 100000 MATCH *1*",
    "SSCAN K 0 COUNT 100000",
    "SDIFF K K",
];

const GENERIC: [&str; 28] = [
    "TYPE K",
    "OBJECT ENCODING K",
    "DEL K K",
    "DEL K",
    "UNLINK K",
    "EXISTS K K",
    "RENAME K K",
    "RENAMENX K K",
    "COPY K K REPLACE",
    "COPY K K",
    "EXPIRE K 100000",
    "PERSIST K",
    "EXPIRE K -1",
    "SET K E",
    "GET K",
    "MGET K K",
    "APPEND K E",
    "INCR K",
    "GETDEL K",
    "GETSET K E",
    "SETRANGE K 3 E",
    "STRLEN K",
    "SORT K",
    "SORT K ALPHA DESC",
    "SORT K ALPHA LIMIT N N STORE K",
    "SORT K BY nosort STORE K",
    "SORT K BY w*->n GET # STORE K",
    "LCS K K LEN",
];
