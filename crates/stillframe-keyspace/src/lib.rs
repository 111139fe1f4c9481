//! Keyed objects on stillframe slots: sixteen databases of keys with values and times to live, of
//! which images are taken while they are written.
//!
//! Reading order: [`Keyspace`] (what a store does), `write` (its changes), `slots` (the memory
//! model: who may change or free an entry when), `entry` (one entry in memory), `limbo` and
//! `reclaim` (where entries go that leave), `index` (from key to slot), `warm`, `expiries`.
//! Collections: `views` and `edit` (what users see), `packed` (elements in a run of bytes), `tree`
//! (the B+tree of a large one, and why an image costs it nothing), `trunk` (which trees make which
//! type), `list` (what a list has besides), `collection` (small or large, read alike).
//!
//! Unsafe code is in `entry` (layout and handles), and in `slots` and `image` where words become
//! entries, for the writer and for the snapshotter.
//!
//! ```
//! use stillframe::algorithms::imprint::Imprint;
//! use stillframe_keyspace::{Expire, Keyspace, KeyspaceOptions, Value};
//!
//! let mut keyspace = Keyspace::<Imprint>::create(&KeyspaceOptions::default())?;
//! let now = 1_000; // unix milliseconds; the keyspace has no clock
//! keyspace.set(0, b"answer", b"42", Expire::At(2_000))?;
//! assert_eq!(keyspace.get(0, b"answer", now).map(|entry| entry.value()), Some(Value::Int(42)));
//! assert!(keyspace.get(0, b"answer", 2_000).is_none());
//!
//! keyspace.edit_sorted(0, b"scores", |scores| scores.set(b"ada", 1.5))?;
//! let scores = keyspace.get(0, b"scores", now).map(|entry| entry.value());
//! assert!(matches!(scores, Some(Value::Sorted(scores)) if scores.rank(b"ada") == Some(0)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod chunk;
mod chunks;
mod collection;
mod cursor;
mod draft;
mod edit;
mod entry;
mod evict;
mod expiries;
mod image;
mod index;
mod keyspace;
mod limbo;
mod list;
#[cfg(test)]
mod model;
mod mutants;
mod options;
mod packed;
mod reclaim;
mod slots;
mod spaces;
mod timed;
mod tree;
mod trunk;
mod value;
mod views;
mod warm;
mod write;

pub use access::{Counting, Usage};
pub use edit::{EditError, HashEdit, ListEdit, SetEdit, SortedEdit};
pub use entry::{Entry, KEY_BYTES_MAX};
pub use evict::{Choice, Merit};
pub use image::EntrySink;
pub use keyspace::Keyspace;
pub use options::{KeyspaceOptions, KeyspaceStats, Limits};
pub use slots::CreateError;
pub use stillframe::MemoryError;
pub use value::{IntText, Type, Value, parse_int};
pub use views::{Hash, List, Set, Sorted};
pub use warm::{Named, WARM_BATCH};
pub use write::Expire;

/// Databases of a keyspace, numbered from 0.
pub const DATABASES: usize = 16;
