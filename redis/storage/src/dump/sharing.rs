//! What databases share, in fields of an RDB file that Redis passes over.
//!
//! ```text
//! stillframe-branches  "1=0:2 3=0:1"  before the keys: database 1 shows keys of database 0 of
//!                                     the classes up to 2, database 3 those of class 1
//! stillframe-class     2              before a key: that and those behind it are of class 2
//! ```
//!
//! - A key of a class is followed at once by the same key in each database that shows it. So any
//!   Redis has all keys of all databases, and a reader that knows the fields skips these.
//! - Class 0, that of the first keys, is shown by nobody.

use std::fmt::Write;

use stillframe_keyspace::{CLASSES_MAX, DATABASES, Keyspace, Sharing, SharingError};
use stillframe_rdb::{Event, Value};

use super::EntryError;

pub(super) const BRANCHES_FIELD: &[u8] = b"stillframe-branches";
pub(super) const CLASS_FIELD: &[u8] = b"stillframe-class";

/// The value of the field for what databases share.
pub(super) fn write(sharing: &Sharing) -> String {
    let mut text = String::new();
    for (db, of, class) in sharing.iter() {
        let blank = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{blank}{db}={of}:{class}"); // a String takes all
    }
    text
}

/// What databases share by the value of the field; `None` if it is malformed.
pub(super) fn read(text: &[u8]) -> Option<Sharing> {
    let mut sharing = Sharing::default();
    for part in std::str::from_utf8(text).ok()?.split(' ') {
        let (db, shown) = part.split_once('=')?;
        let (of, class) = shown.split_once(':')?;
        if !sharing.add(db.parse().ok()?, of.parse().ok()?, class.parse().ok()?) {
            return None;
        }
    }
    Some(sharing)
}

/// The class in the value of a field; `None` if there is no such class.
pub(super) fn read_class(value: Value<'_>) -> Option<u8> {
    let Value::Int(class) = value else { return None };
    u8::try_from(class).ok().filter(|class| *class <= CLASSES_MAX)
}

/// How far a reader of a file is in what databases share.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// The keyspace is being loaded so.
    is_on: bool,
    /// The class of the keys that come.
    class: u8,
    /// The key that databases show which was read last.
    key: Vec<u8>,
    /// The databases that show it whose turn has not come, a bit each.
    left: u16,
}

impl Shares {
    /// Whether the next part of a file is a key that its database shows already; it is then done.
    ///
    /// # Errors
    /// [`EntryError::NotShared`]: such a key should come, and something else does.
    pub(super) fn take(&mut self, event: &Event<'_>, offset: u64) -> Result<bool, EntryError> {
        if self.left == 0 {
            return Ok(false);
        }
        if let Event::Entry { db, key, .. } | Event::Begin { db, key, .. } = event
            && *db < DATABASES as u64
            && self.left & 1 << db != 0
            && self.key == **key
        {
            self.left &= !(1 << db);
            return Ok(true);
        }
        let is_key = matches!(event, Event::Entry { .. } | Event::Begin { .. } | Event::Eof { .. });
        if is_key {
            let key = self.key.escape_ascii().to_string();
            return Err(EntryError::NotShared { key, offset });
        }
        Ok(false) // a database is selected
    }

    /// Makes the databases show a key that was just loaded, if they should.
    ///
    /// # Errors
    /// [`EntryError`]: one of them has that key itself, or there is no memory.
    pub(super) fn share(
        &mut self,
        keyspace: &mut Keyspace,
        db: usize,
        key: &[u8],
        offset: u64,
    ) -> Result<(), EntryError> {
        if !self.is_on || self.class == 0 {
            return Ok(());
        }
        let shared = keyspace.share_key(db, key, self.class);
        self.left = shared.map_err(|error| match error {
            SharingError::Again { .. } => EntryError::again(key, offset),
            SharingError::Memory(error) => EntryError::Memory(error),
        })?;
        self.key.clear();
        self.key.extend_from_slice(key);
        Ok(())
    }

    /// Reads which databases share keys.
    ///
    /// # Errors
    /// [`EntryError::Branches`]: the field is malformed.
    pub(super) fn begin(
        &mut self,
        keyspace: &mut Keyspace,
        value: Value<'_>,
        offset: u64,
    ) -> Result<(), EntryError> {
        let sharing = match value {
            Value::Bytes(text) => read(text),
            Value::Int(_) => None,
        };
        let sharing = sharing.ok_or(EntryError::Branches { offset })?;
        self.is_on = keyspace.begin_sharing(&sharing);
        Ok(())
    }

    /// Reads the class of the keys that follow.
    ///
    /// # Errors
    /// As for [`begin`](Self::begin).
    pub(super) fn set_class(&mut self, value: Value<'_>, offset: u64) -> Result<(), EntryError> {
        self.class = read_class(value).ok_or(EntryError::Branches { offset })?;
        Ok(())
    }

    /// The file has ended.
    pub(super) fn end(&mut self, keyspace: &mut Keyspace) {
        if std::mem::take(&mut self.is_on) {
            keyspace.end_sharing();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_as_it_was_written() {
        let mut sharing = Sharing::default();
        assert!(sharing.add(1, 0, 2) && sharing.add(15, 3, 15) && sharing.add(3, 0, 1));
        assert_eq!(write(&sharing), "1=0:2 3=0:1 15=3:15");
        assert_eq!(read(write(&sharing).as_bytes()), Some(sharing));
        for text in ["", "1=0", "1:0=2", "1=1:1", "16=0:1", "1=0:0", "1=0:16", "1=0:1 ", "\u{ff}"] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
        assert_eq!(read_class(Value::Int(15)), Some(15));
        for value in [Value::Int(16), Value::Int(-1), Value::Bytes(b"1")] {
            assert_eq!(read_class(value), None);
        }
    }
}
