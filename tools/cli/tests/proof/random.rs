//! Random command sequences, by seed: the same reply bytes as redis-server, and the same dataset
//! at the end.
//!
//! Few keys, so that commands meet each other's leavings; times far away or long past, so that no
//! reply depends on when it is made. A remaining time is the one thing that may differ a little.

use crate::support::beside::{By, SLACK_MS, Words, compare};
use crate::support::dataset;
use crate::support::{Kind, Random, Reply, Server, now_ms, redis_is_here, rounds};

const KEYS: [&[u8]; 10] =
    [b"a", b"b", b"c", b"n1", b"n2", b"f", b"", b"bin\x00\xff", b"big", b"key:with:a:long:name"];
/// Commands sent at once; a difference is found at the first reply that shows it.
const BATCH: usize = 50;

#[test]
fn random_sequences_reply_as_redis() {
    if !redis_is_here("random_sequences_reply_as_redis") {
        return;
    }
    let mut random = Random::new("random_sequences_reply_as_redis");
    let servers = [Server::start(Kind::Redis), Server::start(Kind::subject("imprint"))];
    for round in 0..rounds(8, 200) {
        // Old and new protocol in turn; two connections, one of which may watch the other's keys.
        let hello = if round % 2 == 0 { "HELLO 2" } else { "HELLO 3" };
        let mut connections = [0, 1].map(|_| {
            servers.each_ref().map(|server| {
                let mut client = server.client();
                client.ok(hello);
                client
            })
        });
        for _ in 0..rounds(30, 60) {
            let clients = &mut connections[random.below(2)];
            let batch: Vec<_> = (0..BATCH).flat_map(|_| command(&mut random)).collect();
            compare(clients, &batch, By::of);
        }
        let datasets = servers.each_ref().map(|server| dataset::read(&mut server.client()));
        dataset::assert_same(&datasets[0], &datasets[1], SLACK_MS);
        // Images in between must not change what is read.
        if let Reply::Error(text) = servers[1].client().ask("BGSAVE") {
            assert!(text.contains("in progress"), "{text}");
        }
    }
}

/// One command, or a few that belong together.
pub(crate) fn command(random: &mut Random) -> Vec<Words> {
    let key = |random: &mut Random| random.pick(&KEYS).to_vec();
    let words = match random.below(16) {
        0..=2 => set(random),
        3 => vec![b"GET".to_vec(), key(random)],
        4 | 5 => number(random),
        6 => part(random),
        7 | 8 => time(random),
        9 => several(random),
        10 => two_keys(random),
        11 => return transaction(random),
        12 => {
            let name =
                random.pick(&["STRLEN", "TYPE", "GETDEL", "EXISTS", "TTL", "PTTL", "PERSIST"]);
            vec![name.as_bytes().to_vec(), key(random)]
        }
        13 => {
            let name = random.pick(&["PEXPIRETIME", "EXPIRETIME", "GETSET", "SETNX"]);
            let mut words = vec![name.as_bytes().to_vec(), key(random)];
            if name.ends_with('T') || name.ends_with('X') {
                words.push(value(random));
            }
            words
        }
        14 => match random.below(12) {
            0 => strings(&["FLUSHDB"]),
            1 => strings(&["FLUSHALL"]),
            2 => strings(&["KEYS", "*"]),
            3..=6 => strings(&["KEYS", random.pick(&["n*", "[abf]", "*i*", "?", "[^a]"])]),
            // DBSIZE counts what has expired until somebody meets it: meet all.
            _ => {
                let mut meet = strings(&["EXISTS"]);
                meet.extend(KEYS.map(<[u8]>::to_vec));
                return vec![meet, strings(&["DBSIZE"])];
            }
        },
        _ => strings(&["SELECT", random.pick(&["0", "1", "15", "16", "x"])]),
    };
    vec![words]
}

