//! Keyed objects on stillframe slots: index, entries, expiry, limbo.
#![forbid(unsafe_code)] // until the entries get their own layout

mod keyspace;
mod value;

pub use keyspace::{DATABASES, Entry, EntrySink, Expire, Keyspace, KeyspaceOptions, KeyspaceStats};
pub use stillframe::MemoryError;
pub use value::{IntText, Value, parse_int};
