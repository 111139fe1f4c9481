//! The tables that every image has: their names, columns, and types of keys.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use stillframe_rdb::Collection;

/// The type of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// A string.
    #[default]
    String,
    /// Anything else.
    Of(Collection),
}

impl Kind {
    /// All types, with their names in `TYPE`.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::String, "string"),
        (Self::Of(Collection::List), "list"),
        (Self::Of(Collection::Set), "set"),
        (Self::Of(Collection::Sorted), "zset"),
        (Self::Of(Collection::Hash), "hash"),
        (Self::Of(Collection::Stream), "stream"),
        (Self::Of(Collection::Array), "array"),
    ];

    /// Its name, as `TYPE` replies.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

/// A table that every image has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// A row for each key.
    Keys,
    /// A row for each string.
    Strings,
    /// A row for each field of a hash.
    Hashes,
    /// A row for each element of a list.
    Lists,
    /// A row for each member of a set.
    Sets,
    /// A row for each member of a sorted set.
    Zsets,
    /// A row for each entry of a stream.
    Streams,
    /// A row for each group of consumers.
    Groups,
    /// A row for each entry that was delivered to a group and not acknowledged.
    Pending,
}

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// 64-bit integers.
    Int,
    /// 64-bit floats.
    Double,
    /// Truth.
    Bool,
    /// Texts of any bytes.
    Text,
    /// Times, in milliseconds.
    Time,
    /// The fields of an entry of a stream.
    Pairs,
}

/// A column: its name, and what is in it.
pub type Column = (&'static str, Content);

use Content::{Double, Int, Pairs, Text, Time};

impl Table {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Keys,
        Self::Strings,
        Self::Hashes,
        Self::Lists,
        Self::Sets,
        Self::Zsets,
        Self::Streams,
        Self::Groups,
        Self::Pending,
    ];

    /// Its name in SQL.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Strings => "strings",
            Self::Hashes => "hashes",
            Self::Lists => "lists",
            Self::Sets => "sets",
            Self::Zsets => "zsets",
            Self::Streams => "streams",
            Self::Groups => "groups",
            Self::Pending => "pending",
        }
    }

    /// The type of its keys; `None`: all.
    #[must_use]
    pub fn kind(self) -> Option<Kind> {
        match self {
            Self::Keys => None,
            Self::Strings => Some(Kind::String),
            Self::Hashes => Some(Kind::Of(Collection::Hash)),
            Self::Lists => Some(Kind::Of(Collection::List)),
            Self::Sets => Some(Kind::Of(Collection::Set)),
            Self::Zsets => Some(Kind::Of(Collection::Sorted)),
            Self::Streams | Self::Groups | Self::Pending => Some(Kind::Of(Collection::Stream)),
        }
    }

    /// Its columns. The first two are the database and the key of a row.
    #[must_use]
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::Keys => &[
                ("db", Int),
                ("key", Text),
                ("type", Text),
                ("encoding", Text),
                ("ttl", Int),
                ("expires_at", Time),
                ("bytes", Int),
                ("elements", Int),
                ("idle", Int),
            ],
            Self::Strings => &[("db", Int), ("key", Text), ("value", Text), ("ttl", Int)],
            Self::Hashes => {
                &[("db", Int), ("key", Text), ("field", Text), ("value", Text), ("ttl", Int)]
            }
            Self::Lists => &[("db", Int), ("key", Text), ("index", Int), ("value", Text)],
            Self::Sets => &[("db", Int), ("key", Text), ("member", Text)],
            Self::Zsets => &[("db", Int), ("key", Text), ("member", Text), ("score", Double)],
            Self::Streams => {
                &[("db", Int), ("key", Text), ("id", Text), ("time", Time), ("fields", Pairs)]
            }
            Self::Groups => &[
                ("db", Int),
                ("key", Text),
                ("name", Text),
                ("last_id", Text),
                ("entries_read", Int),
                ("consumers", Int),
                ("pending", Int),
            ],
            Self::Pending => &[
                ("db", Int),
                ("key", Text),
                ("group", Text),
                ("id", Text),
                ("consumer", Text),
                ("delivered_at", Time),
                ("deliveries", Int),
            ],
        }
    }
}

impl Content {
    /// Its type in Arrow; texts are `Binary` if `binary`, else `Utf8`.
    #[must_use]
    pub fn data_type(self, binary: bool) -> DataType {
        let text = if binary { DataType::Binary } else { DataType::Utf8 };
        match self {
            Self::Int => DataType::Int64,
            Self::Double => DataType::Float64,
            Self::Bool => DataType::Boolean,
            Self::Text => text,
            Self::Time => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
            Self::Pairs => {
                DataType::List(Arc::new(Field::new("item", DataType::Struct(pair(binary)), false)))
            }
        }
    }
}

/// The fields of a pair in a list of them.
#[must_use]
pub fn pair(binary: bool) -> Fields {
    let text = Content::Text.data_type(binary);
    Fields::from(vec![Field::new("field", text.clone(), false), Field::new("value", text, false)])
}

/// The schema of columns. All may be null: where none is, a subquery that finds no row still does.
pub fn schema<N: Into<String>>(
    columns: impl IntoIterator<Item = (N, Content)>,
    binary: bool,
) -> SchemaRef {
    let field = |(name, content): (N, Content)| Field::new(name, content.data_type(binary), true);
    Arc::new(Schema::new(columns.into_iter().map(field).collect::<Vec<_>>()))
}
