//! Conversions whose power is lost or whose disk fails: the new directory holds the whole new state
//! or none, the old one stays as it is, and a conversion that is done again succeeds.

use std::path::Path;
use std::sync::Arc;

use stillframe::algorithms::naive::Naive;

use super::{crash_everywhere, must_find};
use crate::disk::{Fault, Files, SimulatedDisk};
use crate::error::Error;
use crate::mutant::Mutant;
use crate::options::Options;
use crate::store::Store;
use crate::store::acts::ActStore;

const PATH: &str = "simulated";

fn options(layout: u32, disk: &SimulatedDisk) -> Options {
    Options::words(3).application("test", layout).disk(Arc::new(disk.clone()))
}

/// A disk with a checkpoint, and actions in a log if there is to be one.
fn old_disk(has_log: bool) -> SimulatedDisk {
    let disk = SimulatedDisk::default();
    let options = options(1, &disk);
    let mut store = match has_log {
        true => Store::<Naive>::open_logged(Path::new(PATH), options, ActStore::refuse),
        false => Store::open_with(Path::new(PATH), options),
    }
    .expect("a sound disk");
    for round in 0..3 {
        let act = store.act(|words| {
            words.write(0, 10 + round);
            words.update(1, |word| word + round);
            Ok::<(), Error>(())
        });
        act.expect("a sound disk");
        if round == 1 || !has_log {
            store.checkpoint_and_wait().expect("a sound disk");
        }
    }
    store.close().expect("a sound disk");
    SimulatedDisk::holding(&disk.platter().lose_power(|_| true))
}

/// The words in the other order, and their sum.
fn convert(from: &SimulatedDisk, to: &SimulatedDisk) -> Result<(), Error> {
    let (old, new) = (options(1, from), options(2, to));
    Store::<Naive>::convert_with(PATH, old, ActStore::refuse, PATH, new, |old, new| {
        new.write(1, old.read(0));
        new.checkpoint();
        new.point(); // half of it: no checkpoint may begin here
        let _ = new.wait();
        new.write(0, old.read(1));
        new.write(2, old.read(0) + old.read(1));
        Ok(())
    })
}

/// What a conversion into `files` has left: nothing, or the new state.
fn found(files: &Files) -> Result<bool, String> {
    let disk = SimulatedDisk::holding(files);
    let store = Store::<Naive>::open_with(Path::new(PATH), options(2, &disk));
    let store = store.map_err(|error| error.to_string())?;
    let state = [0, 1, 2].map(|index| store.read(index));
    match store.recovery().loaded {
        None => Ok(false),
        Some(_) if state == [3, 12, 15] => Ok(true),
        Some(_) => Err(format!("{state:?} is there")),
    }
}

/// What is found in `files`, or after another conversion if nothing is.
fn found_at_last(from: &SimulatedDisk, files: &Files) -> Result<bool, String> {
    let disk = SimulatedDisk::holding(files);
    let is_there = found(files)?;
    match convert(from, &disk) {
        Ok(()) if is_there => return Err("a new state was replaced".into()),
        Err(Error::NotEmpty { .. }) if is_there => return Ok(true),
        Ok(()) => {}
        Err(error) => return Err(format!("trying again: {error}")),
    }
    let again = found(&disk.platter().lose_power(|_| false))?;
    if again { Ok(is_there) } else { Err("it is not durable".into()) }
}

fn crash(has_log: bool) -> Result<u64, String> {
    let (from, to) = (old_disk(has_log), SimulatedDisk::default());
    let before = from.platter().lose_power(|_| true);
    convert(&from, &to).map_err(|error| error.to_string())?;
    let changes_max = to.changes();
    let points = crash_everywhere(
        &to,
        |files| found_at_last(&from, files),
        |changes, found| match found {
            Ok(false) if changes == changes_max => Err("what was converted is lost".into()),
            Ok(_) => Ok(()),
            Err(wrong) => Err(wrong.clone()),
        },
    )?;
    let is_unchanged =
        [true, false].iter().all(|&keep| from.platter().lose_power(|_| keep) == before);
    if is_unchanged { Ok(points) } else { Err(format!("{:?} in the old one", from.history())) }
}

#[test]
fn a_conversion_is_whole_or_not_at_all_after_every_crash() {
    for has_log in [false, true] {
        println!("{} crash points", crash(has_log).expect("every crash is survived"));
    }
}

#[test]
fn a_conversion_in_part_is_found() {
    must_find(Mutant::ConvertedInPart, || crash(false));
}

#[test]
fn a_conversion_survives_the_failure_of_any_call() {
    for fault in [Fault::IO, Fault::DISK_FULL] {
        for of_target in [true, false] {
            for call in 1.. {
                let (from, to) = (old_disk(true), SimulatedDisk::default());
                let failing = if of_target { &to } else { &from };
                failing.fail_at(call, fault);
                let converted = convert(&from, &to);
                if !failing.has_failed() {
                    converted.expect("without a fault there is no error");
                    println!("{fault:?}: {} calls", call - 1);
                    break;
                }
                for keeps in [false, true] {
                    let files = to.platter().lose_power(|_| keeps);
                    let is_there = found_at_last(&from, &files);
                    let is_there = is_there.unwrap_or_else(|wrong| panic!("{call}: {wrong}"));
                    assert!(is_there || converted.is_err(), "{call}: success, and it is lost");
                }
            }
        }
    }
}

#[test]
fn a_conversion_that_the_application_refuses_leaves_nothing() {
    let (from, to) = (old_disk(true), SimulatedDisk::default());
    let refused = Store::<Naive>::convert_with(
        PATH,
        options(1, &from),
        ActStore::refuse,
        PATH,
        options(2, &to),
        |_, _| Err("no".into()),
    );
    let refused = refused.expect_err("it refuses").to_string();
    assert!(refused.contains("could not be converted: no; the old one is as it was"), "{refused}");
    assert!(!found(&to.platter().lose_power(|_| true)).expect("it is empty"));
    let wrong = Store::<Naive>::convert_with(
        PATH,
        options(7, &from),
        ActStore::refuse,
        PATH,
        options(2, &to),
        |_, _| Ok(()),
    );
    assert!(matches!(wrong, Err(Error::Foreign { .. })), "{wrong:?}");
}
