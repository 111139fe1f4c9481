//! How images and the log go together: what a dump file says of the log, and what of the log is
//! removed once an image is published.

use stillframe_durability::LogHandle;

use super::earlier::{History, Reach};

/// Where an image stands in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// The log's generation.
    pub(crate) generation: u64,
    /// The first record that the image lacks.
    pub(crate) from: u64,
    /// When the image began, in milliseconds since 1970.
    pub(crate) begun_ms: u64,
}

/// The field of a dump file that tells its position.
pub(crate) const POSITION_FIELD: &[u8] = b"stillframe-log";

impl Position {
    /// As the field of a dump file has it.
    pub(crate) fn text(self) -> String {
        format!("{}:{}:{}", self.generation, self.from, self.begun_ms)
    }

    /// Reads [`text`](Self::text).
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let mut numbers = std::str::from_utf8(text).ok()?.split(':').map(|it| it.parse().ok());
        let mut next = || numbers.next().flatten();
        let (generation, from, begun_ms) = (next()?, next()?, next()?);
        (from > 0 && numbers.next().is_none()).then_some(Self { generation, from, begun_ms })
    }
}

/// What an image has to do with the log when it is published.
pub(crate) struct Cover {
    pub(super) position: Option<Position>,
    pub(super) log: Option<LogHandle>,
    pub(super) history: History,
    pub(super) reach: Reach,
    /// Generations up to this one have been superseded, but for the image's own.
    pub(super) newest: u64,
    pub(super) bytes: u64,
}

/// What is left of a [`Cover`] for when its image has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Covered {
    pub(super) position: Option<Position>,
    pub(super) bytes: u64,
}

impl Cover {
    /// For the dump file.
    pub(crate) fn position(&self) -> Option<Position> {
        self.position
    }

    /// For the end of the image.
    pub(crate) fn covered(&self) -> Covered {
        Covered { position: self.position, bytes: self.bytes }
    }

    /// Before the image is published: waits until all records in it are durable.
    pub(crate) fn settle(&self) -> Result<(), String> {
        let (Some(log), Some(position)) = (&self.log, self.position) else { return Ok(()) };
        let settled = log.wait_durable(position.from - 1);
        settled.map_err(|error| format!("the log does not hold what is in the image: {error}"))
    }

    /// The image is whole on the disk, and about to take the dump's name.
    pub(crate) fn keep_dump(&self) {
        self.history.keep_dump(self.reach);
    }

    /// After the image was published: removes what neither it nor an earlier image needs.
    pub(crate) fn clean(&self) {
        if let Err(problem) = self.history.tidy(self.position, self.newest, self.reach) {
            tracing::warn!("cannot remove what is left of the log: {problem}");
        }
    }

    /// There was no room for the image: the past gives way.
    pub(crate) fn give_way(&self) {
        self.history.give_way();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_comes_back_from_its_text() {
        let position = Position { generation: 3, from: 17, begun_ms: 99 };
        assert_eq!(Position::parse(position.text().as_bytes()), Some(position));
        for wrong in ["", "3:17", "3:17:", ":17:1", "3:0:1", "3:17:1:1", "x:1:1", "-3:1:1"] {
            assert_eq!(Position::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
