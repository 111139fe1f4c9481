//! The folder of pending files: second names of what the directory holds and the archive does not,
//! so that a server may delete or replace its own name of a file at any time.
//!
//! - A name says all that a plan needs, so that the folder is the only state.
//! - A link takes no room until the directory lets go of the file. If pending files grow beyond
//!   their bound, all go but the newest image and the log behind it, which the directory needs
//!   itself; the next set then begins with that image.
//! - Images between two pending ones go first: the log leads to all states between.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::sync::Arc;

use stillframe_durability::disk::{Directory, Input};
use stillframe_durability::inspect::Name;
use stillframe_durability::{Error, checkpoint_name};
use stillframe_rdb::{Decoder, Event, Value};
use stillframe_storage::journal::{Generations, POSITION_FIELD, Position, position};

use crate::error::ArchiveError;
use crate::manifest::{Image, Manifest};
use crate::sealed::hex;
use crate::settings::Source;
use crate::walk::{HEADER_BYTES, Place, walk};

/// The folder in the directory.
pub(crate) const FOLDER: &str = "archive";
const INCOMING: &str = "incoming";

/// A file that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) what: What,
    pub(crate) bytes: u64,
}

/// What it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Image(Facts),
    /// `identity` says when it was created, and its nonce: a start may replace a segment, and
    /// another log may get its numbers.
    Segment {
        generation: u64,
        first: u64,
        identity: String,
    },
}

/// What is known of an image; see [`Image`](crate::manifest::Image).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Facts {
    pub(crate) generation: u64,
    pub(crate) from: u64,
    pub(crate) begun_ms: u64,
    pub(crate) number: u64,
    pub(crate) base: u64,
    pub(crate) identity: String,
}

impl Facts {
    /// Whether this is the image in an archive.
    pub(crate) fn is(&self, image: &Image) -> bool {
        self.generation == image.generation
            && self.from == image.from
            && self.begun_ms == image.begun_ms
            && self.number == image.number
            && self.identity == image.identity
    }
}

impl What {
    /// An archived image.
    pub(crate) fn from_image(image: &Image) -> Self {
        Self::Image(Facts {
            generation: image.generation,
            from: image.from,
            begun_ms: image.begun_ms,
            number: image.number,
            base: image.base.unwrap_or(0),
            identity: image.identity.clone(),
        })
    }

    /// What tells a segment from others of its numbers.
    fn identity(&self) -> Option<String> {
        match self {
            Self::Segment { identity, .. } => Some(identity.clone()),
            Self::Image(_) => None,
        }
    }

    /// The name in the folder.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Image(it) => format!(
                "image-{}-{}-{}-{}-{}-{}",
                it.generation, it.from, it.begun_ms, it.number, it.base, it.identity
            ),
            Self::Segment { generation, first, identity } => {
                format!("segment-{generation}-{first}-{identity}")
            }
        }
    }

    fn parse(name: &str) -> Option<Self> {
        let parts: Vec<&str> = name.split('-').collect();
        let number = |at: usize| parts.get(at)?.parse::<u64>().ok();
        let parsed = match (parts[0], parts.len()) {
            ("image", 7) => Self::Image(Facts {
                generation: number(1)?,
                from: number(2)?,
                begun_ms: number(3)?,
                number: number(4)?,
                base: number(5)?,
                identity: parts[6].to_owned(),
            }),
            ("segment", 4) => Self::Segment {
                generation: number(1)?,
                first: number(2)?,
                identity: parts[3].to_owned(),
            },
            _ => return None,
        };
        (parsed.name() == name).then_some(parsed)
    }
}

/// What the archive has, so that it is not linked again.
#[derive(Debug, Default)]
pub(crate) struct Known {
    names: BTreeSet<String>,
}

impl Known {
    /// The images of the set that is being filled.
    pub(crate) fn from_manifest(manifest: &Manifest) -> Self {
        let set = manifest.sets.last().filter(|set| set.owner == manifest.owner);
        let images = set.iter().flat_map(|set| &set.images);
        // Segments are linked once more, and compared: their names do not tell them apart.
        Self { names: images.map(|image| What::from_image(image).name()).collect() }
    }

    pub(crate) fn add(&mut self, what: &What) {
        self.names.insert(what.name());
    }

