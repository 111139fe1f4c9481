//! A small bank whose every state shows which transactions are in it, under lost power, failing
//! disks and restarts.

mod bad_input;
mod crashes;
mod mutants;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::algorithms::{ALL, Visitor, with};
use crate::{Completeness, Concurrent, Settings, Stop};
use stillframe_durability::disk::{Location, SimulatedDisk};
use stillframe_durability::{LogOptions, Policy};
use stillframe_peers::Random;

use super::{Durable, Error, Options, Recovery, Refused, Worker};

const CLERKS: usize = 2;
const ACCOUNTS: usize = 12;
/// Behind the accounts, for each clerk: its count, and two records that come and go together.
const RECORDS: usize = ACCOUNTS + 3 * CLERKS;
const WORDS: usize = 2;

fn count_of(clerk: usize) -> usize {
    ACCOUNTS + 3 * clerk
}

fn settings() -> Settings {
    Settings::new(RECORDS, WORDS).workers(CLERKS + 1)
}

fn location(disk: &SimulatedDisk) -> Location {
    Location::on("simulated", Arc::new(disk.clone()))
}

fn open<A: Concurrent>(disk: &SimulatedDisk) -> Result<(Durable<A>, Recovery), Error> {
    // Segments of some twenty records, so that there are several.
    let log = LogOptions::policy(Policy::Always).segment_bytes(3_000);
    Durable::open(location(disk), settings(), Options::default().log(log))
}

/// What the clerks know of their transactions, which are numbered from 1 each.
#[derive(Debug, Default)]
struct Ledger {
    tried: [AtomicU64; CLERKS],
    acknowledged: [AtomicU64; CLERKS],
}

/// Transaction number `n` of a clerk: moves money, counts itself, and lets two records come or go.
fn transact<A: Concurrent>(
    worker: &mut Worker<'_, A>,
    clerk: usize,
    n: u64,
) -> Result<(), Refused<()>> {
    let from = (n.wrapping_mul(7) + clerk as u64) as usize % ACCOUNTS;
    let to = (n.wrapping_mul(5) + 3) as usize % ACCOUNTS;
    worker.run(|tx| {
        tx.update(from, 0, |have| have.wrapping_sub(n))?;
        tx.update(to, 0, |have| have.wrapping_add(n))?;
        tx.store(count_of(clerk), &[n, !n])?;
        for twin in [1, 2] {
            match n % 3 {
                0 => drop(tx.delete(count_of(clerk) + twin)?),
                _ => tx.store(count_of(clerk) + twin, &[n, n])?,
            }
        }
        Ok::<_, Stop<()>>(())
    })
}

/// The number of a clerk's last transaction in the state.
fn last<A: Concurrent>(worker: &mut Worker<'_, A>, clerk: usize) -> Result<u64, Refused<()>> {
    worker.run(|tx| Ok(tx.read(count_of(clerk), 0)?))
}

/// Runs transactions until `over`, or until the log fails and is not begun anew.
fn work<A: Concurrent>(bank: &Durable<A>, ledger: &Ledger, clerk: usize, over: &AtomicBool) {
    let mut worker = bank.worker().expect("one for each clerk");
    'healed: while !over.load(Ordering::Relaxed) {
        let Ok(mut n) = last(&mut worker, clerk) else {
            thread::yield_now();
            continue;
        };
        // What it reads is durable.
        ledger.acknowledged[clerk].fetch_max(n, Ordering::Relaxed);
        while !over.load(Ordering::Relaxed) {
            n += 1;
            ledger.tried[clerk].fetch_max(n, Ordering::Relaxed);
            match transact(&mut worker, clerk, n) {
                Ok(()) => drop(ledger.acknowledged[clerk].fetch_max(n, Ordering::Relaxed)),
                Err(Refused::Log { .. }) => continue 'healed,
                Err(other) => panic!("{other}"),
            }
        }
    }
}

