//! Fork. Source: Li et al., "A Comparative Study of Consistent Snapshot Algorithms for Main-Memory
//! Database Systems", section 3.1.2; the way of Redis.
//!
//! Idea: `fork` gives a child process whose memory is the image; the kernel copies a page when the
//! parent first writes to it. The child runs the sink and exits.
//!
//! - Memory: 1 to 2 copies, by pages written. Begin: O(page table). Read: nothing added. Write: a
//!   page fault and a page copy on first touch. Full image, in another process.
//! - Unit: the page, and the kernel's business; partial writes need no care.
//! - F1: the child neither allocates, locks nor logs between fork and exit: another thread of the
//!   parent may have held any lock at the instant of the fork.
//! - F2: the child never returns into its caller; every way for it to end reaches the parent:
//!   success and the sink's error through shared memory, a panic by exit status, a signal by the
//!   kernel.
//! - F3: the child is gone before the image ends, so it cannot disturb the next one.
//!
//! The sink's own changes stay in the child; what the parent must see goes through files or
//! [`Shared`] memory. Signals stay with the parent. The child dies with the *thread* that began the
//! image, so a writer's thread must live as long as its images.
//!
//! A sink that panics ends its child in a hook of ours, which is installed with the first state and
//! runs the one before it in every other process: that would break F1. A hook that the program sets
//! later hides ours. Sinks return errors instead.

use std::fmt;
use std::marker::PhantomData;

use crate::algorithm::{Algorithm, Image, New, write_by_replace};
use crate::error::{BeginError, CaptureError, MemoryError, Unavailable};
use crate::handover::{Handover, Progress};
use crate::image::{Held, Lease};
use crate::info::Info;
use crate::memory::{InPlace, Item, Words};
use crate::mutant::Mutant;
use crate::options::Options;
use crate::os::{Child, Ended, NO_FORK, STATUS_PANICKED, Shareable, Shared};
use crate::point::Point;
use crate::sealed::Sealed;
use crate::sink::{BLOCK_WORDS, Sink, SinkError};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// On pages of 4 KiB, unless [`Options::huge_pages`] asks for others.
pub type Fork = ForkedImages<SmallPages>;

/// The pages that the state lies on.
pub trait Pages: Sealed + fmt::Debug + Send + 'static {
    /// The registry's line.
    const INFO: Info;
    /// Whether they are of 2 MiB, whatever the options say.
    const HUGE: bool;
}

/// Those that the options ask for.
#[derive(Debug)]
pub struct SmallPages;

impl Sealed for SmallPages {}
impl Pages for SmallPages {
    const INFO: Info = Fork::REGISTERED;
    const HUGE: bool = false;
}

/// State words with fork snapshots.
#[derive(Debug)]
pub struct ForkedImages<P> {
    words: Words,
    handover: Shared<Handover>,
    verdict: Shared<Verdict>,
    pages: PhantomData<P>,
}

// SAFETY: the conformance suite proves it.
unsafe impl<P: Pages> Algorithm for ForkedImages<P> {
    type Image<S: Sink + 'static> = ForkImage<S>;
    const INFO: Info = P::INFO;

    fn available() -> Result<(), Unavailable> {
        NO_FORK.map_or(Ok(()), |what| Err(Unavailable(what.into())))
    }

    fn create(options: &Options) -> Result<Self, MemoryError> {
        if let Some(what) = NO_FORK {
            return Err(MemoryError::Unavailable { what });
        }
        Child::hush_panics();
        let options = options.clone().huge_pages(P::HUGE || options.huge_pages);
        Ok(Self {
            words: Words::create(&options)?,
            handover: Shared::new(Handover::new())?,
            verdict: Shared::new(Verdict::new())?,
            pages: PhantomData,
        })
    }

