//! Damage, torn tails, and checkpoints that the log makes up for.

use std::path::PathBuf;

use super::*;

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

/// Ten records, the last of which lacks five bytes; the directory, the file, and its true length.
fn cut_short() -> (TempDir, PathBuf, usize) {
    let directory = directory();
    let mut store = open(directory.path());
    act(&mut store, 10);
    store.close().expect("the disk is sound");
    let last = directory.path().join(&segments(directory.path())[0]);
    let bytes = fs::read(&last).unwrap();
    fs::write(&last, &bytes[..bytes.len() - 5]).unwrap();
    (directory, last, bytes.len())
}

#[test]
fn after_a_clean_end_damage_to_the_last_record_is_no_torn_tail() {
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
    let (directory, last, length) = cut_short();
    let path = directory.path();
    // Without the mark of a clean end, as if the process had been killed.
    let [_, mark] = &segments(path)[..] else { panic!("the segment and the mark") };
    fs::remove_file(path.join(mark)).unwrap();
    let store = open(path);
    assert_state(&store, 9);
    let torn = store.recovery().log.clone().expect("there is one").torn.expect("told");
    assert_eq!((&torn.path, torn.offset, torn.bytes), (&last, length - 36, 31));
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
