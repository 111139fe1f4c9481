//! The log of a member, for openraft: entries, vote and the rest in one log with group commit.
//!
//! - Each call adds records and returns; the thread of the log writes and syncs them, and tells
//!   openraft then. Votes are waited for, and truncations: an image that comes next may be durable
//!   before the next sync of the log, and beside it entries that were given up must not come back.
//! - The entries since the last purge are in memory as well, as bytes: followers that lag are
//!   served from there. `max_in_snapshot_log_to_keep` and the snapshot policy bound them.
//! - A purge writes what the log knows besides entries anew and lets go of whole segments, on a
//!   thread of its own.
//! - Nothing heals a log that has failed, as after a full disk: openraft stops the node, which
//!   opens it again.

mod contents;
mod janitor;
mod pending;
mod position;
mod record;

use std::fmt::Debug;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use openraft::storage::{LogFlushed, LogState, RaftLogReader, RaftLogStorage};
use openraft::{LogId, OptionalSend, RaftLogId, RaftTypeConfig, StorageError, Vote};
use stillframe_durability::disk::Location;
use stillframe_durability::{Application, Log, LogOptions, LogStats};
use tokio::sync::{Notify, oneshot};

use self::contents::{Contents, Kept};
use self::janitor::{Cut, Janitor};
use self::pending::{Pending, Waiter};
use self::record::Head;
use crate::error::{About, Error};
use crate::mutant::{Mutant, Mutation};

/// Bytes of entries that are read at once for a member that lags: what is sent at once is less, and
/// the rest is read again.
const READ_BYTES: u64 = 1 << 20;

/// The log of a member. Clones are the same log.
pub struct LogStore<C: RaftTypeConfig> {
    shared: Arc<Shared<C>>,
}

struct Shared<C: RaftTypeConfig> {
    // Before the log, which it asks to wait.
    janitor: Janitor,
    log: Log,
    pending: Arc<Pending<C>>,
    contents: Mutex<Contents<C>>,
    /// A vote that may be given soon, and its record.
    prepared: Mutex<Option<(Vote<C::NodeId>, u64)>>,
    waiting_bytes_max: usize,
    /// Told of new records if no thread writes them.
    work: Option<Arc<Notify>>,
    mutation: Mutation,
}

impl<C: RaftTypeConfig> Clone for LogStore<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<C: RaftTypeConfig> Debug for LogStore<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogStore").field("log", &self.shared.log).finish_non_exhaustive()
    }
}

