//! Memory: entries in slots, and who may change or free one when.
//!
//! Reading order: `slots` (the memory model), `entry` (one entry in memory) and `value` (what it
//! holds), `limbo`, `history`, `kept` and `reclaim` (where entries go that leave), `word_sink` (the
//! snapshotter's side), `read_view` (other readers), `index` (from the hash of a key to slot and
//! entry) and `slot_set` (its slots, in order). `shown` knows which entries branches show, `spaces`
//! knows the database of an entry, `access` when a slot was used. All unsafe code of this crate is
//! here: in `entry` (layout and handles), and in `slots`, `word_sink` and `read_view` where words
//! become entries, for the writer, the snapshotter and other readers.

pub(crate) mod access;
pub(crate) mod chunks;
pub(crate) mod entry;
pub(crate) mod history;
pub(crate) mod index;
pub(crate) mod kept;
mod limbo;
pub(crate) mod read_view;
mod reclaim;
pub(crate) mod shown;
pub(crate) mod slot_set;
pub(crate) mod slots;
pub(crate) mod spaces;
pub(crate) mod value;
pub(crate) mod word_sink;
