//! Values between the keyspace and their form in dump files and payloads.

use std::io::Read;

use stillframe_keyspace::{
    Consumer, EditError, FIELD_DEADLINE_MAX, Group, IdmpLimits, IdmpMessage, Keyspace, Names,
    Pending, Stream, StreamEdit, StreamId, Text, Value,
};
use stillframe_rdb::{
    Collection, DecodeError, Decoder, Element, Encoder, Event, HashField, Head, Id, Output,
    StreamConsumer, StreamGroup, StreamHead, StreamValue, Value as Field, Version,
};

use crate::progress::Progress;

/// The version of a payload of `value`: the lowest that holds it, or `expiring` for a hash with
/// fields that expire.
pub fn payload_version(value: Value<'_>, expiring: Version) -> Version {
    match value {
        Value::Hash(hash) if hash.has_deadlines() => expiring,
        Value::Array(_) => Version::Redis14,
        Value::Stream(stream) if stream.has_released() => Version::Redis14,
        Value::Stream(stream) if stream.has_idmp() => Version::Redis13,
        _ => Version::default(),
    }
}

/// Writes a value; `false`: the version written has no form for it. Allocates nothing.
pub fn encode<O: Output>(
    encoder: &mut Encoder<O>,
    head: Head<'_>,
    value: Value<'_>,
) -> Result<bool, O::Error> {
    match value {
        Value::Int(int) => encoder.string(head, Field::Int(int)),
        Value::Bytes(bytes) => encoder.string(head, Field::Bytes(bytes)),
        Value::List(list) => encoder.list(head, || list.iter_from(0)),
        Value::Set(set) => encoder.set(head, set.len(), || set.iter()),
        Value::Hash(hash) if hash.has_deadlines() => {
            let fields = || hash.fields().map(field_of);
            return encoder.expiring_hash(head, hash.len(), fields);
        }
        Value::Hash(hash) => encoder.hash(head, hash.len(), || hash.iter()),
        Value::Sorted(sorted) => {
            let last = sorted.len().saturating_sub(1);
            let falling = || sorted.iter_back_from(last);
            encoder.sorted(head, sorted.len(), || sorted.iter_from(0), falling)
        }
        Value::Stream(stream) => encoder.stream(head, Whole(stream)),
        Value::Array(array) => {
            return encoder.array(head, array.len(), array.inserted(), array.iter_from(0));
        }
        _ => return Ok(false),
    }
    .map(|()| true)
}

fn field_of(field: stillframe_keyspace::HashField<'_>) -> HashField<'_> {
    HashField { name: field.field, value: field.value, expire_at_ms: field.deadline }
}

/// A stream as the encoder reads it.
#[derive(Clone, Copy)]
struct Whole<'s>(Stream<'s>);

fn id_of(StreamId { ms, seq }: StreamId) -> Id {
    (ms, seq)
}

fn string_of(text: Text<'_>) -> Field<'_> {
    match text {
        Text::Int(int) => Field::Int(int),
        Text::Bytes(bytes) => Field::Bytes(bytes),
    }
}

impl<'s> StreamValue<'s> for Whole<'s> {
    fn head(self) -> StreamHead {
        let first = self.0.at(0).map_or(StreamId::MIN, |entry| entry.id);
        StreamHead {
            len: self.0.len() as u64,
            last: id_of(self.0.last_id()),
            first: id_of(first),
            deleted: id_of(self.0.deleted_id()),
            added: self.0.added(),
        }
    }

    fn entries(
        self,
    ) -> impl Iterator<Item = (Id, impl Iterator<Item = (Field<'s>, Field<'s>)> + Clone)> + Clone
    {
        self.0.iter_from(0).map(|entry| {
            let pair = |(name, value)| (string_of(name), string_of(value));
            (id_of(entry.id), entry.fields.map(pair))
        })
    }

    fn group_count(self) -> usize {
        self.0.group_count()
    }

    fn groups(self) -> impl Iterator<Item = impl StreamGroup> {
        self.0.groups().map(WholeGroup)
    }

    fn idmp_limits(self) -> (u64, u64) {
        let limits = self.0.idmp_limits();
        (limits.duration_s.into(), limits.entries.into())
    }

    fn producer_count(self) -> usize {
        self.0.producer_count()
    }

    fn producers(
        self,
    ) -> impl Iterator<Item = (&'s [u8], usize, impl Iterator<Item = (&'s [u8], Id)>)> {
        self.0.producers().map(|producer| {
            let sent = producer.sent().map(|(message, id)| (message, id_of(id)));
            (producer.pid, producer.len(), sent)
        })
    }

    fn idmp_counts(self) -> (u64, u64) {
        self.0.idmp_counts()
    }
}

