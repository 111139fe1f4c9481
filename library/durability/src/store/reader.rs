//! Views for other threads, which ask the writer's.
//!
//! A view begins on the writer's thread, at a point of consistency: a reader leaves the sending
//! half of a channel, and the next point answers. A store that ends drops it, and so tells the
//! reader.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stillframe::Algorithm;
use stillframe::algorithms::imprint::Imprint;

use super::view::View;
use super::{Journal, Store};
use crate::error::Error;

type Answer<A> = Result<View<A>, Error>;

/// Asks a [`Store`] for [views](Store::view), from any thread; see [`Store::reader`]. A clone asks
/// the same store.
pub struct Reader<A: Algorithm = Imprint> {
    requests: Arc<Requests<A>>,
}

impl<A: Algorithm> Reader<A> {
    /// The state at the next [point](Store::point), which this waits for. The thread of the store
    /// must not call it: it would wait for itself.
    ///
    /// # Errors
    /// As for [`Store::view`]; [`Error::Closed`] if the store has ended, or ends first.
    pub fn view(&self) -> Result<View<A>, Error> {
        let (_, receiver) = self.requests.ask()?;
        receiver.recv().unwrap_or(Err(Error::Closed))
    }

    /// [`view`](Self::view), if a point comes in time.
    ///
    /// # Errors
    /// As for [`view`](Self::view); [`Error::NoPoint`] if none comes.
    pub fn view_timeout(&self, limit: Duration) -> Result<View<A>, Error> {
        let (number, receiver) = self.requests.ask()?;
        match receiver.recv_timeout(limit) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                self.requests.forget(number);
                Err(Error::NoPoint { waited: limit })
            }
            Err(RecvTimeoutError::Disconnected) => Err(Error::Closed),
        }
    }
}

impl<A: Algorithm> Clone for Reader<A> {
    fn clone(&self) -> Self {
        Self { requests: Arc::clone(&self.requests) }
    }
}

impl<A: Algorithm> fmt::Debug for Reader<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl<A: Algorithm> Store<A> {
    /// A handle by which other threads ask for [views](Self::view), while this one writes.
    ///
    /// ```
    /// # use stillframe_durability::{Error, Options, Store};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let data = tempfile::tempdir()?;
    /// let mut accounts: Store = Store::open(data.path(), Options::words(2))?;
    /// let reader = accounts.reader();
    /// let report = std::thread::spawn(move || {
    ///     let view = reader.view()?;
    ///     Ok::<_, Box<Error>>(view.read(0).map(|one| view.read(1).map(|other| one + other)))
    /// });
    /// while !report.is_finished() {
    ///     accounts.update(0, |balance| balance.wrapping_sub(7));
    ///     accounts.update(1, |balance| balance.wrapping_add(7));
    ///     accounts.point(); // the reader gets a view of now
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn reader(&self) -> Reader<A> {
        Reader { requests: Arc::clone(&self.requests) }
    }

    /// Gives a view to each reader that waits for one.
    #[cold]
    pub(super) fn answer_readers(&mut self) {
        if matches!(self.log, Journal::Replaying) {
            return; // they wait on
        }
        for (_, sender) in self.requests.take() {
            let _ = sender.try_send(self.view()); // who has just given up drops it
        }
    }
}

/// What readers wait for.
pub(super) struct Requests<A: Algorithm> {
    /// Relaxed throughout, as a checkpoint that is due: a point that comes too early for it is
    /// followed by others.
    are_waiting: AtomicBool,
    /// `None` once the store has ended.
    waiting: Mutex<Option<Waiting<A>>>,
}

/// Who waits, by number.
struct Waiting<A: Algorithm> {
    last: u64,
    senders: Vec<(u64, SyncSender<Answer<A>>)>,
}

impl<A: Algorithm> Requests<A> {
    fn ask(&self) -> Result<(u64, Receiver<Answer<A>>), Error> {
        let (sender, receiver) = sync_channel(1);
        let mut waiting = self.lock();
        let waiting = waiting.as_mut().ok_or(Error::Closed)?;
        waiting.last += 1;
        waiting.senders.push((waiting.last, sender));
        self.are_waiting.store(true, Ordering::Relaxed);
        Ok((waiting.last, receiver))
    }

    /// Nobody waits for this answer any more.
    fn forget(&self, number: u64) {
        if let Some(waiting) = self.lock().as_mut() {
            waiting.senders.retain(|&(other, _)| other != number);
        }
    }

    #[inline]
    pub(super) fn are_waiting(&self) -> bool {
        self.are_waiting.load(Ordering::Relaxed)
    }

    fn take(&self) -> Vec<(u64, SyncSender<Answer<A>>)> {
        let mut waiting = self.lock();
        self.are_waiting.store(false, Ordering::Relaxed);
        waiting.as_mut().map(|waiting| std::mem::take(&mut waiting.senders)).unwrap_or_default()
    }

    /// The store has ended: who waits is told so.
    pub(super) fn close(&self) {
        *self.lock() = None;
    }

    // A poisoned lock is taken anyway: each change is one step.
    fn lock(&self) -> MutexGuard<'_, Option<Waiting<A>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Algorithm> Default for Requests<A> {
    fn default() -> Self {
        let none = Waiting { last: 0, senders: Vec::new() };
        Self { are_waiting: AtomicBool::new(false), waiting: Mutex::new(Some(none)) }
    }
}

impl<A: Algorithm> fmt::Debug for Requests<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests").finish_non_exhaustive()
    }
}
