//! The real redis-server as the judge: its files are read right, and ours are by it.
//!
//! Without `redis-server` and `redis-check-rdb` in the path these tests say so and pass.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use common::server::Redis;
use common::*;
use stillframe_peers::{Peer, are_here};
use stillframe_rdb::{Crc64, Decoder, Element, Encoder, Event, Head};
use tempfile::TempDir;

/// Strings of every encoding.
fn strings() -> Vec<Owned> {
    let mut values: Vec<Owned> = [0, 1, -1, 127, -129, 32767, -32769, 2147483647, -2147483649]
        .map(|value: i64| Owned::Bytes(value.to_string().into_bytes()))
        .into();
    values.extend([i64::MIN, -1 << 31, 1 << 15, i64::MAX].map(Owned::Int));
    values.extend(
        ["", "01", "-0", "+5", "1.5", "12345678901234567890123"]
            .map(|text| Owned::Bytes(text.into())),
    );
    for length in [1, 20, 21, 63, 64, 1000, 16383, 16384, 70_000, 200_000] {
        values.push(Owned::Bytes(noise(length as u64, length)));
        values.push(Owned::Bytes(b"abcdefghij".repeat(length / 10 + 1)));
        let mixed = [noise(3, length / 2), vec![b'z'; length]].concat();
        values.push(Owned::Bytes(mixed));
    }
    values
}

/// Collections of every kind, around every size at which their form changes.
fn collections() -> Vec<Owned> {
    let mut values = Vec::new();
    let word = |n: usize| format!("word {n} ").repeat(1 + n % 5).into_bytes();
    let number = |n: usize, shift: u32| (n as i64 * 7919 - 5000) << shift;
    let score = |n: usize| match n % 5 {
        0 => n as f64,
        1 => -(n as f64) / 3.0,
        2 => [f64::INFINITY, f64::NEG_INFINITY, 1e300, -5e-324, 0.1][n % 7 % 5],
        3 => 7.5,
        _ => (n as f64) * 1e15,
    };
    for size in [1, 2, 64, 127, 128, 129, 500, 512, 513, 1500] {
        values.push(Owned::List((0..size).map(word).collect()));
        values.push(Owned::Set((0..size).map(word).collect()));
        values.push(Owned::Hash((0..size).map(|n| (word(n), word(n * 3))).collect()));
        values.push(Owned::Sorted((0..size).map(|n| (word(n), Score(score(n)))).collect()));
        for shift in [0, 16, 40] {
            let text = |n| number(n, shift).to_string().into_bytes();
            values.push(Owned::Set((0..size).map(text).collect()));
            values.push(Owned::List((0..size).map(text).collect()));
        }
    }
    for length in [0, 1, 63, 64, 65, 253, 254, 255, 4095, 4096, 8000, 9000, 20_000, 70_000] {
        let (noise, flat) = (noise(length as u64, length), vec![b'z'; length]);
        let pair = [b"small".to_vec(), noise.clone()];
        values.push(Owned::List([&pair[..], std::slice::from_ref(&flat), &pair].concat()));
        values.push(Owned::Set(pair.clone().into()));
        values.push(Owned::Hash([(noise.clone(), flat), (b"f".to_vec(), noise.clone())].into()));
        values.push(Owned::Sorted([(noise, Score(1.5)), (b"m".to_vec(), Score(-3.0))].into()));
    }
    values
}

/// Keys in several databases.
fn dataset(values: Vec<Owned>) -> Vec<Entry> {
    let entry = |(number, value): (usize, Owned)| {
        let key = match number % 7 {
            0 => number.to_string().into_bytes(),
            1 => [&b"\xff\x00\r\n"[..], number.to_string().as_bytes()].concat(),
            2 => format!("long:{number}:").repeat(20).into_bytes(),
            _ => format!("key:{number}").into_bytes(),
        };
        // Far in the future, in milliseconds.
        let expire_at_ms = (number % 3 == 0).then_some(4_000_000_000_123 + number as i64);
        (number as u64 * 7 % 16, key, value, expire_at_ms)
    };
    values.into_iter().enumerate().map(entry).collect()
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort();
    entries
}

