//! Settings of replication.

use super::choices::bytes;
use super::parameter::{Parameter, always, at_start, fixed, several_words, size, store, text};
use super::values::{any, number, switch, yes_no};
use super::{Config, OutputLimit};

/// How a server replicates, either way.
#[derive(Debug, Clone)]
pub(crate) struct ReplicationSettings {
    /// Host and port of the primary that is followed.
    pub(crate) primary: Option<(String, u16)>,
    /// Password of the primary, or empty.
    pub(crate) password: String,
    /// User name at the primary, or empty.
    pub(crate) user: String,
    /// Clients are served while the primary is out of reach.
    pub(crate) serve_stale: bool,
    /// A replica refuses writes of clients.
    pub(crate) read_only: bool,
    /// For Sentinel: who is to be promoted first.
    pub(crate) priority: u32,
    /// For Sentinel: whether it may know this replica.
    pub(crate) announced: bool,
    /// The announced address, or empty.
    pub(crate) announce_ip: String,
    /// The announced port, or 0.
    pub(crate) announce_port: u16,
    /// `maxmemory` is the primary's business.
    pub(crate) ignore_maxmemory: bool,
    /// Images go to replicas without a file.
    pub(crate) diskless: bool,
    /// How long a replica waits for others to share its image.
    pub(crate) diskless_delay_s: u32,
    /// So many replicas wait no longer; 0: they always do.
    pub(crate) diskless_replicas_max: u32,
    /// How often the stream says that the primary is there.
    pub(crate) ping_period_s: u32,
    /// How long either side may be silent.
    pub(crate) timeout_s: u32,
    /// How much of the stream is kept for replicas that were cut off.
    pub(crate) backlog_bytes: u64,
    /// For how long after the last replica has left; 0: for ever.
    pub(crate) backlog_ttl_s: u64,
    /// Writes need so many replicas at hand.
    pub(crate) min_replicas: u32,
    /// A replica is at hand if it was heard of so lately.
    pub(crate) max_lag_s: u32,
    /// Writes wait rather than that a replica which is being synchronised is dropped.
    pub(crate) backpressure: bool,
    /// A request of the primary that fails here is passed over.
    pub(crate) ignore_errors: bool,
    /// The address of this machine that the primary is reached from, or empty.
    pub(crate) source: String,
}

impl Default for ReplicationSettings {
    fn default() -> Self {
        Self {
            primary: None,
            password: String::new(),
            user: String::new(),
            serve_stale: true,
            read_only: true,
            priority: 100,
            announced: true,
            announce_ip: String::new(),
            announce_port: 0,
            ignore_maxmemory: true,
            diskless: true,
            diskless_delay_s: 5,
            diskless_replicas_max: 0,
            ping_period_s: 10,
            timeout_s: 60,
            backlog_bytes: 1 << 20,
            backlog_ttl_s: 3600,
            min_replicas: 0,
            max_lag_s: 10,
            backpressure: true,
            ignore_errors: false,
            source: String::new(),
        }
    }
}

impl Config {
    /// How much of the stream may wait for a replica: at least what the backlog holds, as in Redis.
    /// Otherwise a replica that resumes from the backlog would be dropped again and again.
    pub(crate) fn replica_output_limit(&self) -> OutputLimit {
        let mut limit = self.output_limits.replica;
        if limit.hard_bytes > 0 {
            limit.hard_bytes = limit.hard_bytes.max(self.replication.backlog_bytes);
        }
        limit
    }
}

fn count(value: &str) -> Result<u32, String> {
    number(value, 0, i32::MAX as u32)
}

/// Redis keeps 16 KiB at least.
fn backlog(value: &str) -> Result<u64, String> {
    bytes(value, 1).map(|bytes| bytes.max(16 << 10) as u64)
}

fn at_least_one(value: &str) -> Result<u32, String> {
    number(value, 1, i32::MAX as u32)
}

