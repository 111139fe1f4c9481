//! Sorted sets: scores compared exactly, small sets and large ones.

use super::{any_case, integer, prove, words};
use crate::support::Random;
use crate::support::beside::{By, Words};

const KEYS: [&str; 6] = ["a", "b", "c", "d", "same", "plain"];

#[test]
fn sorted_sets_reply_as_redis() {
    prove("sorted_sets_reply_as_redis", by, command);
}

fn by(command: &Words) -> By {
    match command[0].as_slice() {
        b"ZSCAN" => By::Elements,
        b"ZRANDMEMBER" if command.len() > 2 => By::Elements,
        _ => By::Bytes,
    }
}

fn command(random: &mut Random) -> Words {
    let key = random.pick(&KEYS);
    // In this one all scores are equal, as ranges of names want it.
    if key == "same" {
        return names(random);
    }
    let line = match random.below(24) {
        0..=4 => return add(random, key),
        5 => format!("ZINCRBY {key} {} {}", score(random), member(random)),
        6 => format!("ZREM {key} {} {}", member(random), member(random)),
        7 => format!("ZSCORE {key} {}", member(random)),
        8 => format!("ZMSCORE {key} {} {}", member(random), member(random)),
        9 => format!("{} {key} {}", random.pick(&["ZRANK", "ZREVRANK"]), member(random)),
        10 => format!("ZCOUNT {key} {} {}", end(random), end(random)),
        11..=13 => range(random, key),
        14 => format!("ZREMRANGEBYRANK {key} {} {}", integer(random, 20), integer(random, 9)),
        15 => format!("ZREMRANGEBYSCORE {key} {} {}", end(random), end(random)),
        16 => pop(random, key),
        17 => format!("ZSCAN {key} 0 COUNT 100000"),
        18 => {
            random.pick(&["ZRANDMEMBER a 100000 WITHSCORES", "ZRANDMEMBER b 0", "ZCARD c"]).into()
        }
        19 => format!("SADD plain {} {}", member(random), member(random)),
        20 => {
            random.pick(&["DEL a", "DEL b", "DEL plain", "SET d text", "OBJECT ENCODING b"]).into()
        }
        _ => return combine(random),
    };
    words(&line)
}

fn member(random: &mut Random) -> String {
    match random.below(20) {
        0 => random.below(5).to_string(),
        1 => "m".repeat(60 + random.below(8)),
        _ => format!("m{}", random.below(60)),
    }
}

fn score(random: &mut Random) -> String {
    match random.below(12) {
        0 => random.pick(&["inf", "-inf", "+INF", "nan", "x", "", "1e400", "0x1p3", " 1"]).into(),
        1 => f64::from_bits(random.next() >> 2).to_string(),
        2 => format!("{}.{}", random.below(100), random.below(1000)),
        3 => random.pick(&["0.1", "1e17", "123456789012345678", "-1e-7", "1e100", "5e-324"]).into(),
        _ => (random.below(20) as i64 - 5).to_string(),
    }
}

fn end(random: &mut Random) -> String {
    let open = random.pick(&["", "", "("]);
    match random.below(8) {
        0 => random.pick(&["-inf", "+inf", "(inf", "(-inf", "", "(", "x", "((1"]).to_owned(),
        1 => "-inf".to_owned(),
        2 => "+inf".to_owned(),
        _ => format!("{open}{}", score(random)),
    }
}

fn add(random: &mut Random, key: &str) -> Words {
    let mut line = format!("ZADD {key}");
    for option in ["NX", "XX", "GT", "LT", "CH", "INCR"] {
        if random.below(12) == 0 {
            line += &format!(" {}", any_case(random, option));
        }
    }
    // Now and then so many that the set is no longer a small one.
    let count = if random.below(20) == 0 { 200 } else { 1 + random.below(4) };
    for _ in 0..count {
        let member = if count == 200 { random.below(1000).to_string() } else { member(random) };
        line += &format!(" {} {member}", score(random));
    }
    words(&line)
}

fn limit(random: &mut Random) -> String {
    match random.below(4) {
        0 => format!(" LIMIT {} {}", integer(random, 10), integer(random, 10)),
        1 => format!(" LIMIT {} {}", random.below(4), random.below(9)),
        _ => String::new(),
    }
}

