//! Crashes: the proof that what was acknowledged is there after any of them.
//!
//! A program runs on a simulated disk. At crash points all over the disk's history the power is
//! lost, with some of what was not synced; what is recovered then is compared with an oracle that
//! knows what was acknowledged when. The mutants show that the proof can fail: each mistake must be
//! found.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::disk::{self, Files, Platter, SimulatedDisk};
use crate::mutant::{Mutant, with_mutant};

mod acts;
mod beside;
mod branches;
mod chains;
mod checkpoints;
mod convert;
mod log;
mod panics;
mod removal;
mod replace;
mod rewind;
mod store;

/// Crashes everywhere in the history of `disk`, which was empty.
fn crash_everywhere<T>(
    disk: &SimulatedDisk,
    recover: impl Fn(&Files) -> T,
    judge: impl Fn(usize, &T) -> Result<(), String>,
) -> Result<u64, String> {
    disk::crash_everywhere(&Files::new(), &disk.history(), recover, judge)
}

/// Crashes after one in `step` changes of the history of `disk`, which held `files`, once each, and
/// after another, which is returned with what `judge` says of it: life goes on there.
fn crash_at_random(
    disk: &SimulatedDisk,
    files: &Files,
    random: &mut Random,
    step: u64,
    judge: impl Fn(usize, &Files) -> Result<u64, String>,
) -> Result<(Files, u64), String> {
    let history = disk.history();
    let ends = random.below(history.len() as u64 + 1) as usize;
    let (mut platter, mut last) = (Platter::holding(files), None);
    for changes in 0..=history.len() {
        if changes > 0 {
            platter.apply(&history[changes - 1]);
        }
        if random.below(step) > 0 && changes != ends {
            continue;
        }
        let crashed = platter.lose_power(random.subset());
        let number = judge(changes, &crashed);
        let number = number.map_err(|wrong| format!("after {changes} changes: {wrong}"))?;
        if changes == ends {
            last = Some((crashed, number));
        }
    }
    Ok(last.expect("one of the changes was it"))
}

/// Runs `proof` on code that makes a mistake; it must fail.
fn must_find(mutant: Mutant, proof: impl FnOnce() -> Result<u64, String>) {
    if !mutant.is_chosen() {
        return;
    }
    match with_mutant(mutant, proof) {
        Err(wrong) => println!("{mutant:?}: {wrong}"),
        Ok(points) => panic!("{mutant:?} was not found at {points} crash points"),
    }
}

/// A test here makes each mistake.
#[test]
fn every_mistake_is_made() {
    let made = [
        include_str!("acts.rs"),
        include_str!("beside.rs"),
        include_str!("branches.rs"),
        include_str!("chains.rs"),
        include_str!("checkpoints.rs"),
        include_str!("convert.rs"),
        include_str!("log.rs"),
        include_str!("panics.rs"),
        include_str!("removal.rs"),
        include_str!("rewind.rs"),
        include_str!("store.rs"),
    ];
    for mutant in Mutant::ALL {
        let name = format!("Mutant::{mutant:?}");
        assert!(made.iter().any(|test| test.contains(&name)), "no test makes {name}");
    }
}

/// Crash points of a random test.
fn enough() -> u64 {
    stillframe_peers::rounds(20_000, 2_000_000) as u64
}

/// xorshift64; the seed is not 0.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }
    /// A subset of pieces: few, half or most of them.
    fn subset(&mut self) -> impl FnMut(u64) -> bool {
        let (chance, mut random) = ([0, 10, 50, 90, 100][self.below(5) as usize], self.next());
        move |_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % 100 < chance
        }
    }
}

pub(crate) fn seed() -> u64 {
    let given = std::env::var("STILLFRAME_SEED").ok().and_then(|seed| seed.parse().ok());
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let seed = given.unwrap_or(clock.as_nanos() as u64) | 1;
    println!("seed {seed}; STILLFRAME_SEED={seed} repeats it");
    seed
}
