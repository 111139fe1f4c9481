//! Places: the same text, digit for digit, in the same order.

use super::{prove, words};
use crate::support::Random;
use crate::support::beside::{By, Words};

const KEYS: [&str; 2] = ["world", "town"];

#[test]
fn places_reply_as_redis() {
    prove("places_reply_as_redis", |_| By::Bytes, command);
}

fn command(random: &mut Random) -> Words {
    let key = random.pick(&KEYS);
    let line = match random.below(16) {
        0..=4 => add(random, key),
        5 => format!("GEODIST {key} {} {} {}", name(random), name(random), unit(random)),
        6 => format!("GEODIST {key} {} {}", name(random), name(random)),
        7 => format!("GEOHASH {key} {} {}", name(random), name(random)),
        8 => format!("GEOPOS {key} {} {}", name(random), name(random)),
        9 => format!("ZRANGE {} 0 -1 WITHSCORES", random.pick(&["world", "town", "found"])),
        10 => match random.below(12) {
            0 => format!("DEL {key}"),
            1 => "SET town text".to_owned(),
            2 => format!("ZADD {key} {} odd", random.pick(&["-5", "1e18", "inf", "-inf", "1e30"])),
            _ => format!("ZREM {key} odd {}", name(random)),
        },
        11..=13 => search(random, key),
        _ => radius(random, key),
    };
    words(&line)
}

fn name(random: &mut Random) -> String {
    format!("p{}", random.below(150))
}

fn unit(random: &mut Random) -> &'static str {
    random.pick(&["m", "km", "KM", "ft", "mi", "m", "km", "yd"])
}

fn place(random: &mut Random, key: &str) -> String {
    let mut within = |from: f64, to: f64| {
        from + (to - from) * (random.below(1 << 30) as f64 / f64::from(1 << 30))
    };
    if key == "town" {
        return format!("{} {}", within(13.0, 13.6), within(52.3, 52.7));
    }
    let (longitude, latitude) = (within(-180.0, 180.0), within(-85.05, 85.05));
    match random.below(30) {
        0 => random.pick(&["180 85.05112878", "-180 -85.05112878", "0 0", "180 0"]).to_owned(),
        1 => random.pick(&["181 0", "0 86", "x 1", "1 x", "inf 1", "-179.99 84"]).to_owned(),
        _ => format!("{longitude} {latitude}"),
    }
}

fn add(random: &mut Random, key: &str) -> String {
    let mut line = format!("GEOADD {key}");
    for option in ["NX", "XX", "CH"] {
        if random.below(8) == 0 {
            line += &format!(" {option}");
        }
    }
    for _ in 0..1 + random.below(12) {
        let place = place(random, key);
        // Two at the very same place could come in either order.
        let name = match place.strip_prefix(['0', '1', '-']) {
            Some(rest) if rest.len() < 18 => format!("at:{}", place.replace(' ', ",")),
            _ => name(random),
        };
        line += &format!(" {place} {name}");
    }
    line
}

fn length(random: &mut Random) -> String {
    match random.below(16) {
        0 => random.pick(&["0", "-1", "x", "1e9"]).to_owned(),
        1..=3 => random.below(20_000_000).to_string(),
        4..=7 => random.below(50_000).to_string(),
        _ => random.below(5_000).to_string(),
    }
}

fn options(random: &mut Random) -> String {
    let mut line = String::new();
    let any = random.below(8) == 0;
    for option in ["WITHDIST", "WITHHASH", "WITHCOORD", "ASC", "DESC"] {
        if random.below(4) == 0 {
            line += &format!(" {option}");
        }
    }
    if any || random.below(4) == 0 {
        line += &format!(" COUNT {}", random.below(9));
    }
    if any {
        line += " ANY";
    }
    line
}

fn search(random: &mut Random, key: &str) -> String {
    let store = random.below(4) == 0;
    let mut line = match store {
        true => format!("GEOSEARCHSTORE found {key}"),
        false => format!("GEOSEARCH {key}"),
    };
    line += &match random.below(3) {
        0 => format!(" FROMMEMBER {}", name(random)),
        _ => format!(" FROMLONLAT {}", place(random, key)),
    };
    line += &match random.below(3) {
        0 => format!(" BYBOX {} {} {}", length(random), length(random), unit(random)),
        _ => format!(" BYRADIUS {} {}", length(random), unit(random)),
    };
    if store && random.below(3) > 0 {
        return line + random.pick(&["", " STOREDIST", " COUNT 3", " STOREDIST ASC"]);
    }
    line + &options(random)
}

fn radius(random: &mut Random, key: &str) -> String {
    let ro = random.pick(&["", "", "_RO"]);
    let mut line = match random.below(2) {
        0 => format!("GEORADIUS{ro} {key} {}", place(random, key)),
        _ => format!("GEORADIUSBYMEMBER{ro} {key} {}", name(random)),
    };
    line += &format!(" {} {}", length(random), unit(random));
    match random.below(4) {
        0 => line + random.pick(&[" STORE found", " STOREDIST found", " STORE found ASC COUNT 2"]),
        _ => line + &options(random),
    }
}
