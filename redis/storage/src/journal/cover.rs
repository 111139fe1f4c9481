//! An image and the log: it waits for its records, and once it is published, records that nobody
//! needs go.

use stillframe_durability::{Error, LogHandle};

use super::earlier::{History, Reach};
use super::position::Position;

/// The work on the log when an image is published.
pub struct Cover {
    pub(super) position: Option<Position>,
    pub(super) log: Option<LogHandle>,
    pub(super) history: History,
    pub(super) reach: Reach,
    /// Generations up to this one are superseded, except for the image's own.
    pub(super) newest: u64,
    pub(super) bytes: u64,
}

/// The part of a [`Cover`] for the end of its image.
#[derive(Debug, Clone, Copy)]
pub struct Covered {
    pub(super) position: Option<Position>,
    pub(super) bytes: u64,
}

impl Cover {
    /// For the dump file.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// For the end of the image.
    pub fn covered(&self) -> Covered {
        Covered { position: self.position, bytes: self.bytes }
    }

    /// Before the image is published: waits until all records in it are durable.
    pub fn wait_durable(&self) -> Result<(), Error> {
        let (Some(log), Some(position)) = (&self.log, self.position) else { return Ok(()) };
        log.wait_durable(position.from - 1)
    }

    /// The image is whole on the disk, and about to take the dump's name.
    pub fn keep_dump(&self) {
        self.history.keep_dump(self.reach);
    }

    /// After the image was published: removes what neither it nor an earlier image needs.
    pub fn clean(&self) {
        if let Err(problem) = self.history.tidy(self.position, self.newest, self.reach) {
            tracing::warn!("cannot remove what is left of the log: {problem}");
        }
    }

    /// Deletes an earlier image when there is no room for the new one.
    pub fn give_way(&self) {
        self.history.give_way();
    }
}
