//! The state machine: hands committed entries to the loop, and images of the loop to openraft.
//!
//! - openraft calls it from one task, one call after the other, so the loop gets events in the
//!   order of the log.
//! - An image begins with batches in memory that are not applied yet. Its label is that of the last
//!   of them: known when that one comes to be applied, never if it is lost.
//! - An entry may end in the middle of a unit, of which memory has nothing until the last part is
//!   applied. An image that begins before names the entry before the first part: who loads it gets
//!   all parts again.
//! - A dump that came from another member is checked while it is a file beside the own one; one
//!   rename makes it the state.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use openraft::storage::{RaftStateMachine, Snapshot};
use openraft::{
    AnyError, Entry, LogId, RaftLogReader, RaftSnapshotBuilder, SnapshotMeta, StorageError,
    StorageIOError, StoredMembership,
};
use stillframe_durability::disk::{Directory, Input};
use stillframe_openraft::{File, Image, Incoming, LogStore, SnapshotData};
use stillframe_raft_net::{Identity, Member, Standing};
use stillframe_server::consensus::{self, Event, Reign};
use tokio::sync::oneshot;
use tokio::task::{JoinError, spawn_blocking};

use crate::error::Error;
use crate::events::Events;
use crate::identity::{agree, bind};
use crate::received;
use crate::types::{Applied, Label, Types, entry_of, reign_of};

/// Entries that are applied at once when memory is loaded anew.
const ENTRIES_AT_ONCE: u64 = 256;
/// Name of the dump within a snapshot.
const DUMP: &str = "dump.rdb";

/// See the head of this file.
pub(crate) struct Machine {
    events: Events,
    log: LogStore<Types>,
    files: Arc<Directory>,
    /// The name of the dump.
    dump: String,
    applied: Applied,
    /// Who waits for the label of an image.
    waiting: Option<Waiting>,
    newest: Arc<Newest>,
    identity: Identity,
    /// The number of the last snapshot that came in.
    incoming: u64,
    /// Memory has an older dump than there is.
    is_late: bool,
}

/// Puts a dump that came from another member in place.
type Install = Box<dyn FnOnce() -> Result<(), String> + Send>;

/// The way of a label to its image. The loop may take it away, and the image has none then.
type LabelSender = Arc<Mutex<Option<mpsc::Sender<Vec<u8>>>>>;

struct Waiting {
    last: (Reign, u64),
    label: LabelSender,
    /// For the snapshot.
    known: oneshot::Sender<Label>,
}

/// The newest image.
#[derive(Default)]
pub(crate) struct Newest {
    kept: Mutex<Option<Kept>>,
    has_identity: AtomicBool,
}

/// An image, open: it stays readable when another takes its name.
#[derive(Clone)]
struct Kept {
    label: Label,
    id: String,
    input: Input,
    bytes: u64,
    /// To read it takes no time.
    is_direct: bool,
}

/// Taken though poisoned: what these locks guard is replaced as a whole.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Newest {
    fn lock(&self) -> MutexGuard<'_, Option<Kept>> {
        lock(&self.kept)
    }

    /// Keeps the dump that has its name now.
    fn keep(&self, files: &Directory, dump: &str, label: Label) -> Result<(), Error> {
        let (input, bytes) = files.open_file(dump)?;
        let began = std::time::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_nanos());
        let id = format!("{}-{began}", label.index());
        let is_direct = files.sync_time().is_some();
        *self.lock() = Some(Kept { label, id, input, bytes, is_direct });
        Ok(())
    }

    /// Whether what is applied names the group, and so the next image.
    pub(crate) fn has_identity(&self) -> bool {
        self.has_identity.load(Ordering::Relaxed) // by itself
    }

    /// The index of the last entry in it; 0 without one.
    pub(crate) fn index(&self) -> u64 {
        self.lock().as_ref().map_or(0, |kept| kept.label.index())
    }

    /// Its bytes; 0 without one.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().as_ref().map_or(0, |kept| kept.bytes)
    }

    fn snapshot(&self) -> Result<Option<Snapshot<Types>>, Error> {
        let Some(kept) = self.lock().clone() else { return Ok(None) };
        let Kept { label, id, input, bytes, is_direct } = kept;
        let files = vec![File { name: DUMP.into(), bytes, input }];
        let image = Image { number: label.index(), id: id.clone(), files };
        let data = SnapshotData::from_image(image)?.directly(is_direct);
        let meta = SnapshotMeta {
            last_log_id: label.applied,
            last_membership: label.membership,
            snapshot_id: id,
        };
        Ok(Some(Snapshot { meta, snapshot: Box::new(data) }))
    }
}

