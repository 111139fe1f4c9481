//! Every flip and truncation, found at recovery.

mod threads;

use std::fs;
use std::sync::Arc;

use stillframe::algorithms::hourglass::Hourglass;
use stillframe::algorithms::naive::Naive;

use super::*;
use crate::chain::Increments;
use crate::checkpoint::writer::Writer;
use crate::disk::{Disk, Files, Location, SimulatedDisk};
use crate::store::Store;

fn file(number: u64) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, Header::new(2, number, 0, "naive"));
    writer.push(0, &[number, number]).expect("a Vec takes all");
    writer.finish().expect("a Vec takes all");
    file
}

/// Recovers from checkpoint 1, sound, and 2, as given; returns the number loaded and how many
/// were skipped.
fn recover_from(directory: &Directory, second: &[u8]) -> (u64, usize) {
    let path = directory.at(&names::checkpoint(2));
    fs::write(&path, second).expect("writable");
    let recovered = recover::<Naive>(directory, &Options::words(2)).expect("the first is sound");
    let number = recovered.algorithm.read(0);
    assert_eq!(recovered.algorithm.read(1), number, "whole");
    assert_eq!(recovered.recovery.loaded.expect("one was").number, number);
    assert_eq!(path.exists(), number == 2, "the damaged one is set aside");
    (number, recovered.recovery.skipped.len())
}

/// The reader's own tests flip every bit; here a disk is synced for each, so it is one bit in
/// nine, unless there is time.
#[test]
fn every_flip_and_every_truncation_falls_back_to_the_older_one() {
    let data = tempfile::tempdir().expect("a directory");
    let directory = Directory::open(data.path(), None).expect("writable");
    fs::write(directory.at(&names::checkpoint(1)), file(1)).expect("writable");
    let sound = file(2);
    assert_eq!(recover_from(&directory, &sound), (2, 0));
    let step = if std::env::var_os("STILLFRAME_LONG").is_some() { 1 } else { 9 };
    for bit in (0..sound.len() * 8).step_by(step) {
        let mut damaged = sound.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(recover_from(&directory, &damaged), (1, 1), "bit {bit}");
    }
    for length in 0..sound.len() {
        assert_eq!(recover_from(&directory, &sound[..length]), (1, 1), "{length} bytes");
    }
}

/// A full checkpoint of five words and two increments, as they lie on the disk.
fn chain() -> Files {
    let disk = SimulatedDisk::default();
    let options = Options::words(5).disk(Arc::new(disk.clone()));
    // However large: of so small a state two increments are longer than their base, and whether
    // they were merged before the store is dropped would be a matter of time.
    let options = options.increments(Increments::at_most(9).percent(u64::MAX));
    let mut store = Store::<Hourglass>::open_with("simulated", options).expect("sound");
    for number in 1..=3 {
        store.write(number as usize, number);
        assert_eq!(store.checkpoint_and_wait().expect("sound"), number);
    }
    drop(store);
    disk.platter().lose_power(|_| true)
}

/// The number of the checkpoint that is recovered, and the words.
fn recovered(files: &Files, accept: bool) -> Result<(u64, Vec<u64>), Error> {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::holding(files));
    let directory = Directory::existing(Location::on("simulated", disk)).expect("it is there");
    let options = Options::words(5);
    let options = if accept { options.accept_chain_loss() } else { options };
    let found = recover::<Naive>(&directory, &options)?;
    let number = found.recovery.loaded.map_or(0, |loaded| loaded.number);
    Ok((number, (0..5).map(|index| found.algorithm.read(index)).collect()))
}

/// Of a chain no damage goes unnoticed, and what is accepted is the whole part before it.
#[test]
fn every_flip_and_every_truncation_of_a_chain_is_refused() {
    let sound = chain();
    assert_eq!(sound.len(), 3);
    assert_eq!(recovered(&sound, false).expect("sound"), (3, vec![0, 1, 2, 3, 0]));
    let states = [vec![0; 5], vec![0, 1, 0, 0, 0], vec![0, 1, 2, 0, 0]];
    let judge = |files: &Files, number: u64, what: &str| {
        // The newest file may be passed over for an older one if nothing shows that it was an
        // increment; a store opened with increments refuses that, too.
        if number < 3 {
            recovered(files, false).expect_err(what);
        }
        match recovered(files, true) {
            Ok(found) => assert_eq!(found, (number - 1, states[number as usize - 1].clone())),
            Err(Error::NoneSound { .. }) if number == 1 => {}
            Err(error) => panic!("{what}: {error}"),
        }
    };
    for number in 1..=3 {
        let name = names::checkpoint(number);
        let file = &sound[&name];
        for bit in 0..file.len() * 8 {
            let (mut files, mut bytes) = (sound.clone(), file.to_vec());
            bytes[bit / 8] ^= 1 << (bit % 8);
            files.insert(name.clone(), Arc::new(bytes));
            judge(&files, number, &format!("checkpoint {number}, bit {bit}"));
        }
        for length in 0..file.len() {
            let mut files = sound.clone();
            files.insert(name.clone(), Arc::new(file[..length].to_vec()));
            judge(&files, number, &format!("checkpoint {number}, {length} bytes"));
        }
        let mut files = sound.clone();
        files.remove(&name);
        if number < 3 {
            recovered(&files, false).expect_err("a link is missing");
        }
    }
}