impl<C: RaftTypeConfig> LogStore<C> {
    /// Opens the log at `location`, for a state machine of your own; [`open`](crate::open) does so
    /// for those of this crate. `is_new`: there may be none yet; a log that was there and is gone
    /// has taken the vote with it.
    ///
    /// # Errors
    /// [`Error`]; nothing is lost by trying again.
    pub fn open(
        location: Location,
        is_new: bool,
        application: &Application,
        options: LogOptions,
    ) -> Result<Self, Error> {
        let waiting_bytes_max = options.waiting_bytes_max.max(1);
        let pending = Arc::new(Pending::<C>::default());
        let theirs = Arc::clone(&pending);
        let options =
            options.waiting_bytes_max(usize::MAX).on_durable(move |durable| match durable {
                Ok(durable) => theirs.settle(durable),
                Err(error) => theirs.fail(&error.to_string()),
            });
        let mut contents = Contents::default();
        let mutation = Mutation::current();
        let segments = Log::segments(location.clone())?;
        let from = match segments.first() {
            Some(&(first, _)) if mutation.is(Mutant::ReadsFirstSegment) => first,
            _ => position::read(&location)?,
        };
        let log = match segments.first() {
            None if is_new => Log::create(location.clone(), 1, application, options)?,
            None => return Err(Error::LogMissing { directory: location.path().into() }),
            Some(_) => {
                let apply = |action: &stillframe_durability::Action<'_>| {
                    let wrong = |what| Error::Record { sequence: action.sequence, what };
                    Ok(contents.replay(action.sequence, action.bytes).map_err(wrong)?)
                };
                let opened = Log::open(location.clone(), from, false, application, options, apply);
                let (log, replayed) = opened?;
                let wrong = |what| Error::Record { sequence: replayed.last, what };
                contents.check().map_err(wrong)?;
                log
            }
        };
        let work = log.write_waiting().map(|_| Arc::default());
        let janitor = match work {
            Some(_) => Janitor::without_thread(location),
            None => Janitor::start(location, log.handle())?,
        };
        let (contents, prepared) = (Mutex::new(contents), Mutex::default());
        let shared =
            Shared { janitor, log, pending, contents, prepared, waiting_bytes_max, work, mutation };
        let shared = Arc::new(shared);
        if let Some(work) = &shared.work {
            tokio::spawn(write(Arc::downgrade(&shared), Arc::clone(work)));
        }
        Ok(Self { shared })
    }

    /// Counts and times.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        self.shared.log.stats()
    }

    /// Has a node that led when it ended begin as a follower, before openraft reads the vote. By
    /// itself openraft goes on in the same term, with no entry to show that a new life begins: a
    /// state machine that counts what it has proposed must not take that of another life for its
    /// own. Nobody else can have led in that term, so nothing is granted twice.
    ///
    /// # Errors
    /// [`Error`]: the log has failed.
    pub fn resign(&self, node: &C::NodeId) -> Result<(), Error> {
        let leads = |vote: &Vote<C::NodeId>| {
            vote.committed && vote.leader_id().voted_for().as_ref() == Some(node)
        };
        if self.lock().head.vote.as_ref().is_some_and(leads) {
            self.add_head(|head| {
                if let Some(vote) = &mut head.vote {
                    vote.committed = false;
                }
            })?;
        }
        Ok(())
    }

    /// Makes a vote durable that openraft may give soon: to give it then waits for no sync. After
    /// a restart it counts as given, which a member may do with any later vote.
    ///
    /// # Errors
    /// [`Error`]: the log has failed.
    pub async fn prepare_vote(&self, vote: Vote<C::NodeId>) -> Result<(), Error> {
        let next = vote.clone();
        let sequence = self.add_head(|head| {
            if head.vote.as_ref().is_none_or(|given| next > *given) {
                head.vote = Some(next);
            }
        })?;
        *self.prepared() = Some((vote, sequence));
        self.durable(sequence).await
    }

    fn prepared(&self) -> MutexGuard<'_, Option<(Vote<C::NodeId>, u64)>> {
        self.shared.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has neither a vote nor an entry, and never had.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        let contents = self.lock();
        contents.head.vote.is_none() && contents.last().is_none()
    }

    /// The last entry that was purged.
    #[must_use]
    pub fn purged(&self) -> Option<LogId<C::NodeId>> {
        self.lock().head.purged.clone()
    }

    /// Bytes of the entries since the last purge, which are in memory too.
    #[must_use]
    pub fn entry_bytes(&self) -> u64 {
        self.lock().bytes()
    }

    /// Memory that the log takes: the entries since the last purge.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.lock().memory_bytes()
    }

    fn lock(&self) -> MutexGuard<'_, Contents<C>> {
        // Taken though poisoned: it is whole between statements.
        self.shared.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the head as `change` makes it; returns its record.
    fn add_head(&self, change: impl FnOnce(&mut Head<C>)) -> Result<u64, Error> {
        let mut contents = self.lock();
        let mut head = contents.head.clone();
        change(&mut head);
        let bytes = record::head(&head).map_err(|what| Error::Record { sequence: 0, what })?;
        let sequence = self.shared.log.append(&bytes)?;
        self.shared.tell_work();
        contents.set_head(sequence, head);
        Ok(sequence)
    }

    /// Adds entries; returns the number of the last record, and their bytes.
    fn add_entries(&self, entries: impl Iterator<Item = C::Entry>) -> Result<(u64, usize), Error> {
        let mut contents = self.lock();
        let mut records = Vec::new();
        let mut next = contents.next();
        let purged = contents.head.purged.as_ref().map(|purged| purged.index);
        // What is purged was applied: nobody asks for it again.
        for entry in entries.filter(|entry| Some(entry.get_log_id().index) > purged) {
            let id = entry.get_log_id().clone();
            let wrong = |what| Error::Record { sequence: 0, what };
            if let Some(next) = next.filter(|&next| next != id.index) {
                return Err(wrong(format!("entry {} comes where {next} should", id.index)));
            }
            next = Some(id.index + 1);
            records.push((id, record::entry::<C>(&entry).map_err(wrong)?.into_boxed_slice()));
        }
        let bytes = records.iter().map(|(_, record)| record.len()).sum();
        let parts = records.iter().map(|(_, record)| [&record[..], &[]]);
        let last = self.shared.log.append_all(parts)?;
        self.shared.tell_work();
        let first = last + 1 - records.len() as u64;
        for (sequence, (id, record)) in (first..).zip(records) {
            contents.push(Kept { sequence, id, record });
        }
        Ok((last, bytes))
    }

    /// Drops the entries from this index on; returns the record of that.
    fn add_truncation(&self, from: u64) -> Result<u64, Error> {
        let mut contents = self.lock();
        contents.truncate(from);
        if self.shared.mutation.is(Mutant::ForgetsTruncation) {
            return Ok(self.shared.log.last());
        }
        let bytes = record::truncate(from);
        let bytes = bytes.map_err(|what| Error::Record { sequence: 0, what })?;
        let sequence = self.shared.log.append(&bytes)?;
        self.shared.tell_work();
        Ok(sequence)
    }

    /// Returns when a record is durable.
    async fn durable(&self, sequence: u64) -> Result<(), Error> {
        let (told, durable) = oneshot::channel();
        self.wait(sequence, 0, Waiter::Told(told));
        let durable = durable.await.unwrap_or_else(|_| Err("the log has ended".into()));
        durable.map_err(|what| Error::Record { sequence, what })
    }

    fn wait(&self, sequence: u64, bytes: usize, waiter: Waiter<C>) {
        let Shared { pending, log, .. } = &*self.shared;
        pending.add(sequence, bytes, waiter);
        pending.settle(log.durable()); // it may have been told before
    }
}

