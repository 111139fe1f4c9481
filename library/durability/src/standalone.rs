//! A log without a store: for programs that keep state, and images of it, in another manner.
//!
//! - An image notes its *position*, the number of the first record that it lacks. It is published
//!   after every record below was made durable ([`LogHandle::wait_durable`]); so the position
//!   proves that they were on the disk (W5), and a log that ends before it is damaged.
//! - Records below the position of a published image may go ([`Log::remove_below`]). A crash
//!   before they have gone is harmless: they are not read.
//! - As with a store, reading changes nothing, and may be interrupted and repeated.

use std::sync::Arc;
use std::time::Duration;

use crate::application::Application;
use crate::clock::now_ms;
use crate::disk::{Directory, LOCK, Location};
use crate::error::Error;
use crate::log::handle::LogHandle;
use crate::log::logger::Logger;
use crate::log::options::{LogOptions, Policy};
use crate::log::reader::Report;
use crate::log::writer::Writer;
use crate::log::{Header, nonce, segments, set_aside};
use crate::recovery::Replayed;
use crate::retention;
use crate::stats::LogStats;
use crate::store::action::{Action, ApplyError};
use crate::store::replay::replay;
use crate::until::Until;

/// A log in a directory of its own, written by a thread of its own. When dropped, it first writes
/// and syncs what it has.
///
/// ```
/// use stillframe_durability::{Application, Log, LogOptions};
///
/// # fn main() -> Result<(), stillframe_durability::Error> {
/// # let folder = tempfile::tempdir().expect("a temporary directory");
/// # let folder = folder.path().join("log");
/// let example = Application::new("example", 1);
/// let log = Log::create(&folder, 1, &example, LogOptions::default())?;
/// let sequence = log.append(b"an action")?;
/// log.handle().wait_durable(sequence)?; // now it may be acknowledged
/// log.close()?;
/// let mut actions = 0;
/// Log::read(&folder, 1, false, None, &example, |action| {
///     assert_eq!((action.sequence, action.bytes), (1, &b"an action"[..]));
///     actions += 1;
///     Ok(())
/// })?;
/// assert_eq!(actions, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Log {
    logger: Logger,
    handle: LogHandle,
}

impl Log {
    /// Begins a log in the directory at `location`, which is created if need be and must hold none.
    /// Its first record will have the number `first`; its files bear the name of `application`.
    ///
    /// # Errors
    /// [`Error`]; nothing was logged.
    pub fn create(
        location: impl Into<Location>,
        first: u64,
        application: &Application,
        options: LogOptions,
    ) -> Result<Self, Error> {
        let directory = Directory::create_at(location)?.claimed(application)?.locked(LOCK)?;
        if !segments(&directory)?.is_empty() {
            return Err(Error::NotEmpty { directory: directory.path().to_path_buf() });
        }
        let found = Report { next: first.max(1), ..Report::default() };
        Self::start(directory, &found, options)
    }

