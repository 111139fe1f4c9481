//! A store with a log: it changes by actions alone, so nothing is written that is not in the log.

use std::ops::Deref;
use std::path::Path;

use stillframe::Algorithm;
use stillframe::algorithms::imprint::Imprint;

use super::Store;
use super::act::{Act, NotWords};
use super::action::{Action, ApplyError};
use super::close::NotClosed;
use super::view::{Branch, View};
use crate::error::Error;
use crate::options::Options;
use crate::until::Until;

/// A [`Store`] with a log: what succeeded survives a crash.
///
/// To read, to ask for checkpoints and to wait it is a [`Store`]. It changes by actions alone, each
/// of which is a record of the log: the words that it changed, which are written again without any
/// code of the application ([`act`](Self::act)),
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
/// or a record of the application's own, which it applies again
/// ([`act_as`](Self::act_as) once the action has succeeded, [`log`](Self::log) before it begins):
///
/// ```
/// # use stillframe_durability::{Act, ActStore, Error, Options};
/// # fn main() -> Result<(), Error> {
/// # let data = tempfile::tempdir().expect("a temporary directory");
/// // A counter; a record is what is added to it.
/// fn add(counter: &mut Act<'_>, record: &[u8]) {
///     let sum: u64 = record.iter().map(|&byte| u64::from(byte)).sum();
///     counter.write(0, counter.read(0) + sum);
/// }
/// let open = || {
///     ActStore::open_records(data.path(), Options::words(1), |counter, action| {
///         add(counter, action.bytes);
///         Ok(())
///     })
/// };
/// let mut counter = open()?;
/// let mut act = counter.log(&[3, 4])?;
/// add(&mut act, &[3, 4]);
/// act.commit()?;
/// counter.wait_durable(counter.logged())?; // now it may be acknowledged
/// drop(counter); // or a crash
/// assert_eq!(open()?.read(0), 7);
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
#[derive(Debug)]
pub struct ActStore<A: Algorithm = Imprint> {
    store: Store<A>,
    /// There is somebody to apply records of the application again.
    takes_records: bool,
}

impl ActStore {
    /// Opens the store in `directory`, which is created if need be: the newest sound checkpoint,
    /// and the actions since.
    ///
    /// # Errors
    /// [`Error`]; nothing is lost by trying again. [`Error::Replay`] if the log has records of the
    /// application's own, [`Error::Log`] if it is damaged before its torn tail, unless the options
    /// [accept that](Options::accept_log_loss).
    pub fn open(directory: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        Self::open_with(directory, options)
    }

    /// [`open`](ActStore::open), with `apply` for each record of the application's own, in the
    /// order in which they were logged.
    ///
    /// # Errors
    /// As of [`open`](ActStore::open); [`Error::Replay`] if `apply` fails.
    pub fn open_records(
        directory: impl AsRef<Path>,
        options: Options,
        apply: impl FnMut(&mut Act<'_>, &Action<'_>) -> Result<(), ApplyError>,
    ) -> Result<Self, Error> {
        Self::open_records_with(directory, options, apply)
    }
}

impl<A: Algorithm> ActStore<A> {
    /// [`open`](ActStore::open) with an algorithm of one's choice.
    ///
    /// # Errors
    /// As of [`open`](ActStore::open).
    pub fn open_with(directory: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let store = Store::open_logged(directory, options, Self::refuse)?;
        Ok(Self { store, takes_records: false })
    }

    /// Refuses a record of the application's own: for a log that holds words alone.
    ///
    /// # Errors
    /// [`NotWords`], always.
    pub fn refuse(_: &mut Act<'_, A>, _: &Action<'_>) -> Result<(), ApplyError> {
        Err(NotWords.into())
    }

    /// [`open_records`](ActStore::open_records) with an algorithm of one's choice.
    ///
    /// # Errors
    /// As of [`open_records`](ActStore::open_records).
    pub fn open_records_with(
        directory: impl AsRef<Path>,
        options: Options,
        apply: impl FnMut(&mut Act<'_, A>, &Action<'_>) -> Result<(), ApplyError>,
    ) -> Result<Self, Error> {
        let store = Store::open_logged(directory, options, apply)?;
        Ok(Self { store, takes_records: true })
    }

    /// The state as it was in the past, in a new store in `target`, durably. The one in `source`
    /// must not be open, and stays as it is. How far it goes back is a matter of its
    /// [`Retention`](crate::Retention).
    ///
    /// # Errors
    /// As of [`open`](ActStore::open); [`Error::TooEarly`] if no files lead there any more.
    pub fn rewind(
        source: impl AsRef<Path>,
        until: Until,
        target: impl AsRef<Path>,
        options: Options,
    ) -> Result<Self, Error> {
        let store = Store::rewind(source, until, target, options, Self::refuse)?;
        Ok(Self { store, takes_records: false })
    }

