//! Uploads, a step after another, and puts a manifest after each file.
//!
//! - The manifest that was put last is the only state; what is done next follows from it and from
//!   the folder of pending files, after a restart, too.
//! - A manifest whose put failed may be there: the same one is put until the store has it.
//! - Errors are retried for as long as it takes, unless somebody has to decide.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use stillframe_durability::disk::{Directory, Input};

use crate::claim::{self, KEPT_MANIFESTS};
use crate::error::ArchiveError;
use crate::manifest::{Image, Manifest, OBJECTS, Object, Segment, Set, now_ms};
use crate::mutant::{Mutant, Mutation};
use crate::owner::Owner;
use crate::pace::Pace;
use crate::plan::{Plan, Step};
use crate::remote::Remote;
use crate::retain;
use crate::sealed::digest;
use crate::shared::{Shared, State};
use crate::spool::{Facts, Known, Spool, What};
use crate::upload::{Advance, PART_BYTES, Uploading, end_earlier, slice};
use crate::walk::{HEADER_BYTES, Place, walk};

/// How long an object stays when no manifest needs it: for who reads by an earlier one.
const GRACE_MS: u64 = 3_600_000;
/// Parts of an open segment, beyond which it is uploaded as one.
const PARTS_MAX: usize = 32;
/// The pauses after an error: the first one, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(30)];
/// How long a worker without work waits.
const IDLE: Duration = Duration::from_millis(500);

/// See the head of this file.
pub(crate) struct Worker {
    pub(crate) remote: Remote,
    owner: Owner,
    files: Arc<Directory>,
    shared: Arc<Shared>,
    is_store: bool,
    pace: Pace,
    manifest: Option<Manifest>,
    /// The next one, on its way.
    unput: Option<Manifest>,
    image: Option<Uploading>,
    /// Numbers the objects of this run.
    objects: u64,
    /// Objects whose put failed, which may be there.
    lost: Vec<Object>,
    /// When the open segment was looked at last.
    tail_at: Option<Instant>,
    /// Its time has not come again.
    tail_waits: bool,
    /// For tests: objects go at once.
    pub(crate) grace_ms: u64,
    mutation: Mutation,
}

impl Worker {
    pub(crate) fn new(remote: Remote, owner: Owner, spool: &Spool, shared: Arc<Shared>) -> Self {
        Self {
            pace: Pace::new(Arc::clone(&shared.rate)),
            is_store: shared.is_store,
            files: Arc::clone(&spool.files),
            remote,
            owner,
            shared,
            manifest: None,
            unput: None,
            image: None,
            objects: 0,
            lost: Vec::new(),
            tail_at: None,
            tail_waits: false,
            grace_ms: GRACE_MS,
            mutation: Mutation::current(),
        }
    }

    /// Claims the prefix, unless that is done.
    pub(crate) async fn claim(&mut self) -> Result<(), ArchiveError> {
        if self.manifest.is_some() {
            return Ok(());
        }
        let take_over = self.shared.settings().take_over;
        let manifest = claim::take(&self.remote, &mut self.owner, take_over).await?;
        end_earlier(&self.remote, &self.owner).await?;
        self.shared.know(Known::from_manifest(&manifest));
        tracing::info!("archiving to {}, claim {}", self.remote.url, manifest.claim);
        self.shared.note_manifest(&manifest);
        self.manifest = Some(manifest);
        Ok(())
    }

    /// Works until somebody has to decide.
    pub(crate) async fn run(&mut self) -> ArchiveError {
        let mut pause = PAUSES[0];
        let mut told: Option<(String, Instant)> = None;
        loop {
            match self.turn().await {
                Ok(was_busy) => {
                    if told.take().is_some() {
                        tracing::info!("the archive is reached again");
                    }
                    pause = PAUSES[0];
                    if !was_busy {
                        self.shared.note_state(State::Current);
                        tokio::time::sleep(IDLE).await;
                    }
                }
                Err(error) if error.is_final() => return error,
                Err(error) => {
                    /// How often the same error is logged.
                    const AGAIN: Duration = Duration::from_secs(300);
                    let text = error.to_string();
                    if told.as_ref().is_none_or(|(_, at)| at.elapsed() > AGAIN) {
                        tracing::warn!("the archive has to wait: {text}");
                        told = Some((text.clone(), Instant::now()));
                    }
                    self.shared.note_error(text);
                    tokio::time::sleep(jitter(pause)).await;
                    pause = (2 * pause).min(PAUSES[1]);
                }
            }
        }
    }

