//! Power is lost and calls fail, at every place of small lives and at random ones of TPC-C.

use std::ops::Range;
use std::sync::Arc;

use anyhow::{Result, ensure};

use crate::tpcc::{Layout, Names, Plan, Read, Request, Scale, Words, check, fill, run};
use stillframe_durability::Policy;
use stillframe_durability::disk::{Fault, Files, Location, SimulatedDisk, crash_everywhere};
use stillframe_measure::draw::Rng;

use super::mutant::with_mutant;
use super::*;

fn open(disk: &SimulatedDisk, words: usize) -> Result<(Aries, Recovery), Error> {
    open_with(disk, Options::words(words))
}

fn open_with(disk: &SimulatedDisk, options: Options) -> Result<(Aries, Recovery), Error> {
    Aries::open(Location::on("simulated", Arc::new(disk.clone())), options)
}

const SMALL: usize = 6;

/// Transaction `n` writes the last word, and one of the others.
fn transact(state: &mut Aries, n: u64) -> Result<u64, Error> {
    state.write(SMALL - 1, n);
    state.write((n % 5) as usize, n);
    state.commit()
}

/// How many transactions a state holds, each wholly.
fn found(state: &Aries) -> Result<u64> {
    let last = state.read(SMALL - 1);
    for word in 0..5 {
        let due = (1..=last).rev().find(|n| n % 5 == word).unwrap_or(0);
        let there = state.read(word as usize);
        ensure!(there == due, "after {last} transactions word {word} is {there}, not {due}");
    }
    Ok(last)
}

#[test]
fn what_was_acknowledged_is_there_after_every_crash() {
    println!("{} crash points", crashes().expect("survived"));
}

fn crashes() -> Result<u64, String> {
    let disk = SimulatedDisk::default();
    let mut acknowledged = Vec::new();
    for life in 0..3 {
        let (mut state, _) = open(&disk, SMALL).expect("a sound disk");
        for n in 1..=6 {
            let n = life * 6 + n;
            let sequence = transact(&mut state, n).expect("a sound disk");
            state.wait_durable(sequence).expect("a sound disk");
            acknowledged.push((disk.changes(), n));
            if n % 3 == 1 {
                state.checkpoint().expect("a sound disk");
            }
            if n % 3 == 0 {
                state.wait_checkpoint().expect("a sound disk");
            }
        }
        state.close().expect("a sound disk");
    }
    let recover = |files: &Files| {
        let disk = SimulatedDisk::holding(files);
        let (mut state, _) = open(&disk, SMALL)?;
        let there = found(&state)?;
        // It goes on from there, and does so again.
        transact(&mut state, there + 1)?;
        if there % 2 == 0 {
            state.checkpoint()?;
        }
        state.close()?;
        let (state, _) = open(&disk, SMALL)?;
        let more = found(&state)?;
        ensure!(more == there + 1, "{more} transactions after {there} and one more");
        Ok(there)
    };
    let judge = |changes: usize, there: &Result<u64>| {
        let there = *there.as_ref().map_err(|why| format!("{why:#}"))?;
        let due = acknowledged.iter().filter(|&&(at, _)| at <= changes).map(|&(_, n)| n);
        let due = due.max().unwrap_or(0);
        if there >= due { Ok(()) } else { Err(format!("{there} of {due} transactions")) }
    };
    crash_everywhere(&Files::new(), &disk.history(), recover, judge)
}