    /// [`rewind`](Self::rewind), with `apply` for each record of the application's own.
    ///
    /// # Errors
    /// As of [`rewind`](Self::rewind); [`Error::Replay`] if `apply` fails.
    pub fn rewind_records(
        source: impl AsRef<Path>,
        until: Until,
        target: impl AsRef<Path>,
        options: Options,
        apply: impl FnMut(&mut Act<'_, A>, &Action<'_>) -> Result<(), ApplyError>,
    ) -> Result<Self, Error> {
        let store = Store::rewind(source, until, target, options, apply)?;
        Ok(Self { store, takes_records: true })
    }

    /// Does an action whole or not at all, and declares a point after it, as [`Store::act`] does.
    /// The words that changed become one record, whose number then is
    /// [`logged`](Store::logged). An action that changed nothing leaves none.
    ///
    /// # Errors
    /// What `action` returns; [`Error`] if the log does not take the record. Nothing has changed.
    pub fn act<R, E: From<Error>>(
        &mut self,
        action: impl FnOnce(&mut Act<'_, A>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.store.act(action)
    }

    /// [`act`](Self::act), with `record` in the log instead of the words that changed. What
    /// `action` does must depend on nothing but these bytes and the values of words (not on how
    /// many there are, since what fails may have grown the state).
    ///
    /// # Errors
    /// What `action` returns; [`Error`] if the log does not take the record. Nothing has changed.
    pub fn act_as<R, E: From<Error>>(
        &mut self,
        record: &[u8],
        action: impl FnOnce(&mut Act<'_, A>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.check_records()?;
        self.store.act_and_log(Some(record), action)
    }

    /// Adds `record` to the log, whose number then is [`logged`](Store::logged), and begins the
    /// action that it tells of. The action notes nothing, so it is the cheapest, and cannot be
    /// undone: dropping it declares no point, and keeps what it wrote. What it does must depend on
    /// nothing but these bytes and the state.
    ///
    /// This copies the bytes and returns; it waits only if too many records wait for the disk.
    ///
    /// # Errors
    /// [`Error`]: the record is not in the log, and nothing has changed. After
    /// [`Error::LogFailed`] there is nothing to do but to open the store again.
    #[inline]
    pub fn log(&mut self, record: &[u8]) -> Result<Act<'_, A>, Error> {
        self.check_records()?;
        self.store.log(record)?;
        Ok(self.store.logged_act())
    }

    /// Undoes an action that was leaked: it is in no record, so no image may have it.
    fn undo_leaked(&mut self) {
        drop(self.store.begin_act());
    }

    fn check_records(&self) -> Result<(), Error> {
        self.takes_records.then_some(()).ok_or(Error::NoRecords)
    }

    /// Begins an action without a closure; see [`Store::begin_act`].
    #[must_use = "dropping it undoes it"]
    pub fn begin_act(&mut self) -> Act<'_, A> {
        self.store.begin_act()
    }

    /// As of a [`Store`](Store::point), for what is due while no action comes.
    pub fn point(&mut self) -> Option<u64> {
        self.undo_leaked();
        self.store.point()
    }

    /// Takes a checkpoint here; see [`Store::checkpoint_and_wait`].
    ///
    /// # Errors
    /// [`Error`]: the state and the checkpoints before are as they were.
    pub fn checkpoint_and_wait(&mut self) -> Result<u64, Error> {
        self.undo_leaked();
        self.store.checkpoint_and_wait()
    }

    /// Waits for the checkpoint under way; see [`Store::wait`].
    ///
    /// # Errors
    /// Why that checkpoint failed.
    pub fn wait(&mut self) -> Result<Option<u64>, Error> {
        self.store.wait()
    }

    /// The state of now, to be read for as long as it is kept; see [`Store::view`].
    ///
    /// # Errors
    /// As for [`Store::view`].
    pub fn view(&mut self) -> Result<View<A>, Error> {
        self.undo_leaked();
        self.store.view()
    }

    /// A copy of the state of now that can be written; see [`Store::branch`].
    ///
    /// # Errors
    /// As for [`Store::view`].
    pub fn branch(&mut self) -> Result<Branch<A>, Error> {
        self.undo_leaked();
        self.store.branch()
    }

    /// Ends as a [`Store`](Store::close) does.
    ///
    /// # Errors
    /// As of [`Store::close`].
    pub fn close(mut self) -> Result<(), NotClosed<Self>> {
        self.undo_leaked();
        let takes_records = self.takes_records;
        self.store.close().map_err(|NotClosed { store, error }| {
            let store = Box::new(Self { store: *store, takes_records });
            NotClosed { store, error }
        })
    }
}

impl<A: Algorithm> Deref for ActStore<A> {
    type Target = Store<A>;

    #[inline]
    fn deref(&self) -> &Store<A> {
        &self.store
    }
}
