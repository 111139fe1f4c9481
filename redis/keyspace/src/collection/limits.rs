//! The limits up to which a collection counts as packed.

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
        }
    }
}
