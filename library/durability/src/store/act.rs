//! Actions that are done whole or not at all.
//!
//! - While an action runs, the old value of each word that it writes is noted. If it fails or
//!   panics, the notes are undone, newest first. No checkpoint begins meanwhile, since only the
//!   point at its end lets one begin.
//! - With a log, an action is one record, which is added once the action has succeeded and before
//!   the point: what failed never reaches the log, and a checkpoint counts what is in it.
//! - A record is the words that changed, or what the application says. One of the application that
//!   begins as if it were words, or escaped, is escaped.
//! - An action that only grows the state is logged, too: what comes later may rely on its length.
//! - A record of words is
//!
//! ```text
//! 0    4  "act1"
//! 4    8  words of state after the action
//! then, for each run of words that changed, in rising order:
//!      8  first word
//!      8  number of words, n
//!    8 n  their values
//! ```
//!
//! All numbers are little-endian. The log has length and checksum of a record. A record of the
//! application is what it says, behind "rec1" if that begins with "act1" or "rec1".

use std::mem::ManuallyDrop;

use stillframe::algorithms::imprint::Imprint;
use stillframe::{Algorithm, MemoryError};

use super::action::{Action, ApplyError};
use super::{Journal, Store, check_run};
use crate::error::Error;
use crate::mutant::Mutant;

const MAGIC: &[u8; 4] = b"act1";
const ESCAPE: &[u8; 4] = b"rec1";

/// What an action needs; kept from one to the next, so that none allocates.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Words that were written, with what they held, oldest first.
    undo: Vec<(usize, u64)>,
    record: Vec<u8>,
    /// Words of state that a replay of the log leads to.
    pub(super) words: usize,
}

/// The words of a store within an [action](Store::act).
#[derive(Debug)]
pub struct Act<'a, A: Algorithm = Imprint> {
    store: &'a mut Store<A>,
    /// What it writes is noted, and undone when it is dropped: not once it is over, nor if its
    /// record was in the log before it began.
    undoes: bool,
}