    /// Takes a step; false if there is none.
    pub(crate) async fn turn(&mut self) -> Result<bool, ArchiveError> {
        self.claim().await?;
        self.put_manifest().await?;
        let looked = Instant::now();
        let pending = Spool::pending(&self.files)?;
        let settings = self.shared.settings();
        let Some(set) = self.set() else {
            return if pending.is_empty() {
                self.shared.note_archived(looked);
                Ok(false)
            } else {
                self.begin("it is the first").await
            };
        };
        let image_period_ms = u64::try_from(settings.image_period.as_millis()).unwrap_or(u64::MAX);
        let plan = Plan { set, pending: &pending, image_period_ms };
        let steps = plan.steps();
        self.tail_waits = false;
        for step in steps {
            if self.take(step, settings.interval).await? {
                self.shared.note_state(State::Behind);
                return Ok(true);
            }
        }
        if self.image.as_ref().is_none_or(|image| self.can_do_without(&image.facts)) {
            let seen = self.tail_at.filter(|_| self.tail_waits);
            self.shared.note_archived(seen.unwrap_or(looked));
        }
        if self.image.is_some() {
            self.advance_image().await?;
            self.shared.note_state(State::Behind);
            return Ok(true);
        }
        self.tidy(settings.keep, settings.keep_images).await
    }

    /// The set that is being filled.
    fn set(&self) -> Option<&Set> {
        let manifest = self.manifest.as_ref()?;
        let set = manifest.sets.last()?;
        (set.owner == self.owner.id && set.store == self.is_store).then_some(set)
    }

    /// Whether the newest state is archived without this image: by an earlier one and the log.
    fn can_do_without(&self, it: &Facts) -> bool {
        self.set().is_some_and(|set| {
            set.last_segment(it.generation).is_some()
                && set.images.iter().any(|image| image.generation == it.generation)
        })
    }

    async fn begin(&mut self, why: &str) -> Result<bool, ArchiveError> {
        let Some(manifest) = &self.manifest else { return Ok(false) };
        match manifest.sets.is_empty() {
            true => tracing::info!("the archive begins its first set"),
            false => tracing::warn!("the archive begins a new set: {why}"),
        }
        let mut next = manifest.clone();
        next.sets.push(Set::new(&self.owner.id, self.is_store, why));
        self.image = None;
        if manifest.sets.last().is_some_and(|set| set.owner == self.owner.id) {
            // What the directory does not have any more may be of another history.
            for it in Spool::pending(&self.files)? {
                self.files.remove(&it.what.name())?;
            }
            self.shared.start_over();
        }
        self.commit(next).await?;
        Ok(true)
    }

    /// Takes a step; false if there is nothing to do.
    async fn take(&mut self, step: Step, interval: Duration) -> Result<bool, ArchiveError> {
        match step {
            Step::Begin(why) => self.begin(&why).await,
            Step::Forget(what) => {
                self.shared.known(|known| known.add(&what));
                self.files.remove(&what.name())?;
                Ok(true)
            }
            Step::Close { generation, first } => {
                let Some(mut segment) = self.archived(generation, first).cloned() else {
                    return Ok(false);
                };
                segment.closed = true;
                self.put_segment(segment).await
            }
            Step::Whole { generation, first, until } => {
                self.upload_whole(generation, first, until).await
            }
            Step::Tail { generation, first, is_urgent } => {
                let is_due = self.tail_at.is_none_or(|at| at.elapsed() >= interval);
                if !is_due && !is_urgent {
                    self.tail_waits = true;
                    return Ok(false);
                }
                self.upload_tail(generation, first).await
            }
            Step::Image(facts) => {
                if self.image.is_none() {
                    self.begin_image(facts).await?;
                }
                Ok(false) // its parts come when nothing else is to be done
            }
        }
    }

    fn archived(&self, generation: u64, first: u64) -> Option<&Segment> {
        let is_it = |it: &&Segment| it.generation == generation && it.first == first;
        self.set()?.segments.iter().find(is_it)
    }

    fn pending_segment(
        &self,
        generation: u64,
        first: u64,
    ) -> Result<Option<(What, String)>, ArchiveError> {
        let pending = Spool::pending(&self.files)?.into_iter();
        let mut found = pending.filter_map(|it| match &it.what {
            What::Segment { generation: of, first: at, identity }
                if *of == generation && *at == first =>
            {
                let identity = identity.clone();
                Some((it.what, identity))
            }
            _ => None,
        });
        Ok(found.next())
    }

