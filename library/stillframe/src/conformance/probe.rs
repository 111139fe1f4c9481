//! The sink of the suite: compares what it receives with what it expects.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::os::Shared;
use crate::sync::{AtomicU64, AtomicUsize, Backoff, Ordering};
use crate::{Before, Sink, SinkError};

use super::{Verdict, ensure};

/// How a probe behaves beside comparing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Takes every word at once.
    Plain,
    /// Lets other threads run after each block.
    Slow,
    /// Waits at each block until the [`Tally`] lets it pass.
    Gated,
    /// Fails at the block that holds this word, or at its end.
    FailsAt(usize),
    /// Panics at the block that holds this word, or at its end.
    PanicsAt(usize),
}

/// `errno` of a probe that fails: no space left on the device.
pub(super) const ERRNO: i32 = 28;

/// What a probe has seen, in memory shared with whatever process it runs in.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pushed: AtomicUsize,
    finished: AtomicUsize,
    /// Faults so far, and the first one: word, expected, found.
    faults: AtomicUsize,
    first: [AtomicU64; 3],
    /// Start of the block that a gated probe holds, plus one.
    arrived: AtomicUsize,
    /// Words that a gated probe may let pass.
    allowed: AtomicUsize,
}

// SAFETY: its fields are atomics.
unsafe impl crate::Shareable for Tally {}

impl Tally {
    pub(super) fn pushed(&self) -> usize {
        self.pushed.load(Ordering::Acquire)
    }
    /// Whether a gated probe holds the block that starts at `start`, or a later one.
    pub(super) fn has_arrived(&self, start: usize) -> bool {
        self.arrived.load(Ordering::Acquire) > start
    }
    /// Whether the gate is open for good.
    pub(super) fn is_open(&self) -> bool {
        self.allowed.load(Ordering::Acquire) == usize::MAX
    }
    /// Lets a gated probe take the words below `words`.
    pub(super) fn allow(&self, words: usize) {
        self.allowed.store(words, Ordering::Release);
    }

    /// Whether the image arrived whole and right.
    pub(super) fn is_whole(&self, words: usize) -> Verdict {
        self.is_right()?;
        let (pushed, finished) = (self.pushed(), self.finished.load(Ordering::Acquire));
        ensure!(pushed == words, "{pushed} words of {words} were pushed");
        ensure!(finished == 1, "the sink was finished {finished} times");
        Ok(())
    }

    /// Whether what has arrived so far is right.
    pub(super) fn is_right(&self) -> Verdict {
        let faults = self.faults.load(Ordering::Acquire);
        let [word, expected, found] = [0, 1, 2].map(|i| self.first[i].load(Ordering::Relaxed));
        ensure!(
            faults == 0,
            "{faults} wrong words; word {word} was {expected:#x} at begin and is {found:#x}"
        );
        Ok(())
    }

    pub(super) fn fault(&self, word: usize, expected: u64, found: u64) {
        if self.faults.fetch_add(1, Ordering::AcqRel) == 0 {
            for (place, value) in self.first.iter().zip([word as u64, expected, found]) {
                place.store(value, Ordering::Relaxed);
            }
        }
    }
}

/// Opens the gate when a test ends, however it ends.
pub(super) struct OpenAtEnd<'a>(pub(super) &'a Tally);

impl Drop for OpenAtEnd<'_> {
    fn drop(&mut self) {
        self.0.allow(usize::MAX);
    }
}

/// The last image that was settled, for those that build on it.
pub(super) type Settled = Arc<Mutex<Vec<u64>>>;

/// A sink that knows the image beforehand.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) expected: Vec<u64>,
    pub(super) settled: Settled,
    pub(super) tally: Shared<Tally>,
    pub(super) manner: Manner,
}

impl Probe {
    /// Its image is durable: the next ones may build on it.
    pub(super) fn settle(&self) {
        *self.settled() = self.expected.clone();
    }

    fn settled(&self) -> MutexGuard<'_, Vec<u64>> {
        self.settled.lock().expect("nobody panics while holding it")
    }

    fn behave(&self, start: usize, end: usize) -> Result<(), SinkError> {
        match self.manner {
            Manner::Slow => std::thread::yield_now(),
            Manner::Gated => {
                self.tally.arrived.store(start + 1, Ordering::Release);
                let mut backoff = Backoff::default();
                while self.tally.allowed.load(Ordering::Acquire) < end {
                    backoff.wait();
                }
            }
            Manner::FailsAt(word) if word < end || start == end => {
                return Err(SinkError::from_errno(format_args!("writing word {start}"), ERRNO));
            }
            // Unlike `panic!` this calls no hook, which would allocate and print.
            Manner::PanicsAt(word) if word < end || start == end => {
                std::panic::resume_unwind(Box::new(()));
            }
            Manner::Plain | Manner::FailsAt(_) | Manner::PanicsAt(_) => {}
        }
        Ok(())
    }
}

impl Sink for Probe {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        if start != self.tally.pushed() || words.is_empty() || words.len() > crate::BLOCK_WORDS {
            self.tally.fault(start, self.tally.pushed() as u64, words.len() as u64);
        }
        self.behave(start, start + words.len())?;
        for (index, &found) in (start..).zip(words) {
            let expected = self.expected.get(index).copied();
            if expected != Some(found) {
                self.tally.fault(index, expected.unwrap_or(u64::MAX), found);
            }
        }
        self.tally.pushed.store(start + words.len(), Ordering::Release);
        Ok(())
    }

    fn before(&mut self, start: usize, into: &mut [u64]) -> Result<Before, SinkError> {
        let settled = self.settled();
        for (index, word) in (start..).zip(into) {
            *word = settled.get(index).copied().unwrap_or(0);
        }
        Ok(Before::Given)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let end = self.expected.len();
        if !matches!(self.manner, Manner::Gated) {
            self.behave(end, end)?;
        }
        self.tally.finished.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}
