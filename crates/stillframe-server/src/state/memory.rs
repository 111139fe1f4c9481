//! `maxmemory`: what counts, who goes, and for how long a request waits for that.
//!
//! - Counted are the live data (entries and their place in the index), clients with their buffers,
//!   but no replicas, as they are at that moment, and what the server takes by itself: the
//!   `used_memory` of INFO but for images and the stream to replicas.
//!   What an image under way holds is not: see docs/decisions/0022-maxmemory.md.
//! - A request makes room before it runs, for a bounded time; what is left to do is done at the
//!   following requests and turns. Only when no key may go is a request that needs memory refused.
//! - An eviction is a DEL for the log and the replicas, an `evicted` event, and a change for those
//!   who watch or cache the key.

use std::time::{Duration, Instant};

use stillframe_keyspace::{Choice, Keyspace};

use super::ServerState;
use crate::client::SHARED_BYTES;

/// Longest time that evicting holds up a request.
const SLICE: Duration = Duration::from_micros(500);
/// Keys evicted between two looks at the clock.
const BATCH: usize = 16;

/// What a server takes that has no data and no clients: what is read into, and its state.
pub(crate) const OWN_BYTES: usize = SHARED_BYTES + size_of::<ServerState>();

/// Whether evicting has led to memory enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// Below the limit.
    Enough,
    /// Not yet, but there are keys to evict.
    Soon,
    /// Above the limit, and no key may go.
    None,
}

/// Memory in use: what `maxmemory` is compared with, what images hold, and the stream to replicas.
pub(crate) fn used_bytes(keyspace: &Keyspace, state: &ServerState) -> u64 {
    let images = keyspace.stats().limbo_bytes + arena_bytes(keyspace);
    state.counted_bytes(keyspace) + (images + state.replication.stream.memory()) as u64
}

/// The library tells of the newest image, also when it has ended.
pub(crate) fn arena_bytes(keyspace: &Keyspace) -> usize {
    if keyspace.saving() { keyspace.progress().arena_bytes() } else { 0 }
}

impl ServerState {
    /// Memory that counts for `maxmemory`, in bytes.
    pub(crate) fn counted_bytes(&self, keyspace: &Keyspace) -> u64 {
        (keyspace.data_bytes() + self.hub.clients.bytes() + OWN_BYTES) as u64
    }

    /// Evicts keys until memory is below the limit, for a short while.
    #[cold]
    pub(crate) fn make_room(&mut self, keyspace: &mut Keyspace) -> Room {
        self.memory.evicting = false;
        let limit = self.config.maxmemory_bytes;
        let settings = &self.config.replication;
        if self.replication.is_replica() && settings.ignore_maxmemory {
            return Room::Enough; // what goes is the primary's choice
        }
        if limit == 0 || self.is_loading() || self.counted_bytes(keyspace) <= limit {
            return Room::Enough;
        }
        self.limit_clients(); // clients go before keys
        if self.counted_bytes(keyspace) <= limit {
            return Room::Enough;
        }
        let Some(choice) = self.config.maxmemory_policy.choice(self.config.maxmemory_samples)
        else {
            return Room::None;
        };
        if self.pausing() {
            return Room::Soon; // the data stands still
        }
        let start = Instant::now();
        let room = loop {
            if !self.evict_batch(keyspace, choice, limit) {
                break Room::None;
            }
            if self.counted_bytes(keyspace) <= limit {
                break Room::Enough;
            }
            if start.elapsed() > SLICE {
                self.memory.evicting = true;
                break Room::Soon;
            }
        };
        self.meter.note_event(&self.config, "eviction-cycle", start.elapsed());
        room
    }

    /// Evicts some keys; false if none may go.
    fn evict_batch(&mut self, keyspace: &mut Keyspace, choice: Choice, limit: u64) -> bool {
        for _ in 0..BATCH {
            let random = &mut self.ledger.random;
            let Some((db, key)) = keyspace.evict(choice, &mut || random.bits()) else {
                return false;
            };
            self.meter.stats.evicted_keys += 1;
            self.ledger.watches.touch(db, &key);
            self.ledger.gone(db, &key);
            self.ledger.notify('e', "evicted", db, &key);
            self.tell_events();
            self.ledger.effects.seal(); // each by itself, as in Redis: nothing has to go together
            if self.counted_bytes(keyspace) <= limit {
                break;
            }
        }
        true
    }
}
