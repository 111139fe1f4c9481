//! The log: what is recovered must be the records `1..=n` as they were written, with every one that
//! was acknowledged, and a crash must never be taken for damage.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Random, crash_everywhere, enough, must_find, seed};
use crate::application::Owner;
use crate::disk::{Directory, Location};
use crate::disk::{Fault, Files, Platter, SimulatedDisk};
use crate::error::Error;
use crate::log::Header;
use crate::log::reader::{Report, recover};
use crate::log::writer::Writer;
use crate::mutant::Mutant;

fn directory(disk: &SimulatedDisk) -> Arc<Directory> {
    let disk = Arc::new(disk.clone());
    Arc::new(Directory::existing(Location::on("simulated", disk)).expect("it is there"))
}

/// Record `number`, of up to a few hundred bytes; some go over a sector's edge.
fn payload(number: u64, length: usize) -> Vec<u8> {
    let seed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
    (0..length).map(|index| seed[index % 8].wrapping_add((index / 8) as u8)).collect()
}

/// Reads the records from the first on, and checks each.
fn read(directory: &Directory) -> Result<Report, Error> {
    let mut next = 1;
    recover(directory, 0, false, |record, _| {
        let (number, bytes) = (record.sequence, record.payload);
        assert_eq!(number, next, "without gaps");
        assert!(bytes == payload(number, bytes.len()), "record {number} is another");
        next += 1;
        Ok(ControlFlow::Continue(()))
    })
}

/// The number of the last record that `files` yield; or what is wrong.
fn recovered(files: &Files) -> Result<u64, String> {
    let found = read(&directory(&SimulatedDisk::holding(files)));
    found.map(|report| report.next - 1).map_err(|error| error.to_string())
}

/// After this many changes of the disk, all records up to a number were known to be durable.
#[derive(Default)]
struct Oracle(Vec<(usize, u64)>);

impl Oracle {
    fn judge(&self, changes: usize, found: &Result<u64, String>) -> Result<u64, String> {
        let last = found.clone()?;
        let acknowledged = self.0.iter().rev().find(|(at, _)| *at <= changes);
        match acknowledged {
            Some(&(_, number)) if last < number => {
                Err(format!("record {number} was acknowledged, the log ends with {last}"))
            }
            _ => Ok(last),
        }
    }
}

/// Opens the log as a process does: recovery, then a new segment.
fn open(disk: &SimulatedDisk, oracle: &mut Oracle) -> Result<Writer, Error> {
    let directory = directory(disk);
    let found = read(&directory)?;
    let header =
        Header::new(0, 0, found.next.wrapping_mul(0xD1B5_4A32_D192_ED03), Owner::default());
    let writer = Writer::resume(directory, &found, header)?;
    oracle.0.push((disk.changes(), found.next - 1));
    Ok(writer)
}

/// Appends records of these lengths.
fn append(writer: &mut Writer, next: &mut u64, lengths: &[usize]) {
    for &length in lengths {
        let number = writer.append(*next, &payload(*next, length)).expect("it is short");
        assert_eq!(number, *next);
        *next += 1;
    }
}

/// Two processes: batches, a new segment with and without records before it, and an end with
/// records that were written and not synced.
fn small_run() -> (SimulatedDisk, Oracle) {
    let (disk, mut oracle, mut next) = (SimulatedDisk::default(), Oracle::default(), 1);
    for _ in 0..2 {
        let mut writer = open(&disk, &mut oracle).expect("the disk is sound");
        for (index, lengths) in [&[0, 400][..], &[200, 3, 300], &[1]].into_iter().enumerate() {
            append(&mut writer, &mut next, lengths);
            writer.write().expect("the disk is sound");
            append(&mut writer, &mut next, &[5]);
            if index != 1 {
                let synced = writer.sync().expect("the disk is sound");
                oracle.0.push((disk.changes(), synced));
            }
            if index == 1 {
                append(&mut writer, &mut next, &[7]);
                writer = writer.rotate(0, next).expect("the disk is sound");
                oracle.0.push((disk.changes(), next - 1));
            }
        }
        append(&mut writer, &mut next, &[100, 600]);
        writer.write().expect("the disk is sound");
        for length in [20, 700] {
            append(&mut writer, &mut next, &[length]);
            writer.write().expect("the disk is sound");
        }
    }
    let _ = open(&disk, &mut oracle).expect("the disk is sound");
    (disk, oracle)
}

fn crash_log() -> Result<u64, String> {
    let (disk, oracle) = small_run();
    crash_everywhere(&disk, recovered, |changes, found| oracle.judge(changes, found).map(drop))
}

#[test]
fn a_small_log_survives_every_crash() {
    let _watchdog = stillframe_peers::Watchdog::start();
    println!("{} crash points", crash_log().expect("every crash is survived"));
}

