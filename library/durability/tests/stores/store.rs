//! The store as an embedder meets it, for every algorithm of the registry.

#![allow(clippy::unwrap_used, reason = "the temporary files are this test's own")]

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stillframe::{Algorithm, MemoryError, OnFull};
use stillframe_durability::{Damage, Error, Options, Store};
use tempfile::{TempDir, tempdir};

fn directory() -> TempDir {
    tempdir().expect("a temporary directory")
}

fn open<A: Algorithm>(directory: &Path, words: usize) -> Store<A> {
    Store::open_with(directory, Options::words(words)).expect("the directory is sound")
}

/// The names in the directory, sorted, without the lock.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("it is there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("readable").file_name().into_string().unwrap()).collect();
    names.retain(|name| name != "lock");
    names.sort();
    names
}

fn state<A: Algorithm>(store: &Store<A>) -> Vec<u64> {
    (0..store.words()).map(|index| store.read(index)).collect()
}

fn checkpoint(number: u64) -> String {
    format!("checkpoint-{number:020}")
}

/// Waits until `store` has no checkpoint due, at points of consistency.
fn pass_points_until<A: Algorithm>(store: &mut Store<A>, done: impl Fn(&Store<A>) -> bool) {
    while !done(store) {
        store.point();
        std::thread::yield_now();
    }
}

fn comes_back_at_every_size<A: Algorithm>() {
    for words in [0, 1, 2, 511, 512, 513, 1023, 8191, 8192, 8193, 70_001] {
        let directory = directory();
        let mut store = open::<A>(directory.path(), words);
        assert!(store.recovery().loaded.is_none());
        for index in 0..words {
            store.write(index, index as u64 * 3 + 1);
        }
        let before = state(&store);
        assert_eq!(store.checkpoint_and_wait().expect("the disk is sound"), 1);
        let bytes = fs::metadata(directory.path().join(checkpoint(1))).expect("published").len();
        assert_eq!(store.stats().bytes_last, bytes);
        store.close().expect("nothing is under way");

        let store = open::<A>(directory.path(), words);
        assert_eq!(state(&store), before, "{words} words");
        let loaded = store.recovery().loaded.as_ref().expect("there is a checkpoint");
        assert_eq!((loaded.number, loaded.words, loaded.bytes), (1, words, bytes));
        assert_eq!(loaded.algorithm, A::INFO.name);
    }
}

fn loses_what_was_written_after_the_checkpoint_and_nothing_else<A: Algorithm>() {
    let directory = directory();
    let mut store = open::<A>(directory.path(), 1000);
    store.write_run(10, &[1, 2, 3]);
    store.write_u32(1001, 7);
    store.checkpoint_and_wait().expect("the disk is sound");
    store.write(10, 99);
    drop(store);
    let store = open::<A>(directory.path(), 1000);
    assert_eq!([store.read(10), store.read(11), store.read(12)], [1, 2, 3]);
    assert_eq!((store.read_u32(1000), store.read_u32(1001)), (0, 7));
}

fn keeps_two_generations_and_cleans_up<A: Algorithm>() {
    let directory = directory();
    let mut store = open::<A>(directory.path(), 600);
    for number in 1..=5 {
        store.write(0, number);
        assert_eq!(store.checkpoint_and_wait().expect("the disk is sound"), number);
    }
    assert_eq!(names(directory.path())[..2], [checkpoint(4), checkpoint(5)]);
    let stats = store.stats();
    assert_eq!((stats.checkpoints, stats.failures, stats.newest), (5, 0, Some(5)));
    assert!(stats.begin_max >= stats.begin_last && stats.begin_last > Duration::ZERO);
    drop(store);
    assert_eq!(names(directory.path()), [checkpoint(4), checkpoint(5)], "no leftovers");

    // As after a crash: a half-written file, and a removal that did not happen.
    fs::copy(directory.path().join(checkpoint(4)), directory.path().join(checkpoint(3))).unwrap();
    fs::write(directory.path().join("checkpoint.tmp"), "half").unwrap();
    fs::write(directory.path().join("notes.txt"), "not ours").unwrap();
    let mut store = open::<A>(directory.path(), 600);
    assert!(store.recovery().leftover);
    assert_eq!((store.read(0), store.stats().recovered), (5, Some(5)));
    assert_eq!(store.checkpoint_and_wait().expect("the disk is sound"), 6);
    drop(store);
    assert_eq!(names(directory.path()), [checkpoint(5), checkpoint(6), "notes.txt".into()]);
    assert!(!open::<A>(directory.path(), 600).recovery().leftover);
}

