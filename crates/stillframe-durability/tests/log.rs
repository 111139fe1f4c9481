//! The log of a store as an embedder meets it.

#![allow(clippy::unwrap_used, reason = "the temporary files are this test's own")]
#![allow(clippy::result_large_err, reason = "the errors of a test may be large")]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stillframe_durability::disk::{Fault, SimulatedDisk};
use stillframe_durability::{
    Action, ApplyError, Error, LogDamage, LogOptions, Options, Policy, Store, Until,
};
use tempfile::{TempDir, tempdir};

fn directory() -> TempDir {
    tempdir().expect("a temporary directory")
}

/// Word 0 counts the actions, word 1 depends on all of them in their order.
fn apply(store: &mut Store, action: &[u8]) {
    let value: u64 = action.iter().map(|&byte| u64::from(byte)).sum();
    store.write(0, store.read(0) + 1);
    store.write(1, store.read(1).wrapping_mul(31).wrapping_add(value));
}

fn replay(store: &mut Store, action: &Action<'_>) -> Result<(), ApplyError> {
    assert_eq!(action.sequence, store.read(0) + 1, "in order, each once");
    apply(store, action.bytes);
    Ok(())
}

fn open_with(path: &Path, options: Options) -> Result<Store, Error> {
    Store::open_with_log(path, options, replay)
}

fn open(path: &Path) -> Store {
    open_with(path, Options::words(2)).expect("the directory is sound")
}

/// Logs and applies actions until there are `last`; each is its own number.
fn act(store: &mut Store, last: u64) {
    for number in store.read(0) + 1..=last {
        let action = number.to_le_bytes();
        assert_eq!(store.log(&action).expect("the disk is sound"), number);
        apply(store, &action);
    }
}

/// What word 1 is after so many actions.
fn expected(last: u64) -> u64 {
    (1..=last).fold(0, |state: u64, number| {
        let value: u64 = number.to_le_bytes().iter().map(|&byte| u64::from(byte)).sum();
        state.wrapping_mul(31).wrapping_add(value)
    })
}

fn assert_state(store: &Store, last: u64) {
    assert_eq!((store.read(0), store.read(1)), (last, expected(last)));
}

/// The names of the log's segments, sorted.
fn segments(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name.starts_with("log-"));
    names.sort();
    names
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

#[test]
fn actions_come_back_with_and_without_checkpoints() {
    for policy in [Policy::Always, Policy::EverySecond, Policy::No] {
        let directory = directory();
        let options = || Options::words(2).log(LogOptions::policy(policy));
        let mut store = open_with(directory.path(), options()).expect("sound");
        act(&mut store, 1000);
        drop(store);
        for round in 1..=3 {
            let mut store = open_with(directory.path(), options()).expect("sound");
            let last = round * 1000;
            assert_state(&store, last);
            let log = store.recovery().log.as_ref().expect("there is one");
            assert_eq!((log.records, log.last, &log.torn), (1000, last, &None), "{policy:?}");
            store.checkpoint_and_wait().expect("the disk is sound");
            assert_eq!(store.stats().log.expect("there is one").durable, last);
            act(&mut store, last + 1000);
            store.close().expect("the disk is sound");
        }
    }
}

#[test]
fn a_checkpoint_in_full_flight_counts_what_was_applied_and_no_more() {
    let directory = directory();
    let options = || {
        let log = LogOptions::default().segment_bytes(20_000);
        Options::words(2).every(Duration::from_millis(1)).log(log)
    };
    let mut last = 0;
    for _ in 0..10 {
        let mut store = open_with(directory.path(), options()).expect("sound");
        assert_state(&store, last);
        let before = store.stats().checkpoints;
        while store.stats().checkpoints < before + 3 {
            act(&mut store, last + 1);
            last += 1;
            store.point();
        }
    }
    assert!(!segments(directory.path()).contains(&format!("log-{:020}", 1)), "it is truncated");
}

