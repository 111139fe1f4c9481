//! Every flipped bit and every truncation of each kind of file is found; random damage to larger
//! ones, too.

use std::io::Cursor;

use stillframe_durability::{Increments, Options, Store};
use stillframe_rdb::{Encoder, Origin, Value};

use super::*;

/// Bytes of a mark in a log.
const MARK: usize = 28;

fn health(file: &[u8], placement: Placement) -> Health {
    examine(Cursor::new(file), file.len() as u64, placement).health
}

/// A checkpoint of `words` words that depend on their place.
fn checkpoint(words: usize) -> Vec<u8> {
    let data = tempfile::tempdir().expect("a directory");
    let mut store: Store = Store::open(data.path(), Options::words(words)).expect("a store");
    for word in 0..words {
        store.write(word, (word as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    }
    let number = store.checkpoint_and_wait().expect("a checkpoint");
    std::fs::read(data.path().join(format!("checkpoint-{number:020}"))).expect("it is there")
}

/// The segment that keeps the format of logs as it is; its one record is number 5, its end a mark.
fn segment() -> Vec<u8> {
    let hex = include_str!("../../../../library/durability/src/log/version_3.hex");
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks_exact(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

fn rdb(keys: u64) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file);
    let origin = Origin { created_s: 1_700_000_000, used_memory_bytes: 1, aof_base: false };
    encoder.begin(&origin).expect("a Vec takes all");
    for key in 0..keys {
        let text = format!("{key} ").repeat(1 + key as usize % 50);
        let expire = (key % 3 == 0).then_some(1_800_000_000_000);
        let name = format!("key:{key}");
        let value = Value::Bytes(text.as_bytes());
        encoder.entry(key % 4, name.as_bytes(), value, expire).expect("a Vec takes all");
    }
    encoder.finish().expect("a Vec takes all");
    file
}

/// The first record by the name of the next segment. The mark behind the last record is not read.
const FOLLOWED: Placement =
    Placement { name: Some(Name::Segment(5)), until: Some(6), last: Some(6) };

#[test]
fn sound_files_are_sound() {
    assert_eq!(health(&checkpoint(9), Placement::default()), Health::Sound);
    assert_eq!(health(&segment(), Placement::default()), Health::Sound);
    assert_eq!(health(&segment(), FOLLOWED), Health::Sound);
    assert_eq!(health(&rdb(7), Placement::default()), Health::Sound);
}

#[test]
fn every_flipped_bit_of_every_kind_is_reported() {
    let files = [
        (checkpoint(9), Placement::default()),
        (segment(), Placement::default()),
        (segment(), FOLLOWED),
        (rdb(7), Placement::default()),
    ];
    for (mut file, placement) in files {
        let unread = if placement.until.is_some() { MARK } else { 0 };
        for bit in 0..(file.len() - unread) * 8 {
            file[bit / 8] ^= 1 << (bit % 8);
            let finding = examine(Cursor::new(&file), file.len() as u64, placement);
            assert_ne!(finding.health, Health::Sound, "bit {bit}");
            let byte = (bit / 8) as u64;
            let version = matches!(finding.health, Health::Unreadable);
            let found = finding.flaws.iter().any(|flaw| flaw.bytes.contains(&byte));
            // A changed length may make sense until the file ends, or does not end, elsewhere.
            let found = found || finding.kind == Kind::Rdb && finding.flaws.len() == 1;
            assert!(found || version, "bit {bit}: {:?}", finding.flaws);
            file[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn every_truncation_of_every_kind_is_reported() {
    for (file, placement) in [
        (checkpoint(9), Placement::default()),
        (segment(), FOLLOWED),
        (rdb(7), Placement::default()),
    ] {
        let unread = if placement.until.is_some() { MARK } else { 0 };
        for length in 0..file.len() - unread {
            assert_ne!(health(&file[..length], placement), Health::Sound, "{length} bytes");
        }
    }
    // Alone, a segment without its last record and mark is one in which those were never written.
    let file = segment();
    for length in 0..file.len() {
        let alone = health(&file[..length], Placement::default());
        let is_whole = [64, file.len() - MARK].contains(&length);
        assert_eq!(alone == Health::Sound, is_whole, "{length} bytes");
    }
}

#[test]
fn random_damage_and_swapped_blocks_are_reported() {
    let seed = std::env::var("STILLFRAME_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("STILLFRAME_SEED={seed}");
    let mut state = seed | 1;
    let mut random = |below: usize| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 33) as usize % below
    };
    let rounds = if std::env::var_os("STILLFRAME_LONG").is_some() { 5_000 } else { 100 };
    for sound in [checkpoint(50_000), rdb(2_000)] {
        for round in 0..rounds {
            let mut file = sound.clone();
            match round % 4 {
                0 => (0..=random(20)).for_each(|_| file[random(sound.len())] ^= 1 << random(8)),
                1 => file.truncate(random(sound.len())),
                2 => {
                    // Two stretches change places: sectors, or whole blocks of a checkpoint.
                    let bytes = [512, 4096, 16 + 65_536][random(3)].min(sound.len() / 4);
                    let (a, b) = (random(sound.len() - bytes), random(sound.len() - bytes));
                    file[a..a + bytes].copy_from_slice(&sound[b..b + bytes]);
                    file[b..b + bytes].copy_from_slice(&sound[a..a + bytes]);
                }
                _ => {
                    let (at, bytes) = (random(sound.len()), 1 + random(5000));
                    let end = (at + bytes).min(sound.len());
                    file[at..end].fill(random(256) as u8);
                }
            }
            if file != sound {
                let found = health(&file, Placement::default());
                assert_ne!(found, Health::Sound, "seed {seed}, round {round}");
            }
        }
    }
    let mut file = checkpoint(50_000);
    let block = 16 + 65_536;
    let (first, second) = file[160..].split_at_mut(block);
    first.swap_with_slice(&mut second[..block]);
    let flaws = examine(Cursor::new(&file), file.len() as u64, Placement::default()).flaws;
    assert_eq!(flaws.len(), 2, "{flaws:?}");
}

/// A base and three increments; the first two of these are given.
fn chain(path: &Path) -> (PathBuf, PathBuf) {
    let options = Options::words(5000).increments(Increments::at_most(9).percent(u64::MAX));
    let mut store: Store = Store::open(path, options).expect("a store");
    for number in 1..=4 {
        store.write(number as usize * 700, number);
        assert_eq!(store.checkpoint_and_wait().expect("a checkpoint"), number);
    }
    let file = |number: u64| path.join(format!("checkpoint-{number:020}"));
    (file(2), file(3))
}

fn healths(path: &Path) -> Vec<Health> {
    find(path).expect("it is there").iter().map(|finding| finding.health).collect()
}

#[test]
fn broken_chains_are_reported() {
    let data = tempfile::tempdir().expect("a directory");
    let (second, third) = chain(data.path());
    assert_eq!(healths(data.path()), [Health::Sound; 4]);
    let sound = std::fs::read(&second).expect("it is there");
    std::fs::remove_file(&second).expect("it is there");
    assert_eq!(healths(data.path()), [Health::Sound, Health::Damaged, Health::Damaged]);
    // A file may be sound by itself; the check does not look at the files that it needs.
    assert_eq!(find(&third).expect("it is there")[0].health, Health::Sound);
    let other = tempfile::tempdir().expect("a directory");
    let (foreign, _) = chain(other.path());
    std::fs::copy(foreign, &second).expect("writable");
    assert_eq!(healths(data.path())[1..], [Health::Damaged; 3]);
    std::fs::write(&second, sound).expect("writable");
    assert_eq!(healths(data.path()), [Health::Sound; 4]);
}

#[test]
fn what_is_none_of_ours_is_damaged() {
    for file in [&b""[..], b"R", b"STILLCK", b"*3\r\n$3\r\nSET\r\n", &[0; 100]] {
        let finding = examine(Cursor::new(file), file.len() as u64, Placement::default());
        assert_eq!((finding.kind, finding.health), (Kind::Unknown, Health::Damaged));
        assert_eq!(finding.flaws.len(), 1);
    }
}

#[test]
fn a_key_that_is_there_twice_is_damage() {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file);
    let origin = Origin { created_s: 1_700_000_000, used_memory_bytes: 1, aof_base: false };
    encoder.begin(&origin).expect("a Vec takes all");
    for (db, key) in [(0, "a"), (1, "a"), (0, "b"), (0, "a")] {
        encoder.entry(db, key.as_bytes(), Value::Int(7), None).expect("a Vec takes all");
    }
    encoder.finish().expect("a Vec takes all");
    let finding = examine(Cursor::new(&file), file.len() as u64, Placement::default());
    assert_eq!(finding.health, Health::Damaged);
    let problem = &finding.flaws[0].problem;
    assert!(
        problem.contains("key \"a\" of database 0") && problem.contains("second time"),
        "{problem}"
    );
}

/// A file of a newer server is not called damaged, whatever word it begins with.
#[test]
fn files_of_newer_servers_are_not_damaged() {
    for (head, due) in [
        ("REDIS0010", Health::Sound),
        ("REDIS0012", Health::Sound),
        ("VALKEY080", Health::Sound),
        ("REDIS0014", Health::Sound),
        ("REDIS0015", Health::Sound),
        ("REDIS0016", Health::Unreadable),
        ("VALKEY081", Health::Unreadable),
    ] {
        let mut file = rdb(2);
        file[..9].copy_from_slice(head.as_bytes());
        let end = file.len() - 8;
        file[end..].fill(0);
        assert_eq!(health(&file, Placement::default()), due, "{head}");
    }
}
