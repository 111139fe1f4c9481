//! Configuration: redis.conf's names where Redis has one, from flags, a file and CONFIG SET.
//!
//! - Every setting is one entry of a list ([`setting`]): flags, the file, CONFIG and `--help` all
//!   come from it, so that a value means the same everywhere.
//! - A setting that is refused changes nothing.

mod archive;
mod choices;
mod directives;
pub(crate) mod error;
mod eviction;
mod file;
mod inert;
mod keyspace;
mod kinds;
mod process;
mod raft;
mod replication;
pub(crate) mod rewrite;
#[cfg(test)]
mod rewrite_tests;
#[cfg(test)]
mod sample_tests;
mod setting;
mod storage;
pub(crate) mod tls;
mod values;
pub(crate) mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use stillframe::OnFull;
use stillframe_commands::{Classes, RenameError};
use stillframe_durability::Policy;
use stillframe_keyspace::{KEY_BYTES_MAX, Limits};
use stillframe_rdb::Version;
use stillframe_script::RedisVersion;
use stillframe_storage::{LogKeep, RdbVersion, SavePoint};

use crate::node::archive::OpenArchive;

use archive::{ARCHIVE, ArchiveSettings};
use choices::{
    OutputClasses, Save, addresses, algorithm, allowed, bandwidth, beats, directory_name,
    event_classes, file_name, percentiles, redis_version, show_percentiles,
};
pub(crate) use choices::{ViewsFull, show_percentile};
pub use error::{ConfigError, FileError, QuoteError, ValueError};
pub(crate) use eviction::Eviction;
use inert::{FIXED, INERT};
use kinds::{Form, bytes, one_of, quoted, text, whole, word, words, yes_or_no};
pub use process::LogFormat;
use process::PROCESS;
pub(crate) use process::{OomScore, ProcessSettings, Supervised};
use raft::RAFT;
pub use raft::read_peers;
pub(crate) use raft::{RaftSettings, Reads, peer};
use replication::REPLICATION;
pub(crate) use replication::ReplicationSettings;
pub(crate) use setting::{Change, Effect, Setting};
use setting::{entry, settings};
use tls::{TLS, TlsSettings};
pub(crate) use values::Allowed;
pub use values::{Size, parse_size};
use values::{output_limit_lines, share};
pub use words::words as split_words;

/// Says whether commands can have these names: pairs of an old and a new one.
pub type CheckNames = fn(&[[Vec<u8>; 2]]) -> Result<(), RenameError>;

/// The largest number that Redis takes for most of its settings.
const INT_MAX: u32 = i32::MAX as u32;
const LONG_MAX: usize = i64::MAX as usize;
const SIZE_MAX: u64 = u64::MAX;

