//! One connection to the server: unsent bytes, and the queries that wait for a reply.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use stillframe_resp::{Reply, decode_reply};

use crate::requests::SentQuery;

/// A nonblocking connection.
pub(crate) struct Connection {
    stream: TcpStream,
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    waiting: VecDeque<SentQuery>,
    /// Whether the system took the last bytes.
    pub(crate) would_block: bool,
}

impl Connection {
    /// Takes over an idle connection.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            out: Vec::new(),
            sent: 0,
            input: Vec::new(),
            waiting: VecDeque::new(),
            would_block: false,
        })
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
    /// The buffer for the next request; then [`expect`](Self::expect) its reply.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
    /// The request that was just written will have a reply.
    pub(crate) fn expect(&mut self, waiting: SentQuery) {
        self.waiting.push_back(waiting);
    }
    /// The number of queries that wait for a reply.
    pub(crate) fn waiting(&self) -> &VecDeque<SentQuery> {
        &self.waiting
    }

    /// Sends as much as the system takes.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.would_block = true;
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        self.would_block = false;
        Ok(())
    }

    /// Reads the bytes that have come, and hands over each whole reply with its query.
    pub(crate) fn receive(
        &mut self,
        scratch: &mut [u8],
        mut each: impl FnMut(SentQuery, &Reply<'_>),
    ) -> io::Result<()> {
        loop {
            let count = match self.stream.read(scratch) {
                Ok(0) => return Err(closed()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            if self.input.is_empty() {
                // As a rule replies come whole, and need no copy.
                let used = take_replies(&scratch[..count], &mut self.waiting, &mut each)?;
                self.input.extend_from_slice(&scratch[used..count]);
            } else {
                self.input.extend_from_slice(&scratch[..count]);
                let used = take_replies(&self.input, &mut self.waiting, &mut each)?;
                self.input.drain(..used);
            }
            if count < scratch.len() {
                return Ok(());
            }
        }
    }
}

/// The server has gone.
pub(crate) fn closed() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")
}

/// Hands over the whole replies at the start of `bytes`; returns their length.
fn take_replies(
    bytes: &[u8],
    waiting: &mut VecDeque<SentQuery>,
    each: &mut impl FnMut(SentQuery, &Reply<'_>),
) -> io::Result<usize> {
    let mut used = 0;
    let bad = |what: String| io::Error::new(ErrorKind::InvalidData, what);
    while let Some((reply, length)) =
        decode_reply(&bytes[used..]).map_err(|error| bad(error.to_string()))?
    {
        used += length;
        let Some(query) = waiting.pop_front() else {
            return Err(bad(format!("an unrequested reply: {reply:.60?}")));
        };
        each(query, &reply);
    }
    Ok(used)
}
