//! Writing streams.
//!
//! ```text
//! stream   length, nodes; entries, last id, first id, greatest deleted id, entries added;
//!          length, groups                                         an id: two lengths, ms and seq
//! node     string of the first entry's id (16 B BE), string of a listpack:
//!          entries, 0, names, name.., 0, then the entries
//! entry    flags, ms and seq beyond the first entry's,
//!          [names, (name, value).. | value..], elements
//!          flags: 2: it has the names of the node, and gives only values
//! group    string, last id, entries read (all ones: unknown)
//!          length, (id 16 B BE, time 8 B LE, length deliveries)   what is pending
//!          length, (string, time 8 B LE, [time 8 B LE], length, ids 16 B BE)   consumers:
//!          when they were seen, and active (from version 11 on; all ones: never)
//!          [length, ids 16 B BE]          what is pending for nobody (from version 14 on;
//!          before, that is pending for a consumer whose name is empty)
//! producers (from version 13 on, behind the groups)
//!          length seconds, length entries;
//!          length, (string, length, (string, id))   producers with their messages;
//!          lengths: messages ever added, and sent again
//! ```

use crate::encode::{Encoder, Head};
use crate::format::{
    TYPE_STREAM, TYPE_STREAM_FIFTH, TYPE_STREAM_FOURTH, TYPE_STREAM_THIRD, Version,
};
use crate::pack::{FRAME_BYTES, MARK, Packed, packed_bytes};
use crate::sheet::Output;
use crate::streams::NEVER;
use crate::{Id, StreamHead, Value};

/// The consumer that has what is pending for nobody, in versions where an entry must have one.
pub const NOBODY: &[u8] = b"";

/// From Redis 8.8 on, the number of deliveries of an entry that cannot be processed: nothing is
/// added to it.
pub const HOPELESS: &[u8] = b"9223372036854775807";
const HOPELESS_COUNT: u64 = i64::MAX as u64;
/// What stands for it in versions before: as many digits, and far from both ends, since servers of
/// these add to it.
pub const HOPELESS_BEFORE: &[u8] = b"4611686018427387904";
const HOPELESS_COUNT_BEFORE: u64 = 1 << 62;

/// As in Redis by default: most entries and bytes of a node.
const NODE_ENTRIES_MAX: usize = 100;
const NODE_BYTES_MAX: usize = 4096;
/// What an entry takes at most beside its fields: flags, two differences, two counts.
const ENTRY_BYTES: usize = 5 * 11;
/// Flag of an entry with the names of the node.
const SAME_NAMES: i64 = 2;

/// A stream to be written. It gives the same answers each time.
pub trait StreamValue<'a>: Copy {
    /// Its numbers.
    fn head(self) -> StreamHead;
    /// Its entries with their fields, in order.
    fn entries(
        self,
    ) -> impl Iterator<Item = (Id, impl Iterator<Item = (Value<'a>, Value<'a>)> + Clone)> + Clone;
    /// How many groups it has.
    fn group_count(self) -> usize;
    /// Its groups.
    fn groups(self) -> impl Iterator<Item = impl StreamGroup>;
    /// How much of what producers have sent is known: for how many seconds, and how many messages
    /// of each.
    fn idmp_limits(self) -> (u64, u64);
    /// How many producers it knows.
    fn producer_count(self) -> usize;
    /// They, each with how many messages there are, and these with the ids of their entries.
    fn producers(
        self,
    ) -> impl Iterator<Item = (&'a [u8], usize, impl Iterator<Item = (&'a [u8], Id)>)>;
    /// How many messages were ever added, and how many were sent again.
    fn idmp_counts(self) -> (u64, u64);
}

/// A consumer group to be written.
pub trait StreamGroup: Copy {
    /// Its name.
    fn name(&self) -> &[u8];
    /// The id of the entry that was last delivered to it.
    fn last(self) -> Id;
    /// Entries that it has read, if known.
    fn entries_read(self) -> Option<u64>;
    /// How many entries are pending.
    fn pending_count(self) -> usize;
    /// What is pending: id, time of delivery, number of deliveries.
    fn pending(self) -> impl Iterator<Item = (Id, i64, u64)>;
    /// How many consumers it has.
    fn consumer_count(self) -> usize;
    /// Its consumers.
    fn consumers(self) -> impl Iterator<Item = impl StreamConsumer>;
    /// How many of the entries are pending for nobody.
    fn released_count(self) -> usize;
    /// Their ids, in the order in which they were released.
    fn released(self) -> impl Iterator<Item = Id>;
}

/// A consumer to be written.
pub trait StreamConsumer: Copy {
    /// Its name.
    fn name(&self) -> &[u8];
    /// When it was last seen, in unix milliseconds.
    fn seen_ms(self) -> i64;
    /// When it last got entries, in unix milliseconds, if it ever did.
    fn active_ms(self) -> Option<i64>;
    /// How many entries are pending for it.
    fn pending_count(self) -> usize;
    /// Their ids.
    fn pending(self) -> impl Iterator<Item = Id>;
}

