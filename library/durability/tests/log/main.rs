//! The log of a store as an embedder meets it.

#![allow(clippy::unwrap_used, reason = "the temporary files are this test's own")]

mod damage;
mod past;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stillframe_durability::disk::{Fault, Location, SimulatedDisk};
use stillframe_durability::{
    Act, ActStore, Action, Application, ApplyError, Error, Log, LogDamage, LogOptions, Options,
    Policy, Store, Until,
};
use tempfile::{TempDir, tempdir};

fn directory() -> TempDir {
    tempdir().expect("a temporary directory")
}

/// Word 0 counts the actions, word 1 depends on all of them in their order.
fn apply(store: &mut Act<'_>, action: &[u8]) {
    let value: u64 = action.iter().map(|&byte| u64::from(byte)).sum();
    store.write(0, store.read(0) + 1);
    store.write(1, store.read(1).wrapping_mul(31).wrapping_add(value));
}

fn replay(store: &mut Act<'_>, action: &Action<'_>) -> Result<(), ApplyError> {
    assert_eq!(action.sequence, store.read(0) + 1, "in order, each once");
    apply(store, action.bytes);
    Ok(())
}

fn open_with(path: &Path, options: Options) -> Result<ActStore, Error> {
    ActStore::open_records(path, options, replay)
}

fn open(path: &Path) -> ActStore {
    open_with(path, Options::words(2)).expect("the directory is sound")
}

/// Logs and applies actions until there are `last`; each is its own number.
fn act(store: &mut ActStore, last: u64) {
    for number in store.read(0) + 1..=last {
        let action = number.to_le_bytes();
        apply(&mut store.log(&action).expect("the disk is sound"), &action);
        assert_eq!(store.logged(), number);
    }
}

/// What word 1 is after this many actions.
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
    let _watchdog = stillframe_peers::Watchdog::start();
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
    let _watchdog = stillframe_peers::Watchdog::start();
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
    let _watchdog = stillframe_peers::Watchdog::start();
    for policy in [Policy::Always, Policy::EverySecond, Policy::No] {
        let disk = SimulatedDisk::default();
        let (sender, receiver) = mpsc::channel();
        let log = LogOptions::policy(policy).on_durable(move |durable| {
            sender.send(durable.expect("the disk is sound")).expect("the test listens");
        });
        let options = Options::words(2).disk(Arc::new(disk.clone())).log(log);
        let mut store = open_with(Path::new("simulated"), options).expect("sound");
        act(&mut store, 10);
        store.wait_durable(7).expect("the disk is sound");
        assert!(store.durable() >= 7);
        assert!(receiver.recv().expect("called") >= 1);
        let crashed = Arc::new(SimulatedDisk::holding(&disk.platter().lose_power(|_| false)));
        let found = open_with(Path::new("crashed"), Options::words(2).disk(crashed));
        assert!(found.expect("sound").read(0) >= 7, "{policy:?}");
        let error = store.wait_durable(11).expect_err("there is no such action");
        assert!(matches!(error, Error::NoSuchRecord { sequence: 11, last: 10 }), "{error}");
    }
}

#[test]
fn a_slow_disk_makes_the_application_wait_with_bounded_memory() {
    let _watchdog = stillframe_peers::Watchdog::start();
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
    let _watchdog = stillframe_peers::Watchdog::start();
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
    store.close().expect_err("reported once more");
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
    let _watchdog = stillframe_peers::Watchdog::start();
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
    Store::open(directory.path(), Options::words(2)).expect_err("the checkpoint names a log");
    let error = open_with(directory.path(), Options::words(2)).expect_err("it is gone");
    assert!(error.to_string().contains("the log from record 4 on is in no file"), "{error}");
}

#[test]
fn a_store_without_a_log_can_be_given_one() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let directory = directory();
    let mut store = Store::open(directory.path(), Options::words(2)).expect("sound");
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
    let _watchdog = stillframe_peers::Watchdog::start();
    let directory = directory();
    let mut store = open(directory.path());
    act(&mut store, 3);
    drop(store);
    let refused = ActStore::open_records(directory.path(), Options::words(2), |act, action| {
        act.store().checkpoint();
        if action.sequence == 2 { Err("what is this?".into()) } else { replay(act, action) }
    });
    let error = refused.expect_err("the second one").to_string();
    assert!(error.contains("record 2 of the log could not be applied: what is this?"), "{error}");
    assert_state(&open(directory.path()), 3);
}

#[test]
fn a_store_for_words_alone_takes_no_records_and_refuses_those_of_others() {
    let directory = directory();
    let words = || ActStore::open(directory.path(), Options::words(2));
    let mut store = words().expect("an empty directory");
    assert!(matches!(store.log(b"x").map(drop), Err(Error::NoRecords)));
    let act = store.act_as(b"x", |act| -> Result<(), Error> {
        act.write(0, 7);
        Ok(())
    });
    assert!(matches!(act, Err(Error::NoRecords)));
    assert_eq!((store.read(0), store.logged()), (0, 0), "nothing was done");
    drop(store);
    drop(words().expect("nothing was logged"));
    act_and_drop(directory.path());
    let refused = words().expect_err("nobody applies that record").to_string();
    assert!(refused.contains("open the store with `open_records`"), "{refused}");
    assert_state(&open(directory.path()), 1);
}

