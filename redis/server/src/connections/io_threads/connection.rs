//! A connection in the hands of an I/O thread: its socket, the start of a request that is not
//! whole, and replies that the socket has not taken.
//!
//! - Input goes out only against a credit, which comes back with the replies: one input at a time
//!   is between the threads. So the order of requests needs no numbers, and no client fills a belt.
//! - Only plain requests are found here ([`Start`]); they exceed no limit that a request could
//!   change. All else goes to the command thread as it comes, which parses it as it does with
//!   a socket of its own, by the limits of the moment.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use stillframe_resp::Start;

use super::inputs::{BATCH_BYTES, Credit, Gauge, Input, Inputs, News, Note, READ_BYTES};
use crate::connections::net::Stream;

/// Room for input in a batch: what makes it ample, the greatest start of a request, and a read.
const ARENA_BYTES: usize = BATCH_BYTES + 3 * READ_BYTES + READ_BYTES;
/// Bytes of unsent replies above which the memory is given back when they are gone.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// What an event says of a socket.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ready {
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// The peer sends no more.
    pub(super) ended: bool,
}

/// See the head of this file.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    /// The client's number, and its place.
    id: u64,
    place: usize,
    gauge: Arc<Gauge>,
    /// The start of a plain request.
    pub(crate) kept: Vec<u8>,
    /// Replies, of which `written` bytes are written.
    unsent: Vec<u8>,
    written: usize,
    /// Bytes of replies that the stream has accepted.
    accepted: u64,
    credit: Option<Credit>,
    /// The socket may hold more bytes.
    readable: bool,
    /// The peer sends no more.
    ended: bool,
    /// The end was handed over.
    is_over: bool,
    /// Nothing can be written any more.
    failed: bool,
    /// The socket is full: an event reports when it takes more.
    full: bool,
    /// To say when all is written.
    tells: bool,
    /// It is in the list of those to read from.
    pub(super) queued: bool,
}

impl Connection {
    pub(super) fn new(stream: Stream, place: usize, id: u64, gauge: Arc<Gauge>) -> Self {
        gauge.greets.store(stream.is_handshaking(), Ordering::Relaxed);
        Self {
            stream,
            id,
            place,
            gauge,
            kept: Vec::new(),
            unsent: Vec::new(),
            written: 0,
            accepted: 0,
            credit: Some(Credit::AtRequest),
            readable: true,
            ended: false,
            is_over: false,
            failed: false,
            full: false,
            tells: false,
            queued: false,
        }
    }

