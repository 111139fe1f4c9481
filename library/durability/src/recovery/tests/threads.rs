//! Large states, recovered by several threads past the page cache: from full checkpoints and from
//! chains, packed and not, into memory and through the algorithm.

use std::sync::Arc;

use stillframe::algorithms::hourglass::HourglassCopy;
use stillframe::algorithms::imprint::Imprint;

use super::super::*;
use crate::chain::Increments;
use crate::crash::{Random, seed};
use crate::disk::{Disk, Fault, Files, Location, SimulatedDisk};
use crate::store::Store;

/// Words of several stretches.
const MANY: usize = 300_001;

fn is_long() -> bool {
    std::env::var_os("STILLFRAME_LONG").is_some()
}

/// A full checkpoint and `increments` upon it, packed or not: the files, and the words at each.
fn chain(increments: u64, packs: bool, random: &mut Random) -> (Files, Vec<Vec<u64>>) {
    let disk = SimulatedDisk::default();
    let options = Options::words(MANY).disk(Arc::new(disk.clone()));
    let options = options.increments(Increments::at_most(usize::MAX).percent(u64::MAX));
    let options = if packs { options.pack() } else { options };
    let mut store = Store::<Imprint>::open_with("simulated", options).expect("sound");
    for index in 0..MANY {
        store.write(index, (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (index % 64));
    }
    let mut states = Vec::new();
    for round in 0..=increments {
        // Enough for stretches of their own.
        for _ in 0..if round > 0 { 400 } else { 0 } {
            let index = random.below(MANY as u64) as usize;
            store.write(index, random.next());
        }
        store.checkpoint_and_wait().expect("the disk is sound");
        states.push((0..MANY).map(|index| store.read(index)).collect());
    }
    drop(store);
    (disk.platter().lose_power(|_| true), states)
}

fn holding(files: &Files, direct: bool) -> SimulatedDisk {
    SimulatedDisk::holding(files).with_direct(direct)
}

type Recovered = Result<Vec<u64>, Error>;

/// The words that are recovered from a disk.
fn recovered_by<A: Algorithm>(disk: &SimulatedDisk, threads: usize) -> Recovered {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let directory = Directory::existing(Location::on("simulated", shared)).expect("it is there");
    let found = recover::<A>(&directory, &Options::words(MANY).load_threads(threads))?;
    Ok((0..MANY).map(|index| found.algorithm.read(index)).collect())
}

/// Ways to recover: in place, and through the algorithm.
const WAYS: [fn(&SimulatedDisk, usize) -> Recovered; 2] =
    [recovered_by::<Imprint>, recovered_by::<HourglassCopy>];

#[test]
fn several_threads_recover_past_the_page_cache_what_one_does_through_it() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let mut random = Random(seed());
    for (increments, packs) in [(0, false), (0, true), (2, false), (2, true)] {
        let (files, states) = chain(increments, packs, &mut random);
        for recovered in WAYS {
            for (threads, direct) in [(1, false), (1, true), (2, false), (2, true), (5, true)] {
                let found = recovered(&holding(&files, direct), threads).expect("sound");
                let is_same = Some(&found) == states.last();
                assert!(is_same, "{increments} increments, packed {packs}, {threads} threads");
            }
        }
    }
}

#[test]
fn each_call_may_fail_or_be_interrupted() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let mut random = Random(seed());
    let step = if is_long() { 1 } else { 19 };
    for (increments, packs) in [(0, false), (2, true)] {
        let (files, states) = chain(increments, packs, &mut random);
        for (recovered, (threads, direct)) in WAYS.into_iter().zip([(5, true), (2, false)]) {
            let disk = holding(&files, direct);
            recovered(&disk, threads).expect("sound");
            for (fault, is_harmless) in [(Fault::IO, false), (Fault::INTERRUPTED, true)] {
                for call in (1 + random.below(step)..=disk.calls()).step_by(step as usize) {
                    let disk = holding(&files, direct);
                    disk.fail_at(call, fault);
                    match recovered(&disk, threads) {
                        Ok(found) => assert!(is_harmless && Some(&found) == states.last()),
                        Err(error) => assert!(!is_harmless, "call {call}: {error}"),
                    }
                    // Again, as after a crash: nothing was changed.
                    let again = recovered(&disk, threads).expect("the disk is sound again");
                    assert!(Some(&again) == states.last(), "call {call}");
                }
            }
        }
    }
}

/// Damage anywhere is refused with the same words, by any reader.
#[test]
fn any_number_of_threads_reports_damage_in_the_same_words() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let mut random = Random(seed());
    let rounds = if is_long() { 2000 } else { 6 };
    for (increments, packs) in [(0, false), (0, true), (2, false), (2, true)] {
        let (sound, states) = chain(increments, packs, &mut random);
        for _ in 0..rounds {
            let mut files = sound.clone();
            for _ in 0..=random.below(2) {
                let victim = random.below(files.len() as u64) as usize;
                let file = Arc::make_mut(files.values_mut().nth(victim).expect("there are"));
                let at = random.below(file.len() as u64 + 1) as usize;
                match file.get_mut(at) {
                    Some(byte) if random.below(4) > 0 => *byte ^= 1 << random.below(8),
                    _ => file.truncate(at),
                }
            }
            for recovered in WAYS {
                let by = |threads| match recovered(&holding(&files, true), threads) {
                    // An increment without its header may be passed over for a whole one.
                    Ok(found) => {
                        assert!(states.contains(&found), "a wrong state");
                        format!("state {:?}", states.iter().position(|state| *state == found))
                    }
                    Err(error) => error.to_string(),
                };
                let expected = by(1);
                assert!(!expected.ends_with(&format!("Some({increments})")), "unnoticed");
                assert_eq!([by(2), by(5)], [expected.clone(), expected]);
            }
        }
    }
}
