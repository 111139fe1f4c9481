//! The state machine of a member, for openraft.
//!
//! - Openraft applies entries in batches; between two batches is a point of consistency. There an
//!   image begins, in microseconds, and is written while further entries are applied.
//! - Id and membership of the last entry are noted in the state itself, so an image has those of
//!   its very moment, and nothing can drift apart.
//! - A received snapshot is opened in a directory of its own and compared with what it says of
//!   itself; then one rename makes it the state.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openraft::storage::{RaftSnapshotBuilder, RaftStateMachine, Snapshot};
use openraft::{
    Entry, EntryPayload, LogId, NodeId, OptionalSend, RaftTypeConfig, SnapshotMeta, StorageError,
    StoredMembership,
};
use serde::{Serialize, de::DeserializeOwned};
use stillframe_durability::disk::{Directory, Location};
use tokio::task::spawn_blocking;

use crate::error::{About, Error};
use crate::images::{Ended, Images, Label, meta};
use crate::manifest::{self, Manifest};
use crate::mutant::{Mutant, Mutation};
use crate::snapshot::{Incoming, SnapshotData};
use crate::state::{Note, State, Told};

/// Pause before an image is tried again, at first and at most.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// The state machine of a member. Clones are the same one: keep one to read the state.
pub struct StateMachine<C: RaftTypeConfig, S: State> {
    shared: Arc<Shared<C, S>>,
}

struct Shared<C: RaftTypeConfig, S: State> {
    root: Arc<Directory>,
    options: S::Options,
    images: Arc<Images<C>>,
    inner: Mutex<Inner<C, S>>,
    mutation: Mutation,
}

struct Inner<C: RaftTypeConfig, S> {
    /// None while a snapshot is installed.
    state: Option<S>,
    label: Label<C>,
    manifest: Manifest,
    /// The number of the last state that was begun, installed or not.
    last: u64,
    /// An entry is being applied; left so by a panic.
    applying: bool,
}

impl<C: RaftTypeConfig, S: State> Clone for StateMachine<C, S> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<C: RaftTypeConfig, S: State> Debug for StateMachine<C, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateMachine").field("root", &self.shared.root).finish_non_exhaustive()
    }
}

impl<C: RaftTypeConfig, S: State> StateMachine<C, S> {
    /// The state in `root`, beside a log that has let go of the entries up to `purged`. openraft
    /// lets go of them while it installs the snapshot that has them, so a crash may come between:
    /// then the snapshot, which was durable before, becomes the state here.
    ///
    /// # Errors
    /// [`Error::StateBehindLog`], and others.
    pub(crate) fn open(
        root: Directory,
        mut manifest: Manifest,
        options: S::Options,
        purged: Option<LogId<C::NodeId>>,
    ) -> Result<Self, Error> {
        let name = manifest::state(manifest.state);
        if !root.holds(&name)? {
            root.create_below(&name)?;
            root.sync()?;
        }
        let images = Arc::new(Images::<C>::default());
        let read =
            |number| open_state::<C, S>(root.below(&manifest::state(number))?, &options, &images);
        let (mut state, mut label) = read(manifest.state)?;
        let needed = purged.as_ref().map(|purged| purged.index);
        if label.index() < needed {
            let said = |id: &Option<LogId<C::NodeId>>| {
                id.as_ref().map_or_else(|| "none".to_owned(), LogId::to_string)
            };
            let (applied, purged) = (said(&label.applied), said(&purged));
            let behind = Error::StateBehindLog { applied, purged };
            // Dropped first: there is not always memory for two.
            drop(state);
            let received = manifest::states(&root)?.into_iter();
            let mut received = received.filter(|&number| number != manifest.state);
            let found = received.find_map(|number| {
                let (state, label) = read(number).ok()?; // not all of it may have come
                (label.index() >= needed).then_some((number, state, label))
            });
            (manifest.state, state, label) = found.ok_or(behind)?;
            manifest.publish(&root)?;
        }
        for stale in manifest::states(&root)? {
            if stale != manifest.state {
                root.remove_all_below(&manifest::state(stale))?;
            }
        }
        images.belong_to(state.images(), label.clone())?;
        let last = manifest.state;
        let inner = Inner { state: Some(state), label, manifest, last, applying: false };
        let (root, inner) = (Arc::new(root), Mutex::new(inner));
        let mutation = Mutation::current();
        Ok(Self { shared: Arc::new(Shared { root, options, images, inner, mutation }) })
    }

