//! What some values have that most have not: parts that expire by themselves, and what files of old
//! versions cannot hold.

/// Such properties of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traits(u8);

impl Traits {
    pub(crate) const NONE: Self = Self(0);
    /// A hash with a field that expires.
    pub(crate) const FIELDS: Self = Self(1);
    /// A stream that knows messages of producers, which expire.
    pub(crate) const SENT: Self = Self(2);
    /// A stream on which something is known of producers.
    pub(crate) const IDMP: Self = Self(4);
    /// A stream with an entry that is pending for nobody.
    pub(crate) const RELEASED: Self = Self(8);

    /// An array.
    pub(crate) const ARRAY: Self = Self(16);

    const ALL: [Self; 5] = [Self::FIELDS, Self::SENT, Self::IDMP, Self::RELEASED, Self::ARRAY];

    /// These, if `has`, beside others.
    #[must_use]
    pub(crate) fn and_if(self, has: bool, these: Self) -> Self {
        if has { Self(self.0 | these.0) } else { self }
    }

    fn has(self, trait_: Self) -> bool {
        self.0 & trait_.0 != 0
    }

    /// Whether a part of the value expires.
    pub(crate) fn is_timed(self) -> bool {
        self.has(Self(Self::FIELDS.0 | Self::SENT.0))
    }
}

/// How many values have each.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts([usize; Traits::ALL.len()]);

impl Counts {
    /// A value has become another.
    pub(crate) fn change(&mut self, before: Traits, now: Traits) {
        for (count, trait_) in self.0.iter_mut().zip(Traits::ALL) {
            *count = *count - usize::from(before.has(trait_)) + usize::from(now.has(trait_));
        }
    }

    /// How many values have this one.
    pub(crate) fn having(&self, trait_: Traits) -> usize {
        let counts = self.0.iter().zip(Traits::ALL);
        counts.filter(|(_, it)| *it == trait_).map(|(count, _)| *count).sum()
    }
}