fn falls_back_to_the_older_one_and_sets_the_damaged_aside<A: Algorithm>() {
    let directory = directory();
    let path = directory.path();
    let mut store = open::<A>(path, 600);
    for number in 1..=2 {
        store.write(0, number);
        store.checkpoint_and_wait().expect("the disk is sound");
    }
    drop(store);
    let mut bytes = fs::read(path.join(checkpoint(2))).unwrap();
    bytes[172] ^= 4;
    fs::write(path.join(checkpoint(2)), bytes).unwrap();

    let mut store = open::<A>(path, 600);
    assert_eq!(store.read(0), 1);
    let [skipped] = &store.recovery().skipped[..] else { panic!("one was damaged") };
    assert!(matches!(skipped.damage, Damage::BlockChecksum { offset: 160, block: 0, .. }));
    assert!(skipped.to_string().contains("bytes 160 to 4975"), "{skipped}");
    let aside = checkpoint(2) + ".damaged";
    assert_eq!(names(path)[..2], [checkpoint(1), aside.clone()]);
    // Its number is not used again, and it does not count as a generation.
    assert_eq!(store.checkpoint_and_wait().expect("the disk is sound"), 3);
    drop(store);
    assert_eq!(names(path), [checkpoint(1), aside, checkpoint(3)]);
}

fn never_makes_an_empty_state_of_damaged_ones<A: Algorithm>() {
    let directory = directory();
    let path = directory.path();
    let mut store = open::<A>(path, 10);
    store.checkpoint_and_wait().expect("the disk is sound");
    store.checkpoint_and_wait().expect("the disk is sound");
    drop(store);
    fs::write(path.join(checkpoint(1)), "").unwrap();
    fs::copy(path.join(checkpoint(2)), path.join(checkpoint(3))).unwrap();
    fs::remove_file(path.join(checkpoint(2))).unwrap();
    let error = Store::<A>::open_with(path, Options::words(10)).err().expect("none is sound");
    let Error::NoneSound { skipped, .. } = &error else { panic!("{error}") };
    assert_eq!(skipped[0].damage, Damage::Misnamed { number: 2, named: 3 });
    assert!(matches!(skipped[1].damage, Damage::Truncated { length: 0, .. }));
    assert_eq!(names(path), [checkpoint(1), checkpoint(3)], "nothing was touched");
    // As the message says: moved away, the store starts empty.
    fs::remove_file(path.join(checkpoint(1))).unwrap();
    fs::remove_file(path.join(checkpoint(3))).unwrap();
    assert_eq!(state(&open::<A>(path, 10)), [0; 10]);
}

fn has_one_owner<A: Algorithm>() {
    let directory = directory();
    let store = open::<A>(directory.path(), 10);
    let error = Store::<A>::open_with(directory.path(), Options::words(10)).err().expect("in use");
    let own = std::process::id();
    assert!(matches!(error, Error::Locked { process: Some(process), .. } if process == own));
    drop(store);
    open::<A>(directory.path(), 10);
}

fn gives_a_cancelled_checkpoint_up_and_takes_the_next<A: Algorithm>() {
    let directory = directory();
    let mut store = open::<A>(directory.path(), 400_000);
    store.write(0, 1);
    store.checkpoint_and_wait().expect("the disk is sound");
    store.write(0, 2);
    // A cancel may come too late; then the checkpoint is whole. Try until one came in time.
    let error = loop {
        store.checkpoint();
        assert!(store.point().is_some());
        store.cancel();
        if let Err(error) = store.wait() {
            break error;
        }
    };
    assert!(matches!(error, Error::Capture { .. }), "{error}");
    let stats = store.stats();
    assert_eq!((stats.failures, stats.running), (1, None));
    assert!(stats.last_error.expect("reported").ends_with("those before it are intact"));
    store.write(0, 3);
    store.checkpoint_and_wait().expect("the next one works");
    drop(store);
    assert_eq!(open::<A>(directory.path(), 0).read(0), 3);
}

