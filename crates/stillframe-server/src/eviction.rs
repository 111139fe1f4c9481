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

use stillframe::Algorithm;
use stillframe_keyspace::{Choice, Counting, Keyspace, Merit};
use stillframe_redis::Settings;

use crate::config::Config;
use crate::cron;
use crate::server::SHARED_BYTES;
use crate::state::ServerState;

/// Longest time that evicting holds up a request.
const SLICE: Duration = Duration::from_micros(500);
/// Keys evicted between two looks at the clock.
const BATCH: usize = 16;

/// What a server takes that has no data and no clients: what is read into, and its state.
pub(crate) const OWN_BYTES: usize = SHARED_BYTES + size_of::<ServerState>();

/// `maxmemory-policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Eviction(&'static str);

const POLICIES: [&str; 8] = [
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
];

impl Eviction {
    /// Nothing is evicted.
    pub(crate) const NONE: Self = Self("noeviction");

    /// Reads `maxmemory-policy`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let found = POLICIES.iter().find(|name| name.eq_ignore_ascii_case(text));
        found.map(|name| Self(name)).ok_or_else(|| {
            format!("argument(s) must be one of the following: {}", POLICIES.join(", "))
        })
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        self.0
    }

    /// Whether it counts how often keys are used, and not when.
    pub(crate) fn counts_frequency(self) -> bool {
        self.0.ends_with("-lfu")
    }

    /// Whether keys are chosen by how they were used.
    pub(crate) fn counts_uses(self) -> bool {
        self.counts_frequency() || self.0.ends_with("-lru")
    }

    fn choice(self, samples: usize) -> Option<Choice> {
        let (range, merit) = self.0.split_once('-')?;
        let merit = match merit {
            "lru" => Merit::Idle,
            "lfu" => Merit::Rare,
            "ttl" => Merit::NearEnd,
            _ => Merit::Chance,
        };
        Some(Choice { merit, mortal_only: range == "volatile", samples })
    }
}

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

impl Config {
    /// What commands on data obey of it.
    pub(crate) fn of_commands(&self) -> Settings {
        Settings {
            bulk_bytes_max: self.bulk_bytes_max,
            notify: self.notify,
            compresses: self.rdbcompression,
            counts_frequency: self.maxmemory_policy.counts_frequency(),
        }
    }

    /// How uses of keys are counted for the policy.
    pub(crate) fn counting(&self) -> Counting {
        if self.maxmemory_policy.counts_frequency() {
            Counting::Frequency {
                log_factor: self.lfu_log_factor,
                decay_minutes: self.lfu_decay_minutes,
            }
        } else {
            Counting::Recency
        }
    }
}

impl ServerState {
    /// Memory that counts for `maxmemory`, in bytes.
    pub(crate) fn counted_bytes<A: Algorithm>(&self, keyspace: &Keyspace<A>) -> u64 {
        (keyspace.data_bytes() + self.clients.bytes() + OWN_BYTES) as u64
    }

    /// Evicts keys until memory is below the limit, for a short while.
    #[cold]
    pub(crate) fn make_room<A: Algorithm>(&mut self, keyspace: &mut Keyspace<A>) -> Room {
        self.evicting = false;
        let limit = self.config.maxmemory_bytes;
        let settings = &self.config.replication;
        if self.replication.is_replica() && settings.ignore_maxmemory {
            return Room::Enough; // what goes is the primary's choice
        }
        if limit == 0 || self.is_loading() || self.counted_bytes(keyspace) <= limit {
            return Room::Enough;
        }
        cron::limit_clients(self); // clients go before keys
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
                self.evicting = true;
                break Room::Soon;
            }
        };
        self.latency_sample("eviction-cycle", start.elapsed());
        room
    }

    /// Evicts some keys; false if none may go.
    fn evict_batch<A: Algorithm>(
        &mut self,
        keyspace: &mut Keyspace<A>,
        choice: Choice,
        limit: u64,
    ) -> bool {
        for _ in 0..BATCH {
            let random = &mut self.ledger.random;
            let Some((db, key)) = keyspace.evict(choice, &mut || random.bits()) else {
                return false;
            };
            self.stats.evicted_keys += 1;
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
