//! A state beside its oracle, random writes to both, and captures stopped at every block.

use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

use crate::os::Shared;
use crate::sync::{Backoff, caught};
use crate::{
    Algorithm, BLOCK_WORDS, BeginError, CaptureError, Image, OnFull, Options, Point, Progress,
};

use super::probe::{Manner, OpenAtEnd, Probe, Settled, Tally};
use super::{Verdict, ensure};

/// SplitMix64.
#[derive(Debug, Clone)]
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
    /// A number below `bound`, which is not zero.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// What a capture came to: a panic of the sink reads like that of a sink in a child.
pub(super) type Captured = Result<(), CaptureError>;

/// Captures an image.
pub(super) fn capture(image: &mut impl Image) -> Captured {
    caught(|| image.capture()).unwrap_or(Err(CaptureError::Panicked))
}

/// Captures an image and, if that succeeds, declares it durable.
pub(super) fn capture_and_settle(image: &mut impl Image<Sink = Probe>) -> Captured {
    capture(image)?;
    image.sink_mut().settle();
    image.settle();
    Ok(())
}

/// Waits for the thread that captures, doing its slices of the writer's thread meanwhile.
pub(super) fn join<T>(
    state: &mut impl Algorithm,
    thread: ScopedJoinHandle<'_, T>,
) -> Result<T, String> {
    let mut backoff = Backoff::default();
    while !thread.is_finished() {
        if !state.tend() {
            backoff.wait();
        }
    }
    thread.join().map_err(|_| "the capture panicked".to_owned())
}

/// Cancels the image under way when a test ends early: no thread would tend it.
pub(super) struct CancelAtEnd<'a>(pub(super) &'a Progress);

impl Drop for CancelAtEnd<'_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A state under test and a plain copy of what it should hold.
pub(super) struct Rig<A> {
    pub(super) state: A,
    pub(super) oracle: Vec<u64>,
    pub(super) settled: Settled,
    pub(super) rng: Rng,
}

impl<A: Algorithm> Rig<A> {
    /// `words` words with room for as many again and a block, and a budget that suffices.
    pub(super) fn new(words: usize, seed: u64) -> Result<Self, String> {
        // A seed for each unit in turn.
        let unit = A::INFO.units[seed as usize % A::INFO.units.len()];
        let options = Options::words(words).max_words(2 * words + BLOCK_WORDS);
        let options = options.threads(2).unit(unit);
        let budget = if cfg!(miri) { 1 << 12 } else { 8 << 20 };
        Self::create(&options.budget(budget, OnFull::Cancel), seed)
    }

    pub(super) fn create(options: &Options, seed: u64) -> Result<Self, String> {
        let state = A::create(options).map_err(|error| error.to_string())?;
        let oracle = vec![0; state.words()];
        Ok(Self { state, oracle, settled: Settled::default(), rng: Rng(seed) })
    }

    pub(super) fn write(&mut self, index: usize, value: u64) -> Verdict {
        if value & 2 == 0 {
            self.state.approach(index); // which changes nothing
        }
        self.state.write(index, value);
        self.oracle[index] = value;
        let found = self.state.read(index);
        ensure!(found == value, "word {index} reads {found:#x} after {value:#x} was written");
        Ok(())
    }

    /// `count` writes of random kinds and places; few places, so that blocks fill their chains.
    pub(super) fn writes(&mut self, count: usize) -> Verdict {
        let words = self.oracle.len();
        if words == 0 {
            return Ok(());
        }
        for _ in 0..count {
            let value = self.rng.next();
            let index = self.rng.below(words);
            match self.rng.below(10) {
                9 => self.update(index, value)?,
                8 => self.write_many()?,
                0 => self.write_run(index, value)?,
                1 => self.write_half(2 * index + (value & 1) as usize, value as u32)?,
                2 => self.write(words - 1, value)?,
                3 | 4 => self.write(index / BLOCK_WORDS * BLOCK_WORDS, value)?,
                _ => self.write(index, value)?,
            }
        }
        Ok(())
    }

    /// A function of the old value, which panics every other time and then has changed nothing.
    fn update(&mut self, index: usize, value: u64) -> Verdict {
        let (old, panics) = (self.oracle[index], value & 1 != 0);
        let patch = |word: u64| {
            if panics {
                resume_unwind(Box::new(())); // past the hook, which would print it
            }
            word ^ value
        };
        let updated = caught(|| self.state.update(index, patch)).is_some();
        let expected = if panics { old } else { old ^ value };
        self.oracle[index] = expected;
        let found = self.state.read(index);
        let did = if updated { "updated" } else { "not updated" };
        ensure!(updated != panics && found == expected, "word {index} is {did}: {found:#x}");
        Ok(())
    }

    fn write_run(&mut self, start: usize, value: u64) -> Verdict {
        let most = (self.oracle.len() - start).min(2 * BLOCK_WORDS);
        let length = self.rng.below(most) + 1;
        let values: Vec<u64> = (0..length as u64).map(|i| value ^ i).collect();
        self.state.write_run(start, &values);
        self.oracle[start..start + length].copy_from_slice(&values);
        let found = self.state.read(start + length - 1);
        ensure!(Some(&found) == values.last(), "a run's last word reads {found:#x}");
        Ok(())
    }

