//! Whatever sinks do, image after image: they take or decline each block, know the image before or
//! do without it, dawdle, fail or panic at any call; their images are settled or not, dropped
//! half-way, cancelled, over their budget; the state grows between them and while they are held.
//!
//! Two oracles. The state and each word that a sink is given are compared with [`Rig::oracle`], now
//! and at begin. `Kept` is what a keeper of images would have: each word as the last settled image
//! whose sink took it gave it. What an increment leaves out is taken from there, and must be right.

use std::thread;

use crate::info::Completeness;
use crate::memory::{split, with_half};
use crate::os::Shared;
use crate::sync::{AtomicUsize, Backoff, Ordering};
use crate::{
    Algorithm, BLOCK_WORDS, Before, CaptureError, Image, OnFull, Options, Point, Progress,
};
use crate::{Sink, SinkError};

use super::probe::Tally;
use super::rig::{CancelAtEnd, Captured, Rig, Rng, capture, join};
use super::{Verdict, ensure, rounds};

const BLOCKS_MAX: usize = 10;
const WORDS_MAX: usize = BLOCKS_MAX * BLOCK_WORDS;

/// What went wrong in a sink, on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mischief {
    Fails,
    Panics,
}

/// What a sink is going to do, fixed before begin.
#[derive(Debug, Clone)]
struct Plan {
    /// Which blocks it wants.
    wants: Vec<bool>,
    /// What it holds of earlier images, if it gives that: zero where it holds nothing.
    before: Option<Vec<u64>>,
    /// What it does at which of its calls, or at the next one where it can.
    mischief: Option<(Mischief, usize)>,
    dawdles: bool,
}

/// What a sink was given, in memory shared with whatever process it runs in.
#[derive(Debug)]
struct Given {
    /// For each half word, how often.
    times: [AtomicUsize; 2 * WORDS_MAX],
    finished: AtomicUsize,
    /// Whether the mischief was done.
    struck: AtomicUsize,
}

// SAFETY: its fields are atomics.
unsafe impl crate::Shareable for Given {}

#[derive(Debug)]
struct Fickle {
    plan: Plan,
    expected: Vec<u64>,
    calls: usize,
    given: Shared<Given>,
    tally: Shared<Tally>,
}

impl Fickle {
    /// One call, which can fail if it `may`.
    fn turn(&mut self, may_fail: bool) -> Result<(), SinkError> {
        self.calls += 1;
        if self.plan.dawdles {
            thread::yield_now();
        }
        match self.plan.mischief {
            Some((Mischief::Fails, at)) if self.calls >= at && may_fail => {
                self.given.struck.store(1, Ordering::Release);
                Err(SinkError::new(format_args!("call {at} fails on purpose")))
            }
            Some((Mischief::Panics, at)) if self.calls >= at => {
                self.given.struck.store(1, Ordering::Release);
                // Unlike `panic!` this calls no hook, which would allocate and print.
                std::panic::resume_unwind(Box::new(()));
            }
            _ => Ok(()),
        }
    }
}

impl Sink for Fickle {
    fn wants(&mut self, start: usize) -> bool {
        let _ = self.turn(false);
        self.plan.wants[start / BLOCK_WORDS]
    }

    fn before(&mut self, start: usize, into: &mut [u64]) -> Result<Before, SinkError> {
        self.turn(true)?;
        let Some(before) = &self.plan.before else { return Ok(Before::Skipped) };
        into.copy_from_slice(&before[start..start + into.len()]);
        Ok(Before::Given)
    }

    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        self.turn(true)?;
        for (index, &found) in (start..).zip(words) {
            let expected = self.expected.get(index).copied();
            if expected != Some(found) || !self.plan.wants[index / BLOCK_WORDS] {
                self.tally.fault(index, expected.unwrap_or(u64::MAX), found);
            }
            for half in 2 * index..2 * index + 2 {
                self.given.times[half].fetch_add(1, Ordering::AcqRel);
            }
        }
        Ok(())
    }

    fn push_half(&mut self, index: usize, half: u32) -> Result<(), SinkError> {
        self.turn(true)?;
        let word = self.expected.get(index / 2).copied();
        let expected = word.map(|word| split(word)[index % 2]);
        if expected != Some(half) || !self.plan.wants[index / 2 / BLOCK_WORDS] {
            self.tally.fault(index / 2, word.unwrap_or(u64::MAX), half.into());
        }
        self.given.times[index].fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.turn(true)?;
        self.given.finished.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}

