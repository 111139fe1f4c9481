//! The stream for replicas that know no messages of producers (Valkey, Redis before 8.6): the same
//! requests without these.
//!
//! - The plain form of a request has as many bytes as the request: all replicas count the same
//!   offsets. Empty lines fill it up, which replicas skip. They stand in front, since a replica
//!   counts them only with the request behind them.
//! - A message that was sent before adds nothing, and is not given an id: `*` in a stream says so.

use std::ops::Range;

use crate::request::{request_bytes, write_request};

/// What stands in the stream for replicas that know no messages, if not the request itself, which
/// has so many bytes.
pub fn plain_form(args: &[&[u8]], bytes: usize) -> Option<Vec<u8>> {
    let plain = match message_request(args)? {
        MessageRequest::Adds(message) => [&args[..message.start], &args[message.end..]].concat(),
        MessageRequest::AddsNothing => vec![&b"PING"[..]],
    };
    let length = request_bytes(plain.iter().map(|arg| arg.len()));
    // A request that came in another form than ours may be shorter; then it stays.
    let mut form = vec![b'\n'; bytes.checked_sub(length)?];
    write_request(&mut form, &plain);
    Some(form)
}

/// Whether a request of a stream tells of messages.
pub(crate) fn tells_of_messages(args: &[&[u8]]) -> bool {
    message_request(args).is_some()
}

enum MessageRequest {
    /// XADD of a message, which these arguments name.
    Adds(Range<usize>),
    /// Only what is known of producers changes.
    AddsNothing,
}

fn message_request(args: &[&[u8]]) -> Option<MessageRequest> {
    let name = *args.first().filter(|name| matches!(name.first(), Some(b'x' | b'X')))?;
    let is = |word: &[u8]| name.eq_ignore_ascii_case(word);
    if is(b"XCFGSET") || is(b"XIDMPRECORD") {
        return Some(MessageRequest::AddsNothing);
    }
    if !is(b"XADD") {
        return None;
    }
    let (mut at, mut message) = (2, None);
    loop {
        let option = args.get(at)?;
        let is = |words: &[&[u8]]| words.iter().any(|word| option.eq_ignore_ascii_case(word));
        let sign = usize::from(args.get(at + 1).is_some_and(|it| matches!(*it, b"=" | b"~")));
        let words = match () {
            () if is(&[b"NOMKSTREAM", b"KEEPREF", b"DELREF", b"ACKED"]) => 1,
            () if is(&[b"MAXLEN", b"MINID"]) => 2 + sign,
            () if is(&[b"LIMIT", b"IDMPAUTO"]) => 2,
            () if is(&[b"IDMP"]) => 3,
            () => break,
        };
        if is(&[b"IDMP", b"IDMPAUTO"]) {
            message = Some(at..at + words);
        }
        at += words;
    }
    message.map(|message| match args[at].ends_with(b"*") {
        true => MessageRequest::AddsNothing,
        false => MessageRequest::Adds(message),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(request: &str) -> Option<String> {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let bytes = request_bytes(args.iter().map(|arg| arg.len()));
        let form = plain_form(&args, bytes)?;
        assert_eq!((form.len(), tells_of_messages(&args)), (bytes, true), "{request}");
        let text = String::from_utf8(form).expect("it is text");
        let lines = text.trim_start_matches('\n').lines().filter(|it| !it.starts_with(['*', '$']));
        Some(lines.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn requests_lose_what_they_tell_of_messages() {
        for (request, expected) in [
            ("XADD s IDMP p i 1-1 f v", Some("XADD s 1-1 f v")),
            ("xadd s idmpauto p 1-1 f v", Some("xadd s 1-1 f v")),
            (
                "XADD s NOMKSTREAM MAXLEN ~ 5 LIMIT 9 IDMP IDMP MAXLEN 1-1 f v",
                Some("XADD s NOMKSTREAM MAXLEN ~ 5 LIMIT 9 1-1 f v"),
            ),
            ("XADD s IDMP p i MAXLEN = 5 1-1 IDMP i", Some("XADD s MAXLEN = 5 1-1 IDMP i")),
            ("XADD s NOMKSTREAM IDMP p i * f v", Some("PING")),
            ("XCFGSET s IDMP-DURATION 7", Some("PING")),
            ("XIDMPRECORD s p i 1-1", Some("PING")),
            ("XADD s 1-1 IDMP p", None),
            ("XADD IDMP 1-1 f v", None),
            ("XADD s IDMP p", None),
            ("XNACK s g FAIL IDS 1 1-1", None),
            ("SET XADD IDMP", None),
        ] {
            assert_eq!(plain(request).as_deref(), expected, "{request}");
        }
    }

    #[test]
    fn a_request_that_is_too_short_stays() {
        assert_eq!(plain_form(&[b"XCFGSET", b"s"], 13), None);
    }
}