/// Lets Redis, run with `options`, save the entries, and compares what is in its file.
fn assert_read(entries: &[Entry], options: &[&str], before: &[&[u8]]) -> Vec<u8> {
    let dir = TempDir::new().expect("a temporary directory");
    let mut redis = Redis::start(dir.path(), options);
    if !before.is_empty() {
        assert_eq!(redis.call(before), "OK");
    }
    redis.fill(entries);
    assert_eq!(redis.call(&[b"SAVE"]), "OK");
    let file = fs::read(dir.path().join("dump.rdb")).expect("redis-server has saved");
    let (found, _) = read(&file[..]).expect("a whole file");
    let (found, expected) = (sorted(found), sorted(as_text(entries)));
    for (found, expected) in found.iter().zip(&expected) {
        assert!(found == expected, "key {} with {options:?}", expected.1.escape_ascii());
    }
    assert_eq!(found.len(), expected.len());
    file
}

/// What Redis finds in the file that `entries` would come from, were it asked to store them.
fn digest_of(entries: &[Entry]) -> String {
    let dir = TempDir::new().expect("a temporary directory");
    let mut redis = Redis::start(dir.path(), &[]);
    redis.fill(entries);
    redis.digest()
}

#[test]
fn files_of_redis_are_read_right() {
    if !are_here("files_of_redis_are_read_right", &[Peer::RedisServer]) {
        return;
    }
    let entries = dataset(strings());
    let eviction = ["--maxmemory", "1gb", "--maxmemory-policy"];
    for (options, verified) in [
        (vec![], true),
        (vec!["--rdbcompression", "no"], true),
        (vec!["--rdbchecksum", "no"], false),
        ([&eviction[..], &["allkeys-lru"]].concat(), true),
        ([&eviction[..], &["allkeys-lfu"]].concat(), true),
    ] {
        let file = assert_read(&entries, &options, &[]);
        assert_eq!(read(&file[..]).expect("a whole file").1, verified, "options {options:?}");
    }
}

/// The types of value in a file, as single bytes.
fn kinds(file: &[u8], entries: &[Entry]) -> BTreeSet<u8> {
    let key_of = |(_, key, ..): &Entry| {
        let at = file
            .windows(key.len() + 2)
            .find(|window| window[1] as usize == key.len() && window[2..] == key[..]);
        at.map(|window| window[0])
    };
    entries.iter().filter(|entry| entry.1.starts_with(b"key:")).filter_map(key_of).collect()
}

#[test]
fn collections_of_redis_are_read_right_in_every_form() {
    if !are_here("collections_of_redis_are_read_right_in_every_form", &[Peer::RedisServer]) {
        return;
    }
    let entries = dataset(collections());
    let (mut options, mut all): (Vec<Vec<&str>>, _) = (vec![vec![]], BTreeSet::new());
    for limit in ["0", "100000"] {
        let names = [
            "--hash-max-listpack-entries",
            "--hash-max-listpack-value",
            "--zset-max-listpack-entries",
            "--zset-max-listpack-value",
            "--set-max-intset-entries",
        ];
        options.push(names.iter().flat_map(|name| [*name, limit]).collect());
    }
    for size in ["1", "7", "-1", "-5"] {
        options.push(vec!["--list-max-listpack-size", size, "--list-compress-depth", "1"]);
    }
    options.push(vec!["--rdbcompression", "no"]);
    for options in &options {
        let file = assert_read(&entries, options, &[]);
        all.extend(kinds(&file, &entries));
    }
    let plain: [&[u8]; 3] = [b"DEBUG", b"QUICKLIST-PACKED-THRESHOLD", b"100b"];
    let file = assert_read(&entries, &[], &plain);
    assert!(file.windows(3).any(|bytes| bytes == [1, 0x40, 253]), "there are plain nodes");
    assert_eq!(all, [2, 4, 5, 11, 16, 17, 18].into(), "every form that Redis 7 writes");
}

