//! Bits and sketches: both are strings, and both must be the same strings.

use super::{any_case, integer, prove, words};
use crate::support::Random;
use crate::support::beside::{By, Words};

const KEYS: [&str; 5] = ["a", "b", "c", "n", "list"];
const SKETCHES: [&str; 5] = ["p", "q", "r", "s", "a"];

#[test]
fn bit_operations_reply_as_redis() {
    prove("bit_operations_reply_as_redis", |_| By::Bytes, bits);
}

#[test]
fn sketches_are_those_of_redis() {
    prove("sketches_are_those_of_redis", |_| By::Bytes, sketch);
}

fn bits(random: &mut Random) -> Words {
    let key = random.pick(&KEYS);
    match random.below(14) {
        0 => vec![b"SET".to_vec(), key.into(), value(random)],
        1 => words(&format!("GET {key}")),
        2 => words(&format!("SETBIT {key} {} {}", integer(random, 200), random.below(3))),
        3 => words(&format!("SETBIT {key} {} {}", random.below(3000), random.below(2))),
        4 => words(&format!("GETBIT {key} {}", integer(random, 300))),
        5 | 6 => words(&format!("BITCOUNT {key}{}", range(random))),
        7 | 8 => words(&format!("BITPOS {key} {}{}", integer(random, 2), range(random))),
        9 => words(&format!("BITPOS {key} {}{}", random.below(2), range(random))),
        10 => bitop(random),
        11 => words(&format!("DEL {key}")),
        _ => bitfield(random),
    }
}

fn value(random: &mut Random) -> Vec<u8> {
    let length = random.below(40);
    match random.below(5) {
        0 => vec![0xff; length],
        1 => vec![0; length],
        2 => integer(random, 100_000).into(),
        _ => random.bytes(length),
    }
}

fn range(random: &mut Random) -> String {
    let mut text = String::new();
    let bound = random.pick(&[3, 30, 300]);
    for _ in 0..random.below(4).min(2) {
        text += &format!(" {}", integer(random, bound));
    }
    if random.below(2) == 0 {
        text += " ";
        text += &any_case(random, ["BIT", "BYTE", "BIT", "BYTE", "BITE"][bound % 5]);
    }
    text
}

fn bitop(random: &mut Random) -> Words {
    let name = random.pick(&["AND", "OR", "XOR", "NOT", "NAND"]);
    let mut line = format!("BITOP {} {}", any_case(random, name), random.pick(&KEYS));
    for _ in 0..1 + random.below(if name == "NOT" { 2 } else { 4 }) {
        line += &format!(" {}", random.pick(&KEYS));
    }
    words(&line)
}

fn bitfield(random: &mut Random) -> Words {
    let name = random.pick(&["BITFIELD", "BITFIELD", "BITFIELD", "BITFIELD_RO"]);
    let mut line = format!("{name} {}", random.pick(&KEYS));
    for _ in 0..random.below(5) {
        let kind = match random.below(20) {
            0 => random.pick(&["u64", "i65", "i0", "u", "x8", "I8", "u-1", "u08"]).to_owned(),
            1..5 => random.pick(&["i64", "u63", "i1", "u1"]).to_owned(),
            _ => format!("{}{}", random.pick(&["i", "u"]), 1 + random.below(63)),
        };
        let hash = random.pick(&["", "", "#"]);
        let offset = match random.below(20) {
            0 => integer(random, 20),
            _ => random.below(120).to_string(),
        };
        let place = format!("{kind} {hash}{offset}");
        let amount = match random.below(3) {
            0 => integer(random, 300),
            1 => (random.next() as i64).to_string(),
            _ => (random.next() as i64 >> random.below(63)).to_string(),
        };
        if random.below(3) == 0 {
            let how = random.pick(&["WRAP", "SAT", "FAIL", "FAIL", "SAT", "WRAP", "OTHER"]);
            line += &format!(" OVERFLOW {}", any_case(random, how));
        }
        line += &match if name == "BITFIELD_RO" { random.below(9) } else { random.below(31) } {
            0..=7 => format!(" GET {place}"),
            8..=18 => format!(" SET {place} {amount}"),
            19..=29 => format!(" INCRBY {place} {amount}"),
            _ => format!(" INCRBY {place}"),
        };
    }
    words(&line)
}

fn sketch(random: &mut Random) -> Words {
    let key = random.pick(&SKETCHES);
    match random.below(16) {
        0..=4 => {
            let mut command = words(&format!("PFADD {key}"));
            for _ in 0..random.below(8) {
                command.push(random.below(50_000).to_string().into());
            }
            command
        }
        // Enough to become dense.
        5 if random.below(4) == 0 => {
            let mut command = words(&format!("PFADD {key}"));
            let length = 1 + random.below(30);
            command.extend((0..random.below(4000)).map(|_| random.bytes(length)));
            command
        }
        5..=7 => words(&format!("GET {key}")),
        8 | 9 => words(&format!("PFCOUNT {key}")),
        10 | 11 => several(random, "PFCOUNT"),
        12 | 13 => several(random, "PFMERGE"),
        14 => words(&format!("DEL {key}")),
        _ => match random.below(3) {
            0 => damage(random),
            // One element: of several, Redis keeps those before the one that meets the damage.
            1 => words(&format!("PFADD d {}", random.below(50_000))),
            _ => words("PFCOUNT d"),
        },
    }
}

fn several(random: &mut Random, name: &str) -> Words {
    let mut line = name.to_owned();
    for _ in 0..1 + random.below(4) {
        let damaged = random.below(30) == 0;
        line += &format!(" {}", if damaged { "d" } else { random.pick(&SKETCHES) });
    }
    words(&line)
}

/// Strings that are no sketches, and sketches whose registers are wrong.
fn damage(random: &mut Random) -> Words {
    let mut value = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80".to_vec();
    match random.below(8) {
        0 => value[4] = 2,
        1 => value[4] = 0,
        2 => value.truncate(15),
        3 => value.extend([0x7f, 0xfe]),
        4 => value.extend([0x7f, 0xff, 0x80]),
        5 => value.extend([0x7f, 0xfe, 0x80]),
        6 => value = b"12".to_vec(),
        _ => {}
    }
    vec![b"SET".to_vec(), b"d".to_vec(), value]
}
