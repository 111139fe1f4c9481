//! RESTORE of damaged payloads: what the log says.

use stillframe_rdb::Crc64;

use crate::support::{Kind, Server, redis_is_here};

/// A payload of a value in an RDB file: behind it stand the version and the checksum.
fn payload(value: &[u8]) -> Vec<u8> {
    let mut bytes = [value, &10_u16.to_le_bytes()].concat();
    let mut checksum = Crc64::new();
    checksum.update(&bytes);
    bytes.extend_from_slice(&checksum.value().to_le_bytes());
    bytes
}

/// A string of fewer than 64 bytes in an RDB file.
fn text(bytes: &[u8]) -> Vec<u8> {
    [&[bytes.len() as u8], bytes].concat()
}

fn listpack(elements: &[&[u8]]) -> Vec<u8> {
    let body: Vec<u8> = elements
        .iter()
        .flat_map(|element| {
            let length = element.len() as u8;
            [&[0x80 | length], *element, &[length + 1]].concat()
        })
        .collect();
    let head = (body.len() as u32 + 7).to_le_bytes();
    text(&[&head[..], &(elements.len() as u16).to_le_bytes(), &body, &[0xff]].concat())
}

fn ziplist(elements: &[&[u8]]) -> Vec<u8> {
    let (mut body, mut last, mut before) = (Vec::new(), 10, 0);
    for element in elements {
        last = 10 + body.len() as u32;
        body.extend([before, element.len() as u8]);
        body.extend_from_slice(element);
        before = element.len() as u8 + 2;
    }
    let head = [body.len() as u32 + 11, last].map(u32::to_le_bytes).concat();
    text(&[&head, &(elements.len() as u16).to_le_bytes()[..], &body, &[0xff]].concat())
}

/// A value: its type, how many elements it claims if it does, and the rest.
fn value(kind: u8, count: impl Into<Option<u8>>, rest: &[u8]) -> Vec<u8> {
    [kind].into_iter().chain(count.into()).chain(rest.iter().copied()).collect()
}

/// A reader who searches the log for Redis's words finds them.
#[test]
fn damage_is_refused_and_logged_in_the_words_of_redis() {
    if !redis_is_here("damage_is_refused_and_logged_in_the_words_of_redis") {
        return;
    }
    // A byte of each is not what it was: the last entry's place, the count, a length.
    let mut sorted = ziplist(&[b"a", b"1"]);
    sorted[5] = 2;
    let mut fields = listpack(&[b"f", b"v"]);
    fields[5] = 9;
    let damaged = [
        (value(12, None, &sorted), "Zset ziplist integrity check failed"),
        (value(16, None, &fields), "Hash listpack integrity check failed"),
        (value(9, None, &text(b"\0\xff")), "Zipmap integrity check failed"),
        (value(9, None, &text(b"\x01\xfe\x01\0\0\0f\x01\0v\xff")), "Zipmap integrity check failed"),
        (value(9, None, &text(b"\x01\x01f\xfe\x01\0\0\0\0v\xff")), "Zipmap integrity check failed"),
    ];
    for kind in [Kind::Redis, Kind::Ours("imprint")] {
        for (value, words) in &damaged {
            let server = Server::start(kind);
            server.client().ok("CONFIG SET sanitize-dump-payload yes loglevel verbose");
            let reply = server.client().call(&[b"RESTORE", b"k", b"0", &payload(value)]);
            assert_eq!(reply.text(), "ERR Bad data format", "{kind:?}: {words}");
            assert!(server.log().contains(words), "{kind:?}: {words}: {}", server.log());
        }
    }
}