/// A consumer group as the encoder reads it.
#[derive(Clone, Copy)]
struct WholeGroup<'s>(Group<'s>);

impl StreamGroup for WholeGroup<'_> {
    fn name(&self) -> &[u8] {
        self.0.name()
    }

    fn last(self) -> Id {
        id_of(self.0.last_id())
    }

    fn entries_read(self) -> Option<u64> {
        self.0.entries_read()
    }

    fn pending_count(self) -> usize {
        self.0.pending_len()
    }

    fn pending(self) -> impl Iterator<Item = (Id, i64, u64)> {
        self.0.pending_from(StreamId::MIN).map(|it| (id_of(it.id), it.time_ms, it.count))
    }

    fn consumer_count(self) -> usize {
        self.0.consumer_count()
    }

    fn consumers(self) -> impl Iterator<Item = impl StreamConsumer> {
        self.0.consumers().map(WholeConsumer)
    }

    fn released_count(self) -> usize {
        self.0.released_len()
    }

    fn released(self) -> impl Iterator<Item = Id> {
        self.0.released().map(id_of)
    }
}

/// A consumer as the encoder reads it.
#[derive(Clone, Copy)]
struct WholeConsumer<'s>(Consumer<'s>);

impl StreamConsumer for WholeConsumer<'_> {
    fn name(&self) -> &[u8] {
        self.0.name()
    }

    fn seen_ms(self) -> i64 {
        self.0.seen_ms()
    }

    fn active_ms(self) -> Option<i64> {
        self.0.active_ms()
    }

    fn pending_count(self) -> usize {
        self.0.pending_len()
    }

    fn pending(self) -> impl Iterator<Item = Id> {
        self.0.pending_from(StreamId::MIN).map(id_of)
    }
}

/// Why a collection could not be taken over.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The bytes are at fault.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A collection has what it can have once only more often.
    #[error("damaged before byte {offset}: key \"{key}\" of database {db} holds {what} twice")]
    Twice {
        /// Where the second one ends.
        offset: u64,
        /// The key's database.
        db: usize,
        /// The key, escaped.
        key: String,
        /// A field or a member.
        what: &'static str,
    },
    /// The groups of a stream contradict themselves.
    #[error(
        "damaged before byte {offset}: key \"{key}\" of database {db} is a stream with a group, a \
         consumer or a pending entry that is there twice or belongs to nobody"
    )]
    Pending {
        /// Where that is found.
        offset: u64,
        /// The key's database.
        db: usize,
        /// The key, escaped.
        key: String,
    },
    /// There is no memory, or a collection of another type under the key.
    #[error(transparent)]
    Edit(#[from] EditError),
}

