//! The directory of a `Store`: checkpoints, increments, and the log.

use std::sync::Arc;

use stillframe_durability::{Accepted, ActStore, Increments, LogOptions, Options, Until, rewind};
use stillframe_peers::{Random, rounds};

use super::faults::Faulty;
use super::server::{Steps, newest, runtime, settings};
use crate::restore::fetch_from;
use crate::settings::Source;

const WORDS: usize = 2000;

/// Word `i` counts how often action `i` ran.
fn open(path: &std::path::Path) -> ActStore {
    let log = LogOptions::default().segment_bytes(400);
    let options = Options::words(WORDS)
        .increments(Increments::at_most(4).percent(u64::MAX))
        .keep_generations(2)
        .log(log);
    let opened = ActStore::open_records(path, options, |store, action| {
        let word = usize::from(u16::from_le_bytes([action.bytes[0], action.bytes[1]]));
        store.write(word, store.read(word) + 1);
        Ok(())
    });
    opened.expect("it is sound")
}

fn words(store: &ActStore) -> Vec<u64> {
    (0..WORDS).map(|word| store.read(word)).collect()
}

#[test]
fn a_store_comes_back_at_every_record() {
    let mut random = Random::new("a_store_comes_back");
    for _ in 0..rounds(2, 40) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let mut store = open(&path);
        let archive = Arc::new(Faulty::default());
        let source = Source::Store { directory: path.clone() };
        let mut steps = Steps::new(&source, &archive, settings());
        let mut states = vec![words(&store)];
        store.checkpoint_and_wait().expect("there is room");
        for number in 0..150 {
            let word = random.below(WORDS) as u16;
            let mut act = store.log(&word.to_le_bytes()).expect("it can be logged");
            act.update(word.into(), |count| count + 1);
            act.commit().expect("it can be logged");
            store.wait_durable(store.logged()).expect("it is durable");
            states.push(words(&store));
            if random.below(12) == 0 {
                store.checkpoint_and_wait().expect("there is room");
            }
            if random.below(40) == 0 {
                drop(store);
                store = open(&path);
            }
            if random.below(30) == 0 {
                archive.fail(archive.calls() + 2, 3, random.below(2) == 0);
            }
            steps.rescan();
            let _ = steps.turn();
            if number % 50 == 49 {
                archive.fail(0, 0, false);
                steps.settle();
                let last = states.len() as u64 - 1;
                let manifest = newest(&archive).expect("there is one");
                assert_eq!(manifest.sets.len(), 1, "{:?}", manifest.sets[1].why);
                let until = random.below(states.len()) as u64;
                for until in [None, Some(until)] {
                    let point = until.map(Until::Sequence);
                    let target = tempfile::tempdir().expect("a folder");
                    let fetched = target.path().join("fetched");
                    let got = runtime().block_on(fetch_from(&archive.remote(), point, &fetched));
                    assert!(got.expect("it is there").store);
                    let rewound = target.path().join("rewound");
                    rewind(&fetched, point, Accepted::default(), &rewound).expect("it is sound");
                    let state = words(&open(&rewound));
                    assert!(state == states[until.unwrap_or(last) as usize], "{until:?}");
                }
            }
        }
    }
}
