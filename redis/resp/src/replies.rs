//! Replies out of a stream of bytes, for clients: the work is linear in the bytes received, however
//! many pieces they come in.

use crate::{Boundary, Reply, ReplyError, decode_reply};

/// Memory that is kept for replies to come.
const KEPT_BYTES: usize = 64 << 10;

/// What was received and is not read yet.
#[derive(Debug, Default)]
pub struct Replies {
    /// Up to `read` replies were handed on; the next one was looked for up to `passed`.
    input: Vec<u8>,
    read: usize,
    passed: usize,
    boundary: Boundary,
}

impl Replies {
    /// Where received bytes go: behind those that are there.
    pub fn input(&mut self) -> &mut Vec<u8> {
        &mut self.input
    }

    /// Whether the next reply has come whole.
    pub fn has_one(&mut self) -> bool {
        if self.passed == self.read || !self.boundary.is_whole() {
            // Up to the end of a reply, so that what follows it is not passed.
            self.passed += self.boundary.pass_one(&self.input[self.passed..]);
        }
        self.passed > self.read && self.boundary.is_whole()
    }

    /// Whether the next reply, which has come whole, answers no request: a message of RESP3.
    pub fn has_push(&mut self) -> bool {
        self.has_one() && self.input[self.read] == b'>'
    }

    /// Hands the next reply on to others, behind theirs.
    pub fn pass_to(&mut self, others: &mut Self) {
        if self.has_one() {
            others.input.extend_from_slice(&self.input[self.read..self.passed]);
            self.read = self.passed;
            self.forget();
        }
    }

    /// The bytes that are not read yet.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.input.len() - self.read
    }

    /// Hands on the next reply; `None`: it has not come whole.
    ///
    /// # Errors
    /// [`ReplyError`]: what came is no reply. Nothing behind it can be read.
    pub fn take<T>(&mut self, read: impl FnOnce(Reply<'_>) -> T) -> Result<Option<T>, ReplyError> {
        if !self.has_one() {
            return Ok(None);
        }
        let (reply, _) = decode_reply(&self.input[self.read..self.passed])?
            .ok_or(ReplyError::Malformed(self.passed - self.read))?;
        let result = read(reply);
        self.read = self.passed;
        self.forget();
        Ok(Some(result))
    }

    /// Drops the replies that were handed on once they are most of what is kept.
    fn forget(&mut self) {
        if self.read == self.input.len() {
            self.input.clear();
            (self.read, self.passed) = (0, 0);
            self.input.shrink_to(KEPT_BYTES);
        } else if self.read > self.input.len() / 2 {
            self.input.drain(..self.read);
            (self.read, self.passed) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(replies: &mut Replies) -> Result<Vec<String>, ReplyError> {
        let mut found = Vec::new();
        while let Some(text) = replies.take(|reply| format!("{reply:?}"))? {
            found.push(text);
        }
        Ok(found)
    }

    #[test]
    fn replies_are_the_same_in_pieces_of_any_size() {
        let stream = b"+OK\r\n*2\r\n$3\r\na\r\n\r\n:5\r\n$-1\r\n%1\r\n+k\r\n*1\r\n:1\r\n-ERR x\r\n";
        let mut whole = Replies::default();
        whole.input().extend_from_slice(stream);
        let expected = texts(&mut whole).expect("they are replies");
        assert_eq!(expected.len(), 5, "{expected:?}");
        for size in 1..stream.len() {
            let (mut replies, mut found) = (Replies::default(), Vec::new());
            for piece in stream.chunks(size) {
                replies.input().extend_from_slice(piece);
                found.extend(texts(&mut replies).expect("they are replies"));
            }
            assert_eq!(found, expected, "pieces of {size}");
            assert!(!replies.has_one() && replies.input().is_empty());
        }
    }

    #[test]
    fn messages_are_told_from_replies_and_passed_on() {
        let (mut replies, mut messages) = (Replies::default(), Replies::default());
        replies.input().extend_from_slice(b">1\r\n:1\r\n>1\r\n:2\r\n:3\r\n>2\r\n:4\r\n");
        while replies.has_push() {
            replies.pass_to(&mut messages);
        }
        assert_eq!(texts(&mut replies), Ok(vec!["Integer(3)".to_owned()]));
        assert_eq!(replies.unread(), 8, "the last is not whole");
        replies.pass_to(&mut messages);
        let expected = ["Push([Integer(1)])", "Push([Integer(2)])"].map(str::to_owned);
        assert_eq!(texts(&mut messages), Ok(expected.to_vec()));
        assert_eq!(messages.unread(), 0);
    }

    /// A reply of a megabyte in small pieces: no byte is looked at twice, which this would show by
    /// never coming to its end.
    #[test]
    fn a_large_reply_takes_as_long_as_its_bytes() {
        let count = 200_000;
        let stream = [format!("*{count}\r\n").into_bytes(), b":1\r\n".repeat(count)].concat();
        let mut replies = Replies::default();
        for piece in stream.chunks(16) {
            assert!(!replies.has_one());
            replies.input().extend_from_slice(piece);
        }
        let elements = replies.take(|reply| match reply {
            Reply::Array(elements) => elements.len(),
            _ => 0,
        });
        assert_eq!(elements, Ok(Some(count)));
    }

    #[test]
    fn what_is_no_reply_is_an_error() {
        for wrong in [&b"?1\r\n"[..], b":x\r\n", b"+OK\n"] {
            let mut replies = Replies::default();
            replies.input().extend_from_slice(wrong);
            assert!(texts(&mut replies).is_err(), "{}", wrong.escape_ascii());
        }
    }
}
