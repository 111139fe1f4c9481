//! What goes on while the disk holds something up. A checkpoint beside a view that began later:
//! what is told and what is cancelled is the checkpoint. A log: who waits for it need not for long.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use stillframe::algorithms::imprint::Imprint;
use stillframe::{CaptureError, OnFull};

use super::must_find;
use crate::ActStore;
use crate::disk::{Disk, DiskFile, SimulatedDisk};
use crate::error::Error;
use crate::mutant::Mutant;
use crate::options::Options;
use crate::store::Store;

/// More than the writer of a file gathers.
const WORDS: usize = 1 << 19;

/// A disk that writes nothing while its gate is shut.
#[derive(Debug, Clone, Default)]
struct Gated {
    disk: SimulatedDisk,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    is_shut: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn shut(&self, is_shut: bool) {
        *self.is_shut.lock().expect("nobody panics") = is_shut;
        self.changed.notify_all();
    }
}

#[derive(Debug)]
struct GatedFile {
    file: Box<dyn DiskFile>,
    gate: Arc<Gate>,
}

impl Disk for Gated {
    fn names(&self) -> io::Result<Vec<String>> {
        self.disk.names()
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(GatedFile { file: self.disk.create(name)?, gate: Arc::clone(&self.gate) }))
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open(name)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
    fn sync_names(&self) -> io::Result<()> {
        self.disk.sync_names()
    }
}

impl DiskFile for GatedFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let is_shut = self.gate.is_shut.lock().expect("nobody panics");
        drop(self.gate.changed.wait_while(is_shut, |is_shut| *is_shut).expect("nobody panics"));
        self.file.write_at(offset, bytes)
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, into)
    }
    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.file.reserve(bytes)
    }
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
    fn write_behind(&self, range: Range<u64>) {
        self.file.write_behind(range);
    }
}

fn a_newer_view_changes_nothing() -> Result<u64, String> {
    let _watchdog = stillframe_peers::Watchdog::start();
    let disk = Gated { disk: SimulatedDisk::default().without_history(), ..Gated::default() };
    let memory = stillframe::Options::words(WORDS).max_words(2 * WORDS);
    let options = Options::memory(memory.budget(64 << 20, OnFull::Cancel));
    let mut store: Store<Imprint> =
        Store::open(Path::new("simulated"), options.disk(Arc::new(disk.clone()))).expect("sound");
    disk.gate.shut(true);
    store.write(WORDS - 1, 1);
    store.checkpoint();
    let number = store.point().expect("it was requested");
    store.write(WORDS - 1, 2);
    store.grow(2 * WORDS).expect("there is room");
    let arena_bytes = store.stats().arena_bytes;
    let view = store.view().expect("none is kept");
    (0..WORDS).for_each(|index| store.write(index, 3));

    let stats = store.stats();
    store.cancel();
    disk.gate.shut(false);
    let ended = store.wait();
    let running = stats.running.expect("the disk holds it");
    assert_eq!(running.number, number);
    if (running.words, stats.arena_bytes) != (WORDS, arena_bytes) || arena_bytes == 0 {
        let found = (running.words, stats.arena_bytes);
        return Err(format!("{found:?} words and bytes of undo beside {arena_bytes} before"));
    }
    match ended {
        Err(Error::Capture { source, .. }) if matches!(*source, CaptureError::Cancelled) => {}
        ended => return Err(format!("cancelled, and {ended:?}")),
    }
    assert_eq!((view.words(), view.read(WORDS - 1)), (2 * WORDS, Ok(2)));
    Ok(1)
}

#[test]
fn a_checkpoint_is_told_and_cancelled_beside_a_newer_view() {
    a_newer_view_changes_nothing().expect("the checkpoint's own");
}

#[test]
fn each_mistake_beside_a_newer_view_is_found() {
    for mutant in [Mutant::CancelsNewest, Mutant::StatsOfNewest] {
        must_find(mutant, a_newer_view_changes_nothing);
    }
}

#[test]
fn a_wait_for_a_log_ends_in_time() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let disk = Gated::default();
    let options = Options::words(1).disk(Arc::new(disk.clone()));
    let mut store = ActStore::open("simulated", options).expect("sound");
    disk.gate.shut(true);
    let mut act = store.begin_act();
    act.write(0, 7);
    act.commit().expect("the log takes it");
    let last = store.logged();
    let log = store.log_handle().expect("it has one");
    for limit in [Duration::ZERO, Duration::from_millis(1)] {
        assert!(!log.is_durable_within(last, limit).expect("sound"), "the disk has it not");
    }
    disk.gate.shut(false);
    assert!(log.is_durable_within(last, Duration::MAX).expect("sound"));
    assert!(log.is_durable_within(last, Duration::ZERO).expect("sound"));
    assert!(log.is_durable_within(last + 1, Duration::ZERO).is_err(), "there is none");
}
