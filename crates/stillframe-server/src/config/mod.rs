//! Configuration: redis.conf's names where Redis has one, from flags, a file and CONFIG SET.
//!
//! - Every setting is one line of the registry in [`parameters`]: the flags, the file and CONFIG
//!   all go through it, so that a value means the same everywhere.
//! - A setting that is refused changes nothing.

mod choices;
mod directives;
mod eviction;
mod file;
mod inert;
mod keyspace;
mod operations;
mod parameter;
mod parameters;
mod process;
mod replication;
pub(crate) mod rewrite;
#[cfg(test)]
mod rewrite_tests;
#[cfg(test)]
mod sample_tests;
pub(crate) mod tls;
mod values;
pub(crate) mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;

use stillframe::OnFull;
use stillframe_durability::Policy;
use stillframe_keyspace::Limits;

pub(crate) use choices::show_percentile;
pub(crate) use eviction::Eviction;
pub use file::FileError;
use parameter::Form;
pub(crate) use parameter::{Change, Parameter};
#[cfg(test)]
pub(crate) use parameters::all;
pub(crate) use parameters::{find, named};
pub use process::LogFormat;
pub(crate) use process::{OomScore, ProcessSettings, Supervised};
pub(crate) use replication::ReplicationSettings;
use stillframe_redis::Classes;
use tls::TlsSettings;
pub(crate) use values::Allowed;
pub use values::{Size, parse_size};
pub use words::words as split_words;

/// All settings of a server.
#[derive(Debug, Clone)]
pub struct Config {
    pub(crate) dir: PathBuf,
    /// Whether `dir` was set, from which relative paths then start.
    pub(crate) dir_is_named: bool,
    pub(crate) dbfilename: String,
    pub(crate) bind: Vec<String>,
    pub(crate) port: u16,
    pub(crate) protected_mode: bool,
    pub(crate) requirepass: String,
    pub(crate) tcp_backlog: u32,
    pub(crate) tcp_keepalive_seconds: u32,
    pub(crate) timeout_seconds: u32,
    pub(crate) maxclients: u32,
    pub(crate) query_buffer_limit_bytes: usize,
    pub(crate) output_limits: OutputLimits,
    pub(crate) bulk_bytes_max: usize,
    pub(crate) hz: u32,
    pub(crate) disable_thp: bool,
    pub(crate) loglevel: LogLevel,
    pub(crate) save: Vec<SavePoint>,
    pub(crate) save_is_default: bool,
    pub(crate) stop_writes_on_bgsave_error: bool,
    pub(crate) rdbcompression: bool,
    pub(crate) notify: Classes,
    pub(crate) maxmemory_bytes: u64,
    pub(crate) maxmemory_policy: Eviction,
    pub(crate) maxmemory_samples: usize,
    pub(crate) maxmemory_clients: Size,
    pub(crate) lfu_log_factor: u32,
    pub(crate) lfu_decay_minutes: u32,
    pub(crate) lazyfree: [bool; 5],
    pub(crate) slowlog_slower_than_us: i64,
    pub(crate) slowlog_max_len: usize,
    pub(crate) key_save_delay_us: i32,
    pub(crate) latency_threshold_ms: u64,
    pub(crate) latency_tracking: bool,
    pub(crate) latency_percentiles: Vec<f64>,
    pub(crate) tracking_table_max_keys: usize,
    pub(crate) appendonly: bool,
    pub(crate) appendfsync: Policy,
    pub(crate) appenddirname: String,
    pub(crate) auto_aof_rewrite_percentage: u32,
    pub(crate) auto_aof_rewrite_min_bytes: u64,
    pub(crate) log_keep: LogKeep,
    pub(crate) accept_log_loss: bool,
    pub(crate) debug_command: Allowed,
    pub(crate) module_command: Allowed,
    pub(crate) protected_configs: Allowed,
    pub(crate) key_load_delay_us: i32,
    pub(crate) snapshot: &'static str,
    pub(crate) snapshot_memory: Size,
    pub(crate) snapshot_memory_policy: OnFull,
    pub(crate) snapshot_bandwidth_bytes: u64,
    /// Users, each as the words behind `user`.
    pub(crate) users: Vec<Vec<Vec<u8>>>,
    /// Commands with other names for clients, and those without any, in this order.
    pub(crate) renames: Vec<[Vec<u8>; 2]>,
    pub(crate) aclfile: String,
    /// New users may use all channels.
    pub(crate) acl_all_channels: bool,
    pub(crate) acllog_len_max: usize,
    pub(crate) limits: Limits,
    pub(crate) replication: ReplicationSettings,
    pub(crate) tls: TlsSettings,
    pub(crate) process: ProcessSettings,
    /// Settings that are only kept, where they differ from their defaults.
    pub(crate) inert: BTreeMap<&'static str, String>,
    /// Reports a new log level to the writer of the log.
    pub(crate) log_switch: Option<fn(LogLevel)>,
    /// Gives free memory back to the system.
    pub(crate) give_back: Option<fn()>,
    pub(crate) config_file: Option<PathBuf>,
}

