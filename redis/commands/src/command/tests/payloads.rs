//! RESTORE of payloads of other servers, and of some that are damaged under a right checksum.

use std::fs;
use std::path::Path;

use stillframe_peers::reply::Reply;
use stillframe_peers::{Random, rounds};
use stillframe_rdb::{Crc64, Version};

use super::{ask, call};
use crate::harness::Harness;

/// The version and the checksum that stand behind the value of a payload.
fn seal(value: &[u8]) -> Vec<u8> {
    seal_as(value, 10)
}

fn seal_as(value: &[u8], version: u16) -> Vec<u8> {
    let mut payload = [value, &version.to_le_bytes()].concat();
    let mut checksum = Crc64::new();
    checksum.update(&payload);
    payload.extend_from_slice(&checksum.value().to_le_bytes());
    payload
}

/// Values in every layout of RDB, sound ones and what a fuzzer found:
/// `testing/fuzz/targets/corpus/payload`.
fn corpus() -> Vec<Vec<u8>> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/fuzz/targets/corpus/payload");
    let files = fs::read_dir(folder).expect("the corpus of payloads");
    let read = |file: std::io::Result<fs::DirEntry>| {
        fs::read(file.expect("a file").path()).expect("its bytes")
    };
    files.map(read).filter(|value| value.len() > 2).collect()
}

/// Values as DUMP writes them, of all types, small and large.
fn dumped(random: &mut Random) -> Vec<Vec<u8>> {
    let mut harness = Harness::with_seed(random.next());
    let mut values = Vec::new();
    for number in 0..60 {
        let name = random.pick(&["RPUSH k", "SADD k", "HSET k", "ZADD k"]);
        let mut line = name.to_owned();
        let size = random.pick(&[1, 5, 20, 150]);
        for element in 0..size {
            let word = random.pick(&["text", "1", "-70000", "9223372036854775807", "longer:text:"]);
            line += &match name {
                "HSET k" => format!(" {word}{element} {word}"),
                "ZADD k" => format!(" {element}.5 {word}{element}"),
                _ => format!(" {word}{}", element % 100),
            };
        }
        ask(&mut harness, &line.replace(" k", &format!(" k{number}")));
        let payload = call(&mut harness, &[b"DUMP", format!("k{number}").as_bytes()]);
        let payload = payload.bytes().expect("the key is there").to_vec();
        values.push(payload[..payload.len() - 10].to_vec());
    }
    values
}

#[test]
fn damaged_payloads_change_nothing() {
    let mut random = Random::new("damaged_payloads_change_nothing");
    let mut values = corpus();
    let seeds = values.len();
    assert!(seeds > 50, "{seeds} values in the corpus");
    values.extend(dumped(&mut random));
    let mut harness = Harness::new();
    harness.all(&["SET k precious"]);
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..rounds(6_000, 1_000_000) {
        let mut value = values[random.below(values.len())].clone();
        for _ in 0..random.below(4) {
            let at = random.below(value.len());
            value[at] = random.next() as u8;
        }
        match call(&mut harness, &[b"RESTORE", b"k", b"0", &seal(&value), b"REPLACE"]) {
            Reply::Error(text) => {
                assert!(text.starts_with("ERR "), "{text}");
                let kept = ask(&mut harness, "GET k");
                assert_eq!(kept, Reply::Text(b"precious".to_vec()), "{text}");
                refused += 1;
            }
            _ => {
                harness.contents(); // reads every element
                harness.all(&["SET k precious"]);
                taken += 1;
            }
        }
        assert_eq!(ask(&mut harness, "DBSIZE").int(), 1);
    }
    assert!(refused > 1_000 && taken > 100, "{refused} refused, {taken} taken");
}

/// A hash with the fields `a`, which expires in 2038, and `b`: as Redis 8.0.6 and Valkey 9.1.2 dump
/// it.
const REDIS_8: &str =
    "1900000000f40100001d1d00000006008161020101f400000000f40100000981620202010001ff";
const VALKEY_9: &str = "16020161c00100000000f40100000162c002ffffffffffffffff";

/// The payload of a value in hexadecimal digits, in a version.
fn payload(hex: &str, version: u16) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    let value = pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hex"));
    seal_as(&value.collect::<Vec<_>>(), version)
}

