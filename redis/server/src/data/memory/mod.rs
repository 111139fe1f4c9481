//! Memory: eviction above `maxmemory`, and free memory on its way back to the system,
//! and holes in it.

pub(crate) mod defrag;
mod free;

use defrag::Defrag;
use free::FreeMemory;

/// The state of eviction, free memory and defragmentation.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) free: FreeMemory,
    pub(crate) defrag: Defrag,
    /// Memory is above its limit and there are keys to evict.
    pub(crate) evicting: bool,
    /// Memory was above its limit, and nothing could be evicted, when the request under way began.
    is_short: bool,
}

impl Memory {
    /// Whether keys are to be evicted in this turn.
    pub(crate) fn evicts(&self) -> bool {
        self.evicting
    }

    /// Whether memory was used up when the request under way began.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Notes that, for the scripts of the request.
    pub(crate) fn note_short(&mut self, is_short: bool) {
        self.is_short = is_short;
    }

    /// `maxmemory` may have changed: the next turn finds out whether keys must go.
    pub(crate) fn look_again(&mut self, maxmemory_bytes: u64) {
        self.evicting = maxmemory_bytes > 0;
    }
}