impl<A: Algorithm> Act<'_, A> {
    /// Words of state.
    #[inline]
    #[must_use]
    pub fn words(&self) -> usize {
        self.store.words()
    }

    /// The latest value of a word, which this action may have written. Panics if `index` is out of
    /// bounds.
    #[inline]
    #[must_use]
    pub fn read(&self, index: usize) -> u64 {
        self.store.read(index)
    }

    /// The latest value of a word; `None` out of bounds.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<u64> {
        self.store.get(index)
    }

    /// Reads of the `len` words from `start` on; see [`Store::window`].
    #[inline]
    pub fn window(&self, start: usize, len: usize) -> Option<impl Fn(usize) -> u64> {
        self.store.window(start, len)
    }

    /// The latest values of a run of words. Panics if the run is out of bounds.
    pub fn read_run(&self, start: usize, into: &mut [u64]) {
        self.store.read_run(start, into);
    }

    /// Replaces a word. Panics if `index` is out of bounds.
    #[inline]
    pub fn write(&mut self, index: usize, value: u64) {
        self.note(index);
        self.store.write(index, value);
    }

    /// Replaces a word by what `patch` makes of it. Panics if `index` is out of bounds.
    #[inline]
    pub fn update(&mut self, index: usize, patch: impl Fn(u64) -> u64) {
        self.write(index, patch(self.read(index)));
    }

    /// Replaces a run of words. Panics if the run is out of bounds, before any word is written.
    pub fn write_run(&mut self, start: usize, values: &[u64]) {
        check_run(self.store.words(), start, values.len());
        let is_short = self.store.mutation.is(Mutant::NotesFirstOfRun);
        let noted = if is_short { values.len().min(1) } else { values.len() };
        (start..start + noted).for_each(|index| self.note(index));
        self.store.write_run(start, values);
    }

    /// Replaces words in any places, in this order: faster than one by one. Panics if one of them
    /// is out of bounds, before any word is written.
    pub fn write_many(&mut self, writes: &[(usize, u64)]) {
        for &(index, _) in writes {
            check_run(self.store.words(), index, 1);
            self.note(index);
        }
        self.store.write_many(writes);
    }

    /// Says that this action will write the run of words in place, through
    /// [`Store::live`]: what they hold at its end counts. Panics if the run is out of bounds.
    pub fn announce(&mut self, start: usize, len: usize) {
        check_run(self.store.words(), start, len);
        (start..start + len).for_each(|index| self.note(index));
        self.store.announce(start, len);
    }

    /// Half a word: `index` counts 4-byte items.
    #[inline]
    #[must_use]
    pub fn read_u32(&self, index: usize) -> u32 {
        self.store.read_u32(index)
    }

    /// Replaces half a word.
    #[inline]
    pub fn write_u32(&mut self, index: usize, value: u32) {
        self.note(index / 2);
        self.store.write_u32(index, value);
    }

    /// The store in the midst of this action.
    #[must_use]
    pub fn store(&self) -> &Store<A> {
        self.store
    }

    /// Grows the state to `words` words, the new ones zero. What fails later leaves it so long.
    ///
    /// # Errors
    /// [`MemoryError`]; nothing changes.
    pub fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        self.store.grow(words)
    }

    /// Ends the action, and declares a point after it.
    ///
    /// # Errors
    /// [`Error`] if the log does not take the record. The action is undone.
    pub fn commit(self) -> Result<(), Error> {
        self.commit_as(None)
    }

    fn commit_as(mut self, record: Option<&[u8]>) -> Result<(), Error> {
        if Mutant::ActPointsEarly.is_made() {
            self.store.point();
        }
        if self.undoes {
            self.log(record)?;
        }
        self.undoes = false;
        self.store.notes.undo.clear();
        self.store.point();
        Ok(())
    }

    #[inline]
    fn note(&mut self, index: usize) {
        if self.undoes {
            let old = self.store.read(index);
            self.store.notes.undo.push((index, old));
        }
    }

    /// Adds the action to the log, if there is one: as `record`, or as the words that it changed.
    fn log(&mut self, record: Option<&[u8]>) -> Result<(), Error> {
        if !matches!(self.store.log, Journal::Open(_)) {
            return Ok(());
        }
        if let Some(record) = record {
            return self.store.log(record).map(drop);
        }
        let mut record = std::mem::take(&mut self.store.notes.record);
        record.clear();
        self.encode(&mut record);
        let logged = if record.is_empty() { Ok(0) } else { self.store.append(&record) };
        self.store.notes.record = record;
        logged?;
        self.store.notes.words = self.store.words();
        Ok(())
    }

    /// The words that changed, as a record; nothing if none did and none are new.
    fn encode(&mut self, record: &mut Vec<u8>) {
        // A stable sort: the oldest note of a word stays the first, and is what the word held.
        let mut undo = std::mem::take(&mut self.store.notes.undo);
        undo.sort_by_key(|&(index, _)| index);
        undo.dedup_by_key(|&mut (index, _)| index);
        undo.retain(|&(index, old)| self.store.read(index) != old);
        let put = |record: &mut Vec<u8>, number: u64| record.extend(number.to_le_bytes());
        let is_longer = self.store.words() > self.store.notes.words;
        let grows = is_longer && !Mutant::GrowthNotLogged.is_made();
        if !undo.is_empty() || grows {
            record.extend(MAGIC);
            put(record, self.store.words() as u64);
        }
        for run in undo.chunk_by(|&(index, _), &(next, _)| index + 1 == next) {
            let is_short = self.store.mutation.is(Mutant::RecordEndsEarly) && run.len() > 1;
            let run = if is_short { &run[..run.len() - 1] } else { run };
            put(record, run[0].0 as u64);
            put(record, run.len() as u64);
            run.iter().for_each(|&(index, _)| put(record, self.store.read(index)));
        }
        // As good as all the notes, should the log refuse the record.
        self.store.notes.undo = undo;
    }
}

impl<A: Algorithm> Drop for Act<'_, A> {
    /// Undoes an action that failed or panicked.
    fn drop(&mut self) {
        let mut undo = std::mem::take(&mut self.store.notes.undo);
        if Mutant::UndoneForward.is_made() {
            undo.reverse();
        }
        let keeps = Mutant::PanicKeepsWrites.is_made() && std::thread::panicking();
        if self.undoes && !keeps {
            for &(index, old) in undo.iter().rev() {
                self.store.write(index, old);
            }
        }
        undo.clear();
        self.store.notes.undo = undo;
    }
}

impl<A: Algorithm> Act<'_, A> {
    /// Does again what a record says: words, or what `apply` knows.
    pub(super) fn redo(
        &mut self,
        action: &Action<'_>,
        apply: &mut impl FnMut(&mut Self, &Action<'_>) -> Result<(), ApplyError>,
    ) -> Result<(), ApplyError> {
        if !action.bytes.starts_with(MAGIC) {
            let bytes = action.bytes.strip_prefix(ESCAPE).unwrap_or(action.bytes);
            return apply(self, &Action { bytes, ..*action });
        }
        let (words, runs) = decode(action.bytes).ok_or(NotWords)?;
        if words > self.words() {
            self.grow(words)?;
        }
        for (start, values) in runs {
            for (index, value) in (start..).zip(values) {
                self.write(index, u64::from_le_bytes(*value));
            }
        }
        Ok(())
    }
}

