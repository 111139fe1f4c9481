//! Memory that is free goes back to the system: at MEMORY PURGE, and by the clock.
//!
//! - The allocator keeps what is freed for what is allocated next, and what other threads free of
//!   this one's until this one allocates: of an idle server all that was ever in use would stay.
//! - By the clock it is given back once a good deal less is in use than was, what was deleted has
//!   been freed, and the server has little to do; or after a while, whatever it has to do: it takes
//!   10 to 30 ms of the command thread for each GB, and a busy server soon uses it again.
//! - How it is given back the allocator's owner tells: see `Config::on_give_back`.

use std::time::{Duration, Instant};

use stillframe_keyspace::Keyspace;

use super::ServerState;
use super::memory::arena_bytes;

/// What stays with the allocator, in bytes.
const KEPT_BYTES: usize = 8 << 20;
/// Requests between two runs of the clock up to which a server has little to do.
const FEW_REQUESTS: u64 = 100;
/// How long a busy server keeps what is free.
const BUSY: Duration = Duration::from_secs(10);

/// Memory that is to be freed.
#[derive(Default)]
pub(crate) struct Memory {
    /// Free memory that is not given back yet.
    pub(crate) free: FreeMemory,
    /// Memory is above its limit and there are keys to evict.
    pub(crate) evicting: bool,
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct FreeMemory {
    /// The most that was in use since it was last given back, in bytes.
    most_bytes: usize,
    /// Since when a good deal of that is free.
    since: Option<Instant>,
    /// Requests run when the clock last looked.
    requests: u64,
}

impl ServerState {
    /// Gives back what is free.
    pub(crate) fn give_back(&mut self, keyspace: &Keyspace) {
        self.memory.free.most_bytes = self.held_bytes(keyspace);
        self.memory.free.since = None;
        if let Some(give_back) = self.config.give_back {
            let start = Instant::now();
            give_back();
            self.meter.note_event(&self.config, "give-back", start.elapsed());
        }
    }

    /// A run of the clock: gives back what is free if it is time to.
    pub(crate) fn tend_free_memory(&mut self, keyspace: &Keyspace) {
        let held = self.held_bytes(keyspace);
        let now = self.clock.turn;
        let own = &mut self.memory.free;
        own.most_bytes = own.most_bytes.max(held);
        let few = self.meter.stats.commands_processed.saturating_sub(own.requests) <= FEW_REQUESTS;
        own.requests = self.meter.stats.commands_processed;
        if own.most_bytes - held <= KEPT_BYTES || keyspace.stats().garbage_bytes > 0 {
            return;
        }
        let since = *own.since.get_or_insert(now);
        if few || now.saturating_duration_since(since) > BUSY {
            self.give_back(keyspace);
        }
    }

    /// What is in use, or about to be freed.
    fn held_bytes(&self, keyspace: &Keyspace) -> usize {
        let figures = keyspace.stats();
        let data = figures.entry_bytes + figures.limbo_bytes + figures.garbage_bytes;
        data + arena_bytes(keyspace) + self.hub.clients.bytes()
    }
}
