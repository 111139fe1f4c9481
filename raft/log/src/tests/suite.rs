//! The tests that openraft has for storage.

use openraft::testing::{StoreBuilder, Suite};
use tempfile::TempDir;

use super::*;

struct Builder(bool);

impl StoreBuilder<Types, Log, Bank, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, Log, Bank), StorageError<u64>> {
        let folder = tempfile::tempdir().expect("a folder");
        let (log, bank) = open(folder.path(), options(self.0)).expect("it is new");
        Ok((folder, log, bank))
    }
}

#[test]
fn the_suite_of_openraft_passes() {
    for increments in [false, true] {
        Suite::test_all(Builder(increments)).expect("all of it");
    }
}