    /// Goes on with the log in the directory at `location`, after every record from `from` on was
    /// handed to `apply`. `from` is the position of the image that the caller has loaded.
    ///
    /// # Errors
    /// [`Error`]; nothing is lost by trying again. [`Error::Log`] if the log is damaged before its
    /// torn tail, unless `accept_loss`: then the loss is reported, and moved aside.
    /// [`Error::Foreign`] if it is of another application.
    pub fn open(
        location: impl Into<Location>,
        from: u64,
        accept_loss: bool,
        application: &Application,
        options: LogOptions,
        apply: impl FnMut(&Action<'_>) -> Result<(), ApplyError>,
    ) -> Result<(Self, Replayed), Error> {
        let directory = Directory::existing(location)?.claimed(application)?.locked(LOCK)?;
        let (found, replayed) = replay(&directory, from, accept_loss, None, apply)?;
        if found.lost.is_some() {
            set_aside(&directory, found.next)?;
        }
        Ok((Self::start(directory, &found, options)?, replayed))
    }

    /// Hands the records of a log from `from` on to `apply`, up to `until`, and changes nothing.
    /// No lock is taken: of a log that is being written, what is there is read, and if files are
    /// removed meanwhile that is an error.
    ///
    /// # Errors
    /// [`Error`], as for [`open`](Self::open).
    pub fn read(
        location: impl Into<Location>,
        from: u64,
        accept_loss: bool,
        until: Option<Until>,
        application: &Application,
        apply: impl FnMut(&Action<'_>) -> Result<(), ApplyError>,
    ) -> Result<Replayed, Error> {
        let directory = Directory::existing(location)?.claimed(application)?;
        replay(&directory, from, accept_loss, until, apply).map(|(_, replayed)| replayed)
    }

    /// The segments of the log in the directory at `location`: the number of its first record each,
    /// rising, and its length. The log may be open.
    ///
    /// # Errors
    /// [`Error`].
    pub fn segments(location: impl Into<Location>) -> Result<Vec<(u64, u64)>, Error> {
        retention::lengths(&Directory::existing(location)?)
    }

    /// Removes the files that hold no record from `from` on, once no image needs them. The log may
    /// be open.
    ///
    /// # Errors
    /// [`Error`]; what is left over does no harm.
    pub fn remove_below(location: impl Into<Location>, from: u64) -> Result<(), Error> {
        let location = location.into();
        let is_path = location.disk().is_none();
        let directory = Directory::existing(location)?;
        let removed = retention::truncate(&directory, from);
        if is_path {
            directory.finish_sweep(); // nobody does it when this is dropped
        }
        removed
    }

    fn start(directory: Directory, found: &Report, options: LogOptions) -> Result<Self, Error> {
        let created_ms = now_ms().max(found.time_ms);
        let header = Header::new(found.next, created_ms, nonce(), directory.owner());
        let writer = Writer::resume(Arc::new(directory), found, header)?;
        let logger = Logger::start(writer, found.time_ms, options).map_err(Error::Thread)?;
        let handle = LogHandle::new(Arc::clone(logger.shared()));
        Ok(Self { logger, handle })
    }

    /// Adds a record and returns its number. It waits for the disk only if
    /// [`LogOptions::waiting_bytes_max`] are waiting already.
    ///
    /// # Errors
    /// [`Error`] if the log has failed before.
    pub fn append(&self, action: &[u8]) -> Result<u64, Error> {
        self.logger.shared().append(action)
    }

    /// Adds several records, each of two parts, and returns the number of the last; all of them or
    /// none.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    pub fn append_all<'a>(
        &self,
        actions: impl Iterator<Item = [&'a [u8]; 2]> + Clone,
    ) -> Result<u64, Error> {
        self.logger.shared().append_all(actions)
    }

    /// The number of the last record that is known to be durable.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.logger.shared().durable()
    }

    /// The number of the last record.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.logger.shared().last().0
    }

    /// Counts and times.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        self.logger.shared().stats()
    }

    /// Makes records durable by `policy` from now on, those that already wait included.
    pub fn set_policy(&self, policy: Policy) {
        self.logger.shared().set_policy(policy);
    }

    /// Hurries the records up to `sequence` to the disk, whatever the policy, and waits for
    /// nothing: [`LogOptions::on_durable`] hears of it.
    pub fn hurry(&self, sequence: u64) {
        self.logger.shared().hurry(sequence);
    }

    /// On a disk [without a time of its own](crate::disk::Disk::sync_time), where the log has no
    /// thread: writes the records that wait, and returns how long their sync is to take; by then
    /// call [`sync_written`](Self::sync_written). `None` on any other disk.
    #[must_use]
    pub fn write_waiting(&self) -> Option<Duration> {
        self.logger.write_waiting()
    }

    /// Makes durable what was [written](Self::write_waiting).
    pub fn sync_written(&self) {
        self.logger.sync_written();
    }

    /// A handle for another thread.
    #[must_use]
    pub fn handle(&self) -> LogHandle {
        self.handle.clone()
    }

    /// Ends the log, when all its records are durable.
    ///
    /// # Errors
    /// [`Error`] if they are not.
    pub fn close(mut self) -> Result<(), Error> {
        self.logger.close()
    }
}
