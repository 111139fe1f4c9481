//! Any number of threads against the reader that goes from block to block.

use super::super::block::{Block, BlockStart};
use super::*;
use crate::crash::{Random, seed};

/// Files for the random tests.
fn enough() -> usize {
    if std::env::var_os("STILLFRAME_LONG").is_some() { 50_000 } else { 200 }
}

/// What a file gives, by any loader.
type Loaded = Result<Vec<u64>, Damage>;

/// Loaded with `threads` threads; words that are not in an increment are zero.
fn by_threads(file: &[u8], threads: usize) -> Loaded {
    let mut found = Vec::new();
    load(file, file.len(), threads, |start, run| {
        found.resize(found.len().max(start + run.len()), 0);
        found[start..start + run.len()].copy_from_slice(run);
    })?;
    Ok(found)
}

/// Block by block, and where the blocks are.
fn one_by_one(file: &[u8]) -> (Loaded, Vec<BlockStart>) {
    let (mut found, mut starts) = (Vec::new(), Vec::new());
    let loaded = Reader::open(file, file.len() as u64).and_then(|mut reader| {
        let mut block = Block::default();
        starts.push(reader.next_start());
        while reader.next(&mut block)? {
            starts.push(reader.next_start());
            for (start, run) in block.runs() {
                found.resize(found.len().max(start + run.len()), 0);
                found[start..start + run.len()].copy_from_slice(run);
            }
        }
        Ok(())
    });
    (loaded.map(|()| found), starts)
}

fn agree(file: &[u8], what: &str) -> Loaded {
    let (expected, _) = one_by_one(file);
    for threads in [1, 2, 5] {
        let found = by_threads(file, threads);
        assert!(found == expected, "{what}, {threads} threads: {:?}, {:?}", found.err(), expected);
    }
    expected
}

/// A full file or an increment, packed or not, of up to `most` words.
fn any_file(random: &mut Random, most: u64) -> Vec<u8> {
    let count = random.below(most) as usize;
    let words_per_block = [2, 4, 7, 64, 300][random.below(5) as usize];
    let header = Header { packs: random.below(2) > 0, ..header(count, words_per_block) };
    let bits = random.below(64);
    let mut words = |count: usize| -> Vec<u64> {
        (0..count).map(|_| random.next() >> bits & !random.next()).collect()
    };
    let mut file = Vec::new();
    if words(1)[0] & 1 > 0 {
        return write(header, &words(count), 500);
    }
    let base = Some(Link { number: 6, identity: 1 });
    let mut writer = Writer::new(&mut file, Header { base, ..header });
    let mut at = 0;
    while at < count {
        let run = (1 + words(1)[0] as usize % 40).min(count - at);
        writer.push(at, &words(run)).expect("a Vec takes all");
        at += run + words(1)[0] as usize % 20;
    }
    writer.finish().expect("a Vec takes all");
    file
}

#[test]
fn any_number_of_threads_reads_what_one_reads() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let mut random = Random(seed());
    for round in 0..enough() {
        let file = any_file(&mut random, 5000);
        let sound = agree(&file, &format!("round {round}"));
        sound.expect("nothing is wrong with it");
    }
}

/// The report names the lowest damage in the same words, whichever thread finds one first.
#[test]
fn any_number_of_threads_reports_the_same_damage() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let mut random = Random(seed());
    for round in 0..enough() {
        let mut file = any_file(&mut random, 5000);
        for _ in 0..=random.below(3) {
            damage(&mut random, &mut file);
        }
        let _ = agree(&file, &format!("round {round}"));
    }
}

fn damage(random: &mut Random, file: &mut Vec<u8>) {
    let length = file.len() as u64;
    match random.below(5) {
        0 => file.truncate(random.below(length + 1) as usize),
        1 => file.resize(file.len() + random.below(5000) as usize, 0),
        2 => move_block(random, file),
        _ if length > 0 => {
            // Rarely within the header, which is read before.
            let least = random.below(HEADER_BYTES as u64 + 1).min(length - 1);
            file[(least + random.below(length - least)) as usize] ^= 1 << random.below(8);
        }
        _ => {}
    }
}

