//! The request parser: every way a stream may be cut, and every way it may be wrong.

use proptest::prelude::*;
use stillframe_resp::{Limits, Parser, ProtocolError};

type Request = Vec<Vec<u8>>;

/// All requests that `input` holds when it arrives in the given pieces, and how it ends. What is
/// plain is the same to both ways of parsing.
fn parse_in_pieces(pieces: &[&[u8]], limits: Limits) -> (Vec<Request>, Result<(), ProtocolError>) {
    let mut parser = Parser::new(limits);
    let (mut buffer, mut requests) = (Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let plain = parser.plain(&buffer).map(|plain| {
                (plain.bytes(), plain.args().iter().map(|arg| arg.to_vec()).collect::<Request>())
            });
            match parser.parse(&mut buffer) {
                Ok(None) => {
                    assert_eq!(plain, None);
                    break;
                }
                Ok(Some(used)) => {
                    let ranges = parser.args().iter();
                    let request = ranges.map(|range| buffer[range.clone()].to_vec()).collect();
                    if let Some(plain) = plain {
                        assert_eq!(plain, (used, Request::clone(&request)));
                    }
                    requests.push(request);
                    buffer.drain(..used);
                }
                Err(error) => {
                    assert_eq!(plain, None);
                    return (requests, Err(error));
                }
            }
        }
    }
    (requests, Ok(()))
}

fn parse_whole(input: &[u8]) -> (Vec<Request>, Result<(), ProtocolError>) {
    parse_in_pieces(&[input], Limits::OPEN)
}

