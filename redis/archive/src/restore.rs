//! From an archive back into a directory, for `rewind` to bring to a point in the past.
//!
//! - Each object is compared with the manifest; a file that is there already, from an earlier try,
//!   is kept if it is right.
//! - The newest image that leads to the point is taken, with the log behind it.
//! - If an object goes meanwhile, a newer manifest tells what is there now.

use std::io::{Read, Write};
use std::path::Path;

use futures_util::StreamExt;
use object_store::ObjectStoreExt;
use sha2::{Digest, Sha256};
use stillframe_durability::disk::{Directory, Output};
use stillframe_durability::{Error, Until, checkpoint_name};

use crate::error::ArchiveError;
use crate::manifest::{Image, Manifest, Object, Segment, Set};
use crate::mutant::{Mutant, Mutation};
use crate::remote::Remote;
use crate::sealed::hex;

/// The names that a server's files get, whatever they were: the defaults of a server.
const DUMP: &str = "dump.rdb";
const LOGS: &str = "appendonlydir";

/// What lies at a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contents {
    /// The URL, as it may be shown.
    pub url: String,
    /// The newest manifest.
    pub manifest: Manifest,
}

/// What was fetched.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Fetched {
    /// It is of a `Store`, and not of a server.
    pub store: bool,
    /// The point to go back to from there; none if the image is the state.
    pub until: Option<Until>,
    /// What the archive does not have, a sentence each.
    pub notices: Vec<String>,
    /// Files and bytes.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What is needed for a point.
#[derive(Debug)]
struct Chosen<'a> {
    set: &'a Set,
    images: Vec<&'a Image>,
    segments: Vec<&'a Segment>,
    until: Option<Until>,
    notices: Vec<String>,
}

/// The newest manifest at a URL.
///
/// # Errors
/// [`ArchiveError`]: it cannot be reached, or is torn or foreign.
pub fn contents(url: &str) -> Result<Contents, ArchiveError> {
    let remote = Remote::open_existing(url)?;
    let manifest = block_on(read(&remote))?;
    Ok(Contents { url: remote.url, manifest })
}

async fn read(remote: &Remote) -> Result<Manifest, ArchiveError> {
    let newest = remote.newest().await?;
    newest.ok_or_else(|| ArchiveError::Empty { url: remote.url.clone() })
}

/// Fetches what leads to `until`, or to the newest state, into a directory of its own.
///
/// # Errors
/// [`ArchiveError`] in one sentence.
pub fn fetch(url: &str, until: Option<Until>, directory: &Path) -> Result<Fetched, ArchiveError> {
    let remote = Remote::open_existing(url)?;
    block_on(fetch_from(&remote, until, directory))
}

/// Fetches all files of set number `number`, counted from 0, to be checked: the images of a server
/// as `image-N.rdb`. Returns their number.
///
/// # Errors
/// [`ArchiveError`] in one sentence.
pub fn fetch_set(
    contents: &Contents,
    number: usize,
    directory: &Path,
) -> Result<u64, ArchiveError> {
    let remote = Remote::open_existing(&contents.url)?;
    let Some(set) = contents.manifest.sets.get(number) else { return Ok(0) };
    let mut target = Target::open(directory)?;
    block_on(async {
        for (at, image) in set.images.iter().enumerate() {
            let name = match set.store {
                true => checkpoint_name(image.number),
                false => format!("image-{at}.rdb"),
            };
            target.fetch(&remote, "", &name, std::slice::from_ref(&image.object)).await?;
        }
        for segment in &set.segments {
            let folder = folder(set, segment);
            target.fetch(&remote, &folder, &segment_name(segment), &segment.parts).await?;
        }
        Ok(target.files)
    })
}

fn block_on<T>(work: impl Future<Output = Result<T, ArchiveError>>) -> Result<T, ArchiveError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(ArchiveError::Thread)?.block_on(work)
}