/// A call fails: what was acknowledged is there, and another opening goes on.
#[test]
fn each_call_may_fail() {
    let run = |fails: Option<(u64, Fault)>| {
        let disk = SimulatedDisk::default();
        if let Some((call, fault)) = fails {
            disk.fail_at(call, fault);
        }
        let mut acknowledged = 0;
        let mut life = || -> Result<(), Error> {
            let (mut state, _) = open(&disk, SMALL)?;
            for n in 1..=12 {
                let sequence = transact(&mut state, n)?;
                state.wait_durable(sequence)?;
                acknowledged = n;
                if n % 3 == 1 {
                    state.checkpoint()?;
                }
                if n % 3 == 0 {
                    state.wait_checkpoint()?;
                }
            }
            state.close()
        };
        let ended = life();
        let failed = disk.has_failed();
        assert!(ended.is_ok() || failed, "{ended:?}");
        let calls = disk.calls();
        let disk = SimulatedDisk::holding(&disk.platter().lose_power(|_| false));
        let (state, _) = open(&disk, SMALL).expect("what is there is sound");
        let there = found(&state).unwrap_or_else(|wrong| panic!("{fails:?}: {wrong}"));
        assert!(there >= acknowledged, "{fails:?}: {there} of {acknowledged}");
        calls
    };
    for call in 1..=run(None) {
        for fault in [Fault::DISK_FULL, Fault::IO] {
            run(Some((call, fault)));
        }
    }
}

#[test]
fn bad_input_is_told() {
    let disk = SimulatedDisk::default();
    let (mut state, _) = open(&disk, SMALL).expect("a sound disk");
    let locked = open(&disk, SMALL).expect_err("it is open").to_string();
    assert!(locked.contains("use"), "{locked}");
    transact(&mut state, 1).expect("a sound disk");
    state.checkpoint().expect("a sound disk");
    assert!(!state.checkpoint().expect("no error"), "one is under way");
    state.close().expect("a sound disk");
    let other = open(&disk, 7).expect_err("another size").to_string();
    assert_eq!(other, "the state there has 6 words, 7 are asked for");
    let files = disk.platter().lose_power(|_| true);
    for (name, bytes) in &files {
        if bytes.is_empty() || name.ends_with("lock") {
            continue;
        }
        for at in 0..bytes.len() {
            let mut damaged = files.clone();
            let bytes = damaged.get_mut(name).expect("it is there");
            Arc::make_mut(bytes)[at] ^= 4;
            // Whatever is read is what was written: damage is told, or lies behind the end.
            if let Ok((state, _)) = open(&SimulatedDisk::holding(&damaged), SMALL) {
                assert_eq!(found(&state).ok(), Some(1), "{name}, byte {at}");
            }
        }
    }
    let mut random = Rng(3);
    let words: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
    for _ in 0..100_000 {
        let bytes: Vec<u8> = (0..random.below(40)).map(|_| random.next() as u8).collect();
        let _ = redo::apply(&bytes, &words); // an error at worst
    }
}

#[test]
fn records_hold_any_word_and_any_value() {
    let words: Vec<AtomicU64> = (0..1000).map(|_| AtomicU64::new(0)).collect();
    let (mut redo, mut random, mut due) = (Redo::default(), Rng(5), vec![0; 1000]);
    for _ in 0..10_000 {
        let (index, value) = (random.below(1000) as usize, random.next() >> random.below(64));
        redo.push(index, value);
        due[index] = value;
    }
    redo.push(999, u64::MAX);
    due[999] = u64::MAX;
    redo::apply(redo.bytes(), &words).expect("it was written so");
    let found: Vec<u64> = words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
    assert_eq!(found, due);
}

/// Lives that end by loss of power, in which the disk is slow to sync and checkpoints follow one
/// another, whose copies so hold what no record on the disk has yet.
fn lives(seed: u64) -> Result<()> {
    let mut random = Rng(seed);
    let mut disk = SimulatedDisk::default();
    let (mut acknowledged, mut last) = (0, 0);
    // Segments of few records, so that some are removed.
    let log = LogOptions::policy(Policy::Always).segment_bytes(4096);
    for _ in 0..6 {
        let (mut state, _) = open_with(&disk, Options::words(SMALL).log(log.clone()))?;
        let there = found(&state)?;
        let due = acknowledged..=last;
        ensure!(due.contains(&there), "{there} transactions, of which {due:?} are due");
        last = there;
        for _ in 0..5 + random.below(30) {
            state.checkpoint()?;
            last += 1;
            let sequence = transact(&mut state, last)?;
            match random.below(8) {
                0 => {
                    state.wait_durable(sequence)?;
                    acknowledged = last;
                }
                1 => std::thread::yield_now(),
                2 => state.wait_checkpoint()?,
                _ => {}
            }
        }
        let mut keeps = Rng(random.next());
        let files = disk.platter().lose_power(|_| keeps.below(2) == 0);
        drop(state);
        disk = SimulatedDisk::holding(&files);
    }
    Ok(())
}

