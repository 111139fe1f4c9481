//! A store for callers that no compiler checks: bindings for other languages.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::path::Path;

use stillframe::algorithms::imprint::Imprint;

use super::Store;
use super::act::Act;
use super::acts::ActStore;
use super::close::NotClosed;
use super::view::{Branch, View};
use crate::error::Error;
use crate::options::Options;
use crate::until::Until;

/// A store with a log or without, whose actions begin and end by calls of their own.
///
/// What the types of [`Store`], [`ActStore`] and [`Act`] decide in Rust is checked at each call
/// here. With a log, words change within an action alone ([`Error::NoAct`]); what needs a valid
/// state, such as a checkpoint or a view, waits for the end of the action ([`Error::InAct`]). To
/// read it is a [`Store`].
///
/// ```
/// # use stillframe_durability::{DynamicStore, Error, Options};
/// # fn main() -> Result<(), Error> {
/// # let data = tempfile::tempdir().expect("a temporary directory");
/// let mut accounts = DynamicStore::open_logged(data.path(), Options::words(2))?;
/// assert!(matches!(accounts.write(0, 70), Err(Error::NoAct)));
/// accounts.begin_act()?;
/// accounts.write(0, 70)?;
/// assert!(matches!(accounts.point(), Err(Error::InAct)));
/// accounts.commit()?;
/// assert_eq!(accounts.read(0), 70);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DynamicStore {
    store: Store,
    has_log: bool,
    /// An action is under way; the store has its notes.
    in_act: bool,
}

impl DynamicStore {
    /// Opens a store without a log, as [`Store::open`] does.
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn open(directory: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let store = Store::open(directory, options)?;
        Ok(Self { store, has_log: false, in_act: false })
    }

    /// Opens a store with a log of words, as [`ActStore::open`] does.
    ///
    /// # Errors
    /// As of [`ActStore::open`].
    pub fn open_logged(directory: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let store = Store::open_logged(directory, options, ActStore::refuse)?;
        Ok(Self { store, has_log: true, in_act: false })
    }

    /// The state as it was in the past, with a log, as [`ActStore::rewind`] does.
    ///
    /// # Errors
    /// As of [`ActStore::rewind`].
    pub fn rewind(
        source: impl AsRef<Path>,
        until: Until,
        target: impl AsRef<Path>,
        options: Options,
    ) -> Result<Self, Error> {
        let store = Store::rewind(source, until, target, options, ActStore::refuse)?;
        Ok(Self { store, has_log: true, in_act: false })
    }

    /// Whether it has a log.
    #[must_use]
    pub fn has_log(&self) -> bool {
        self.has_log
    }

    /// Whether an action is under way.
    #[must_use]
    pub fn in_act(&self) -> bool {
        self.in_act
    }

    // ---- actions

    /// Begins an action, which [`commit`](Self::commit) or [`undo`](Self::undo) ends.
    ///
    /// # Errors
    /// [`Error::InAct`].
    pub fn begin_act(&mut self) -> Result<(), Error> {
        std::mem::forget(self.idle()?.begin_act());
        self.in_act = true;
        Ok(())
    }

    /// Ends the action, and declares a point after it.
    ///
    /// # Errors
    /// [`Error::NoAct`]; [`Error`] if the log does not take the record: the action is undone.
    pub fn commit(&mut self) -> Result<(), Error> {
        ManuallyDrop::into_inner(self.end_act()?).commit()
    }

    /// Ends the action as if it had never begun.
    ///
    /// # Errors
    /// [`Error::NoAct`].
    pub fn undo(&mut self) -> Result<(), Error> {
        drop(ManuallyDrop::into_inner(self.end_act()?));
        Ok(())
    }

