//! The keyspace that a configuration asks for.

use stillframe_keyspace::KeyspaceOptions;

use super::Config;
use crate::process;

impl Config {
    /// How the configuration wants a keyspace to be.
    pub(crate) fn keyspace_options(&self) -> KeyspaceOptions {
        let budget = self.snapshot_memory.bytes(process::machine_memory_bytes());
        let mut options = KeyspaceOptions::default();
        options.algorithm = self.snapshot;
        options.budget_bytes = usize::try_from(budget).unwrap_or(usize::MAX);
        options.on_full = self.snapshot_memory_policy;
        options
    }

    /// Of a tool that loads data and takes no image of it while it changes: any algorithm does.
    pub(crate) fn offline_keyspace_options(&self) -> KeyspaceOptions {
        let mut options = self.keyspace_options();
        options.algorithm = KeyspaceOptions::default().algorithm;
        options
    }
}
