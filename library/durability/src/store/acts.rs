//! A store of actions alone: nothing is written that is not in its log.

use std::ops::Deref;
use std::path::Path;

use stillframe::Algorithm;
use stillframe::algorithms::imprint::Imprint;

use super::Store;
use super::act::Act;
use super::close::NotClosed;
use super::replay::Until;
use super::view::{Branch, View};
use crate::error::Error;
use crate::options::Options;

/// A [`Store`] whose log holds, as one record for each [action](Self::act), the words that it
/// changed: what succeeded survives a crash without any code to apply it again.
///
/// To read, to ask for checkpoints and to wait it is a [`Store`]. It changes by actions alone:
///
/// ```
/// # use stillframe_durability::{ActStore, Error, Options};
/// # fn main() -> Result<(), Error> {
/// # let data = tempfile::tempdir().expect("a temporary directory");
/// let open = || ActStore::open(data.path(), Options::words(2));
/// let mut accounts = open()?;
/// accounts.act(|words| {
///     words.update(0, |balance| balance.wrapping_sub(7));
///     words.update(1, |balance| balance.wrapping_add(7));
///     Ok::<(), Error>(())
/// })?;
/// accounts.wait_durable(accounts.logged())?; // now it may be acknowledged
/// drop(accounts); // or a crash
/// assert_eq!(open()?.read(1), 7);
/// # Ok(())
/// # }
/// ```
///
/// What would be in no record does not compile:
///
/// ```compile_fail,E0596
/// # use stillframe_durability::{ActStore, Options};
/// # let mut accounts = ActStore::open("data", Options::words(2)).expect("a directory");
/// accounts.write(0, 7);
/// ```
///
/// ```compile_fail,E0596
/// # use stillframe_durability::{ActStore, Options};
/// # let mut accounts = ActStore::open("data", Options::words(2)).expect("a directory");
/// accounts.grow(3).expect("memory");
/// ```
///
/// ```compile_fail,E0596
/// # use stillframe_durability::{ActStore, Options};
/// # let mut accounts = ActStore::open("data", Options::words(2)).expect("a directory");
/// accounts.log(b"a record of another kind").expect("a log");
/// ```
#[derive(Debug)]
pub struct ActStore<A: Algorithm = Imprint>(Store<A>);

impl ActStore {
    /// Opens the store in `directory`, which is created if need be: the newest sound checkpoint,
    /// and the actions since.
    ///
    /// # Errors
    /// [`Error`]; nothing is lost by trying again. [`Error::Replay`] if the log has records of
    /// another kind, which [`log`](Store::log) or [`act_as`](Store::act_as) added.
    pub fn open(directory: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        Self::open_with(directory, options)
    }
}

impl<A: Algorithm> ActStore<A> {
    /// [`open`](ActStore::open) with an algorithm of one's choice.
    ///
    /// # Errors
    /// As of [`open`](ActStore::open).
    pub fn open_with(directory: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        Store::open_logged(directory, options, Store::redo).map(Self)
    }

    /// The state as it was in the past, in a new store in `target`; see [`Store::rewind`].
    ///
    /// # Errors
    /// As of [`Store::rewind`].
    pub fn rewind(
        source: impl AsRef<Path>,
        until: Until,
        target: impl AsRef<Path>,
        options: Options,
    ) -> Result<Self, Error> {
        Store::rewind(source, until, target, options, Store::redo).map(Self)
    }

    /// Does an action whole or not at all, and declares a point after it; see [`Store::act`].
    ///
    /// # Errors
    /// What `action` returns; [`Error`] if the log does not take the record. Nothing has changed.
    pub fn act<R, E: From<Error>>(
        &mut self,
        action: impl FnOnce(&mut Act<'_, A>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.0.act(action)
    }

    /// Begins an action without a closure; see [`Store::begin_act`].
    #[must_use = "dropping it undoes it"]
    pub fn begin_act(&mut self) -> Act<'_, A> {
        self.0.begin_act()
    }

    /// As of a [`Store`](Store::point), for what is due while no action comes.
    pub fn point(&mut self) -> Option<u64> {
        self.0.point()
    }

    /// Takes a checkpoint here; see [`Store::checkpoint_and_wait`].
    ///
    /// # Errors
    /// [`Error`]: the state and the checkpoints before are as they were.
    pub fn checkpoint_and_wait(&mut self) -> Result<u64, Error> {
        self.0.checkpoint_and_wait()
    }

    /// Waits for the checkpoint under way; see [`Store::wait`].
    ///
    /// # Errors
    /// Why that checkpoint failed.
    pub fn wait(&mut self) -> Result<Option<u64>, Error> {
        self.0.wait()
    }

    /// The state of now, to be read for as long as it is kept; see [`Store::view`].
    ///
    /// # Errors
    /// As for [`Store::view`].
    pub fn view(&mut self) -> Result<View<A>, Error> {
        self.0.view()
    }

    /// A copy of the state of now that can be written; see [`Store::branch`].
    ///
    /// # Errors
    /// As for [`Store::view`].
    pub fn branch(&mut self) -> Result<Branch<A>, Error> {
        self.0.branch()
    }

    /// Ends as a [`Store`](Store::close) does.
    ///
    /// # Errors
    /// As of [`Store::close`].
    pub fn close(self) -> Result<(), NotClosed<Self>> {
        self.0.close().map_err(|NotClosed { store, error }| {
            let store = Box::new(Self(*store));
            NotClosed { store, error }
        })
    }
}

impl<A: Algorithm> Deref for ActStore<A> {
    type Target = Store<A>;

    #[inline]
    fn deref(&self) -> &Store<A> {
        &self.0
    }
}