    /// Shows the state to `look`, between two batches of entries. Entries wait meanwhile.
    ///
    /// # Errors
    /// [`Error::Installing`] while there is none in memory; [`Error::Poisoned`].
    pub fn read<T>(&self, look: impl FnOnce(&S) -> T) -> Result<T, Error> {
        let inner = self.lock()?;
        inner.state.as_ref().map(look).ok_or(Error::Installing)
    }

    fn lock(&self) -> Result<MutexGuard<'_, Inner<C, S>>, Error> {
        // Only entries leave something in part, which `applying` shows.
        let inner = self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.applying { Err(Error::Poisoned) } else { Ok(inner) }
    }

    fn label(&self) -> Result<Label<C>, Error> {
        self.lock().map(|inner| inner.label.clone())
    }

    /// The newest image as openraft takes it.
    fn newest(&self) -> Result<Option<Snapshot<C>>, Error>
    where
        C: RaftTypeConfig<SnapshotData = SnapshotData>,
    {
        let Some((image, label)) = self.shared.images.newest()? else { return Ok(None) };
        let late = self.shared.mutation.is(Mutant::LabelsAtEnd);
        let label = if late { self.label()? } else { label };
        let meta = meta(&image, &label);
        Ok(Some(Snapshot { meta, snapshot: Box::new(SnapshotData::from_image(image)?) }))
    }

    /// A new directory for a snapshot that comes in.
    fn incoming(&self) -> Result<Incoming, Error> {
        let number = {
            let mut inner = self.lock()?;
            inner.last += 1;
            inner.last
        };
        Incoming::create(Arc::clone(&self.shared.root), number, S::is_image_file)
    }

    /// Makes a snapshot that has come in the state. openraft lets go of the log before it
    /// meanwhile: if the disk fails, the next start does it.
    fn install(
        &self,
        meta: &SnapshotMeta<C::NodeId, C::Node>,
        incoming: &mut Incoming,
    ) -> Result<(), Error> {
        if !self.shared.mutation.is(Mutant::DropsWhatMayCount) {
            incoming.keep();
        }
        let installed = self.install_kept(meta, incoming);
        if let Err(Error::Snapshot { .. }) = &installed {
            incoming.give_up();
        }
        installed
    }

    fn install_kept(
        &self,
        meta: &SnapshotMeta<C::NodeId, C::Node>,
        incoming: &Incoming,
    ) -> Result<(), Error> {
        let Shared { root, options, images, mutation, .. } = &*self.shared;
        let (id, location) = incoming.finish(!mutation.is(Mutant::InstallsUnsynced))?;
        let wrong = |what| Error::Snapshot { id: meta.snapshot_id.clone(), what };
        if id != meta.snapshot_id {
            return Err(wrong(format!("its files are of the snapshot {id}")));
        }
        let own = self.lock()?.label.applied.clone();
        if let (Some(theirs), Some(own)) = (&meta.last_log_id, &own)
            && is_of_another_history(theirs, own)
        {
            return Err(wrong(format!(
                "it ends with entry {theirs}, and entry {own} was applied here: two entries of one \
                 index were never committed by one group"
            )));
        }
        // Dropped first: there is not always memory for two.
        drop(self.lock()?.state.take());
        let (state, label) = open_state::<C, S>(location, options, images)?;
        let said =
            Label { applied: meta.last_log_id.clone(), membership: meta.last_membership.clone() };
        if label != said {
            let Label { applied, membership } = label;
            return Err(wrong(format!("it is of {applied:?} and {membership:?}")));
        }
        let manifest = Manifest { state: incoming.number() };
        manifest.publish(root)?;
        images.belong_to(state.images(), label.clone())?;
        let mut inner = self.lock()?;
        let before = std::mem::replace(&mut inner.manifest, manifest);
        (inner.state, inner.label) = (Some(state), label);
        drop(inner);
        // If that fails, the next start does it.
        let _ = root.remove_all_below(&manifest::state(before.state));
        Ok(())
    }
}