    fn end_act(&mut self) -> Result<ManuallyDrop<Act<'_>>, Error> {
        if !std::mem::take(&mut self.in_act) {
            return Err(Error::NoAct);
        }
        Ok(self.store.resume_act())
    }

    /// A whole action in one call; see [`Store::act`].
    ///
    /// # Errors
    /// [`Error::InAct`]; else as of [`Store::act`].
    pub fn act<R, E: From<Error>>(
        &mut self,
        action: impl FnOnce(&mut Act<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.idle()?.act(action)
    }

    /// The words that the action under way has written or announced, each at least once.
    pub fn written(&self) -> impl Iterator<Item = usize> {
        self.store.written()
    }

    // ---- the state

    /// Replaces a word. Panics if `index` is out of bounds.
    ///
    /// # Errors
    /// [`Error::NoAct`].
    #[inline]
    pub fn write(&mut self, index: usize, value: u64) -> Result<(), Error> {
        self.change(|act| act.write(index, value), |store| store.write(index, value))
    }

    /// Replaces a run of words. Panics if the run is out of bounds, before any word is written.
    ///
    /// # Errors
    /// [`Error::NoAct`].
    pub fn write_run(&mut self, start: usize, values: &[u64]) -> Result<(), Error> {
        self.change(|act| act.write_run(start, values), |store| store.write_run(start, values))
    }

    /// Replaces words in any places, in this order. Panics if one of them is out of bounds, before
    /// any word is written.
    ///
    /// # Errors
    /// [`Error::NoAct`].
    pub fn write_many(&mut self, writes: &[(usize, u64)]) -> Result<(), Error> {
        self.change(|act| act.write_many(writes), |store| store.write_many(writes))
    }

    /// Says that the run of words may be written in place; see [`Act::announce`] and
    /// [`Store::announce`]. Panics if the run is out of bounds.
    ///
    /// # Errors
    /// [`Error::NoAct`].
    pub fn announce(&mut self, start: usize, len: usize) -> Result<(), Error> {
        self.change(|act| act.announce(start, len), |store| store.announce(start, len))
    }

    /// Grows the state to `words` words, the new ones zero; undoing the action keeps the length.
    ///
    /// # Errors
    /// [`Error::NoAct`], [`Error::Memory`]; nothing changes.
    pub fn grow(&mut self, words: usize) -> Result<(), Error> {
        Ok(self.change(|act| act.grow(words), |store| store.grow(words))??)
    }

    /// Does it within the action under way, or, if there is neither that nor a log, without one.
    #[inline]
    fn change<R>(
        &mut self,
        within: impl FnOnce(&mut Act<'_>) -> R,
        without: impl FnOnce(&mut Store) -> R,
    ) -> Result<R, Error> {
        if self.in_act {
            Ok(within(&mut self.store.resume_act()))
        } else if self.has_log {
            Err(Error::NoAct)
        } else {
            Ok(without(&mut self.store))
        }
    }

    // ---- what needs a valid state

    /// The store, for what no action allows; it writes no word.
    fn idle(&mut self) -> Result<&mut Store, Error> {
        if self.in_act { Err(Error::InAct) } else { Ok(&mut self.store) }
    }

    /// Declares a point; see [`Store::point`].
    ///
    /// # Errors
    /// [`Error::InAct`].
    #[inline]
    pub fn point(&mut self) -> Result<Option<u64>, Error> {
        Ok(self.idle()?.point())
    }

    /// Takes a checkpoint here; see [`Store::checkpoint_and_wait`].
    ///
    /// # Errors
    /// [`Error::InAct`], or why it failed.
    pub fn checkpoint_and_wait(&mut self) -> Result<u64, Error> {
        self.idle()?.checkpoint_and_wait()
    }

    /// Waits for the checkpoint under way; see [`Store::wait`].
    ///
    /// # Errors
    /// [`Error::InAct`], or why that checkpoint failed.
    pub fn wait(&mut self) -> Result<Option<u64>, Error> {
        self.idle()?.wait()
    }

    /// The state of now, to be read for as long as it is kept; see [`Store::view`].
    ///
    /// # Errors
    /// [`Error::InAct`]; else as of [`Store::view`].
    pub fn view(&mut self) -> Result<View, Error> {
        self.idle()?.view()
    }

    /// A copy of the state of now that can be written; see [`Store::branch`].
    ///
    /// # Errors
    /// [`Error::InAct`]; else as of [`Store::view`].
    pub fn branch(&mut self) -> Result<Branch, Error> {
        self.idle()?.branch()
    }

    /// Ends as a [`Store`](Store::close) does.
    ///
    /// # Errors
    /// [`Error::InAct`]; else as of [`Store::close`]. The store is as it was.
    pub fn close(mut self) -> Result<(), NotClosed<Self>> {
        if let Err(error) = self.idle() {
            return Err(NotClosed { store: Box::new(self), error });
        }
        let Self { store, has_log, in_act } = self;
        store.close().map_err(|NotClosed { store, error }| {
            let store = Box::new(Self { store: *store, has_log, in_act });
            NotClosed { store, error }
        })
    }
}

impl Deref for DynamicStore {
    type Target = Store<Imprint>;

    #[inline]
    fn deref(&self) -> &Store<Imprint> {
        &self.store
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::disk::SimulatedDisk;

    fn options() -> Options {
        Options::memory(stillframe::Options::words(6).max_words(9))
    }

    fn words(store: &Store) -> Vec<u64> {
        (0..store.words()).map(|index| store.read(index)).collect()
    }

    #[test]
    fn an_action_of_several_calls_is_one_record_and_nothing_else_is_written() {
        let data = tempfile::tempdir().expect("a temporary directory");
        let open = || DynamicStore::open_logged(data.path(), options()).expect("a store");
        let mut store = open();
        assert!(matches!(store.write(0, 1), Err(Error::NoAct)));
        assert!(matches!(store.write_run(0, &[1]), Err(Error::NoAct)));
        assert!(matches!(store.write_many(&[(0, 1)]), Err(Error::NoAct)));
        assert!(matches!(store.announce(0, 1), Err(Error::NoAct)));
        assert!(matches!(store.grow(7), Err(Error::NoAct)));
        assert!(matches!(store.commit(), Err(Error::NoAct)));
        assert!(matches!(store.undo(), Err(Error::NoAct)));
        store.begin_act().expect("none is under way");
        assert!(matches!(store.begin_act(), Err(Error::InAct)));
        store.announce(1, 3).expect("an action");
        store.write_run(1, &[7, 8, 9]).expect("an action");
        store.grow(8).expect("there is room");
        store.write(7, 10).expect("an action");
        store.write_many(&[(0, 5), (0, 6)]).expect("an action");
        assert!(matches!(store.point(), Err(Error::InAct)));
        assert!(matches!(store.checkpoint_and_wait(), Err(Error::InAct)));
        assert!(matches!(store.wait(), Err(Error::InAct)));
        assert!(matches!(store.view(), Err(Error::InAct)));
        assert!(matches!(store.branch(), Err(Error::InAct)));
        assert!(matches!(store.act(|_| Ok::<_, Error>(())), Err(Error::InAct)));
        let NotClosed { store: kept, error } = store.close().expect_err("an action");
        assert!(matches!(error, Error::InAct));
        let mut store = *kept;
        store.commit().expect("a log");
        assert_eq!(store.logged(), 1);
        store.begin_act().expect("none is under way");
        store.write_many(&[(0, 70), (7, 70)]).expect("an action");
        let mut written: Vec<usize> = store.written().collect();
        written.sort_unstable();
        assert_eq!(written, [0, 7]);
        store.undo().expect("an action");
        store.wait_durable(store.logged()).expect("a disk");
        drop(store);
        let store = open();
        assert_eq!(words(&store), [6, 7, 8, 9, 0, 0, 0, 10]);
        assert!(store.has_log() && !store.in_act());
    }

    #[test]
    fn without_a_log_words_are_written_outside_of_actions_too() {
        let disk = Arc::new(SimulatedDisk::default());
        let mut store =
            DynamicStore::open("simulated", options().disk(disk)).expect("an empty disk");
        store.write(0, 1).expect("no log");
        store.begin_act().expect("none is under way");
        store.write_run(0, &[2, 3]).expect("an action");
        store.undo().expect("it is under way");
        store.write_many(&[(1, 4)]).expect("no log");
        store.grow(7).expect("there is room");
        assert!(matches!(store.grow(10), Err(Error::Memory(_))));
        assert_eq!(words(&store), [1, 4, 0, 0, 0, 0, 0]);
        let view = store.view().expect("no action");
        store.point().expect("no action");
        let done = store.act(|act| {
            act.write(0, 9);
            Ok::<_, Error>(())
        });
        done.expect("no log");
        assert_eq!((view.read(0).ok(), store.read(0)), (Some(1), 9));
        store.close().expect("a disk");
    }
}
