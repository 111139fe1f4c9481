//! Checkpoints that fail, full ones and increments: those before are intact, the store says why,
//! the next one works, and nothing is left behind.

#![allow(clippy::unwrap_used, reason = "the simulated files are this test's own")]

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use stillframe::Algorithm;
use stillframe::algorithms::hourglass::Hourglass;
use stillframe::algorithms::imprint::Imprint;
use stillframe::algorithms::naive::Naive;
use stillframe_durability::disk::{Disk, DiskFile, SimulatedDisk};
use stillframe_durability::{Error, Increments, Options, Store};

const WORDS: usize = 40_000;

/// What writes of checkpoints do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Sound,
    Panics,
    /// There is room for this many bytes in a file.
    Full(u64),
    /// Syncs fail.
    Unsynced,
    /// Writes wait until the mood is another.
    Waits,
}

#[derive(Debug)]
struct Moods {
    mood: Mutex<Mood>,
    changed: Condvar,
    /// Files that failed a sync, and were asked for anything afterwards.
    trusted: AtomicU64,
}

/// A simulated disk with moods.
#[derive(Debug, Clone)]
struct Moody(SimulatedDisk, Arc<Moods>);

impl Moody {
    fn new() -> Self {
        let (mood, changed) = (Mutex::new(Mood::Sound), Condvar::new());
        let moods = Moods { mood, changed, trusted: AtomicU64::new(0) };
        Self(SimulatedDisk::default(), Arc::new(moods))
    }
    fn set(&self, mood: Mood) {
        *self.1.mood.lock().unwrap() = mood;
        self.1.changed.notify_all();
    }
    fn wrap(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(File { file, moods: Arc::clone(&self.1), unsynced: AtomicU64::new(0) })
    }
}

impl Disk for Moody {
    fn names(&self) -> io::Result<Vec<String>> {
        self.0.names()
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.wrap(self.0.create(name)?))
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.wrap(self.0.open(name)?))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
    fn sync_names(&self) -> io::Result<()> {
        self.0.sync_names()
    }
}

#[derive(Debug)]
struct File {
    file: Box<dyn DiskFile>,
    moods: Arc<Moods>,
    unsynced: AtomicU64,
}

impl File {
    fn mood(&self) -> Mood {
        self.moods.trusted.fetch_add(self.unsynced.load(Ordering::Relaxed), Ordering::Relaxed);
        *self.moods.mood.lock().unwrap()
    }
}

impl DiskFile for File {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        match self.mood() {
            Mood::Panics => panic!("on purpose"),
            Mood::Full(most) if offset + bytes.len() as u64 > most => {
                Err(io::Error::from_raw_os_error(28))
            }
            _ => {
                let mood = self.moods.mood.lock().unwrap();
                let waits = |mood: &mut Mood| *mood == Mood::Waits;
                drop(self.moods.changed.wait_while(mood, waits).unwrap());
                self.file.write_at(offset, bytes)
            }
        }
    }
    fn reserve(&self, bytes: u64) -> io::Result<()> {
        match self.mood() {
            Mood::Full(most) if bytes > most => Err(io::Error::from_raw_os_error(28)),
            _ => Ok(()),
        }
    }
    fn free(&self) -> io::Result<Option<u64>> {
        Ok(match *self.moods.mood.lock().unwrap() {
            Mood::Full(most) => Some(most),
            _ => None,
        })
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, into)
    }
    fn length(&self) -> io::Result<u64> {
        let _ = self.mood();
        self.file.length()
    }
    fn sync(&self) -> io::Result<()> {
        match self.mood() {
            Mood::Unsynced => {
                self.unsynced.store(1, Ordering::Relaxed);
                Err(io::Error::from_raw_os_error(5))
            }
            _ => self.file.sync(),
        }
    }
    fn write_behind(&self, range: Range<u64>) {
        self.file.write_behind(range);
    }
}

fn open<A: Algorithm>(disk: &Moody) -> Store<A> {
    let options = Options::words(WORDS).increments(Increments::at_most(100).percent(u64::MAX));
    Store::open_with("simulated", options.disk(Arc::new(disk.clone()))).expect("sound")
}

fn state<A: Algorithm>(store: &Store<A>) -> Vec<u64> {
    (0..store.words()).map(|index| store.read(index)).collect()
}

