//! Large files that go in pieces: what still has a name that counts is whole.

use std::sync::Arc;

use super::{crash_everywhere as from_nothing, must_find};
use crate::disk::{
    Directory, Files, Location, SimulatedDisk, Unpublished, crash_everywhere, is_gone,
};
use crate::error::Error;
use crate::mutant::Mutant;
use crate::options::Options;
use crate::store::Store;

const PIECE: u64 = 500;

fn large(byte: u8) -> Arc<Vec<u8>> {
    Arc::new(vec![byte; 2100])
}

fn start() -> Files {
    let names = ["a", "dump", "state/", "state/one", "state/two"];
    names.into_iter().zip(b'a'..).map(|(name, byte)| (name.to_owned(), large(byte))).collect()
}

fn directory(disk: &SimulatedDisk) -> Directory {
    let location = Location::on("simulated", Arc::new(disk.clone()));
    Directory::existing(location).and_then(|it| it.locked("lock")).expect("it is there")
}

/// A file goes, one is replaced, and a directory goes.
fn run() -> Result<u64, String> {
    let disk = SimulatedDisk::holding(&start()).with_pieces(PIECE);
    let all = || {
        let directory = directory(&disk);
        directory.discard("a")?;
        let mut file = directory.create("dump.tmp")?;
        let written = std::io::Write::write_all(&mut file, &large(b'n'))
            .and_then(|()| std::io::Write::flush(&mut file))
            .map_err(Error::file("writing", "dump.tmp"));
        let unpublished =
            Unpublished { file: &mut file, bytes: None, temporary: "dump.tmp", name: "dump" };
        directory.publish(unpublished, written, || Ok::<(), Error>(()))?;
        directory.remove_all_below("state")
    };
    all().map_err(|error| error.to_string())?;
    let names = disk.platter().names();
    assert_eq!(names, ["dump"], "the disk is sound");
    crash_everywhere(&start(), &disk.history(), Files::clone, |_, files| judge(files))
}

fn judge(files: &Files) -> Result<(), String> {
    let start = start();
    for (name, bytes) in files {
        let whole = start.get(name).is_none_or(|it| it == bytes);
        if !whole && (name != "dump" || *bytes != large(b'n')) && !name.ends_with('/') {
            return Err(format!("{name} has {} bytes", bytes.len()));
        }
    }
    match (files.get("dump"), files.contains_key("state/")) {
        (None, _) => return Err("no dump".into()),
        (_, true) if !files.contains_key("state/one") || !files.contains_key("state/two") => {
            return Err("a part of the state".into());
        }
        _ => {}
    }
    // The next start removes the rest.
    let disk = SimulatedDisk::holding(files).with_pieces(PIECE);
    drop(directory(&disk));
    match disk.platter().names().into_iter().find(|name| is_gone(name)) {
        Some(left) => Err(format!("{left} is left")),
        None => Ok(()),
    }
}

/// Checkpoints of a store of words, each larger than a piece.
fn store() -> Result<u64, String> {
    let disk = SimulatedDisk::default().with_pieces(PIECE);
    let options = Options::words(150).disk(Arc::new(disk.clone()));
    let mut store: Store = Store::open("simulated", options).expect("the disk is sound");
    let mut whole: Vec<Arc<Vec<u8>>> = Vec::new();
    for round in 1..=5 {
        store.write_run(0, &[round; 150]);
        store.checkpoint_and_wait().expect("the disk is sound");
        let files = disk.platter().lose_power(|_| true);
        whole.extend(files.get(&crate::names::checkpoint(round)).cloned());
    }
    drop(store);
    assert!(disk.platter().names().len() <= 3, "two generations, and a lock");
    from_nothing(&disk, Files::clone, |_, files| {
        let named = |name: &str| matches!(crate::names::number(name), Some((_, false)));
        match files.iter().find(|(name, bytes)| named(name) && !whole.contains(bytes)) {
            Some((name, bytes)) => Err(format!("{name} has {} bytes", bytes.len())),
            None => Ok(()),
        }
    })
}

#[test]
fn what_goes_in_pieces_is_whole_or_nameless_after_every_crash() {
    let _watchdog = stillframe_peers::Watchdog::start();
    println!("{} crash points", run().expect("every crash is survived"));
    println!("{} of a store", store().expect("every crash is survived"));
}

#[test]
fn a_cut_before_the_name_is_durable_is_found() {
    let _watchdog = stillframe_peers::Watchdog::start();
    must_find(Mutant::CutsBeforeRenamed, run);
    must_find(Mutant::CutsBeforeRenamed, store);
}