/// What is wrong with a state, if anything is.
fn judge<A: Concurrent>(bank: &Durable<A>, ledger: &Ledger) -> Result<(), String> {
    let mut worker = bank.worker().expect("one is left");
    let state = worker.run(|tx| {
        let mut all = Vec::new();
        for record in 0..RECORDS {
            let mut words = [0; WORDS];
            all.push(tx.load(record, &mut words)?.then_some(words));
        }
        Ok::<_, Stop<()>>(all)
    });
    let state = state.map_err(|error| error.to_string())?;
    let words = |record: usize| state[record].unwrap_or_default();
    let sum = (0..ACCOUNTS).fold(0_u64, |sum, account| sum.wrapping_add(words(account)[0]));
    if sum != 0 {
        return Err(format!("the accounts hold {sum}"));
    }
    for clerk in 0..CLERKS {
        let [n, check] = words(count_of(clerk));
        let [least, most] = [&ledger.acknowledged, &ledger.tried]
            .map(|numbers| numbers[clerk].load(Ordering::Relaxed));
        if !(least..=most).contains(&n) {
            return Err(format!("clerk {clerk}: {n} of {least} acknowledged, {most} tried"));
        }
        if n > 0 && check != !n {
            return Err(format!("clerk {clerk}: half of transaction {n}"));
        }
        let twin = (n > 0 && n % 3 != 0).then_some([n, n]);
        for record in [1, 2].map(|twin| count_of(clerk) + twin) {
            if state[record] != twin {
                return Err(format!("record {record} is {:?} after {n}", state[record]));
            }
        }
    }
    Ok(())
}

/// Lets the clerks work while this thread takes checkpoints: so many that succeed, or until the
/// disk has failed so often.
fn day<A: Concurrent>(bank: &Durable<A>, ledger: &Ledger, checkpoints: u64, failures: u64) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for clerk in 0..CLERKS {
            let over = &over;
            scope.spawn(move || work(bank, ledger, clerk, over));
        }
        let (mut done, mut failed, before) = (0, 0, progress(ledger));
        while done < checkpoints && failed < failures {
            match bank.checkpoint() {
                Ok(checkpoint) => done += u64::from(checkpoint.left.is_none()),
                Err(_) => failed += 1,
            }
        }
        // So that the log has something behind the last one.
        while failed < failures && progress(ledger) < before + 5 && bank.failure().is_none() {
            thread::yield_now();
        }
        over.store(true, Ordering::Relaxed);
    });
}

fn progress(ledger: &Ledger) -> u64 {
    ledger.acknowledged.iter().map(|number| number.load(Ordering::Relaxed)).sum()
}

/// Runs a generic function of a seed for every algorithm that takes images.
macro_rules! for_all {
    ($body:ident, $random:expr) => {{
        struct Each<'r>(&'r mut Random);
        impl Visitor for Each<'_> {
            type Output = ();
            fn visit<A: Concurrent>(self) {
                $body::<A>(self.0);
            }
        }
        for info in ALL.iter().filter(|info| info.image != Completeness::Nothing) {
            println!("{}", info.name);
            with(info.name, Each($random)).expect("it is in the registry");
        }
    }};
}
use for_all;

/// A disk after a loss of power, which keeps some of what was not synced.
fn after_power_loss(disk: &SimulatedDisk, random: &mut Random) -> SimulatedDisk {
    let seed = random.next();
    let kept = |piece: u64| Random::with_seed(seed ^ piece).below(2) == 0;
    SimulatedDisk::holding(&disk.platter().lose_power(kept))
}

#[test]
fn what_was_committed_is_there_after_a_restart() {
    fn body<A: Concurrent>(random: &mut Random) {
        let (disk, ledger) = (SimulatedDisk::default(), Ledger::default());
        for round in 0..4 {
            let (bank, recovery) = open::<A>(&disk).expect("the disk is sound");
            assert_eq!(recovery.image > 0, round > 0);
            judge(&bank, &ledger).expect("all is there");
            // More than are merged.
            day(&bank, &ledger, 3 + random.below(12) as u64, 1);
            judge(&bank, &ledger).expect("as in memory");
        }
    }
    for_all!(body, &mut Random::new("restart"));
}