/// A directive as it was given, for the text of an error.
fn directive<V: AsRef<[u8]>>(name: &str, values: &[V]) -> String {
    let quoted = values.iter().map(|value| format!(" {}", words::quote(value.as_ref())));
    format!("'{name}{}'", quoted.collect::<String>())
}

/// What is wrong with a value that is no text.
const NO_TEXT: &str = "a value is not UTF-8 text";

/// Save after so many seconds if so many changes were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SavePoint {
    /// Seconds since the last successful save.
    pub(crate) seconds: u64,
    /// Least number of changes.
    pub(crate) changes: u64,
}

/// The kept past.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogKeep {
    /// How long ago a state may be; 0: only the dump and the log behind it are kept.
    pub(crate) seconds: u64,
    /// Most bytes kept for that, beyond one earlier image and the log since; 0: no limit.
    pub(crate) bytes: u64,
}

/// When a client that does not read its replies is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OutputLimit {
    /// At once above this; 0: never.
    pub(crate) hard_bytes: u64,
    /// Above this for `soft_seconds` on end; 0: never.
    pub(crate) soft_bytes: u64,
    /// See `soft_bytes`.
    pub(crate) soft_seconds: u64,
}

impl OutputLimit {
    /// Unread replies above which a client is closed without any limit of its own, in bytes: one
    /// request may ask for more than there is memory (`SRANDMEMBER key -16000000`).
    const NO_LIMIT_BYTES: u64 = 4 << 30;

    /// The same for a client that must authenticate and has not: it could make the server keep
    /// replies that it never reads.
    pub(crate) const STRANGER: Self = Self { hard_bytes: 1024, soft_bytes: 0, soft_seconds: 0 };

    /// Bytes that no limit counts: Redis has a buffer of that size beside those it counts. So a
    /// small limit does not lock out an operator who wants to raise it.
    pub(crate) const UNCOUNTED_BYTES: u64 = 16 << 10;

    /// Replies beyond those count by blocks of so many bytes: what Redis reserves for them.
    const BLOCK_BYTES: u64 = (20 << 10) - 16;

    /// The bytes that limits count for so many bytes of unread replies.
    pub(crate) fn counted(pending_bytes: u64) -> u64 {
        let beyond = pending_bytes.saturating_sub(Self::UNCOUNTED_BYTES);
        beyond.div_ceil(Self::BLOCK_BYTES).saturating_mul(Self::BLOCK_BYTES)
    }