/// What becomes of an image beside what its sink does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Dropped before its capture.
    Dropped,
    /// Captured by the thread that began it, which writes before.
    Here,
    /// Captured by another thread, while the writer goes on.
    There,
}

/// A state under test, and what its sinks have been given.
struct Kept<A> {
    rig: Rig<A>,
    on_full: OnFull,
    /// Whether images may need more than their budget.
    is_scarce: bool,
    /// Each word, as far as a settled image gave it.
    words: Vec<Option<u64>>,
    settled: Option<u64>,
}

/// The writer goes on at least so far while the one who captured holds the image.
struct Steps<'a>(&'a AtomicUsize);

impl Drop for Steps<'_> {
    /// However the writer ends, no thread waits for it.
    fn drop(&mut self) {
        self.0.store(usize::MAX, Ordering::Release);
    }
}

/// Captures an image, and settles it if asked to, whatever came of it. What was not captured to the
/// end is stopped by then, so that a writer that waits goes on however long the image is held.
fn work<A: Algorithm>(
    image: &mut A::Image<Fickle>,
    progress: &Progress,
    settles: bool,
) -> Result<Captured, String> {
    let result = capture(image);
    let is_stopped = progress.is_stopped();
    ensure!(result.is_ok() || is_stopped, "{result:?} and not stopped: a writer waits on");
    if settles {
        image.settle();
    }
    Ok(result)
}

impl<A: Algorithm> Kept<A> {
    fn new(seed: u64) -> Result<Self, String> {
        let mut rng = Rng(seed);
        let unit = A::INFO.units[rng.below(A::INFO.units.len())];
        let is_scarce = rng.below(2) == 0;
        let on_full = if rng.below(2) == 0 { OnFull::Slow } else { OnFull::Cancel };
        let ample = if cfg!(miri) { 1 << 12 } else { 8 << 20 };
        let budget = if is_scarce { 8 * 11 } else { ample };
        let words = rng.below(5 * BLOCK_WORDS) + 1;
        let options = Options::words(words).max_words(WORDS_MAX).unit(unit).threads(2);
        let rig = Rig::create(&options.budget(budget, on_full), rng.next())?;
        Ok(Self { rig, on_full, is_scarce, words: vec![None; words], settled: None })
    }

    fn plan(&mut self) -> Plan {
        let words = self.rig.oracle.len();
        let rng = &mut self.rig.rng;
        let [one, of] = [[1, 1], [1, 2], [1, 8], [7, 8]][rng.below(4)];
        let wants = (0..BLOCKS_MAX).map(|_| rng.below(of) < one).collect();
        let kept = self.words.iter().map(|word| word.unwrap_or(0));
        let kept = kept.chain(std::iter::repeat(0)).take(words).collect();
        let before = (rng.below(2) == 0).then_some(kept);
        // Each block is asked for, perhaps completed, perhaps pushed in parts.
        let at = rng.below(3 * words.div_ceil(BLOCK_WORDS) + 3);
        let mischief = match rng.below(5) {
            0 => Some((Mischief::Fails, at)),
            1 => Some((Mischief::Panics, at)),
            _ => None,
        };
        Plan { wants, before, mischief, dawdles: rng.below(4) == 0 }
    }

    fn may_write_while_held(&self, fate: Fate) -> bool {
        // No thread would capture what the writer waits for.
        fate == Fate::There || !self.is_scarce || self.on_full == OnFull::Cancel
    }