    /// Opens a pending file; `None` if it was given up.
    fn open(&self, what: &What) -> Result<Option<(Input, u64)>, ArchiveError> {
        match self.files.open_file(&what.name()) {
            Err(error) if error.kind() == Some(std::io::ErrorKind::NotFound) => Ok(None),
            opened => Ok(Some(opened?)),
        }
    }

    async fn upload_whole(
        &mut self,
        generation: u64,
        first: u64,
        until: Option<u64>,
    ) -> Result<bool, ArchiveError> {
        let Some((what, identity)) = self.pending_segment(generation, first)? else {
            return Ok(false);
        };
        let Some((input, bytes)) = self.open(&what)? else { return Ok(false) };
        let start = Place { offset: HEADER_BYTES, last: first - 1 };
        let walked = walk(&input, start).map_err(|error| self.unread(&what, error))?;
        if let Some(until) = until
            && walked.proved.last >= until
            && !self.mutation.is(Mutant::DivergenceIgnored)
        {
            // A start goes on behind all that was on the disk.
            let why = format!("record {until} of log {generation} was written again");
            return self.begin(&why).await;
        }
        // A later segment is proof of all records before it. What is missing between the two may
        // have been in one that came and went between two looks.
        let end = until.map_or(walked.end.last, |until| walked.end.last.min(until - 1));
        if self.mutation.is(Mutant::ForgottenEarly) {
            self.files.remove(&what.name())?;
        }
        let parts = self.put_slices(&what, &input, 0, bytes).await?;
        let segment = Segment { generation, first, end, closed: true, identity, parts };
        self.put_segment(segment).await
    }

    async fn upload_tail(&mut self, generation: u64, first: u64) -> Result<bool, ArchiveError> {
        let Some((what, identity)) = self.pending_segment(generation, first)? else {
            return Ok(false);
        };
        let Some((input, _)) = self.open(&what)? else { return Ok(false) };
        let looked = Some(Instant::now());
        let archived = self.archived(generation, first).filter(|it| it.identity == identity);
        let (mut parts, start) = match archived {
            Some(it) => (it.parts.clone(), Place { offset: it.bytes(), last: it.end }),
            None => (Vec::new(), Place { offset: HEADER_BYTES, last: first - 1 }),
        };
        let walked = walk(&input, start).map_err(|error| self.unread(&what, error))?;
        let is_as_before = archived.is_some() && walked.proved == start;
        if is_as_before {
            self.tail_at = looked;
            return Ok(false);
        }
        if parts.len() >= PARTS_MAX {
            parts.clear();
        }
        let from = parts.iter().map(|part| part.bytes).sum();
        parts.extend(self.put_slices(&what, &input, from, walked.proved.offset).await?);
        self.tail_at = looked;
        let end = walked.proved.last;
        self.put_segment(Segment { generation, first, end, closed: false, identity, parts }).await
    }

    async fn put_segment(&mut self, segment: Segment) -> Result<bool, ArchiveError> {
        let Some(mut next) = self.manifest.clone() else { return Ok(false) };
        if let Some(set) = next.sets.last_mut() {
            let replaced = set.put_segment(segment);
            next.drop_objects(replaced);
        }
        self.commit(next).await?;
        Ok(true)
    }

    /// Puts the bytes of a file as objects.
    async fn put_slices(
        &mut self,
        what: &What,
        input: &Input,
        mut from: u64,
        to: u64,
    ) -> Result<Vec<Object>, ArchiveError> {
        let mut parts = Vec::new();
        while from < to {
            let bytes = (2 * PART_BYTES).min(to - from);
            let part = slice(input, from, bytes).map_err(|error| self.unread(what, error))?;
            self.pace.keep(bytes).await;
            let object = self.object("log", &part);
            // Until a manifest names it, nobody knows of it but the next sweep.
            self.lost.push(object.clone());
            if !self.mutation.is(Mutant::ManifestFirst) {
                self.remote.put(&object.name, part).await?;
            }
            self.shared.note_uploaded(bytes);
            parts.push(object);
            from += bytes;
        }
        Ok(parts)
    }

    fn object(&mut self, kind: &str, part: &Bytes) -> Object {
        let name = self.object_name(kind);
        Object { name, bytes: part.len() as u64, sha256: digest(part) }
    }

    fn object_name(&mut self, kind: &str) -> String {
        self.objects += 1;
        let claim = self.manifest.as_ref().map_or(0, |manifest| manifest.claim);
        format!("{OBJECTS}/{claim:010}-{:08}.{kind}", self.objects)
    }