/// Reads the elements of the collection that `decoder` has begun to `key`, which is not there. If
/// that fails some of them may be.
pub fn decode_elements<R: Read>(
    decoder: &mut Decoder<R>,
    keyspace: &mut Keyspace,
    db: usize,
    key: &[u8],
    kind: Collection,
) -> Result<(), LoadError> {
    let read = match kind {
        Collection::List => keyspace.edit_list(db, key, |list| {
            each(decoder, |element| {
                if let Element::One(bytes) = element {
                    list.push_back(bytes);
                }
                Taken::Yes
            })
        }),
        Collection::Set => keyspace.edit_set(db, key, |set| {
            each(decoder, |element| {
                Taken::once(matches!(element, Element::One(member) if set.insert(member)))
            })
        }),
        Collection::Hash => keyspace.edit_hash(db, key, |hash| {
            each(decoder, |element| match element {
                Element::Pair(field, value) => Taken::once(hash.set(field, value)),
                // Valkey's files may hold any time; Redis, as a replica, takes none but these.
                Element::Expiring(field, value, at) => {
                    let deadline = at.clamp(0, FIELD_DEADLINE_MAX);
                    Taken::once(hash.set_until(field, value, Some(deadline)))
                }
                _ => Taken::Twice,
            })
        }),
        Collection::Sorted => keyspace.edit_sorted(db, key, |sorted| {
            each(decoder, |element| {
                Taken::once(matches!(element, Element::Scored(member, score)
                    if sorted.set(member, score).is_none()))
            })
        }),
        Collection::Array => keyspace.edit_array(db, key, |array| {
            each(decoder, |element| match element {
                Element::At(index, value) => Taken::once(array.set(index, value)),
                Element::Inserted(index) => {
                    array.set_inserted(Some(index));
                    Taken::Yes
                }
                _ => Taken::Yes,
            })
        }),
        Collection::Stream => keyspace.edit_stream(db, key, |edit| {
            let mut stream = StreamRead::default();
            each(decoder, |element| Taken::once(stream.take(edit, element)))?;
            if stream.end_group() { Ok(()) } else { Err(Wrong::Twice { offset: decoder.offset() }) }
        }),
    };
    read?.map_err(|wrong| match wrong {
        Wrong::Decode(error) => LoadError::Decode(error),
        Wrong::Twice { offset } => {
            let what = match kind {
                Collection::Hash => "a field",
                Collection::Array => "an index",
                Collection::Stream => return LoadError::Pending { offset, db, key: shown(key) },
                _ => "a member",
            };
            LoadError::Twice { offset, db, key: shown(key), what }
        }
    })
}

fn shown(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}

/// What is known of a stream that is being read.
#[derive(Default)]
struct StreamRead {
    /// The names of the last node that gave some, and its number.
    names: Option<(u64, Names)>,
    group: Vec<u8>,
    consumer: Vec<u8>,
    producer: Vec<u8>,
    /// What is pending in the group, by rising ids, each with whether its consumer has come.
    pending: Vec<(Id, i64, u64, bool)>,
}

impl StreamRead {
    /// Takes over an element; false if it contradicts those before.
    fn take(&mut self, edit: &mut StreamEdit<'_>, element: Element<'_>) -> bool {
        let id = |(ms, seq): Id| StreamId { ms, seq };
        match element {
            Element::Entry { id: at, names, values, node } => {
                let pairs = (0..names.count()).map(|at| (names.get(at), values.get(at)));
                let Some(node) = node else { return edit.add(id(at), pairs) };
                let kept = self.names.filter(|(of, _)| *of == node).map(|(_, kept)| kept);
                let kept = kept.unwrap_or_else(|| edit.keep_names(pairs.clone().map(|(it, _)| it)));
                self.names = Some((node, kept));
                edit.add_named(id(at), kept, pairs)
            }
            Element::Head(head) => {
                edit.set_last_id(id(head.last));
                edit.set_deleted_id(id(head.deleted));
                edit.set_added(head.added);
                true
            }
            Element::Group { name, last, read, is_told } => {
                let is_whole = self.end_group();
                name.clone_into(&mut self.group);
                let last = id(last);
                let read =
                    if is_told { read } else { Progress::from_stream(edit.view()).count_to(last) };
                edit.create_group(name, last, read) && is_whole
            }
            Element::Pending { id, time_ms, count } => {
                let rises = self.pending.last().is_none_or(|last| last.0 < id);
                self.pending.push((id, time_ms, count, false));
                rises
            }
            Element::Consumer { name, seen_ms, active_ms } => {
                name.clone_into(&mut self.consumer);
                edit.see_consumer(&self.group, name, seen_ms, active_ms)
            }
            Element::Owned(owned) => {
                let found = self.pending.binary_search_by_key(&owned, |pending| pending.0);
                let Some((_, time_ms, count, taken)) = found.ok().map(|at| &mut self.pending[at])
                else {
                    return false;
                };
                let consumer = &self.consumer;
                let consumer = Some(&consumer[..]);
                let pending = Pending { id: id(owned), consumer, time_ms: *time_ms, count: *count };
                !std::mem::replace(taken, true) && edit.deliver(&self.group, pending)
            }
            Element::Released(released) => {
                let found = self.pending.binary_search_by_key(&released, |pending| pending.0);
                let Some((_, _, count, taken)) = found.ok().map(|at| &mut self.pending[at]) else {
                    return false;
                };
                let id = id(released);
                let pending = Pending { id, consumer: None, time_ms: 0, count: *count };
                !std::mem::replace(taken, true) && edit.deliver(&self.group, pending)
            }
            element => self.take_idmp(edit, element),
        }
    }

