//! The limits up to which a collection counts as packed.

use crate::collection::packed::NEVER;

/// The limits up to which Redis keeps collections in its compact encodings. Here they decide only
/// what `is_packed` of a view returns, for OBJECT ENCODING: as in Redis, a collection that was once
/// beyond a limit stays so. Lists have no such limit in Redis 7.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// `hash-max-listpack-entries`
    pub hash_entries: usize,
    /// `hash-max-listpack-value`: longest field or value, in bytes.
    pub hash_value_bytes: usize,
    /// `set-max-intset-entries`
    pub set_integers: usize,
    /// `zset-max-listpack-entries`
    pub sorted_entries: usize,
    /// `zset-max-listpack-value`: longest member, in bytes.
    pub sorted_value_bytes: usize,
    /// `stream-node-max-entries`: what an approximate trim of a stream removes at once.
    pub stream_node_entries: usize,
    /// `stream-idmp-duration`, `stream-idmp-maxsize`: what is known of producers on a new stream.
    pub stream_idmp: IdmpLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            hash_entries: 128,
            hash_value_bytes: 64,
            set_integers: 512,
            sorted_entries: 128,
            sorted_value_bytes: 64,
            stream_node_entries: 100,
            stream_idmp: IdmpLimits::default(),
        }
    }
}

/// How much of what producers have sent is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdmpLimits {
    /// For how many seconds from the entry's id on.
    pub duration_s: u32,
    /// The last messages of each producer, this many.
    pub entries: u32,
}

/// A message that a producer sends once.
#[derive(Debug, Clone, Copy)]
pub struct IdmpMessage<'a> {
    /// The producer's id.
    pub pid: &'a [u8],
    /// The message's id, one of that producer's.
    pub iid: &'a [u8],
}

impl Default for IdmpLimits {
    fn default() -> Self {
        Self { duration_s: 100, entries: 100 }
    }
}

impl IdmpLimits {
    /// Whether a message is still known by then.
    pub(crate) fn is_known(self, entry_ms: u64, now: i64) -> bool {
        self.deadline(entry_ms) > now
    }

    /// When a message is known no more, in unix milliseconds.
    pub(crate) fn deadline(self, entry_ms: u64) -> i64 {
        let ms = entry_ms.saturating_add(u64::from(self.duration_s) * 1000);
        i64::try_from(ms).unwrap_or(NEVER).min(NEVER - 1)
    }
}
