//! `maxmemory` against requests made to take much memory at once.

use super::{Asks, assert_bounded, before_a_witness, server_with};
use crate::requests::resident;
use crate::support::{Client, Random, Reply, Server, rounds};

const POLICIES: [&str; 8] = [
    "noeviction",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
];
/// `maxmemory`.
const LIMIT: u64 = 32 << 20;
/// `proto-max-bulk-len`: what one request may grow a text to.
const TEXT: u64 = 8 << 20;

fn limited(policy: &str) -> Server {
    server_with(&[
        ("maxmemory", &LIMIT.to_string()),
        ("maxmemory-policy", policy),
        ("proto-max-bulk-len", &TEXT.to_string()),
    ])
}

/// What may come back: done, or a clear refusal.
fn is_clear(reply: &Reply) -> bool {
    match reply {
        Reply::Error(text) => [
            "OOM command not allowed when used memory > 'maxmemory'.",
            "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            "ERR bit offset is not an integer or out of range",
            "ERR source and destination objects are the same",
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ]
        .contains(&&**text),
        _ => true,
    }
}

fn greedy(random: &mut Random, number: usize) -> Vec<Vec<u8>> {
    let key = format!("key:{}", random.below(200));
    let end = TEXT - 1 - random.below(1000) as u64;
    let line = match random.below(14) {
        0 | 1 => format!("SETRANGE {key} {end} x"),
        2 => "SETRANGE far 536870911 x".to_owned(),
        3 => format!("SETBIT {key} {} 1", end * 8),
        4 => "SETBIT far 4294967295 1".to_owned(),
        5 => format!("BITFIELD {key} SET u8 {} 1", (end - 1) * 8),
        6 => "BITFIELD far SET u8 4294967290 1".to_owned(),
        7 => format!("BITOP NOT key:{} {key}", random.below(200)),
        8 => format!("COPY {key} key:{} REPLACE", random.below(200)),
        9 => format!("LCS {key} key:{}", random.below(200)),
        10 => format!("EXPIRE {key} {}", 1000 + random.below(1000)),
        11 => format!("PFADD {key} {number}"),
        _ => {
            let text = vec![b'a'; 1 << 20];
            return vec![b"APPEND".to_vec(), key.into_bytes(), text];
        }
    };
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// The largest texts that are allowed, again and again: memory stays near the limit under each
/// policy.
#[test]
fn the_greediest_requests_stay_near_the_limit() {
    let mut random = Random::new("the_greediest_requests_stay_near_the_limit");
    for policy in POLICIES {
        let server = limited(policy);
        let before = resident(&server);
        before_a_witness(&server, Asks::Nothing, || {
            let mut client = server.client();
            for number in 0..rounds(150, 5_000) {
                let words = greedy(&mut random, number);
                let reply = client.call(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
                // PFADD of a text that is no sketch, or no sketch any more.
                let no_sketch = matches!(
                    &reply,
                    Reply::Error(text)
                        if text.starts_with("WRONGTYPE") || text.starts_with("INVALIDOBJ")
                );
                let shown = String::from_utf8_lossy(&words[0]).into_owned();
                assert!(is_clear(&reply) || no_sketch, "{policy}: {shown}: {reply:?}");
                if number % 10 == 0 {
                    // A request begins below the limit and may add one text.
                    assert_bounded(&server, before, LIMIT + 2 * TEXT);
                }
            }
            let counted = client.info_int("mem_counted_for_evict") as u64;
            assert!(counted < LIMIT + 2 * TEXT, "{policy}: {counted}");
        });
    }
}

/// Without a limit of memory, each text still has its own: 512 MB by default, which a
/// long run goes up to.
#[test]
fn texts_end_at_their_own_limit() {
    let text = rounds(8, 512) << 20;
    let server = server_with(&[("proto-max-bulk-len", &text.to_string())]);
    let before = resident(&server);
    before_a_witness(&server, Asks::Everything, || {
        let mut client = server.client();
        let piece = vec![b'a'; 1 << 20];
        let mut refused = 0;
        for _ in 0..3 * text / piece.len() {
            let reply = client.call(&[b"APPEND", b"k", &piece]);
            refused += usize::from(matches!(&reply, Reply::Error(it) if it.contains("exceeds")));
        }
        assert_eq!(refused, 2 * text / piece.len());
        assert_eq!(client.ask("STRLEN k").int() as usize, text);
        let bits = 8 * text;
        for line in [
            &format!("SETRANGE k {text} x"),
            "SETRANGE k 9223372036854775807 x",
            &format!("SETBIT k {bits} 1"),
            &format!("BITFIELD k SET u8 {bits} 1"),
            &format!("BITFIELD k INCRBY u8 #{text} 1"),
            "LCS k k",
            "LCS k k IDX",
            "LCS k k LEN",
        ] {
            let reply = client.ask(line);
            assert!(matches!(reply, Reply::Error(_)) && is_clear(&reply), "{line}: {reply:?}");
        }
        assert_bounded(&server, before, 3 * text as u64);
    });
}

/// Results that are gathered from much data, at the limit: refused, or done within bounds.
#[test]
fn large_results_at_the_limit_are_refused_clearly() {
    let server = server_with(&[("maxmemory", "24mb"), ("maxmemory-policy", "noeviction")]);
    let mut client = server.client();
    fill(&mut client, 40_000);
    let before = resident(&server);
    before_a_witness(&server, Asks::Nothing, || {
        let mut refused = 0;
        for round in 0..rounds(12, 200) {
            for line in [
                format!("ZUNIONSTORE union:{round} 2 sorted set"),
                format!("SUNIONSTORE sets:{round} set set2"),
                format!("SORT list BY nosort STORE sorted:{round}"),
                format!("GEOSEARCHSTORE geo:{round} geo FROMLONLAT 0 0 BYRADIUS 20000 km"),
                format!("PFMERGE sketch:{round} sketch"),
                "KEYS *".to_owned(),
                "SORT list".to_owned(),
                "HGETALL hash".to_owned(),
                "SUNION set set2".to_owned(),
                "ZUNION 2 sorted set".to_owned(),
            ] {
                if let Reply::Error(text) = client.ask(&line) {
                    assert!(text.starts_with("OOM command not allowed"), "{line}: {text}");
                    refused += 1;
                }
            }
            assert_bounded(&server, before, 48 << 20);
        }
        assert!(refused > 0, "the limit was never reached");
        // The data can still be read, and deleted.
        assert_eq!(client.ask("SCARD set").int(), 40_000);
        client.ok("FLUSHALL");
        client.ok("SET k v");
    });
}

/// Collections of so many elements each.
fn fill(client: &mut Client, count: usize) {
    for start in (0..count).step_by(1000) {
        let numbers: Vec<String> = (start..start + 1000).map(|n| n.to_string()).collect();
        let mut add = |name: &str, key: &str, width: usize| {
            let mut words = vec![name.as_bytes(), key.as_bytes()];
            for number in &numbers {
                match name {
                    "GEOADD" => words.extend([b"1.5", b"2.5", number.as_bytes()]),
                    _ => (0..width).for_each(|_| words.push(number.as_bytes())),
                }
            }
            assert!(!matches!(client.call(&words), Reply::Error(_)), "{name}");
        };
        add("SADD", "set", 1);
        add("RPUSH", "list", 1);
        add("HSET", "hash", 2);
        add("ZADD", "sorted", 2);
        add("GEOADD", "geo", 1);
        add("PFADD", "sketch", 1);
    }
    client.ok("SADD set2 x y z");
}
