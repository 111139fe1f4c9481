//! Images: RDB files whose first part has the notes.
//!
//! - `image-N` is one, N of 20 digits; the one with the highest number is the state. `image.tmp` is
//!   being written.
//! - The notes are a field of the file, `raft-notes`: a file cannot have those of another moment.
//!   `docs/reference/formats.md` has the text.
//! - An image begins between two commands; a thread writes it while others are applied.

use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stillframe::{MemoryError, Point, SinkError};
use stillframe_durability::disk::{Directory, Location, Throttle, Unpublished};
use stillframe_keyspace::Keyspace;
use stillframe_openraft::{Error, File, Image, ImageSource, Note, Told};
use stillframe_rdb::Encoder;
use stillframe_storage::RdbVersion;
use stillframe_storage::dump::{
    Counters, DumpFile, Load, RdbSink, image_version, stage, with_header,
};

use crate::mutant::{Mutant, Mutation};
use crate::options::Options;

const LOCK: &str = "lock";
const TEMPORARY: &str = "image.tmp";
const PREFIX: &str = "image-";
const FIELD: &str = "raft-notes";

/// The number in the name of an image.
pub(crate) fn number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    let number = digits.parse().ok().filter(|&number| number < u64::MAX)?;
    (self::name(number) == name).then_some(number)
}

fn name(number: u64) -> String {
    format!("{PREFIX}{number:020}")
}

/// What the state has beside its keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Notes {
    /// The latest time of a command.
    pub(crate) clock_ms: i64,
    applied: Vec<u8>,
    membership: Vec<u8>,
}

impl Notes {
    pub(crate) fn get(&self, note: Note) -> &[u8] {
        match note {
            Note::Applied => &self.applied,
            Note::Membership => &self.membership,
        }
    }

    pub(crate) fn set(&mut self, note: Note, bytes: &[u8]) {
        let place = match note {
            Note::Applied => &mut self.applied,
            Note::Membership => &mut self.membership,
        };
        place.clear();
        place.extend_from_slice(bytes);
    }

    /// The text of an image of this identity.
    fn encode(&self, identity: u64) -> String {
        let mut text = format!("1 {identity:016x} {}", self.clock_ms);
        for note in [&self.applied, &self.membership] {
            text.push_str(" x");
            for byte in note {
                let _ = write!(text, "{byte:02x}"); // a string takes all
            }
        }
        text
    }

    fn decode(text: &[u8]) -> Option<(Self, u64)> {
        let mut words = std::str::from_utf8(text).ok()?.split(' ');
        let mut word = || words.next();
        if word()? != "1" {
            return None;
        }
        let identity = u64::from_str_radix(word()?, 16).ok()?;
        let clock_ms = word()?.parse().ok()?;
        let mut note = || {
            let digits = word()?.strip_prefix('x')?;
            let pairs = digits.as_bytes().chunks(2).map(|pair| {
                u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|it| it.len() == 2)?, 16)
                    .ok()
            });
            pairs.collect::<Option<Vec<u8>>>()
        };
        let (applied, membership) = (note()?, note()?);
        Some((Self { clock_ms, applied, membership }, identity))
    }
}

/// The images of a state.
pub(crate) struct Images {
    shared: Arc<Shared>,
    throttle: Throttle,
    counters: Counters,
    compresses: bool,
    next: u64,
    /// For a mutant: the notes of the image before.
    before: Notes,
}

struct Shared {
    directory: Directory,
    told: Told,
    mutation: Mutation,
    /// The newest image and its identity. Locked while it is opened, or another takes its place.
    newest: Mutex<Option<(u64, u64)>>,
}

impl std::fmt::Debug for Images {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Images").field("directory", &self.shared.directory).finish_non_exhaustive()
    }
}

impl Images {
    /// Loads the newest image of a directory into an empty keyspace.
    pub(crate) fn open(
        location: Location,
        options: &Options,
        told: Told,
        keyspace: &mut Keyspace,
    ) -> Result<(Self, Notes), Error> {
        let directory = Directory::existing(location)?.locked(LOCK)?;
        directory.discard(TEMPORARY)?;
        let mut numbers: Vec<u64> =
            directory.names()?.iter().filter_map(|name| number(name)).collect();
        numbers.sort_unstable();
        let newest = numbers.pop();
        for old in numbers {
            directory.discard(&name(old))?;
        }
        let (notes, identity) = match newest {
            Some(newest) => load(&directory, newest, keyspace)?,
            None => (Notes::default(), 0),
        };
        let memory = |error: MemoryError| Error::state(error);
        let (throttle, counters) =
            (Throttle::new(options.bandwidth).map_err(memory)?, Counters::new().map_err(memory)?);
        let shared = Shared {
            directory,
            told,
            mutation: Mutation::current(),
            newest: Mutex::new(newest.map(|number| (number, identity))),
        };
        let (compresses, next) = (options.compresses, newest.unwrap_or(0) + 1);
        let (shared, before) = (Arc::new(shared), Notes::default());
        Ok((Self { shared, throttle, counters, compresses, next, before }, notes))
    }