#[test]
fn waiting_makes_durable_whatever_the_policy() {
    for policy in [Policy::Always, Policy::EverySecond, Policy::No] {
        let disk = SimulatedDisk::default();
        let (sender, told) = mpsc::channel();
        let log = LogOptions::policy(policy).on_durable(move |durable| {
            sender.send(durable.expect("the disk is sound")).expect("the test listens");
        });
        let options = Options::words(2).disk(Arc::new(disk.clone())).log(log);
        let mut store = open_with(Path::new("simulated"), options).expect("sound");
        act(&mut store, 10);
        store.wait_durable(7).expect("the disk is sound");
        assert!(store.durable() >= 7);
        assert!(told.recv().expect("called") >= 1);
        let crashed = Arc::new(SimulatedDisk::holding(&disk.platter().lose_power(|_| false)));
        let found = open_with(Path::new("crashed"), Options::words(2).disk(crashed));
        assert!(found.expect("sound").read(0) >= 7, "{policy:?}");
        let error = store.wait_durable(11).expect_err("there is no such action");
        assert!(matches!(error, Error::NoSuchRecord { sequence: 11, last: 10 }), "{error}");
    }
}

#[test]
fn a_slow_disk_makes_the_application_wait_with_bounded_memory() {
    let directory = directory();
    let log = LogOptions::default().waiting_bytes_max(1000);
    let mut store = open_with(directory.path(), Options::words(2).log(log)).expect("sound");
    let mut records = 0;
    let stats = loop {
        store.log(&[1; 300]).expect("the disk is sound");
        records += 1;
        let stats = store.stats().log.expect("there is one");
        assert!(stats.waiting_bytes <= 1000);
        if stats.waits > 0 {
            break stats;
        }
    };
    assert_eq!((stats.records, stats.bytes), (records, records * 300));
    store.log(&[1; 5000]).expect("one larger than the limit waits until it is alone");
    store.wait_durable(records + 1).expect("the disk is sound");
    let stats = store.stats().log.expect("there is one");
    assert_eq!((stats.lag, stats.waiting_bytes, stats.durable), (0, 0, records + 1));
    assert!(stats.batches > 0 && stats.syncs <= stats.batches && stats.syncs > 0);
}

#[test]
fn a_failed_sync_poisons_the_log_and_nothing_is_acknowledged_after_it() {
    let disk = SimulatedDisk::default();
    let failures = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&failures);
    let log = LogOptions::default().on_durable(move |durable| {
        counted.fetch_add(u64::from(durable.is_err()), Ordering::Relaxed);
    });
    let on = |disk: &SimulatedDisk| Options::words(2).disk(Arc::new(disk.clone()));
    let mut store = open_with(Path::new("simulated"), on(&disk).log(log)).expect("sound");
    act(&mut store, 5);
    store.wait_durable(5).expect("the disk is sound");
    disk.fail_at(disk.calls() + 2, Fault::IO); // a write, then its sync
    act(&mut store, 6);
    let error = store.wait_durable(6).expect_err("it failed");
    assert!(matches!(error, Error::LogFailed { durable: 5, .. }), "{error}");
    let error = store.log(b"more").expect_err("the log is of no use").to_string();
    assert!(error.contains("the log failed: syncing"), "{error}");
    assert!(error.contains("records up to 5 are durable"), "{error}");
    store.checkpoint_and_wait().expect_err("it would be ahead of the log");
    store.wait_durable(5).expect("that is true still");
    let stats = store.stats().log.expect("there is one");
    assert!((stats.durable, stats.lag) == (5, 1) && stats.failed.is_some());
    store.close().expect_err("told once more");
    assert_eq!(failures.load(Ordering::Relaxed), 1);
    // What was in doubt may be there or not; the log goes on either way.
    let mut store = open_with(Path::new("simulated"), on(&disk)).expect("sound");
    let last = store.read(0);
    assert!((5..=6).contains(&last));
    act(&mut store, 8);
    store.close().expect("the disk is sound");
}

#[test]
fn a_store_with_a_log_is_not_opened_without() {
    let directory = directory();
    let mut store = open(directory.path());
    act(&mut store, 3);
    drop(store);
    let error = Store::open(directory.path(), Options::words(2)).expect_err("there is a log");
    assert!(matches!(error, Error::NeedsLog { .. }), "{error}");
    let mut store = open(directory.path());
    store.checkpoint_and_wait().expect("the disk is sound");
    drop(store);
    for name in segments(directory.path()) {
        fs::remove_file(directory.path().join(name)).unwrap();
    }
    Store::open(directory.path(), Options::words(2)).expect_err("the checkpoint tells of a log");
    let error = open_with(directory.path(), Options::words(2)).expect_err("it is gone");
    assert!(error.to_string().contains("the log from record 4 on is in no file"), "{error}");
}