    /// As [`take`](Self::take), for what is known of producers.
    fn take_idmp(&mut self, edit: &mut StreamEdit<'_>, element: Element<'_>) -> bool {
        let id = |(ms, seq): Id| StreamId { ms, seq };
        match element {
            Element::Idmp { duration_s, entries } => {
                let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).max(1);
                let [duration_s, entries] = [duration_s, entries].map(number);
                edit.set_idmp_limits(IdmpLimits { duration_s, entries });
                true
            }
            Element::Producer(name) => {
                name.clone_into(&mut self.producer);
                !edit.view().knows_producer(name)
            }
            Element::Sent(message, at) => {
                let message = IdmpMessage { pid: &self.producer, iid: message };
                let is_new = edit.view().sent(message, i64::MIN).is_none();
                edit.note_sent(message, id(at));
                is_new
            }
            Element::IdmpCounts { added, duplicates } => {
                if (added, duplicates) != (0, 0) || edit.view().producer_count() > 0 {
                    edit.set_idmp_counts(added, duplicates);
                }
                true
            }
            _ => false,
        }
    }

    /// Whether all that is pending has its consumer.
    fn end_group(&mut self) -> bool {
        self.pending.drain(..).all(|(.., taken)| taken)
    }
}

enum Wrong {
    Decode(DecodeError),
    Twice { offset: u64 },
}

/// Whether an element was taken over.
enum Taken {
    Yes,
    /// It was there already.
    Twice,
}

impl Taken {
    fn once(is_new: bool) -> Self {
        if is_new { Self::Yes } else { Self::Twice }
    }
}

