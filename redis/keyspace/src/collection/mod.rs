//! Collections: the elements of lists, hashes, sets, sorted sets, streams and arrays, small or
//! large. They know neither keys nor slots nor images.
//!
//! Reading order: `packed` (elements in a run of bytes), `chunk` (a run that can be changed),
//! `tree` (the B+tree of a large collection, and why an image costs it nothing), `trunk` and `list`
//! (which trees make which type), `form` (small or large, read alike), `draft` (small or large,
//! changed alike), `views` and `edits` (what users see), `stream`, `array`, `warm`.

pub(crate) mod array;
pub(crate) mod chunk;
pub(crate) mod draft;
pub(crate) mod edits;
pub(crate) mod form;
pub(crate) mod kind;
pub(crate) mod limits;
mod list;
pub(crate) mod mistakes;
pub(crate) mod packed;
pub(crate) mod parts;
pub(crate) mod stream;
pub(crate) mod traits;
pub(crate) mod tree;
pub(crate) mod trunk;
pub(crate) mod views;
pub(crate) mod warm;
