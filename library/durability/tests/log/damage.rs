//! Damage, torn tails, and checkpoints that the log makes up for.

use std::path::PathBuf;
use std::time::Instant;

use super::*;

/// Bytes of a mark.
const MARK: usize = 28;

#[test]
fn damage_is_refused_unless_the_loss_is_accepted() {
    let _watchdog = stillframe_peers::Watchdog::start();
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
    bytes[64 + (36 + MARK) * 4 + 30] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let before = segments(path);
    let error = open_with(path, Options::words(2)).expect_err("record 15 or near is damaged");
    let Error::Log { path: named, damage: LogDamage::Record { offset, sequence, .. } } = &error
    else {
        panic!("{error}")
    };
    let first: u64 = before[1][4..].parse().unwrap();
    assert_eq!((named, *offset, *sequence), (&damaged, 64 + (36 + MARK) * 4, first + 4));
    assert_eq!(segments(path), before, "nothing was touched");

    let store = open_with(path, Options::words(2).accept_log_loss()).expect("accepted");
    assert_state(&store, first + 3);
    let log = store.recovery().log.as_ref().expect("there is one");
    let lost = log.lost.as_ref().expect("reported");
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

/// Ten records, the last of which lacks five bytes; the directory, the file, and its true length
/// without the mark behind them.
fn cut_short() -> (TempDir, PathBuf, usize) {
    let directory = directory();
    let mut store = open(directory.path());
    act(&mut store, 10);
    store.close().expect("the disk is sound");
    let last = directory.path().join(&segments(directory.path())[0]);
    let mut bytes = fs::read(&last).unwrap();
    bytes.truncate(bytes.len() - MARK);
    fs::write(&last, &bytes[..bytes.len() - 5]).unwrap();
    (directory, last, bytes.len())
}

#[test]
fn after_a_clean_end_damage_to_the_last_record_is_no_torn_tail() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let (directory, last, _) = cut_short();
    let error = open_with(directory.path(), Options::words(2)).expect_err("record 10 is damaged");
    let Error::Log { path, damage: LogDamage::Record { sequence: 10, last: 10, .. } } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(path, &last);
}

#[test]
fn a_torn_tail_is_cut_with_a_notice() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let (directory, last, length) = cut_short();
    let path = directory.path();
    // Without the segment of a clean end, as if the process had been killed.
    let [_, end] = &segments(path)[..] else { panic!("the segment and the end") };
    fs::remove_file(path.join(end)).unwrap();
    let store = open(path);
    assert_state(&store, 9);
    let torn = store.recovery().log.clone().expect("there is one").torn.expect("reported");
    assert_eq!((&torn.path, torn.offset, torn.bytes), (&last, length - 36, 31));
}

/// The files of a process that is killed after it acknowledged this many records, one by one.
fn killed(policy: Policy, last: u64) -> (TempDir, PathBuf) {
    let (running, killed) = (directory(), directory());
    let options = Options::words(2).log(LogOptions::policy(policy));
    let mut store = open_with(running.path(), options).expect("sound");
    for number in 1..=last {
        act(&mut store, number);
        store.wait_durable(number).expect("the disk is sound");
    }
    let [name] = &segments(running.path())[..] else { panic!("one segment") };
    let path = killed.path().join(name);
    fs::copy(running.path().join(name), &path).unwrap();
    (killed, path)
}

/// A killed process leaves its marks: no bit of what it acknowledged can be lost unseen.
#[test]
fn every_flipped_bit_of_what_a_killed_process_acknowledged_is_damage() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for policy in [Policy::Always, Policy::EverySecond, Policy::No] {
        let (directory, path) = killed(policy, 4);
        let sound = fs::read(&path).unwrap();
        assert_eq!(sound.len(), 64 + 4 * (36 + MARK), "{policy:?}");
        let mut records = 0;
        let mut read = || {
            records = 0;
            Log::read(
                directory.path(),
                1,
                false,
                None,
                &Application::default(),
                |action: &Action| {
                    records += 1;
                    assert_eq!(action.bytes, action.sequence.to_le_bytes());
                    Ok(())
                },
            )
        };
        for bit in 0..sound.len() * 8 {
            let mut bytes = sound.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bytes).unwrap();
            let (byte, found) = (bit / 8, read());
            match found {
                Err(Error::Log { .. } | Error::NewerVersion { .. }) => {
                    assert!(byte < sound.len() - MARK, "{policy:?}, bit {bit}");
                }
                Ok(replayed) => {
                    let torn = replayed.torn.map(|torn| torn.offset);
                    assert_eq!(torn, Some(sound.len() - MARK), "{policy:?}, bit {bit}");
                    assert_eq!(replayed.records, 4, "{policy:?}, bit {bit}");
                }
                Err(error) => panic!("{policy:?}, bit {bit}: {error}"),
            }
        }
        fs::write(&path, &sound).unwrap();
        assert_eq!(read().expect("sound").torn, None);
        assert_eq!(records, 4);
    }
}