/// Hands on all elements, until `take` cannot take one.
fn each<R: Read>(
    decoder: &mut Decoder<R>,
    mut take: impl FnMut(Element<'_>) -> Taken,
) -> Result<(), Wrong> {
    loop {
        let taken = match decoder.next().map_err(Wrong::Decode)? {
            Some(Event::Element(element)) => take(element),
            _ => return Ok(()),
        };
        let offset = decoder.offset();
        match taken {
            Taken::Yes => {}
            Taken::Twice => return Err(Wrong::Twice { offset }),
        }
    }
}

/// Passes over the elements of the collection that `decoder` has begun.
pub fn skip_elements<R: Read>(decoder: &mut Decoder<R>) -> Result<(), DecodeError> {
    while let Some(Event::Element(_)) = decoder.next()? {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use stillframe_keyspace::{Keyspace, KeyspaceOptions, Pending, StreamId, Value};
    use stillframe_peers::{Random, rounds};
    use stillframe_rdb::{Collection, Decoder, Encoder, Event, Head, Version};

    use super::{decode_elements, encode};

    /// What DUMP of redis-server 7.0.15 gives for the same stream, without compression.
    const DUMPED: &str = "\
        13011000000000000000010000000000000001404d4d00000019000301000102018161028162020001020100\
        01000101018374776f040501020100010101f290eefe0485746872656506050100010401dfff020101856f74\
        686572068178020601ff03090901010003070101670101010200000000000000010000000000000002e80300\
        00000000000400000000000000050000000000000000d007000000000000010205616c69636515045507a201\
        0000010000000000000005000000000000000003626f62f6035507a201000001000000000000000100000000\
        000000020a002bde34c76854e5fe";

    #[test]
    fn a_stream_has_the_bytes_that_redis_gives_it() {
        let id = |ms, seq| StreamId { ms, seq };
        let options = KeyspaceOptions::default();
        let mut keyspace: Keyspace = Keyspace::create(&options).expect("memory");
        let edited = keyspace.edit_stream(0, b"k", |stream| {
            for (id, fields) in [
                (id(1, 1), &[("a", "1"), ("b", "two")][..]),
                (id(1, 2), &[("a", "-70000"), ("b", "three")]),
                (id(5, 0), &[("other", "x")]),
            ] {
                let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
                assert!(stream.add(id, fields));
            }
            stream.set_last_id(id(9, 9));
            stream.set_added(7);
            stream.set_deleted_id(id(0, 3));
            assert!(stream.create_group(b"g", id(1, 1), Some(1)));
            for (consumer, seen_ms, id, time_ms, count) in [
                (&b"bob"[..], 1_795_419_341_814, id(1, 2), 1000, 4),
                (b"alice", 1_795_419_341_845, id(5, 0), 2000, 1),
            ] {
                assert!(stream.see_consumer(b"g", consumer, seen_ms, Some(seen_ms)));
                assert!(
                    stream.deliver(b"g", Pending { id, consumer: Some(consumer), time_ms, count })
                );
            }
        });
        edited.expect("a new key");
        let value = keyspace.get(0, b"k", 0).map(stillframe_keyspace::Entry::value);
        assert!(matches!(value, Some(Value::Stream(_))));
        let mut payload = Vec::new();
        let mut encoder = Encoder::new(&mut payload).compress(false);
        let known = value.map(|value| encode(&mut encoder, Head::Payload, value));
        assert!(matches!(known, Some(Ok(true))));
        encoder.finish_payload().expect("memory takes all");
        let text: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, DUMPED);

        let mut decoder = Decoder::of_payload(&payload).expect("a sound payload");
        let Ok(Some(Event::Begin { kind, .. })) = decoder.next() else { panic!("no collection") };
        decode_elements(&mut decoder, &mut keyspace, 0, b"again", kind).expect("it is whole");
        let mut shown = |key: &[u8]| {
            format!("{:?}", keyspace.get(0, key, 0).map(stillframe_keyspace::Entry::value))
        };
        assert_eq!(shown(b"again"), shown(b"k"));
    }

    #[test]
    fn files_from_version_11_on_tell_when_consumers_were_active() {
        let options = KeyspaceOptions::default();
        let mut keyspace: Keyspace = Keyspace::create(&options).expect("memory");
        let edited = keyspace.edit_stream(0, b"k", |stream| {
            assert!(stream.create_group(b"g", StreamId::MIN, None));
            assert!(stream.see_consumer(b"g", b"busy", 9, Some(7)));
            assert!(stream.see_consumer(b"g", b"idle", 8, None));
        });
        edited.expect("a new key");
        for (version, expected) in [
            (Version::Redis10, [Some(9), Some(8)]),
            (Version::Redis11, [Some(7), None]),
            (Version::Redis12, [Some(7), None]),
            (Version::Valkey80, [Some(7), None]),
        ] {
            let payload = {
                let mut payload = Vec::new();
                let mut encoder = Encoder::new(&mut payload).version(version);
                let value = keyspace.get(0, b"k", 0).map(stillframe_keyspace::Entry::value);
                assert!(matches!(
                    value.map(|value| encode(&mut encoder, Head::Payload, value)),
                    Some(Ok(true))
                ));
                encoder.finish_payload().expect("memory takes all");
                payload
            };
            let key = format!("{version:?}");
            read(&mut keyspace, &payload, key.as_bytes()).expect("it was written just now");
            let value = keyspace.get(0, key.as_bytes(), 0).map(stillframe_keyspace::Entry::value);
            let Some(Value::Stream(stream)) = value else { panic!("no stream") };
            let group = stream.group(b"g").expect("it was written");
            let times: Vec<_> = group.consumers().map(|consumer| consumer.active_ms()).collect();
            assert_eq!(times, expected, "{version:?}");
        }
    }

    /// Long names of many short entries are written once, and read once.
    #[test]
    fn names_that_entries_share_take_their_bytes_once_in_memory_and_in_files() {
        let options = KeyspaceOptions::default();
        let mut keyspace: Keyspace = Keyspace::create(&options).expect("memory");
        let name = vec![b'n'; 1 << 17];
        const ENTRIES: u64 = 3000;
        let edited = keyspace.edit_stream(0, b"k", |stream| {
            let names = stream.keep_names([&name[..]].into_iter());
            let id = |ms| StreamId { ms, seq: 0 };
            let fields = [(&name[..], &b"v"[..])].into_iter();
            (1..=ENTRIES).all(|ms| stream.add_named(id(ms), names, fields.clone()))
        });
        assert!(edited.expect("memory"));
        let payload = payload_of(&mut keyspace, b"k", false);
        let most = 2 * (name.len() + 100 * ENTRIES as usize);
        assert!(payload.len() < most, "{} bytes in a file", payload.len());
        keyspace.remove(0, b"k");
        read(&mut keyspace, &payload, b"again").expect("it was written just now");
        let booked = keyspace.stats().entry_bytes;
        assert!(booked < most, "{booked} bytes in memory");
        assert_eq!(payload_of(&mut keyspace, b"again", false), payload);
    }

    /// The same entries and groups as Redis 5.0 to 6.2 write them (type 15), and 7.2 (type 21): by
    /// hand, after `rdb.c` of those.
    #[test]
    fn streams_of_other_releases_are_read_from_their_bytes() {
        let options = KeyspaceOptions::default();
        let mut keyspace: Keyspace = Keyspace::create(&options).expect("memory");
        let nodes = &DUMPED[2..DUMPED.find("03090901").expect("the numbers")];
        let id = |ms: u8, seq: u8| format!("{ms:016x}{seq:016x}");
        let pending = format!("02{}e80300000000000004{}d00700000000000001", id(1, 2), id(5, 0));
        let consumer = |name: &str, active: &str, id: String| format!("{name}{active}01{id}");
        let consumers = |active: &str| {
            let alice = consumer("05616c69636515045507a2010000", active, id(5, 0));
            let bob = consumer("03626f62f6035507a2010000", active, id(1, 2));
            format!("02{alice}{bob}")
        };
        let footer = "0a000000000000000000";
        // Entries, last id, [first and greatest deleted id, entries added,] one group, its name,
        // its last id, [entries read].
        let first = ["0f", nodes, "030909", "01", "0167", "0101", &pending, &consumers("")];
        let [numbers, active] = ["0309090101000307", "ff00000000000000"];
        let third =
            ["15", nodes, numbers, "01", "0167", "0101", "01", &pending, &consumers(active)];
        for (text, key) in
            [(first.concat() + footer, b"first"), (third.concat() + footer, b"third")]
        {
            let digits = text.as_bytes().chunks(2).map(|two| std::str::from_utf8(two));
            let bytes = digits.map(|two| u8::from_str_radix(two.expect("hex"), 16).expect("hex"));
            let bytes: Vec<u8> = bytes.collect();
            read(&mut keyspace, &bytes, key).expect("it is whole");
        }
        let mut shown = |key: &[u8]| {
            let value = keyspace.get(0, key, 0).map(stillframe_keyspace::Entry::value);
            let Some(Value::Stream(stream)) = value else { panic!("no stream") };
            let counts = (stream.added(), stream.deleted_id());
            let group = stream.group(b"g").expect("it has one");
            let pending: Vec<_> = group.pending_from(StreamId::MIN).map(|it| it.count).collect();
            let entries: Vec<_> = stream.iter_from(0).map(|entry| entry.id).collect();
            (counts, group.entries_read(), group.consumer_count(), pending, entries)
        };
        let id = |ms, seq| StreamId { ms, seq };
        let entries = vec![id(1, 1), id(1, 2), id(5, 0)];
        // The old form does not tell these numbers: Redis estimates them, too.
        let old = ((3, id(0, 0)), Some(1), 2, vec![4, 1], entries.clone());
        assert_eq!(shown(b"first"), old);
        assert_eq!(shown(b"third"), ((7, id(0, 3)), Some(1), 2, vec![4, 1], entries));
    }

    /// A stream of random entries and groups under a key.
    fn fill(keyspace: &mut Keyspace, random: &mut Random, key: &[u8]) {
        let edited = keyspace.edit_stream(0, key, |stream| {
            for ms in 1..=1 + random.below(300) as u64 {
                let value = random.below(1 << 20).to_string();
                let name = random.pick(&["a", "name", "other"]);
                let fields = [(name.as_bytes(), value.as_bytes()), (b"b", b"text")];
                let count = 1 + random.below(2);
                stream.add(StreamId { ms, seq: 0 }, fields.into_iter().take(count));
            }
            for group in [&b"g1"[..], b"g2"].iter().take(random.below(3)) {
                stream.create_group(group, StreamId { ms: 9, seq: 0 }, Some(9));
                for consumer in [&b"one"[..], b"two"] {
                    stream.see_consumer(group, consumer, 1000, Some(1000));
                    for _ in 0..random.below(20) {
                        let id = StreamId { ms: random.below(300) as u64, seq: 0 };
                        let count = random.below(5) as u64;
                        let consumer = Some(consumer);
                        stream.deliver(group, Pending { id, consumer, time_ms: 5, count });
                    }
                }
            }
            stream.delete(StreamId { ms: 3, seq: 0 });
        });
        edited.expect("there is memory");
    }

    fn payload_of(keyspace: &mut Keyspace, key: &[u8], compress: bool) -> Vec<u8> {
        let mut payload = Vec::new();
        let mut encoder = Encoder::new(&mut payload).compress(compress);
        let value = keyspace.get(0, key, 0).map(stillframe_keyspace::Entry::value);
        let known = value.map(|value| encode(&mut encoder, Head::Payload, value));
        assert!(matches!(known, Some(Ok(true))));
        encoder.finish_payload().expect("memory takes all");
        payload
    }

    /// Reads a payload to a key, whatever its checksum says.
    fn read(keyspace: &mut Keyspace, payload: &[u8], key: &[u8]) -> Result<(), String> {
        let shown = |error: &dyn std::fmt::Display| error.to_string();
        let mut decoder = Decoder::of_unverified_payload(payload).map_err(|error| shown(&error))?;
        let kind = match decoder.next().map_err(|error| shown(&error))? {
            Some(Event::Begin { kind: kind @ Collection::Stream, .. }) => kind,
            other => return Err(format!("another value: {other:?}")),
        };
        decode_elements(&mut decoder, keyspace, 0, key, kind).map_err(|error| shown(&error))?;
        decoder.next().map_err(|error| shown(&error)).map(drop)
    }

    /// A damaged stream is refused, or is another stream that can be written and read again.
    #[test]
    fn streams_come_back_equal_and_damaged_ones_do_no_harm() {
        let mut random = Random::new("streams_come_back_equal_and_damaged_ones_do_no_harm");
        let options = KeyspaceOptions::default();
        let (mut refused, mut others) = (0, 0);
        for _ in 0..rounds(40, 4_000) {
            let mut keyspace: Keyspace = Keyspace::create(&options).expect("memory");
            fill(&mut keyspace, &mut random, b"k");
            let compress = random.below(2) == 0;
            let whole = payload_of(&mut keyspace, b"k", compress);
            read(&mut keyspace, &whole, b"again").expect("it is whole");
            assert_eq!(payload_of(&mut keyspace, b"again", compress), whole);
            for _ in 0..50 {
                let mut damaged = whole.clone();
                let end = damaged.len() - 10;
                match random.below(3) {
                    0 => damaged[random.below(end)] = random.below(256) as u8,
                    1 => damaged[random.below(end)] ^= 1 << random.below(8),
                    _ => {
                        let at = random.below(end);
                        damaged.remove(at);
                    }
                }
                keyspace.remove(0, b"other");
                if read(&mut keyspace, &damaged, b"other").is_err() {
                    refused += 1;
                    continue;
                }
                others += 1;
                let other = payload_of(&mut keyspace, b"other", false);
                keyspace.remove(0, b"again");
                read(&mut keyspace, &other, b"again").expect("it was written just now");
                assert_eq!(payload_of(&mut keyspace, b"again", false), other);
            }
        }
        assert!(refused > 100 && others > 100, "{refused} refused, {others} others");
    }
}