    /// Begins an image; who waits for it is told of its end.
    pub(crate) fn begin(&mut self, keyspace: &mut Keyspace, notes: &Notes) {
        // The one before has been told of, and its last steps are a matter of microseconds.
        keyspace.wait_image();
        let _ = keyspace.tend();
        if let Err(why) = self.start(keyspace, notes) {
            let _ = self.shared.directory.discard(TEMPORARY);
            (self.shared.told)(Err(why));
        }
    }

    fn start(&mut self, keyspace: &mut Keyspace, notes: &Notes) -> Result<(), String> {
        let (number, identity) = (self.next, RandomState::new().build_hasher().finish());
        let mut notes = notes.clone();
        if self.shared.mutation.is(Mutant::NotesLate) {
            std::mem::swap(&mut notes, &mut self.before);
        }
        if self.shared.mutation.is(Mutant::ForgetsTime) {
            notes.clock_ms = 0;
        }
        self.counters.reset();
        let output = self.shared.directory.create(TEMPORARY).map_err(|error| error.to_string())?;
        let throttle = self.throttle.clone();
        let file = DumpFile::new(output, stage(), throttle, self.counters.bytes.clone());
        let version =
            image_version(keyspace, RdbVersion::Auto).map_err(|error| error.to_string())?;
        let encoder = Encoder::new(file).compress(self.compresses).version(version);
        let fields = [(FIELD.as_bytes(), notes.encode(identity))];
        let encoder = with_header(encoder, keyspace, fields);
        let sink = RdbSink::new(encoder.map_err(|error| said(&error))?, self.counters.clone());
        let shared = Arc::clone(&self.shared);
        let begun = keyspace.snapshot(Point::declare(), sink, move |sink, captured| {
            let written = captured.map(drop).map_err(|error| error.to_string());
            let (file, bytes) = sink.encoder.output_mut().file();
            (shared.told)(shared.publish(file, bytes, written, number, identity));
        });
        begun.map(drop).map_err(|error| error.to_string())?;
        self.next += 1;
        Ok(())
    }

    /// Where other threads find the newest image.
    pub(crate) fn source(&self) -> ImageSource {
        let shared = Arc::clone(&self.shared);
        Arc::new(move || {
            let newest = lock(&shared.newest);
            let Some((number, identity)) = *newest else { return Ok(None) };
            let name = name(number);
            let (input, bytes) = shared.directory.open_file(&name)?;
            let id = format!("{number}-{identity:016x}");
            Ok(Some(Image { number, id, files: vec![File { name, bytes, input }] }))
        })
    }
}

impl Shared {
    /// On the thread of the image: makes the file the newest image, or nothing.
    fn publish(
        &self,
        file: &mut stillframe_durability::disk::Output,
        bytes: u64,
        written: Result<(), String>,
        number: u64,
        identity: u64,
    ) -> Result<u64, String> {
        let mut newest = lock(&self.newest);
        let name = name(number);
        let failed = |error: stillframe_durability::Error| error.to_string();
        if self.mutation.is(Mutant::NamesUnsynced) {
            self.directory.rename(TEMPORARY, &name).map_err(failed)?;
            self.directory.sync().map_err(failed)?;
        } else {
            let unpublished =
                Unpublished { file, bytes: Some(bytes), temporary: TEMPORARY, name: &name };
            let written = written.map_err(Failed);
            let published = self.directory.publish(unpublished, written, || Ok(()));
            published.map_err(|Failed(why)| why)?;
        }
        let before = newest.replace((number, identity));
        if let Some((before, _)) = before {
            let _ = self.directory.discard(&self::name(before)); // the next start does it
        }
        Ok(number)
    }
}

/// Why there is no image.
struct Failed(String);

impl From<stillframe_durability::Error> for Failed {
    fn from(error: stillframe_durability::Error) -> Self {
        Self(error.to_string())
    }
}

fn said(error: &SinkError) -> String {
    error.to_string()
}

/// Loads image `number`, expired keys included: commands that are applied again may be about them.
fn load(
    directory: &Directory,
    number: u64,
    keyspace: &mut Keyspace,
) -> Result<(Notes, u64), Error> {
    let name = name(number);
    let (file, bytes) = directory.open_file(&name)?;
    let mut load = Load::new(&directory.at(&name), file, bytes, i64::MIN);
    while !load.slice(keyspace, 0).map_err(Error::state)? {}
    let text = load.field(FIELD.as_bytes()).and_then(Notes::decode);
    load.finish().map_err(Error::state)?;
    text.ok_or(Error::Note { what: FIELD })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Taken though poisoned: it is whole between statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        for bytes in [&[][..], &[0, 255, 10], &[7; 300]] {
            let mut notes = Notes { clock_ms: -5, ..Notes::default() };
            notes.set(Note::Applied, bytes);
            notes.set(Note::Membership, &bytes[bytes.len() / 2..]);
            assert_eq!(Notes::decode(notes.encode(u64::MAX).as_bytes()), Some((notes, u64::MAX)));
        }
        for wrong in ["", "1", "2 0 0 x x", "1 0 0 x", "1 0 0 x0 x", "1 0 0 xzz x", "1 0 a x x"] {
            assert_eq!(Notes::decode(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn only_names_of_images_have_numbers() {
        assert_eq!(number(&name(7)), Some(7));
        for foreign in ["image-7", "image.tmp", "image-18446744073709551615", "lock", ""] {
            assert_eq!(number(foreign), None, "{foreign}");
        }
    }
}
