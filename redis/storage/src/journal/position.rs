//! The position of an image in a log: the field of its file, and the name of an earlier image.

use std::io::ErrorKind;

use stillframe_durability::Error;
use stillframe_durability::disk::Directory;
use stillframe_rdb::{DecodeError, Decoder, Event, Value};

/// The position of an image in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The log's generation.
    pub generation: u64,
    /// The first record that the image lacks.
    pub from: u64,
    /// When the image began, in milliseconds since 1970.
    pub begun_ms: u64,
}

/// The field of a dump file that holds its position.
pub const POSITION_FIELD: &[u8] = b"stillframe-log";

impl Position {
    /// The text of the field.
    pub fn text(self) -> String {
        format!("{}:{}:{}", self.generation, self.from, self.begun_ms)
    }

    /// Reads [`text`](Self::text).
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut numbers = std::str::from_utf8(text).ok()?.split(':').map(|it| it.parse().ok());
        let mut next = || numbers.next().flatten();
        let (generation, from, begun_ms) = (next()?, next()?, next()?);
        (from > 0 && numbers.next().is_none()).then_some(Self { generation, from, begun_ms })
    }
}

const PREFIX: &str = "earlier-";
const SUFFIX: &str = ".rdb";

/// The name of an earlier image.
pub fn name(position: Position) -> String {
    let Position { generation, from, begun_ms } = position;
    format!("{PREFIX}{generation}-{from}-{begun_ms}{SUFFIX}")
}

fn parse(name: &str) -> Option<Position> {
    let text = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.replace('-', ":");
    Position::parse(text.as_bytes()).filter(|&position| self::name(position) == name)
}

/// The earlier images of a data directory, oldest first.
pub fn list(files: &Directory) -> Result<Vec<Position>, Error> {
    let mut found: Vec<Position> = files.names()?.iter().filter_map(|name| parse(name)).collect();
    found.sort_unstable_by_key(|it| (it.generation, it.from, it.begun_ms));
    Ok(found)
}

/// Why a file has no position.
#[derive(Debug, thiserror::Error)]
pub enum PositionError {
    /// It cannot be opened.
    #[error(transparent)]
    File(#[from] Error),
    /// It is no RDB file, or its head is damaged.
    #[error(transparent)]
    Head(#[from] DecodeError),
}

/// The position in the head of the RDB file `name`, if the file exists and has one.
pub fn of_file(directory: &Directory, name: &str) -> Result<Option<Position>, PositionError> {
    let (file, bytes) = match directory.open_file(name) {
        Err(error) if error.kind() == Some(ErrorKind::NotFound) => return Ok(None),
        opened => opened?,
    };
    let mut decoder = Decoder::new(file).with_file_bytes(bytes);
    loop {
        match decoder.next()? {
            Some(Event::Aux { name: POSITION_FIELD, value: Value::Bytes(text) }) => {
                return Ok(Position::parse(text));
            }
            Some(Event::Aux { .. }) => {}
            _ => return Ok(None),
        }
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

    #[test]
    fn a_name_comes_back_from_its_position() {
        let position = Position { generation: 3, from: 17, begun_ms: 99 };
        assert_eq!(parse(&name(position)), Some(position));
        for wrong in ["earlier-3-17.rdb", "earlier-3-17-99", "earlier-03-17-99.rdb", "dump.rdb"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