#[test]
fn streams_and_libraries_are_read() {
    if !are_here("streams_and_libraries_are_read", &[Peer::RedisServer]) {
        return;
    }
    let dir = TempDir::new().expect("a temporary directory");
    let mut redis = Redis::start(dir.path(), &[]);
    assert_eq!(redis.call(&[b"XADD", b"k", b"1-1", b"f", b"v", b"n", b"-7"]), "1-1");
    assert_eq!(redis.call(&[b"XADD", b"k", b"1-2", b"other", b""]), "1-2");
    assert_eq!(redis.call(&[b"XGROUP", b"CREATE", b"k", b"g", b"1-1"]), "OK");
    let library = b"#!lua name=mylib\nredis.register_function('f', function() return 1 end)";
    assert_eq!(redis.call(&[b"FUNCTION", b"LOAD", library]), "mylib");
    assert_eq!(redis.call(&[b"SAVE"]), "OK");
    let file = fs::read(dir.path().join("dump.rdb")).expect("redis-server has saved");
    let mut decoder = stillframe_rdb::Decoder::new(&file[..]);
    let (mut found, mut entries, mut groups) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(event) = decoder.next().expect("a whole file") {
        match event {
            Event::Library { source } => found.push(source.to_vec()),
            Event::Element(Element::Entry { id, names, values, .. }) => {
                let texts =
                    (0..names.count()).map(|at| [names.get(at), values.get(at)].join(&b' '));
                entries.push((id, texts.collect::<Vec<_>>().join(&b' ')));
            }
            Event::Element(Element::Group { name, last, read, .. }) => {
                groups.push((name.to_vec(), last, read));
            }
            _ => {}
        }
    }
    assert_eq!(found, [library]);
    assert_eq!(entries, [((1, 1), b"f v n -7".to_vec()), ((1, 2), b"other ".to_vec())]);
    assert_eq!(groups, [(b"g".to_vec(), (1, 1), None)]);
}

/// Lets Redis load `file`, after its checker has seen it, and compares all that it then holds with
/// what it holds after `entries` came as commands.
fn assert_loads(file: &[u8], entries: &[Entry]) {
    let dir = TempDir::new().expect("a temporary directory");
    let path = dir.path().join("dump.rdb");
    fs::write(&path, file).expect("room for a file");
    let check = Command::new("redis-check-rdb").arg(&path).output().expect("redis-check-rdb runs");
    let report = String::from_utf8_lossy(&check.stdout);
    assert!(check.status.success(), "{report}");
    assert!(report.contains("Checksum OK"), "{report}");
    assert!(report.contains(&format!("{} keys read", entries.len())), "{report}");
    let mut redis = Redis::start(dir.path(), &["--sanitize-dump-payload", "yes"]);
    assert_eq!(redis.digest(), digest_of(entries));
    redis.assert_expiries(entries);
}

#[test]
fn redis_reads_our_files_right() {
    if !are_here("redis_reads_our_files_right", &[Peer::RedisServer, Peer::RedisCheckRdb]) {
        return;
    }
    let entries = dataset(strings().into_iter().chain(collections()).collect());
    assert_loads(&write(&entries), &entries);
}

#[test]
fn redis_restores_our_payloads_and_we_read_its() {
    if !are_here("redis_restores_our_payloads_and_we_read_its", &[Peer::RedisServer]) {
        return;
    }
    let entries: Vec<Entry> = dataset(strings().into_iter().chain(collections()).collect());
    let dir = TempDir::new().expect("a temporary directory");
    let mut redis = Redis::start(dir.path(), &["--sanitize-dump-payload", "yes"]);
    redis.fill(&entries);
    let before = redis.digest();
    for (db, key, value, expire_at_ms) in &entries {
        assert_eq!(redis.call(&[b"SELECT", db.to_string().as_bytes()]), "OK");
        let payload = redis.bytes(&[b"DUMP", key]).expect("the key is there");
        let mut decoder = Decoder::of_payload(&payload).expect("a sound payload");
        let mut found = None;
        while let Some(event) = decoder.next().expect("a sound value") {
            match event {
                Event::Entry { value, .. } => found = Some(Owned::from(value).text()),
                Event::Begin { kind, .. } => found = Some(Owned::empty(kind)),
                Event::Element(element) => found.as_mut().expect("it was begun").add(element),
                _ => {}
            }
        }
        assert!(found == Some(value.text()), "key {}", key.escape_ascii());
        let mut payload = Vec::new();
        let mut encoder = Encoder::new(&mut payload);
        value.put(&mut encoder, Head::Payload);
        encoder.finish_payload().expect("a Vec takes everything");
        let expiry = expire_at_ms.unwrap_or(0).to_string();
        let words: [&[u8]; 6] =
            [b"RESTORE", key, expiry.as_bytes(), &payload, b"REPLACE", b"ABSTTL"];
        assert_eq!(redis.call(&words), "OK", "key {}", key.escape_ascii());
    }
    assert_eq!(redis.digest(), before);
}

