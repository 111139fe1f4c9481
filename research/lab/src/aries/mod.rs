//! ARIES (Mohan et al. 1992) as Cao et al. 2011 (section 5.1) have it for a state in memory with
//! one writer: nothing is undone, since no transaction is open at a point of consistency, and no
//! page is brought in. What remains is a physical redo log with fuzzy checkpoints. It is here to be
//! compared with images.
//!
//! ```
//! use stillframe_lab::aries::{Aries, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let data = tempfile::tempdir()?;
//! # let data = data.path();
//! let (mut state, _) = Aries::open(data, Options::words(3))?;
//! state.write(0, 7);
//! state.write(1, 8);
//! let sequence = state.commit()?;
//! state.wait_durable(sequence)?; // now it may be acknowledged
//! state.checkpoint()?; // a thread copies the state, while the writer goes on
//! drop(state); // or kill -9
//!
//! let (state, recovery) = Aries::open(data, Options::words(3))?;
//! assert_eq!((state.read(0), state.read(1)), (7, 8));
//! println!("{recovery:?}");
//! # Ok(())
//! # }
//! ```
//!
//! - **Redo**: a record of the log holds the new values of all words that one transaction wrote. It
//!   is there wholly or not at all. Numbers of words are differences, in as few bytes as will do.
//! - **A checkpoint is fuzzy**: a thread copies word after word while the writer goes on, so the
//!   copy holds transactions in part. It counts from the moment when the log is durable up to the
//!   first commit after the copying: everything that the copy may hold a part of has its record.
//! - **Recovery** is the copy, and then all records from where the log stood when the copying
//!   began. Records hold values and not changes, so it does not matter which of them the copy has.

mod checkpoint;
mod error;
mod manifest;
mod mutant;
mod redo;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stillframe_durability::disk::{Directory, Location};
use stillframe_durability::{Application, Log, LogOptions};

use checkpoint::Running;
pub use error::Error;
use manifest::{LOG, Manifest};
use mutant::{Mutant, Mutation};
use redo::Redo;

/// What a state is opened with.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Words of the state.
    pub words: usize,
    /// How the redo log is kept.
    pub log: LogOptions,
    /// Whose files these are.
    pub application: Application,
}

impl Options {
    /// This number of words; the log is synced as soon as the disk is free.
    #[must_use]
    pub fn words(words: usize) -> Self {
        let application = Application::new("aries", 1);
        Self { words, log: LogOptions::default(), application }
    }
    /// Keeps the redo log so.
    #[must_use]
    pub fn log(self, log: LogOptions) -> Self {
        Self { log, ..self }
    }
}

/// What was found when a state was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// Words that the checkpoint had; 0 if there was none.
    pub loaded: usize,
    /// Records that were applied.
    pub records: u64,
}

/// A state of words with one writer, a redo log and fuzzy checkpoints. When dropped, it ends its
/// checkpoint and its log; an error then goes unseen.
#[derive(Debug)]
pub struct Aries {
    directory: Arc<Directory>,
    application: Application,
    words: Arc<[AtomicU64]>,
    redo: Redo,
    log: Log,
    manifest: Manifest,
    running: Option<Running>,
    /// Why the last checkpoint has failed, until somebody has heard it.
    failed: Option<Error>,
    checkpoints: u64,
    mutation: Mutation,
}

const LOCK: &str = "aries.lock";

impl Aries {
    /// Opens the state in the directory at `location`, which is made if need be: that after the
    /// last commit that is durable, or zeros.
    ///
    /// # Errors
    /// [`Error`]; nothing is lost by trying again.
    pub fn open(
        location: impl Into<Location>,
        options: Options,
    ) -> Result<(Self, Recovery), Error> {
        let Options { words: asked, log, application } = options;
        let directory = Directory::create_at(location)?.locked(LOCK)?;
        let manifest = match Manifest::read(&directory)? {
            Some(manifest) if manifest.words != asked => {
                return Err(Error::Words { found: manifest.words, asked });
            }
            Some(manifest) => manifest,
            None => {
                let manifest = Manifest::new(asked);
                manifest.publish(&directory)?;
                manifest
            }
        };
        manifest.clean(&directory)?;
        let mut words = Vec::new();
        words.try_reserve_exact(asked).map_err(|_| Error::Memory(asked))?;
        words.extend((0..asked).map(|_| AtomicU64::new(0)));
        let words: Arc<[AtomicU64]> = words.into();
        let loaded = checkpoint::read(&directory, &manifest, &application, &words)?;
        let mut records = 0;
        let mut apply = |bytes: &[u8]| {
            records += 1;
            redo::apply(bytes, &words)
        };
        // Only before the first image may the log be missing.
        if manifest.image.is_none() && !directory.holds(LOG)? {
            directory.create_below(LOG)?;
        }
        let place = || directory.below(LOG);
        let is_new = manifest.image.is_none() && Log::segments(place()?)?.is_empty();
        let log = if is_new {
            Log::create(place()?, 1, &application, log)?
        } else {
            let from = manifest.position;
            let apply = |action: &stillframe_durability::Action<'_>| apply(action.bytes);
            Log::open(place()?, from, false, &application, log, apply)?.0
        };
        directory.sync()?;
        let opened = Self {
            directory: Arc::new(directory),
            application,
            redo: Redo::default(),
            words,
            log,
            manifest,
            running: None,
            failed: None,
            checkpoints: 0,
            mutation: Mutation::current(),
        };
        Ok((opened, Recovery { loaded, records }))
    }