    /// Takes one image.
    fn image(&mut self, number: u64, plan: Plan, fate: Fate) -> Verdict {
        let (given, tally) = self.shared()?;
        let expected = self.rig.oracle.clone();
        let sink = Fickle {
            plan: plan.clone(),
            expected: expected.clone(),
            calls: 0,
            given: given.clone(),
            tally: tally.clone(),
        };
        let begun = self.rig.state.begin(Point::declare(), sink);
        let mut image = begun.map_err(|error| error.to_string())?;
        let builds_on = self.settled.filter(|_| A::INFO.image == Completeness::Incremental);
        // Merge alone needs an image before.
        let builds_on = builds_on.filter(|_| !A::INFO.random_access);
        ensure!(image.builds_on() == builds_on, "builds on {:?}", image.builds_on());
        ensure!(image.epoch() == number, "image {} is numbered {}", number, image.epoch());
        let cancels = self.rig.rng.below(6) == 0;
        // Nobody captures yet.
        if self.may_write_while_held(Fate::Here) {
            self.writes(10)?;
        }
        if cancels && self.rig.rng.below(2) == 0 {
            self.rig.state.progress().cancel();
        }
        let settles = self.rig.rng.below(3) != 0;
        let result = match fate {
            Fate::Dropped => {
                self.look(&image, &expected, cancels)?;
                if settles {
                    image.settle(); // never captured: must not count
                }
                drop(image);
                Err(CaptureError::Cancelled)
            }
            Fate::Here => {
                self.look(&image, &expected, cancels)?;
                let result = work::<A>(&mut image, &self.rig.state.progress(), settles)?;
                if result.is_err() || self.may_write_while_held(fate) {
                    self.writes(10)?; // the image is held still
                }
                drop(image);
                result
            }
            Fate::There => self.elsewhere(image, cancels, settles)?,
        };
        ensure!(!self.rig.state.progress().running(), "an image runs after its end");
        tally.is_right()?;
        let struck = given.struck.load(Ordering::Acquire) != 0;
        self.judge(&result, struck, &plan, cancels || fate == Fate::Dropped)?;
        if result.is_ok() {
            self.take(&given, &plan, &expected, settles)?;
            if settles {
                self.settled = Some(number);
            }
        }
        self.rig.check_reads()
    }

    fn shared(&self) -> Result<(Shared<Given>, Shared<Tally>), String> {
        let given = Given {
            times: std::array::from_fn(|_| AtomicUsize::new(0)),
            finished: AtomicUsize::new(0),
            struck: AtomicUsize::new(0),
        };
        let given = Shared::new(given).map_err(|error| error.to_string())?;
        let tally = Shared::new(Tally::default()).map_err(|error| error.to_string())?;
        Ok((given, tally))
    }

    /// A few words of the image, before its capture.
    fn look(&mut self, image: &A::Image<Fickle>, expected: &[u64], is_stopped: bool) -> Verdict {
        let may_be_gone = is_stopped || self.is_scarce || !A::INFO.random_access;
        for _ in 0..self.rig.rng.below(4) {
            let index = self.rig.rng.below(expected.len());
            let found = image.get(index);
            let is_right = found == Some(expected[index]) || found.is_none() && may_be_gone;
            ensure!(is_right, "word {index} is {found:?}, not {:#x}", expected[index]);
        }
        Ok(())
    }

    /// Captures on another thread, which holds the image until the writer has gone on.
    fn elsewhere(
        &mut self,
        mut image: A::Image<Fickle>,
        cancels: bool,
        settles: bool,
    ) -> Result<Captured, String> {
        let progress = self.rig.state.progress();
        let theirs = progress.clone();
        let steps = AtomicUsize::new(0);
        thread::scope(|scope| {
            let _cancel = CancelAtEnd(&progress);
            let running = Steps(&steps);
            let thread = scope.spawn(|| {
                let result = work::<A>(&mut image, &theirs, settles)?;
                let publishing = steps.load(Ordering::Acquire);
                let mut backoff = Backoff::default();
                while steps.load(Ordering::Acquire) < publishing.saturating_add(20) {
                    backoff.wait();
                }
                drop(image);
                Ok(result)
            });
            while !thread.is_finished() {
                self.writes(1)?;
                steps.fetch_add(1, Ordering::AcqRel);
                if cancels && self.rig.rng.below(20) == 0 {
                    progress.cancel();
                }
                self.rig.state.tend();
            }
            drop(running);
            join(&mut self.rig.state, thread)?
        })
    }

    /// Writes, and sometimes growth.
    fn writes(&mut self, count: usize) -> Verdict {
        self.rig.writes(count)?;
        if self.rig.rng.below(30) == 0 {
            let words = self.rig.oracle.len() + self.rig.rng.below(BLOCK_WORDS);
            self.rig.grow(words.min(WORDS_MAX))?;
        }
        Ok(())
    }

