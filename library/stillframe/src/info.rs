//! What the registry says of an algorithm.

use crate::sink::BLOCK_WORDS;

/// What the registry says of an algorithm.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Info {
    /// Name on command lines and in tables.
    pub name: &'static str,
    /// Name in words.
    pub title: &'static str,
    /// Where it was published.
    pub citation: &'static str,
    /// Memory, in copies of the state.
    pub memory: &'static str,
    /// Cost of begin.
    pub begin: &'static str,
    /// What a read adds to a plain load.
    pub read: &'static str,
    /// What a write adds to a plain store.
    pub write: &'static str,
    /// Whether images live in this process: objects that state words refer to are then shared
    /// with the image and must outlive its capture.
    pub in_process: bool,
    /// Whether [`Image::get`](crate::Image::get) gives words.
    pub random_access: bool,
    /// What one write replaces whole; the first is taken where
    /// [`Options::unit`](crate::Options::unit) is not among them.
    pub units: &'static [Unit],
    /// What a sink receives.
    pub image: Completeness,
    /// Whether images make progress only while the writer calls
    /// [`Algorithm::tend`](crate::Algorithm::tend).
    pub tended: bool,
    /// Whether several images can be held at a time, where
    /// [`Options::images`](crate::Options::images) asks for it.
    pub several: bool,
}

impl Info {
    /// The facts that most algorithms share; a registry line gives what differs.
    pub(crate) const COMMON: Self = Self {
        name: "",
        title: "",
        citation: "",
        memory: "",
        begin: "",
        read: "nothing",
        write: "",
        in_process: true,
        random_access: true,
        units: &[Unit::Word],
        image: Completeness::Full,
        tended: false,
        several: false,
    };

    /// The unit used when `asked` is asked for.
    #[must_use]
    pub fn unit(&self, asked: Unit) -> Unit {
        let has = |unit: &Unit| self.units.contains(unit);
        match asked {
            // What has no flag for each half is asked for words.
            Unit::Half if !has(&asked) && has(&Unit::Word) => Unit::Word,
            asked if has(&asked) => asked,
            _ => self.units[0],
        }
    }
}

/// The words that one flag of an algorithm describes and one write replaces whole (the unit rule:
/// to write part of a unit is to read it, patch it and write all of it).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// 4 bytes, the word of the papers: half a word.
    Half,
    /// 8 bytes.
    Word,
    /// A cache line: 64 bytes.
    Line,
    /// A block: 4 KiB.
    Page,
}

impl Unit {
    /// Every unit, in rising order.
    pub const ALL: &[Self] = &[Self::Half, Self::Word, Self::Line, Self::Page];

    /// Words that a unit lies in; a power of two.
    #[must_use]
    pub const fn words(self) -> usize {
        match self {
            Self::Half | Self::Word => 1,
            Self::Line if BLOCK_WORDS < 8 => BLOCK_WORDS,
            Self::Line => 8,
            Self::Page => BLOCK_WORDS,
        }
    }
    /// Bytes in a unit.
    #[must_use]
    pub const fn bytes(self) -> usize {
        if matches!(self, Self::Half) { 4 } else { 8 * self.words() }
    }
    /// Name on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Half => "half",
            Self::Word => "word",
            Self::Line => "line",
            Self::Page => "page",
        }
    }
}

/// A unit, as numbers of items: half words where it is one, else words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grain {
    /// Items in a unit, as a shift.
    pub(crate) shift: u32,
    /// Whether items are half words; then each is a unit.
    pub(crate) halves: bool,
}

impl Grain {
    pub(crate) const fn from_unit(unit: Unit) -> Self {
        Self { shift: unit.words().trailing_zeros(), halves: matches!(unit, Unit::Half) }
    }
    /// Items in `words` words.
    pub(crate) fn items(self, words: usize) -> usize {
        words.saturating_mul(if self.halves { 2 } else { 1 })
    }
    /// Units that hold the first `words` words.
    pub(crate) fn units(self, words: usize) -> usize {
        self.items(words).div_ceil(1 << self.shift)
    }
}

/// What a sink receives of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// Every word.
    Full,
    /// Only units written since the image before, unless the sink completes the image from the
    /// one before ([`Sink::before`](crate::Sink::before)).
    Incremental,
}
