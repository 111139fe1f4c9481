//! What can be wrong with a file, and what became of it.

pub(crate) mod checkpoint;
pub(crate) mod log;
