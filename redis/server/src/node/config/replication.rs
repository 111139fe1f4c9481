//! Settings of replication.

use super::error::ValueError;
use super::kinds::{Kind, bytes, bytes_by, one_of, text, whole, words, yes_or_no};
use super::setting::settings;
use super::{Config, INT_MAX, OutputLimit};

settings! {
    /// How a server replicates, either way; `repl-sync-backpressure` is this server's own, and so
    /// is `propagation-error-behavior resync`.
    pub(crate) struct ReplicationSettings, entries REPLICATION of config[.replication];

    /// Host and port of the primary that is followed.
    primary: Option<(String, u16)> = None,
        "replicaof": words(primary, show_primary) .at_start() .empty_unless_said()
        .older(&["slaveof"])
        .help("HOST PORT", "follow a primary");
    /// The address of this machine that the primary is reached from, or empty.
    source: String = String::new(),
        "bind-source-addr": text();
    /// Password of the primary, or empty.
    password: String = String::new(),
        "masterauth": text();
    /// User name at the primary, or empty.
    user: String = String::new(),
        "masteruser": text();
    /// Clients are served while the primary is out of reach.
    serve_stale: bool = true,
        "replica-serve-stale-data": yes_or_no() .older(&["slave-serve-stale-data"]);
    /// A replica refuses writes of clients.
    read_only: bool = true,
        "replica-read-only": yes_or_no() .older(&["slave-read-only"]);
    /// For Sentinel, which promotes the replica with the lowest priority first; 0: never.
    priority: u32 = 100,
        "replica-priority": whole(0, INT_MAX) .older(&["slave-priority"]);
    /// For Sentinel: whether it may know this replica.
    announced: bool = true,
        "replica-announced": yes_or_no();
    /// The announced address, or empty.
    announce_ip: String = String::new(),
        "replica-announce-ip": text() .older(&["slave-announce-ip"]);
    /// The announced port, or 0.
    announce_port: u16 = 0,
        "replica-announce-port": whole(0, 65535) .older(&["slave-announce-port"]);
    /// `maxmemory` is the primary's business.
    ignore_maxmemory: bool = true,
        "replica-ignore-maxmemory": yes_or_no() .older(&["slave-ignore-maxmemory"]);
    /// Images go to replicas without a file.
    diskless: bool = true,
        "repl-diskless-sync": yes_or_no();
    /// How long a replica waits for others to share its image.
    diskless_delay_s: u32 = 5,
        "repl-diskless-sync-delay": whole(0, INT_MAX);
    /// The number of replicas for which no more is waited; 0: they always wait.
    diskless_replicas_max: u32 = 0,
        "repl-diskless-sync-max-replicas": whole(0, INT_MAX);
    /// How often the stream says that the primary is there.
    ping_period_s: u32 = 10,
        "repl-ping-replica-period": whole(1, INT_MAX) .older(&["repl-ping-slave-period"]);
    /// How long either side may be silent.
    timeout_s: u32 = 60,
        "repl-timeout": whole(1, INT_MAX);
    /// How much of the stream is kept for replicas that were cut off.
    backlog_bytes: u64 = 1 << 20,
        "repl-backlog-size": bytes_by(backlog, u64::to_string);
    /// For how long after the last replica has left; 0: for ever.
    backlog_ttl_s: u64 = 3600,
        "repl-backlog-ttl": whole(0, i64::MAX as u64);
    /// Number of good replicas without which writes are refused.
    min_replicas: u32 = 0,
        "min-replicas-to-write": whole(0, INT_MAX) .older(&["min-slaves-to-write"]);
    /// A replica is at hand if it was heard of so lately.
    max_lag_s: u32 = 10,
        "min-replicas-max-lag": whole(0, INT_MAX) .older(&["min-slaves-max-lag"]);
    /// Writes wait rather than that a replica which is being synchronised is dropped.
    backpressure: bool = true,
        "repl-sync-backpressure": yes_or_no();
    /// A request of the primary that fails here is passed over.
    ignore_errors: bool = false,
        "propagation-error-behavior": one_of([("ignore", true), ("resync", false)]);
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

/// Redis keeps 16 KiB at least.
fn backlog(value: &str) -> Result<u64, ValueError> {
    bytes(1, i64::MAX as u64).read(value, &0).map(|bytes| bytes.max(16 << 10))
}

fn show_primary(primary: &Option<(String, u16)>) -> String {
    primary.as_ref().map_or(String::new(), |(host, port)| format!("{host} {port}"))
}

fn primary(value: &str) -> Result<Option<(String, u16)>, ValueError> {
    let words: Vec<&str> = value.split_whitespace().collect();
    match words[..] {
        [] => Ok(None),
        [no, one] if no.eq_ignore_ascii_case("no") && one.eq_ignore_ascii_case("one") => Ok(None),
        [host, port] => {
            let port = port.parse().map_err(|_| ValueError::PrimaryPort)?;
            Ok(Some((host.to_owned(), port)))
        }
        _ => Err(ValueError::Count),
    }
}
