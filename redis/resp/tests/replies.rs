//! The reply encoder against bytes a real Redis sends, and against the decoder.

use std::sync::Arc;

use proptest::prelude::*;
use stillframe_resp::{Insets, Out, Protocol, ProtocolError, Reply, ReplyError, decode_reply};

fn encode(protocol: Protocol, write: impl Fn(&mut Out<'_>)) -> String {
    let mut buffer = Vec::new();
    write(&mut Out::new(&mut buffer, protocol));
    String::from_utf8(buffer).expect("text")
}

#[track_caller]
fn check(write: impl Fn(&mut Out<'_>), resp2: &str, resp3: &str) {
    assert_eq!(encode(Protocol::Resp2, &write), resp2);
    assert_eq!(encode(Protocol::Resp3, &write), resp3);
}

#[test]
fn replies_take_the_form_of_each_protocol() {
    check(|out| out.ok(), "+OK\r\n", "+OK\r\n");
    check(|out| out.simple("PONG"), "+PONG\r\n", "+PONG\r\n");
    check(|out| out.error("ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n");
    check(|out| out.integer(-12), ":-12\r\n", ":-12\r\n");
    check(|out| out.bulk("ab"), "$2\r\nab\r\n", "$2\r\nab\r\n");
    check(|out| out.bulk_integer(-7), "$2\r\n-7\r\n", "$2\r\n-7\r\n");
    check(|out| out.null(), "$-1\r\n", "_\r\n");
    check(|out| out.null_array(), "*-1\r\n", "_\r\n");
    check(|out| out.array(12), "*12\r\n", "*12\r\n");
    check(|out| out.map(3), "*6\r\n", "%3\r\n");
    check(|out| out.set(3), "*3\r\n", "~3\r\n");
    check(|out| out.push(3), "*3\r\n", ">3\r\n");
    check(|out| out.double(0.1), "$19\r\n0.10000000000000001\r\n", ",0.10000000000000001\r\n");
    check(|out| out.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n");
    check(|out| out.boolean(true), ":1\r\n", "#t\r\n");
    check(|out| out.boolean(false), ":0\r\n", "#f\r\n");
    check(|out| out.big_number("12345"), "$5\r\n12345\r\n", "(12345\r\n");
    check(|out| out.verbatim(b"txt", "hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n");
}

/// Of whatever kind, nothing is added above the limit: a reply may have elements without number.
#[test]
fn nothing_is_added_above_the_limit() {
    let kinds: [fn(&mut Out<'_>); 14] = [
        |out| out.ok(),
        |out| out.simple("PONG"),
        |out| out.error("ERR"),
        |out| out.integer(5),
        |out| out.integer(12_345),
        |out| out.bulk("ab"),
        |out| out.null(),
        |out| out.null_array(),
        |out| out.array(3),
        |out| out.map(3),
        |out| out.push(3),
        |out| out.double(0.5),
        |out| out.boolean(true),
        |out| out.verbatim(b"txt", "ab"),
    ];
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        for (number, kind) in kinds.iter().enumerate() {
            let mut buffer = vec![b'x'; 100];
            kind(&mut Out { limit: 99, ..Out::new(&mut buffer, protocol) });
            assert_eq!(buffer.len(), 100, "{number}, {protocol:?}");
            kind(&mut Out { limit: 100, ..Out::new(&mut buffer, protocol) });
            assert!(buffer.len() > 100, "{number}, {protocol:?}");
        }
    }
}

/// What replies contain by reference comes where it would stand, and counts towards the limit.
#[test]
fn texts_by_reference_stand_where_they_belong() {
    let texts = ["", "a", "long"].map(|text| Arc::new(text.repeat(99).into_bytes()));
    for wanted in 0..8 {
        let write = |out: &mut Out<'_>| {
            for (number, text) in texts.iter().enumerate() {
                match wanted >> number & 1 {
                    0 => out.ok(),
                    _ => out.bulk_shared(text),
                }
            }
        };
        let (mut buffer, mut insets) = (b"sent".to_vec(), Insets::default());
        let insets_of = Some(&mut insets);
        write(&mut Out { insets: insets_of, ..Out::new(&mut buffer, Protocol::Resp2) });
        let whole = encode(Protocol::Resp2, write);
        let pieces: Vec<u8> = insets.pieces(&buffer, 4).flatten().copied().collect();
        assert_eq!(String::from_utf8_lossy(&pieces), whole);
        assert_eq!(buffer.len() + insets.bytes(), 4 + whole.len());
        assert_eq!(insets.is_empty(), wanted == 0);
        let all: Vec<u8> = insets.pieces(&buffer, 0).flatten().copied().collect();
        assert_eq!(all, [b"sent", whole.as_bytes()].concat());
    }
    let (mut buffer, mut insets) = (Vec::new(), Insets::default());
    let mut out =
        Out { limit: 400, insets: Some(&mut insets), ..Out::new(&mut buffer, Protocol::Resp2) };
    out.bulk_shared(&texts[2]);
    out.bulk_shared(&texts[2]);
    assert!(out.is_full(), "the second is in the buffer, as is all that is beyond the limit");
    assert_eq!(insets.bytes(), 396);
}

#[test]
fn an_array_may_be_counted_after_it_is_written() {
    let written = encode(Protocol::Resp2, |out| {
        out.ok();
        let start = out.position();
        (0..12).for_each(|number| out.integer(number));
        out.array_at(start, 12);
    });
    assert!(written.starts_with("+OK\r\n*12\r\n:0\r\n:1\r\n"), "{written}");
}

#[test]
fn a_protocol_error_repeats_the_byte_as_it_came() {
    let mut buffer = Vec::new();
    let mut out = Out::new(&mut buffer, Protocol::Resp2);
    out.protocol_error(&ProtocolError::ExpectedBulk(0xff));
    out.protocol_error(&ProtocolError::ExpectedBulk(b'\r'));
    out.protocol_error(&ProtocolError::TooBigInline);
    let expected = b"-ERR Protocol error: expected '$', got '\xff'\r\n\
                     -ERR Protocol error: expected '$', got ' '\r\n\
                     -ERR Protocol error: too big inline request\r\n";
    assert_eq!(buffer.escape_ascii().to_string(), expected.escape_ascii().to_string());
}

#[test]
fn deep_nesting_and_nonsense_are_refused() {
    assert!(matches!(decode_reply(&b"*1\r\n".repeat(1000)), Err(ReplyError::TooDeep(_))));
    assert_eq!(decode_reply(b"?1\r\n"), Err(ReplyError::UnknownType(b'?', 0)));
    for wrong in
        [&b":1x\r\n"[..], b"$-2\r\n", b"$1\r\nabc\r\n", b"+a\rb", b"#x\r\n", b"=2\r\nab\r\n"]
    {
        let result = decode_reply(wrong);
        assert!(matches!(result, Err(ReplyError::Malformed(_))), "{}", wrong.escape_ascii());
    }
}

#[test]
fn attributes_are_skipped() {
    let input = b"|1\r\n+ttl\r\n:3600\r\n$1\r\nv\r\n";
    assert_eq!(decode_reply(input), Ok(Some((Reply::Bulk(b"v"), input.len()))));
}

/// A reply tree that owns its texts.
#[derive(Debug, Clone)]
enum Tree {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    Double(f64),
    Boolean(bool),
    Verbatim(Vec<u8>),
    Array(Vec<Tree>),
    Set(Vec<Tree>),
    Map(Vec<(Tree, Tree)>),
}

impl Tree {
    fn write(&self, out: &mut Out<'_>) {
        match self {
            Tree::Simple(text) => out.simple(text),
            Tree::Error(text) => out.error(text),
            Tree::Integer(value) => out.integer(*value),
            Tree::Bulk(bytes) => out.bulk(bytes),
            Tree::Null => out.null(),
            Tree::Double(value) => out.double(*value),
            Tree::Boolean(value) => out.boolean(*value),
            Tree::Verbatim(text) => out.verbatim(b"txt", text),
            Tree::Array(items) => {
                let start = out.position();
                items.iter().for_each(|item| item.write(out));
                out.array_at(start, items.len());
            }
            Tree::Set(items) => {
                out.set(items.len());
                items.iter().for_each(|item| item.write(out));
            }
            Tree::Map(pairs) => {
                out.map(pairs.len());
                for (key, value) in pairs {
                    key.write(out);
                    value.write(out);
                }
            }
        }
    }

    fn reply(&self) -> Reply<'_> {
        match self {
            Tree::Simple(text) => Reply::Simple(text.as_bytes()),
            Tree::Error(text) => Reply::Error(text.as_bytes()),
            Tree::Integer(value) => Reply::Integer(*value),
            Tree::Bulk(bytes) => Reply::Bulk(bytes),
            Tree::Null => Reply::Null,
            Tree::Double(value) => Reply::Double(*value),
            Tree::Boolean(value) => Reply::Boolean(*value),
            Tree::Verbatim(text) => Reply::Verbatim(*b"txt", text),
            Tree::Array(items) => Reply::Array(items.iter().map(Tree::reply).collect()),
            Tree::Set(items) => Reply::Set(items.iter().map(Tree::reply).collect()),
            Tree::Map(pairs) => {
                Reply::Map(pairs.iter().map(|(key, value)| (key.reply(), value.reply())).collect())
            }
        }
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        "[ -~]{0,20}".prop_map(Tree::Simple),
        "[ -~]{0,20}".prop_map(Tree::Error),
        any::<i64>().prop_map(Tree::Integer),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Tree::Bulk),
        Just(Tree::Null),
        any::<f64>()
            .prop_filter("NaN is not equal to itself", |f| !f.is_nan())
            .prop_map(Tree::Double),
        any::<bool>().prop_map(Tree::Boolean),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Tree::Verbatim),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Tree::Array),
            prop::collection::vec(inner.clone(), 0..6).prop_map(Tree::Set),
            prop::collection::vec((inner.clone(), inner), 0..4).prop_map(Tree::Map),
        ]
    })
}

proptest! {
    #[test]
    fn resp3_replies_round_trip_and_every_truncation_is_incomplete(tree in tree()) {
        let mut bytes = Vec::new();
        tree.write(&mut Out::new(&mut bytes, Protocol::Resp3));
        prop_assert_eq!(decode_reply(&bytes), Ok(Some((tree.reply(), bytes.len()))));
        for length in 0..bytes.len() {
            prop_assert_eq!(decode_reply(&bytes[..length]), Ok(None), "cut at {}", length);
        }
    }

    #[test]
    fn resp2_replies_are_read_whole(tree in tree()) {
        let mut bytes = Vec::new();
        tree.write(&mut Out::new(&mut bytes, Protocol::Resp2));
        let (_, length) = decode_reply(&bytes).unwrap().unwrap();
        prop_assert_eq!(length, bytes.len());
    }

    #[test]
    fn random_bytes_never_panic(
        input in prop::collection::vec(any::<u8>(), 0..60), kind in "[-+:$*_,#(!=%~>|]"
    ) {
        decode_reply(&input).ok();
        decode_reply(&[kind.as_bytes(), &input].concat()).ok();
        decode_reply(&[kind.as_bytes(), b"3\r\n", &input].concat()).ok();
    }
}