impl Machine {
    /// With the data of the dump, whose label it is; `None`: with no data.
    pub(crate) fn new(
        events: Events,
        log: LogStore<Types>,
        files: Arc<Directory>,
        dump: String,
        label: Option<Label>,
        identity: Identity,
    ) -> Result<Self, Error> {
        let newest = Arc::new(Newest::default());
        if let Some(label) = &label {
            newest.keep(&files, &dump, label.clone())?;
        }
        let applied = Applied::from(label.unwrap_or_default());
        let (waiting, incoming, is_late) = (None, 0, false);
        let machine = Self {
            events,
            log,
            files,
            dump,
            applied,
            waiting,
            newest,
            identity,
            incoming,
            is_late,
        };
        machine.agree()?;
        Ok(machine)
    }

    /// The same; `is_late`: the loop has an older dump in memory, and loads this one first.
    pub(crate) fn late(self, is_late: bool) -> Self {
        Self { is_late, ..self }
    }

    /// The newest image, for figures.
    pub(crate) fn newest(&self) -> Arc<Newest> {
        Arc::clone(&self.newest)
    }

    /// Hands entries to the loop; what was proposed in a reign that is over makes it load anew.
    async fn hand_on(&mut self, mut entries: Vec<Entry<Types>>) -> Result<(), Error> {
        loop {
            let rest = self.offer(entries).await?;
            if rest == 0 {
                return Ok(());
            }
            self.load_anew().await?;
            let from = self.applied.label().next();
            entries = self.read(from, from + rest).await?;
        }
    }

    /// Gives the loop entries to apply. Returns how many of them it did not apply, because memory
    /// must be loaded anew first.
    async fn offer(&mut self, entries: Vec<Entry<Types>>) -> Result<u64, Error> {
        let heads: Vec<Entry<Types>> = entries.iter().map(without_units).collect();
        let listed = entries.into_iter().map(entry_of).collect();
        let rest = match self.events.ask(|reply| Event::Apply(listed, reply)).await? {
            consensus::Applied::All => 0,
            consensus::Applied::Diverged(rest) => rest,
            consensus::Applied::Refused(why) => return Err(Error::Server(why)),
        };
        let done = heads.len().saturating_sub(rest);
        let mut gone = BTreeSet::new();
        for entry in heads.iter().take(done) {
            if let openraft::EntryPayload::Membership(next) = &entry.payload {
                let before =
                    self.applied.label().membership.membership().nodes().map(|(id, _)| *id);
                let left: BTreeSet<u64> = before.filter(|id| next.get_node(id).is_none()).collect();
                let is_back = |id: &u64| next.get_node(id).is_some();
                self.identity.note(|it| {
                    // It may have called once more after it was forgotten.
                    gone.extend(it.removed.iter().filter(|id| is_back(id)));
                    it.removed.extend(&left);
                    it.removed.retain(|id| !is_back(id));
                });
                gone.extend(left);
            }
            self.pass(entry);
        }
        bind(&self.identity, self.applied.label())?;
        if !gone.is_empty() {
            self.forget(|id| gone.contains(&id));
        }
        self.agree()?;
        Ok(rest as u64)
    }

    /// Forgets the directories of members: of those that were removed, and may be added again with
    /// others.
    fn forget(&self, whom: impl Fn(u64) -> bool) {
        let forget = |it: &mut Standing| {
            it.met.retain(|&id, _| !whom(id));
            it.named.retain(|&id| !whom(id));
        };
        if let Err(what) = self.identity.change(forget) {
            tracing::warn!("that a member was removed cannot be kept: {what}");
            self.identity.note(forget);
        }
    }