impl<A: Algorithm> Store<A> {
    /// Does an action whole or not at all, and declares a [point](Self::point) after it. If
    /// `action` returns an error or panics, all words that it wrote are what they were.
    ///
    /// Each write notes what the word held: a load, and 16 bytes until the action ends.
    ///
    /// ```
    /// # use stillframe_durability::{Error, Options, Store};
    /// # let data = tempfile::tempdir().expect("a temporary directory");
    /// # let mut accounts: Store = Store::open(data.path(), Options::words(2))?;
    /// accounts.write(0, 100);
    /// let mut transfer = |amount| {
    ///     accounts.act(|words| {
    ///         words.update(1, |balance| balance + amount);
    ///         let left = words.read(0).checked_sub(amount).ok_or("too little money")?;
    ///         words.write(0, left);
    ///         Ok::<_, Box<dyn std::error::Error>>(left)
    ///     })
    /// };
    /// assert_eq!(transfer(70)?, 30);
    /// assert_eq!(transfer(70).expect_err("it is too much").to_string(), "too little money");
    /// assert_eq!((accounts.read(0), accounts.read(1)), (30, 70));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What `action` returns. Nothing has changed.
    pub fn act<R, E: From<Error>>(
        &mut self,
        action: impl FnOnce(&mut Act<'_, A>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.act_and_log(None, action)
    }

    /// [`act`](Self::act), with `record` in the log instead of the words that changed.
    pub(crate) fn act_and_log<R, E: From<Error>>(
        &mut self,
        record: Option<&[u8]>,
        action: impl FnOnce(&mut Act<'_, A>) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut act = self.begin_act();
        let done = action(&mut act)?;
        act.commit_as(record)?;
        Ok(done)
    }

    /// An [action](Self::act) for a caller that cannot pass a closure, such as one in C:
    /// [`Act::commit`] ends it, and dropping it undoes it. One that was leaked is undone when the
    /// next begins; declare no point until then.
    ///
    /// ```
    /// # use stillframe_durability::{Error, Options, Store};
    /// # let data = tempfile::tempdir().expect("a temporary directory");
    /// # let mut accounts: Store = Store::open(data.path(), Options::words(2))?;
    /// let mut transfer = accounts.begin_act();
    /// transfer.write(0, 30);
    /// transfer.write(1, 70);
    /// transfer.commit()?;
    /// let mut mistake = accounts.begin_act();
    /// mistake.write(0, 1_000_000);
    /// drop(mistake);
    /// assert_eq!((accounts.read(0), accounts.read(1)), (30, 70));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use = "dropping it undoes it"]
    pub fn begin_act(&mut self) -> Act<'_, A> {
        if !self.notes.undo.is_empty() {
            drop(Act { store: self, undoes: true }); // undoes one that was leaked
        }
        Act { store: self, undoes: true }
    }

    /// The action that was begun and forgotten. It goes on if this is not dropped.
    pub(super) fn resume_act(&mut self) -> ManuallyDrop<Act<'_, A>> {
        ManuallyDrop::new(Act { store: self, undoes: true })
    }

    /// The words of which the action under way has notes.
    pub(super) fn written(&self) -> impl Iterator<Item = usize> {
        self.notes.undo.iter().map(|&(index, _)| index)
    }

    /// An action whose record is in the log, or was there.
    pub(crate) fn logged_act(&mut self) -> Act<'_, A> {
        let mut act = self.begin_act();
        act.undoes = false;
        act
    }

    /// Adds a record of the application to the log, and returns its number.
    pub(crate) fn log(&mut self, record: &[u8]) -> Result<u64, Error> {
        if !record.starts_with(MAGIC) && !record.starts_with(ESCAPE) {
            return self.append(record);
        }
        self.append(&[ESCAPE, record].concat())
    }

    /// The number of the last record in the log, to [wait](Self::wait_durable) for; 0 if there is
    /// none.
    #[must_use]
    pub fn logged(&self) -> u64 {
        self.logger().map_or(0, |log| log.last().0)
    }

    /// The latest values of a run of words. Panics if the run is out of bounds.
    pub fn read_run(&self, start: usize, into: &mut [u64]) {
        check_run(self.words(), start, into.len());
        for (index, word) in (start..).zip(into) {
            *word = self.read(index);
        }
    }

    /// Replaces a word by what `patch` makes of it. Panics if `index` is out of bounds.
    #[inline]
    pub fn update(&mut self, index: usize, patch: impl Fn(u64) -> u64) {
        self.engine.update(index, patch);
        if !self.mutation.is(Mutant::UpdateMarksNothing) {
            self.touched.mark(index);
        }
    }
}