fn strings(words: &[&str]) -> Words {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn value(random: &mut Random) -> Vec<u8> {
    match random.below(12) {
        0 => Vec::new(),
        1 => {
            let length = random.below(300);
            random.bytes(length)
        }
        2 => vec![b'x'; random.below(70_000)],
        3 | 4 => integer(random).into_bytes(),
        5 => random.pick(&["1.5", "0.1", "-2.25", "3.0", "1e3", " 1", "01"]).as_bytes().to_vec(),
        _ => format!("value:{}", random.below(1000)).into_bytes(),
    }
}

fn integer(random: &mut Random) -> String {
    match random.below(6) {
        0 => i64::MAX.wrapping_sub(random.below(3) as i64).to_string(),
        1 => i64::MIN.wrapping_add(random.below(3) as i64).to_string(),
        2 => random.pick(&["x", "", "9223372036854775808", "-9223372036854775809"]).to_string(),
        _ => (random.below(2000) as i64 - 1000).to_string(),
    }
}

fn set(random: &mut Random) -> Words {
    let mut words = vec![b"SET".to_vec(), random.pick(&KEYS).to_vec(), value(random)];
    let options = ["NX", "XX", "GET", "KEEPTTL"];
    for option in options {
        if random.below(6) == 0 {
            words.push(option.as_bytes().to_vec());
        }
    }
    if random.below(4) == 0 {
        let (name, amount) = match random.below(5) {
            0 => ("EX", 100_000 + random.below(1000) as i64),
            1 => ("PX", 100_000_000 + random.below(1000) as i64),
            2 => ("EXAT", now_ms() / 1000 + 1_000_000),
            3 => ("PXAT", now_ms() + 1_000_000_000),
            _ => ("EX", random.below(3) as i64 - 2),
        };
        words.extend(strings(&[name, &amount.to_string()]));
    }
    words
}

fn number(random: &mut Random) -> Words {
    let key = random.pick(&KEYS).to_vec();
    match random.below(5) {
        0 => vec![b"INCR".to_vec(), key],
        1 => vec![b"DECR".to_vec(), key],
        2 => vec![b"INCRBY".to_vec(), key, integer(random).into_bytes()],
        3 => vec![b"DECRBY".to_vec(), key, integer(random).into_bytes()],
        _ => {
            let amounts = ["0.5", "0.1", "-1.25", "100", "1e2", "-0.3", "x", "3.0"];
            vec![b"INCRBYFLOAT".to_vec(), key, random.pick(&amounts).as_bytes().to_vec()]
        }
    }
}

fn part(random: &mut Random) -> Words {
    let key = random.pick(&KEYS).to_vec();
    let position = (random.below(40) as i64 - 10).to_string().into_bytes();
    match random.below(3) {
        0 => vec![b"APPEND".to_vec(), key, value(random)],
        1 => vec![b"SETRANGE".to_vec(), key, position, value(random)],
        _ => {
            let end = (random.below(60) as i64 - 20).to_string().into_bytes();
            vec![b"GETRANGE".to_vec(), key, position, end]
        }
    }
}

fn time(random: &mut Random) -> Words {
    let key = random.pick(&KEYS).to_vec();
    let far = random.below(1000) as i64 * 1_000_000 + 100_000_000;
    let (name, amount) = match random.below(6) {
        0 => ("EXPIRE", far / 1000),
        1 => ("PEXPIRE", far),
        2 => ("EXPIREAT", (now_ms() + far) / 1000),
        3 => ("PEXPIREAT", now_ms() + far),
        4 => ("EXPIRE", -1),
        _ => ("PEXPIREAT", random.below(100_000) as i64),
    };
    let mut words = vec![name.as_bytes().to_vec(), key, amount.to_string().into_bytes()];
    // Not GT and LT with relative times: which of two is greater could depend on the moment.
    if random.below(3) == 0 {
        let option = if name.ends_with("AT") { random.pick(&["NX", "XX", "Q"]) } else { "NX" };
        words.push(option.as_bytes().to_vec());
    }
    if random.below(5) == 0 {
        let option = random.pick(&["PERSIST", "KEEPTTL"]).as_bytes().to_vec();
        words = vec![b"GETEX".to_vec(), words.swap_remove(1), option];
    }
    words
}

fn several(random: &mut Random) -> Words {
    let name = random.pick(&["MGET", "MSET", "MSETNX", "DEL", "UNLINK", "EXISTS", "TOUCH"]);
    let mut words = strings(&[name]);
    for _ in 0..1 + random.below(4) {
        words.push(random.pick(&KEYS).to_vec());
        if name.starts_with("MSET") {
            words.push(value(random));
        }
    }
    words
}

fn two_keys(random: &mut Random) -> Words {
    let name = random.pick(&["RENAME", "RENAMENX", "COPY", "COPY"]);
    let mut words = strings(&[name]);
    words.extend([random.pick(&KEYS).to_vec(), random.pick(&KEYS).to_vec()]);
    if name == "COPY" {
        if random.below(2) == 0 {
            words.extend(strings(&["DB", random.pick(&["0", "1", "15", "16"])]));
        }
        if random.below(2) == 0 {
            words.extend(strings(&["REPLACE"]));
        }
    }
    words
}

fn transaction(random: &mut Random) -> Vec<Words> {
    let mut commands = Vec::new();
    if random.below(3) == 0 {
        commands.push(vec![b"WATCH".to_vec(), random.pick(&KEYS).to_vec()]);
    }
    if random.below(3) == 0 {
        commands.push(set(random));
    }
    commands.push(strings(&["MULTI"]));
    for _ in 0..random.below(5) {
        commands.push(match random.below(4) {
            0 => set(random),
            1 => number(random),
            2 => several(random),
            _ => strings(&["GET", random.pick(&["a", "b", "n1"])]),
        });
    }
    if random.below(10) == 0 {
        commands.push(strings(&["NOSUCH"]));
    }
    commands.push(strings(&[if random.below(6) == 0 { "DISCARD" } else { "EXEC" }]));
    commands
}