settings! {
    /// All settings of a server.
    pub struct Config, entries SETTINGS of config[];

    dbfilename: String = "dump.rdb".to_owned(),
        "dbfilename": quoted(file_name, String::clone)
        .protected().effects(&[Effect::Directory]);
    bind: Vec<String> = vec!["127.0.0.1".to_owned()],
        "bind": words(addresses, |it| it.join(" ")) .effects(&[Effect::Listen]);
    port: u16 = 6379,
        "port": whole(0, 65535) .effects(&[Effect::Listen])
        .help("PORT, --bind ADDRESS...", "where clients connect [{port} at {bind}]");
    protected_mode: bool = true,
        "protected-mode": yes_or_no();
    requirepass: String = String::new(),
        "requirepass": text() .effects(&[Effect::Password]) .empty_unless_said()
        .help("PASSWORD", "the password that clients must give");
    tcp_backlog: u32 = 511,
        "tcp-backlog": whole(0, INT_MAX) .at_start();
    tcp_keepalive_seconds: u32 = 300,
        "tcp-keepalive": whole(0, INT_MAX);
    timeout_seconds: u32 = 0,
        "timeout": whole(0, INT_MAX);
    maxclients: u32 = 10_000,
        "maxclients": whole(1, u32::MAX) .effects(&[Effect::Clients]);
    query_buffer_limit_bytes: usize = 1 << 30,
        "client-query-buffer-limit": bytes(1 << 20, LONG_MAX);
    output_limits: OutputLimits = OutputLimits::default(),
        "client-output-buffer-limit": OutputClasses() .lines(output_limit_lines);
    bulk_bytes_max: usize = 512 << 20,
        "proto-max-bulk-len": bytes(1 << 20, KEY_BYTES_MAX);
    hz: u32 = 10,
        "hz": word(beats, u32::to_string);
    /// The version that clients are told: some use only what it had.
    redis_version: RedisVersion = RedisVersion { major: 7, minor: 4, patch: 0 },
        "redis-version": word(redis_version, RedisVersion::to_string) .own_at_start();
    disable_thp: bool = true,
        "disable-thp": yes_or_no() .at_start();
    loglevel: LogLevel = LogLevel::Notice,
        "loglevel": one_of([
            ("debug", LogLevel::Debug),
            ("verbose", LogLevel::Verbose),
            ("notice", LogLevel::Notice),
            ("warning", LogLevel::Warning),
        ])
        .effects(&[Effect::LogLevel]);
    save: Save = Save::default(),
        "save": words(Save::parse, Save::show) .add(add_save_points) .lines(save_lines)
        .help(
            "\"SECONDS CHANGES...\"",
            "when to save; may be repeated, \"\" is never\n[{save}]"
        );
    stop_writes_on_bgsave_error: bool = true,
        "stop-writes-on-bgsave-error": yes_or_no();
    rdbcompression: bool = true,
        "rdbcompression": yes_or_no();
    /// The version of dumps, and the form in payloads of fields that expire.
    rdb_version: RdbVersion = RdbVersion::Auto,
        "rdb-version": one_of([
            ("auto", RdbVersion::Auto),
            ("10", RdbVersion::Fixed(Version::Redis10)),
            ("11", RdbVersion::Fixed(Version::Redis11)),
            ("12", RdbVersion::Fixed(Version::Redis12)),
            ("13", RdbVersion::Fixed(Version::Redis13)),
            ("14", RdbVersion::Fixed(Version::Redis14)),
            ("80", RdbVersion::Fixed(Version::Valkey80)),
        ]);
    notify: Classes = Classes::default(),
        "notify-keyspace-events": quoted(event_classes, |it| it.show());
    tracking_table_max_keys: usize = 1_000_000,
        "tracking-table-max-keys": whole(0, LONG_MAX);
    snapshot: &'static str = "imprint",
        "snapshot": word(algorithm, |it| (*it).to_owned()) .own_at_start()
        .help("NAME", "the algorithm that takes images [{snapshot}];\nthis build has {algorithms}");
    snapshot_memory: Size = Size::Percent(25),
        "snapshot-memory": word(Size::parse, Size::to_string) .own_at_start()
        .help("SIZE|PERCENT", "most memory an image may take for itself [{snapshot-memory}]");
    snapshot_memory_policy: OnFull = OnFull::Slow,
        "snapshot-memory-policy": one_of([("slow", OnFull::Slow), ("cancel", OnFull::Cancel)])
        .own_at_start();
    snapshot_bandwidth_bytes: u64 = 200_000_000,
        "snapshot-bandwidth": word(bandwidth, u64::to_string) .effects(&[Effect::Bandwidth])
        .help("RATE", "most bytes a second that a save writes [{snapshot-bandwidth}]");
    views_max: u32 = 16,
        "views-max": whole(0, 1024)
        .help("COUNT", "most views (STILLFRAME VIEW) open at a time [{views-max}]");
    views_full: ViewsFull = ViewsFull::Refuse,
        "views-full": one_of([
            ("refuse", ViewsFull::Refuse),
            ("close-oldest", ViewsFull::CloseOldest),
        ]);
    views_memory: Size = Size::Percent(10),
        "views-memory": word(Size::parse, Size::to_string)
        .help("SIZE|PERCENT", "most memory that views may hold [{views-memory}]");
    branches_max: u32 = 256,
        "branches-max": whole(0, 65536)
        .help("COUNT", "most branches (STILLFRAME BRANCH) open at a time [{branches-max}]");
    branches_memory: Size = Size::Percent(10),
        "branches-memory": word(Size::parse, Size::to_string)
        .help("SIZE|PERCENT", "most memory that branches may hold [{branches-memory}]");
    views_timeout_seconds: u32 = 300,
        "views-timeout": whole(0, INT_MAX);
    appendonly: bool = false,
        "appendonly": yes_or_no() .effects(&[Effect::Log])
        .help("yes|no", "log every change, so that a crash loses none [{appendonly}]");
    appendfsync: Policy = Policy::EverySecond,
        "appendfsync": one_of([
            ("everysec", Policy::EverySecond),
            ("always", Policy::Always),
            ("no", Policy::No),
        ])
        .help("always|everysec|no", "when logged changes are on the disk [{appendfsync}]");
    appenddirname: String = "appendonlydir".to_owned(),
        "appenddirname": quoted(directory_name, String::clone) .at_start();
    auto_aof_rewrite_percentage: u32 = 100,
        "auto-aof-rewrite-percentage": whole(0, INT_MAX);
    auto_aof_rewrite_min_bytes: u64 = 64 << 20,
        "auto-aof-rewrite-min-size": bytes(0, SIZE_MAX);
    accept_log_loss: bool = false,
        "accept-log-loss": yes_or_no() .own_at_start();
    maxmemory_bytes: u64 = 0,
        "maxmemory": bytes(0, SIZE_MAX)
        .help("SIZE", "most memory for data and clients; 0: any [{maxmemory}]");
    maxmemory_policy: Eviction = Eviction::NONE,
        "maxmemory-policy": word(Eviction::parse, |it| it.name().to_owned());
    maxmemory_samples: usize = 5,
        "maxmemory-samples": whole(1, INT_MAX as usize);
    maxmemory_clients: Size = Size::Bytes(0),
        "maxmemory-clients": word(share, Size::to_string);
    lfu_log_factor: u32 = 10,
        "lfu-log-factor": whole(0, INT_MAX);
    lfu_decay_minutes: u32 = 1,
        "lfu-decay-time": whole(0, INT_MAX);
    defragments: bool = true,
        "activedefrag": yes_or_no();
    defrag_ignored_bytes: u64 = 100 << 20,
        "active-defrag-ignore-bytes": bytes(1, LONG_MAX as u64);
    defrag_lower_percent: u32 = 10,
        "active-defrag-threshold-lower": whole(0, 1000);
    defrag_upper_percent: u32 = 100,
        "active-defrag-threshold-upper": whole(0, 1000);
    defrag_least_time: u32 = 1,
        "active-defrag-cycle-min": whole(1, 99);
    defrag_most_time: u32 = 25,
        "active-defrag-cycle-max": whole(1, 99);
    slowlog_slower_than_us: i64 = 10_000,
        "slowlog-log-slower-than": whole(-1, i64::MAX);
    slowlog_max_len: usize = 128,
        "slowlog-max-len": whole(0, LONG_MAX);
    slowlog_args_max: usize = 32,
        "slowlog-entry-max-argc": whole(2, INT_MAX as usize);
    slowlog_arg_bytes_max: usize = 128,
        "slowlog-entry-max-string-len": whole(1, LONG_MAX);
    latency_threshold_ms: u64 = 0,
        "latency-monitor-threshold": whole(0, LONG_MAX as u64);
    latency_tracking: bool = true,
        "latency-tracking": yes_or_no();
    latency_percentiles: Vec<f64> = vec![50.0, 99.0, 99.9],
        "latency-tracking-info-percentiles": words(percentiles, |it| show_percentiles(it));
    aclfile: String = String::new(),
        "aclfile": text() .at_start();
    acllog_len_max: usize = 128,
        "acllog-max-len": whole(0, LONG_MAX);
    script_memory_bytes: usize = 1 << 30,
        "script-memory-limit": bytes(4 << 20, LONG_MAX);
    script_instructions: u64 = 0,
        "script-instruction-limit": whole(0, LONG_MAX as u64);
    /// How long a script runs before other clients are told of it; 0: they wait.
    busy_threshold_ms: u64 = 5000,
        "busy-reply-threshold": whole(0, LONG_MAX as u64) .older(&["lua-time-limit"]);
    /// New users may use all channels.
    acl_all_channels: bool = false,
        "acl-pubsub-default": one_of([("allchannels", true), ("resetchannels", false)]);
    debug_command: Allowed = Allowed::No,
        "enable-debug-command": allowed() .at_start();
    module_command: Allowed = Allowed::No,
        "enable-module-command": allowed() .at_start();
    protected_configs: Allowed = Allowed::No,
        "enable-protected-configs": allowed() .at_start();
    key_load_delay_us: i32 = 0,
        "key-load-delay": whole(i32::MIN, i32::MAX) .hidden();
    key_save_delay_us: i32 = 0,
        "rdb-key-save-delay": whole(i32::MIN, i32::MAX) .hidden();

    + beside:
    dir: PathBuf = PathBuf::from("./stillframe-data");
    /// Whether `dir` was set, from which relative paths then start.
    dir_is_named: bool = false;
    log_keep: LogKeep = LogKeep { seconds: 3600, bytes: 1 << 30 };
    limits: Limits = Limits { hash_entries: 512, ..Limits::default() };
    replication: ReplicationSettings = ReplicationSettings::default();
    raft: RaftSettings = RaftSettings::default();
    tls: TlsSettings = TlsSettings::default();
    process: ProcessSettings = ProcessSettings::default();
    archive: ArchiveSettings = ArchiveSettings::default();
    /// Users, each as the words behind `user`.
    users: Vec<Vec<Vec<u8>>> = Vec::new();
    /// Commands with other names for clients, and those without any, in this order.
    renames: Vec<[Vec<u8>; 2]> = Vec::new();
    /// Settings that are only kept, where they differ from their defaults.
    inert: BTreeMap<&'static str, String> = BTreeMap::new();
    /// Reports a new log level to the writer of the log.
    log_switch: Option<fn(LogLevel)> = None;
    /// Gives free memory back to the system.
    give_back: Option<fn(bool)> = None;
    /// Whether the memory at an address is sparse.
    is_sparse: Option<fn(*const u8) -> bool> = None;
    /// Opens an archive.
    open_archive: Option<OpenArchive> = None;
    /// Checks new names of commands.
    check_names: Option<CheckNames> = None;
    /// The label of the dump that a tool makes: the first one of a group.
    dump_label: Option<Vec<u8>> = None;
    config_file: Option<PathBuf> = None;
    /// The server is part of another program.
    is_embedded: bool = false;
}