#[test]
fn hashes_whose_fields_expire_go_in_and_out_in_both_forms() {
    for (given, version) in [(REDIS_8, 12), (VALKEY_9, 80)] {
        let mut harness = Harness::new();
        harness.ledger.settings.compresses = false;
        let restored = call(&mut harness, &[b"RESTORE", b"k", b"0", &payload(given, version)]);
        assert_eq!(restored.text(), "OK", "{given}");
        assert_eq!(ask(&mut harness, "HMGET k a b").list().len(), 2);
        assert!(harness.keyspace.timed_hashes() == 1);
        for (form, number) in [(Version::Redis12, 12), (Version::Valkey80, 80)] {
            harness.ledger.settings.expiring_version = form;
            let found = ask(&mut harness, "DUMP k").bytes().expect("it is there").to_vec();
            assert_eq!(found[found.len() - 10], number);
            assert_eq!(ask(&mut harness, "DEL copy").int(), i64::from(number == 80));
            assert_eq!(call(&mut harness, &[b"RESTORE", b"copy", b"0", &found]).text(), "OK");
            let [here, copy] = ["DUMP k", "DUMP copy"].map(|line| ask(&mut harness, line));
            assert_eq!(here, copy);
        }
        harness.ledger.settings.expiring_version = Version::Redis12;
        let dumped = ask(&mut harness, "DUMP k").bytes().expect("it is there").to_vec();
        assert_eq!(dumped, payload(REDIS_8, 12), "as Redis 8 dumps it");
    }
}

/// Effects are noted, and the database is selected.
fn noting() -> Harness {
    let mut harness = Harness::new().notes_effects();
    harness.all(&["SET other key"]);
    harness.effects();
    harness
}

/// Replicas may be of Redis 7.0, of Redis 8 and of Valkey 9.
#[test]
fn what_is_restored_is_passed_on_so_that_every_server_reads_it() {
    for (given, version) in [(REDIS_8, 12), (VALKEY_9, 80)] {
        let mut harness = noting();
        let payload = payload(given, version);
        call(&mut harness, &[b"RESTORE", b"k", b"0", &payload]);
        let times = "HPEXPIREAT k 2147483648000 FIELDS 1 a";
        assert_eq!(harness.effects(), [format!("MULTI; HSET k a 1 b 2; {times}; EXEC")]);
        let at = (harness.now + 5000).to_string();
        call(&mut harness, &[b"RESTORE", b"k", at.as_bytes(), &payload, b"REPLACE", b"ABSTTL"]);
        let expected = format!("MULTI; DEL k; HSET k a 1 b 2; {times}; PEXPIREAT k {at}; EXEC");
        assert_eq!(harness.effects(), [expected]);
    }
    // Sets of Redis 8 and of Valkey 9, whose payloads redis-server 7.0 refuses.
    for version in [12, 80] {
        let mut harness = noting();
        let given = payload("140f0f00000003008161020501816202ff", version);
        call(&mut harness, &[b"RESTORE", b"k", b"0", &given]);
        let stream = harness.stream();
        let [unit] = &stream[..] else { panic!("{stream:?}") };
        let [name, key, ttl, written] = &unit[..] else { panic!("{unit:?}") };
        assert_eq!((&name[..], &key[..], &ttl[..]), (&b"RESTORE"[..], &b"k"[..], &b"0"[..]));
        assert_eq!(written[written.len() - 10..][..2], [10, 0]);
        call(&mut harness, &[b"RESTORE", b"copy", b"0", written]);
        assert_eq!(ask(&mut harness, "SINTERCARD 2 k copy").int(), 3);
    }
    // Ours, and those of Redis 7.0, stay as they are.
    let mut harness = noting();
    let given = seal(b"\0\x01v");
    call(&mut harness, &[b"RESTORE", b"k", b"0", &given]);
    assert_eq!(harness.stream()[0][3], given);
}

/// What Redis 8.10 writes for HIMPORT into its log and to its replicas: a payload without a
/// checksum, whose hash has its names in a template.
#[test]
fn hashes_of_himport_are_restored_and_told_as_others() {
    let mut harness = Harness::new().notes_effects();
    let value = b"\x1d\x00\x0d\x0d\0\0\0\x02\0\x81a\x02\x81b\x02\xff\
        \x0d\x0d\0\0\0\x03\0\x00\x01\x01\x01\x02\x01\xff";
    let bare = [&value[..], b"\x0f\0", &[0; 8]].concat();
    for payload in [&bare[..], &seal_as(value, 15)] {
        let reply = call(&mut harness, &[b"RESTORE", b"h", b"0", payload, b"REPLACE"]);
        assert_eq!(reply.text(), "OK");
        assert_eq!(harness.run("HMGET h a b"), "*2 $1 1 $1 2");
        assert_eq!(harness.run("OBJECT ENCODING h"), "$8 listpack");
        let told = harness.stream().pop().expect("the restore");
        assert_eq!(told[3][told[3].len() - 10..][..2], *b"\x0a\0", "every replica reads it");
        assert_ne!(told[3][told[3].len() - 8..], [0; 8]);
    }
    // So a payload of version 10 without a checksum, which Redis 7 refuses.
    let bare = [&b"\x00\x01v\x0a\0"[..], &[0; 8]].concat();
    call(&mut harness, &[b"RESTORE", b"s", b"0", &bare]);
    let told = harness.stream().pop().expect("the restore");
    assert_eq!(told[3], seal(b"\x00\x01v"));
    let elsewhere = seal_as(b"\x20\x04\x01x\x01y", 15);
    let refused = call(&mut harness, &[b"RESTORE", b"x", b"0", &elsewhere]);
    assert_eq!(refused.text(), "ERR Bad data format");
}
