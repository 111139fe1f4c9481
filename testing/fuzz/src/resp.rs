//! The parser of requests and the decoder of replies.

use stillframe_resp::{Limits, Parser, ProtocolError, decode_reply};

/// The requests of a stream, and how it ended.
type Parsed = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

/// Parses `data` as a stream of requests, whole and in pieces of the size that its first byte says.
pub fn resp(data: &[u8]) {
    reply(data);
    let (size, stream) = data.split_first().map_or((1, data), |(first, rest)| (*first, rest));
    let whole = parse(stream, stream.len().max(1));
    let pieces = parse(stream, usize::from(size) % 40 + 1);
    assert_eq!(whole, pieces, "split into pieces of {}", usize::from(size) % 40 + 1);
    reply(stream);
}

/// Decodes a reply, which is the same without what follows it, and none without its last byte.
fn reply(data: &[u8]) {
    let Ok(Some((_, used))) = decode_reply(data) else { return };
    let (exact, cut) = (&data[..used], &data[..used - 1]);
    assert!(matches!(decode_reply(exact), Ok(Some((_, again))) if again == used), "{used} bytes");
    assert!(matches!(decode_reply(cut), Ok(None)), "{used} bytes and one less");
}

/// Parses a stream that arrives in pieces of `size` bytes.
fn parse(stream: &[u8], size: usize) -> Parsed {
    let mut parser = Parser::new(Limits::OPEN);
    let (mut input, mut requests) = (Vec::new(), Vec::new());
    for piece in stream.chunks(size) {
        input.extend_from_slice(piece);
        loop {
            let plain = parser.plain(&input).map(|plain| {
                (plain.bytes(), plain.args().iter().map(|arg| arg.to_vec()).collect())
            });
            let parsed = parser.parse(&mut input);
            assert!(plain.is_none() || matches!(parsed, Ok(Some(_))), "plain requests are whole");
            match parsed {
                Ok(Some(used)) => {
                    let args = parser.args().iter().map(|range| input[range.clone()].to_vec());
                    let args: Vec<Vec<u8>> = args.collect();
                    if let Some(plain) = plain {
                        assert_eq!(plain, (used, args.clone()), "both ways to parse agree");
                    }
                    requests.push(args);
                    assert!((1..=input.len()).contains(&used), "a request has bytes");
                    input.drain(..used);
                }
                Ok(None) => {
                    assert!(
                        parser.wanted() <= input.len().max(16 << 10),
                        "what is wanted is bounded"
                    );
                    break;
                }
                Err(error) => return (requests, Some(error)),
            }
        }
    }
    (requests, None)
}

/// The parser with a bug planted behind it: a third argument of more than three bytes.
/// Every fuzzer must find it.
pub fn canary(data: &[u8], planted: bool) {
    let (requests, _) = parse(data, data.len().max(1));
    let found = requests.iter().any(|args| args.get(2).is_some_and(|arg| arg.len() > 3));
    assert!(!(planted && found), "the canary was found, as it should be");
}