#[test]
fn each_mistake_in_the_log_is_found() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for mutant in [
        Mutant::LogStartNotSynced,
        Mutant::LogNamesNotSynced,
        Mutant::LogRotatesUnsynced,
        Mutant::LogTrustsItsTail,
        Mutant::LogProvesTooMuch,
        Mutant::LogMarkedEarly,
    ] {
        must_find(mutant, crash_log);
    }
}

/// Makes four batches durable on a disk where one call fails, going on after the error, and
/// after a process that was killed with records that it had not synced.
fn persist(disk: &SimulatedDisk, oracle: &mut Oracle, errors: &mut Vec<String>) {
    let (mut batches, mut kills) = (0, 0);
    while batches < 4 {
        let mut run = || -> Result<(), Error> {
            let mut writer = open(disk, oracle)?;
            let mut next = oracle.0.last().map_or(1, |(_, number)| number + 1);
            while batches < 4 {
                append(&mut writer, &mut next, &[3, 300]);
                writer.write()?;
                if batches == 2 && kills == 0 {
                    kills = 1;
                    return Ok(());
                }
                append(&mut writer, &mut next, &[30]);
                let synced = writer.sync()?;
                oracle.0.push((disk.changes(), synced));
                batches += 1;
                if batches == 3 {
                    writer = writer.rotate(0, next)?;
                }
            }
            Ok(())
        };
        errors.extend(run().err().map(|error| error.to_string()));
    }
}

fn fail_every_call(fault: Fault) -> Result<u64, String> {
    let mut points = 0;
    for call in 1.. {
        let (disk, mut oracle, mut errors) = (SimulatedDisk::default(), Oracle::default(), vec![]);
        disk.fail_at(call, fault);
        persist(&disk, &mut oracle, &mut errors);
        if !disk.has_failed() {
            break;
        }
        assert!(errors.len() <= 1, "one call failed: {errors:?}");
        let judge = |changes, found: &_| oracle.judge(changes, found).map(drop);
        let crashed = crash_everywhere(&disk, recovered, judge);
        points += crashed.map_err(|wrong| format!("{fault:?} at call {call}: {wrong}"))?;
    }
    Ok(points)
}

#[test]
fn a_log_survives_the_failure_of_any_call() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for fault in [Fault::IO, Fault::DISK_FULL, Fault::INTERRUPTED, Fault::ShortWrite] {
        let points = fail_every_call(fault).expect("every failure is survived");
        println!("{fault:?}: {points} crash points");
    }
}

#[test]
fn trust_in_a_tail_after_a_failed_sync_is_found() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for mutant in [Mutant::LogTrustsItsTail, Mutant::LogMarkedUnnamed] {
        must_find(mutant, || fail_every_call(Fault::IO));
    }
}

/// One life of a log, with a fault at a random call, if any.
fn live(disk: &SimulatedDisk, oracle: &mut Oracle, random: &mut Random) -> Result<(), Error> {
    if random.below(3) == 0 {
        let faults = [Fault::IO, Fault::DISK_FULL, Fault::INTERRUPTED, Fault::ShortWrite];
        disk.fail_at(1 + random.below(40), faults[random.below(4) as usize]);
    }
    let mut writer = open(disk, oracle)?;
    let mut next = oracle.0.last().map_or(1, |(_, number)| number + 1);
    for _ in 0..random.below(12) {
        for _ in 0..random.below(6) {
            let longest = [10, 300, 3_000][random.below(3) as usize];
            let length = random.below(longest) as usize;
            append(&mut writer, &mut next, &[length]);
        }
        match random.below(8) {
            0 => {
                writer = writer.rotate(0, random.next())?;
                oracle.0.push((disk.changes(), next - 1));
            }
            1..=3 => writer.write()?,
            _ => {
                let synced = writer.sync()?;
                oracle.0.push((disk.changes(), synced));
            }
        }
    }
    Ok(())
}

#[test]
fn longer_logs_survive_random_crashes_life_after_life() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let seed = seed();
    let mut random = Random(seed);
    let mut points = 0;
    while points < enough() {
        let mut files = Files::new();
        let mut last = 0;
        for life in 0..6 {
            let disk = SimulatedDisk::holding(&files);
            let mut oracle = Oracle(vec![(0, last)]);
            let lived = live(&disk, &mut oracle, &mut random);
            assert!(lived.is_ok() || disk.has_failed(), "seed {seed}: {lived:?}");
            let history = disk.history();
            let ends = random.below(history.len() as u64 + 1) as usize;
            let mut platter = Platter::holding(&files);
            for changes in 0..=history.len() {
                if changes > 0 {
                    platter.apply(&history[changes - 1]);
                }
                for _ in 0..4 {
                    let crashed = platter.lose_power(random.subset());
                    points += 1;
                    let judged = oracle.judge(changes, &recovered(&crashed));
                    let number = judged.unwrap_or_else(|wrong| {
                        panic!("seed {seed}, point {points}, life {life}, {changes}: {wrong}")
                    });
                    if changes == ends {
                        (files, last) = (crashed, number);
                    }
                }
            }
        }
    }
    println!("{points} crash points");
}
