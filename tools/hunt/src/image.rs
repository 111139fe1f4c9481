//! An image's bytes to contents.

use std::collections::{BTreeMap, BTreeSet};

use stillframe_rdb::{Collection, DecodeError, Decoder, Element, Event, Value};

use crate::content::{Content, Contents};

/// What an image holds of the hunter's keys, and what it says of itself.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) contents: Contents,
    pub(crate) repl_id: Option<String>,
    pub(crate) repl_offset: Option<i64>,
}

/// Reads an image; keys that do not begin with `prefix` are passed over.
///
/// # Errors
/// One sentence about bytes that are no image.
pub(crate) fn read(bytes: &[u8], prefix: &[u8]) -> Result<Reading, String> {
    let length = bytes.len() as u64;
    decode(Decoder::new(bytes).with_file_bytes(length), prefix)
        .map_err(|error| format!("the image cannot be read: {error}"))
}

fn decode(mut decoder: Decoder<&[u8]>, prefix: &[u8]) -> Result<Reading, DecodeError> {
    let mut image = Reading::default();
    // The collection under way, if it is one of ours.
    let mut open = None;
    while let Some(event) = decoder.next()? {
        match event {
            Event::Aux { name, value } => match (name, value) {
                (b"repl-offset", Value::Int(offset)) => image.repl_offset = Some(offset),
                (b"repl-id", value) => {
                    image.repl_id = Some(String::from_utf8_lossy(&owned(value)).into_owned());
                }
                _ => {}
            },
            Event::Entry { db, key, value, .. } if key.starts_with(prefix) => {
                image.contents.insert((db, key.to_vec()), Content::Text(owned(value)));
            }
            Event::Begin { db, key, kind, .. } if key.starts_with(prefix) => {
                open = Some(((db, key.to_vec()), empty(kind)));
            }
            Event::Element(element) => {
                if let Some((_, content)) = &mut open {
                    add(content, element);
                }
            }
            Event::End => image.contents.extend(open.take()),
            _ => {}
        }
    }
    Ok(image)
}

fn owned(value: Value<'_>) -> Vec<u8> {
    match value {
        Value::Int(number) => number.to_string().into_bytes(),
        Value::Bytes(bytes) => bytes.to_vec(),
    }
}

fn empty(kind: Collection) -> Content {
    match kind {
        Collection::List => Content::List(Vec::new()),
        Collection::Set => Content::Set(BTreeSet::new()),
        Collection::Sorted => Content::Sorted(BTreeMap::new()),
        Collection::Hash => Content::Hash(BTreeMap::new()),
        // No transaction writes one.
        Collection::Stream => Content::Text(b"a stream".to_vec()),
        Collection::Array => Content::Text(b"an array".to_vec()),
    }
}

fn add(content: &mut Content, element: Element<'_>) {
    match (content, element) {
        (Content::List(list), Element::One(one)) => list.push(one.to_vec()),
        (Content::Set(set), Element::One(one)) => {
            set.insert(one.to_vec());
        }
        (Content::Hash(hash), Element::Pair(field, value)) => {
            hash.insert(field.to_vec(), value.to_vec());
        }
        (Content::Sorted(sorted), Element::Scored(member, score)) => {
            sorted.insert(member.to_vec(), score);
        }
        // The reader gives each kind its own elements.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stillframe_rdb::{Crc64, Encoder, HEADER_BYTES, Origin};

    fn file() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes);
        let origin = Origin { created_s: 0, used_memory_bytes: 0, aof_base: false };
        encoder.begin(&origin).expect("memory takes all");
        encoder.entry(1, b"hunt:a", Value::Int(7), None).expect("memory takes all");
        encoder.entry(0, b"other", Value::Int(8), None).expect("memory takes all");
        encoder.finish().expect("memory takes all");
        bytes
    }

    /// A file with another head, and a checksum that fits.
    fn headed(head: &[u8; HEADER_BYTES]) -> Vec<u8> {
        let mut bytes = file();
        bytes[..HEADER_BYTES].copy_from_slice(head);
        let body = bytes.len() - 8;
        let mut checksum = Crc64::new();
        checksum.update(&bytes[..body]);
        bytes[body..].copy_from_slice(&checksum.value().to_le_bytes());
        bytes
    }

    #[test]
    fn images_of_newer_servers_are_read_and_their_checksum_counts() {
        for head in [b"REDIS0010", b"REDIS0011", b"REDIS0012", b"VALKEY080"] {
            let bytes = headed(head);
            let image = read(&bytes, b"hunt:").expect("an image");
            let key = (1, b"hunt:a".to_vec());
            assert_eq!(image.contents, Contents::from([(key, Content::Text(b"7".to_vec()))]));
            for at in HEADER_BYTES..bytes.len() - 8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1;
                assert!(read(&damaged, b"hunt:").is_err(), "byte {at} of {}", head.escape_ascii());
            }
        }
    }

    #[test]
    fn what_is_no_image_is_refused() {
        for bytes in [&b""[..], b"REDIS", b"VALKEY080", b"REDIS9999xxxxxxxx", b"GET / HTTP/1.1\r\n"]
        {
            assert!(read(bytes, b"hunt:").is_err(), "{}", bytes.escape_ascii());
        }
    }
}