    /// Whether the state is of this member's group; takes its id if this member knows none.
    fn agree(&self) -> Result<(), Error> {
        let Some(group) = self.applied.label().group else { return Ok(()) };
        if self.newest.has_identity.swap(true, Ordering::Relaxed) {
            return Ok(()); // it does not change
        }
        agree(&self.identity, group)
    }

    /// An entry is applied.
    fn pass(&mut self, entry: &Entry<Types>) {
        self.applied.pass(entry);
        let reign = reign_of(&entry.log_id.leader_id);
        let wire = match &entry.payload {
            openraft::EntryPayload::Normal(wire) if wire.counts_in(reign) => wire,
            _ => return,
        };
        let id = (reign, wire.stamp());
        if let Some(waiting) = self.waiting.take_if(|waiting| waiting.last == id) {
            self.name(waiting.label, waiting.known);
        }
    }

    /// An image has all that is applied now, but for a unit whose last part is not.
    fn name(&self, label: LabelSender, known: oneshot::Sender<Label>) {
        // Without it the image was given up.
        let Some(label) = lock(&label).take() else { return };
        let whole = self.applied.whole();
        let text = whole.check().and_then(|()| whole.encode());
        match text {
            // If nobody waits any more, the image has failed.
            Ok(text) => {
                let _ = (label.send(text), known.send(whole.clone()));
            }
            Err(error) => tracing::error!("an image cannot be labelled: {error}"),
        }
    }

    /// Memory has what was lost: loads the dump, and applies what was applied behind it.
    async fn load_anew(&mut self) -> Result<(), Error> {
        tracing::warn!(
            "memory has what the group has not agreed to: loading the newest image anew, and the log \
             behind it"
        );
        self.waiting = None; // an image with such effects counts for nobody
        let to = self.applied.label().next();
        self.load(None).await?;
        while self.applied.label().next() < to {
            let from = self.applied.label().next();
            let entries = self.read(from, (from + ENTRIES_AT_ONCE).min(to)).await?;
            if self.offer(entries).await? > 0 {
                let what = format!("entry {from} and on were not applied to what was loaded anew");
                return Err(Error::Server(what));
            }
        }
        Ok(())
    }

    /// The loop loads the dump, once `install` has put it there.
    async fn load(&mut self, install: Option<Install>) -> Result<(), Error> {
        let loaded = self.events.ask_for(|done| Event::Reload { install, done }).await?;
        let label = loaded.map_or(Ok(Label::default()), |text| Label::decode(&text))?;
        self.applied = Applied::from(label);
        Ok(())
    }

    /// Entries of the log, from one index up to another, which is not read.
    async fn read(&mut self, from: u64, to: u64) -> Result<Vec<Entry<Types>>, Error> {
        let entries = self.log.try_get_log_entries(from..to).await.map_err(Error::entries)?;
        let follow = entries.iter().zip(from..).all(|(entry, index)| entry.log_id.index == index);
        if entries.len() as u64 != to - from || !follow {
            return Err(Error::entries(format!(
                "it lacks some of the entries {from} to {}",
                to - 1
            )));
        }
        Ok(entries)
    }

    /// Begins an image; what it holds is known soon.
    async fn begin(&mut self) -> Result<Begun, Error> {
        let ((label, named), (known, labelled)) = (mpsc::channel(), oneshot::channel());
        let label = Arc::new(Mutex::new(Some(label)));
        // Weak: the image waits for nothing either when this member forgets it.
        let ours = Arc::downgrade(&label);
        let give_up = Box::new(move || drop(ours.upgrade().map(|label| lock(&label).take())));
        let (done, ended) = oneshot::channel();
        let done = Box::new(move |outcome| {
            let _ = done.send(outcome);
        });
        let begun = self
            .events
            .ask_for(|begun| Event::Image { label: named, give_up, begun, done })
            .await?;
        match begun {
            None => self.name(label, known),
            Some(last) => self.waiting = Some(Waiting { last, label, known }),
        }
        Ok(Begun { labelled, ended })
    }