fn reports_a_failed_publication_and_takes_the_next<A: Algorithm>() {
    let directory = directory();
    let mut store = open::<A>(directory.path(), 1000);
    store.write(0, 1);
    store.checkpoint_and_wait().expect("the disk is sound");
    // A directory in the place of the next checkpoint: it cannot be renamed over.
    fs::create_dir(directory.path().join(checkpoint(2))).unwrap();
    store.write(0, 2);
    let error = store.checkpoint_and_wait().expect_err("the name is taken");
    assert!(matches!(error, Error::File { action: "renaming", .. }), "{error}");
    assert_eq!(store.stats().last_error, Some(error.to_string()));
    store.write(0, 3);
    assert_eq!(store.checkpoint_and_wait().expect("the next one works"), 3);
    drop(store);
    let store = open::<A>(directory.path(), 1000);
    assert_eq!(store.read(0), 3);
    drop(store);
    fs::remove_file(directory.path().join(checkpoint(3))).unwrap();
    let error = Store::<A>::open_with(directory.path(), Options::words(1000)).err();
    let is_refused = matches!(error, Some(Error::File { action: "opening", .. }));
    assert!(is_refused, "it is no file: {error:?}");
    fs::remove_dir(directory.path().join(checkpoint(2))).unwrap();
    assert_eq!(open::<A>(directory.path(), 1000).read(0), 1);
}

fn checkpoints_on_schedule_and_on_request<A: Algorithm>() {
    let directory = directory();
    let options = Options::words(5000).every(Duration::from_millis(1));
    let mut store = Store::<A>::open_with(directory.path(), options).expect("sound");
    pass_points_until(&mut store, |store| store.stats().checkpoints >= 3);
    drop(store);

    let mut store = open::<A>(directory.path(), 5000);
    for _ in 0..1000 {
        assert_eq!(store.point(), None, "nothing is due");
    }
    store.checkpoint();
    let number = store.point().expect("it was requested");
    assert_eq!(store.wait().expect("the disk is sound"), Some(number));
    assert_eq!(store.point(), None);
}

fn grows_and_recovers_the_larger_size<A: Algorithm>() {
    let directory = directory();
    let memory = stillframe::Options::words(100).max_words(100_000);
    let mut store =
        Store::<A>::open_with(directory.path(), Options::memory(memory)).expect("sound");
    store.checkpoint();
    store.point();
    store.grow(90_000).expect("below the maximum");
    store.write(89_999, 5);
    store.checkpoint_and_wait().expect("the disk is sound");
    assert!(matches!(store.grow(100_001), Err(MemoryError::Reserved { .. })));
    drop(store);
    let store = open::<A>(directory.path(), 100);
    assert_eq!((store.words(), store.read(89_999)), (90_000, 5));
    drop(store);
    let store = open::<A>(directory.path(), 95_000);
    assert_eq!((store.words(), store.read(89_999), store.read(94_999)), (95_000, 5, 0));
}

fn closes_with_a_last_checkpoint_if_asked<A: Algorithm>() {
    let directory = directory();
    for (asked, expected) in [(true, 7), (false, 7)] {
        let options = Options::words(10);
        let options = if asked { options.checkpoint_on_close() } else { options };
        let mut store = Store::<A>::open_with(directory.path(), options).expect("sound");
        store.write(3, if asked { 7 } else { 8 });
        store.close().expect("the disk is sound");
        assert_eq!(open::<A>(directory.path(), 10).read(3), expected);
    }
}

