//! RESTORE of payloads that are damaged under a right checksum.

use std::fs;
use std::path::Path;

use stillframe_peers::reply::Reply;
use stillframe_peers::{Random, rounds};
use stillframe_rdb::Crc64;

use super::{ask, call};
use crate::harness::Harness;

/// The version and the checksum that stand behind the value of a payload.
fn seal(value: &[u8]) -> Vec<u8> {
    let mut payload = [value, &10_u16.to_le_bytes()].concat();
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
