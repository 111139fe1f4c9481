//! The end of an image beside the begin of the next, and how many slots there can be.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use stillframe::algorithms::naive::Naive;
use stillframe::{
    Algorithm, BeginError, Info, MemoryError, Options, Point, Progress, Sink, SinkError,
};

use super::{CreateError, KEYS_MAX};
use crate::{Entry, EntrySink, Expire, Keyspace, KeyspaceOptions};

thread_local! {
    /// Holds the image under way, until the next one is begun.
    static GATE: RefCell<Option<Sender<()>>> = const { RefCell::new(None) };
}

/// An algorithm whose image before ends at the last moment: when the next one is being begun.
struct Late(Naive);

// SAFETY: it does what naive does.
unsafe impl Algorithm for Late {
    type Image<S: Sink + 'static> = <Naive as Algorithm>::Image<S>;
    const INFO: Info = Naive::INFO;

    fn create(options: &Options) -> Result<Self, MemoryError> {
        Naive::create(options).map(Self)
    }
    fn words(&self) -> usize {
        self.0.words()
    }
    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        self.0.grow(words)
    }
    fn read(&self, index: usize) -> u64 {
        self.0.read(index)
    }
    fn write(&mut self, index: usize, value: u64) {
        self.0.write(index, value);
    }
    fn begin<S: Sink + 'static>(
        &mut self,
        point: Point,
        sink: S,
    ) -> Result<Self::Image<S>, BeginError> {
        drop(GATE.take());
        let (started, progress) = (Instant::now(), self.progress());
        while progress.running() {
            assert!(started.elapsed() < Duration::from_secs(300), "the image does not end");
            std::thread::yield_now();
        }
        self.0.begin(point, sink)
    }
    fn progress(&self) -> Progress {
        self.0.progress()
    }
}

/// Takes entries when the gate is gone.
struct Hold(Receiver<()>);

impl EntrySink for Hold {
    fn entry(&mut self, _db: usize, _entry: &Entry) -> Result<(), SinkError> {
        let _ = self.0.recv();
        Ok(())
    }
}

#[test]
fn an_image_that_ends_while_the_next_begins_leaves_the_books_right() {
    let options = KeyspaceOptions { max_keys: 1 << 8, ..KeyspaceOptions::default() };
    let mut keyspace = Keyspace::<Late>::create(&options).unwrap();
    let keys: Vec<Vec<u8>> = (0..20).map(|number| format!("key:{number}").into_bytes()).collect();
    let limbo = |keyspace: &Keyspace<Late>| {
        let stats = keyspace.stats();
        (stats.limbo_entries, stats.limbo_bytes > 0)
    };
    for round in 0..3 {
        let (gate, held) = channel();
        keyspace.snapshot(Point::declare(), Hold(held), |_, _| {}).unwrap();
        GATE.set(Some(gate));
        assert_eq!(limbo(&keyspace), (0, false), "round {round}: limbo begins empty");
        for key in &keys {
            keyspace.set(0, key, &[b'v'; 100], Expire::Never).unwrap();
        }
        let replaced = if round == 0 { 0 } else { keys.len() };
        assert_eq!(limbo(&keyspace), (replaced, replaced > 0), "round {round}");
    }
    GATE.set(None);
    keyspace.wait_image();
    assert_eq!(limbo(&keyspace), (0, false));
}

#[test]
#[cfg_attr(miri, ignore = "reserves address space")]
fn more_keys_than_slots_can_be_numbered_are_refused() {
    let create = |max_keys| {
        let options = KeyspaceOptions { max_keys, ..KeyspaceOptions::default() };
        Keyspace::<Naive>::create(&options).map(drop)
    };
    assert!(create(KEYS_MAX).is_ok());
    for max_keys in [KEYS_MAX + 1, 1 << 40, usize::MAX] {
        let refused = create(max_keys).expect_err("too many");
        assert!(matches!(refused, CreateError::TooManyKeys { .. }), "{refused:?}");
        assert!(refused.to_string().contains(&max_keys.to_string()), "{refused}");
    }
}

/// A word in the place of another entry would be a write to memory that may be freed.
#[test]
#[should_panic(expected = "stale")]
fn a_stale_seat_changes_nothing() {
    let mut keyspace = Keyspace::<Naive>::create(&KeyspaceOptions::default()).unwrap();
    keyspace.set(0, b"key", b"value", Expire::Never).unwrap();
    let seat = keyspace.slots.seat(0).expect("a key");
    keyspace.set(0, b"key", &[b'x'; 2000], Expire::Never).unwrap();
    keyspace.slots.entry_mut(seat);
}
