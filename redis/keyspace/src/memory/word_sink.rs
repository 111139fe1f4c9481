//! From the words of an image to its entries: the snapshotter's side of [`crate::memory::slots`].

use stillframe::{Sink, SinkError};

use crate::DATABASES;
use crate::memory::access::{Seen, Usage};
use crate::memory::entry::Entry;
use crate::memory::shown::Shown;
use crate::memory::spaces::Spaces;

/// The eras at which each space was last cleared: entries of those eras and before are dead.
pub(crate) type Cleared = [u64; DATABASES];

/// Receives the entries of one image, each exactly once in each database that has it, in no
/// particular order. Runs on the
/// snapshotter thread, or (fork) in a child process, where it must not allocate, lock or log.
pub trait EntrySink: Send {
    /// Takes one entry of database `db` as it was at begin. A database that is a branch has entries
    /// of another one.
    ///
    /// # Errors
    /// Any error ends the image.
    fn entry(&mut self, db: usize, entry: &Entry) -> Result<(), SinkError>;

    /// As [`entry`](Self::entry), with how the key was used. An image calls this method, which a
    /// sink may override.
    ///
    /// # Errors
    /// Any error ends the image.
    fn used_entry(&mut self, db: usize, entry: &Entry, usage: Usage) -> Result<(), SinkError> {
        let _ = usage;
        self.entry(db, entry)
    }

    /// The next entries are of this class: databases that show such entries of the one that has it
    /// follow it, by [`Sharing`](crate::Sharing); with 0, none do. Called if any database shows
    /// entries of another one.
    ///
    /// # Errors
    /// Any error ends the image.
    fn class(&mut self, class: u8) -> Result<(), SinkError> {
        let _ = class;
        Ok(())
    }

    /// Called once, after the last entry.
    ///
    /// # Errors
    /// Any error fails the image.
    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// What an image knows from its begin on, beside the words.
pub(crate) struct AtBegin {
    pub(crate) cleared: Cleared,
    pub(crate) spaces: Spaces,
    pub(crate) shown: Shown,
    pub(crate) seen: Seen,
}

/// Takes the words of an image and gives its entries to `sink`.
pub(crate) struct WordSink<E> {
    pub(crate) sink: E,
    pub(crate) at_begin: AtBegin,
}

impl<E: EntrySink> Sink for WordSink<E> {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        for (slot, &word) in (start..).zip(words).filter(|(_, word)| **word != 0) {
            // SAFETY: M1: at begin the word was the handle of a live entry. M2 and M4: no thread
            // changes or frees it until this call has returned and `captured` has passed it.
            let entry = unsafe { Entry::from_word(word) };
            if entry.era() > self.at_begin.cleared[entry.space()] {
                let AtBegin { spaces, shown, seen, .. } = &self.at_begin;
                let (db, usage) = (spaces.db_of(entry), seen.usage(slot));
                if shown.is_any() {
                    self.sink.class(shown.class(entry))?;
                }
                self.sink.used_entry(db, entry, usage)?;
                for space in shown.showing(entry) {
                    self.sink.used_entry(spaces.db_in(space), entry, usage)?;
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.sink.finish()
    }
}
