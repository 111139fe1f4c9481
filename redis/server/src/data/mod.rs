//! What serves the data beside the keyspace itself: its memory, views of it, and scripts on it.

pub(crate) mod memory;
pub(crate) mod scripts;
pub(crate) mod views;