#[test]
fn lives_that_end_by_loss_of_power_lose_nothing() {
    (0..100).for_each(|seed| lives(seed).unwrap_or_else(|why| panic!("seed {seed}: {why:#}")));
}

#[test]
fn mistakes_are_found() {
    for &mutant in Mutant::ALL {
        // Which lives find it depends on the threads; the last ones are a last resort.
        let found = |seeds: Range<u64>| {
            seeds.into_iter().any(|seed| with_mutant(mutant, || lives(seed)).is_err())
        };
        let crashes = || with_mutant(mutant, crashes).is_err();
        assert!(found(0..300) || crashes() || found(300..30_000), "{mutant:?} is not found");
    }
}

/// TPC-C on such a state; the last word counts transactions.
struct Shop(Aries);

impl Read for Shop {
    fn read(&self, word: usize) -> u64 {
        self.0.read(word)
    }
}

impl Words for Shop {
    fn write(&mut self, word: usize, value: u64) {
        self.0.write(word, value);
    }
}

/// Checkpoints follow one another under TPC-C, and power is lost anywhere: what is found is the
/// state after a number of transactions, none in part.
#[test]
fn no_transaction_of_tpc_c_is_there_in_part() {
    let layout = Layout::new(Scale { orders_room: 300, ..Scale::tiny(1) }).expect("small tables");
    let (plan, mut random) = (Plan::new(3), Rng(3));
    let requests: Vec<Request> =
        (2..1202).map(|now| plan.draw(&layout, &mut random, now)).collect();
    let count = layout.words();
    let mut disk = SimulatedDisk::default();
    let mut done = 0;
    let (mut images, mut replayed) = (0, 0);
    while done < requests.len() {
        let (mut state, recovery) = open(&disk, count + 1).expect("a sound disk");
        images += usize::from(recovery.loaded > 0);
        replayed += recovery.records;
        let there = state.read(count) as usize;
        assert!(there >= done, "{there} of {done} transactions that were acknowledged");
        // What a plain state holds after as many.
        let mut due = vec![0; count];
        fill(&layout, &mut due, 1);
        let names = Names::read(&layout, &due);
        for request in &requests[..there] {
            run(&layout, &names, &mut due, request);
        }
        if there > 0 || recovery.records > 0 {
            let differs = (0..count).find(|&word| state.read(word) != due[word]);
            assert_eq!(differs, None, "after {there} transactions");
        } else {
            let mut shop = Shop(state);
            fill(&layout, &mut shop, 1);
            state = shop.0;
            let sequence = state.commit().expect("a sound disk");
            state.wait_durable(sequence).expect("a sound disk");
        }
        let mut shop = Shop(state);
        check(&layout, &shop).expect("what holds between transactions");
        let until = (there + 50 + random.below(300) as usize).min(requests.len());
        for (number, request) in (there..until).zip(&requests[there..]) {
            shop.0.checkpoint().expect("a sound disk");
            run(&layout, &names, &mut shop, request);
            shop.0.write(count, number as u64 + 1);
            let sequence = shop.0.commit().expect("a sound disk");
            if random.below(20) == 0 {
                shop.0.wait_durable(sequence).expect("a sound disk");
                done = number + 1;
            }
        }
        if until == requests.len() {
            done = until;
        }
        if random.below(2) == 0 {
            shop.0.wait_checkpoint().expect("a sound disk");
        }
        // Power is lost now: the disk keeps what it likes of what was not synced.
        let mut keeps = Rng(random.next());
        let files = disk.platter().lose_power(|_| keeps.below(2) == 0);
        drop(shop);
        disk = SimulatedDisk::holding(&files);
    }
    println!("{images} times a checkpoint was there, {replayed} records replayed");
    assert!(images > 1 && replayed > 100, "{images} checkpoints, {replayed} records");
}
