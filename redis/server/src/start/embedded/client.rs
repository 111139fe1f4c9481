//! Requests to a server in this process, one after the other.

use std::io::{self, Write};

use stillframe_resp::{Replies, Reply, ReplyError};

use crate::connections::net::Connection;

/// Bytes read at once, at least.
const READ_BYTES: usize = 16 << 10;
/// Memory that a client keeps for its next request.
const KEPT_BYTES: usize = 64 << 10;
/// Messages that wait to be received, at most.
const MESSAGES_BYTES: usize = 32 << 20;
/// Commands after which the server sends what answers no request, or more than one reply.
const STREAMS: [&str; 9] = [
    "SUBSCRIBE",
    "PSUBSCRIBE",
    "SSUBSCRIBE",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "SUNSUBSCRIBE",
    "MONITOR",
    "SYNC",
    "PSYNC",
];

/// A client of a server in this process: sends requests, reads replies.
///
/// Requests that are sent before a reply is read travel together, as in a pipeline. Replies come in
/// the order of the requests. [`ask`](Self::ask) never takes what belongs to another request, nor a
/// message of RESP3, such as one of CLIENT TRACKING.
pub struct Client {
    connection: Connection,
    /// Requests that are not sent yet.
    output: Vec<u8>,
    replies: Replies,
    /// What `ask` found before its reply, for `receive`.
    messages: Replies,
    /// Replies to come. `None` from the first request on that has not one reply: none can be told
    /// from a message then (in RESP2 both are arrays).
    owed: Option<u64>,
}

/// The connection has failed, and is of no more use; or a reply was asked for where none comes, or
/// none can be told from others.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server is gone, or nothing came in time.
    #[error(transparent)]
    Connection(#[from] io::Error),
    /// What came is no reply.
    #[error("the server sent what is no reply: {0}")]
    Reply(#[from] ReplyError),
    /// The request has no reply to wait for, or more than one. It was not sent; the connection is
    /// good.
    #[error("{0} has no single reply to wait for; it was not sent")]
    NoReply(&'static str),
    /// Replies to earlier requests come first. The request was not sent; the connection is good.
    #[error("{0} replies to earlier requests are to be received first; the request was not sent")]
    Owed(u64),
    /// A request without a single reply was sent before, so that the next reply may be a message.
    /// This one was not sent; the connection is good for what is sent and received.
    #[error(
        "after a request without a single reply, replies cannot be told from messages; this one \
         was not sent"
    )]
    Stream,
    /// Messages that nobody received take too much memory. The reply is still to come: receive them
    /// and it.
    #[error("messages that wait to be received are too many; receive them, then the reply")]
    Messages,
}

impl Client {
    /// A client of a connection on which nothing was sent.
    #[must_use]
    pub fn new(connection: Connection) -> Self {
        Self {
            connection,
            output: Vec::new(),
            replies: Replies::default(),
            messages: Replies::default(),
            owed: Some(0),
        }
    }

    /// Its connection, to set how long it waits.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Adds a request to those that go out with the next [`receive`](Self::receive).
    pub fn send<A: AsRef<[u8]>>(&mut self, args: impl ExactSizeIterator<Item = A> + Clone) {
        let has_one = Self::check_reply(args.clone()).is_ok();
        self.owed = self.owed.filter(|_| has_one).map(|owed| owed + 1);
        let mut number = stillframe_resp::IntegerBuffer::default();
        let mut header = |output: &mut Vec<u8>, mark: u8, count: usize| {
            output.push(mark);
            output.extend_from_slice(stillframe_resp::format_integer(count as i64, &mut number));
            output.extend_from_slice(b"\r\n");
        };
        header(&mut self.output, b'*', args.len());
        for arg in args {
            let arg = arg.as_ref();
            header(&mut self.output, b'$', arg.len());
            self.output.extend_from_slice(arg);
            self.output.extend_from_slice(b"\r\n");
        }
    }

