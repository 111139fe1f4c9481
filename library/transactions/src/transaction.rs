//! A transaction on its way: the locks that it holds and the writes that it keeps to itself.

use crate::contract::{Concurrent, Journal, Writes, Written};
use crate::epochs::Section;
use crate::locks::{Conflict, Locks};
use crate::mutant::{Mutant, Mutation};
use crate::shape::{Parts, Shape, Split};

/// What the transactions of all workers share.
#[derive(Debug)]
pub(crate) struct Core<A, J> {
    pub(crate) state: A,
    pub(crate) journal: J,
    pub(crate) locks: Locks,
    pub(crate) shape: Shape,
    pub(crate) split: Split,
    pub(crate) mutation: Mutation,
}

impl<A: Concurrent, J> Core<A, J> {
    /// Brings near what a write of a record touches. Models have no caches.
    #[inline]
    pub(crate) fn prefetch(&self, record: usize) {
        if record < self.shape.records && !cfg!(any(feature = "loom", feature = "shuttle")) {
            self.locks.prefetch(record);
            self.state.prefetch(record);
        }
    }
}

/// A record that a transaction has locked.
#[derive(Debug, Clone, Copy)]
struct Held {
    record: usize,
    exclusive: bool,
    /// Where it stands among the written ones.
    written: Option<usize>,
}

/// Below so many locks a look through all is quicker than an index.
const FEW: usize = 16;

/// Room that a worker's transactions use one after the other.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    held: Vec<Held>,
    /// Where each locked record stands in `held`, from the first [`FEW`] on.
    index: std::collections::HashMap<usize, usize>,
    written: Vec<Written>,
    values: Vec<u64>,
}

impl Scratch {
    fn find(&self, record: usize) -> Option<usize> {
        match self.held.len() {
            0..=FEW => self.held.iter().position(|it| it.record == record),
            _ => self.index.get(&record).copied(),
        }
    }

    fn push(&mut self, held: Held) -> usize {
        let at = self.held.len();
        self.held.push(held);
        if at == FEW {
            let all = self.held.iter().enumerate();
            self.index.extend(all.map(|(at, held)| (held.record, at)));
        } else if at > FEW {
            self.index.insert(held.record, at);
        }
        at
    }

    fn writes(&self, width: usize) -> Writes<'_> {
        Writes { width, written: &self.written, values: &self.values }
    }

    fn clear(&mut self) {
        self.held.clear();
        self.index.clear();
        self.written.clear();
        self.values.clear();
    }
}

/// A transaction on its way, given to the closure of [`Worker::run`](crate::Worker::run). Each call
/// may answer [`Conflict`]; pass it on by `?`, and the transaction runs again.
///
/// Records are counted from 0, words within a record as well; both panic if out of bounds, which
/// aborts the transaction. A record that was never written is absent and its words are zero.
#[derive(Debug)]
pub struct Transaction<'w, A: Concurrent, J: Journal> {
    core: &'w Core<A, J>,
    worker: usize,
    age: u64,
    scratch: &'w mut Scratch,
    /// A call has answered [`Conflict`]: whatever the closure says, it runs again.
    refused: bool,
    /// What the mistake `SideAtStart` announces at the start.
    early: Option<Section<'w>>,
}

impl<'w, A: Concurrent, J: Journal> Transaction<'w, A, J> {
    pub(crate) fn new(
        core: &'w Core<A, J>,
        worker: usize,
        age: u64,
        scratch: &'w mut Scratch,
    ) -> Self {
        scratch.clear();
        let early = core.mutation.is(Mutant::SideAtStart);
        let early = early.then(|| core.state.epochs().enter(worker, A::open));
        Self { core, worker, age, scratch, refused: false, early }
    }

    /// Whether a call has answered [`Conflict`].
    pub(crate) fn is_refused(&self) -> bool {
        self.refused && !self.core.mutation.is(Mutant::AbortsThoughRefused)
    }

