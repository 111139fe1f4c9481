//! A point in a stream of replication, which an image keeps in Redis's fields.
//!
//! - An image with a point holds exactly the data that the stream makes up to there. A server that
//!   starts from such a file knows which replicas may resume without an image: those that have the
//!   stream up to the point, or less if the rest is still kept.
//! - A replica that has more of the stream than the file received that part before a crash lost it
//!   here: the replica takes an image, since the stream then has another name.

use stillframe_keyspace::DATABASES;
use stillframe_rdb::Value;

const DB_FIELD: &[u8] = b"repl-stream-db";
const ID_FIELD: &[u8] = b"repl-id";
const OFFSET_FIELD: &[u8] = b"repl-offset";

/// A place in a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPoint {
    /// The stream's name.
    pub id: String,
    /// Bytes of the stream up to there.
    pub offset: u64,
    /// The database selected there.
    pub db: usize,
}

impl StreamPoint {
    /// The fields of an RDB file that hold it.
    pub fn fields(&self) -> [(&'static [u8], String); 3] {
        [
            (DB_FIELD, self.db.to_string()),
            (ID_FIELD, self.id.clone()),
            (OFFSET_FIELD, self.offset.to_string()),
        ]
    }
}

/// One of the fields, as read from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamField {
    /// The database that is selected.
    Db(usize),
    /// The name.
    Id(String),
    /// Bytes up to there.
    Offset(u64),
}

impl StreamField {
    /// The field of this name; `None` for another name, or a malformed value.
    pub fn read(name: &[u8], value: Value<'_>) -> Option<Self> {
        let number = || match value {
            Value::Int(number) => u64::try_from(number).ok(),
            Value::Bytes(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        };
        match name {
            DB_FIELD => {
                let db = number().and_then(|db| usize::try_from(db).ok());
                Some(Self::Db(db.filter(|&db| db < DATABASES)?))
            }
            ID_FIELD => match value {
                Value::Bytes(id) if id.len() == 40 && id.iter().all(u8::is_ascii_alphanumeric) => {
                    Some(Self::Id(String::from_utf8_lossy(id).into_owned()))
                }
                _ => None,
            },
            OFFSET_FIELD => Some(Self::Offset(number()?)),
            _ => None,
        }
    }
}

/// The fields of one file, as far as they were read.
#[derive(Debug, Default)]
pub(super) struct StreamFields {
    db: Option<usize>,
    id: Option<String>,
    offset: Option<u64>,
}

impl StreamFields {
    /// Notes a field.
    pub(super) fn take(&mut self, field: StreamField) {
        match field {
            StreamField::Db(db) => self.db = Some(db),
            StreamField::Id(id) => self.id = Some(id),
            StreamField::Offset(offset) => self.offset = Some(offset),
        }
    }

    /// The point that they make together, if all are there.
    pub(super) fn point(&self) -> Option<StreamPoint> {
        Some(StreamPoint { id: self.id.clone()?, offset: self.offset?, db: self.db? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_read_as_it_was_written() {
        let point = StreamPoint { id: "a1".repeat(20), offset: u64::MAX, db: 15 };
        let mut fields = StreamFields::default();
        for (name, value) in point.fields() {
            assert_eq!(fields.point(), None, "all of them are needed");
            fields.take(StreamField::read(name, Value::Bytes(value.as_bytes())).unwrap());
        }
        assert_eq!(fields.point(), Some(point));
    }

    #[test]
    fn a_field_that_says_nothing_is_passed_over() {
        for (name, value) in [
            (DB_FIELD, Value::Bytes(b"16")),
            (DB_FIELD, Value::Int(-1)),
            (ID_FIELD, Value::Bytes(b"short")),
            (ID_FIELD, Value::Bytes(b"line\r\nline\r\nline\r\nline\r\nline\r\nline\r\nline")),
            (OFFSET_FIELD, Value::Bytes(b"-1")),
            (OFFSET_FIELD, Value::Bytes(b"\xff")),
            (b"repl-other".as_slice(), Value::Int(1)),
        ] {
            assert_eq!(StreamField::read(name, value), None, "{}", name.escape_ascii());
        }
        assert_eq!(StreamField::read(OFFSET_FIELD, Value::Int(7)), Some(StreamField::Offset(7)));
    }
}