impl<C: RaftTypeConfig> RaftLogReader<C> for LogStore<C> {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<C::Entry>, StorageError<C::NodeId>> {
        let entries = self.lock().range(&range);
        entries.map_err(|what| About::Log.reading(Error::Record { sequence: 0, what }))
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<C::Entry>, StorageError<C::NodeId>> {
        let contents = self.lock();
        let end = contents.end_within(start, end, READ_BYTES);
        let entries = contents.range(&(start..end));
        entries.map_err(|what| About::Log.reading(Error::Record { sequence: 0, what }))
    }
}

impl<C: RaftTypeConfig> RaftLogStorage<C> for LogStore<C> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<C>, StorageError<C::NodeId>> {
        let contents = self.lock();
        let (last_purged_log_id, last_log_id) = (contents.head.purged.clone(), contents.last());
        Ok(LogState { last_purged_log_id, last_log_id })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<C::NodeId>) -> Result<(), StorageError<C::NodeId>> {
        let failed = |error: Error| About::Vote.writing(error);
        let prepared = self.prepared().take().filter(|(prepared, _)| prepared == vote);
        let is_last = self.lock().head.vote.as_ref() == Some(vote);
        let sequence = match prepared {
            Some((_, sequence)) if is_last => sequence,
            _ => self.add_head(|head| head.vote = Some(vote.clone())).map_err(failed)?,
        };
        if self.shared.mutation.is(Mutant::VotesBeforeSync) {
            return Ok(());
        }
        self.durable(sequence).await.map_err(failed)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<C::NodeId>>, StorageError<C::NodeId>> {
        Ok(self.lock().head.vote.clone())
    }

    /// Durable with the next sync, and not waited for: after a crash it may be an earlier one.
    async fn save_committed(
        &mut self,
        committed: Option<LogId<C::NodeId>>,
    ) -> Result<(), StorageError<C::NodeId>> {
        let added = self.add_head(|head| head.committed = committed);
        added.map(drop).map_err(|error| About::Log.writing(error))
    }

    async fn read_committed(
        &mut self,
    ) -> Result<Option<LogId<C::NodeId>>, StorageError<C::NodeId>> {
        Ok(self.lock().head.committed.clone())
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<C>,
    ) -> Result<(), StorageError<C::NodeId>>
    where
        I: IntoIterator<Item = C::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.shared.pending.room(self.shared.waiting_bytes_max).await;
        let added = self.add_entries(entries.into_iter());
        let (last, bytes) = added.map_err(|error| About::Log.writing(error))?;
        if self.shared.mutation.is(Mutant::AcknowledgesBeforeSync) {
            callback.log_io_completed(Ok(()));
        } else {
            self.wait(last, bytes, Waiter::Flushed(callback));
        }
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId<C::NodeId>) -> Result<(), StorageError<C::NodeId>> {
        let failed = |error: Error| About::Log.writing(error);
        let sequence = self.add_truncation(log_id.index).map_err(failed)?;
        match self.shared.mutation.is(Mutant::TruncatesLate) {
            true => Ok(()),
            false => self.durable(sequence).await.map_err(failed),
        }
    }

    async fn purge(&mut self, log_id: LogId<C::NodeId>) -> Result<(), StorageError<C::NodeId>> {
        let added = self.add_head(|head| head.purged = Some(log_id));
        let behind = added.map_err(|error| About::Log.writing(error))?;
        let from = match self.shared.mutation.is(Mutant::CutsTooMuch) {
            true => behind + 1,
            false => self.lock().needed_from(),
        };
        let cut = Cut { from, behind };
        if self.shared.work.is_none() {
            self.shared.janitor.cut(cut);
            return Ok(());
        }
        let store = self.clone();
        tokio::spawn(async move {
            if store.durable(behind).await.is_ok() {
                store.shared.janitor.cut(cut);
            }
        });
        Ok(())
    }
}

impl<C: RaftTypeConfig> Shared<C> {
    /// There are new records.
    fn tell_work(&self) {
        if let Some(work) = &self.work {
            work.notify_one();
        }
    }
}

/// Writes and syncs records in place of a thread, for a disk without a time of its own.
async fn write<C: RaftTypeConfig>(store: Weak<Shared<C>>, work: Arc<Notify>) {
    loop {
        work.notified().await;
        let Some(time) = store.upgrade().and_then(|store| store.log.write_waiting()) else {
            return;
        };
        tokio::time::sleep(time).await;
        if let Some(store) = store.upgrade() {
            store.log.sync_written();
        }
    }
}
