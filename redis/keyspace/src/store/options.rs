//! The options of a keyspace at creation, and its figures.

use stillframe::OnFull;

/// Options of a keyspace.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KeyspaceOptions {
    /// Most memory an image may take for its slot words, in bytes (64 MiB by default). Replaced
    /// entries that an image still needs come on top.
    pub budget_bytes: usize,
    /// Name of the algorithm of [`Any`](stillframe::algorithms::any::Any); others have theirs.
    pub algorithm: &'static str,
    /// What happens when the budget is used up.
    pub on_full: OnFull,
    /// Ask for 2 MiB pages for the slots.
    pub huge_pages: bool,
    /// Most keys of all databases together (2^30 by default, at most 2^32 - 1); takes 8 bytes of
    /// address space each.
    pub max_keys: usize,
}

impl Default for KeyspaceOptions {
    fn default() -> Self {
        Self {
            budget_bytes: 64 << 20,
            algorithm: "imprint",
            on_full: OnFull::Slow,
            huge_pages: false,
            max_keys: 1 << 30,
        }
    }
}

/// Figures of a keyspace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyspaceStats {
    /// Keys of all databases.
    pub keys: usize,
    /// Keys with a time to live.
    pub expires: usize,
    /// Keys deleted because they had expired, since creation.
    pub expired_total: u64,
    /// Hashes with fields that expire.
    pub timed_hashes: usize,
    /// Fields of hashes deleted because they had expired, since creation.
    pub expired_fields_total: u64,
    /// Slots that were ever in use; they are reused, never given back.
    pub slots: usize,
    /// Bytes of the keys' entries (what they asked of the allocator).
    pub entry_bytes: usize,
    /// Replaced and deleted entries that images under way may still read.
    pub limbo_entries: usize,
    /// Their bytes.
    pub limbo_bytes: usize,
    /// Replaced and deleted entries that open views still see.
    pub view_entries: usize,
    /// Bytes that only views hold, about.
    pub view_bytes: usize,
    /// Bytes of cleared databases and dropped values on their way back to the allocator.
    pub garbage_bytes: usize,
}