    /// Makes what has come in the state.
    async fn install(
        &mut self,
        meta: &SnapshotMeta<u64, Member>,
        data: Box<SnapshotData>,
    ) -> Result<(), Error> {
        let (applied, membership) = (meta.last_log_id, meta.last_membership.clone());
        let mut said = Label { applied, membership, ..Label::default() };
        said.check()?;
        let id = meta.snapshot_id.clone();
        let identity = self.identity.clone();
        let files = Arc::clone(&self.files);
        let copy = self.next_incoming();
        let check = move || -> Result<(String, Label), Error> {
            let (incoming, name, location) = data.received(copy, |incoming| {
                incoming.keep(); // the log lets go of what is in it
                let (name, location) = incoming.make_durable()?;
                Ok((incoming.name(), name, location))
            })?;
            let place = Directory::existing(location)?;
            let found = received::check(&place, DUMP)?;
            // A snapshot does not say it beside its files.
            (said.group, said.bound) = (found.group, found.bound.clone());
            if name != id || found != said {
                return Err(Error::label(format!(
                    "the snapshot {id} of {said:?} holds the files of {name}, which are {found:?}"
                )));
            }
            if let Some(group) = said.group {
                agree(&identity, group)?;
            }
            bind(&identity, &said)?; // before it counts: a start takes the later ones of both
            Ok((incoming, said))
        };
        let (incoming, said) = self.with_files(check).await??;
        said.check_follows(self.applied.label())?;
        let from = format!("{incoming}/{DUMP}");
        let (place, dump) = (Arc::clone(&files), self.dump.clone());
        let install = Box::new(move || {
            let renamed = place.rename(&from, &dump).and_then(|()| place.sync());
            renamed.map_err(|error| error.to_string())
        });
        self.waiting = None;
        self.load(Some(install)).await?;
        if *self.applied.label() != said {
            let what = format!("{:?} was loaded in place of {said:?}", self.applied.label());
            return Err(Error::label(what));
        }
        self.agree()?;
        self.forget(|_| true); // it does not say who was removed and added again meanwhile
        let members = self.applied.label().membership.membership();
        self.identity.note(|it| it.removed.retain(|id| members.get_node(id).is_none()));
        self.newest.keep(&files, &self.dump, self.applied.label().clone())?;
        tracing::info!(
            "loaded the dump of another member, up to entry {}",
            self.applied.label().index()
        );
        // If that fails, the next start does it.
        let _ = files.remove_all_below(&incoming);
        Ok(())
    }

    /// Has a thread do what waits for files.
    async fn with_files<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        match self.files.sync_time() {
            Some(_) => Ok(work()), // a disk that takes no time
            None => spawn_blocking(work).await,
        }
    }

    fn next_incoming(
        &mut self,
    ) -> impl FnOnce() -> Result<Incoming, stillframe_openraft::Error> + Send + use<> {
        self.incoming += 1;
        let (files, number) = (Arc::clone(&self.files), self.incoming);
        move || Incoming::create(files, number, |name| name == DUMP)
    }
}

/// The directories of snapshots that came in.
fn incoming(files: &Directory) -> Result<Vec<String>, stillframe_durability::Error> {
    let number = |name: &String| name.strip_prefix("state-")?.parse::<u64>().ok();
    let names = files.names()?.into_iter();
    Ok(names.filter(|name| number(name).is_some()).collect())
}

/// Removes what is left of snapshots that came in.
pub(crate) fn remove_incoming(files: &Directory) -> Result<(), stillframe_durability::Error> {
    incoming(files)?.iter().try_for_each(|name| files.remove_all_below(name))
}

/// Puts a snapshot that came in, and has the entries up to `purged`, in the place of the dump;
/// returns its label. openraft lets go of those entries while the snapshot is checked and loaded:
/// after a crash meanwhile neither log nor dump has them.
pub(crate) fn finish_install(
    files: &Directory,
    dump: &str,
    purged: u64,
) -> Result<Option<Label>, Error> {
    for name in incoming(files)? {
        let place = Directory::existing(files.below(&name)?)?;
        let checked = received::check(&place, DUMP); // not all of it may have come
        if let Ok(label) = checked
            && label.next() > purged
        {
            files.rename(&format!("{name}/{DUMP}"), dump)?;
            files.sync()?;
            return Ok(Some(label));
        }
    }
    Ok(None)
}