/// Runs of words, each with its first.
type Runs<'a> = Vec<(usize, &'a [[u8; 8]])>;

/// Words of state, and the runs in a record, all of them within the state.
fn decode(record: &[u8]) -> Option<(usize, Runs<'_>)> {
    let (mut numbers, rest) = record.strip_prefix(MAGIC)?.as_chunks::<8>();
    let mut next = |count: usize| {
        let (taken, left) = numbers.split_at_checked(count)?;
        numbers = left;
        Some(taken)
    };
    let number = |bytes: &[[u8; 8]]| usize::try_from(u64::from_le_bytes(bytes[0])).ok();
    let words = number(next(1)?)?;
    let mut runs = Vec::new();
    while let Some(start) = next(1) {
        let (start, count) = (number(start)?, number(next(1)?)?);
        let values = next(count)?;
        (start <= words && count <= words - start).then(|| runs.push((start, values)))?;
    }
    rest.is_empty().then_some((words, runs))
}

/// A record of the application in the log of a store that was opened for words alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "it is no record of words that an action changed; open the store with `open_records`, to \
     apply it by what it means"
)]
pub struct NotWords;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::disk::{Disk, SimulatedDisk};
    use crate::options::Options;
    use crate::store::acts::ActStore;

    #[test]
    fn a_leaked_action_is_undone_when_the_next_begins() {
        let options = Options::words(2).disk(Arc::new(SimulatedDisk::default()));
        let mut store: Store = Store::open("simulated", options).expect("a store");
        let mut leaked = store.begin_act();
        leaked.write(0, 7);
        assert_eq!(leaked.store().read(0), 7);
        std::mem::forget(leaked);
        let mut next = store.begin_act();
        assert_eq!(next.read(0), 0);
        next.write(1, 9);
        next.commit().expect("there is no log");
        assert_eq!((store.read(0), store.read(1)), (0, 9));
    }

    /// The log would lead elsewhere.
    #[test]
    fn a_leaked_action_is_in_no_image_of_a_store_with_a_log() {
        type Call = fn(ActStore) -> Option<ActStore>;
        let calls: [Call; 5] = [
            |mut it| it.checkpoint_and_wait().map(|_| it).ok(),
            |mut it| {
                it.checkpoint();
                it.point();
                it.wait().map(|_| it).ok()
            },
            |mut it| (it.view().ok()?.read(0).ok()? == 0).then_some(it),
            |mut it| (it.branch().ok()?.try_read(0).ok()? == 0).then_some(it),
            |it| it.close().map(|()| None).ok()?,
        ];
        for call in calls {
            let disk = Arc::new(SimulatedDisk::default());
            let open = || {
                let options = Options::words(2).disk(Arc::clone(&disk) as Arc<dyn Disk>);
                ActStore::open("simulated", options).expect("a store")
            };
            let mut store = open();
            let mut leaked = store.begin_act();
            leaked.write(0, 7);
            std::mem::forget(leaked);
            let mut words = 0;
            if let Some(mut store) = call(store) {
                let mut next = store.begin_act();
                next.write(1, 9);
                next.commit().expect("the log takes it");
                store.wait_durable(store.logged()).expect("the disk is sound");
                words = store.read(1);
            }
            let store = open();
            assert_eq!((store.read(0), store.read(1)), (0, words));
        }
    }

    #[test]
    fn other_records_are_refused() {
        let mut record = MAGIC.to_vec();
        for number in [5, 1, 2, 7, 8, 4, 1, 9_u64] {
            record.extend(number.to_le_bytes());
        }
        let (words, runs) = decode(&record).expect("it is one");
        let values = |run: &[[u8; 8]]| run.iter().map(|v| u64::from_le_bytes(*v)).collect();
        let runs: Vec<(usize, Vec<u64>)> =
            runs.into_iter().map(|(start, run)| (start, values(run))).collect();
        assert_eq!((words, &runs[..]), (5, &[(1, vec![7, 8]), (4, vec![9])][..]));
        let boundaries = [12, 44, record.len()]; // behind the number of words and each run
        for length in 0..record.len() {
            let is_whole = boundaries.contains(&length);
            assert_eq!(decode(&record[..length]).is_some(), is_whole, "{length} bytes");
        }
        for (at, byte) in [(0, b'b'), (4, 4), (12, 4), (19, 0x80), (20, 3), (27, 0xFF), (44, 5)] {
            let mut wrong = record.clone();
            wrong[at] = byte;
            assert!(decode(&wrong).is_none(), "byte {at} is {byte}");
        }
    }
}