    /// Words of the state.
    #[must_use]
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// The latest value of a word. Panics if there is none.
    #[inline]
    #[must_use]
    pub fn read(&self, index: usize) -> u64 {
        self.words[index].load(Ordering::Relaxed)
    }

    /// Replaces a word, and notes that for the log. Panics if there is none.
    #[inline]
    pub fn write(&mut self, index: usize, value: u64) {
        if self.mutation.is(Mutant::CommitInTwoRecords) && !self.redo.is_empty() {
            let _ = self.log.append(self.redo.bytes());
            self.redo.clear();
        }
        self.words[index].store(value, Ordering::Relaxed);
        self.redo.push(index, value);
    }

    /// Bytes that the open transaction adds to the log.
    #[must_use]
    pub fn written_bytes(&self) -> usize {
        self.redo.bytes().len()
    }

    /// Ends a transaction: what was written since the last one becomes one record of the log. Gives
    /// its number, or that of the last one if nothing was written.
    ///
    /// # Errors
    /// [`Error`] if the log has failed: the state goes on without being durable.
    pub fn commit(&mut self) -> Result<u64, Error> {
        let sequence = match self.redo.is_empty() {
            true => self.log.last(),
            false => self.log.append(self.redo.bytes())?,
        };
        self.redo.clear();
        self.tend(sequence);
        Ok(sequence)
    }

    /// Waits until a commit is durable.
    ///
    /// # Errors
    /// [`Error`] if it never will be.
    pub fn wait_durable(&self, sequence: u64) -> Result<(), Error> {
        Ok(self.log.handle().wait_durable(sequence)?)
    }

    /// Begins a checkpoint, unless one is under way; says whether it has. Between two transactions
    /// only. It ends in a later [`commit`](Self::commit).
    ///
    /// # Errors
    /// [`Error`], perhaps of the one before; nothing was begun.
    pub fn checkpoint(&mut self) -> Result<bool, Error> {
        let last = self.log.last();
        self.tend(last);
        self.failed.take().map_or(Ok(()), Err)?;
        if self.running.is_some() || !self.redo.is_empty() {
            return Ok(false);
        }
        let words = Arc::clone(&self.words);
        let handle = self.log.handle();
        let next = self.manifest.next(last + 1);
        self.running =
            Some(Running::start(&self.directory, &self.application, words, handle, next)?);
        Ok(true)
    }

    /// Checkpoints that have ended since the state was opened.
    #[must_use]
    pub fn checkpoints(&self) -> u64 {
        self.checkpoints
    }

    /// Waits for the checkpoint under way.
    ///
    /// # Errors
    /// Why it has failed.
    pub fn wait_checkpoint(&mut self) -> Result<(), Error> {
        let last = self.log.last();
        if let Some(running) = &mut self.running {
            running.copied_at(last, true);
            self.end();
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Ends the checkpoint under way, and the log, when all is durable.
    ///
    /// # Errors
    /// Why it is not.
    pub fn close(mut self) -> Result<(), Error> {
        let ended = self.wait_checkpoint();
        self.log.close()?;
        ended
    }

    /// Tells a checkpoint that has copied everything where the log stands, and notes its end.
    fn tend(&mut self, last: u64) {
        let Some(running) = &mut self.running else { return };
        running.copied_at(last, false);
        if running.has_ended() {
            self.end();
        }
    }

    fn end(&mut self) {
        match self.running.take().and_then(Running::end) {
            Some(Ok(manifest)) => {
                self.manifest = manifest;
                self.checkpoints += 1;
            }
            Some(Err(error)) => self.failed = Some(error),
            None => {}
        }
    }
}