/// What a start rewrites, because nothing proves that it is on the disk, it marks as well.
#[test]
fn records_that_a_start_has_rewritten_are_proved() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let (directory, path) = killed(Policy::Always, 4);
    let sound = fs::read(&path).unwrap();
    fs::write(&path, &sound[..sound.len() - MARK]).unwrap(); // killed before the mark
    let store = open(directory.path());
    let names = segments(directory.path());
    let [_, second] = &names[..] else { panic!("{names:?}") };
    assert!(second.ends_with("0004"), "record 4 is written again: {second}");
    let copy = directory.path().join(second);
    let mut bytes = fs::read(&copy).unwrap(); // as after a kill: the store is not closed
    assert_eq!(bytes.len(), 64 + 36 + MARK);
    drop(store);
    for name in segments(directory.path()).split_off(2) {
        fs::remove_file(directory.path().join(name)).unwrap();
    }
    bytes[64 + 30] ^= 1;
    fs::write(&copy, bytes).unwrap();
    let error = open_with(directory.path(), Options::words(2)).expect_err("4 is damaged");
    assert!(matches!(
        error,
        Error::Log { damage: LogDamage::Record { sequence: 4, last: 4, .. }, .. }
    ));
}

#[test]
fn an_older_checkpoint_and_the_log_make_up_for_a_damaged_one() {
    let _watchdog = stillframe_peers::Watchdog::start();
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
    let _watchdog = stillframe_peers::Watchdog::start();
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

/// What becomes of the newest segment while the log is open: it is noticed by the next sync, and
/// when nothing is logged as well.
#[test]
fn a_log_that_is_removed_moved_or_replaced_is_noticed() {
    let _watchdog = stillframe_peers::Watchdog::start();
    type Change = fn(&Path, &Path);
    let removed: Change = |_, segment| fs::remove_file(segment).unwrap();
    let replaced: Change = |_, segment| {
        let copy = segment.with_extension("copy");
        fs::copy(segment, &copy).unwrap();
        fs::rename(copy, segment).unwrap();
    };
    let moved: Change = |log, _| fs::rename(log, log.with_extension("old")).unwrap();
    let put_back: Change = |log, _| {
        fs::rename(log, log.with_extension("old")).unwrap();
        fs::create_dir(log).unwrap();
        for entry in fs::read_dir(log.with_extension("old")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), log.join(entry.file_name())).unwrap();
        }
    };
    // Side by side: an idle log looks once a second whether its file is there.
    std::thread::scope(|scope| {
        for policy in [Policy::Always, Policy::EverySecond, Policy::No] {
            for (number, change) in [removed, replaced, moved, put_back].into_iter().enumerate() {
                for is_idle in [false, true] {
                    let case = format!("{policy:?}, change {number}, idle: {is_idle}");
                    scope.spawn(move || is_noticed(policy, change, is_idle, &case));
                }
            }
        }
    });
}

fn is_noticed(policy: Policy, change: impl Fn(&Path, &Path), is_idle: bool, case: &str) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("log");
    let own = Application::default();
    let log = Log::create(&path, 1, &own, LogOptions::policy(policy)).unwrap();
    let first = log.append(b"acknowledged").unwrap();
    log.handle().wait_durable(first).unwrap();
    change(&path, &path.join("log-00000000000000000001"));
    if is_idle {
        let deadline = Instant::now() + Duration::from_secs(60);
        while log.stats().failed.is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    } else {
        let waited = log.append(b"lost").and_then(|it| log.handle().wait_durable(it));
        let text = waited.expect_err(case).to_string();
        assert!(text.contains("was removed, moved or replaced"), "{case}: {text}");
    }
    let failed = log.stats().failed.expect(case);
    assert!(failed.contains("in memory alone until it is saved"), "{case}: {failed}");
    assert_eq!(log.durable(), 1, "{case}");
    assert!(matches!(log.append(b"refused"), Err(Error::LogFailed { .. })), "{case}");
    assert!(log.close().is_err(), "{case}");
}
