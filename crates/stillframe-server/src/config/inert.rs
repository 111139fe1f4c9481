//! Settings of Redis without effect here: their values are checked, kept and shown, so that files
//! and tools written for Redis work.

use super::Config;
use super::choices::bytes_between;
use super::parameter::{Parameter, always, at_start, size, text};
use super::values::{any, number, parse_size, switch};

/// One of them: `inert!(when it may change, name, default, what it is checked by)`.
macro_rules! inert {
    ($change:ident, $name:literal, $default:literal, $check:expr) => {
        $change(
            $name,
            |config| config.inert.get($name).map_or($default, String::as_str).to_owned(),
            |config: &mut Config, value| {
                let value = $check(value)?;
                config.inert.insert($name, value);
                Ok(())
            },
        )
    };
}

fn yes_or_no(value: &str) -> Result<String, String> {
    switch(value).map(|_| value.to_ascii_lowercase())
}

fn between<const LEAST: i64, const MOST: i64>(value: &str) -> Result<String, String> {
    number(value, LEAST, MOST).map(|number| number.to_string())
}

fn memory(value: &str) -> Result<String, String> {
    parse_size(value).map(|bytes| bytes.to_string())
}

fn some_memory(value: &str) -> Result<String, String> {
    bytes_between(value, 1, i64::MAX as usize).map(|bytes| bytes.to_string())
}

fn facility(value: &str) -> Result<String, String> {
    let names = ["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6"];
    one_of(value, &[&names[..], &["local7"]].concat())
}

fn one_of(value: &str, names: &[&str]) -> Result<String, String> {
    let found = names.iter().find(|name| name.eq_ignore_ascii_case(value));
    let refused = || format!("argument(s) must be one of the following: {}", names.join(", "));
    found.map(|name| (*name).to_owned()).ok_or_else(refused)
}

fn sanitize(value: &str) -> Result<String, String> {
    one_of(value, &["no", "yes", "clients"])
}

fn diskless_load(value: &str) -> Result<String, String> {
    one_of(value, &["disabled", "on-empty-db", "swapdb"])
}

const INT_MAX: i64 = i32::MAX as i64;

/// See [`all`](super::parameters::all).
pub(super) static INERT: &[Parameter] = &[
    inert!(always, "activerehashing", "yes", yes_or_no),
    inert!(always, "activedefrag", "no", yes_or_no),
    inert!(always, "active-defrag-cycle-max", "25", between::<1, 99>),
    inert!(always, "active-defrag-cycle-min", "1", between::<1, 99>),
    size(inert!(always, "active-defrag-ignore-bytes", "104857600", some_memory)),
    inert!(always, "active-defrag-max-scan-fields", "1000", between::<1, { i64::MAX }>),
    inert!(always, "active-defrag-threshold-lower", "10", between::<0, 1000>),
    inert!(always, "active-defrag-threshold-upper", "100", between::<0, 1000>),
    inert!(always, "active-expire-effort", "1", between::<1, 10>),
    inert!(at_start, "always-show-logo", "no", yes_or_no),
    inert!(always, "aof-rewrite-incremental-fsync", "yes", yes_or_no),
    inert!(always, "aof-timestamp-enabled", "no", yes_or_no),
    text(inert!(at_start, "appendfilename", "appendonly.aof", any)),
    inert!(always, "busy-reply-threshold", "5000", between::<0, { i64::MAX }>),
    inert!(always, "crash-log-enabled", "yes", yes_or_no),
    inert!(always, "crash-memcheck-enabled", "yes", yes_or_no),
    inert!(always, "dynamic-hz", "yes", yes_or_no),
    text(inert!(always, "ignore-warnings", "", any)),
    inert!(at_start, "io-threads-do-reads", "no", yes_or_no),
    inert!(always, "jemalloc-bg-thread", "yes", yes_or_no),
    inert!(always, "list-compress-depth", "0", between::<0, INT_MAX>),
    inert!(always, "list-max-listpack-size", "-2", between::<{ -INT_MAX - 1 }, INT_MAX>),
    inert!(always, "maxmemory-eviction-tenacity", "10", between::<0, 100>),
    text(inert!(always, "proc-title-template", "{title} {listen-addr} {server-mode}", any)),
    inert!(always, "rdb-del-sync-files", "no", yes_or_no),
    inert!(always, "rdb-save-incremental-fsync", "yes", yes_or_no),
    inert!(always, "repl-diskless-load", "disabled", diskless_load),
    inert!(always, "replica-lazy-flush", "no", yes_or_no),
    inert!(always, "sanitize-dump-payload", "no", sanitize),
    inert!(at_start, "set-proc-title", "yes", yes_or_no),
    size(inert!(always, "stream-node-max-bytes", "4096", memory)),
    inert!(always, "stream-node-max-entries", "100", between::<0, { i64::MAX }>),
    inert!(at_start, "syslog-facility", "local0", facility),
    text(inert!(at_start, "syslog-ident", "redis", any)),
    inert!(always, "tls-session-cache-size", "20480", between::<0, INT_MAX>),
    inert!(always, "tls-session-cache-timeout", "300", between::<0, INT_MAX>),
];

/// Old names of Redis's settings, and the current ones.
pub(super) const ALIASES: &[(&str, &str)] = &[
    ("hash-max-ziplist-entries", "hash-max-listpack-entries"),
    ("hash-max-ziplist-value", "hash-max-listpack-value"),
    ("list-max-ziplist-size", "list-max-listpack-size"),
    ("lua-time-limit", "busy-reply-threshold"),
    ("min-slaves-max-lag", "min-replicas-max-lag"),
    ("min-slaves-to-write", "min-replicas-to-write"),
    ("repl-ping-slave-period", "repl-ping-replica-period"),
    ("slave-announce-ip", "replica-announce-ip"),
    ("slave-announce-port", "replica-announce-port"),
    ("slave-ignore-maxmemory", "replica-ignore-maxmemory"),
    ("slave-lazy-flush", "replica-lazy-flush"),
    ("slave-priority", "replica-priority"),
    ("slave-read-only", "replica-read-only"),
    ("slave-serve-stale-data", "replica-serve-stale-data"),
    ("slaveof", "replicaof"),
    ("zset-max-ziplist-entries", "zset-max-listpack-entries"),
    ("zset-max-ziplist-value", "zset-max-listpack-value"),
];
