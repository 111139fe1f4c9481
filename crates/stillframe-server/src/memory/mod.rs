//! Memory: keys are evicted above `maxmemory`, and what is free goes back to the system.

mod free;
mod upkeep;

use free::FreeMemory;
pub(crate) use upkeep::{
    OWN_BYTES, Room, arena_bytes, counted_bytes, give_back, make_room, tend_free, used_bytes,
};

/// What is due about memory.
#[derive(Default)]
pub(crate) struct Memory {
    free: FreeMemory,
    /// Memory is above its limit and there are keys to evict.
    pub(crate) evicting: bool,
}