/// The settings, with Redis's names and defaults; `repl-sync-backpressure` is this server's own,
/// and so is `propagation-error-behavior resync`.
pub(super) static REPLICATION: &[Parameter] = &[
    several_words(at_start("replicaof", show_primary, store!(replication.primary, primary))),
    text(always(
        "bind-source-addr",
        |c| c.replication.source.clone(),
        store!(replication.source, any),
    )),
    text(always(
        "masterauth",
        |c| c.replication.password.clone(),
        store!(replication.password, any),
    )),
    text(always("masteruser", |c| c.replication.user.clone(), store!(replication.user, any))),
    always(
        "replica-serve-stale-data",
        |c| yes_no(c.replication.serve_stale),
        store!(replication.serve_stale, switch),
    ),
    always(
        "replica-read-only",
        |c| yes_no(c.replication.read_only),
        store!(replication.read_only, switch),
    ),
    always(
        "replica-priority",
        |c| c.replication.priority.to_string(),
        store!(replication.priority, count),
    ),
    always(
        "replica-announced",
        |c| yes_no(c.replication.announced),
        store!(replication.announced, switch),
    ),
    text(always(
        "replica-announce-ip",
        |c| c.replication.announce_ip.clone(),
        store!(replication.announce_ip, any),
    )),
    always(
        "replica-announce-port",
        |c| c.replication.announce_port.to_string(),
        store!(replication.announce_port, |v| number(v, 0, 65535)),
    ),
    always(
        "replica-ignore-maxmemory",
        |c| yes_no(c.replication.ignore_maxmemory),
        store!(replication.ignore_maxmemory, switch),
    ),
    always(
        "repl-diskless-sync",
        |c| yes_no(c.replication.diskless),
        store!(replication.diskless, switch),
    ),
    always(
        "repl-diskless-sync-delay",
        |c| c.replication.diskless_delay_s.to_string(),
        store!(replication.diskless_delay_s, count),
    ),
    always(
        "repl-diskless-sync-max-replicas",
        |c| c.replication.diskless_replicas_max.to_string(),
        store!(replication.diskless_replicas_max, count),
    ),
    fixed!(always, "repl-disable-tcp-nodelay", "no"),
    always(
        "repl-ping-replica-period",
        |c| c.replication.ping_period_s.to_string(),
        store!(replication.ping_period_s, at_least_one),
    ),
    always(
        "repl-timeout",
        |c| c.replication.timeout_s.to_string(),
        store!(replication.timeout_s, at_least_one),
    ),
    size(always(
        "repl-backlog-size",
        |c| c.replication.backlog_bytes.to_string(),
        store!(replication.backlog_bytes, backlog),
    )),
    always(
        "repl-backlog-ttl",
        |c| c.replication.backlog_ttl_s.to_string(),
        store!(replication.backlog_ttl_s, |v| number(v, 0, i64::MAX as u64)),
    ),
    always(
        "min-replicas-to-write",
        |c| c.replication.min_replicas.to_string(),
        store!(replication.min_replicas, count),
    ),
    always(
        "min-replicas-max-lag",
        |c| c.replication.max_lag_s.to_string(),
        store!(replication.max_lag_s, count),
    ),
    always(
        "repl-sync-backpressure",
        |c| yes_no(c.replication.backpressure),
        store!(replication.backpressure, switch),
    ),
    always(
        "propagation-error-behavior",
        |c| if c.replication.ignore_errors { "ignore" } else { "resync" }.to_owned(),
        store!(replication.ignore_errors, error_behavior),
    ),
];

fn error_behavior(value: &str) -> Result<bool, String> {
    match value {
        "ignore" => Ok(true),
        "resync" => Ok(false),
        _ => Err("argument(s) must be one of the following: ignore, resync".to_owned()),
    }
}

fn show_primary(config: &Config) -> String {
    config
        .replication
        .primary
        .as_ref()
        .map_or(String::new(), |(host, port)| format!("{host} {port}"))
}

fn primary(value: &str) -> Result<Option<(String, u16)>, String> {
    let words: Vec<&str> = value.split_whitespace().collect();
    match words[..] {
        [] => Ok(None),
        [no, one] if no.eq_ignore_ascii_case("no") && one.eq_ignore_ascii_case("one") => Ok(None),
        [host, port] => {
            Ok(Some((host.to_owned(), port.parse().map_err(|_| "Invalid master port".to_owned())?)))
        }
        _ => Err("wrong number of arguments".to_owned()),
    }
}