fn bytes((ms, seq): Id) -> [u8; 16] {
    (u128::from(ms) << 64 | u128::from(seq)).to_be_bytes()
}

fn is_nobody(consumer: &impl StreamConsumer) -> bool {
    consumer.name() == NOBODY
}

/// Whether two entries have the same names. Entries that share names mostly share their bytes.
fn same_names<'a>(
    mut one: impl Iterator<Item = (Value<'a>, Value<'a>)>,
    mut other: impl Iterator<Item = (Value<'a>, Value<'a>)>,
) -> bool {
    loop {
        match (one.next(), other.next()) {
            (None, None) => return true,
            (Some((Value::Bytes(one), _)), Some((Value::Bytes(other), _)))
                if std::ptr::eq(one, other) => {}
            (Some((one, _)), Some((other, _))) if one == other => {}
            _ => return false,
        }
    }
}

/// How many entries from the front go into one node.
///
/// Names that fill a node by themselves stand in front of all entries that have them, up to as many
/// bytes of values: else a file would have them once for each entry.
fn node_len<'a, F>(entries: impl Iterator<Item = (Id, F)> + Clone) -> usize
where
    F: Iterator<Item = (Value<'a>, Value<'a>)> + Clone,
{
    let Some((_, master)) = entries.clone().next() else { return 0 };
    let names: usize = master.clone().map(|(name, _)| packed_bytes(name)).sum();
    let mut filled = 0;
    if names > NODE_BYTES_MAX {
        let fits = |(_, fields): &(Id, F)| {
            let values = fields.clone().map(|(_, value)| packed_bytes(value));
            let bytes = ENTRY_BYTES + values.sum::<usize>();
            filled += bytes;
            filled == bytes || filled <= names && same_names(fields.clone(), master.clone())
        };
        return entries.take_while(fits).count();
    }
    let fits = |(_, fields): &(Id, F)| {
        let fields = fields.clone().map(|(name, value)| packed_bytes(name) + packed_bytes(value));
        let bytes = ENTRY_BYTES + fields.sum::<usize>();
        filled += bytes;
        filled == bytes || filled <= NODE_BYTES_MAX
    };
    entries.take(NODE_ENTRIES_MAX).take_while(fits).count()
}

/// Hands on the elements of a node of `count` entries.
fn node<'a, F, E>(
    entries: impl Iterator<Item = (Id, F)> + Clone,
    count: usize,
    mut put: impl FnMut(Value<'_>) -> Result<(), E>,
) -> Result<(), E>
where
    F: Iterator<Item = (Value<'a>, Value<'a>)> + Clone,
{
    let Some((first, master)) = entries.clone().next() else { return Ok(()) };
    let names = master.clone().count() as i64;
    for head in [count as i64, 0, names] {
        put(Value::Int(head))?;
    }
    master.clone().try_for_each(|(name, _)| put(name))?;
    put(Value::Int(0))?;
    for (id, fields) in entries.take(count) {
        let same = same_names(fields.clone(), master.clone());
        let beyond = [id.0.wrapping_sub(first.0), id.1.wrapping_sub(first.1)];
        put(Value::Int(if same { SAME_NAMES } else { 0 }))?;
        beyond.into_iter().try_for_each(|beyond| put(Value::Int(beyond as i64)))?;
        let mut elements = 3;
        if !same {
            put(Value::Int(fields.clone().count() as i64))?;
            elements += 1;
        }
        for (name, value) in fields {
            if !same {
                put(name)?;
                elements += 1;
            }
            put(value)?;
            elements += 1;
        }
        put(Value::Int(elements))?;
    }
    Ok(())
}