/// Settings whose place is not a field of its own.
static PLACED: &[Setting] = &[
    Setting::new(
        "dir",
        || Form::Text,
        |c| std::path::absolute(&c.dir).unwrap_or(c.dir.clone()).display().to_string(),
        |c, value| {
            c.dir = std::path::absolute(value).map_err(|_| ValueError::Directory)?;
            c.dir_is_named = true;
            Ok(())
        },
    )
    .protected()
    .effects(&[Effect::Directory])
    .help("DIR", "the data directory [./stillframe-data]"),
    entry!("log-keep-age", u64, c, c.log_keep.seconds, whole(0, u64::from(u32::MAX))),
    entry!("log-keep-bytes", u64, c, c.log_keep.bytes, bytes(0, SIZE_MAX)),
    entry!("hash-max-listpack-entries", usize, c, c.limits.hash_entries, whole(0, LONG_MAX))
        .older(&["hash-max-ziplist-entries"]),
    entry!("hash-max-listpack-value", usize, c, c.limits.hash_value_bytes, bytes(0, LONG_MAX))
        .older(&["hash-max-ziplist-value"]),
    entry!("set-max-intset-entries", usize, c, c.limits.set_integers, whole(0, LONG_MAX)),
    entry!("zset-max-listpack-entries", usize, c, c.limits.sorted_entries, whole(0, LONG_MAX))
        .older(&["zset-max-ziplist-entries"]),
    entry!("zset-max-listpack-value", usize, c, c.limits.sorted_value_bytes, bytes(0, LONG_MAX))
        .older(&["zset-max-ziplist-value"]),
    entry!("stream-node-max-entries", usize, c, c.limits.stream_node_entries, whole(0, LONG_MAX)),
    entry!("stream-idmp-duration", u32, c, c.limits.stream_idmp.duration_s, whole(1, 86_400)),
    entry!("stream-idmp-maxsize", u32, c, c.limits.stream_idmp.entries, whole(1, 10_000)),
];

