//! Lists, sets, hashes and sorted sets between Stillframe and Redis: files and payloads go both
//! ways, and `DEBUG DIGEST` gives the same for all that both hold.

use crate::files::check_dump;
use crate::support::{
    ALGORITHMS, Client, Kind, Random, Reply, Server, Setup, now_ms, redis_is_here, rounds,
};
use std::fs;
use std::path::Path;

/// Limits of Redis's packed layouts: its own, such that all collections are packed, and none.
const LIMITS: [&str; 3] = [
    "",
    "--hash-max-listpack-entries 100000 --hash-max-listpack-value 100000 \
     --zset-max-listpack-entries 100000 --zset-max-listpack-value 100000 \
     --set-max-intset-entries 100000 --list-max-listpack-size -5 --list-compress-depth 1",
    "--hash-max-listpack-entries 0 --zset-max-listpack-entries 0 --set-max-intset-entries 0 \
     --list-max-listpack-size 2 --rdbcompression no",
];

pub(crate) fn redis(folder: Option<&Path>, limits: &str) -> Server {
    debugged(Kind::Redis, folder, limits)
}

/// A server of Redis or Valkey with more flags.
pub(crate) fn debugged(kind: Kind, folder: Option<&Path>, limits: &str) -> Server {
    let line = format!("exec \"$@\" --enable-debug-command yes {limits}");
    let setup = Setup::new(kind).wrapper(&["sh", "-c", &line, "sh"]);
    match folder {
        Some(folder) => setup.folder(folder).start(),
        None => setup.start(),
    }
}

/// Adds `keys` random collections, in some databases, some with an expiry.
fn fill(client: &mut Client, random: &mut Random, keys: usize) {
    for number in 0..keys {
        client.ok(&format!("SELECT {}", random.pick(&[0, 0, 3, 15])));
        let size = match random.below(8) {
            0 => 100 + random.below(60),
            1 => 400 + random.below(200),
            _ => 1 + random.below(20),
        };
        let (numbers, kind) = (random.below(3) == 0, random.below(4));
        let mut words: Vec<Vec<u8>> = Vec::new();
        for _ in 0..size {
            if kind == 3 {
                words.push(score(random));
            }
            words.push(element(random, numbers));
            if kind == 2 {
                words.push(element(random, numbers));
            }
        }
        let name: &[u8] = [&b"RPUSH"[..], b"SADD", b"HSET", b"ZADD"][kind];
        let key = format!("key:{number}").into_bytes();
        let command: Vec<&[u8]> =
            [name, &key].into_iter().chain(words.iter().map(Vec::as_slice)).collect();
        let reply = client.call(&command);
        assert!(matches!(reply, Reply::Int(_)), "{reply:?}");
        if random.below(4) == 0 {
            client.ok(&format!("PEXPIREAT key:{number} {}", now_ms() + 10_000_000));
        }
    }
    client.ok("SELECT 0");
}

fn element(random: &mut Random, number: bool) -> Vec<u8> {
    let shift = random.below(64);
    let length = random.below(80);
    match random.below(30) {
        _ if number => (random.next() as i64 >> shift).to_string().into_bytes(),
        0 => b"long ".repeat(random.below(3000)),
        1..5 => random.bytes(length),
        _ => format!("text {}", random.next() >> shift).into_bytes(),
    }
}

fn score(random: &mut Random) -> Vec<u8> {
    match random.below(5) {
        0 => random.pick(&["inf", "-inf", "1e300", "-5e-324", "0.1", "1e17"]).as_bytes().to_vec(),
        1 => (random.next() as i32).to_string().into_bytes(),
        2 => (random.next() as f64 / 3e9).to_string().into_bytes(),
        _ => random.below(10).to_string().into_bytes(),
    }
}

fn digest(client: &mut Client) -> String {
    client.ask("DEBUG DIGEST").text()
}

