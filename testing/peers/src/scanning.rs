//! SCAN and its kin over changing data: each walk ends and misses nothing that stays.

use std::collections::HashSet;

use crate::Random;
use crate::reply::{Reply, decode};
use crate::transcript::Stage;

/// Keys, or elements, that are there all the time.
const BASE: usize = 600;
/// Calls that a walk takes at most, however much is added: Redis's guarantee is that of a geometric
/// series, ours that of what was there at first.
const CALLS_MAX: usize = 5_000;

/// A connection to the server that scans.
struct Client<'a, S>(&'a mut S);

impl<S: Stage> Client<'_, S> {
    fn call(&mut self, args: &[&[u8]]) -> Reply {
        self.0.send('a', args);
        let reply = self.0.receive('a').expect("the connection is open");
        decode(&reply).expect("a whole reply").0
    }

    fn ask(&mut self, line: &str) -> Reply {
        self.call(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    fn ok(&mut self, line: &str) {
        let reply = self.ask(line);
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    }

    /// Replaces the value of a key, in one of several ways.
    fn replace(&mut self, random: &mut Random, key: &str) {
        let line = match random.below(12) {
            0 => format!("SUNIONSTORE {key} source:set"),
            1 => format!("ZRANGESTORE {key} source:zset 0 -1"),
            2 => format!("ZUNIONSTORE {key} 1 source:zset"),
            3 => format!("SORT source:list STORE {key}"),
            4 => format!("COPY source:list {key} REPLACE"),
            5 => format!("SET {key} v"),
            6 => format!("BITOP NOT {key} source:string"),
            7 => {
                self.ok(&format!("COPY source:set {key}:new"));
                format!("RENAME {key}:new {key}")
            }
            8 => format!("SDIFFSTORE {key} source:set none"),
            9 => format!("SETEX {key} 1000 {}", "long".repeat(100)),
            10 => format!("GEOSEARCHSTORE {key} source:geo FROMLONLAT 1 1 BYRADIUS 9 km"),
            _ => {
                let payload = self.call(&[b"DUMP", b"source:zset"]);
                let payload = payload.bytes().expect("a payload").to_vec();
                self.call(&[b"RESTORE", key.as_bytes(), b"0", &payload, b"REPLACE"]);
                return;
            }
        };
        self.ok(&line);
    }

    /// Walks to the end and calls `change` after each call. Returns the keys or elements met.
    fn walk(&mut self, head: &str, mut change: impl FnMut(&mut Self, usize)) -> HashSet<String> {
        let (mut cursor, mut seen) = ("0".to_owned(), HashSet::new());
        for call in 0..CALLS_MAX {
            let reply = self.ask(&format!("{head} {cursor} COUNT 20"));
            let [next, names] = reply.list() else { panic!("{head}: {reply:?}") };
            seen.extend(names.list().iter().map(Reply::text));
            cursor = next.text();
            let number: u64 = cursor.parse().expect("a number");
            assert!(number < 1 << 53, "some clients read it as a double: {number}");
            if cursor == "0" {
                return seen;
            }
            change(self, call);
        }
        panic!("{head} comes to no end while more is added than it walks over");
    }
}

/// A scan of an empty data set misses nothing that is added before it, and ends, while keys and
/// elements are added and replaced.
pub fn misses_nothing_and_ends(stage: &mut impl Stage, random: &mut Random) {
    let mut client = Client(stage);
    for line in [
        "SADD source:set a b c",
        "ZADD source:zset 1 a 2 b",
        "RPUSH source:list 2 1",
        "SET source:string abc",
        "GEOADD source:geo 1 1 m",
    ] {
        client.ok(line);
    }
    (0..BASE).for_each(|number| client.ok(&format!("SADD base:{number} m")));
    let seen = client.walk("SCAN", |client, call| {
        let mut add: Vec<Vec<u8>> = vec![b"MSET".to_vec()];
        for number in 0..50 {
            add.extend([format!("new:{call}:{number}").into_bytes(), b"v".to_vec()]);
        }
        client.call(&add.iter().map(Vec::as_slice).collect::<Vec<_>>());
        for _ in 0..10 {
            let key = format!("base:{}", random.below(BASE));
            client.replace(random, &key);
            client.ask(&format!("DEL new:{}:{}", random.below(call + 1), random.below(50)));
        }
    });
    for number in 0..BASE {
        assert!(seen.contains(&format!("base:{number}")), "SCAN misses base:{number}");
    }
    for (add, head) in [("HSET k", "HSCAN k"), ("SADD k", "SSCAN k"), ("ZADD k 1", "ZSCAN k")] {
        let tail = if add == "HSET k" { " v" } else { "" };
        client.ask("DEL k");
        (0..BASE).for_each(|number| client.ok(&format!("{add} base:{number}{tail}")));
        let seen = client.walk(head, |client, call| {
            for number in 0..30 {
                client.ok(&format!("{add} new:{call}:{number}{tail}"));
            }
        });
        for number in 0..BASE {
            assert!(seen.contains(&format!("base:{number}")), "{head} misses base:{number}");
        }
    }
}