    async fn begin_image(&mut self, facts: Facts) -> Result<(), ArchiveError> {
        let what = What::Image(facts.clone());
        let Some((file, bytes)) = self.open(&what)? else { return Ok(()) };
        let name = self.object_name(if self.is_store { "checkpoint" } else { "rdb" });
        let begun = Uploading::begin(&self.remote, &self.owner, facts, name, file, bytes).await;
        self.image = Some(begun?);
        Ok(())
    }

    /// Puts a part of the image under way.
    async fn advance_image(&mut self) -> Result<(), ArchiveError> {
        let Some(image) = &mut self.image else { return Ok(()) };
        let before = image.progress().0;
        let advanced = image.advance(&self.remote, &mut self.pace).await;
        self.shared.note_uploaded(image.progress().0 - before);
        let object = match advanced {
            Ok(Advance::On) => return Ok(()),
            Ok(Advance::Done(object)) => object,
            Err(error) => {
                let is_gone = matches!(error, ArchiveError::Store { is_missing: true, .. });
                if (is_gone || !image.can_go_on())
                    && let Some(image) = self.image.take()
                {
                    // Another attempt, under another name.
                    self.lost.push(Object {
                        name: image.name.clone(),
                        bytes: 0,
                        sha256: String::new(),
                    });
                    image.abort(&self.remote).await;
                }
                return Err(error);
            }
        };
        let Some(image) = self.image.take() else { return Ok(()) };
        let Some(mut next) = self.manifest.clone() else { return Ok(()) };
        let it = image.facts;
        if let Some(set) = next.sets.last_mut() {
            set.images.push(Image {
                generation: it.generation,
                from: it.from,
                begun_ms: it.begun_ms,
                number: it.number,
                base: (it.base > 0).then_some(it.base),
                identity: it.identity,
                object,
            });
        }
        let settings = self.shared.settings();
        retain::thin(&mut next, settings.keep, settings.keep_images, now_ms());
        if self.mutation.is(Mutant::DroppedAtOnce) {
            let names: Vec<_> = next.dropped.iter().map(|it| it.name.clone()).collect();
            self.remote.remove(&names).await?;
        }
        self.commit(next).await?;
        self.owner.forget_upload()
    }

    /// Puts the next manifest, with this content.
    async fn commit(&mut self, mut next: Manifest) -> Result<(), ArchiveError> {
        next.number += 1;
        next.written_ms = now_ms();
        let lost: Vec<Object> =
            self.lost.drain(..).filter(|object| !next.knows(&object.name)).collect();
        next.drop_objects(lost);
        self.unput = Some(next);
        self.put_manifest().await
    }

    async fn put_manifest(&mut self) -> Result<(), ArchiveError> {
        let Some(next) = self.unput.take() else { return Ok(()) };
        let put = claim::put_manifest(&self.remote, &next).await;
        if put.is_err() {
            self.unput = Some(next);
            return put;
        }
        self.shared.note_manifest(&next);
        if let Some(old) = next.number.checked_sub(KEPT_MANIFESTS as u64).filter(|old| *old > 0) {
            // One that stays goes with the next claim.
            let _ = self.remote.remove(&[Manifest::name(next.claim, old)]).await;
        }
        self.manifest = Some(next);
        Ok(())
    }

    /// Lets go of what is too old, and of objects that nobody needs any more.
    async fn tidy(&mut self, keep: Duration, images: usize) -> Result<bool, ArchiveError> {
        let Some(mut next) = self.manifest.clone() else { return Ok(false) };
        let now = now_ms();
        if retain::thin(&mut next, keep, images, now) {
            self.commit(next).await?;
            return Ok(true);
        }
        let is_gone = |at_ms: u64| at_ms.saturating_add(self.grace_ms) <= now;
        let gone = next.dropped.iter().filter(|it| is_gone(it.at_ms)).map(|it| it.name.clone());
        let gone: Vec<String> = gone.collect();
        if gone.is_empty() {
            return Ok(false);
        }
        self.remote.remove(&gone).await?;
        next.dropped.retain(|it| !is_gone(it.at_ms));
        self.commit(next).await?;
        Ok(true)
    }

    fn unread(&self, what: &What, error: std::io::Error) -> ArchiveError {
        ArchiveError::Read { path: self.files.at(&what.name()), error }
    }
}

/// A pause that is not that of others who were told no at the same time.
fn jitter(pause: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let share = RandomState::new().hash_one(0) % 512;
    pause.mul_f64(0.75 + share as f64 / 1024.0)
}
