//! Size and manner of the state memory.

use crate::budget::{OnFull, budget_for};
use crate::info::Unit;

/// Size and manner of the state memory.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Words of state, all zero at first.
    pub words: usize,
    /// Address space reserved for growth, in words; at least `words`.
    pub max_words: usize,
    /// Ask for 2 MiB pages (`madvise`; a kernel that has none ignores it).
    pub huge_pages: bool,
    /// Touch all memory at creation, so that no write pays for a first touch.
    pub prefault: bool,
    /// Most memory an image may take for itself, in bytes (undo arenas); of several images that are
    /// held at a time, all together. By default, `None`, it grows with the state: a quarter of it
    /// at begin, at least 64 MiB. Memory is taken as it is needed, and most of it given back when
    /// the image ends.
    pub budget_bytes: Option<usize>,
    /// What happens when the budget is used up.
    pub on_full: OnFull,
    /// What one flag describes, for algorithms that leave the choice. A state of 4-byte items takes
    /// [`Unit::Half`] and [`Algorithm::write_u32`](crate::Algorithm::write_u32).
    pub unit: Unit,
    /// Name of the algorithm, for [`Any`](crate::algorithms::any::Any) alone.
    pub algorithm: &'static str,
    /// Threads that copy, for algorithms that copy with several; at least 1.
    pub threads: usize,
    /// Most images that are held at a time, for an algorithm that can hold
    /// [several](crate::Info::several); at least 1.
    pub images: usize,
}

impl Options {
    /// `words` words that cannot grow, default budget.
    #[must_use]
    pub fn words(words: usize) -> Self {
        Self {
            words,
            max_words: words,
            huge_pages: false,
            prefault: false,
            budget_bytes: None,
            on_full: OnFull::Slow,
            unit: Unit::Word,
            algorithm: "imprint",
            threads: 1,
            images: 1,
        }
    }
    /// Sets [`max_words`](Self::max_words).
    #[must_use]
    pub fn max_words(self, max_words: usize) -> Self {
        Self { max_words, ..self }
    }
    /// Sets [`huge_pages`](Self::huge_pages).
    #[must_use]
    pub fn huge_pages(self, huge_pages: bool) -> Self {
        Self { huge_pages, ..self }
    }
    /// Sets [`prefault`](Self::prefault).
    #[must_use]
    pub fn prefault(self, prefault: bool) -> Self {
        Self { prefault, ..self }
    }
    /// Sets [`budget_bytes`](Self::budget_bytes) and [`on_full`](Self::on_full).
    #[must_use]
    pub fn budget(self, budget_bytes: usize, on_full: OnFull) -> Self {
        Self { budget_bytes: Some(budget_bytes), on_full, ..self }
    }
    /// Sets [`unit`](Self::unit).
    #[must_use]
    pub fn unit(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }
    /// Sets [`algorithm`](Self::algorithm).
    #[must_use]
    pub fn algorithm(self, algorithm: &'static str) -> Self {
        Self { algorithm, ..self }
    }
    /// The budget of an image of `words` words, in bytes.
    #[must_use]
    pub fn budget_for(&self, words: usize) -> usize {
        budget_for(self.budget_bytes, words)
    }
    /// The same manner of memory, of `size(words)` words: for arrays beside the state.
    pub(crate) fn resized(&self, size: impl Fn(usize) -> usize) -> Self {
        let max_words = size(self.max_words.max(self.words));
        Self { words: size(self.words), max_words, ..self.clone() }
    }
    /// The same manner of memory, with no words yet and room for `max_words`.
    pub(crate) fn room(&self, max_words: usize) -> Self {
        Self { words: 0, max_words, ..self.clone() }
    }
    /// Sets [`threads`](Self::threads).
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }
    /// Sets [`images`](Self::images).
    #[must_use]
    pub fn images(self, images: usize) -> Self {
        Self { images, ..self }
    }
}