    /// A batch, in which a word may come more than once.
    fn write_many(&mut self) -> Verdict {
        let most = if cfg!(miri) { 5 } else { [80, 80, 80, 700][self.rng.below(4)] };
        let (words, count) = (self.oracle.len(), self.rng.below(most));
        let span = [words, words.min(BLOCK_WORDS), words.min(3)][self.rng.below(3)];
        let writes: Vec<_> =
            (0..count).map(|_| (words - 1 - self.rng.below(span), self.rng.next())).collect();
        self.state.write_many(&writes);
        writes.iter().for_each(|&(index, value)| self.oracle[index] = value);
        for &(index, _) in &writes {
            let (found, value) = (self.state.read(index), self.oracle[index]);
            ensure!(found == value, "word {index} reads {found:#x} after a batch, not {value:#x}");
        }
        Ok(())
    }

    fn write_half(&mut self, index: usize, value: u32) -> Verdict {
        self.state.write_u32(index, value);
        let shift = 32 * (index % 2);
        let word = &mut self.oracle[index / 2];
        *word = *word & !(0xffff_ffff << shift) | u64::from(value) << shift;
        let found = self.state.read_u32(index);
        ensure!(found == value, "half word {index} reads {found:#x}, not {value:#x}");
        Ok(())
    }

    pub(super) fn grow(&mut self, words: usize) -> Verdict {
        self.state.grow(words).map_err(|error| error.to_string())?;
        self.oracle.resize(words.max(self.oracle.len()), 0);
        ensure!(self.state.words() == self.oracle.len(), "{} words", self.state.words());
        Ok(())
    }

    /// Whether every word reads as it was last written.
    pub(super) fn check_reads(&self) -> Verdict {
        ensure!(self.state.words() == self.oracle.len(), "{} words", self.state.words());
        let start = self.oracle.len() / 2;
        let Some(window) = self.state.window(start, self.oracle.len() - start) else {
            return Err("there is no window on the words".into());
        };
        for (index, &expected) in self.oracle.iter().enumerate() {
            let found = self.state.read(index);
            ensure!(found == expected, "word {index} reads {found:#x}, not {expected:#x}");
            let found = index.checked_sub(start).map_or(expected, &window);
            ensure!(found == expected, "word {index} is {found:#x} in a window, not {expected:#x}");
        }
        Ok(())
    }

    /// Begins an image that a probe compares with the state of now.
    #[allow(clippy::type_complexity, reason = "an image and the shared tally of its sink")]
    pub(super) fn begin(
        &mut self,
        manner: Manner,
    ) -> Result<(A::Image<Probe>, Shared<Tally>), BeginError> {
        let tally = Shared::new(Tally::default())?;
        let (expected, settled) = (self.oracle.clone(), self.settled.clone());
        let probe = Probe { expected, settled, tally: tally.clone(), manner };
        Ok((self.state.begin(Point::declare(), probe)?, tally))
    }

    /// Takes one image, running `between(rig, block)` while the sink holds each block (and once
    /// more when it has taken all), and returns how the capture ended.
    pub(super) fn image_stopped_at_blocks(
        &mut self,
        mut between: impl FnMut(&mut Self, usize) -> Verdict,
    ) -> Result<(Captured, Shared<Tally>), String> {
        let (mut image, tally) = self.begin(Manner::Gated).map_err(|error| error.to_string())?;
        let words = image.words();
        ensure!(words == self.oracle.len(), "the image has {words} words");
        let progress = self.state.progress();
        self.writes(2)?;
        let result = thread::scope(|scope| {
            let _open = OpenAtEnd(&tally);
            let _cancel = CancelAtEnd(&progress);
            let thread = scope.spawn(move || capture_and_settle(&mut image));
            for start in (0..words).step_by(BLOCK_WORDS) {
                let mut backoff = Backoff::default();
                while !tally.has_arrived(start) && !thread.is_finished() {
                    if !self.state.tend() {
                        backoff.wait();
                    }
                }
                let captured = progress.captured_words();
                ensure!(captured <= start, "{captured} words captured while at {start}");
                ensure!(progress.total_words() == words, "{} in total", progress.total_words());
                between(self, start / BLOCK_WORDS)?;
                let now = progress.captured_words();
                ensure!(captured <= now && now <= start, "{captured}, then {now} captured");
                tally.allow(start + BLOCK_WORDS.min(words - start));
            }
            between(self, words.div_ceil(BLOCK_WORDS))?;
            join(&mut self.state, thread)
        })?;
        ensure!(!progress.running(), "an image runs after its end");
        Ok((result, tally))
    }
}

/// Whether an image was captured, whole and right.
pub(super) fn complete(result: Captured, tally: &Shared<Tally>, words: usize) -> Verdict {
    result.map_err(|error| error.to_string())?;
    tally.is_whole(words)
}
