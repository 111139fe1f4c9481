//! Hashes with fields that expire, beside Redis 8.10: no deadline comes while the test runs.

use stillframe_peers::{Peer, are_here};

use super::{any_case, integer, prove_beside, words};
use crate::collections::debugged;
use crate::support::beside::{By, Words};
use crate::support::{Kind, Random};

const KEYS: [&str; 5] = ["a", "b", "c", "d", "text"];

#[test]
fn fields_expire_as_in_redis_8_10() {
    let test = "fields_expire_as_in_redis_8_10";
    if are_here(test, &[Peer::Redis810]) {
        let theirs = debugged(Kind::Newer(Peer::Redis810), None, "");
        prove_beside(test, theirs, By::from_words, command);
    }
}

fn command(random: &mut Random) -> Words {
    let key = random.pick(&KEYS);
    let line = match random.below(30) {
        0..3 => format!("HSET {key} {}", pairs(random)),
        3 => format!("HMSET {key} {}", pairs(random)),
        4 => format!("HDEL {key} {} {}", field(random), field(random)),
        5 => format!("HSETNX {key} {} {}", field(random), value(random)),
        6 => format!("HINCRBY {key} {} {}", field(random), integer(random, 20)),
        7 => format!("HINCRBYFLOAT {key} {} 0.5", field(random)),
        8 => format!("HGETDEL {key} {}", fields(random)),
        9..14 => {
            let (name, time) = time(random);
            let condition = random.pick(&["", "", "", " NX", " XX", " GT", " LT", " BAD"]);
            let fields = fields(random);
            let rest = in_some_order(random, &[condition, &format!(" {fields}")]);
            format!("{name} {key} {time}{rest}")
        }
        14 | 15 => format!("HPERSIST {key} {}", fields(random)),
        16..19 => {
            format!("{} {key} {}", random.pick(&["HEXPIRETIME", "HPEXPIRETIME"]), fields(random))
        }
        19 | 20 => {
            let (option, fields) = (option(random, "PERSIST"), format!(" {}", fields(random)));
            format!("HGETEX {key}{}", in_some_order(random, &[&option, &fields]))
        }
        21..24 => {
            let condition = random.pick(&["", "", " FNX", " FXX"]);
            let count = if random.below(12) == 0 { 3 } else { 2 };
            let (option, pairs) = (option(random, "KEEPTTL"), pairs(random));
            let pairs = format!(" FIELDS {count} {pairs}");
            format!("HSETEX {key}{}", in_some_order(random, &[condition, &option, &pairs]))
        }
        24 => format!("{} {key}", random.pick(&["HGETALL", "HKEYS", "HVALS", "HLEN", "TYPE"])),
        25 => format!("HMGET {key} {} {}", field(random), field(random)),
        26 => format!("HSCAN {key} 0 COUNT 100000{}", random.pick(&["", " NOVALUES"])),
        27 => format!("DEBUG DIGEST-VALUE {key}"),
        28 => format!("{} {} {}", random.pick(&["COPY", "RENAME"]), random.pick(&KEYS[..4]), key),
        _ => random.pick(&["DEL a", "DEL b", "DEL c", "SET text v", "EXISTS d"]).to_owned(),
    };
    words(&line)
}

/// Parts of a request in their order, or turned round.
fn in_some_order(random: &mut Random, parts: &[&str]) -> String {
    let mut parts = parts.to_vec();
    if random.below(3) == 0 {
        parts.reverse();
    }
    parts.concat()
}

fn field(random: &mut Random) -> String {
    format!("m{}", random.below(12))
}

fn value(random: &mut Random) -> String {
    match random.below(8) {
        0 => "text".to_owned(),
        1 => "x".repeat(100),
        _ => random.below(1000).to_string(),
    }
}

/// Two fields with values.
fn pairs(random: &mut Random) -> String {
    format!("{} {} {} {}", field(random), value(random), field(random), value(random))
}

/// Some fields behind their number, which is wrong now and then.
fn fields(random: &mut Random) -> String {
    let count = 1 + random.below(4);
    let names: Vec<String> = (0..count).map(|_| field(random)).collect();
    let told = if random.below(20) == 0 { random.below(6) } else { count };
    format!("{} {told} {}", any_case(random, "FIELDS"), names.join(" "))
}

/// A command that sets deadlines, and a time: past, far, or none.
fn time(random: &mut Random) -> (String, String) {
    let (name, time) = match random.below(8) {
        0 => ("HEXPIRE", random.pick(&["0", "-1", "x", "70368744178"])),
        1 => ("HPEXPIRE", random.pick(&["0", "-1", "", "70368744177664"])),
        2 | 3 => ("HEXPIREAT", random.pick(&["4102444800", "4102444801", "1", "70368744178"])),
        _ => ("HPEXPIREAT", random.pick(&["4102444800001", "4102444800999", "4102444802000", "1"])),
    };
    (any_case(random, name), time.to_owned())
}

/// An option of HGETEX or HSETEX.
fn option(random: &mut Random, own: &str) -> String {
    match random.below(8) {
        0..2 => format!(" {}", any_case(random, own)),
        2 => " EXAT 4102444800".to_owned(),
        3 => format!(" PXAT {}", random.pick(&["4102444800007", "1", "x"])),
        4 => format!(" EX {}", random.pick(&["0", "-1", "x"])),
        _ => String::new(),
    }
}
