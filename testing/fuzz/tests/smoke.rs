//! The fuzz targets on any toolchain: their corpora, each input damaged a little, and random bytes.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use stillframe_fuzz::{TARGETS, canary};

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets/corpus").join(name);
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).expect("a file"))).collect()
}

#[test]
fn every_corpus_is_there_and_replays() {
    for (name, target) in TARGETS {
        let inputs = corpus(name);
        assert!(inputs.len() >= 3, "{name} has seeds");
        for (path, bytes) in inputs {
            println!("{}", path.display());
            target(&bytes);
        }
    }
}

fn cases() -> u32 {
    if std::env::var_os("STILLFRAME_LONG").is_some() { 200_000 } else { 1_500 }
}

/// Seeds with bytes changed, cut out and doubled: what a fuzzer does first.
fn damaged(inputs: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<prop::sample::Index>(), any::<u8>(), 0u8..4, 1usize..16);
    let changes = prop::collection::vec(change, 0..6);
    (prop::sample::select(inputs), changes).prop_map(|(mut bytes, changes)| {
        for (at, value, how, count) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            let end = (at + count).min(bytes.len());
            match how {
                0 => bytes[at] = value,
                1 => bytes[at] ^= 1 << (value % 8),
                2 => drop(bytes.drain(at..end)),
                _ => {
                    let piece = bytes[at..end].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        bytes
    })
}

#[test]
fn damaged_seeds_and_random_bytes_do_no_harm() {
    for (name, target) in TARGETS {
        let inputs: Vec<Vec<u8>> = corpus(name).into_iter().map(|(_, bytes)| bytes).collect();
        let random = prop::collection::vec(any::<u8>(), 0..400);
        let input = prop_oneof![4 => damaged(inputs), 1 => random];
        let mut runner = TestRunner::new(Config {
            cases: cases(),
            failure_persistence: None,
            ..Config::default()
        });
        let result = runner.run(&input, |bytes| {
            target(&bytes);
            Ok(())
        });
        assert!(result.is_ok(), "{name}: {result:?}");
    }
}

/// Found by damage to the seeds alone, so this driver finds something.
#[test]
fn the_planted_bug_is_found() {
    let inputs: Vec<Vec<u8>> = corpus("canary").into_iter().map(|(_, bytes)| bytes).collect();
    inputs.iter().for_each(|bytes| canary(bytes, true));
    let mut runner = TestRunner::deterministic();
    let strategy = damaged(inputs);
    let found = (0..20_000).any(|_| {
        let bytes = strategy.new_tree(&mut runner).expect("it always gives one").current();
        catch_unwind(AssertUnwindSafe(|| canary(&bytes, true))).is_err()
    });
    assert!(found, "the planted bug was not found");
}