/// Words all over the state.
fn touch<A: Algorithm>(store: &mut Store<A>, round: u64) {
    for step in 0..200 {
        store.write((step * 199 + round as usize) % WORDS, round << 32 | step as u64);
    }
}

/// A sound checkpoint if `increments`, some that fail, and a sound one.
fn fails<A: Algorithm>(mood: Mood, increments: bool, expected: &str) {
    let disk = Moody::new();
    let mut store = open::<A>(&disk);
    if increments {
        touch(&mut store, 1);
        store.checkpoint_and_wait().expect("the disk is sound");
    }
    let before = state(&store);
    for round in 2..5 {
        disk.set(mood);
        touch(&mut store, round);
        let error = store.checkpoint_and_wait().expect_err("it fails");
        assert!(error.to_string().contains(expected), "{mood:?}: {error}");
        assert_eq!(store.stats().last_error, Some(error.to_string()));
        disk.set(Mood::Sound);
        // What is on the disk is the state before, and nothing else.
        let crashed =
            Moody(SimulatedDisk::holding(&disk.0.platter().lose_power(|_| true)), disk.1.clone());
        let recovered = open::<A>(&crashed);
        let expected = if increments { &before } else { &vec![0; WORDS] };
        assert!(state(&recovered) == *expected, "{mood:?}");
    }
    store.write(77, 77);
    store.checkpoint_and_wait().expect("the next one works");
    let expected = state(&store);
    drop(store);
    let names = disk.0.platter().names();
    assert_eq!(names.len(), 1 + usize::from(increments), "no leftovers: {names:?}");
    assert!(state(&open::<A>(&disk)) == expected, "{mood:?}");
    assert_eq!(disk.1.trusted.load(Ordering::Relaxed), 0, "asked after a failed sync");
}

fn every_failure_leaves_what_was_before<A: Algorithm>() {
    for increments in [false, true] {
        fails::<A>(Mood::Full(300), increments, "No space left on device");
        fails::<A>(Mood::Unsynced, increments, "syncing");
        fails::<A>(Mood::Panics, increments, "panicked");
    }
}

#[test]
fn every_failure_of_imprint_leaves_what_was_before() {
    let _watchdog = stillframe_peers::Watchdog::start();
    every_failure_leaves_what_was_before::<Imprint>();
}

#[test]
fn every_failure_of_naive_leaves_what_was_before() {
    let _watchdog = stillframe_peers::Watchdog::start();
    every_failure_leaves_what_was_before::<Naive>();
}

#[test]
fn every_failure_of_hourglass_leaves_what_was_before() {
    let _watchdog = stillframe_peers::Watchdog::start();
    every_failure_leaves_what_was_before::<Hourglass>();
}

#[test]
fn a_full_disk_is_found_before_a_full_checkpoint_is_written() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let disk = Moody::new();
    let mut store = open::<Imprint>(&disk);
    disk.set(Mood::Full(WORDS as u64 * 8)); // but for the heads
    let changes = disk.0.changes();
    let error = store.checkpoint_and_wait().expect_err("there is no room");
    let free = format!("failed, {} are free: No space left", WORDS * 8);
    let error = error.to_string();
    assert!(error.contains("making room for 320") && error.contains(&free), "{error}");
    let written = disk.0.history()[changes..]
        .iter()
        .any(|change| matches!(change, stillframe_durability::disk::Change::Write(..)));
    assert!(!written, "nothing was written");
}

#[test]
fn an_increment_that_is_cancelled_is_part_of_the_next() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let disk = Moody::new();
    let mut store = open::<Imprint>(&disk);
    store.checkpoint_and_wait().expect("the disk is sound");
    touch(&mut store, 1);
    disk.set(Mood::Waits);
    store.checkpoint();
    let number = store.point().expect("it was requested");
    store.cancel();
    assert_eq!(store.stats().running.expect("it waits").number, number);
    disk.set(Mood::Sound);
    // The cancel came before the last block, or with it.
    match store.wait() {
        Err(error) => assert!(matches!(error, Error::Capture { .. }), "{error}"),
        Ok(made) => assert_eq!(made, Some(number)),
    }
    store.write(5, 5);
    store.checkpoint_and_wait().expect("the next one works");
    let expected = state(&store);
    drop(store);
    assert!(state(&open::<Imprint>(&disk)) == expected);
}
