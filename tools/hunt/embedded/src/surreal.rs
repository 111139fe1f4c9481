//! surrealmx: write transactions, and its snapshot file, which another database then loads.

use stillframe_hunt::{Content, Contents, Keys, Name};

use crate::{Store, bytes, maps};

/// A store for one version of the crate.
macro_rules! surreal {
    ($name:ident, $keys:ident, $crate_name:ident) => {
        pub(crate) struct $name {
            folder: tempfile::TempDir,
            database: $crate_name::Database,
        }

        struct $keys($crate_name::Transaction);

        impl Keys for $keys {
            fn take_key(&mut self, name: &Name) -> Option<Content> {
                let held = self.0.get(bytes::key(name)).expect("a read");
                let content = held.map(|held| bytes::content(&held));
                if content.is_some() {
                    self.0.del(bytes::key(name)).expect("a delete");
                }
                content
            }
            fn put(&mut self, name: Name, content: Content) {
                self.0.set(bytes::key(&name), bytes::value(&content)).expect("a write");
            }
        }

        impl $name {
            fn open(folder: &std::path::Path) -> $crate_name::Database {
                // Snapshots are taken when the hunt asks, and never by the clock.
                let options = $crate_name::PersistenceOptions::new(folder)
                    .with_aol_mode($crate_name::AolMode::Never)
                    .with_snapshot_mode($crate_name::SnapshotMode::Interval(
                        std::time::Duration::from_secs(24 * 3600),
                    ));
                let plain = $crate_name::DatabaseOptions::default();
                $crate_name::Database::new_with_persistence(plain, options).expect("a database")
            }
        }

        impl Default for $name {
            fn default() -> Self {
                let folder = tempfile::tempdir().expect("a folder");
                let database = Self::open(folder.path());
                Self { folder, database }
            }
        }

        impl Store for $name {
            /// Again after a conflict with the other writer.
            fn transact(&self, requests: &[Vec<String>]) {
                loop {
                    let mut keys = $keys(self.database.transaction(true));
                    maps::run(&mut keys, requests);
                    if keys.0.commit().is_ok() {
                        return;
                    }
                }
            }

            fn image(&self) -> Contents {
                let persistence = self.database.persistence().expect("it is persistent");
                persistence.snapshot().expect("a snapshot");
                let copy = tempfile::tempdir().expect("a folder");
                let file = |folder: &tempfile::TempDir| folder.path().join("snapshot.bin");
                std::fs::copy(file(&self.folder), file(&copy)).expect("a snapshot file");
                let loaded = Self::open(copy.path());
                let all = loaded.transaction(false).scan(vec![0; 8]..vec![0xff; 8], None, None);
                let all = all.expect("a scan");
                all.iter().map(|(key, held)| (bytes::name(key), bytes::content(held))).collect()
            }
        }
    };
}

surreal!(Old, OldKeys, surrealmx_0_23);
surreal!(New, NewKeys, surrealmx);