    fn locks(&self) -> &'w Locks {
        &self.core.locks
    }

    /// Where the lock of `record` stands, which is taken if it is not held so yet.
    fn lock(&mut self, record: usize, exclusive: bool) -> Result<usize, Conflict> {
        let (records, locks) = (self.core.shape.records, self.locks());
        assert!(record < records, "record {record} of {records}");
        if self.refused {
            return Err(Conflict(()));
        }
        let found = self.scratch.find(record);
        if found.is_none() && exclusive {
            self.core.prefetch(record);
        }
        let taken = match found {
            Some(at) if self.scratch.held[at].exclusive || !exclusive => return Ok(at),
            Some(_) => locks.upgrade(record, self.age),
            None if exclusive => locks.exclude(record, self.age),
            None => locks.share(record, self.age),
        };
        self.refused = taken.is_err();
        taken?;
        match found {
            Some(at) => {
                self.scratch.held[at].exclusive = true;
                Ok(at)
            }
            None => Ok(self.scratch.push(Held { record, exclusive, written: None })),
        }
    }

    /// A word of a record; zero if it is absent.
    ///
    /// # Errors
    /// [`Conflict`], as every call.
    pub fn read(&mut self, record: usize, word: usize) -> Result<u64, Conflict> {
        let width = self.core.shape.words;
        assert!(word < width, "word {word} of {width}");
        let at = self.lock(record, false)?;
        Ok(match self.scratch.held[at].written {
            Some(at) => self.scratch.values[self.scratch.written[at].start + word],
            None => self.core.state.newest(record).word(record, word),
        })
    }

    /// Copies all words of a record into `into` and says whether it is present. Panics if `into`
    /// has another length than a record.
    ///
    /// # Errors
    /// [`Conflict`], as every call.
    pub fn load(&mut self, record: usize, into: &mut [u64]) -> Result<bool, Conflict> {
        assert_eq!(into.len(), self.core.shape.words, "words of a record");
        let at = self.lock(record, false)?;
        Ok(match self.scratch.held[at].written {
            Some(at) => {
                let Written { start, present, .. } = self.scratch.written[at];
                into.copy_from_slice(&self.scratch.values[start..][..into.len()]);
                present
            }
            None => self.core.state.newest(record).load(record, into),
        })
    }

    /// Whether a record is present.
    ///
    /// # Errors
    /// [`Conflict`], as every call.
    pub fn present(&mut self, record: usize) -> Result<bool, Conflict> {
        let at = self.lock(record, false)?;
        Ok(match self.scratch.held[at].written {
            Some(at) => self.scratch.written[at].present,
            None => self.core.state.newest(record).present(record),
        })
    }

    /// Where the new value of a record, which is its old one at first, stands among the written.
    fn edit(&mut self, record: usize) -> Result<usize, Conflict> {
        let at = self.lock(record, true)?;
        let to = match self.scratch.held[at].written {
            Some(to) => to,
            None => {
                let (to, start) = (self.scratch.written.len(), self.scratch.values.len());
                let table = self.core.state.newest(record);
                self.scratch.values.extend(table.words(record));
                let present = table.present(record);
                let changed = Parts::NONE;
                self.scratch.written.push(Written { record, start, present, changed });
                self.scratch.held[at].written = Some(to);
                to
            }
        };
        Ok(to)
    }

    /// Replaces a word of a record, which is present from then on.
    ///
    /// # Errors
    /// [`Conflict`], as every call.
    pub fn write(&mut self, record: usize, word: usize, value: u64) -> Result<(), Conflict> {
        self.update(record, word, |_| value)
    }

    /// Replaces a word of a record by what `patch` makes of it.
    ///
    /// # Errors
    /// [`Conflict`], as every call.
    pub fn update(
        &mut self,
        record: usize,
        word: usize,
        patch: impl FnOnce(u64) -> u64,
    ) -> Result<(), Conflict> {
        let Core { shape: Shape { words, .. }, split, .. } = *self.core;
        assert!(word < words, "word {word} of {words}");
        let at = self.edit(record)?;
        let edited = &mut self.scratch.written[at];
        let value = &mut self.scratch.values[edited.start + word];
        *value = patch(*value); // which may panic
        edited.present = true;
        edited.changed = edited.changed.with(split.part(word));
        Ok(())
    }

    /// Replaces a record. Panics if `words` has another length than a record.
    ///
    /// # Errors
    /// [`Conflict`], as every call.
    pub fn store(&mut self, record: usize, words: &[u64]) -> Result<(), Conflict> {
        assert_eq!(words.len(), self.core.shape.words, "words of a record");
        self.replace(record, Some(words))
    }

    /// Replaces a record; `None` makes it absent.
    fn replace(&mut self, record: usize, words: Option<&[u64]>) -> Result<(), Conflict> {
        let Core { shape: Shape { words: width, .. }, split, .. } = *self.core;
        let at = self.edit(record)?;
        let edited = &mut self.scratch.written[at];
        edited.present = words.is_some();
        let values = &mut self.scratch.values[edited.start..][..width];
        let part_words = split.part_words();
        for (nth, old) in values.chunks_mut(part_words).enumerate() {
            let new = words.map(|words| &words[nth * part_words..][..old.len()]);
            let differs = match new {
                Some(new) => new != old,
                None => old.iter().any(|&word| word != 0),
            };
            match new {
                _ if !differs => continue,
                Some(new) => old.copy_from_slice(new),
                None => old.fill(0),
            }
            edited.changed = edited.changed.with(Parts(1 << nth));
        }
        Ok(())
    }

    /// Makes a record present unless it is; says whether it has.
    ///
    /// # Errors
    /// [`Conflict`], as every call.
    pub fn insert(&mut self, record: usize, words: &[u64]) -> Result<bool, Conflict> {
        let absent = !self.present(record)?;
        if absent {
            self.store(record, words)?;
        }
        Ok(absent)
    }

    /// Makes a record absent; says whether it was present.
    ///
    /// # Errors
    /// [`Conflict`], as every call.
    pub fn delete(&mut self, record: usize) -> Result<bool, Conflict> {
        if !self.present(record)? {
            return Ok(false);
        }
        self.replace(record, None)?;
        Ok(true)
    }

    /// Installs the writes and notes the commit, with all locks held; `false` if the transaction
    /// has to run again.
    pub(crate) fn commit(mut self) -> bool {
        if self.refused {
            return false;
        }
        if self.scratch.written.is_empty() {
            return true;
        }
        let Core { state, journal, .. } = self.core;
        let section = self.early.take();
        let section = section.unwrap_or_else(|| state.epochs().enter(self.worker, A::open));
        let writes = self.scratch.writes(self.core.shape.words);
        let reads = self.scratch.held.iter().map(|it| it.record);
        state.install(self.worker, section.epoch, &writes, |image| {
            journal.commit(self.worker, image, &writes, reads);
        });
        true
    }
}

impl<A: Concurrent, J: Journal> Drop for Transaction<'_, A, J> {
    /// Releases all locks, after a commit, an abort or a panic.
    fn drop(&mut self) {
        for held in &self.scratch.held {
            match held.exclusive {
                true => self.core.locks.release_exclusive(held.record),
                false => self.core.locks.release_shared(held.record),
            }
        }
        self.scratch.held.clear();
    }
}
