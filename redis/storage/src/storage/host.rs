//! Who loads a data directory: a server that serves clients meanwhile, or a tool that does not.

use std::time::Duration;

use stillframe_commands::Ledger;
use stillframe_keyspace::Keyspace;

use super::Storage;
use crate::dump::StreamPoint;
use crate::error::StorageError;
use crate::replay::Replays;

/// What is loaded into.
pub struct Parts<'a> {
    /// The data.
    pub keyspace: &'a mut Keyspace,
    /// What is kept beside the data.
    pub ledger: &'a mut Ledger,
    /// Where the data comes from.
    pub storage: &'a mut Storage,
}

/// See the head of this file. All but three functions serve replication, and do nothing by default.
pub trait Host: Replays {
    /// Why it cannot go on.
    type Error: std::error::Error + From<StorageError> + Send + Sync + 'static;

    /// The target of the load.
    fn parts(&mut self) -> Parts<'_>;

    /// Serves clients for a turn, which waits for them at most so long; false if the host ends.
    ///
    /// # Errors
    /// When that fails.
    fn turn(&mut self, patience: Duration) -> Result<bool, Self::Error>;

    /// A slice of the dump file is loaded, which holds this point of a stream of replication, as
    /// far as is known, and whose keys `gone` had expired.
    fn note_slice(&mut self, _point: Option<StreamPoint>, _gone: Vec<(usize, Vec<u8>)>) {}

    /// The log is replayed: so many records.
    fn note_replayed(&mut self, _records: u64) {}

    /// The point of the stream of replication that an image which begins now holds.
    fn point(&self) -> Option<StreamPoint> {
        None
    }
}
