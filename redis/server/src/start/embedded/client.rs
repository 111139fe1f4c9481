//! Requests to a server in this process, one after the other.

use std::io::{self, Write};

use stillframe_resp::{Replies, Reply, ReplyError};

use crate::connections::net::Connection;

/// Bytes read at once, at least.
const READ_BYTES: usize = 16 << 10;
/// Memory that a client keeps for its next request.
const KEPT_BYTES: usize = 64 << 10;

/// A client of a server in this process: sends requests, reads replies.
///
/// Requests that are sent before a reply is read travel together, as in a pipeline. Replies come in
/// the order of the requests. After a [`ClientError`] the connection is of no more use, but for
/// [`NoReply`](ClientError::NoReply).
pub struct Client {
    connection: Connection,
    /// Requests that are not sent yet.
    output: Vec<u8>,
    replies: Replies,
}

/// The connection has failed, or a reply was asked for where none comes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server is gone, or nothing came in time.
    #[error(transparent)]
    Connection(#[from] io::Error),
    /// What came is no reply.
    #[error("the server sent what is no reply: {0}")]
    Reply(#[from] ReplyError),
    /// The request has no reply to wait for. It was not sent; the connection is good.
    #[error("{0} has no reply, so nothing can wait for it; it was not sent")]
    NoReply(&'static str),
}

impl Client {
    /// A client of a connection on which nothing was sent.
    #[must_use]
    pub fn new(connection: Connection) -> Self {
        Self { connection, output: Vec::new(), replies: Replies::default() }
    }

    /// Its connection, to set how long it waits.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Adds a request to those that go out with the next [`receive`](Self::receive).
    pub fn send<A: AsRef<[u8]>>(&mut self, args: impl ExactSizeIterator<Item = A>) {
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

    /// Waits for the next reply, and has it read.
    ///
    /// # Errors
    /// [`ClientError`]: the connection has failed, or its time-outs are over.
    pub fn receive<T>(&mut self, read: impl FnOnce(Reply<'_>) -> T) -> Result<T, ClientError> {
        self.flush()?;
        while !self.replies.has_one() {
            self.read_some(false)?;
        }
        self.replies.take(read)?.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof).into())
    }

    /// Says that a request is one that the server never answers, so that a wait for its reply would
    /// have no end: `CLIENT REPLY OFF` and `SKIP`, and `REPLCONF ACK`.
    ///
    /// # Errors
    /// [`ClientError::NoReply`] with its name.
    pub fn check_reply<A: AsRef<[u8]>>(
        args: impl IntoIterator<Item = A>,
    ) -> Result<(), ClientError> {
        let mut args = args.into_iter();
        let mut next_of = |words: &[&'static str]| {
            let arg = args.next()?;
            let is = |word: &&&str| arg.as_ref().eq_ignore_ascii_case(word.as_bytes());
            words.iter().find(is).copied()
        };
        let silent = match next_of(&["client", "replconf"]) {
            Some("client") => next_of(&["reply"]).and_then(|_| match next_of(&["off", "skip"])? {
                "off" => Some("CLIENT REPLY OFF"),
                _ => Some("CLIENT REPLY SKIP"),
            }),
            Some(_) => next_of(&["ack"]).map(|_| "REPLCONF ACK"),
            None => None,
        };
        silent.map_or(Ok(()), |name| Err(ClientError::NoReply(name)))
    }

    /// Sends one request and waits for its reply.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive); [`ClientError::NoReply`] if there is none.
    pub fn ask<T, A: AsRef<[u8]>>(
        &mut self,
        args: &[A],
        read: impl FnOnce(Reply<'_>) -> T,
    ) -> Result<T, ClientError> {
        Self::check_reply(args)?;
        self.send(args.iter());
        self.receive(read)
    }

    /// Sends what was added. While the server has no room for it, replies are read: neither waits
    /// for the other for ever.
    fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.output.len() {
            match self.connection.try_write(&self.output[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.read_some(true)? {
                        sent += (&self.connection).write(&self.output[sent..])?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.output.shrink_to(KEPT_BYTES);
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
