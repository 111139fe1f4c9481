//! What a stream has beside its entries: consumer groups, what is pending for whom, producers.
//!
//! Everything lies in the trees of [`super::tree`], so an image or a copy of a stream costs
//! nothing to begin, and each change copies one path of each tree that it touches.
//!
//! | tree | order | key | value |
//! |---|---|---|---|
//! | entries (the main tree) | rank | seq, body | ms |
//! | groups | hash | name | number, last id, entries read |
//! | consumers | hash | group's number, name | number |
//! | names | hash | consumer's number | time seen, time active, name |
//! | roster | rank | consumer's name and number | group's number |
//! | pending | rank | id, consumer's number, time, deliveries | group's number |
//! | owned | rank | id | consumer's number |
//! | aged | rank | time, id | group's number |
//! | producers | hash | producer | number |
//! | producers' names | hash | producer's number | producer |
//! | sent | rank | id, message | producer's number |
//! | ids | hash | producer's number, message | id, which expires |
//!
//! An entry that was released is pending for nobody: it is not in the tree of what is owned, has 0
//! for the consumer's number, and in place of the time the number of its release; among those by
//! age it stands before all others, under a time of 0, that number and its id.
//!
//! The body of an entry is the number of its list of field names, then the values; entries of one
//! stream mostly have the same names. Number 0 says that the names stand before their values. The
//! number is in LEB128. A text is a LEB128 number, even: twice its length, then its bytes; odd:
//! twice the bytes of an integer plus one, then those bytes, little-endian.
//!
//! The time that orders what is pending is that of its delivery, its sign bit turned over. What
//! stands behind the id of what is pending is in LEB128.

pub(super) mod body;
pub(super) mod groups;
pub(super) mod idmp;

use crate::collection::limits::{IdmpLimits, IdmpMessage};
use crate::collection::packed::NEVER;
use crate::collection::tree::Tree;
use body::Lists;
pub use body::{Fields, Names, Text};
pub(crate) use groups::Groups;
pub use idmp::Producer;
use idmp::Producers;

/// The id of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StreamId {
    /// Milliseconds.
    pub ms: u64,
    /// Number within the millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The least id.
    pub const MIN: Self = Self { ms: 0, seq: 0 };
    /// The greatest id.
    pub const MAX: Self = Self { ms: u64::MAX, seq: u64::MAX };

    /// The next id; none behind the greatest.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => Some(Self { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The id before; none before the least.
    #[must_use]
    pub fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => Some(Self { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    /// Its bytes, which sort as ids do.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.seq)).to_be_bytes()
    }

    /// The id of [`to_bytes`](Self::to_bytes).
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_be_bytes(bytes);
        Self { ms: (both >> 64) as u64, seq: both as u64 }
    }
}

/// What a stream has beside its entries.
#[derive(Clone, Default)]
pub(crate) struct Parts {
    /// The greatest id that was ever added, unless it was set otherwise.
    pub(super) last: StreamId,
    /// The greatest id that was deleted.
    pub(super) deleted: StreamId,
    /// Entries that were ever added.
    pub(super) added: u64,
    pub(super) lists: Lists,
    pub(super) groups: Option<Box<Groups>>,
    pub(super) idmp: IdmpLimits,
    pub(super) producers: Option<Box<Producers>>,
}

impl Parts {
    pub(crate) fn bytes(&self) -> usize {
        let groups = self.groups.as_ref().map_or(0, |groups| groups.own_bytes());
        let producers = self.producers.as_ref().map_or(0, |producers| producers.own_bytes());
        size_of::<Self>() + self.lists.bytes() + groups + producers
    }

    pub(crate) fn node_bytes(&self) -> usize {
        self.groups.as_ref().map_or(0, |groups| groups.node_bytes())
            + self.producers.as_ref().map_or(0, |producers| producers.node_bytes())
    }

    pub(crate) fn trees_mut(&mut self) -> impl Iterator<Item = &mut Tree> {
        let groups = self.groups.as_mut().map(|groups| groups.trees_mut());
        let producers = self.producers.as_mut().map(|producers| producers.trees_mut());
        groups.into_iter().flatten().chain(producers.into_iter().flatten())
    }

    #[cfg(test)]
    pub(crate) fn check(&self, hasher: &crate::hash::Hasher) {
        if let Some(groups) = &self.groups {
            groups.check(hasher);
        }
        if let Some(producers) = &self.producers {
            producers.check(hasher);
        }
    }

    pub(crate) fn take_parted(&mut self) -> usize {
        self.groups.as_mut().map_or(0, |groups| groups.take_parted())
            + self.producers.as_mut().map_or(0, |producers| producers.take_parted())
    }

    /// Whether messages of producers are known.
    pub(crate) fn is_timed(&self) -> bool {
        self.producers.as_ref().is_some_and(|producers| producers.is_timed())
    }

    /// When the first message of a producer is known no more.
    pub(crate) fn soonest(&self) -> i64 {
        self.producers.as_ref().map_or(NEVER, |producers| producers.soonest())
    }

    /// Whether anything is known of producers.
    pub(crate) fn has_idmp(&self) -> bool {
        self.producers.is_some() || self.idmp != IdmpLimits::default()
    }

    /// Whether an entry is pending for nobody.
    pub(crate) fn has_released(&self) -> bool {
        self.groups.as_ref().is_some_and(|groups| groups.released > 0)
    }
}

/// The number in the first 8 bytes.
pub(super) fn number_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

pub(super) fn id_at(bytes: &[u8], at: usize) -> StreamId {
    StreamId { ms: number_at(bytes, at), seq: number_at(bytes, at + 8) }
}
