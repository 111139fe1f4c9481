//! Values between the keyspace and their form in dump files and payloads.

use std::io::Read;

use stillframe_keyspace::{EditError, Keyspace, Value};
use stillframe_rdb::{Collection, DecodeError, Decoder, Element, Encoder, Event, Head, Output};

/// Writes a value; `false`: there is no form for its type. Allocates nothing.
pub fn encode<O: Output>(
    encoder: &mut Encoder<O>,
    head: Head<'_>,
    value: Value<'_>,
) -> Result<bool, O::Error> {
    match value {
        Value::Int(int) => encoder.string(head, stillframe_rdb::Value::Int(int)),
        Value::Bytes(bytes) => encoder.string(head, stillframe_rdb::Value::Bytes(bytes)),
        Value::List(list) => encoder.list(head, || list.iter_from(0)),
        Value::Set(set) => encoder.set(head, set.len(), || set.iter()),
        Value::Hash(hash) => encoder.hash(head, hash.len(), || hash.iter()),
        Value::Sorted(sorted) => {
            let last = sorted.len().saturating_sub(1);
            let falling = || sorted.iter_back_from(last);
            encoder.sorted(head, sorted.len(), || sorted.iter_from(0), falling)
        }
        _ => return Ok(false),
    }
    .map(|()| true)
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
