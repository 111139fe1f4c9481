//! Turns a state of one layout into one of another, in a directory of its own.
//!
//! - The old directory is read, with its log, and stays as it is.
//! - The new state is built in memory, and reaches the new directory as one checkpoint, which is
//!   published whole or not at all. A directory without one counts as never converted into: after a
//!   crash the conversion is simply done again.
//! - No checkpoint begins while the application converts: it would publish half of it.

use std::path::Path;
use std::sync::Arc;

use stillframe::Algorithm;
use stillframe::algorithms::imprint::Imprint;

use super::act::Act;
use super::action::{Action, ApplyError};
use super::replay::{before, replay};
use super::{Journal, Store};
use crate::application::refuse_server;
use crate::disk::{Directory, LOCK, Location};
use crate::error::Error;
use crate::mutant::Mutant;
use crate::options::Options;
use crate::recovery::{Recovered, Recovery, new_directory};

impl Store<Imprint> {
    /// Makes a state of another layout from the one in `source`, durably, in `target`: an empty
    /// directory, or what a conversion that was interrupted has left there.
    ///
    /// The state in `source` is opened by the options `old`, with `apply` for the application's
    /// records in its log, as in [`open_records`](crate::ActStore::open_records); if there are
    /// none, [`ActStore::refuse`](crate::ActStore::refuse) is enough. `convert` receives it, and a
    /// state of zeros by the options `new` to fill. The directory `source` must not be open, and
    /// stays as it is: remove it when the new one has proved good.
    ///
    /// ```
    /// # use stillframe_durability::{ActStore, Error, Options, Store};
    /// # fn main() -> Result<(), Error> {
    /// # let data = tempfile::tempdir().expect("a temporary directory");
    /// # let (first, second) = (data.path().join("1"), data.path().join("2"));
    /// // Once, a word held euros; now it holds cents.
    /// let old = Options::words(1).application("till", 1);
    /// let new = Options::words(1).application("till", 2);
    /// # let mut till: Store = Store::open(&first, old.clone())?;
    /// # till.write(0, 7);
    /// # till.checkpoint_and_wait()?;
    /// # drop(till);
    /// Store::convert(&first, old, ActStore::refuse, &second, new.clone(), |euros, cents| {
    ///     cents.write(0, 100 * euros.read(0));
    ///     Ok(())
    /// })?;
    /// let till: Store = Store::open(&second, new)?;
    /// assert_eq!(till.read(0), 700);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error`]; there is no new state then, and nothing is lost by trying again.
    /// [`Error::NotEmpty`] if there is a state in `target`, from a conversion that has ended or
    /// otherwise; [`Error::Convert`] if `convert` fails.
    pub fn convert(
        source: impl AsRef<Path>,
        old: Options,
        apply: impl FnMut(&mut Act<'_>, &Action<'_>) -> Result<(), ApplyError>,
        target: impl AsRef<Path>,
        new: Options,
        convert: impl FnOnce(&mut Self, &mut Self) -> Result<(), ApplyError>,
    ) -> Result<(), Error> {
        Self::convert_with(source, old, apply, target, new, convert)
    }
}

impl<A: Algorithm> Store<A> {
    /// [`convert`](Store::convert) with an algorithm of one's choice.
    ///
    /// # Errors
    /// [`Error`]; there is no new state then, and nothing is lost by trying again.
    pub fn convert_with(
        source: impl AsRef<Path>,
        old: Options,
        mut apply: impl FnMut(&mut Act<'_, A>, &Action<'_>) -> Result<(), ApplyError>,
        target: impl AsRef<Path>,
        new: Options,
        convert: impl FnOnce(&mut Self, &mut Self) -> Result<(), ApplyError>,
    ) -> Result<(), Error> {
        let path = source.as_ref();
        let location = match &old.disk {
            Some(disk) => Location::on(path, Arc::clone(disk)),
            None => Location::from(path),
        };
        let source = Directory::existing(location)?.claimed(&old.application)?;
        refuse_server(source.path(), &source.names()?)?;
        let source = Arc::new(source.locked(LOCK)?);
        let target = new_directory(target.as_ref(), &new)?;
        let (algorithm, recovery) = before(&source, None, &old)?;
        let from = recovery.loaded.as_ref().map_or(0, |loaded| loaded.log_from);
        let mut from_state = Self::in_memory(&source, algorithm, &old)?;
        let to_apply = |action: &Action<'_>| from_state.logged_act().redo(action, &mut apply);
        replay(&source, from, old.accept_log_loss, None, to_apply)?;
        let mut state = Self::in_memory(&target, A::create(&new.memory)?, &new)?;
        if Mutant::ConvertedInPart.is_made() {
            state.log = Journal::None;
        }
        convert(&mut from_state, &mut state).map_err(|source| Error::Convert { source })?;
        state.log = Journal::None;
        state.checkpoint_and_wait().map(drop)
    }

    /// A store that neither logs nor begins checkpoints.
    fn in_memory(
        directory: &Arc<Directory>,
        algorithm: A,
        options: &Options,
    ) -> Result<Self, Error> {
        let recovery = Recovery::default();
        let fresh = Recovered { algorithm, recovery, next: 1, chain: Vec::new() };
        let mut store = Self::assemble(directory, fresh, options)?;
        store.log = Journal::Replaying;
        Ok(store)
    }
}
