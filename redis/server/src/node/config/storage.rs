//! What dumps and the log need of a configuration.

use stillframe_storage::{RdbVersion, Settings};

use super::Config;

impl Config {
    /// The settings of dumps and log.
    pub(crate) fn of_storage(&self) -> Settings {
        Settings {
            dbfilename: self.dbfilename.clone(),
            // A member of a group takes images when the group wants them.
            save: if self.raft.id > 0 { Vec::new() } else { self.save.to_vec() },
            stop_writes_on_bgsave_error: self.stop_writes_on_bgsave_error,
            rdbcompression: self.rdbcompression,
            // A member's images are for members alone, and must not fail.
            rdb_version: if self.raft.id > 0 { RdbVersion::Auto } else { self.rdb_version },
            saves_uses: self.maxmemory_policy.counts_uses(),
            snapshot_bandwidth_bytes: self.snapshot_bandwidth_bytes,
            appendonly: self.appendonly,
            appendfsync: self.appendfsync,
            appenddirname: self.appenddirname.clone(),
            auto_aof_rewrite_percentage: self.auto_aof_rewrite_percentage,
            auto_aof_rewrite_min_bytes: self.auto_aof_rewrite_min_bytes,
            accept_log_loss: self.accept_log_loss,
            log_keep: self.log_keep,
            key_load_delay_us: self.key_load_delay_us,
            key_save_delay_us: self.key_save_delay_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tool that has no configuration gets what a server without any setting has.
    #[test]
    fn storage_has_the_same_defaults() {
        assert_eq!(Config::default().of_storage(), Settings::default());
    }
}
