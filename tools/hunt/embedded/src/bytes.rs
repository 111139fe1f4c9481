//! A key and what it holds as bytes, for stores that know nothing else.

use std::collections::{BTreeMap, BTreeSet};

use stillframe_hunt::{Content, Name};

/// The bytes of a key: its database, and its name.
pub(crate) fn key((db, name): &Name) -> Vec<u8> {
    [&db.to_be_bytes()[..], name].concat()
}

/// The key of these bytes.
pub(crate) fn name(bytes: &[u8]) -> Name {
    let (db, name) = bytes.split_first_chunk::<8>().expect("a key of ours");
    (u64::from_be_bytes(*db), name.to_vec())
}

/// The kind, and then every string with its length before it.
pub(crate) fn value(content: &Content) -> Vec<u8> {
    let mut bytes = vec![content.kind().as_bytes()[0]];
    let mut put = |text: &[u8]| {
        bytes.extend_from_slice(&(text.len() as u32).to_be_bytes());
        bytes.extend_from_slice(text);
    };
    match content {
        Content::Text(text) => put(text),
        Content::List(list) => list.iter().for_each(|it| put(it)),
        Content::Set(set) => set.iter().for_each(|it| put(it)),
        Content::Hash(hash) => hash.iter().for_each(|(field, value)| {
            put(field);
            put(value);
        }),
        Content::Sorted(sorted) => sorted.iter().for_each(|(member, score)| {
            put(member);
            put(&score.to_be_bytes());
        }),
    }
    if let Content::Set(_) = content {
        bytes[0] = b'S'; // "string" begins like "set"
    }
    bytes
}

/// What [`value`] made of.
pub(crate) fn content(bytes: &[u8]) -> Content {
    let (&kind, mut rest) = bytes.split_first().expect("a value of ours");
    let mut texts = Vec::new();
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let (text, behind) = behind.split_at(u32::from_be_bytes(*length) as usize);
        texts.push(text.to_vec());
        rest = behind;
    }
    let pairs = || texts.as_chunks::<2>().0.iter().cloned().map(|[one, two]| (one, two));
    match kind {
        b's' => Content::Text(texts.swap_remove(0)),
        b'l' => Content::List(texts),
        b'S' => Content::Set(texts.into_iter().collect::<BTreeSet<_>>()),
        b'h' => Content::Hash(pairs().collect()),
        _ => {
            let score = |bytes: Vec<u8>| f64::from_be_bytes(bytes.try_into().expect("a score"));
            let scored = pairs().map(|(member, bytes)| (member, score(bytes)));
            Content::Sorted(scored.collect::<BTreeMap<_, _>>())
        }
    }
}
