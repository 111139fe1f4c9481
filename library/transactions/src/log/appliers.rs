//! Threads that put records into the state while it is recovered, each those of its own part of all
//! records: what concerns one record is put in the order of the log by one thread, and what does
//! not meet is put at the same time. One thread reads ahead and hands the same bytes to all.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use crate::{Concurrent, Engine, Shape, Stop, Worker};

use super::commits::Commits;
use super::error::Error;
use super::mutant::{Mutant, Mutation};
use super::record;

/// Bytes that are handed over together.
const BATCH_BYTES: usize = if cfg!(test) { 1 << 8 } else { 1 << 16 };
/// Batches that wait for a thread.
const WAITING: usize = 4;
/// Records of one transaction.
const TOGETHER: usize = 16;

/// Hands entries to the threads.
pub(crate) struct Feeder {
    threads: Vec<SyncSender<Arc<[u8]>>>,
    batch: Vec<u8>,
}

impl Feeder {
    /// Adds entries, which [`record::count`] has found sound.
    pub(crate) fn push(&mut self, entries: &[u8]) {
        self.batch.extend_from_slice(entries);
        if self.batch.len() >= BATCH_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let batch: Arc<[u8]> = self.batch.as_slice().into();
        self.batch.clear();
        // A thread that has panicked takes nothing; its panic goes on when all have ended.
        self.threads.iter().for_each(|thread| drop(thread.send(Arc::clone(&batch))));
    }
}

/// Runs `read` with threads that put what it pushes. All is there when this returns.
///
/// # Errors
/// What `read` says, or that there are no workers.
pub(crate) fn feed<A: Concurrent, T>(
    engine: &Engine<A, Commits>,
    shape: Shape,
    threads: usize,
    read: impl FnOnce(&mut Feeder) -> Result<T, Error>,
) -> Result<T, Error> {
    let mutation = Mutation::current();
    let workers: Vec<_> = (0..threads).map(|_| engine.worker()).collect::<Result<_, _>>()?;
    std::thread::scope(|scope| {
        let mut feeder = Feeder { threads: Vec::new(), batch: Vec::new() };
        for (nth, worker) in workers.into_iter().enumerate() {
            let (sender, batches) = sync_channel::<Arc<[u8]>>(WAITING);
            feeder.threads.push(sender);
            let mut applier = Applier { worker, shape, due: Vec::new(), words: Vec::new() };
            scope.spawn(move || {
                for (turn, batch) in batches.into_iter().enumerate() {
                    let by_turns = mutation.is(Mutant::SharesByTurns);
                    let thread = |record| if by_turns { turn } else { record } % threads;
                    applier.apply(&batch, |record| thread(record) == nth);
                }
            });
        }
        let read = read(&mut feeder)?;
        feeder.flush();
        Ok(read)
    })
}

/// Puts the records of one part.
struct Applier<'e, A: Concurrent> {
    worker: Worker<'e, A, Commits>,
    shape: Shape,
    /// Records that are put together, and their words, one after the other.
    due: Vec<(usize, bool)>,
    words: Vec<u64>,
}

impl<A: Concurrent> Applier<'_, A> {
    fn apply(&mut self, mut entries: &[u8], is_mine: impl Fn(usize) -> bool) {
        while let Some((record, words)) = record::entry(&mut entries, self.shape) {
            if !is_mine(record) {
                continue;
            }
            self.worker.prefetch(record);
            self.due.push((record, words.is_some()));
            self.words.extend(record::words(words.unwrap_or_default()));
            if self.due.len() >= TOGETHER {
                self.put();
            }
        }
        self.put();
    }

    fn put(&mut self) {
        let Self { worker, shape, due, words } = self;
        let done = worker.run(|tx| {
            let mut rest = &words[..];
            for &(record, present) in &*due {
                if present {
                    let (first, others) = rest.split_at(shape.words);
                    tx.store(record, first)?;
                    rest = others;
                } else {
                    tx.delete(record)?;
                }
            }
            Ok::<_, Stop<Infallible>>(())
        });
        done.unwrap_or_else(|never| match never {});
        due.clear();
        words.clear();
    }
}