fn range(random: &mut Random, key: &str) -> String {
    let mut line = match random.below(8) {
        0 => format!("ZRANGE {key} {} {}", integer(random, 20), integer(random, 20)),
        1 => format!("ZREVRANGE {key} {} {}", integer(random, 20), integer(random, 20)),
        2 => format!("ZRANGEBYSCORE {key} {} {}", end(random), end(random)),
        3 => format!("ZREVRANGEBYSCORE {key} {} {}", end(random), end(random)),
        4 => format!("ZRANGE {key} {} {} BYSCORE", end(random), end(random)),
        5 => format!("ZRANGE {key} {} {} BYSCORE REV", end(random), end(random)),
        6 => format!("ZRANGESTORE c {key} {} {} BYSCORE", end(random), end(random)),
        _ => format!("ZRANGESTORE c {key} {} {}", integer(random, 20), integer(random, 20)),
    };
    if random.below(2) == 0 {
        line += &limit(random);
    }
    for option in ["WITHSCORES", "REV"] {
        if random.below(3) == 0 {
            line += &format!(" {}", any_case(random, option));
        }
    }
    line
}

fn pop(random: &mut Random, key: &str) -> String {
    let end = random.pick(&["MIN", "MAX"]);
    match random.below(6) {
        0 => format!("ZPOP{end} {key}"),
        1 => format!("ZPOP{end} {key} {}", integer(random, 5)),
        2 => format!("ZMPOP 2 {key} b {end} COUNT {}", integer(random, 5)),
        3 => format!("ZMPOP {} {key} b {end}", integer(random, 3)),
        // Not without a time: on an empty key it would wait.
        4 => format!("BZPOP{end} {key} c 0.001"),
        _ => format!("BZMPOP 0.001 2 {key} c {end} COUNT {}", random.below(4)),
    }
}

fn combine(random: &mut Random) -> Words {
    let name = random.pick(&["ZUNION", "ZINTER", "ZDIFF", "ZINTERCARD"]);
    let store = name != "ZINTERCARD" && random.below(3) == 0;
    let count = 1 + random.below(3);
    let mut line = if store { format!("{name}STORE c") } else { name.to_owned() };
    line += &match random.below(20) {
        0 => format!(" {}", integer(random, 4)),
        _ => format!(" {count}"),
    };
    for _ in 0..count {
        line += &format!(" {}", random.pick(&["a", "b", "c", "d", "plain", "none"]));
    }
    if random.below(3) == 0 {
        // No product may be -0, which only Redis's large sets keep.
        let weights = ["1", "2", "0.5", "0.1", "3", "inf", "1e100", "x"];
        line += " WEIGHTS";
        for _ in 0..count {
            line += &format!(" {}", random.pick(&weights));
        }
    }
    if random.below(3) == 0 {
        let how = random.pick(&["SUM", "MIN", "MAX", "AVG"]);
        line += &format!(" AGGREGATE {}", any_case(random, how));
    }
    if random.below(3) == 0 {
        line += random.pick(&[" WITHSCORES", " LIMIT 2", " LIMIT -1", " LIMIT 0"]);
    }
    words(&line)
}

fn names(random: &mut Random) -> Words {
    let mut edge = || match random.below(8) {
        0 => random.pick(&["x", "", "+x", "5"]).to_owned(),
        1 => "-".to_owned(),
        2 => "+".to_owned(),
        _ => format!("{}{}", random.pick(&["[", "("]), member(random)),
    };
    let (from, to) = (edge(), edge());
    let line = match random.below(8) {
        0..=2 => {
            let mut line = "ZADD same".to_owned();
            for _ in 0..1 + random.below(20) {
                line += &format!(" 0 {}", member(random));
            }
            line
        }
        3 => format!("ZLEXCOUNT same {from} {to}"),
        4 => format!("ZRANGEBYLEX same {from} {to}{}", limit(random)),
        5 => format!("ZREVRANGEBYLEX same {from} {to}{}", limit(random)),
        6 => format!("ZRANGE same {from} {to} BYLEX{}", limit(random)),
        _ if random.below(4) == 0 => format!("ZREMRANGEBYLEX same {from} {to}"),
        _ => format!("ZRANGE same {from} {to} BYLEX REV WITHSCORES"),
    };
    words(&line)
}