    fn holds(&self, what: &What) -> bool {
        self.names.contains(&what.name())
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Spool {
    data: Arc<Directory>,
    pub(crate) files: Arc<Directory>,
    source: Source,
    /// The dump, or the checkpoints, that were looked at.
    seen: BTreeSet<String>,
    linkless: bool,
}

impl Spool {
    pub(crate) fn open(source: &Source) -> Result<Self, ArchiveError> {
        let data = Arc::new(Directory::existing(source.directory())?);
        if !data.holds(FOLDER)? {
            data.create_below(FOLDER)?;
            data.sync()?;
        }
        let files = Arc::new(Directory::existing(data.below(FOLDER)?)?);
        files.remove(INCOMING)?;
        let mut spool =
            Self { data, files, source: source.clone(), seen: BTreeSet::new(), linkless: false };
        if spool.went_back()? {
            tracing::warn!("the directory went back: what waits for the archive is of no use");
            spool.start_over()?;
        }
        Ok(spool)
    }

    /// Whether the directory is no longer the one in which the pending files were linked: somebody
    /// put a copy in its place. A segment without proved records may be replaced by any start; its
    /// link is renewed.
    fn went_back(&self) -> Result<bool, ArchiveError> {
        let pending = Self::pending(&self.files)?;
        for it in &pending {
            let What::Segment { generation, first, ref identity } = it.what else { continue };
            let folder = match &self.source {
                Source::Server { logs, .. } => format!("{logs}/{generation}/"),
                Source::Store { .. } => String::new(),
            };
            let place = format!("{folder}log-{first:020}");
            let found = match self.data.open_file(&place) {
                Err(error) if error.kind() == Some(ErrorKind::NotFound) => {
                    if self.has_segment_before(generation, first)? {
                        return Ok(true); // a log lets go of its oldest segments first
                    }
                    continue;
                }
                found => found?,
            };
            let name = it.what.name();
            let held = self.files.open_file(&name)?;
            let failed = |error| ArchiveError::Read { path: self.files.at(&name), error };
            if self::identity(&found.0).map_err(failed)?.as_ref() == Some(identity) {
                // One file may have grown between the two looks: it has by now under both names.
                let again = self.data.open_file(&place).map_or(u64::MAX, |(_, bytes)| bytes);
                if again < held.1 {
                    return Ok(true);
                }
            } else if proves_records(&held.0, first).map_err(failed)? {
                return Ok(true);
            }
        }
        let Source::Server { dump, .. } = &self.source else { return Ok(false) };
        let Ok(Some(dump)) = position::of_file(&self.data, dump) else { return Ok(false) };
        Ok(pending.iter().any(|it| match &it.what {
            What::Image(it) => (it.generation, it.from) > (dump.generation, dump.from),
            What::Segment { .. } => false,
        }))
    }

    /// Whether the directory's log has a segment that begins before this record.
    fn has_segment_before(&self, generation: u64, first: u64) -> Result<bool, ArchiveError> {
        let names = self.names_of_log(generation)?;
        let begins = |name: &String| match Name::parse(name) {
            Some(Name::Segment(other)) => other < first,
            _ => false,
        };
        Ok(names.iter().any(begins))
    }

    /// The files of a log, or of the store that has one; none if the log is gone.
    fn names_of_log(&self, generation: u64) -> Result<Vec<String>, ArchiveError> {
        let Source::Server { logs, .. } = &self.source else { return Ok(self.data.names()?) };
        let generations = Generations::below(&self.data, logs);
        let found = generations.location(generation).and_then(Directory::existing);
        match found.and_then(|files| files.names()) {
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => Ok(Vec::new()),
            names => Ok(names?),
        }
    }

    /// Looks at all files anew: a set begins, which has none of them. What the directory does not
    /// have any more may be of another history.
    pub(crate) fn start_over(&mut self) -> Result<(), ArchiveError> {
        self.seen.clear();
        for it in Self::pending(&self.files)? {
            self.remove(&it.what)?;
        }
        Ok(())
    }

    /// What waits, in the order of generations and records.
    pub(crate) fn pending(files: &Directory) -> Result<Vec<Pending>, ArchiveError> {
        let mut found = Vec::new();
        for name in files.names()? {
            let Some(what) = What::parse(&name) else { continue };
            match files.open_file(&name) {
                Ok((_, bytes)) => found.push(Pending { what, bytes }),
                Err(error) if error.kind() == Some(ErrorKind::NotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
        found.sort_unstable_by(|one, other| one.what.cmp(&other.what));
        Ok(found)
    }

    /// Links what is new in the directory, and keeps to the bound. Returns the bytes that wait.
    pub(crate) fn rescan(&mut self, known: &Known, bytes_max: u64) -> Result<u64, ArchiveError> {
        match &self.source {
            Source::Server { dump, .. } => {
                let dump = dump.clone();
                self.take_image(&dump, known)?;
            }
            Source::Store { .. } => {
                let numbers =
                    self.data.names()?.into_iter().filter_map(|name| match Name::parse(&name)? {
                        Name::Checkpoint(number) => Some(number),
                        _ => None,
                    });
                let mut numbers: Vec<u64> = numbers.collect();
                numbers.sort_unstable();
                for number in numbers {
                    let name = checkpoint_name(number);
                    if !self.seen.contains(&name) {
                        self.take_image(&name, known)?;
                        self.seen.insert(name);
                    }
                }
            }
        }
        self.take_segments(known)?;
        let mut pending = Self::pending(&self.files)?;
        for what in surplus(&pending, self.source.is_store()) {
            self.remove(&what)?;
            pending.retain(|it| it.what != what);
        }
        let bytes = |pending: &[Pending]| pending.iter().map(|it| it.bytes).sum::<u64>();
        if bytes(&pending) > bytes_max {
            let given = beyond(&pending);
            for what in &given {
                self.remove(what)?;
            }
            if !given.is_empty() {
                tracing::error!(
                    "the archive is behind by more than archive-pending-bytes: {} files are given \
                     up, and what they alone hold will not be in it",
                    given.len()
                );
            }
            pending.retain(|it| !given.contains(&it.what));
        }
        Ok(bytes(&pending))
    }

    /// Links an image, unless it was seen.
    fn take_image(&mut self, name: &str, known: &Known) -> Result<(), ArchiveError> {
        // Without a link first: a name that is linked each time costs the disk.
        let (input, bytes) = match self.data.open_file(name) {
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => return Ok(()),
            opened => opened?,
        };
        let is_pending = |what: &What| self.files.holds(&what.name());
        match self.facts(&input, bytes) {
            Ok(Some(facts)) => {
                let what = What::Image(facts);
                let is_seen = self.seen.contains(&what.name());
                if is_seen || known.holds(&what) || is_pending(&what)? {
                    return Ok(());
                }
            }
            Ok(None) => return Ok(()),
            Err(error) => {
                let path = self.data.at(name);
                return Err(ArchiveError::Read { path, error });
            }
        }
        // Another log may have taken the numbers of one that was given up.
        if !self.source.is_store() && self.went_back()? {
            self.start_over()?;
        }
        self.files.remove(INCOMING)?;
        if !self.link(name, INCOMING)? {
            return Ok(());
        }
        // The name may have gone to a newer file meanwhile: what was linked counts.
        let (input, bytes) = self.files.open_file(INCOMING)?;
        if let Ok(Some(facts)) = self.facts(&input, bytes) {
            let what = What::Image(facts);
            self.files.rename(INCOMING, &what.name())?;
            self.files.sync()?;
            self.seen.insert(what.name());
        }
        self.files.remove(INCOMING)?;
        Ok(())
    }

    fn facts(&self, input: &Input, bytes: u64) -> std::io::Result<Option<Facts>> {
        match &self.source {
            Source::Server { .. } => dump_facts(input, bytes),
            Source::Store { .. } => checkpoint_facts(input),
        }
    }

    /// Links the segments of logs that images name.
    fn take_segments(&mut self, known: &Known) -> Result<(), ArchiveError> {
        let Source::Server { logs, .. } = &self.source else {
            return self.take_log(0, "", self.names_of_log(0)?, known);
        };
        let logs = logs.clone();
        let mut named = BTreeSet::new();
        for pending in Self::pending(&self.files)? {
            match pending.what {
                What::Image(Facts { generation, .. }) | What::Segment { generation, .. } => {
                    named.insert(generation);
                }
            }
        }
        // The log of the dump goes on after its image is archived.
        named.extend(self.seen.iter().chain(&known.names).filter_map(|name| {
            match What::parse(name)? {
                What::Image(facts) => Some(facts.generation),
                What::Segment { .. } => None,
            }
        }));
        for generation in named.into_iter().filter(|generation| *generation > 0) {
            let names = self.names_of_log(generation)?;
            self.take_log(generation, &format!("{logs}/{generation}/"), names, known)?;
        }
        Ok(())
    }

    fn take_log(
        &mut self,
        generation: u64,
        folder: &str,
        names: Vec<String>,
        known: &Known,
    ) -> Result<(), ArchiveError> {
        let mut linked = false;
        for name in names {
            let Some(Name::Segment(first)) = Name::parse(&name) else { continue };
            let place = format!("{folder}{name}");
            let input = match self.data.open_file(&place) {
                Err(error) if error.kind() == Some(ErrorKind::NotFound) => continue,
                opened => opened?.0,
            };
            let failed = |error| ArchiveError::Read { path: self.data.at(&place), error };
            let Some(identity) = identity(&input).map_err(failed)? else { continue };
            let what = What::Segment { generation, first, identity };
            if known.holds(&what) || self.files.holds(&what.name())? {
                continue;
            }
            self.make_way(&what)?;
            // A start may have replaced it meanwhile: what was linked counts, at the next look.
            linked |= self.link(&place, &what.name())?;
            let opened = self.files.open_file(&what.name());
            if opened.is_ok_and(|(input, _)| self::identity(&input).ok() != Some(what.identity())) {
                self.remove(&what)?;
            }
        }
        if linked {
            self.files.sync()?;
        }
        Ok(())
    }

    /// Lets go of the link to a segment that another one has replaced.
    fn make_way(&mut self, new: &What) -> Result<(), ArchiveError> {
        let What::Segment { generation, first, .. } = new else { return Ok(()) };
        for it in Self::pending(&self.files)? {
            let is_other = matches!(&it.what, What::Segment { generation: of, first: at, .. }
                if of == generation && at == first);
            if !is_other {
                continue;
            }
            let name = it.what.name();
            let failed = |error| ArchiveError::Read { path: self.files.at(&name), error };
            if proves_records(&self.files.open_file(&name)?.0, *first).map_err(failed)? {
                return self.start_over();
            }
            self.remove(&it.what)?;
        }
        Ok(())
    }

    /// Links a file of the directory into the folder; false if it is gone.
    fn link(&mut self, from: &str, to: &str) -> Result<bool, ArchiveError> {
        match self.data.link(from, &format!("{FOLDER}/{to}")) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => Ok(false),
            Err(error) => {
                if !std::mem::replace(&mut self.linkless, true) {
                    tracing::error!("nothing can be archived without hard links: {error}");
                }
                Err(error.into())
            }
        }
    }

    fn remove(&self, what: &What) -> Result<(), Error> {
        self.files.remove(&what.name())
    }
}

/// Images that need not be archived, because those around them and the log lead to all states.
fn surplus(pending: &[Pending], is_store: bool) -> Vec<What> {
    if is_store {
        return Vec::new(); // increments build on each other
    }
    let mut images: BTreeMap<u64, Vec<&What>> = BTreeMap::new();
    for it in pending {
        if let What::Image(facts) = &it.what {
            images.entry(facts.generation).or_default().push(&it.what);
        }
    }
    let mut surplus = Vec::new();
    for (generation, images) in images {
        // Without a log only the newest is a state that lasts.
        let kept_first = usize::from(generation > 0);
        let last = images.len() - 1;
        surplus.extend(images[..last].iter().skip(kept_first).map(|&what| what.clone()));
    }
    surplus
}

/// What is given up beyond the bound: all but the newest image, what it builds on, and the log
/// behind it.
fn beyond(pending: &[Pending]) -> Vec<What> {
    let images = pending.iter().filter_map(|it| match &it.what {
        What::Image(facts) => Some(facts),
        What::Segment { .. } => None,
    });
    let images: Vec<&Facts> = images.collect();
    let Some(newest) = images.iter().max_by_key(|it| (it.begun_ms, it.generation, it.from)) else {
        return Vec::new(); // the open segment alone
    };
    let mut kept = vec![newest.number];
    while let Some(base) = images.iter().find(|it| Some(&it.number) == kept.last())
        && base.base > 0
    {
        kept.push(base.base);
    }
    let segments = |first: &u64| *first <= newest.from;
    let firsts = pending.iter().filter_map(|it| match it.what {
        What::Segment { generation, first, .. } if generation == newest.generation => Some(first),
        _ => None,
    });
    let needed_from = firsts.filter(segments).max().unwrap_or(0);
    let is_given = |what: &What| match what {
        What::Image(it) if newest.number > 0 => !kept.contains(&it.number),
        What::Image(it) => it != *newest,
        What::Segment { generation, first, .. } => {
            *generation != newest.generation || *first < needed_from
        }
    };
    pending.iter().map(|it| &it.what).filter(|it| is_given(it)).cloned().collect()
}

/// When a segment was created, and its nonce; `None` before it has a header.
fn identity(input: &Input) -> std::io::Result<Option<String>> {
    let mut header = Vec::new();
    input.at(0).take(HEADER_BYTES).read_to_end(&mut header)?;
    Ok((header.len() as u64 == HEADER_BYTES).then(|| hex(&header[24..40])))
}

/// Whether a segment has records that were on the disk.
fn proves_records(input: &Input, first: u64) -> std::io::Result<bool> {
    let start = Place { offset: HEADER_BYTES, last: first.saturating_sub(1) };
    Ok(walk(input, start)?.proved.last >= first)
}

/// The facts of an RDB file that is whole.
fn dump_facts(input: &Input, bytes: u64) -> std::io::Result<Option<Facts>> {
    const CHECKSUM_BYTES: u64 = 8;
    if bytes < CHECKSUM_BYTES {
        return Ok(None);
    }
    let mut end = [0; CHECKSUM_BYTES as usize];
    input.at(bytes - CHECKSUM_BYTES).read_exact(&mut end)?;
    let identity = format!("{}{bytes:x}", hex(&end));
    let (mut position, mut created_ms) = (None, 0);
    let mut decoder = Decoder::new(input.at(0)).with_file_bytes(bytes);
    loop {
        match decoder.next() {
            Ok(Some(Event::Aux { name: POSITION_FIELD, value: Value::Bytes(text) })) => {
                position = Position::parse(text);
            }
            Ok(Some(Event::Aux { name: b"ctime", value })) => {
                let seconds = match value {
                    Value::Int(seconds) => u64::try_from(seconds).ok(),
                    Value::Bytes(text) => {
                        std::str::from_utf8(text).ok().and_then(|it| it.parse().ok())
                    }
                };
                created_ms = seconds.unwrap_or(0).saturating_mul(1000);
            }
            Ok(Some(Event::Aux { .. })) => {}
            Ok(_) => break,
            Err(_) => return Ok(None), // the server says what is wrong with it
        }
    }
    let (generation, from, begun_ms) = match position {
        Some(it) => (it.generation, it.from, it.begun_ms),
        None => (0, 0, created_ms),
    };
    Ok(Some(Facts { generation, from, begun_ms, number: 0, base: 0, identity }))
}

/// The facts in the header of a checkpoint, as `docs/reference/formats.md` describes it. A damaged
/// one is archived as it is: `check` names the damage.
fn checkpoint_facts(input: &Input) -> std::io::Result<Option<Facts>> {
    let mut head = Vec::new();
    let mut file = input.at(0);
    file.seek(SeekFrom::Start(0))?;
    file.take(128).read_to_end(&mut head)?;
    let Some((b"STILLCKP", _)) = head.split_at_checked(8) else { return Ok(None) };
    let word = |at: usize| {
        let bytes = head.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    };
    let version = word(8) as u32;
    let later = |at: usize, since: u32| if version >= since { word(at) } else { 0 };
    Ok(Some(Facts {
        generation: 0,
        from: later(64, 2),
        begun_ms: word(32),
        number: word(24),
        base: later(104, 3),
        identity: format!("{:016x}", later(96, 3)),
    }))
}
