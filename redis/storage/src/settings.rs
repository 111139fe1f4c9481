//! The settings of dumps and log, by Redis's names where Redis has them.

use stillframe_durability::Policy;
use stillframe_rdb::Version;

/// The settings that storage obeys. A server copies them from its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `dbfilename`: the dump file's name.
    pub dbfilename: String,
    /// `save`: when to save; one of them is enough.
    pub save: Vec<SavePoint>,
    /// `stop-writes-on-bgsave-error`.
    pub stop_writes_on_bgsave_error: bool,
    /// `rdbcompression`.
    pub rdbcompression: bool,
    /// `rdb-version`: the version of dumps.
    pub rdb_version: RdbVersion,
    /// `maxmemory-policy` looks at the uses of keys, which dumps then hold.
    pub saves_uses: bool,
    /// `snapshot-bandwidth`: most bytes of a dump written per second, 0 for no limit.
    pub snapshot_bandwidth_bytes: u64,
    /// `appendonly`: whether a log is kept.
    pub appendonly: bool,
    /// `appendfsync`: when its records are on the disk.
    pub appendfsync: Policy,
    /// `appenddirname`: the directory of the logs in the data directory.
    pub appenddirname: String,
    /// `auto-aof-rewrite-percentage`.
    pub auto_aof_rewrite_percentage: u32,
    /// `auto-aof-rewrite-min-size`.
    pub auto_aof_rewrite_min_bytes: u64,
    /// `accept-log-loss`: a damaged log is read up to the damage.
    pub accept_log_loss: bool,
    /// `log-keep-age` and `log-keep-bytes`.
    pub log_keep: LogKeep,
    /// `key-load-delay`: a pause after each key or record that is loaded, in microseconds.
    pub key_load_delay_us: i32,
    /// `rdb-key-save-delay`: a pause after each key that is saved, in microseconds.
    pub key_save_delay_us: i32,
}

impl Default for Settings {
    /// A server's defaults.
    fn default() -> Self {
        let point = |seconds, changes| SavePoint { seconds, changes };
        Self {
            dbfilename: "dump.rdb".to_owned(),
            save: vec![point(3600, 1), point(300, 100), point(60, 10_000)],
            stop_writes_on_bgsave_error: true,
            rdbcompression: true,
            rdb_version: RdbVersion::Auto,
            saves_uses: false,
            snapshot_bandwidth_bytes: 200_000_000,
            appendonly: false,
            appendfsync: Policy::EverySecond,
            appenddirname: "appendonlydir".to_owned(),
            auto_aof_rewrite_percentage: 100,
            auto_aof_rewrite_min_bytes: 64 << 20,
            accept_log_loss: false,
            log_keep: LogKeep { seconds: 3600, bytes: 1 << 30 },
            key_load_delay_us: 0,
            key_save_delay_us: 0,
        }
    }
}

/// The choice of the version of RDB files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RdbVersion {
    /// The lowest one that holds the data.
    Auto,
    /// This one, or no file.
    Fixed(Version),
}

impl RdbVersion {
    /// The version of a payload of a hash with fields that expire: no payload needs to be refused.
    pub fn for_expiring_fields(self) -> Version {
        match self {
            Self::Fixed(Version::Valkey80) => Version::Valkey80,
            _ => Version::Redis12,
        }
    }
}

/// Save after so many seconds if so many changes were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavePoint {
    /// Seconds since the last successful save.
    pub seconds: u64,
    /// Least number of changes.
    pub changes: u64,
}

/// The kept past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogKeep {
    /// How long ago a state may be; 0: only the dump and the log behind it are kept.
    pub seconds: u64,
    /// Most bytes kept for that, beyond one earlier image and the log since; 0: no limit.
    pub bytes: u64,
}