/// Every setting.
pub(crate) fn all() -> impl Iterator<Item = &'static Setting> {
    [SETTINGS, PLACED, REPLICATION, RAFT, TLS, PROCESS, ARCHIVE, FIXED, INERT].into_iter().flatten()
}

/// Every setting under every name it has.
pub(crate) fn named() -> impl Iterator<Item = (&'static str, &'static Setting)> {
    let older = all().flat_map(|it| it.older.iter().map(move |name| (*name, it)));
    all().map(|it| (it.name, it)).chain(older)
}

/// The setting of that name, in any case; names that it had in older versions count, too.
pub(crate) fn find(name: &str) -> Option<&'static Setting> {
    let name = name.to_ascii_lowercase();
    named().find(|(known, _)| *known == name).map(|(_, setting)| setting)
}

/// What `serve --help` says of settings: those that have a text for it, in the list's order.
#[must_use]
pub fn flags_help() -> String {
    let defaults = Config::default();
    all().map(|setting| setting.shown_help(&defaults)).collect()
}

/// The names of all settings, each a directive of a configuration file and a flag of `serve`.
pub fn directives() -> impl Iterator<Item = &'static str> {
    all().filter(|setting| !setting.is_hidden).map(|setting| setting.name)
}

/// The first `save` at start replaces the defaults, the next ones add to it.
fn add_save_points(config: &mut Config, value: &str) -> Result<(), ValueError> {
    let Save { points, .. } = Save::parse(value)?;
    if config.save.is_default || points.is_empty() {
        config.save.points.clear();
    }
    config.save.is_default = false;
    config.save.points.extend(points);
    Ok(())
}

