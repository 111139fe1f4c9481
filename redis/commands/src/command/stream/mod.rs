//! Streams: entries in the order of their ids, and groups of consumers that share them.
//!
//! Reading for a group changes what the group knows. Its effects are requests that set the outcome:
//! XCLAIM with the time and the number of deliveries, XGROUP SETID with what was read.

mod add;
mod budget;
mod claim;
mod group;
mod id;
mod idmp;
mod info;
mod nack;
mod pending;
mod range;
mod read;
mod references;

use stillframe_keyspace::{IntText, Stream, StreamEntry, StreamId, Text};
use stillframe_resp::Out;

use crate::context::Context;
use crate::errors::{Refusal, WrongType};
use crate::table::Table;
use crate::text::c_string;

/// Adds the commands of all modules here.
pub(crate) fn register<S>(table: &mut Table<S>) {
    add::register(table);
    range::register(table);
    read::register(table);
    group::register(table);
    pending::register(table);
    claim::register(table);
    info::register(table);
    references::register(table);
    idmp::register(table);
    nack::register(table);
}

/// An id as a reply.
fn answer_id(out: &mut Out<'_>, id: StreamId) {
    out.bulk(id::text(id));
}

/// An entry as a reply: its id, and its fields with their values.
fn answer_entry(out: &mut Out<'_>, entry: &StreamEntry<'_>) {
    out.array(2);
    answer_parts(out, entry);
}

/// What a reply tells of an entry: its id, and its fields with their values.
fn answer_parts(out: &mut Out<'_>, entry: &StreamEntry<'_>) {
    answer_id(out, entry.id);
    out.array(2 * entry.fields.count());
    for (name, value) in entry.fields {
        answer_text(out, name);
        answer_text(out, value);
    }
}

fn answer_text(out: &mut Out<'_>, text: Text<'_>) {
    let mut digits = IntText::default();
    out.bulk(text.to_bytes(&mut digits));
}

/// An option's name in lower case, without an allocation; nothing if no name is as long.
struct Word([u8; 16], usize);

impl Word {
    fn from_option(option: &[u8]) -> Self {
        let mut word = Self([0; 16], 0);
        if let Some(room) = word.0.get_mut(..option.len()) {
            room.copy_from_slice(option);
            room.make_ascii_lowercase();
            word.1 = option.len();
        }
        word
    }

    fn as_slice(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

/// The id of the last entry that is there.
fn top_of(stream: Stream<'_>) -> Option<StreamId> {
    stream.at(stream.len().checked_sub(1)?).map(|entry| entry.id)
}

impl<'c> Context<'c> {
    /// What reading commands find that do not count as misses of the key's type: the stream and the
    /// place for the reply.
    fn stream<'s>(
        &'s mut self,
        key: &[u8],
    ) -> Result<(&'s mut Out<'c>, Option<Stream<'s>>), WrongType> {
        self.found(key)
    }

    /// Counts a change of what a stream has beside its entries. For clients that watch the key,
    /// cache it or wait for entries it counts as unchanged, as in Redis.
    fn changed_beside(&mut self, key: &[u8], event: &'static str) {
        self.ledger.dirty += 1;
        if !self.ledger.settings.notify.is_empty() {
            self.ledger.notify_change(self.keyspace, key, 't', event);
        }
    }

    /// Notes an event beside a change that counts already.
    fn also(&mut self, key: &[u8], event: &'static str) {
        self.changed_as(key, 't', event);
        self.ledger.dirty -= 1;
    }
}

/// The refusal of a command whose group is missing.
fn no_group(key: &[u8], group: &[u8]) -> Refusal {
    no_group_in(key, group, b"")
}

/// The same, which ends in `place`. As in Redis, a name is shown up to its first NUL.
fn no_group_in(key: &[u8], group: &[u8], place: &[u8]) -> Refusal {
    let (key, group) = (c_string(key), c_string(group));
    [b"NOGROUP No such key '", key, b"' or consumer group '", group, b"'", place].concat().into()
}
