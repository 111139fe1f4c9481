//! Recovery to a point in the past, and how long the past is kept.

use super::*;

#[test]
fn the_past_is_recovered_by_number_and_by_time() {
    let _watchdog = stillframe_peers::Watchdog::start();
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
        let made = ActStore::rewind_records(path, until, target.path(), Options::words(2), replay)?;
        let found = (made.read(0), made.read(1));
        assert_eq!(found.1, expected(found.0));
        drop(made);
        let again = ActStore::open_records(target.path(), Options::words(2), |_, _| {
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
    let taken =
        ActStore::rewind_records(path, Until::Sequence(65), path, Options::words(2), replay);
    assert!(matches!(taken, Err(Error::Locked { .. })));
    assert_state(&open(path), 65);
}

#[test]
fn the_past_is_kept_as_long_as_asked() {
    let _watchdog = stillframe_peers::Watchdog::start();
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

/// A moment is reached with the last record of its millisecond.
#[test]
fn the_millisecond_of_a_record_has_that_record() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let directory = directory();
    let path = directory.path();
    let mut store = open(path);
    act(&mut store, 5);
    drop(store);
    let (mut times, own) = (Vec::new(), Application::default());
    let read = Log::read(path, 1, false, None, &own, |action| {
        times.push(action.time_ms);
        Ok(())
    });
    assert_eq!(read.expect("sound").records, 5);
    for &time in &times {
        let expected = times.iter().filter(|&&it| it <= time).count() as u64;
        let (until, target) = (Until::TimeMs(time), tempdir().unwrap());
        let options = Options::words(2);
        let made = ActStore::rewind_records(path, until, target.path(), options, replay);
        assert_eq!(made.expect("all is kept").read(0), expected);
    }
}
