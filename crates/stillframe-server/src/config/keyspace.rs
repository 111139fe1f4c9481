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
}
