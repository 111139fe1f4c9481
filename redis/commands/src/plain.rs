//! The stream for replicas of older servers: requests that they do not know, in a form that they
//! do. Messages of producers came with Redis 8.6, entries that are pending for nobody with 8.8;
//! Valkey has neither.
//!
//! - The plain form of a request has as many bytes as the request: all replicas count the same
//!   offsets. Empty lines fill it up, which replicas skip. They stand in front, since a replica
//!   counts them only with the request behind them.
//! - A message that was sent before adds nothing, and is not given an id: `*` in a stream says so.
//! - What is pending for nobody is pending for a consumer whose name is empty, which is what
//!   XPENDING shows where XNACK is known. It was delivered at time 0, so that anybody may claim it.
//! - No server before 8.8 knows the largest number of deliveries as one that nothing is added to:
//!   it would add to it past the largest integer. It gets [another](stillframe_rdb::HOPELESS).

use std::ops::Range;

use stillframe_rdb::{HOPELESS, HOPELESS_BEFORE, NOBODY};

use crate::request::{request_bytes, write_request};

/// The end of a release as this server says it. The second word changes nothing: it makes room for
/// the plain form, and tells a release from one of a client that came by another server, which may
/// leave each entry another number of deliveries.
pub(crate) const RELEASE_END: [&[u8]; 2] = [b"FORCE", b"FORCE"];

/// What older servers do not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// Messages of producers.
    Messages,
    /// Entries that are pending for nobody, or can never be processed.
    Released,
}

/// What stands in the stream for replicas that do not know a part of a request, which has so many
/// bytes, and that part. `None`: the request has no such part, or no such form.
pub fn plain_form(args: &[&[u8]], bytes: usize) -> Option<(Unknown, Vec<u8>)> {
    let (unknown, plain) = match message_request(args) {
        Some(MessageRequest::Adds(message)) => {
            (Unknown::Messages, [&args[..message.start], &args[message.end..]].concat())
        }
        Some(MessageRequest::AddsNothing) => (Unknown::Messages, vec![&b"PING"[..]]),
        None => (Unknown::Released, plain_release(args).or_else(|| plain_claim(args))?),
    };
    let length = request_bytes(plain.iter().map(|arg| arg.len()));
    // A request that came in another form than ours may be shorter; then it stays.
    let mut form = vec![b'\n'; bytes.checked_sub(length)?];
    write_request(&mut form, &plain);
    Some((unknown, form))
}

/// Whether a request of a stream tells of messages.
pub(crate) fn tells_of_messages(args: &[&[u8]]) -> bool {
    message_request(args).is_some()
}

/// Whether a request is a release as this server says it, or claims what cannot be processed.
pub(crate) fn tells_of_released(args: &[&[u8]]) -> bool {
    plain_release(args).is_some() || plain_claim(args).is_some()
}

/// The entries of a release, claimed for nobody.
fn plain_release<'a>(args: &[&'a [u8]]) -> Option<Vec<&'a [u8]>> {
    let [b"XNACK", key, group, b"FAIL", b"IDS", _, rest @ ..] = args else { return None };
    let [ids @ .., b"RETRYCOUNT", count, one, other] = rest else { return None };
    if [*one, *other] != RELEASE_END {
        return None;
    }
    let head: [&[u8]; 5] = [b"XCLAIM", *key, *group, NOBODY, b"0"];
    let count = if is_hopeless(count) { HOPELESS_BEFORE } else { count };
    let end: [&[u8]; 5] = [b"TIME", b"0", b"RETRYCOUNT", count, b"FORCE"];
    Some([&head[..], ids, &end].concat())
}

/// A claim of an entry that cannot be processed, as servers say it in their streams, with another
/// number of as many digits.
fn plain_claim<'a>(args: &[&'a [u8]]) -> Option<Vec<&'a [u8]>> {
    let [head @ .., count, force, just_id, last, id] = args else { return None };
    let is_claim = [*force, *just_id, *last] == [b"FORCE", &b"JUSTID"[..], b"LASTID"]
        && matches!(head, [b"XCLAIM", .., b"RETRYCOUNT"]);
    let tail: [&[u8]; 5] = [HOPELESS_BEFORE, *force, *just_id, *last, *id];
    (is_claim && is_hopeless(count)).then(|| [head, &tail].concat())
}

fn is_hopeless(count: &[u8]) -> bool {
    count == HOPELESS
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
        let (unknown, form) = plain_form(&args, bytes)?;
        let of_messages = unknown == Unknown::Messages;
        assert_eq!((form.len(), tells_of_messages(&args)), (bytes, of_messages), "{request}");
        assert_eq!(tells_of_released(&args), !of_messages, "{request}");
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
            (
                "XNACK s g FAIL IDS 1 1-1 RETRYCOUNT 0 FORCE FORCE",
                Some("XCLAIM s g  0 1-1 TIME 0 RETRYCOUNT 0 FORCE"),
            ),
            (
                "XNACK s g FAIL IDS 1 1-1 RETRYCOUNT 9223372036854775807 FORCE FORCE",
                Some("XCLAIM s g  0 1-1 TIME 0 RETRYCOUNT 4611686018427387904 FORCE"),
            ),
            (
                "XCLAIM s g a 0 1-1 TIME 5 RETRYCOUNT 9223372036854775807 FORCE JUSTID LASTID 1-1",
                Some(
                    "XCLAIM s g a 0 1-1 TIME 5 RETRYCOUNT 4611686018427387904 FORCE JUSTID LASTID \
                     1-1",
                ),
            ),
            ("XCLAIM s g a 0 1-1 TIME 5 RETRYCOUNT 9 FORCE JUSTID LASTID 1-1", None),
            ("XNACK s g FAIL IDS 1 1-1", None),
            ("XNACK s g FAIL IDS 1 1-1 RETRYCOUNT 3 FORCE", None),
            ("xnack s g FAIL IDS 1 1-1 RETRYCOUNT 3 FORCE FORCE", None),
            ("SET XADD IDMP", None),
        ] {
            assert_eq!(plain(request).as_deref(), expected, "{request}");
        }
    }

    /// Whatever the number of entries: the count of an array has more digits from some on.
    #[test]
    fn releases_of_any_number_of_entries_have_room_for_their_plain_form() {
        for number in (1..120).chain([997, 1000, 12_345]) {
            let ids: Vec<String> = (0..number).map(|ms| format!("{ms}-1")).collect();
            let text = number.to_string();
            let head: [&[u8]; 6] = [b"XNACK", b"s", b"g", b"FAIL", b"IDS", text.as_bytes()];
            let ids = ids.iter().map(|id| id.as_bytes());
            let end = [&[&b"RETRYCOUNT"[..], b"7"], &RELEASE_END[..]].concat();
            let args: Vec<&[u8]> = head.into_iter().chain(ids).chain(end).collect();
            let bytes = request_bytes(args.iter().map(|arg| arg.len()));
            let form = plain_form(&args, bytes).map(|(unknown, form)| (unknown, form.len()));
            assert_eq!(form, Some((Unknown::Released, bytes)), "{number} entries");
        }
    }

    #[test]
    fn a_request_that_is_too_short_stays() {
        assert_eq!(plain_form(&[b"XCFGSET", b"s"], 13), None);
    }
}
