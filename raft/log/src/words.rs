//! A state of words: a [`Store`], and a machine that applies commands to it.
//!
//! The first words of the store hold the notes, those of the machine follow. So id and membership
//! of the last entry are in each image as of the very moment of the image.

use std::sync::Arc;

use stillframe::MemoryError;
use stillframe_durability::disk::Location;
use stillframe_durability::{CheckpointFiles, Options, Store, checkpoint_name};

use crate::error::Error;
use crate::state::{File, Image, ImageSource, Note, State, Told};

/// Words before those of the machine.
const HEAD_WORDS: usize = 8192;
/// The part of these bytes for the id of the last entry.
const APPLIED_WORDS: usize = 64;

/// Applies commands to state words.
pub trait Machine: Send + Sized + 'static {
    /// What an entry holds: `D` of the type configuration.
    type Command;
    /// What applying it returns: `R` of the type configuration.
    type Reply;

    /// Begins with these words: all zero in a new state, else as an image had them. Whatever the
    /// machine keeps beside them, such as an index, it builds from them here.
    fn open(words: &mut Words<'_>) -> Self;

    /// Applies a command. What it does must depend on nothing but the command and the words.
    fn apply(&mut self, words: &mut Words<'_>, command: Self::Command) -> Self::Reply;
}

/// The words of a machine. Indices begin at 0.
#[derive(Debug)]
pub struct Words<'s>(&'s mut Store);

impl Words<'_> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.words() - HEAD_WORDS
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A word. Panics if `index` is out of bounds.
    #[inline]
    #[must_use]
    pub fn read(&self, index: usize) -> u64 {
        read(self.0, index)
    }

    /// Replaces a word. Panics if `index` is out of bounds.
    #[inline]
    pub fn write(&mut self, index: usize, value: u64) {
        self.0.write(place(index), value);
    }

    /// Replaces a run of words. Panics if it is out of bounds, before any word is written.
    pub fn write_run(&mut self, start: usize, values: &[u64]) {
        self.0.write_run(place(start), values);
    }

    /// Grows to so many words, the new ones zero. Never shrinks.
    ///
    /// # Errors
    /// [`MemoryError`] beyond the `max_words` of the options; nothing changes.
    pub fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        self.0.grow(words.saturating_add(HEAD_WORDS))
    }
}

fn place(index: usize) -> usize {
    index.saturating_add(HEAD_WORDS) // beyond the end, however large it is
}

fn read(store: &Store, index: usize) -> u64 {
    store.read(place(index))
}

/// A machine with its words. The options are those of its [`Store`], with the words that the
/// machine needs; they need no schedule: openraft asks for images.
#[derive(Debug)]
pub struct WordState<M> {
    store: Store,
    machine: M,
}

impl<M> WordState<M> {
    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// How many words the machine has.
    #[must_use]
    pub fn words(&self) -> usize {
        self.store.words() - HEAD_WORDS
    }

    /// A word of the machine. Panics if `index` is out of bounds.
    #[inline]
    #[must_use]
    pub fn read(&self, index: usize) -> u64 {
        read(&self.store, index)
    }

    /// The store, for its figures. The words of the machine lie behind 8,192 others.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }
}

/// Where a note lies: its first word, which holds its length in bytes, and how many there are.
fn room(note: Note) -> (usize, usize) {
    match note {
        Note::Applied => (0, APPLIED_WORDS),
        Note::Membership => (APPLIED_WORDS, HEAD_WORDS - APPLIED_WORDS),
    }
}

impl<M: Machine> State for WordState<M> {
    type Command = M::Command;
    type Reply = M::Reply;
    type Options = Options;

    fn open(location: Location, options: &Options, told: Told) -> Result<Self, Error> {
        let mut options = options.clone();
        options.every = None;
        options.checkpoint_on_close = false;
        options.disk = location.disk().cloned();
        let memory = &mut options.memory;
        memory.words = memory.words.saturating_add(HEAD_WORDS);
        memory.max_words = memory.max_words.saturating_add(HEAD_WORDS);
        let options = options.on_checkpoint(move |ended| {
            told(ended.map_err(ToString::to_string));
        });
        let mut store = Store::open(location.path(), options)?;
        let machine = M::open(&mut Words(&mut store));
        Ok(Self { store, machine })
    }

    fn apply(&mut self, command: M::Command) -> M::Reply {
        self.machine.apply(&mut Words(&mut self.store), command)
    }

    fn note(&self, note: Note) -> Result<Vec<u8>, Error> {
        let (start, words) = room(note);
        let length = usize::try_from(self.store.read(start)).unwrap_or(usize::MAX);
        if length > (words - 1) * 8 {
            return Err(Error::Note { what: note.name() });
        }
        let words = start + 1..start + 1 + length.div_ceil(8);
        let mut bytes: Vec<u8> =
            words.flat_map(|index| self.store.read(index).to_le_bytes()).collect();
        bytes.truncate(length);
        Ok(bytes)
    }

    fn set_note(&mut self, note: Note, bytes: &[u8]) -> Result<(), Error> {
        let (start, words) = room(note);
        let room = (words - 1) * 8;
        if bytes.len() > room {
            return Err(Error::NoteTooLong { what: note.name(), bytes: bytes.len(), room });
        }
        self.store.write(start, bytes.len() as u64);
        for (index, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.store.write(start + 1 + index, u64::from_le_bytes(word));
        }
        Ok(())
    }

    fn begin(&mut self) {
        // The one before has been told of, and its last steps are a matter of microseconds.
        let _ = self.store.wait(); // what it says was told
        self.store.checkpoint();
        self.store.point();
    }

    fn images(&self) -> ImageSource {
        let checkpoints = self.store.checkpoints();
        Arc::new(move || Ok(checkpoints.newest()?.map(image)))
    }

    fn is_image_file(name: &str) -> bool {
        let digits = name.bytes().filter(u8::is_ascii_digit).count();
        let number = name.rsplit('-').next().and_then(|number| number.parse().ok());
        digits == 20 && number.is_some_and(|number| checkpoint_name(number) == name)
    }
}

fn image(newest: CheckpointFiles) -> Image {
    let CheckpointFiles { number, identity, .. } = newest;
    let files = newest.files.into_iter().map(|file| {
        let name = checkpoint_name(file.number);
        File { name, bytes: file.bytes, input: file.input }
    });
    Image { number, id: format!("{number}-{identity:016x}"), files: files.collect() }
}
