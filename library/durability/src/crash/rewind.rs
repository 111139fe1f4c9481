//! A state of the past, made in a new directory while the power is lost: it is there whole or not
//! at all, and a rewind that is done again succeeds.

use std::path::Path;
use std::sync::Arc;

use super::{crash_everywhere, must_find};
use crate::disk::{Files, LOCK, SimulatedDisk};
use crate::error::Error;
use crate::mutant::Mutant;
use crate::options::Options;
use crate::store::acts::ActStore;
use crate::until::Until;

const PATH: &str = "simulated";

fn options(disk: &SimulatedDisk) -> Options {
    Options::words(2).disk(Arc::new(disk.clone()))
}

/// A directory with a checkpoint in the middle of its log.
fn source() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let opened = ActStore::open(directory.path(), Options::words(2));
    let mut store = opened.expect("a new directory");
    for round in 1..=6 {
        let act = store.act(|words| {
            words.write(0, round);
            words.update(1, |sum| sum + round);
            Ok::<(), Error>(())
        });
        act.expect("a sound disk");
        if round == 3 {
            store.checkpoint_and_wait().expect("a sound disk");
        }
    }
    store.close().expect("a sound disk");
    directory
}

/// The state after five of six actions.
fn rewind(source: &Path, to: &SimulatedDisk) -> Result<(), Error> {
    let mut store: ActStore = ActStore::rewind(source, Until::Sequence(5), PATH, options(to))?;
    // Life goes on there.
    store.act(|words| {
        words.write(0, 50);
        Ok::<(), Error>(())
    })?;
    store.wait_durable(store.logged())
}

/// What a rewind into `files` has left: nothing, or the state, from which life may have gone on.
fn found(files: &Files) -> Result<bool, String> {
    let disk = SimulatedDisk::holding(files);
    let store = ActStore::open(Path::new(PATH), options(&disk));
    let store = store.map_err(|error| error.to_string())?;
    match [0, 1].map(|index| store.read(index)) {
        [0, 0] if !files_hold_state(files) => Ok(false),
        [5 | 50, 15] => Ok(true),
        other => Err(format!("{other:?} is there")),
    }
}

/// Whether there is anything but what is left of an attempt.
fn files_hold_state(files: &Files) -> bool {
    files.keys().any(|name| !name.ends_with(".tmp") && name != LOCK)
}

fn crash() -> Result<u64, String> {
    let (source, to) = (source(), SimulatedDisk::default());
    rewind(source.path(), &to).map_err(|error| error.to_string())?;
    let changes_max = to.changes();
    let recover = |files: &Files| {
        let is_there = found(files)?;
        let again = rewind(source.path(), &SimulatedDisk::holding(files));
        match again {
            Ok(()) if !is_there => Ok(false),
            Err(Error::NotEmpty { .. }) if is_there => Ok(true),
            other => Err(format!("there: {is_there}, again: {other:?}")),
        }
    };
    crash_everywhere(&to, recover, |changes, found: &Result<bool, String>| match found {
        Ok(false) if changes == changes_max => Err("what was rewound is lost".into()),
        Ok(_) => Ok(()),
        Err(wrong) => Err(wrong.clone()),
    })
}

#[test]
fn a_state_of_the_past_is_whole_or_not_at_all_after_every_crash() {
    println!("{} crash points", crash().expect("every crash is survived"));
}

#[test]
fn a_log_before_its_checkpoint_is_found() {
    must_find(Mutant::RewoundLogFirst, crash);
}
