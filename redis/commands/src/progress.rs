//! How many entries of a stream a group has read, as far as one can tell.

use stillframe_keyspace::{Group, Stream, StreamId};

/// What tells how many entries a group has read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    len: u64,
    added: u64,
    last: StreamId,
    deleted: StreamId,
    first: StreamId,
}

impl Progress {
    pub(crate) fn from_stream(stream: Stream<'_>) -> Self {
        let first = stream.at(0).map_or(StreamId::MIN, |entry| entry.id);
        let (added, last, deleted) = (stream.added(), stream.last_id(), stream.deleted_id());
        Self { len: stream.len() as u64, added, last, deleted, first }
    }

    /// Whether an entry was deleted from this id on, as far as one can tell.
    fn has_gap_from(&self, id: StreamId) -> bool {
        self.len > 0 && self.deleted != StreamId::MIN && id <= self.deleted
    }

    /// How many entries there ever were up to this id, if one can tell.
    pub(crate) fn count_to(&self, id: StreamId) -> Option<u64> {
        if self.added == 0 {
            return Some(0);
        }
        if self.len == 0 && id <= self.last {
            return Some(self.added);
        }
        if id != StreamId::MIN && id < self.deleted || id > self.last {
            return None;
        }
        if id == self.last {
            return Some(self.added);
        }
        if self.deleted == StreamId::MIN || self.deleted < self.first {
            if id < self.first {
                return Some(self.added.saturating_sub(self.len));
            }
            if id == self.first {
                return Some(self.added.saturating_sub(self.len) + 1);
            }
        }
        None
    }

    /// What a group that has read up to `last` has read once it has read the entry `id`, too.
    pub(crate) fn after(&self, read: Option<u64>, last: StreamId, id: StreamId) -> Option<u64> {
        match read {
            Some(read) if last >= self.first && !self.has_gap_from(last) => {
                Some((read + 1).min(self.added))
            }
            read if self.added == 0 => read,
            _ => self.count_to(id),
        }
    }

    /// How many entries a group has yet to read, by the rule of Redis 8: that of 7.0 may go below
    /// zero, and does not know what is left behind a trim.
    pub(crate) fn lag(&self, group: Group<'_>) -> Option<i64> {
        if self.added == 0 || self.len == 0 {
            return Some(0);
        }
        if group.last_id() < self.first && self.deleted < self.first {
            return Some(self.len as i64);
        }
        let read = group.entries_read().filter(|_| !self.has_gap_from(group.last_id()));
        let read = read.or_else(|| self.count_to(group.last_id()))?;
        Some(self.added.wrapping_sub(read) as i64)
    }
}