/// The entry for the label, without its bytes.
fn without_units(entry: &Entry<Types>) -> Entry<Types> {
    let payload = match &entry.payload {
        openraft::EntryPayload::Normal(wire) if !wire.is_of_group() => {
            openraft::EntryPayload::Normal(wire.without_units())
        }
        other => other.clone(),
    };
    Entry { log_id: entry.log_id, payload }
}

fn failed(error: Error) -> StorageError<u64> {
    StorageIOError::write_state_machine(AnyError::new(&error)).into()
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = Builder;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId<u64>>, StoredMembership<u64, Member>), StorageError<u64>> {
        if std::mem::take(&mut self.is_late) {
            tracing::warn!("loading an image that came before this member ended");
            self.load(None).await.map_err(failed)?;
        }
        let Label { applied, membership, .. } = self.applied.label().clone();
        Ok((applied, membership))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<()>, StorageError<u64>>
    where
        I: IntoIterator<Item = Entry<Types>> + openraft::OptionalSend,
        I::IntoIter: openraft::OptionalSend,
    {
        let entries: Vec<Entry<Types>> = entries.into_iter().collect();
        let replies = vec![(); entries.len()];
        self.hand_on(entries).await.map_err(failed)?;
        Ok(replies)
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let begun = self.begin().await;
        let (files, dump) = (Arc::clone(&self.files), self.dump.clone());
        Builder { begun: Some(begun), newest: self.newest(), files, dump }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<SnapshotData>, StorageError<u64>> {
        let create = self.next_incoming();
        let incoming = self.with_files(create).await.map_err(|error| failed(error.into()))?;
        let incoming = incoming.map_err(|error| failed(error.into()))?;
        let is_direct = self.files.sync_time().is_some();
        Ok(Box::new(SnapshotData::receiving(incoming).directly(is_direct)))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<u64, Member>,
        snapshot: Box<SnapshotData>,
    ) -> Result<(), StorageError<u64>> {
        self.install(meta, snapshot).await.map_err(failed)
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<Types>>, StorageError<u64>> {
        self.newest.snapshot().map_err(failed)
    }
}

/// An image under way.
struct Begun {
    labelled: oneshot::Receiver<Label>,
    ended: oneshot::Receiver<Result<(), String>>,
}

impl Begun {
    /// Waits until it is the dump; returns its label.
    async fn wait(self) -> Result<Label, Error> {
        let ended = self.ended.await.map_err(|_| Error::ServerEnded)?;
        ended.map_err(Error::Server)?;
        self.labelled.await.map_err(|_| Error::label("it has no label"))
    }
}

/// Waits for an image that has begun.
pub(crate) struct Builder {
    begun: Option<Result<Begun, Error>>,
    newest: Arc<Newest>,
    files: Arc<Directory>,
    dump: String,
}

impl RaftSnapshotBuilder<Types> for Builder {
    /// Returns the image that began with this builder when it is durable. If it fails, as on a full
    /// disk, returns the one before, and openraft asks again later: the member goes on.
    async fn build_snapshot(&mut self) -> Result<Snapshot<Types>, StorageError<u64>> {
        let outcome = match self.begun.take() {
            Some(Ok(begun)) => begun.wait().await,
            Some(Err(why)) => Err(why),
            None => Err(Error::raft("it was built before")),
        };
        match outcome {
            Ok(label) => {
                self.newest.keep(&self.files, &self.dump, label).map_err(failed)?;
            }
            Err(why) => tracing::error!("no image could be taken: {why}"),
        }
        match self.newest.snapshot().map_err(failed)? {
            Some(newest) => Ok(newest),
            None => none_yet().map_err(failed),
        }
    }
}

/// The snapshot of a state with nothing in it, which openraft takes no notice of.
fn none_yet() -> Result<Snapshot<Types>, Error> {
    let image = Image { number: 0, id: "none".into(), files: Vec::new() };
    let data = SnapshotData::from_image(image)?;
    Ok(Snapshot { meta: SnapshotMeta::default(), snapshot: Box::new(data) })
}
