//! Every flip and truncation, found at recovery.

use std::fs;

use stillframe::algorithms::naive::Naive;

use super::*;
use crate::checkpoint::writer::Writer;

fn file(number: u64) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, Header::new(2, number, 0, "naive"));
    writer.push(0, &[number, number]).expect("a Vec takes all");
    writer.finish().expect("a Vec takes all");
    file
}

/// Recovers from checkpoint 1, sound, and 2, as given; tells the number loaded and how many
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
