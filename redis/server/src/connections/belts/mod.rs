//! The hand-over between the command thread and an I/O thread: whole batches, one way.
//!
//! Idea: a belt is a bounded ring of batches, and a second one that brings the spent batches back
//! with their memory. A side that has nothing to do lies down: it says so, looks once more, and
//! sleeps until its bell rings. The other side rings only those who lie.
//!
//! Invariants:
//! - Nobody waits for room: what does not fit stays in the batch that the sender fills.
//! - A batch that was handed is taken once, and batches in their order.
//! - No sleep is for ever while there is something to take, or room for what is stuck. Four cases
//!   need the fences: the sender hands (or the receiver makes room) and then looks whether the
//!   other side lies; the other side says that it lies and then looks at the ring (or tries again
//!   to hand). A fence of each in between: at least one sees the other.
//!
//! Models: `redis/server/models/belts/tests`.

mod mutant;
mod sync;

#[cfg(feature = "loom")]
pub use mutant::{Mutant, with_mutant};

#[cfg(not(feature = "loom"))]
use mutant::Mutant;
use mutant::Mutation;
use sync::{Arc, AtomicBool, Consumer, Ordering, Producer, fence, push, ring};

/// Spent batches that are kept for their memory.
const SPENT_MAX: usize = 4;

/// Things handed over together.
pub trait Batch: Default {
    /// Whether there is nothing in it.
    fn is_empty(&self) -> bool;
    /// Empties it, and keeps its memory.
    fn clear(&mut self);
}

/// Wakes a thread that has lain down.
#[derive(Clone)]
pub struct Bell(Arc<Lain>);

struct Lain {
    asleep: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
    mutation: Mutation,
}

impl Bell {
    /// A bell for a thread whose sleep, or the next one, `wake` ends.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        let asleep = AtomicBool::new(false);
        Self(Arc::new(Lain { asleep, wake: Box::new(wake), mutation: Mutation::current() }))
    }

    /// The thread lies down: it looks once more for work, and then sleeps.
    pub fn lie_down(&self) {
        self.0.asleep.store(true, Ordering::Relaxed);
        if !self.0.mutation.is(Mutant::LooksBeforeItLies) {
            // With the fence of `ring`: this thread sees what was handed, or is seen lying.
            fence(Ordering::SeqCst);
        }
    }

    /// The thread is up.
    pub fn get_up(&self) {
        // The one who rings late wakes a thread that is up: its next sleep ends at once.
        self.0.asleep.store(false, Ordering::Relaxed);
    }

    /// Wakes the thread if it lies, after something was done for it to see.
    #[inline]
    pub fn ring(&self) {
        if !self.0.mutation.is(Mutant::RingsWithoutFence) {
            fence(Ordering::SeqCst); // see `lie_down`
        }
        if take(&self.0.asleep) {
            (self.0.wake)();
        }
    }
}

/// Lowers a flag, if it is up; one that is down is not written to.
#[inline]
fn take(flag: &AtomicBool) -> bool {
    let relaxed = Ordering::Relaxed; // the fences around it order what it tells
    flag.load(relaxed) && flag.compare_exchange(true, false, relaxed, relaxed).is_ok()
}

/// The side of a belt that fills batches.
pub struct Sender<B> {
    full: Producer<B>,
    spent: Consumer<B>,
    batch: B,
    stuck: Arc<AtomicBool>,
    receiver: Bell,
    mutation: Mutation,
}

/// The side of a belt that takes batches.
pub struct Receiver<B> {
    full: Consumer<B>,
    spent: Producer<B>,
    stuck: Arc<AtomicBool>,
    sender: Bell,
    mutation: Mutation,
}

/// A belt for so many batches, between the threads with these bells.
pub fn belt<B: Batch>(batches: usize, sender: Bell, receiver: Bell) -> (Sender<B>, Receiver<B>) {
    let ((full, taken), (back, spent)) = (ring(batches), ring(batches.min(SPENT_MAX)));
    let stuck = Arc::new(AtomicBool::new(false));
    let mutation = Mutation::current();
    let out = Sender { full, spent, batch: B::default(), stuck: stuck.clone(), receiver, mutation };
    (out, Receiver { full: taken, spent: back, stuck, sender, mutation })
}

impl<B: Batch> Sender<B> {
    /// The batch to fill.
    #[inline]
    pub fn batch(&mut self) -> &mut B {
        &mut self.batch
    }

    /// Hands the batch over, if there is something in it; false if there was no room, so that it
    /// stays. The receiver rings when there is.
    pub fn hand(&mut self) -> bool {
        if self.batch.is_empty() {
            return true;
        }
        if self.push() {
            return true;
        }
        self.stuck.store(true, Ordering::Relaxed);
        // With the fence of `take`: this try finds its room, or it finds this batch stuck.
        fence(Ordering::SeqCst);
        self.push()
    }

    fn push(&mut self) -> bool {
        match push(&mut self.full, std::mem::take(&mut self.batch)) {
            Ok(()) => {
                self.batch = self.spent.pop().unwrap_or_default();
                self.receiver.ring();
                true
            }
            Err(_) if self.mutation.is(Mutant::DropsWhatIsStuck) => true,
            Err(batch) => {
                self.batch = batch;
                false
            }
        }
    }

    /// Whether the other side is gone.
    #[cfg(not(feature = "loom"))]
    pub fn is_abandoned(&self) -> bool {
        self.full.is_abandoned()
    }
}

impl<B: Batch> Receiver<B> {
    /// The next batch.
    #[inline]
    pub fn take(&mut self) -> Option<B> {
        let batch = self.full.pop().ok()?;
        fence(Ordering::SeqCst); // see `hand`
        if take(&self.stuck) && !self.mutation.is(Mutant::TellsNobodyOfRoom) {
            self.sender.ring();
        }
        Some(batch)
    }

    /// Whether there is no batch to take.
    pub fn is_empty(&self) -> bool {
        self.full.is_empty()
    }

    /// Gives a batch back that was worked off.
    #[inline]
    pub fn give_back(&mut self, mut batch: B) {
        batch.clear();
        let _ = push(&mut self.spent, batch); // there are enough of them
    }
}