/// Puts a sound block over another one of its length.
fn move_block(random: &mut Random, file: &mut [u8]) {
    let (_, starts) = one_by_one(file);
    let offset = |number: usize| Some(starts.get(number)?.offset as usize);
    let block = |number| Some(offset(number)?..offset(number + 1)?);
    let mut any = || block(random.below(starts.len().max(1) as u64) as usize);
    if starts.is_empty() {
        return;
    }
    for _ in 0..9 {
        if let (Some(from), Some(to)) = (any(), any())
            && from.len() == to.len()
        {
            return file.copy_within(from, to.start);
        }
    }
}

#[test]
fn flips_and_truncations_of_files_of_several_stretches_are_reported() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let step = if std::env::var_os("STILLFRAME_LONG").is_some() { 23 } else { 1009 };
    let mut random = Random(seed());
    for kind in 0..8 {
        let mut file = Vec::new();
        while file.len() < 10_000 {
            file = any_file(&mut random, 3000);
        }
        for bit in (kind..file.len() * 8).step_by(step) {
            file[bit / 8] ^= 1 << (bit % 8);
            agree(&file, &format!("bit {bit}")).expect_err("a damaged file was read");
            file[bit / 8] ^= 1 << (bit % 8);
        }
        for length in (kind..file.len()).step_by(step) {
            let damaged = agree(&file[..length], &format!("{length} bytes"));
            damaged.expect_err("a truncated file was read");
        }
    }
}

/// A failed read is reported with the place where it began, and never taken for another's.
#[test]
fn a_failed_read_is_reported_for_any_number_of_threads() {
    let _watchdog = stillframe_peers::Watchdog::start();
    struct Broken<'a>(&'a [u8], usize);
    impl std::io::Read for Broken<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
            let rest = self.0.get(self.1..).unwrap_or_default();
            let count = rest.len().min(bytes.len());
            if count == 0 {
                return Err(std::io::Error::from_raw_os_error(5)); // EIO
            }
            bytes[..count].copy_from_slice(&rest[..count]);
            self.1 += count;
            Ok(count)
        }
    }
    let mut random = Random(seed());
    for _ in 0..enough() / 20 {
        let file = any_file(&mut random, 5000);
        for _ in 0..20 {
            let good = HEADER_BYTES + random.below((file.len() - HEADER_BYTES) as u64) as usize;
            let by = |threads| {
                let at = |offset| Broken(&file[..good], offset as usize);
                let reader = Reader::open(at(0), file.len() as u64).expect("the header is there");
                let loaded = reader.load(threads, at, None, |_, _| {});
                loaded.expect_err("a part of it cannot be read")
            };
            let expected = by(1);
            assert!(matches!(expected, Damage::Unreadable { .. }), "{expected}");
            assert_eq!([by(2), by(5)], [expected.clone(), expected]);
        }
    }
}

/// Nobody waits for a thread that is gone.
#[test]
fn a_panic_ends_the_loading() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let base = Some(Link { number: 6, identity: 1 });
    let file = write(Header { packs: true, base, ..header(5000, 4) }, &words(5000), 500);
    let half = file.len() as u64 / 2;
    for threads in [1, 2, 5] {
        let at = |offset| {
            assert!(offset < half, "on purpose");
            &file[offset as usize..]
        };
        let takes: [fn(usize, &[u64]); 2] = [|_, _| {}, |_, _| panic!("on purpose")];
        for take in takes {
            let reader = Reader::open(&file[..], file.len() as u64).expect("it is sound");
            let load = std::panic::AssertUnwindSafe(|| reader.load(threads, at, None, take));
            std::panic::catch_unwind(load).expect_err("something panicked");
        }
    }
}
