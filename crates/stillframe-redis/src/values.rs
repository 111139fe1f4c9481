//! Values between the keyspace and their form in dump files and payloads.

use std::io::Read;

use stillframe_keyspace::{Consumer, EditError, Group, Keyspace, Stream, StreamId, Text, Value};
use stillframe_rdb::{
    Collection, DecodeError, Decoder, Element, Encoder, Event, Head, Id, Output, StreamConsumer,
    StreamGroup, StreamHead, StreamValue, Value as Field,
};

/// Writes a value; `false`: there is no form for its type. Allocates nothing.
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
        Value::Hash(hash) => encoder.hash(head, hash.len(), || hash.iter()),
        Value::Sorted(sorted) => {
            let last = sorted.len().saturating_sub(1);
            let falling = || sorted.iter_back_from(last);
            encoder.sorted(head, sorted.len(), || sorted.iter_from(0), falling)
        }
        Value::Stream(stream) => encoder.stream(head, Whole(stream)),
        _ => return Ok(false),
    }
    .map(|()| true)
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
                true
            })
        }),
        Collection::Set => keyspace.edit_set(db, key, |set| {
            each(decoder, |element| matches!(element, Element::One(member) if set.insert(member)))
        }),
        Collection::Hash => keyspace.edit_hash(db, key, |hash| {
            each(
                decoder,
                |element| matches!(element, Element::Pair(field, value) if hash.set(field, value)),
            )
        }),
        Collection::Sorted => keyspace.edit_sorted(db, key, |sorted| {
            each(decoder, |element| {
                matches!(element, Element::Scored(member, score)
                    if sorted.set(member, score).is_none())
            })
        }),
    };
    read?.map_err(|wrong| match wrong {
        Wrong::Decode(error) => LoadError::Decode(error),
        Wrong::Twice { offset } => {
            let what = if kind == Collection::Hash { "a field" } else { "a member" };
            LoadError::Twice { offset, db, key: key.escape_ascii().to_string(), what }
        }
    })
}

enum Wrong {
    Decode(DecodeError),
    Twice { offset: u64 },
}

/// Hands on all elements, until `take` says that it had one already.
fn each<R: Read>(
    decoder: &mut Decoder<R>,
    mut take: impl FnMut(Element<'_>) -> bool,
) -> Result<(), Wrong> {
    loop {
        match decoder.next().map_err(Wrong::Decode)? {
            Some(Event::Element(element)) if take(element) => {}
            Some(Event::Element(_)) => return Err(Wrong::Twice { offset: decoder.offset() }),
            _ => return Ok(()),
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
    use stillframe_rdb::{Encoder, Head};

    use super::encode;

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
                assert!(stream.see_consumer(b"g", consumer, seen_ms));
                assert!(stream.deliver(b"g", Pending { id, consumer, time_ms, count }));
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
    }
}