    /// The replies that the socket has not taken.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.unsent[self.written..]
    }

    /// Whether it can be read from.
    pub(super) fn can_read(&self) -> bool {
        self.readable && self.credit.is_some() && !self.is_over && !self.failed
    }

    /// May hand over input from now on.
    pub(super) fn allow(&mut self, credit: Credit) {
        self.credit = Some(credit);
    }

    /// Notes an event of the socket.
    pub(super) fn note(&mut self, ready: Ready, to: &mut Inputs) {
        let Ready { readable, writable, ended } = ready;
        self.readable |= readable || ended;
        if ended && !self.ended {
            self.ended = true;
            if self.credit.is_none() {
                self.report(News::Ended, to);
            }
        }
        if writable {
            self.full = false;
            self.write_on(to);
        }
    }

    fn report(&self, news: News, to: &mut Inputs) {
        to.notes.push(Note { id: self.id, place: self.place, news });
    }

    /// Reads once, and hands over what has come.
    pub(super) fn read(&mut self, to: &mut Inputs) {
        if to.bytes.is_empty() {
            to.bytes = vec![0; ARENA_BYTES].into_boxed_slice();
        }
        let start = to.filled;
        let Some(credit) = self.credit else { return };
        let behind = start + self.kept.len();
        // There is room: batches are handed over long before they are full, and what is kept is
        // the start of a plain request.
        let Some(room) = to.bytes.get_mut(behind..behind + READ_BYTES) else { return };
        let read = self.stream.read(room);
        let greets = self.stream.is_handshaking();
        if self.gauge.greets.load(Ordering::Relaxed) != greets {
            self.gauge.greets.store(greets, Ordering::Relaxed);
        }
        match read {
            Ok(0) => self.hand_end(to),
            Ok(count) => {
                self.readable = count == READ_BYTES || self.ended || self.stream.holds_input();
                to.bytes[start..behind].copy_from_slice(&self.kept);
                let end = behind + count;
                self.hand_input(credit, start..end, count, to);
            }
            Err(Errno::AGAIN) => self.readable = false,
            Err(Errno::INTR) => {}
            Err(_) => self.hand_end(to),
        }
        // A handshake may have had to end first.
        self.write_on(to);
    }

    /// Hands over the input that stands there in the batch, but keeps a request that is not whole.
    fn hand_input(
        &mut self,
        credit: Credit,
        input: Range<usize>,
        received: usize,
        to: &mut Inputs,
    ) {
        let first = to.outlines.len();
        let Range { start, end } = input;
        let mut at = start;
        let mut keeps = false;
        while credit == Credit::AtRequest && at < end {
            match Start::from_bytes(&to.bytes[at..end]) {
                Start::Plain(outline, bytes) => {
                    to.outlines.push(outline);
                    at += bytes;
                }
                Start::Cut => {
                    keeps = true;
                    break;
                }
                Start::Other => break,
            }
        }
        let handed = if keeps { at } else { end };
        self.kept.clear();
        self.kept.extend_from_slice(&to.bytes[handed..end]);
        if self.kept.is_empty() && self.kept.capacity() > KEPT_BYTES_MAX {
            self.kept = Vec::new();
        }
        if self.gauge.kept.load(Ordering::Relaxed) != self.kept.len() {
            self.gauge.kept.store(self.kept.len(), Ordering::Relaxed);
        }
        if handed == start {
            return; // not one request is whole
        }
        to.filled = handed;
        let outlines = (first, to.outlines.len());
        self.hand((start, handed), outlines, received, to);
    }

    fn hand_end(&mut self, to: &mut Inputs) {
        self.ended = true;
        self.readable = false;
        self.is_over = true;
        let (here, none) = (to.filled, to.outlines.len());
        self.hand((here, here), (none, none), 0, to);
    }

    fn hand(
        &mut self,
        bytes: (usize, usize),
        outlines: (usize, usize),
        received: usize,
        to: &mut Inputs,
    ) {
        self.credit = None;
        to.list.push(Input {
            id: self.id,
            place: self.place,
            bytes,
            outlines,
            received,
            kept: self.kept.len(),
            sent: self.gauge.sent.load(Ordering::Relaxed),
            ended: self.ended,
            is_last: self.is_over,
        });
    }

    /// Writes replies, as many as the socket takes.
    pub(super) fn write(&mut self, mut bytes: &[u8], to: &mut Inputs) {
        while self.unsent.is_empty() && !self.full && !self.failed && !bytes.is_empty() {
            let Some(count) = self.write_once(bytes, to) else { return };
            bytes = &bytes[count..];
            if count == 0 {
                break;
            }
        }
        if !self.failed {
            self.unsent.extend_from_slice(bytes);
            self.measure(to);
        }
    }

    /// Writes all of a large reply.
    pub(super) fn write_all(&mut self, bytes: Vec<u8>, to: &mut Inputs) {
        if self.unsent.is_empty() && !self.failed {
            self.unsent = bytes;
            self.write_on(to);
        } else {
            self.write(&bytes, to);
        }
    }

    /// Goes on to write what the socket has not taken.
    fn write_on(&mut self, to: &mut Inputs) {
        let holds = self.stream.holds_output();
        if self.full || self.failed || self.unsent.is_empty() && !holds {
            return;
        }
        let unsent = std::mem::take(&mut self.unsent);
        loop {
            let Some(count) = self.write_once(&unsent[self.written..], to) else { return };
            self.written += count;
            if count == 0 || self.full || self.written == unsent.len() {
                break;
            }
        }
        if self.written < unsent.len() {
            self.unsent = unsent;
            if self.written > self.unsent.len() / 2 {
                self.unsent.drain(..self.written);
                self.unsent.shrink_to(2 * self.unsent.len());
                self.written = 0;
            }
        } else {
            self.written = 0;
            self.unsent = if unsent.capacity() > KEPT_BYTES_MAX { Vec::new() } else { unsent };
            self.unsent.clear();
        }
        self.measure(to);
    }

    /// Writes once; `None`: the connection has failed.
    fn write_once(&mut self, bytes: &[u8], to: &mut Inputs) -> Option<usize> {
        let count = match self.stream.write(bytes) {
            Ok(count) => count,
            Err(Errno::AGAIN) => 0,
            Err(Errno::INTR) => return self.write_once(bytes, to),
            Err(_) => {
                self.fail(to);
                return None;
            }
        };
        self.accepted += count as u64;
        self.full = self.stream.is_full(bytes.len() - count);
        Some(count)
    }

    /// Ends the connection at once.
    pub(super) fn hang_up(&mut self) {
        (self.unsent, self.written) = (Vec::new(), 0);
        self.failed = true;
        self.stream.close();
    }

    /// Nothing more can be written.
    pub(super) fn fail(&mut self, to: &mut Inputs) {
        (self.unsent, self.written) = (Vec::new(), 0);
        self.failed = true;
        self.report(News::Failed, to);
    }

    /// Shows what the socket has taken.
    fn measure(&mut self, to: &mut Inputs) {
        if self.stream.holds_output() {
            return; // bytes before these are on their way
        }
        self.gauge.sent.store(self.accepted, Ordering::Relaxed);
        if self.tells && self.unsent.is_empty() {
            self.tells = false;
            self.report(News::Drained, to);
        }
    }

    /// Says when all is written.
    pub(super) fn report_when_drained(&mut self, to: &mut Inputs) {
        self.tells = true;
        self.measure(to);
    }
}
