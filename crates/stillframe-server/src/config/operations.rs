//! The registry's second half: limits of small collections, and what an operator sets.

use super::parameters::{Parameter, always};
use super::values::number;

/// A limit of small collections.
macro_rules! limit {
    ($name:literal, $field:ident) => {
        always(
            $name,
            |c| c.limits.$field.to_string(),
            |c, value| {
                c.limits.$field = number(value, 0, i64::MAX as usize)?;
                Ok(())
            },
        )
    };
}

/// See [`all`](super::parameters::all).
pub(super) static OPERATIONS: &[Parameter] = &[
    limit!("hash-max-listpack-entries", hash_entries),
    limit!("hash-max-listpack-value", hash_value_bytes),
    limit!("set-max-intset-entries", set_integers),
    limit!("zset-max-listpack-entries", sorted_entries),
    limit!("zset-max-listpack-value", sorted_value_bytes),
];

/// Settings of Redis that mean nothing here: a file may have them, CONFIG does not know them.
pub(super) const MEANINGLESS: &[&str] = &[
    "acllog-max-len",
    "activerehashing",
    "activedefrag",
    "active-expire-effort",
    "always-show-logo",
    "aof-rewrite-incremental-fsync",
    "aof-timestamp-enabled",
    "appendfilename",
    "crash-log-enabled",
    "crash-memcheck-enabled",
    "dynamic-hz",
    "jemalloc-bg-thread",
    "list-compress-depth",
    "list-max-listpack-size",
    "lua-time-limit",
    "busy-reply-threshold",
    "oom-score-adj",
    "oom-score-adj-values",
    "pidfile",
    "proc-title-template",
    "rdb-del-sync-files",
    "rdb-save-incremental-fsync",
    "set-proc-title",
    "stream-node-max-bytes",
    "stream-node-max-entries",
];
