//! Memory: eviction above `maxmemory`, and free memory on its way back to the system.

mod free;
mod upkeep;

use free::FreeMemory;
pub(crate) use upkeep::{
    OWN_BYTES, Room, arena_bytes, counted_bytes, give_back, make_room, tend_free, used_bytes,
};

/// The state of eviction and free memory.
#[derive(Default)]
pub(crate) struct Memory {
    free: FreeMemory,
    /// Memory is above its limit and there are keys to evict.
    evicting: bool,
}

impl Memory {
    /// Whether keys are to be evicted in this turn.
    pub(crate) fn evicts(&self) -> bool {
        self.evicting
    }

    /// `maxmemory` may have changed: the next turn finds out whether keys must go.
    pub(crate) fn look_again(&mut self, maxmemory_bytes: u64) {
        self.evicting = maxmemory_bytes > 0;
    }
}
