//! Keyed objects on stillframe slots: sixteen databases of keys with values and times to live, and
//! images of them while they are written.
//!
//! Three rooms, each of which knows only those before it:
//! - `collection`: elements of lists, hashes, sets, sorted sets, streams and arrays,
//!   small or large;
//! - `memory`: entries in slots, the index that finds them, and who may change or free one when;
//! - `store`: [`Keyspace`], on which databases and commands are built.
//!
//! Read `store` first (what a keyspace does), then `memory::slots` (the memory model).
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

mod collection;
mod hash;
mod integer;
mod libraries;
mod memory;
#[cfg(test)]
mod model;
mod mutants;
mod store;

pub use collection::array::{Array, ArrayEdit, INDEX_MAX};
pub use collection::edits::{HashEdit, ListEdit, SetEdit, SortedEdit};
pub use collection::kind::Type;
pub use collection::limits::{IdmpLimits, IdmpMessage, Limits};
pub use collection::parts::{Fields, Names, Producer, StreamId, Text};
pub use collection::stream::{Consumer, Group, Pending, Stream, StreamEdit, StreamEntry};
pub use collection::views::{Hash, HashField, List, Set, Sorted};
pub use collection::warm::Named;
pub use integer::{IntText, parse_int};
pub use libraries::Libraries;
pub use memory::access::{Counting, Usage};
pub use memory::entry::{Entry, KEY_BYTES_MAX};
pub use memory::read_view::{ReadView, ReadViewError, ReadViewLost, ScanError};
pub use memory::slots::CreateError;
pub use memory::value::Value;
pub use memory::word_sink::EntrySink;
pub use stillframe::{MemoryError, SinkError};
pub use store::Keyspace;
pub use store::beside::HeldImage;
pub use store::branch::{Branch, Change, Changes};
pub use store::defragment::Defragmentation;
pub use store::edit::EditError;
pub use store::evict::{Choice, Merit};
pub use store::expiry::Expired;
pub use store::options::{KeyspaceOptions, KeyspaceStats};
pub use store::sharing::{CLASSES_MAX, Sharing, SharingError};
pub use store::view::View;
pub use store::warm::WARM_BATCH;
pub use store::write::Expire;

/// The latest deadline of a field that other servers take, in unix milliseconds: the year 4199.
pub const FIELD_DEADLINE_MAX: i64 = (1 << 46) - 1;

/// Databases of a keyspace, numbered from 0.
pub const DATABASES: usize = 16;