    fn words(&self) -> usize {
        self.words.len()
    }

    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        self.words.grow(words)
    }

    #[inline]
    fn read(&self, index: usize) -> u64 {
        self.words.load(index)
    }

    write_by_replace!(in_place);

    #[inline]
    fn approach(&self, index: usize) {
        self.words.prefetch(index);
    }

    fn in_place(&mut self) -> Option<InPlace<'_>> {
        (self.handover.epoch() == 0).then(|| InPlace::new(&self.words))
    }

    fn begin<S: Sink + 'static>(
        &mut self,
        _point: Point,
        sink: S,
    ) -> Result<ForkImage<S>, BeginError> {
        self.handover.check_idle()?;
        self.verdict.reset();
        // Published before the fork, so that parent and child agree on the epoch. If there is no
        // child the lease is dropped, and the image has ended.
        let lease = Lease::publish(&self.handover, self.words.len());
        let mut held = Held::new(sink, lease);
        let words = &self.words;
        let parent_captures =
            self.handover.is(Mutant::ForkCapturesParent).then(|| self.words.view());
        let child = Child::spawn(|| {
            if parent_captures.is_none() {
                let fill = |block, into: &mut [u64]| words.copy_to(block * BLOCK_WORDS, into);
                let result = held.push(fill, |_, _| ());
                self.verdict.record(result);
            }
            0
        });
        let child = child.map_err(|errno| BeginError::Fork { errno })?;
        Ok(ForkImage { child, verdict: self.verdict.clone(), parent_captures, held })
    }

    fn progress(&self) -> Progress {
        Progress::new(&self.handover)
    }
}

impl<P> ForkedImages<P> {
    /// Replaces a word, or half of one, in place.
    #[inline(always)]
    fn replace<T: Item>(&mut self, index: usize, new: impl New<T>) {
        T::store(&self.words, index, new.resolve(|| T::load(&self.words, index)));
    }
}

/// A child process whose memory is the image.
#[derive(Debug)]
pub struct ForkImage<S> {
    // Dropped first: the child is killed and gone before the image ends (F3).
    child: Child,
    verdict: Shared<Verdict>,
    /// For a mutant: the live state.
    parent_captures: Option<Words>,
    held: Held<S>,
}

impl<S: Sink> Image for ForkImage<S> {
    type Sink = S;

    fn words(&self) -> usize {
        self.held.lease.words
    }
    fn epoch(&self) -> u64 {
        self.held.lease.epoch
    }
    fn get(&self, _index: usize) -> Option<u64> {
        None
    }
    fn capture(&mut self) -> Result<(), CaptureError> {
        self.held.spend()?;
        let ended = self.child.wait();
        if let Some(live) = &self.parent_captures {
            let fill = |block, into: &mut [u64]| live.copy_to(block * BLOCK_WORDS, into);
            return self.held.push(fill, |_, _| ());
        }
        match (self.verdict.read(), ended) {
            (Some(result), _) => result,
            (None, Ended::Killed(signal)) => Err(CaptureError::ChildKilled { signal }),
            (None, Ended::Exited(STATUS_PANICKED)) => Err(CaptureError::Panicked),
            (None, Ended::Exited(status)) => Err(CaptureError::ChildExited { status }),
            (None, Ended::Unknown) => Err(CaptureError::ChildExited { status: -1 }),
        }
    }
    fn sink_mut(&mut self) -> &mut S {
        &mut self.held.sink
    }
    fn into_sink(self) -> S {
        drop(self.child);
        self.held.sink
    }
}

/// What the child reports to its parent, in shared memory.
#[derive(Debug)]
struct Verdict {
    state: AtomicU32,
    error: [AtomicU64; SinkError::WORDS],
}

const UNRECORDED: u32 = 0;
const COMPLETE: u32 = 1;
const CANCELLED: u32 = 2;
const SINK_FAILED: u32 = 3;

// SAFETY: its fields are atomics.
unsafe impl Shareable for Verdict {}

impl Verdict {
    fn new() -> Self {
        Self {
            state: AtomicU32::new(UNRECORDED),
            error: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    fn reset(&self) {
        self.state.store(UNRECORDED, Ordering::Relaxed);
    }

    fn record(&self, result: Result<(), CaptureError>) {
        let state = match result {
            Ok(()) => COMPLETE,
            Err(CaptureError::Sink(error)) => {
                for (place, word) in self.error.iter().zip(error.to_words()) {
                    place.store(word, Ordering::Relaxed);
                }
                SINK_FAILED
            }
            Err(_) => CANCELLED,
        };
        self.state.store(state, Ordering::Release); // partner: `read`
    }

    fn read(&self) -> Option<Result<(), CaptureError>> {
        match self.state.load(Ordering::Acquire) {
            COMPLETE => Some(Ok(())),
            CANCELLED => Some(Err(CaptureError::Cancelled)),
            SINK_FAILED => {
                let words = std::array::from_fn(|i| self.error[i].load(Ordering::Relaxed));
                Some(Err(CaptureError::Sink(SinkError::from_words(words))))
            }
            _ => None,
        }
    }
}
