//! The keyspace of a configuration.

use stillframe_keyspace::KeyspaceOptions;

use super::Config;
use crate::node::machine;

impl Config {
    /// The options of the keyspace.
    pub(crate) fn keyspace_options(&self) -> KeyspaceOptions {
        let budget = self.snapshot_memory.bytes(machine::machine_memory_bytes());
        let mut options = KeyspaceOptions::default();
        options.algorithm = self.snapshot;
        options.budget_bytes = usize::try_from(budget).unwrap_or(usize::MAX);
        options.on_full = self.snapshot_memory_policy;
        options
    }

    /// Options for a tool that takes no image while its data changes: any algorithm does.
    pub(crate) fn offline_keyspace_options(&self) -> KeyspaceOptions {
        let mut options = self.keyspace_options();
        options.algorithm = KeyspaceOptions::default().algorithm;
        options
    }
}