/// As [`fetch`], from an open store.
pub(crate) async fn fetch_from(
    remote: &Remote,
    until: Option<Until>,
    directory: &Path,
) -> Result<Fetched, ArchiveError> {
    /// Manifests that are replaced while their objects are read.
    const TRIES: u32 = 20;
    let mut target = Target::open(directory)?;
    let mut manifest = read(remote).await?;
    let mut tries = 0;
    loop {
        let chosen = choose(&remote.url, &manifest, until)?;
        match fetch_chosen(remote, &chosen, &mut target).await {
            Err(error @ ArchiveError::Store { is_missing: true, .. }) if tries < TRIES => {
                let newest = read(remote).await?;
                if newest == manifest {
                    return Err(error); // it is named, and gone
                }
                (manifest, tries) = (newest, tries + 1);
            }
            fetched => {
                fetched?;
                let (store, until, notices) = (chosen.set.store, chosen.until, chosen.notices);
                let Target { files, bytes, .. } = target;
                return Ok(Fetched { store, until, notices, files, bytes });
            }
        }
    }
}

async fn fetch_chosen(
    remote: &Remote,
    chosen: &Chosen<'_>,
    target: &mut Target,
) -> Result<(), ArchiveError> {
    for segment in &chosen.segments {
        let folder = folder(chosen.set, segment);
        target.fetch(remote, &folder, &segment_name(segment), &segment.parts).await?;
    }
    for image in &chosen.images {
        let name = match chosen.set.store {
            true => checkpoint_name(image.number),
            false => DUMP.to_owned(),
        };
        target.fetch(remote, "", &name, std::slice::from_ref(&image.object)).await?;
    }
    Ok(())
}

/// The folder of a segment, with the slash at its end, below the directory.
fn folder(set: &Set, segment: &Segment) -> String {
    match set.store {
        true => String::new(),
        false => format!("{LOGS}/{}/", segment.generation),
    }
}

fn segment_name(segment: &Segment) -> String {
    format!("log-{:020}", segment.first)
}

/// Whether an image is no later than the point, as far as the manifest shows.
fn leads_to(image: &Image, until: Option<Until>) -> bool {
    match until {
        None => true,
        Some(Until::Sequence(last)) => image.from > 0 && image.from <= last.saturating_add(1),
        Some(Until::TimeMs(last)) => image.begun_ms <= last,
    }
}

/// The newest image that leads to a point, and what it needs.
fn choose<'a>(
    url: &str,
    manifest: &'a Manifest,
    until: Option<Until>,
) -> Result<Chosen<'a>, ArchiveError> {
    let found = manifest.sets.iter().enumerate().rev().find_map(|(number, set)| {
        let at = set.images.iter().rposition(|image| leads_to(image, until))?;
        Some((number, set, at))
    });
    let Some((number, set, at)) = found else {
        let oldest = manifest.sets.iter().find_map(|set| set.images.first());
        let url = url.to_owned();
        return Err(oldest.map_or(ArchiveError::Empty { url: url.clone() }, |image| {
            let last = image.from.saturating_sub(1);
            ArchiveError::TooEarly { url, begun_ms: image.begun_ms, last }
        }));
    };
    let image = &set.images[at];
    let mut images = vec![image];
    while let Some(base) = images.last().and_then(|image| image.base) {
        let Some(below) = set.images[..at].iter().rfind(|image| image.number == base) else {
            break;
        };
        images.push(below);
    }
    images.reverse();
    // A rewind of a store copies the log from the full checkpoint on.
    let from = images.iter().map(|image| image.from).min().unwrap_or(0);
    let is_needed =
        |it: &&Segment| it.generation == image.generation && it.end.saturating_add(1) >= from;
    let segments: Vec<&Segment> = match image.from {
        0 => Vec::new(),
        _ => set.segments.iter().filter(is_needed).collect(),
    };
    let end = segments.last().map(|segment| segment.end);
    let mut notices = Vec::new();
    let next = set.images.get(at + 1).filter(|next| next.generation != image.generation);
    let next = next.or_else(|| manifest.sets[number + 1..].iter().find_map(|it| it.images.first()));
    if let Some(next) = next {
        let end = end.map_or("without a log".to_owned(), |end| format!("to record {end}"));
        notices.push(format!(
            "this history goes {end}; what was not logged before the next image, of unix ms {}, is \
             not in it",
            next.begun_ms
        ));
    }
    let is_beyond = |last: u64| end.is_some_and(|end| last > end);
    if let Some(Until::Sequence(last)) = until
        && is_beyond(last)
    {
        notices.push(format!("the archive has records up to {}", end.unwrap_or(0)));
    }
    let until = until.filter(|_| image.from > 0 || set.store);
    if image.from == 0 && !set.store {
        notices.push(format!(
            "the image of unix ms {} was made without a log: the state is that of then",
            image.begun_ms
        ));
    }
    Ok(Chosen { set, images, segments, until, notices })
}