    /// Bytes of unread replies that no client may have.
    pub(crate) fn hard_bytes_max(&self) -> usize {
        let bytes = if self.hard_bytes == 0 {
            Self::NO_LIMIT_BYTES
        } else {
            let counted = self.hard_bytes - self.hard_bytes % Self::BLOCK_BYTES;
            counted.saturating_add(Self::UNCOUNTED_BYTES)
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

/// Limits by class of client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputLimits {
    /// Clients that send commands.
    pub(crate) normal: OutputLimit,
    /// Replicas.
    pub(crate) replica: OutputLimit,
    /// Subscribers.
    pub(crate) pubsub: OutputLimit,
}

impl Default for OutputLimits {
    fn default() -> Self {
        let replica = [256 << 20, 64 << 20];
        let pubsub = [32 << 20, 8 << 20];
        let [replica, pubsub] = [replica, pubsub].map(|[hard_bytes, soft_bytes]| OutputLimit {
            hard_bytes,
            soft_bytes,
            soft_seconds: 60,
        });
        Self { normal: OutputLimit::default(), replica, pubsub }
    }
}

/// How much is logged, in Redis's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// Connections coming and going.
    Verbose,
    /// Events for an operator.
    Notice,
    /// Only what needs attention.
    Warning,
}

impl Default for Config {
    fn default() -> Self {
        let point = |seconds, changes| SavePoint { seconds, changes };
        Self {
            dir: PathBuf::from("./stillframe-data"),
            dir_is_named: false,
            dbfilename: "dump.rdb".to_owned(),
            bind: vec!["127.0.0.1".to_owned()],
            port: 6379,
            protected_mode: true,
            requirepass: String::new(),
            tcp_backlog: 511,
            tcp_keepalive_seconds: 300,
            timeout_seconds: 0,
            maxclients: 10_000,
            query_buffer_limit_bytes: 1 << 30,
            output_limits: OutputLimits::default(),
            bulk_bytes_max: 512 << 20,
            hz: 10,
            disable_thp: true,
            loglevel: LogLevel::Notice,
            save: vec![point(3600, 1), point(300, 100), point(60, 10_000)],
            save_is_default: true,
            stop_writes_on_bgsave_error: true,
            rdbcompression: true,
            notify: Classes::default(),
            maxmemory_bytes: 0,
            maxmemory_policy: Eviction::NONE,
            maxmemory_samples: 5,
            maxmemory_clients: Size::Bytes(0),
            lfu_log_factor: 10,
            lfu_decay_minutes: 1,
            lazyfree: [false; 5],
            slowlog_slower_than_us: 10_000,
            slowlog_max_len: 128,
            key_save_delay_us: 0,
            latency_threshold_ms: 0,
            latency_tracking: true,
            latency_percentiles: vec![50.0, 99.0, 99.9],
            tracking_table_max_keys: 1_000_000,
            appendonly: false,
            appendfsync: Policy::EverySecond,
            appenddirname: "appendonlydir".to_owned(),
            auto_aof_rewrite_percentage: 100,
            auto_aof_rewrite_min_bytes: 64 << 20,
            log_keep: LogKeep { seconds: 3600, bytes: 1 << 30 },
            accept_log_loss: false,
            debug_command: Allowed::No,
            module_command: Allowed::No,
            protected_configs: Allowed::No,
            key_load_delay_us: 0,
            snapshot: "imprint",
            snapshot_memory: Size::Percent(25),
            snapshot_memory_policy: OnFull::Slow,
            snapshot_bandwidth_bytes: 200_000_000,
            users: Vec::new(),
            renames: Vec::new(),
            aclfile: String::new(),
            acl_all_channels: false,
            acllog_len_max: 128,
            limits: Limits { hash_entries: 512, ..Limits::default() },
            replication: ReplicationSettings::default(),
            tls: TlsSettings::default(),
            process: ProcessSettings::default(),
            inert: BTreeMap::new(),
            log_switch: None,
            give_back: None,
            config_file: None,
        }
    }
}

impl Config {
    /// Sets one directive at start: `set("save", &["60 1000"])`.
    ///
    /// # Errors
    /// One sentence: what is wrong with the directive or its value.
    pub fn set<V: AsRef<[u8]>>(&mut self, name: &str, values: &[V]) -> Result<(), String> {
        let Some(parameter) = find(name) else { return self.set_other(name, values) };
        let texts: Result<Vec<&str>, _> =
            values.iter().map(|value| std::str::from_utf8(value.as_ref())).collect();
        let value = match (&texts.map_err(|_| NO_TEXT)?[..], parameter.form) {
            // Several words may come as one: "60 1000".
            ([value], Form::Words) if !value.is_empty() => {
                let words = words::words(value.as_bytes())?;
                String::from_utf8(words.join(&b' ')).map_err(|_| NO_TEXT)?
            }
            ([value], _) => (*value).to_owned(),
            (texts, Form::Words) => texts.join(" "),
            (_, _) => return Err(directive(name, values) + ": wrong number of arguments"),
        };
        if parameter.name == "save" {
            return self.add_save_points(&value);
        }
        let set = (parameter.set)(self, &value);
        set.map_err(|problem| format!("{}: {problem}", directive(name, values)))
    }

    /// The first `save` at start replaces the defaults, the next ones add to it.
    fn add_save_points(&mut self, value: &str) -> Result<(), String> {
        let points = values::save_points(value).map_err(|e| format!("save {value}: {e}"))?;
        if self.save_is_default || points.is_empty() {
            self.save.clear();
        }
        self.save_is_default = false;
        self.save.extend(points);
        Ok(())
    }

    /// The data directory, if it was set: relative paths of other settings start from there.
    pub(crate) fn data_directory(&self) -> Option<&std::path::Path> {
        self.dir_is_named.then_some(&self.dir)
    }

    /// The name of a Redis server's append-only file.
    pub(crate) fn append_file(&self) -> &str {
        self.inert.get("appendfilename").map_or("appendonly.aof", String::as_str)
    }

    /// Whether only this machine can connect.
    pub(crate) fn loopback_only(&self) -> bool {
        self.bind.iter().all(|address| {
            let address = address.trim_start_matches('-');
            address == "localhost"
                || address.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
        })
    }

    /// How much is logged.
    #[must_use]
    pub fn loglevel(&self) -> LogLevel {
        self.loglevel
    }

    /// Sets the function to call when CONFIG SET changes the log level.
    pub fn on_loglevel(&mut self, switch: fn(LogLevel)) {
        self.log_switch = Some(switch);
    }

    /// Sets the function that gives freed memory back to the system: the program chooses the
    /// allocator.
    pub fn on_give_back(&mut self, give_back: fn()) {
        self.give_back = Some(give_back);
    }

    /// The file that the log goes to, or `None` for standard error.
    #[must_use]
    pub fn logfile(&self) -> Option<&std::path::Path> {
        let file = &self.process.logfile;
        (!file.is_empty()).then(|| file.as_ref())
    }

    /// How the lines of the log are written.
    #[must_use]
    pub fn log_format(&self) -> LogFormat {
        self.process.log_format
    }

    /// The port for plain TCP, if any: port 0 picks a free one, unless the server is reached over
    /// TLS or a unix socket.
    pub(crate) fn plain_port(&self) -> Option<u16> {
        let otherwise = self.tls.port > 0 || !self.process.unixsocket.is_empty();
        (self.port > 0 || !otherwise).then_some(self.port)
    }
}