/// Writes at random as fast as it can while checkpoints come and go, stops anywhere, and compares
/// what is recovered with an independent copy of the state at that checkpoint's point.
fn recovers_the_state_of_a_point_of_consistency<A: Algorithm>() {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let seed = clock.as_nanos() as u64 | 1;
    println!("seed {seed}");
    let mut random = seed;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    const WORDS: usize = 20_000;
    let directory = directory();
    let mut copy = vec![0; WORDS];
    let rounds = if std::env::var_os("STILLFRAME_LONG").is_some() { 200 } else { 8 };
    for round in 0..rounds {
        let memory = stillframe::Options::words(WORDS);
        // A small budget: some writes wait for the capture.
        let memory = memory.budget(if round % 2 == 0 { 1 << 16 } else { 1 << 22 }, OnFull::Slow);
        let options = Options::memory(memory).every(Duration::from_millis(1));
        let mut store = Store::<A>::open_with(directory.path(), options).expect("sound");
        assert_eq!(state(&store), copy, "seed {seed}, round {round}");
        let mut at_begin = HashMap::from([(store.stats().recovered.unwrap_or(0), copy.clone())]);
        let enough = 1 + next() % 4;
        while store.stats().checkpoints < enough {
            for _ in 0..next() % 400 {
                // Two halves, always written together: no point of consistency lies between.
                let (index, value) = ((next() as usize) % (WORDS / 2), next());
                for index in [index, WORDS - 1 - index] {
                    store.write(index, value);
                    copy[index] = value;
                }
            }
            if let Some(number) = store.point() {
                at_begin.insert(number, copy.clone());
            }
        }
        drop(store); // whatever is under way is lost
        let store = open::<A>(directory.path(), WORDS);
        let number = store.recovery().loaded.as_ref().expect("there are several").number;
        copy.clone_from(&at_begin[&number]);
        assert!(copy.iter().eq(copy.iter().rev()), "the oracle itself");
        assert!(state(&store) == copy, "seed {seed}, round {round}, checkpoint {number}");
    }
}

macro_rules! for_every_algorithm {
    ($($module:ident::$algorithm:ident { $($facts:tt)* })*) => {
        $(#[allow(non_snake_case, reason = "named as the type")]
        mod $algorithm {
            use stillframe::algorithms::$module::$algorithm;
            for_every_algorithm!(tests $algorithm:
                comes_back_at_every_size
                loses_what_was_written_after_the_checkpoint_and_nothing_else
                keeps_two_generations_and_cleans_up
                falls_back_to_the_older_one_and_sets_the_damaged_aside
                never_makes_an_empty_state_of_damaged_ones
                has_one_owner
                gives_a_cancelled_checkpoint_up_and_takes_the_next
                reports_a_failed_publication_and_takes_the_next
                checkpoints_on_schedule_and_on_request
                grows_and_recovers_the_larger_size
                closes_with_a_last_checkpoint_if_asked
                recovers_the_state_of_a_point_of_consistency
            );
        })*
    };
    (tests $algorithm:ident: $($test:ident)*) => {
        $(#[test]
        fn $test() {
            let _watchdog = stillframe_peers::Watchdog::start();
            super::$test::<$algorithm>();
        })*
    };
}

stillframe::for_each_algorithm!(core for_every_algorithm);

#[test]
fn a_newer_version_is_refused_and_left_alone() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let directory = directory();
    let mut store: Store = Store::open(directory.path(), Options::words(10)).expect("sound");
    store.checkpoint_and_wait().expect("the disk is sound");
    store.checkpoint_and_wait().expect("the disk is sound");
    drop(store);
    // An empty state with version 5 in its header, under the checksum that such a header has.
    let path = directory.path().join(checkpoint(2));
    fs::write(&path, include_bytes!("version_5.header")).unwrap();
    let error = Store::open(directory.path(), Options::words(10)).expect_err("it is newer");
    assert!(matches!(error, Error::NewerVersion { version: 5, supported: 4, .. }), "{error}");
    assert_eq!(names(directory.path()), [checkpoint(1), checkpoint(2)]);
}

#[test]
fn a_path_that_is_no_directory_is_reported() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let directory = directory();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = Store::open(&path, Options::words(1)).expect_err("it is a file");
        assert!(error.to_string().contains("name a directory of its own"), "{error}");
    }
    let deep = directory.path().join("a/b/c");
    Store::open(&deep, Options::words(1)).expect("directories are created");
    assert!(deep.is_dir());
}

/// A busy machine makes it slower still.
#[test]
fn the_cap_holds_checkpoints_back() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let directory = directory();
    let options = Options::words(100_000).bandwidth(8_000_000);
    let mut store: Store = Store::open(directory.path(), options).expect("sound");
    let started = std::time::Instant::now();
    store.checkpoint_and_wait().expect("the disk is sound");
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(95), "800 kB at 8 MB/s in {took:?}");
}