/// Whether a state that ends with entry `theirs` cannot come after one that has applied `own`: what
/// is committed stays, so two entries at one index are of two groups, or of a group that lost its
/// log. openraft 0.9 takes a greater term for a later state, whatever the index.
#[must_use]
pub fn is_of_another_history<N: NodeId>(theirs: &LogId<N>, own: &LogId<N>) -> bool {
    theirs > own && theirs.index <= own.index
}

/// What tells the images of their end.
fn teller<C: RaftTypeConfig>(images: &Arc<Images<C>>) -> Told {
    // The images know where the state keeps them: a cycle, if the state knew the images.
    let images = Arc::downgrade(images);
    Box::new(move |ended| {
        if let Some(images) = images.upgrade() {
            images.ended(ended);
        }
    })
}

fn encoded<T: Serialize>(note: Note, value: &T) -> Result<Vec<u8>, Error> {
    postcard::to_allocvec(value).map_err(|_| Error::Note { what: note.name() })
}

fn noted<T: DeserializeOwned + Default, S: State>(state: &S, note: Note) -> Result<T, Error> {
    match &state.note(note)?[..] {
        [] => Ok(T::default()),
        bytes => postcard::from_bytes(bytes).map_err(|_| Error::Note { what: note.name() }),
    }
}

/// Opens a state, and reads what it has applied.
fn open_state<C: RaftTypeConfig, S: State>(
    location: Location,
    options: &S::Options,
    images: &Arc<Images<C>>,
) -> Result<(S, Label<C>), Error> {
    let state = S::open(location, options, teller(images))?;
    let (applied, membership) = (noted(&state, Note::Applied)?, noted(&state, Note::Membership)?);
    Ok((state, Label { applied, membership }))
}

impl<C, S> RaftStateMachine<C> for StateMachine<C, S>
where
    C: RaftTypeConfig<Entry = Entry<C>, SnapshotData = SnapshotData>,
    C::R: Default,
    S: State<Command = C::D, Reply = C::R>,
{
    type SnapshotBuilder = SnapshotBuilder<C, S>;

    async fn applied_state(
        &mut self,
    ) -> Result<
        (Option<LogId<C::NodeId>>, StoredMembership<C::NodeId, C::Node>),
        StorageError<C::NodeId>,
    > {
        let label = self.label().map_err(|error| About::State.reading(error))?;
        Ok((label.applied, label.membership))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<C::R>, StorageError<C::NodeId>>
    where
        I: IntoIterator<Item = C::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.apply_batch(entries.into_iter()).map_err(|error| About::State.writing(error))
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder<C, S> {
        SnapshotBuilder { begun: Some(self.begin()), machine: self.clone() }
    }

    async fn begin_receiving_snapshot(
        &mut self,
    ) -> Result<Box<SnapshotData>, StorageError<C::NodeId>> {
        let machine = self.clone();
        let incoming = run(move || machine.incoming()).await;
        let incoming = incoming.map_err(|error| About::Snapshot.writing(error))?;
        Ok(Box::new(SnapshotData::receiving(incoming)))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<C::NodeId, C::Node>,
        snapshot: Box<SnapshotData>,
    ) -> Result<(), StorageError<C::NodeId>> {
        let (machine, meta) = (self.clone(), meta.clone());
        let installed = run(move || {
            let install = |incoming: &mut Incoming| machine.install(&meta, incoming);
            snapshot.received(|| machine.incoming(), install)
        });
        installed.await.map_err(|error| About::Snapshot.writing(error))
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<Snapshot<C>>, StorageError<C::NodeId>> {
        let machine = self.clone();
        let newest = run(move || machine.newest()).await;
        newest.map_err(|error| About::Snapshot.reading(error))
    }
}

/// Runs what waits for files.
async fn run<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Error::Image { reason: error.to_string() }))
}

