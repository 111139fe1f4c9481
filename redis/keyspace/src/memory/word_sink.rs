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
    /// Entries that have expired by then are passed by.
    pub(crate) now: i64,
}

impl AtBegin {
    /// Gives `sink` the entries of the slots from `start` on.
    ///
    /// # Safety
    /// A word that is not 0 is the handle of an entry, which nobody changes or frees meanwhile.
    pub(crate) unsafe fn give(
        &self,
        start: usize,
        words: &[u64],
        sink: &mut impl EntrySink,
    ) -> Result<(), SinkError> {
        let Self { spaces, shown, seen, .. } = self;
        for (slot, &word) in (start..).zip(words).filter(|(_, word)| **word != 0) {
            // SAFETY: the caller's.
            let entry = unsafe { Entry::from_word(word) };
            if entry.era() > self.cleared[entry.space()] && !entry.is_expired(self.now) {
                let (db, usage) = (spaces.db_of(entry), seen.usage(slot));
                if shown.is_any() {
                    sink.class(shown.class(entry))?;
                }
                sink.used_entry(db, entry, usage)?;
                for space in shown.showing(entry) {
                    sink.used_entry(spaces.db_in(space), entry, usage)?;
                }
            }
        }
        Ok(())
    }
}

/// Takes the words of an image and gives its entries to `sink`.
pub(crate) struct WordSink<E> {
    pub(crate) sink: E,
    pub(crate) at_begin: AtBegin,
}

impl<E: EntrySink> Sink for WordSink<E> {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        // SAFETY: M1: at begin the words were handles of live entries. M2 and M4: no thread changes
        // or frees them until this call has returned and `captured` has passed them.
        unsafe { self.at_begin.give(start, words, &mut self.sink) }
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.sink.finish()
    }
}