fn act_and_drop(path: &Path) {
    act(&mut open(path), 1);
}

/// Words that actions wrote, and records, among them such as look like the words of an action.
#[test]
fn words_and_records_come_back_in_their_order() {
    let directory = directory();
    let records = [&b"act1 is not what it seems"[..], b"rec1", b"rec1act1", b"act1", b"", b"x"];
    let open = || {
        let mut found = Vec::new();
        let store = ActStore::open_records(directory.path(), Options::words(2), |act, action| {
            assert_eq!(act.read(1), found.len() as u64, "what was before it is there");
            found.push(action.bytes.to_vec());
            act.write(1, found.len() as u64);
            Ok(())
        });
        (store.expect("it is sound"), found)
    };
    let (mut store, _) = open();
    for (number, record) in (1..).zip(records) {
        let done = if number % 2 == 0 {
            store.act_as(record, |act| -> Result<(), Error> {
                act.write(1, number);
                Ok(())
            })
        } else {
            let mut act = store.log(record).expect("the disk is sound");
            act.write(1, number);
            act.commit()
        };
        done.expect("the disk is sound");
        let by_words = store.act(|act| -> Result<(), Error> {
            act.update(0, |word| word + number);
            Ok(())
        });
        by_words.expect("the disk is sound");
    }
    drop(store);
    let (store, found) = open();
    assert_eq!((store.read(0), store.read(1)), (1 + 2 + 3 + 4 + 5 + 6, 6));
    assert_eq!(found, records);
}

#[test]
fn an_action_that_was_logged_first_keeps_what_it_wrote_when_it_is_dropped() {
    let directory = directory();
    let mut store = open(directory.path());
    let mut act = store.log(&1_u64.to_le_bytes()).expect("the disk is sound");
    apply(&mut act, &1_u64.to_le_bytes());
    drop(act);
    assert_state(&store, 1);
    drop(store);
    assert_state(&open(directory.path()), 1);
}

/// A new segment makes durable what is in those before it, whatever the policy.
#[test]
fn the_end_of_a_segment_is_reported() {
    let (sender, receiver) = mpsc::channel();
    let options = LogOptions::policy(Policy::No).segment_bytes(1).on_durable(move |durable| {
        sender.send(durable.expect("the disk is sound")).expect("the test listens");
    });
    let disk = Arc::new(SimulatedDisk::default());
    let location = Location::on("simulated", disk);
    let log = Log::create(location, 1, &Application::default(), options).unwrap();
    log.append(b"one").unwrap();
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(1));
}

/// What holds of a log that was closed without an error holds after a loss of power.
#[test]
fn a_log_that_is_closed_is_on_the_disk_or_says_that_it_is_not() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for policy in [Policy::Always, Policy::EverySecond, Policy::No] {
        let mut failures = 0;
        for call in 1..12 {
            let disk = SimulatedDisk::default();
            let on = |disk: &SimulatedDisk| Options::words(2).disk(Arc::new(disk.clone()));
            let options = on(&disk).log(LogOptions::policy(policy));
            let mut store = open_with(Path::new("simulated"), options).expect("sound");
            act(&mut store, 1);
            disk.fail_at(disk.calls() + call, Fault::IO);
            let closed = store.close().is_ok();
            failures += u64::from(!closed);
            let crashed = SimulatedDisk::holding(&disk.platter().lose_power(|_| false));
            let found = open_with(Path::new("crashed"), on(&crashed)).expect("sound").read(0);
            assert!(found == 1 || !closed, "{policy:?}, call {call}");
        }
        assert!(failures > 0, "{policy:?}");
    }
}

/// However often an action writes a word, its record has what the word holds in the end.
#[test]
fn a_record_has_the_last_of_many_writes() {
    const WORDS: usize = 100;
    let directory = directory();
    let open = || ActStore::open(directory.path(), Options::words(WORDS)).expect("sound");
    let mut store = open();
    let acted = store.act(|words| {
        for value in [5, 7, 5] {
            (0..WORDS).for_each(|index| words.write(index, value));
        }
        Ok::<_, Error>(())
    });
    acted.expect("sound");
    drop(store);
    let store = open();
    assert_eq!((0..WORDS).find(|&index| store.read(index) != 5), None);
}

/// What an action that failed has grown is new to the log with the next one that grows it so far.
#[test]
fn what_a_failed_action_has_grown_is_logged_by_the_next() {
    let directory = directory();
    let options = || Options::memory(stillframe::Options::words(1).max_words(9));
    let write = |act: &mut Act<'_>, _: &Action<'_>| {
        act.write(4, 7);
        Ok(())
    };
    let open = || ActStore::open_records(directory.path(), options(), write).expect("sound");
    let mut store = open();
    let failed = store.act(|act| {
        act.grow(5)?;
        Err::<(), Box<dyn std::error::Error>>("too late".into())
    });
    failed.expect_err("it fails");
    let grown = store.act(|act| Ok::<_, Error>(act.grow(5)?));
    grown.expect("it is so long already");
    let written = store.act_as(b"x", |act| {
        act.write(4, 7);
        Ok::<_, Error>(())
    });
    written.expect("sound");
    drop(store);
    assert_eq!(open().read(4), 7);
}