impl<O: Output> Encoder<O> {
    /// Writes a stream.
    ///
    /// # Errors
    /// Those of the output.
    pub fn stream<'a>(
        &mut self,
        head: Head<'_>,
        stream: impl StreamValue<'a>,
    ) -> Result<(), O::Error> {
        let kind = match self.version {
            Version::Redis10 => TYPE_STREAM,
            Version::Redis11 | Version::Redis12 | Version::Valkey80 => TYPE_STREAM_THIRD,
            Version::Redis13 => TYPE_STREAM_FOURTH,
            Version::Redis14 => TYPE_STREAM_FIFTH,
        };
        self.open(head, kind)?;
        let (mut rest, mut nodes) = (stream.entries(), 0);
        loop {
            let count = node_len(rest.clone());
            let Some(last) = count.checked_sub(1) else { break };
            rest.nth(last);
            nodes += 1;
        }
        self.out.length(nodes)?;
        let mut rest = stream.entries();
        loop {
            let count = node_len(rest.clone());
            let Some(last) = count.checked_sub(1) else { break };
            self.stream_node(rest.clone(), count)?;
            rest.nth(last);
        }
        let StreamHead { len, last, first, deleted, added } = stream.head();
        for number in [len, last.0, last.1, first.0, first.1, deleted.0, deleted.1, added] {
            self.out.length(number)?;
        }
        self.out.length(stream.group_count() as u64)?;
        stream.groups().try_for_each(|group| self.stream_group(group))?;
        if matches!(self.version, Version::Redis13 | Version::Redis14) {
            self.stream_producers(stream)?;
        }
        Ok(())
    }

    fn stream_producers<'a>(&mut self, stream: impl StreamValue<'a>) -> Result<(), O::Error> {
        let (limits, counts) = (stream.idmp_limits(), stream.idmp_counts());
        for number in [limits.0, limits.1, stream.producer_count() as u64] {
            self.out.length(number)?;
        }
        for (producer, count, sent) in stream.producers() {
            self.out.string(producer)?;
            self.out.length(count as u64)?;
            for (message, id) in sent {
                self.out.string(message)?;
                self.out.length(id.0)?;
                self.out.length(id.1)?;
            }
        }
        self.out.length(counts.0)?;
        self.out.length(counts.1)
    }

    fn stream_node<'a, F>(
        &mut self,
        entries: impl Iterator<Item = (Id, F)> + Clone,
        count: usize,
    ) -> Result<(), O::Error>
    where
        F: Iterator<Item = (Value<'a>, Value<'a>)> + Clone,
    {
        let Some((first, _)) = entries.clone().next() else { return Ok(()) };
        self.out.blob(&bytes(first))?;
        self.pack.clear();
        let push = |value: Value<'_>| self.pack.push_value(value).ok_or(());
        if node(entries.clone(), count, push).is_ok() {
            return self.out.blob(self.pack.bytes());
        }
        // Large entries, written element by element behind their length.
        let (mut length, mut elements) = (FRAME_BYTES, 0_usize);
        let counted: Result<(), ()> = node(entries.clone(), count, |value| {
            length += packed_bytes(value);
            elements += 1;
            Ok(())
        });
        debug_assert!(counted.is_ok(), "counting does not fail");
        self.out.length(length as u64)?;
        self.out.sheet.put(&(length as u32).to_le_bytes())?;
        let elements = u16::try_from(elements).unwrap_or(u16::MAX);
        self.out.sheet.put(&elements.to_le_bytes())?;
        node(entries, count, |value| {
            let packed = Packed::from_value(value).expect("no field of an entry has 4 GiB");
            packed.parts().into_iter().try_for_each(|part| self.out.sheet.put(part))
        })?;
        self.out.sheet.put(&[MARK])
    }

    fn stream_group(&mut self, group: impl StreamGroup) -> Result<(), O::Error> {
        self.out.string(group.name())?;
        let last = group.last();
        for number in [last.0, last.1, group.entries_read().unwrap_or(u64::MAX)] {
            self.out.length(number)?;
        }
        self.out.length(group.pending_count() as u64)?;
        for (id, time_ms, deliveries) in group.pending() {
            self.out.sheet.put(&bytes(id))?;
            self.out.sheet.put(&time_ms.to_le_bytes())?;
            self.out.length(match deliveries {
                HOPELESS_COUNT if !self.version.holds_released_entries() => HOPELESS_COUNT_BEFORE,
                _ => deliveries,
            })?;
        }
        let released = group.released_count();
        let claimed = if self.version.holds_released_entries() { 0 } else { released };
        let adds_nobody = claimed > 0 && !group.consumers().any(|it| is_nobody(&it));
        self.out.length((group.consumer_count() + usize::from(adds_nobody)) as u64)?;
        for consumer in group.consumers() {
            let claimed = if is_nobody(&consumer) { claimed } else { 0 };
            self.stream_consumer(consumer.name(), consumer.seen_ms(), consumer.active_ms())?;
            self.out.length((consumer.pending_count() + claimed) as u64)?;
            self.ids(consumer.pending().chain(group.released().take(claimed)))?;
        }
        if adds_nobody {
            self.stream_consumer(NOBODY, 0, None)?;
            self.out.length(claimed as u64)?;
            self.ids(group.released())?;
        }
        if self.version.holds_released_entries() {
            self.out.length(released as u64)?;
            self.ids(group.released())?;
        }
        Ok(())
    }

    /// A consumer without what it has.
    fn stream_consumer(
        &mut self,
        name: &[u8],
        seen_ms: i64,
        active_ms: Option<i64>,
    ) -> Result<(), O::Error> {
        self.out.string(name)?;
        self.out.sheet.put(&seen_ms.to_le_bytes())?;
        if self.version != Version::Redis10 {
            self.out.sheet.put(&active_ms.unwrap_or(NEVER).to_le_bytes())?;
        }
        Ok(())
    }

    fn ids(&mut self, mut ids: impl Iterator<Item = Id>) -> Result<(), O::Error> {
        ids.try_for_each(|id| self.out.sheet.put(&bytes(id)))
    }
}