fn multibulk(request: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", request.len()).into_bytes();
    for arg in request {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

fn request(words: &[&str]) -> Request {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn requests_of_few_arguments_of_moderate_length_are_plain() {
    let is_plain =
        |request: &[Vec<u8>], limits| Parser::new(limits).plain(&multibulk(request)).is_some();
    let of = |count: usize, bytes: usize| vec![vec![b'x'; bytes]; count];
    for (count, bytes, expected) in [
        (1, 0, true),
        (8, 100, true),
        (3, 16 << 10, true),
        (3, (16 << 10) + 1, false),
        (9, 1, false),
        (0, 0, false),
    ] {
        assert_eq!(is_plain(&of(count, bytes), Limits::OPEN), expected, "{count} of {bytes}");
    }
    let narrow = Limits { bulk_bytes_max: 99, args_max: 2, ..Limits::OPEN };
    let found = [of(2, 99), of(2, 100), of(3, 1)].map(|request| is_plain(&request, narrow));
    assert_eq!(found, [true, false, false]);
}

#[test]
fn multibulk_inline_and_empty_requests_mix() {
    let input = b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n\r\n*0\r\n*-1\r\n\
                  set a 'b c'\n  PING \r\n*1\r\n$4\r\nQUIT\r\n";
    let expected = vec![
        request(&["ECHO", ""]),
        vec![],
        vec![],
        vec![],
        request(&["set", "a", "b c"]),
        request(&["PING"]),
        request(&["QUIT"]),
    ];
    assert_eq!(parse_whole(input), (expected, Ok(())));
}

#[test]
fn wrong_requests_get_the_texts_of_redis() {
    let long = |start: &str| [start.as_bytes(), &[b'1'; 64 * 1024 + 1]].concat();
    let cases: &[(Vec<u8>, &str)] = &[
        (b"*\r\n".to_vec(), "invalid multibulk length"),
        (b"*01\r\n".to_vec(), "invalid multibulk length"),
        (b"*x\r\n".to_vec(), "invalid multibulk length"),
        (b"*2147483648\r\n".to_vec(), "invalid multibulk length"),
        (b"*99999999999999999999\r\n".to_vec(), "invalid multibulk length"),
        (b"*1\r\nfoo\r\n".to_vec(), "expected '$', got 'f'"),
        (b"*1\r\n\r\n".to_vec(), "expected '$', got ' '"),
        (b"*1\r\n$-1\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$04\r\nPING\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$536870913\r\n".to_vec(), "invalid bulk length"),
        (long("*"), "too big mbulk count string"),
        (long("*1\r\n$"), "too big bulk count string"),
        (long(""), "too big inline request"),
        (b"echo \"a\r\n".to_vec(), "unbalanced quotes in request"),
    ];
    for (input, text) in cases {
        let error = parse_whole(input).1.expect_err(text);
        assert_eq!(error.to_string(), format!("Protocol error: {text}"));
    }
}

#[test]
fn a_line_of_64_kib_is_not_too_long_and_one_byte_more_is_however_it_is_cut() {
    let fits = [&[b'a'; 64 * 1024][..], b"\r\n"].concat();
    let too_long = [&[b'a'; 64 * 1024 + 1][..], b"\n"].concat();
    // The line end is the byte that must come within 64 KiB and one.
    assert!(parse_whole(&fits[1..]).1.is_ok());
    for cut in [1, 64 * 1024, 64 * 1024 + 1] {
        let (start, end) = too_long.split_at(cut);
        let error = parse_in_pieces(&[start, end], Limits::OPEN).1;
        assert_eq!(error, Err(ProtocolError::TooBigInline), "cut at {cut}");
    }
}

#[test]
fn clients_that_have_not_authenticated_send_little() {
    let limits = Limits::UNAUTHENTICATED;
    let parse = |input: &[u8]| parse_in_pieces(&[input], limits).1;
    assert_eq!(parse(b"*10\r\n$16384\r\n"), Ok(()));
    assert_eq!(parse(b"*11\r\n"), Err(ProtocolError::UnauthenticatedMultibulkLength));
    assert_eq!(parse(b"*1\r\n$16385\r\n"), Err(ProtocolError::UnauthenticatedBulkLength));
    assert_eq!(parse(b"*2147483648\r\n"), Err(ProtocolError::InvalidMultibulkLength));
}

#[test]
fn wanted_is_what_is_missing_but_no_more_than_has_arrived() {
    let mut parser = Parser::new(Limits::OPEN);
    let mut buffer = b"*1\r\n$1000\r\n".to_vec();
    assert_eq!(parser.parse(&mut buffer), Ok(None));
    assert_eq!(parser.wanted(), 1002);
    buffer.extend_from_slice(&[0; 1002]);
    assert_eq!(parser.parse(&mut buffer), Ok(Some(buffer.len())));
    assert_eq!(parser.wanted(), 0);

    let mut buffer = b"*1\r\n$536870912\r\n".to_vec();
    assert_eq!(parser.parse(&mut buffer), Ok(None));
    assert_eq!(parser.wanted(), 16 * 1024);
    buffer.resize(buffer.len() + (1 << 20), 0);
    assert_eq!(parser.parse(&mut buffer), Ok(None));
    assert_eq!(parser.wanted(), 1 << 20);
}

/// Bytes that look like requests most of the time.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let request = prop_oneof![
        4 => prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6)
            .prop_map(|args| multibulk(&args)),
        2 => "[a-z \"'\\\\x0-9]{0,30}\r?\n".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..8),
        1 => "\\*-?[0-9]{0,3}\r\n(\\$-?[0-9]{0,3}\r\n)?".prop_map(String::into_bytes),
    ];
    prop::collection::vec(request, 0..8).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn every_cut_gives_the_same_requests(input in stream()) {
        let whole = parse_whole(&input);
        for cut in 0..=input.len() {
            let (start, end) = input.split_at(cut);
            let split = parse_in_pieces(&[start, end], Limits::OPEN);
            prop_assert_eq!(&split, &whole, "cut at {}", cut);
        }
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        prop_assert_eq!(parse_in_pieces(&bytes, Limits::OPEN), whole);
    }

    #[test]
    fn requests_round_trip(
        requests in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..20), 0..6)
    ) {
        let input: Vec<u8> = requests.iter().flat_map(|request| multibulk(request)).collect();
        prop_assert_eq!(parse_whole(&input), (requests, Ok(())));
    }

    #[test]
    fn a_truncated_request_is_incomplete_not_wrong(
        args in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 1..8)
    ) {
        let input = multibulk(&args);
        for length in 0..input.len() {
            prop_assert_eq!(parse_whole(&input[..length]), (vec![], Ok(())));
        }
    }

    #[test]
    fn random_bytes_never_panic(input in prop::collection::vec(any::<u8>(), 0..200)) {
        parse_whole(&input).1.ok();
        parse_whole(&[b"*3\r\n$", &input[..]].concat()).1.ok();
    }
}