impl<C, S> StateMachine<C, S>
where
    C: RaftTypeConfig<Entry = Entry<C>, SnapshotData = SnapshotData>,
    C::R: Default,
    S: State<Command = C::D, Reply = C::R>,
{
    /// Applies entries, and notes the last of them.
    fn apply_batch(&self, entries: impl Iterator<Item = C::Entry>) -> Result<Vec<C::R>, Error> {
        let mut inner = self.lock()?;
        let Inner { state, label, applying, .. } = &mut *inner;
        let state = state.as_mut().ok_or(Error::Installing)?;
        let late = self.shared.mutation.is(Mutant::NotesLate);
        if late {
            state.set_note(Note::Applied, &encoded(Note::Applied, &label.applied)?)?;
        }
        let mut replies = Vec::with_capacity(entries.size_hint().0);
        *applying = true;
        for Entry { log_id, payload } in entries {
            label.applied = Some(log_id.clone());
            replies.push(match payload {
                EntryPayload::Blank => C::R::default(),
                EntryPayload::Normal(command) => state.apply(command),
                EntryPayload::Membership(membership) => {
                    label.membership = StoredMembership::new(Some(log_id), membership);
                    let bytes = encoded(Note::Membership, &label.membership)?;
                    state.set_note(Note::Membership, &bytes)?;
                    C::R::default()
                }
            });
        }
        if !late {
            state.set_note(Note::Applied, &encoded(Note::Applied, &label.applied)?)?;
        }
        *applying = false;
        Ok(replies)
    }

    /// Begins an image of the state as it is now; or there is one under way.
    fn begin(&self) -> Result<Ended, Error> {
        let mut inner = self.lock()?;
        let Inner { state, label, .. } = &mut *inner;
        let state = state.as_mut().ok_or(Error::Installing)?;
        let (ended, is_ours) = self.shared.images.wait(|| label.clone());
        if is_ours {
            state.begin();
        }
        Ok(ended)
    }
}

/// Waits for an image that has begun.
pub struct SnapshotBuilder<C: RaftTypeConfig, S: State> {
    begun: Option<Result<Ended, Error>>,
    machine: StateMachine<C, S>,
}

impl<C: RaftTypeConfig, S: State> Debug for SnapshotBuilder<C, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotBuilder").field("machine", &self.machine).finish_non_exhaustive()
    }
}

impl<C, S> RaftSnapshotBuilder<C> for SnapshotBuilder<C, S>
where
    C: RaftTypeConfig<Entry = Entry<C>, SnapshotData = SnapshotData>,
    C::R: Default,
    S: State<Command = C::D, Reply = C::R>,
{
    /// Returns when the image that began with this builder is durable. If that fails, as on a full
    /// disk, returns the one before; without one, tries again until there is one. The node goes on
    /// either way.
    async fn build_snapshot(&mut self) -> Result<Snapshot<C>, StorageError<C::NodeId>> {
        let failed = |error: Error| About::Snapshot.writing(error);
        let mut pause = RETRY_MIN;
        loop {
            let begun = self.begun.take().unwrap_or_else(|| self.machine.begin());
            let gone = |_| Err("the state has gone".to_owned());
            let ended = match begun {
                Ok(ended) => ended.await.unwrap_or_else(gone),
                Err(error) => Err(error.to_string()),
            };
            let machine = self.machine.clone();
            if let Some(newest) = run(move || machine.newest()).await.map_err(failed)? {
                return Ok(newest);
            }
            tracing::error!("no image could be taken: {ended:?}; another follows in {pause:?}");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_MAX);
        }
    }
}