#[test]
fn old_layouts_made_by_hand_are_read_as_redis_reads_them() {
    if !are_here(
        "old_layouts_made_by_hand_are_read_as_redis_reads_them",
        &[Peer::RedisServer, Peer::RedisCheckRdb],
    ) {
        return;
    }
    // Redis refuses scores of more than 128 bytes, and never wrote them.
    let shown =
        |score: &Score| score.0.abs() < 1e100 && score.0.abs() > 1e-100 || score.0.is_infinite();
    let fits = |value: &Owned| match value {
        Owned::Sorted(sorted) => sorted.values().all(shown),
        _ => true,
    };
    let (mut entries, mut body) = (Vec::new(), Vec::new());
    for value in collections().into_iter().filter(fits) {
        for (kind, bytes) in old::layouts(&value) {
            let key = format!("key:{}:{kind}", entries.len()).into_bytes();
            body.extend([&[kind], &old::string(&key)[..], &bytes].concat());
            entries.push((0, key, value.clone(), None));
        }
    }
    let mut file = [&b"REDIS0009\xfe\0"[..], &body, b"\xff"].concat();
    let mut crc = Crc64::new();
    crc.update(&file);
    file.extend_from_slice(&crc.value().to_le_bytes());
    let (found, verified) = read(&file[..]).expect("a whole file");
    assert!(verified);
    for (found, expected) in found.iter().zip(&entries) {
        assert!(found == expected, "{}", expected.1.escape_ascii());
    }
    assert_eq!(found.len(), entries.len());
    let kinds: BTreeSet<u8> = entries.iter().flat_map(|entry| kind_of(&entry.1)).collect();
    assert_eq!(kinds, [1, 2, 3, 4, 9, 10, 12, 13, 14].into());
    assert_loads(&file, &entries);
}

fn kind_of(key: &[u8]) -> Option<u8> {
    std::str::from_utf8(key).ok()?.rsplit(':').next()?.parse().ok()
}

/// Long elements are nodes of their own in our files, which Redis itself makes from 1 GiB on only.
#[test]
fn redis_works_on_the_lists_of_our_files_as_on_its_own() {
    if !are_here("redis_works_on_the_lists_of_our_files_as_on_its_own", &[Peer::RedisServer]) {
        return;
    }
    let long = |n: usize| format!("{n} ").repeat(5000).into_bytes();
    let list = (0..40).map(|n| if n % 3 == 0 { long(n) } else { n.to_string().into_bytes() });
    let entries = vec![(0, b"k".to_vec(), Owned::List(list.collect()), None)];
    let dirs = [(); 2].map(|()| TempDir::new().expect("a temporary directory"));
    fs::write(dirs[0].path().join("dump.rdb"), write(&entries)).expect("room for a file");
    let mut servers = dirs.each_ref().map(|dir| Redis::start(dir.path(), &[]));
    servers[1].fill(&entries);
    let seed = std::process::id().into();
    println!("seed {seed}");
    let mut random = Random(seed);
    for _ in 0..2000 {
        let element = match random.below(4) {
            0 => long(random.below(40) as usize),
            _ => random.below(40).to_string().into_bytes(),
        };
        let pivot = random.below(40).to_string().into_bytes();
        let at = (random.below(80) as i64 - 40).to_string().into_bytes();
        let args: Vec<&[u8]> = match random.below(9) {
            0 => vec![b"LPUSH", b"k", &element],
            1 => vec![b"RPUSH", b"k", &element],
            2 => vec![b"LINSERT", b"k", b"BEFORE", &pivot, &element],
            3 => vec![b"LINSERT", b"k", b"AFTER", &pivot, &element],
            4 => vec![b"LSET", b"k", &at, &element],
            5 => vec![b"LREM", b"k", b"1", &element],
            6 => vec![b"LPOP", b"k"],
            7 => vec![b"LMOVE", b"k", b"k", b"RIGHT", b"LEFT"],
            _ => vec![b"LINDEX", b"k", &at],
        };
        let [ours, theirs] = servers.each_mut().map(|server| server.call(&args));
        assert_eq!(ours, theirs, "{}", args[0].escape_ascii());
    }
    let [ours, theirs] = servers.each_mut().map(Redis::digest);
    assert_eq!(ours, theirs);
}
