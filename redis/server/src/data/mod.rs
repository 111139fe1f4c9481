//! What serves the data beside the keyspace itself: its memory, views of it for clients and for
//! other threads, and scripts on it.

pub(crate) mod memory;
pub(crate) mod queries;
pub(crate) mod read_views;
pub(crate) mod scripts;
pub(crate) mod views;
