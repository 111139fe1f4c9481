//! RESTORE of payloads that DUMP does not make: empty ones, repeated elements, forms of old.

use stillframe_rdb::Crc64;

use crate::support::{Kind, Reply, Server, redis_is_here};

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

fn texts(parts: &[&[u8]]) -> Vec<u8> {
    parts.iter().flat_map(|part| text(part)).collect()
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

fn intset(width: u32, integers: &[i16]) -> Vec<u8> {
    let head = [width, integers.len() as u32].map(u32::to_le_bytes).concat();
    let body = integers.iter().flat_map(|integer| integer.to_le_bytes());
    text(&head.into_iter().chain(body).collect::<Vec<u8>>())
}

/// A value: its type, how many elements it claims if it does, and the rest.
fn value(kind: u8, count: impl Into<Option<u8>>, rest: &[u8]) -> Vec<u8> {
    [kind].into_iter().chain(count.into()).chain(rest.iter().copied()).collect()
}

fn score(member: &[u8], score: f64) -> Vec<u8> {
    [text(member), score.to_le_bytes().to_vec()].concat()
}

/// Values that RESTORE meets in no payload of DUMP.
#[rustfmt::skip]
fn values() -> Vec<(&'static str, Vec<u8>)> {
    let node = |container: u8, packed: Vec<u8>| [vec![container], packed].concat();
    vec![
        ("a node of no bytes", value(18, 1, &node(1, text(b"")))),
        ("a node of no bytes behind another", value(18, 2, &[node(1, text(b"a")), node(1, text(b""))].concat())),
        ("a node of one element", value(18, 1, &node(1, text(b"a")))),
        ("a packed node of no bytes", value(18, 1, &node(2, text(b"")))),
        ("a packed node of nothing", value(18, 1, &node(2, listpack(&[])))),
        ("a packed node of nothing before another", value(18, 2, &[node(2, listpack(&[])), node(2, listpack(&[b"a"]))].concat())),
        ("a packed element of no bytes", value(18, 1, &node(2, listpack(&[b""])))),
        ("no nodes", value(18, 0, b"")),
        ("a node of a third kind", value(18, 1, &node(3, listpack(&[b"a"])))),
        ("ziplists, one of them empty", value(14, 2, &[ziplist(&[]), ziplist(&[b"a"])].concat())),
        ("a ziplist of no bytes", value(14, 1, &text(b""))),
        ("ziplists, none", value(14, 0, b"")),
        ("a list of nothing", value(1, 0, b"")),
        ("a list of an empty element", value(1, 1, &text(b""))),
        ("a list in an empty ziplist", value(10, None, &ziplist(&[]))),
        ("a set of nothing", value(2, 0, b"")),
        ("a set of an empty member", value(2, 1, &text(b""))),
        ("a set with a member twice", value(2, 2, &texts(&[b"a", b"a"]))),
        ("a set with an integer twice", value(2, 2, &texts(&[b"1", b"1"]))),
        ("an intset of nothing", value(11, None, &intset(2, &[]))),
        ("an intset", value(11, None, &intset(2, &[1, 2]))),
        ("an intset with an integer twice", value(11, None, &intset(2, &[1, 1]))),
        ("an intset that falls", value(11, None, &intset(2, &[2, 1]))),
        ("an intset of an odd width", value(11, None, &intset(3, &[1, 2, 3]))),
        ("an intset of no bytes", value(11, None, &text(b""))),
        ("a hash of nothing", value(4, 0, b"")),
        ("a hash with a field twice", value(4, 2, &texts(&[b"a", b"1", b"a", b"2"]))),
        ("a hash in an empty listpack", value(16, None, &listpack(&[]))),
        ("a hash in a listpack", value(16, None, &listpack(&[b"a", b"1"]))),
        ("a hash in a listpack of one", value(16, None, &listpack(&[b"a"]))),
        ("a hash in a listpack with a field twice", value(16, None, &listpack(&[b"a", b"1", b"a", b"2"]))),
        ("a hash in an empty ziplist", value(13, None, &ziplist(&[]))),
        ("a hash in a ziplist of one", value(13, None, &ziplist(&[b"a"]))),
        ("a hash in a ziplist with a field twice", value(13, None, &ziplist(&[b"a", b"1", b"a", b"2"]))),
        ("a hash in an empty zipmap", value(9, None, &text(b"\x00\xff"))),
        ("a hash in a zipmap with a field twice", value(9, None, &text(b"\x02\x01a\x01\x00b\x01a\x01\x00c\xff"))),
        ("a sorted set of nothing", value(5, 0, b"")),
        ("a sorted set with a member twice", value(5, 2, &[score(b"a", 1.0), score(b"a", 2.0)].concat())),
        ("a sorted set with no number", value(5, 1, &score(b"a", f64::NAN))),
        ("a sorted set of old of nothing", value(3, 0, b"")),
        ("a sorted set of old with a member twice", value(3, 2, b"\x01a\x011\x01a\x012")),
        ("a sorted set of old with no number", value(3, 1, b"\x01a\xfd")),
        ("a sorted set in an empty listpack", value(17, None, &listpack(&[]))),
        ("a sorted set in a listpack with a member twice", value(17, None, &listpack(&[b"a", b"1", b"a", b"2"]))),
        ("a sorted set in an empty ziplist", value(12, None, &ziplist(&[]))),
        ("a sorted set in a ziplist of one", value(12, None, &ziplist(&[b"a"]))),
    ]
}

/// What Redis refuses once it checks payloads in depth is refused here always; the rest means the
/// same.
#[test]
fn payloads_are_refused_as_by_redis() {
    if !redis_is_here("payloads are refused as by redis") {
        return;
    }
    let servers = [Server::start(Kind::Redis), Server::start(Kind::subject("imprint"))];
    let mut pair = servers.each_ref().map(Server::client);
    pair[0].ok("CONFIG SET sanitize-dump-payload yes");
    let mut refused = 0;
    for (name, value) in values() {
        let [theirs, ours] = pair.each_mut().map(|client| {
            client.ok("FLUSHALL");
            let restored = client.call(&[b"RESTORE", b"k", b"0", &payload(&value)]);
            let shown = match client.ask("TYPE k").text().as_str() {
                "list" => client.ask("LRANGE k 0 -1"),
                "set" => client.ask("SORT k ALPHA"),
                "hash" => client.ask("HGETALL k"),
                "zset" => client.ask("ZRANGE k 0 -1 WITHSCORES"),
                _ => Reply::Null,
            };
            (restored, shown)
        });
        assert_eq!(ours, theirs, "{name}");
        refused += usize::from(matches!(ours.0, Reply::Error(_)));
    }
    assert!(refused > 30, "{refused} of the payloads are refused");
}

/// Who looks for Redis's words in a log finds them.
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