#[test]
fn all_types_go_round_through_files_with_equal_digests() {
    if !redis_is_here("all_types_go_round_through_files_with_equal_digests") {
        return;
    }
    let mut random = Random::new("all_types_go_round");
    for (limits, algorithm) in LIMITS.into_iter().zip(ALGORITHMS) {
        let first = redis(None, limits);
        let mut client = first.client();
        fill(&mut client, &mut random, rounds(400, 20_000));
        client.ok("SAVE");
        let expected = digest(&mut client);

        let folder = tempfile::tempdir().expect("a folder");
        fs::copy(first.dump(), folder.path().join("dump.rdb")).expect("the dump was written");
        let ours = Setup::new(Kind::Ours(algorithm)).folder(folder.path()).start();
        let mut client = ours.client();
        assert_eq!(digest(&mut client), expected, "{algorithm} has loaded what Redis saved");
        assert_eq!(client.save_in_background(), "ok", "{}", ours.log());
        check_dump(&ours.dump());
        drop(ours);
        let ours = Setup::new(Kind::Ours(algorithm)).folder(folder.path()).start();
        assert_eq!(digest(&mut ours.client()), expected, "{algorithm} has loaded its own");
        drop(ours);
        let last = redis(Some(folder.path()), "--sanitize-dump-payload yes");
        assert_eq!(digest(&mut last.client()), expected, "Redis has loaded what {algorithm} saved");
    }
}

#[test]
fn what_commands_made_in_ours_is_saved_for_redis() {
    if !redis_is_here("what_commands_made_in_ours_is_saved_for_redis") {
        return;
    }
    let mut random = Random::new("what_commands_made");
    for algorithm in ALGORITHMS {
        let seed = random.next();
        let (theirs, ours) = (redis(None, ""), Server::start(Kind::Ours(algorithm)));
        let [expected, found] = [&theirs, &ours].map(|server| {
            let mut client = server.client();
            fill(&mut client, &mut Random::with_seed(seed), rounds(400, 20_000));
            digest(&mut client)
        });
        assert_eq!(found, expected, "{algorithm} holds what Redis holds");
        assert_eq!(ours.client().save_in_background(), "ok", "{}", ours.log());
        check_dump(&ours.dump());
        let folder = tempfile::tempdir().expect("a folder");
        fs::copy(ours.dump(), folder.path().join("dump.rdb")).expect("the dump was written");
        let last = redis(Some(folder.path()), "");
        assert_eq!(digest(&mut last.client()), expected, "Redis has loaded what {algorithm} saved");
    }
}

/// The keys of a database, sorted.
pub(crate) fn keys(client: &mut Client) -> Vec<Vec<u8>> {
    let reply = client.ask("KEYS *");
    let mut keys: Vec<_> = reply.list().iter().filter_map(Reply::bytes).map(Vec::from).collect();
    keys.sort();
    keys
}

#[test]
fn payloads_go_both_ways() {
    if !redis_is_here("payloads_go_both_ways") {
        return;
    }
    let mut random = Random::new("payloads_go_both_ways");
    let (theirs, ours) = (redis(None, LIMITS[0]), Server::start(Kind::Ours("imprint")));
    let (mut there, mut here) = (theirs.client(), ours.client());
    fill(&mut there, &mut random, rounds(200, 10_000));
    for text in ["", "12", "some text", &"abc".repeat(1000)] {
        there.call(&[b"SET", format!("text:{}", text.len()).as_bytes(), text.as_bytes()]);
    }
    for database in [0, 3, 15] {
        for client in [&mut there, &mut here] {
            client.ok(&format!("SELECT {database}"));
        }
        for key in keys(&mut there) {
            let copy = |from: &mut Client, to: &mut Client| {
                let payload = from.call(&[b"DUMP", &key]);
                let expiry = from.call(&[b"PEXPIRETIME", &key]).int().max(0).to_string();
                let payload = payload.bytes().expect("the key is there");
                let words: [&[u8]; 6] =
                    [b"RESTORE", &key, expiry.as_bytes(), payload, b"ABSTTL", b"REPLACE"];
                assert_eq!(to.call(&words), Reply::Text(b"OK".to_vec()), "{}", key.escape_ascii());
            };
            copy(&mut there, &mut here);
            copy(&mut here, &mut there);
            let ask = |client: &mut Client| client.call(&[b"DEBUG", b"DIGEST-VALUE", &key]);
            assert_eq!(ask(&mut here), ask(&mut there), "{}", key.escape_ascii());
        }
    }
    assert_eq!(digest(&mut here), digest(&mut there));
}