#[test]
fn a_store_without_a_log_can_be_given_one() {
    let directory = directory();
    let mut store = Store::open(directory.path(), Options::words(2)).expect("sound");
    assert!(matches!(store.log(b"x"), Err(Error::NoLog)));
    assert!(matches!(store.wait_durable(1), Err(Error::NoLog)));
    store.checkpoint_and_wait().expect("the disk is sound");
    drop(store);
    let mut store = open(directory.path());
    act(&mut store, 3);
    drop(store);
    assert_state(&open(directory.path()), 3);
}

#[test]
fn an_action_that_cannot_be_applied_stops_the_recovery() {
    let directory = directory();
    let mut store = open(directory.path());
    act(&mut store, 3);
    drop(store);
    let refused = Store::open_with_log(directory.path(), Options::words(2), |store, action| {
        assert!(matches!(store.log(b"x"), Err(Error::Replaying)));
        store.checkpoint();
        assert_eq!(store.point(), None);
        assert!(matches!(store.checkpoint_and_wait(), Err(Error::Replaying)));
        if action.sequence == 2 { Err("what is this?".into()) } else { replay(store, action) }
    });
    let error = refused.expect_err("the second one").to_string();
    assert!(error.contains("record 2 of the log could not be applied: what is this?"), "{error}");
    assert_state(&open(directory.path()), 3);
}

#[test]
fn damage_is_refused_unless_the_loss_is_accepted() {
    let directory = directory();
    let path = directory.path();
    for last in [10, 20, 30] {
        let mut store = open(path); // each start begins a segment
        for number in store.read(0) + 1..=last {
            act(&mut store, number);
            store.wait_durable(number).expect("the disk is sound");
        }
        store.close().expect("the disk is sound");
    }
    let damaged = path.join(&segments(path)[1]);
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[64 + 36 * 4 + 30] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let before = segments(path);
    let error = open_with(path, Options::words(2)).expect_err("record 15 or near is damaged");
    let Error::Log { path: named, damage: LogDamage::Record { offset, sequence, .. } } = &error
    else {
        panic!("{error}")
    };
    let first: u64 = before[1][4..].parse().unwrap();
    assert_eq!((named, *offset, *sequence), (&damaged, 64 + 36 * 4, first + 4));
    assert_eq!(segments(path), before, "nothing was touched");

    let store = open_with(path, Options::words(2).accept_log_loss()).expect("accepted");
    assert_state(&store, first + 3);
    let log = store.recovery().log.as_ref().expect("there is one");
    let lost = log.lost.as_ref().expect("told");
    assert_eq!((lost.first, lost.last), (first + 4, Some(30)));
    assert!(lost.to_string().contains("lost: all records from"), "{lost}");
    drop(store);
    let mut store = open(path);
    assert_state(&store, first + 3);
    act(&mut store, 40);
    drop(store);
    assert_state(&open(path), 40);
    assert!(segments(path).iter().any(|name| name.ends_with(".damaged")), "kept for inspection");
}

#[test]
fn a_torn_tail_is_cut_with_a_notice() {
    let directory = directory();
    let path = directory.path();
    let mut store = open(path);
    act(&mut store, 10);
    drop(store);
    let last = path.join(segments(path).pop().unwrap());
    let bytes = fs::read(&last).unwrap();
    fs::write(&last, &bytes[..bytes.len() - 5]).unwrap();
    let store = open(path);
    assert_state(&store, 9);
    let torn = store.recovery().log.clone().expect("there is one").torn.expect("told");
    assert_eq!((&torn.path, torn.offset, torn.bytes), (&last, bytes.len() - 36, 31));
}

#[test]
fn an_older_checkpoint_and_the_log_make_up_for_a_damaged_one() {
    let directory = directory();
    let path = directory.path();
    let log = LogOptions::default().segment_bytes(500);
    let mut store = open_with(path, Options::words(2).log(log)).expect("sound");
    for round in 1..=5 {
        act(&mut store, round * 50);
        store.checkpoint_and_wait().expect("the disk is sound");
    }
    act(&mut store, 260);
    drop(store);
    let newest = path.join(format!("checkpoint-{:020}", 5));
    let mut bytes = fs::read(&newest).unwrap();
    bytes[100] ^= 1;
    fs::write(&newest, bytes).unwrap();
    let store = open(path);
    assert_state(&store, 260);
    assert_eq!(store.stats().recovered, Some(4));
}

