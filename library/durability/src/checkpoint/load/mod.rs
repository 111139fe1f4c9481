//! Loads a checkpoint with one thread or several; the result does not depend on their number.
//!
//! - The file is cut into stretches ([`plan`]). Each thread reads the next one, checks and unpacks
//!   its blocks, and puts their words into memory, or has one thread hand them on. Fresh memory is
//!   slow to touch, so threads share that work, too.
//! - Threads take stretches in order, and report every one that they took. So the report names the
//!   damage at the lowest offset, whichever thread found one first.
//! - Within a file each word comes once, so its runs may come in any order; that they rise is known
//!   when the stretches are put in order, as is the digest of the file.
//! - Memory: for each thread a stretch and one unpacked block, and two batches of words on their
//!   way: a mebibyte each with blocks of the size that is written.

mod plan;

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::ControlFlow;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};

use stillframe::InPlace;

use super::block::BlockStart;
use super::digest::Joint;
use super::reader::Reader;
use crate::damage::checkpoint::Damage;
use plan::{Done, Plan};

/// Words that are handed on at once: 1 MiB.
const BATCH_WORDS: usize = 1 << 17;

impl<R: Read> Reader<R> {
    /// Whether this many threads would read at once: a small file is not worth it.
    pub(crate) fn is_for_threads(&self, threads: usize) -> bool {
        Plan::new(self).is_for_threads(threads)
    }

    /// Hands every run of words to `take(start, words)`, or puts it into `memory`, then checks the
    /// footer. Up to `threads` threads do that, the calling one among them; `at` gives the file
    /// from an offset on. The runs come in any order.
    pub(crate) fn load(
        mut self,
        threads: usize,
        at: impl Fn(u64) -> R + Sync,
        memory: Option<&InPlace<'_>>,
        mut take: impl FnMut(usize, &[u64]),
    ) -> Result<(), Damage> {
        let plan = Plan::new(&self);
        let mut joined = Joined::new(self.digest_so_far(), self.next_start());
        let mut add = |done| {
            if joined.add(done).is_break() {
                plan.stop();
            }
        };
        let is_shared = plan.is_for_threads(threads)
            && by_threads(&plan, threads, &at, memory, &mut take, &mut add);
        if !is_shared {
            let mut scratch = plan.scratch();
            while let Some(number) = plan.take() {
                add(plan.read(number, &at, &mut scratch, |first, run| match memory {
                    Some(memory) => memory.store_run(first, run),
                    None => take(first, run),
                }));
            }
        }
        let (end, digest) = joined.end()?;
        self.skip_to_footer(end, at(end.offset));
        self.check_footer(0, Some(digest))
    }
}

/// What a thread reports.
enum Message {
    Words(Batch),
    Stretch(Done),
}

/// Runs of words, each with the index of its first.
#[derive(Default)]
struct Batch {
    runs: Vec<(usize, usize)>,
    words: Vec<u64>,
}

impl Batch {
    fn add(&mut self, first: usize, run: &[u64]) {
        self.runs.push((first, run.len()));
        self.words.extend_from_slice(run);
    }

    fn runs(&self) -> impl Iterator<Item = (usize, &[u64])> {
        let mut rest = &self.words[..];
        self.runs.iter().map(move |&(first, count)| {
            let (run, later) = rest.split_at(count);
            rest = later;
            (first, run)
        })
    }

    fn clear(&mut self) {
        self.runs.clear();
        self.words.clear();
    }
}

/// Batches that have been handed on, to be filled again.
#[derive(Default)]
struct Pool(Mutex<Vec<Batch>>);

impl Pool {
    fn with<T>(&self, change: impl FnOnce(&mut Vec<Batch>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hands `batch` on, and leaves an empty one in its place. If no receiver is left, that
    /// shows when the stretch is reported.
    fn send(&self, batch: &mut Batch, send: &SyncSender<Message>) {
        if !batch.runs.is_empty() {
            let empty = self.with(Vec::pop).unwrap_or_default();
            let _ = send.send(Message::Words(std::mem::replace(batch, empty)));
        }
    }
}

/// Loads all stretches with up to `threads` threads, of which the calling one hands on what they
/// report. False if there was no other.
fn by_threads<R: Read>(
    plan: &Plan,
    threads: usize,
    at: &(impl Fn(u64) -> R + Sync),
    memory: Option<&InPlace<'_>>,
    take: &mut impl FnMut(usize, &[u64]),
    add: &mut impl FnMut(Done),
) -> bool {
    let pool = &Pool::default();
    let mut started = 0;
    thread::scope(|scope| {
        let (send, receive) = sync_channel(2 * threads);
        for _ in 1..threads.min(plan.stretches() as usize + 1) {
            let send = send.clone();
            let work = move || {
                let _guard = plan.end_guard();
                let (mut scratch, mut batch) = (plan.scratch(), Batch::default());
                while let Some(number) = plan.take() {
                    let done = plan.read(number, at, &mut scratch, |first, run| match memory {
                        Some(memory) => memory.store_run(first, run),
                        None => {
                            batch.add(first, run);
                            if batch.words.len() >= BATCH_WORDS {
                                pool.send(&mut batch, &send);
                            }
                        }
                    });
                    pool.send(&mut batch, &send);
                    if send.send(Message::Stretch(done)).is_err() {
                        return;
                    }
                }
            };
            let spawned = Builder::new().name("load".into()).spawn_scoped(scope, work);
            started += usize::from(spawned.is_ok());
        }
        drop(send);
        for message in receive {
            match message {
                Message::Words(mut batch) => {
                    batch.runs().for_each(|(first, run)| take(first, run));
                    batch.clear();
                    pool.with(|pool| pool.push(batch));
                }
                Message::Stretch(done) => add(done),
            }
        }
    });
    started > 0
}

/// The stretches so far, in order.
struct Joined {
    /// Those that came before their turn.
    early: BTreeMap<u64, Done>,
    next: u64,
    joint: Joint,
    digest: u64,
    end: BlockStart,
    /// The first word that may come in an increment.
    next_word: u64,
    damage: Option<Damage>,
}

impl Joined {
    /// Nothing but the header, which ends at `end`.
    fn new(digest: u64, end: BlockStart) -> Self {
        let (early, joint) = (BTreeMap::new(), Joint::new(0));
        Self { early, next: 0, joint, digest, end, next_word: 0, damage: None }
    }

    /// Adds a stretch. Breaks off if no further ones are of interest.
    fn add(&mut self, done: Done) -> ControlFlow<()> {
        let is_damaged = done.damage.is_some();
        self.early.insert(done.number, done);
        while self.damage.is_none()
            && let Some(done) = self.early.remove(&self.next)
        {
            self.next += 1;
            self.damage = match done.first {
                Some((first, misplaced)) if first < self.next_word => Some(misplaced),
                _ => done.damage,
            };
            self.digest = self.joint.join(self.digest, done.digest, done.bytes);
            (self.end, self.next_word) = (done.end, self.next_word.max(done.next_word));
        }
        if is_damaged || self.damage.is_some() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Where the blocks end, and the digest up to there.
    fn end(self) -> Result<(BlockStart, u64), Damage> {
        match self.damage {
            Some(damage) => Err(damage),
            None => Ok((self.end, self.digest)),
        }
    }
}
