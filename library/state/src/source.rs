//! Where words are read and written: the seam between what a program keeps and where it lies.

use std::cell::Cell;

use stillframe::{Algorithm, Engine, Image, MemoryError};
use stillframe_durability::{Act, ActStore, Branch, Store};

use crate::mutant::Mutant;

/// Words to read: a live store, an image of it, words that a sink collected.
pub trait Source {
    /// How many words there are.
    fn words(&self) -> usize;
    /// One word. Panics if `index` is out of bounds.
    fn read(&self, index: usize) -> u64;
    /// Reads of the `len` words from `start` on, by their number there; `None` if not all of them
    /// are in bounds. In memory that is checked once for all. A read of another number panics.
    #[inline]
    fn window(&self, start: usize, len: usize) -> Option<impl Fn(usize) -> u64> {
        let is_whole = len <= self.words() && start <= self.words() - len;
        is_whole.then_some(move |index| {
            assert!(index < len, "word {index} of a window of {len}");
            self.read(start + index)
        })
    }
}

/// Words to write, all of them zero at first.
pub trait Target: Source {
    /// Replaces a word. Panics if `index` is out of bounds.
    fn write(&mut self, index: usize, value: u64);
    /// Grows to `words` words, the new ones zero.
    ///
    /// # Errors
    /// [`MemoryError`]; nothing changes.
    fn grow(&mut self, words: usize) -> Result<(), MemoryError>;
}

/// To read; what is written goes through an action.
impl<A: Algorithm> Source for ActStore<A> {
    #[inline]
    fn words(&self) -> usize {
        Store::words(self)
    }
    #[inline]
    fn read(&self, index: usize) -> u64 {
        Store::read(self, index)
    }
    #[inline]
    fn window(&self, start: usize, len: usize) -> Option<impl Fn(usize) -> u64> {
        Store::window(self, start, len)
    }
}

/// What has the methods of both itself.
macro_rules! both {
    ($([$($generics:tt)*] $ty:ty),*) => {
        $(
            impl<$($generics)*> Source for $ty {
                #[inline]
                fn words(&self) -> usize {
                    Self::words(self)
                }
                #[inline]
                fn read(&self, index: usize) -> u64 {
                    Self::read(self, index)
                }
                #[inline]
                fn window(&self, start: usize, len: usize) -> Option<impl Fn(usize) -> u64> {
                    Self::window(self, start, len)
                }
            }

            impl<$($generics)*> Target for $ty {
                #[inline]
                fn write(&mut self, index: usize, value: u64) {
                    Self::write(self, index, value);
                }
                fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
                    Self::grow(self, words)
                }
            }
        )*
    };
}

// An action is done whole or not at all; a branch leaves its store as it is.
both!(
    [A: Algorithm] Store<A>,
    [A: Algorithm] Act<'_, A>,
    [A: Algorithm] Branch<A>,
    [A: Algorithm] Engine<A>
);

/// Words that a sink collected.
impl Source for [u64] {
    #[inline]
    fn words(&self) -> usize {
        self.len()
    }
    #[inline]
    fn read(&self, index: usize) -> u64 {
        self[index]
    }
    #[inline]
    fn window(&self, start: usize, len: usize) -> Option<impl Fn(usize) -> u64> {
        let words = self.get(start..)?.get(..len)?;
        Some(move |index: usize| words[index])
    }
}

/// Words that a sink collected, or a state in plain memory, for tests.
impl Source for Vec<u64> {
    #[inline]
    fn words(&self) -> usize {
        self.len()
    }
    #[inline]
    fn read(&self, index: usize) -> u64 {
        self[index]
    }
    #[inline]
    fn window(&self, start: usize, len: usize) -> Option<impl Fn(usize) -> u64> {
        self.as_slice().window(start, len)
    }
}

impl Target for Vec<u64> {
    #[inline]
    fn write(&mut self, index: usize, value: u64) {
        self[index] = value;
    }
    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        self.resize(words.max(self.len()), 0);
        Ok(())
    }
}

/// An image as a source of words, while it is neither captured nor given up.
///
/// An image that is given up (its budget is used up, someone cancels it) loses its words in the
/// middle of a reading. What is read from then on is zero, and [`read_image`] says so in the end.
#[derive(Debug)]
pub struct Frozen<'a, I> {
    image: &'a I,
    is_lost: Cell<bool>,
}

impl<I: Image> Source for Frozen<'_, I> {
    fn words(&self) -> usize {
        self.image.words()
    }
    #[inline]
    fn read(&self, index: usize) -> u64 {
        self.image.get(index).unwrap_or_else(|| {
            assert!(index < self.image.words(), "word {index} of {}", self.image.words());
            if index.is_multiple_of(2) || !Mutant::LossIsEven.is_made() {
                self.is_lost.set(true);
            }
            0
        })
    }
}

/// Gives `reader` an image to read, and returns what it makes of it.
///
/// # Errors
/// [`Lost`] if the image lost its words meanwhile: what `reader` has made is thrown away.
///
/// ```
/// use stillframe::{Algorithm, Point, algorithms::imprint::Imprint};
/// use stillframe_state::{Source, read_image};
///
/// let mut state = Imprint::create(&stillframe::Options::words(2))?;
/// state.write(1, 42);
/// let image = state.begin(Point::declare(), Vec::new())?;
/// state.write(1, 43);
/// assert_eq!(read_image(&image, |words| words.read(1))?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_image<I: Image, R>(
    image: &I,
    reader: impl FnOnce(&Frozen<'_, I>) -> R,
) -> Result<R, Lost> {
    let frozen = Frozen { image, is_lost: Cell::new(false) };
    let read = reader(&frozen);
    if frozen.is_lost.get() { Err(Lost) } else { Ok(read) }
}

/// An image that has no words to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the image has no words to read: it was captured or given up before, or lives in another \
     process"
)]
pub struct Lost;