/// An error of the disk is no damage: going back to an older checkpoint is for a person to decide.
#[test]
fn a_checkpoint_that_cannot_be_read_stops_the_recovery() {
    let disk = SimulatedDisk::default();
    let on = |disk: &SimulatedDisk| Options::words(2).disk(Arc::new(disk.clone()));
    let mut store = Store::open("simulated", on(&disk)).expect("sound");
    for number in 1..=2 {
        store.write(0, number);
        store.checkpoint_and_wait().expect("the disk is sound");
    }
    drop(store);
    let files = disk.platter().lose_power(|_| true);
    let mut unreadable = 0;
    for call in 1.. {
        let disk = SimulatedDisk::holding(&files);
        disk.fail_at(call, Fault::IO);
        match Store::open("simulated", on(&disk)) {
            Ok(store) => assert_eq!(store.read(0), 2, "call {call}"),
            Err(Error::Unreadable { .. }) => unreadable += 1,
            Err(error) => assert!(matches!(error, Error::File { .. }), "{error}"),
        }
        if !disk.has_failed() {
            break;
        }
    }
    assert!(unreadable > 1);
}

#[test]
fn the_past_is_recovered_by_number_and_by_time() {
    let directory = directory();
    let path = directory.path();
    let log = LogOptions::default().segment_bytes(400);
    let options = Options::words(2).keep_generations(4).log(log);
    let mut store = open_with(path, options.clone()).expect("sound");
    let mut times = Vec::new();
    for round in 1..=6 {
        act(&mut store, round * 10);
        store.checkpoint_and_wait().expect("the disk is sound");
        act(&mut store, round * 10 + 5);
        std::thread::sleep(Duration::from_millis(3));
        times.push((now_ms(), round * 10 + 5));
        std::thread::sleep(Duration::from_millis(3));
    }
    drop(store);
    let before = segments(path);
    let at = |until| {
        let target = tempdir().unwrap();
        let made = Store::recover_until(path, until, target.path(), Options::words(2), replay)?;
        let found = (made.read(0), made.read(1));
        assert_eq!(found.1, expected(found.0));
        drop(made);
        let again = Store::open_with_log(target.path(), Options::words(2), |_, _| {
            Err("it has no log yet".into())
        });
        assert_eq!(again.expect("sound").read(0), found.0, "durable");
        Ok::<_, Error>(found.0)
    };
    for number in 30..=65 {
        assert_eq!(at(Until::Sequence(number)).expect("kept"), number);
    }
    assert_eq!(at(Until::Sequence(1000)).expect("kept"), 65, "all there is");
    for &(time, number) in &times[2..] {
        assert_eq!(at(Until::TimeMs(time)).expect("kept"), number);
    }
    assert!(matches!(at(Until::Sequence(29)), Err(Error::TooEarly { oldest: 3, .. })));
    assert!(matches!(at(Until::TimeMs(1)), Err(Error::TooEarly { .. })));
    assert_eq!(segments(path), before, "the source stays as it is");
    let taken = Store::recover_until(path, Until::Sequence(65), path, Options::words(2), replay);
    assert!(matches!(taken, Err(Error::Locked { .. })));
    assert_state(&open(path), 65);
}

#[test]
fn the_past_is_kept_as_long_as_asked() {
    let hour = Duration::from_secs(3600);
    for (options, kept) in [
        (Options::words(2), 2),
        (Options::words(2).keep_generations(5), 5),
        (Options::words(2).keep_age(hour), 8),
        (Options::words(2).keep_age(hour).keep_bytes_max(1), 2),
        (Options::words(2).keep_age(Duration::ZERO), 2),
    ] {
        let directory = directory();
        let log = LogOptions::default().segment_bytes(1);
        let mut store = open_with(directory.path(), options.log(log)).expect("sound");
        for round in 1..=8 {
            act(&mut store, round);
            store.checkpoint_and_wait().expect("the disk is sound");
        }
        drop(store);
        let names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let checkpoints = names.filter(|name| name.to_string_lossy().starts_with("checkpoint-"));
        assert_eq!(checkpoints.count(), kept);
        // The oldest checkpoint kept is number 9 - kept and ends with that action.
        let oldest = segments(directory.path())[0][4..].parse::<u64>().unwrap();
        assert!(oldest <= 10 - kept as u64, "the log since is there");
        assert!(kept == 8 || oldest > 1, "and what is before is not");
    }
}
