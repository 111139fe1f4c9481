//! Words of an instant, and reading them at random.

use std::cell::Cell;
use std::fmt;

use datafusion::error::{DataFusionError, Result};
use stillframe::Algorithm;
use stillframe_state::{Source, View, ViewLost};

/// Words of an instant, which any thread reads: a view of a store, or a copy.
pub trait Words: fmt::Debug + Send + Sync {
    /// How many there are.
    fn words(&self) -> usize;
    /// The words from `start` on, as many as `into` has. Panics if they are out of bounds.
    ///
    /// # Errors
    /// [`ViewLost`] from the moment on at which a view was given up.
    fn read_run(&self, start: usize, into: &mut [u64]) -> Result<(), ViewLost>;
}

impl<A: Algorithm> Words for View<A>
where
    Self: Send + Sync,
{
    fn words(&self) -> usize {
        Self::words(self)
    }

    fn read_run(&self, start: usize, into: &mut [u64]) -> Result<(), ViewLost> {
        Self::read_run(self, start, into)
    }
}

/// Words that a sink collected.
impl Words for Vec<u64> {
    fn words(&self) -> usize {
        self.len()
    }

    fn read_run(&self, start: usize, into: &mut [u64]) -> Result<(), ViewLost> {
        into.copy_from_slice(&self[start..start + into.len()]);
        Ok(())
    }
}

/// Words as places read them. What is lost is zero, which [`look`] tells.
pub(crate) struct Looking<'a> {
    words: &'a dyn Words,
    is_lost: Cell<bool>,
}

impl Source for Looking<'_> {
    fn words(&self) -> usize {
        self.words.words()
    }

    fn read(&self, index: usize) -> u64 {
        let mut word = [0];
        if self.words.read_run(index, &mut word).is_err() {
            self.is_lost.set(true);
            return 0;
        }
        word[0]
    }
}

/// What `reader` makes of words.
///
/// # Errors
/// [`ViewLost`] if they were lost meanwhile.
pub(crate) fn look<R>(words: &dyn Words, reader: impl FnOnce(&Looking<'_>) -> R) -> Result<R> {
    let looking = Looking { words, is_lost: Cell::new(false) };
    let read = reader(&looking);
    if looking.is_lost.get() { Err(lost(ViewLost)) } else { Ok(read) }
}

pub(crate) fn lost(error: ViewLost) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
