//! The manifest: all that an archive holds. The newest one counts, whole.

use serde::{Deserialize, Serialize};

use crate::sealed::{self, FORMAT, Unsealed, VERSION};

/// What an archive holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    pub(crate) format: String,
    pub(crate) version: u32,
    /// The claim under which it was put.
    pub claim: u64,
    /// Its number among those of the claim.
    pub number: u64,
    /// Names the data directory.
    pub owner: String,
    /// Names the run of the program.
    pub run: String,
    /// When it was put, in milliseconds since 1970.
    pub written_ms: u64,
    /// Histories without gaps, oldest first.
    pub sets: Vec<Set>,
    /// Objects that are needed no more, and go when no reader can have them in mind.
    pub(crate) dropped: Vec<Dropped>,
}

/// One history without gaps: images, and the log between and behind them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Set {
    /// Names the data directory.
    pub owner: String,
    /// Whether it is of a `Store`, and not of a server.
    pub store: bool,
    /// Why it began.
    pub why: String,
    /// When it began, in milliseconds since 1970.
    pub begun_ms: u64,
    /// In the order in which they were archived.
    pub images: Vec<Image>,
    /// By generation, then by first record.
    pub segments: Vec<Segment>,
}

/// A dump, or a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Image {
    /// The generation of the log that continues it, 0 for the log of a store, or for none.
    pub generation: u64,
    /// The first record that it lacks; 0: no log continues it.
    pub from: u64,
    /// When it began, in milliseconds since 1970.
    pub begun_ms: u64,
    /// The number of a checkpoint; 0 for a dump.
    pub number: u64,
    /// The checkpoint that an increment builds on.
    pub base: Option<u64>,
    /// Distinguishes it from others of its name.
    pub identity: String,
    /// The file.
    pub object: Object,
}

/// A segment of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Segment {
    /// The generation of the log.
    pub generation: u64,
    /// Its first record.
    pub first: u64,
    /// The last record that counts; one less than `first` if there is none.
    pub end: u64,
    /// Nothing more comes.
    pub closed: bool,
    /// Distinguishes it from others of its name.
    pub identity: String,
    /// The file, in order.
    pub parts: Vec<Object>,
}

/// Bytes under a name of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Object {
    /// The name below the prefix.
    pub name: String,
    /// The length.
    pub bytes: u64,
    /// The SHA-256, in hexadecimal digits.
    pub sha256: String,
}

/// An object that no set needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Dropped {
    pub(crate) name: String,
    pub(crate) at_ms: u64,
}

/// The folder of manifests below the prefix.
pub(crate) const MANIFESTS: &str = "manifests";
/// The folder of all other objects.
pub(crate) const OBJECTS: &str = "objects";

impl Manifest {
    /// The first one of a claim, with what is there.
    pub(crate) fn first(claim: u64, owner: &str, run: &str, before: Option<Self>) -> Self {
        let (sets, dropped) = before.map_or_else(Default::default, |it| (it.sets, it.dropped));
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            claim,
            number: 1,
            owner: owner.to_owned(),
            run: run.to_owned(),
            written_ms: now_ms(),
            sets,
            dropped,
        }
    }

    pub(crate) fn name(claim: u64, number: u64) -> String {
        format!("{MANIFESTS}/{claim:010}-{number:012}")
    }

    /// The claim and number in a name.
    pub(crate) fn parse_name(name: &str) -> Option<(u64, u64)> {
        let rest = name.strip_prefix(MANIFESTS)?.strip_prefix('/')?;
        let (claim, number) = rest.split_once('-')?;
        let parsed = (claim.parse().ok()?, number.parse().ok()?);
        (Self::name(parsed.0, parsed.1) == name).then_some(parsed)
    }

    pub(crate) fn text(&self) -> String {
        sealed::seal(self)
    }

    /// Reads the manifest of this name.
    pub(crate) fn parse(name: &str, bytes: &[u8]) -> Result<Self, Unsealed> {
        let found: Self = sealed::unseal(bytes)?;
        let foreign = |why: String| Err(Unsealed::Foreign(why));
        let own = Self::name(found.claim, found.number);
        if own != name {
            return foreign(format!("it is {own} by its content"));
        }
        let named = found.objects().map(|object| &object.name);
        let mut named = named.chain(found.dropped.iter().map(|it| &it.name));
        match named.find(|name| !is_object(name)) {
            Some(name) => foreign(format!("{name:?} is no object of an archive")),
            None => {
                drop(named);
                Ok(found)
            }
        }
    }

    /// All objects that it needs.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Object> {
        self.sets.iter().flat_map(Set::objects)
    }

    /// Whether an object may not go: it is needed, or waits for its end.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.objects().any(|object| object.name == name)
            || self.dropped.iter().any(|dropped| dropped.name == name)
    }

    /// Bytes of all sets.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.objects().map(|object| object.bytes).sum()
    }

    /// Notes objects that are needed no more.
    pub(crate) fn drop_objects(&mut self, objects: impl IntoIterator<Item = Object>) {
        let at_ms = now_ms();
        let dropped = objects.into_iter().map(|object| Dropped { name: object.name, at_ms });
        self.dropped.extend(dropped);
    }
}

/// Whether a manifest may name this: nothing outside of its folder.
fn is_object(name: &str) -> bool {
    let rest = name.strip_prefix(OBJECTS).and_then(|rest| rest.strip_prefix('/'));
    rest.is_some_and(|rest| {
        !rest.is_empty() && rest.bytes().all(|it| it.is_ascii_alphanumeric() || b"-.".contains(&it))
    })
}

impl Set {
    pub(crate) fn new(owner: &str, store: bool, why: &str) -> Self {
        Self {
            owner: owner.to_owned(),
            store,
            why: why.to_owned(),
            begun_ms: now_ms(),
            images: Vec::new(),
            segments: Vec::new(),
        }
    }

    fn objects(&self) -> impl Iterator<Item = &Object> {
        let images = self.images.iter().map(|image| &image.object);
        images.chain(self.segments.iter().flat_map(|segment| &segment.parts))
    }

    /// The newest segment of a log.
    pub(crate) fn last_segment(&self, generation: u64) -> Option<&Segment> {
        self.segments.iter().rev().find(|it| it.generation == generation)
    }

    /// Adds a segment, or replaces an earlier form of it, and returns the objects of that.
    pub(crate) fn put_segment(&mut self, segment: Segment) -> Vec<Object> {
        let key = |it: &Segment| (it.generation, it.first);
        match self.segments.binary_search_by_key(&key(&segment), key) {
            Ok(at) => {
                let before = std::mem::replace(&mut self.segments[at], segment);
                let kept = &self.segments[at].parts;
                before.parts.into_iter().filter(|part| !kept.contains(part)).collect()
            }
            Err(at) => {
                self.segments.insert(at, segment);
                Vec::new()
            }
        }
    }
}

impl Segment {
    /// Bytes of the file that are archived.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }
}

pub(crate) fn now_ms() -> u64 {
    u64::try_from(stillframe_storage::unix_millis()).unwrap_or(0)
}