fn save_lines(config: &Config, _: &Config) -> Vec<(String, bool)> {
    match &config.save.points[..] {
        [] => vec![("save \"\"".to_owned(), true)],
        points => {
            let line = |it: &SavePoint| (format!("save {} {}", it.seconds, it.changes), true);
            points.iter().map(line).collect()
        }
    }
}

/// A directive as it was given, for the text of an error.
fn directive<V: AsRef<[u8]>>(name: &str, values: &[V]) -> String {
    let quoted = values.iter().map(|value| format!(" {}", words::quote(value.as_ref())));
    format!("'{name}{}'", quoted.collect::<String>())
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

    /// Whether a client is closed that has been above `soft_bytes` for so long.
    pub(crate) fn ends_patience(&self, above: Duration) -> bool {
        above > Duration::from_secs(self.soft_seconds)
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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

impl Config {
    /// Sets one directive at start: `set("save", &["60 1000"])`.
    ///
    /// # Errors
    /// The directive or its value is wrong.
    pub fn set<V: AsRef<[u8]>>(&mut self, name: &str, values: &[V]) -> Result<(), ConfigError> {
        let Some(setting) = find(name) else { return self.set_other(name, values) };
        let texts: Result<Vec<&str>, _> =
            values.iter().map(|value| std::str::from_utf8(value.as_ref())).collect();
        let value = match (&texts.map_err(|_| ConfigError::NotText)?[..], (setting.form)()) {
            // Several words may come as one: "60 1000".
            ([value], Form::Words) if !value.is_empty() => {
                let words = words::words(value.as_bytes())?;
                String::from_utf8(words.join(&b' ')).map_err(|_| ConfigError::NotText)?
            }
            ([value], _) => (*value).to_owned(),
            (texts, Form::Words) => texts.join(" "),
            (_, _) => return Err(ConfigError::Count { directive: directive(name, values) }),
        };
        let set = setting.add.unwrap_or(setting.set)(self, &value);
        set.map_err(|error| ConfigError::Value { directive: directive(name, values), error })
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

    /// The settings of a server within a program: the usual ones, but for no port.
    #[must_use]
    pub fn embedded(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), port: 0, is_embedded: true, ..Self::default() }
    }

    /// Sets the function to call when CONFIG SET changes the log level.
    pub fn on_loglevel(&mut self, switch: fn(LogLevel)) {
        self.log_switch = Some(switch);
    }

    /// Sets the function that gives freed memory back to the system: the program chooses the
    /// allocator. Its argument: whether the caller waits until all of it has gone back.
    pub fn on_give_back(&mut self, give_back: fn(bool)) {
        self.give_back = Some(give_back);
    }

    /// Sets the function that says whether most of the memory around a live allocation is free, so
    /// that moving what is left there lets the allocator give it back. Any thread may call it.
    pub fn on_defragment(&mut self, is_sparse: fn(*const u8) -> bool) {
        self.is_sparse = Some(is_sparse);
    }

    /// Whether questions in SQL are to be answered.
    #[must_use]
    pub fn answers_queries(&self) -> bool {
        self.process.query_port > 0
    }

    /// Sets the function that opens an archive: the program knows object stores.
    pub fn on_archive(&mut self, open: OpenArchive) {
        self.open_archive = Some(open);
    }

    /// Sets the function that checks new names of commands; without it the server checks them at
    /// start.
    pub fn on_rename(&mut self, check: CheckNames) {
        self.check_names = Some(check);
    }

    /// Sets the label of the dump that [`import`](crate::import()) or [`rewind`](crate::rewind())
    /// makes: it is the first one of a group.
    pub fn label_dump(&mut self, label: Vec<u8>) {
        self.dump_label = Some(label);
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
        let has_socket = self.tls.port > 0 || !self.process.unixsocket.is_empty();
        let otherwise = has_socket || self.is_embedded;
        (self.port > 0 || !otherwise).then_some(self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Not up to a second later: fractions of a second count.
    #[test]
    fn a_soft_limit_ends_right_behind_its_seconds() {
        let limit = OutputLimit { hard_bytes: 0, soft_bytes: 1, soft_seconds: 4 };
        assert!(!limit.ends_patience(Duration::from_secs(4)));
        assert!(limit.ends_patience(Duration::from_millis(4_001)));
    }
}
