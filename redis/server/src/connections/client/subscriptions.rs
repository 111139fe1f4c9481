//! The channels that one client listens to.

use std::collections::HashSet;
use std::sync::Arc;

use stillframe_commands::LISTED_BYTES;

/// A kind of subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One channel by its name.
    Channel,
    /// All channels whose names match a pattern.
    Pattern,
    /// One channel of the cluster's own namespace; a single node serves them all.
    Shard,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub(crate) const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::Shard];
}

/// The name of a channel, or a pattern, shared with the list of all topics.
pub(crate) type Name = Arc<[u8]>;

/// All subscriptions of a client.
#[derive(Default)]
pub(crate) struct Subscriptions {
    names: [HashSet<Name>; 3],
    bytes: usize,
}

impl Subscriptions {
    /// The number of subscriptions of one kind.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.names[kind as usize].len()
    }

    /// Bytes of their memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Those of one kind, in no order.
    pub(crate) fn names(&self, kind: Kind) -> impl Iterator<Item = &Name> {
        self.names[kind as usize].iter()
    }

    /// All of them, each with whether it is a pattern.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&[u8], bool)> {
        Kind::ALL
            .into_iter()
            .flat_map(|kind| self.names(kind).map(move |name| (&**name, kind == Kind::Pattern)))
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.iter().all(HashSet::is_empty)
    }

    /// Whether there is one of this name.
    pub(crate) fn contains(&self, kind: Kind, name: &[u8]) -> bool {
        self.names[kind as usize].contains(name)
    }

    /// Adds a new one.
    pub(crate) fn add(&mut self, kind: Kind, name: Name) {
        self.bytes += name.len() + LISTED_BYTES;
        self.names[kind as usize].insert(name);
    }

    /// Removes one; false if there is none of this name.
    pub(crate) fn remove(&mut self, kind: Kind, name: &[u8]) -> bool {
        let is_there = self.names[kind as usize].remove(name);
        if is_there {
            self.bytes -= name.len() + LISTED_BYTES;
        }
        is_there
    }
}

/// A client, by its own subscriptions and its place in the registry of clients.
pub(crate) type Listener<'s> = (&'s mut Option<Box<Subscriptions>>, usize);
