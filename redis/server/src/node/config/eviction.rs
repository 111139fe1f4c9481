//! Which keys are evicted when memory is short, and how uses of keys are counted for that.

use stillframe_commands::Settings;
use stillframe_keyspace::{Choice, Counting, Merit};

use super::Config;
use super::error::ValueError;

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
    pub(crate) fn parse(text: &str) -> Result<Self, ValueError> {
        let found = POLICIES.iter().find(|name| name.eq_ignore_ascii_case(text));
        found.map(|name| Self(name)).ok_or_else(|| ValueError::none_of(&POLICIES))
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

    /// Which keys may be evicted, and which first; `None`: none.
    pub(crate) fn choice(self, samples: usize) -> Option<Choice> {
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

impl Config {
    /// The part that commands on data need.
    pub(crate) fn of_commands(&self) -> Settings {
        Settings {
            bulk_bytes_max: self.bulk_bytes_max,
            notify: self.notify,
            compresses: self.rdbcompression,
            expiring_version: self.rdb_version.for_expiring_fields(),
            counts_frequency: self.maxmemory_policy.counts_frequency(),
            keeps_uses: self.maxmemory_bytes > 0 && self.maxmemory_policy.counts_uses(),
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