    /// Waits for the next reply, or message, and has it read.
    ///
    /// # Errors
    /// [`ClientError`]: the connection has failed, or its time-outs are over; then the reply may
    /// still come.
    pub fn receive<T>(&mut self, read: impl FnOnce(Reply<'_>) -> T) -> Result<T, ClientError> {
        self.flush()?;
        if self.messages.has_one() {
            return take(&mut self.messages, read);
        }
        while !self.replies.has_one() {
            self.read_some(false)?;
        }
        if !self.replies.has_push() {
            // A refusal of the connection itself, as by `maxclients`, answers nothing.
            self.owed = self.owed.map(|owed| owed.saturating_sub(1));
        }
        take(&mut self.replies, read)
    }

    /// Says that a request is one whose reply cannot be waited for. The server never answers
    /// `CLIENT REPLY OFF` and `SKIP`, and `REPLCONF ACK`; subscriptions, MONITOR and PSYNC have
    /// more than one answer.
    ///
    /// # Errors
    /// [`ClientError::NoReply`] with its name.
    pub fn check_reply<A: AsRef<[u8]>>(
        args: impl IntoIterator<Item = A>,
    ) -> Result<(), ClientError> {
        let mut args = args.into_iter();
        let Some(name) = args.next() else { return Ok(()) };
        let is = |arg: &A, word: &str| arg.as_ref().eq_ignore_ascii_case(word.as_bytes());
        let mut next_of = |words: &[&'static str]| {
            let arg = args.next()?;
            words.iter().find(|word| is(&arg, word)).copied()
        };
        let found = if is(&name, "CLIENT") {
            next_of(&["REPLY"]).and_then(|_| match next_of(&["OFF", "SKIP"])? {
                "OFF" => Some("CLIENT REPLY OFF"),
                _ => Some("CLIENT REPLY SKIP"),
            })
        } else if is(&name, "REPLCONF") {
            next_of(&["ACK"]).map(|_| "REPLCONF ACK")
        } else {
            STREAMS.into_iter().find(|stream| is(&name, stream))
        };
        found.map_or(Ok(()), |name| Err(ClientError::NoReply(name)))
    }

    /// Sends one request and waits for its reply. Messages that come before are kept for
    /// [`receive`](Self::receive).
    ///
    /// # Errors
    /// As for [`receive`](Self::receive); [`ClientError::NoReply`] if there is none,
    /// [`Owed`](ClientError::Owed), [`Stream`](ClientError::Stream) and
    /// [`Messages`](ClientError::Messages) if another might be taken for it.
    pub fn ask<T, A: AsRef<[u8]>>(
        &mut self,
        args: &[A],
        read: impl FnOnce(Reply<'_>) -> T,
    ) -> Result<T, ClientError> {
        Self::check_reply(args)?;
        match self.owed {
            Some(0) => {}
            Some(owed) => return Err(ClientError::Owed(owed)),
            None => return Err(ClientError::Stream),
        }
        self.send(args.iter());
        self.flush()?;
        loop {
            while self.replies.has_push() {
                self.replies.pass_to(&mut self.messages);
            }
            if self.messages.unread() > MESSAGES_BYTES {
                return Err(ClientError::Messages);
            }
            if self.replies.has_one() {
                break;
            }
            self.read_some(false)?;
        }
        self.owed = Some(0);
        take(&mut self.replies, read)
    }

    /// Sends what was added. While the server has no room for it, replies are read: neither waits
    /// for the other for ever.
    fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        let flushed = self.flush_from(&mut sent);
        self.output.drain(..sent); // after a time-out, the rest can still be sent
        self.output.shrink_to(KEPT_BYTES);
        flushed
    }

    fn flush_from(&mut self, sent: &mut usize) -> io::Result<()> {
        while *sent < self.output.len() {
            match self.connection.try_write(&self.output[*sent..]) {
                Ok(count) => *sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.read_some(true)? {
                        *sent += (&self.connection).write(&self.output[*sent..])?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what comes, or only what is there; false if nothing is.
    fn read_some(&mut self, only_there: bool) -> io::Result<bool> {
        let input = self.replies.input();
        input.reserve(READ_BYTES);
        let read = if only_there {
            self.connection.try_read_behind(input)
        } else {
            self.connection.read_behind(input)
        };
        match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(error) if only_there && error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The next one, which has come whole.
fn take<T>(replies: &mut Replies, read: impl FnOnce(Reply<'_>) -> T) -> Result<T, ClientError> {
    replies.take(read)?.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof).into())
}
