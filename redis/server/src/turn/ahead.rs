//! Batches of requests in a client's input: they are parsed before the first one runs, so that the
//! cache misses of their keys, or of the elements of their one collection, overlap (see
//! `Keyspace::warm`).
//!
//! Only plain requests come in batches; `Parser::parse` takes others, and those that are not whole.
//! Changes by a request of the batch (a database, limits, the configuration) do not affect how the
//! next ones are parsed.

use stillframe_keyspace::{Keyspace, Named, WARM_BATCH};
use stillframe_resp::{Outline, Parser, Plain};

/// Plain requests that follow each other.
pub(crate) struct Ahead<'b> {
    /// The requests, then `None`: clearing all of the array would cost as much as parsing one.
    requests: [Option<Plain<'b>>; WARM_BATCH],
}

impl<'b> Ahead<'b> {
    /// The next requests in `bytes`, which `parser` has not seen; none if the first one is not
    /// plain.
    pub(crate) fn parse(parser: &Parser, bytes: &'b [u8]) -> Self {
        let mut ahead = Self { requests: [None; WARM_BATCH] };
        let mut rest = bytes;
        for next in &mut ahead.requests {
            let Some(request) = parser.plain(rest) else { break };
            rest = &rest[request.bytes()..];
            *next = Some(request);
        }
        ahead
    }

    /// The next of these requests, which an I/O thread has found at the start of `bytes`; they are
    /// taken from `outlines`.
    pub(crate) fn outlined(outlines: &mut &[Outline], bytes: &'b [u8]) -> Self {
        let mut ahead = Self { requests: [None; WARM_BATCH] };
        let mut rest = bytes;
        for next in &mut ahead.requests {
            let Some((outline, others)) = outlines.split_first() else { break };
            *outlines = others;
            let Some(request) = outline.on(rest) else { break };
            rest = &rest[request.bytes()..];
            *next = Some(request);
        }
        ahead
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests[0].is_none()
    }

    /// The requests, in order.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &Plain<'b>> + Clone {
        self.requests.iter().map_while(Option::as_ref)
    }

    /// Warms the keys of the requests if there are several, or the elements that they name of one
    /// key.
    pub(crate) fn warm(&self, keyspace: &mut Keyspace, db: usize) {
        let [Some(first), Some(_), ..] = &self.requests else { return };
        let key = |request: &Plain<'b>| request.args().get(1).copied().unwrap_or_default();
        let first_key = key(first);
        if self.requests().any(|request| key(request) != first_key) {
            return keyspace.warm(db, self.requests().map(key));
        }
        let (mut named, mut count) = ([Named::default(); WARM_BATCH], 0);
        for (named, request) in named.iter_mut().zip(self.requests()) {
            count += 1;
            let Some([name, rest @ ..]) = request.args().get(2..) else { continue };
            let score = stillframe_commands::number::doubles::whole(name);
            *named = Named { name, member: rest.last().unwrap_or(name), score };
        }
        keyspace.warm_elements(db, first_key, &named[..count]);
    }
}

#[cfg(test)]
mod tests {
    use stillframe_resp::Limits;

    use super::*;

    fn parse(bytes: &[u8]) -> Vec<Vec<&[u8]>> {
        let ahead = Ahead::parse(&Parser::new(Limits::OPEN), bytes);
        ahead.requests().map(|request| request.args().to_vec()).collect()
    }

    #[test]
    fn whole_requests_are_seen_up_to_the_first_that_is_not_plain() {
        let get = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
        let set = b"*3\r\n$3\r\nSET\r\n$2\r\nbc\r\n$0\r\n\r\n";
        for rest in [&b""[..], b"PING\r\n", b"*-1\r\n", b"*2\r\n$3\r\nGET\r\n$5\r\nhal"] {
            let bytes = [get, &set[..], rest].concat();
            let expected = [vec![&b"GET"[..], b"a"], vec![b"SET", b"bc", b""]];
            assert_eq!(parse(&bytes), expected, "{}", rest.escape_ascii());
        }
    }

    #[test]
    fn a_batch_has_an_end() {
        assert_eq!(parse(&b"*1\r\n$4\r\nPING\r\n".repeat(100)).len(), WARM_BATCH);
    }
}