    /// Whether an image may have ended like this.
    fn judge(&self, result: &Captured, struck: bool, plan: &Plan, cancels: bool) -> Verdict {
        let mischief = plan.mischief.filter(|_| struck).map(|(mischief, _)| mischief);
        let may_be = match (result, mischief) {
            (Err(CaptureError::Sink(_)), mischief) => mischief == Some(Mischief::Fails),
            (Err(CaptureError::Panicked), mischief) => mischief == Some(Mischief::Panics),
            // A child may have failed before it was killed.
            (_, Some(_)) => cancels && !A::INFO.in_process,
            (Ok(()), None) => true,
            (Err(CaptureError::Cancelled), None) => cancels,
            (Err(CaptureError::OverBudget), None) => {
                self.is_scarce && self.on_full == OnFull::Cancel
            }
            _ => false,
        };
        ensure!(may_be, "{plan:?} ended with {result:?}");
        Ok(())
    }

    /// An image was captured to the end: whether the blocks that its sink took are whole, with what
    /// earlier sinks took.
    fn take(&mut self, given: &Given, plan: &Plan, expected: &[u64], settles: bool) -> Verdict {
        let finished = given.finished.load(Ordering::Acquire);
        ensure!(finished == 1, "the sink was finished {finished} times");
        let may_lack = !A::INFO.random_access
            && A::INFO.image == Completeness::Incremental
            && plan.before.is_none();
        self.words.resize(self.rig.oracle.len().max(expected.len()), None);
        for (index, &expected) in expected.iter().enumerate() {
            let is_wanted = plan.wants[index / BLOCK_WORDS];
            let [low, high] = [0, 1].map(|half| &given.times[2 * index + half]);
            let times = [low, high].map(|times| times.load(Ordering::Acquire));
            let most = times[0].max(times[1]);
            ensure!(most <= usize::from(is_wanted), "word {index} was pushed {times:?} times");
            if !is_wanted {
                continue;
            }
            let kept = self.words[index].filter(|_| may_lack);
            let found = match times {
                [1, 1] => Some(expected),
                [1, _] => kept.map(|kept| with_half(kept, 0, split(expected)[0])),
                [_, 1] => kept.map(|kept| with_half(kept, 1, split(expected)[1])),
                _ => kept,
            };
            let is_right = found == Some(expected);
            ensure!(is_right, "word {index} is {found:x?} with the images before: {expected:#x}");
            if settles {
                self.words[index] = Some(expected);
            }
        }
        Ok(())
    }
}

/// Each sink is given what is right, and every word of it; each image ends as its sink wants, and
/// leaves the next ones and the state as they should be.
pub(super) fn whatever_sinks_do<A: Algorithm>(seed: u64) -> Verdict {
    let mut kept = Kept::<A>::new(seed)?;
    let images = rounds(25) as u64;
    for number in 1..=images {
        let plan = kept.plan();
        let fate = [Fate::Dropped, Fate::Here, Fate::Here, Fate::There, Fate::There];
        let fate = fate[kept.rig.rng.below(fate.len())];
        let did = format!("image {number}, {fate:?}");
        kept.image(number, plan, fate).map_err(|what| format!("{did}: {what}"))?;
        let count = kept.rig.rng.below(20);
        kept.writes(count)?;
    }
    // All of it, as a keeper of the images has it in the end.
    let wants = vec![true; BLOCKS_MAX];
    let plan = Plan { wants, before: None, mischief: None, dawdles: false };
    let (given, tally) = kept.shared()?;
    let expected = kept.rig.oracle.clone();
    let (calls, sunk) = (0, plan.clone());
    let sink =
        Fickle { plan: sunk, expected: expected.clone(), calls, given: given.clone(), tally };
    let begun = kept.rig.state.begin(Point::declare(), sink);
    let mut image = begun.map_err(|error| error.to_string())?;
    capture(&mut image).map_err(|error| error.to_string())?;
    image.sink_mut().tally.is_right()?;
    kept.take(&given, &plan, &expected, true)
}