/// The directory that receives files.
struct Target {
    directory: Directory,
    mutation: Mutation,
    files: u64,
    bytes: u64,
}

impl Target {
    fn open(path: &Path) -> Result<Self, ArchiveError> {
        let directory = Directory::create_at(path)?;
        Ok(Self { directory, mutation: Mutation::current(), files: 0, bytes: 0 })
    }

    /// Fetches a file into a folder of the directory, unless it is there.
    async fn fetch(
        &mut self,
        remote: &Remote,
        folder: &str,
        name: &str,
        parts: &[Object],
    ) -> Result<(), ArchiveError> {
        self.files += 1;
        let path = self.directory.path().join(folder);
        let directory = Directory::create_at(&path)?;
        let bytes: u64 = parts.iter().map(|part| part.bytes).sum();
        self.bytes += bytes;
        if is_there(&directory, name, parts)? {
            return Ok(());
        }
        let mut file = directory.create(name)?;
        for part in parts {
            self.fetch_part(remote, &mut file, part).await?;
        }
        let failed = Error::file("writing", directory.at(name));
        Ok(file.flush().map_err(failed)?)
    }

    async fn fetch_part(
        &self,
        remote: &Remote,
        file: &mut Output,
        part: &Object,
    ) -> Result<(), ArchiveError> {
        let failed = |error| remote.failed("cannot get", &part.name, &error);
        let path = remote.path(&part.name);
        let got = remote.within(0, remote.store.get(&path)).await.map_err(failed)?;
        let (mut sum, mut bytes) = (Sha256::new(), 0);
        let mut stream = got.into_stream();
        loop {
            let next = async { stream.next().await.transpose() };
            let Some(piece) = remote.within(0, next).await.map_err(failed)? else { break };
            sum.update(&piece);
            bytes += piece.len() as u64;
            file.write_all(&piece).map_err(Error::file("writing", self.directory.path()))?;
        }
        if self.mutation.is(Mutant::BytesTrusted) {
            return Ok(());
        }
        if bytes != part.bytes {
            return Err(remote.damaged(&part.name, format!("{bytes} bytes, not {}", part.bytes)));
        }
        match hex(&sum.finalize()) == part.sha256 {
            true => Ok(()),
            false => Err(remote.damaged(&part.name, "its SHA-256 is another".to_owned())),
        }
    }
}

/// Whether a file has these bytes already.
fn is_there(directory: &Directory, name: &str, parts: &[Object]) -> Result<bool, ArchiveError> {
    if !directory.holds(name)? {
        return Ok(false);
    }
    let (mut input, bytes) = directory.open_file(name)?;
    if bytes != parts.iter().map(|part| part.bytes).sum::<u64>() {
        return Ok(false);
    }
    let mut buffer = vec![0; 1 << 20];
    for part in parts {
        let (mut sum, mut left) = (Sha256::new(), part.bytes);
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let read = input.read(&mut buffer[..most]);
            let count = read.map_err(Error::file("reading", directory.at(name)))?;
            if count == 0 {
                return Ok(false);
            }
            sum.update(&buffer[..count]);
            left -= count as u64;
        }
        if hex(&sum.finalize()) != part.sha256 {
            return Ok(false);
        }
    }
    Ok(true)
}
