//! What the command thread and an I/O thread tell each other, by the batch.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use stillframe_resp::Outline;

use super::belts::Batch;
use super::connection::Connection;

/// Bytes of one read at most.
pub(super) const READ_BYTES: usize = 64 << 10;
/// Bytes of input in a batch above which it is handed over.
pub(super) const BATCH_BYTES: usize = 64 << 10;
/// Connections with input in a batch above which it is handed over.
pub(super) const BATCH_CONNECTIONS: usize = 64;

/// What others may see of a connection at any time.
#[derive(Default)]
pub(crate) struct Gauge {
    /// Bytes that the socket has taken, of all that were handed over.
    pub(super) sent: AtomicU64,
    /// Bytes of a request that is not whole yet.
    pub(super) kept: AtomicUsize,
    /// A TLS handshake is under way.
    pub(super) greets: AtomicBool,
}

/// From an I/O thread: input, and news of connections.
#[derive(Default)]
pub(crate) struct Arrivals {
    /// Input, one connection's behind the other's: the first `filled` bytes.
    pub(super) bytes: Box<[u8]>,
    pub(super) filled: usize,
    /// The plain requests at the start of each connection's input.
    pub(super) outlines: Vec<Outline>,
    pub(super) inputs: Vec<Input>,
    pub(super) notes: Vec<Note>,
    /// Connections that were called back.
    pub(super) returned: Vec<Box<Connection>>,
}

/// Input of one connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input {
    /// The client's number.
    pub(super) id: u64,
    pub(super) place: usize,
    /// Its bytes in the batch.
    pub(super) bytes: (usize, usize),
    /// Its plain requests in the batch.
    pub(super) outlines: (usize, usize),
    /// How many bytes were read.
    pub(super) received: usize,
    /// Bytes of a request that is not whole, which the I/O thread keeps.
    pub(super) kept: usize,
    /// See [`Gauge::sent`].
    pub(super) sent: u64,
    /// The peer sends no more, as far as events say.
    pub(super) ended: bool,
    /// All was read: no more follows.
    pub(super) is_last: bool,
}

/// News of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Note {
    /// The client's number.
    pub(crate) id: u64,
    /// Its place in the registry.
    pub(crate) place: usize,
    /// What has happened.
    pub(crate) news: News,
}

/// What has happened to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// The peer sends no more, and its requests so far have not run yet.
    Ended,
    /// Nothing can be written to it.
    Failed,
    /// All that was handed over is written, as was to be told.
    Drained,
}

/// From the command thread: replies, and what else is to be done.
#[derive(Default)]
pub(crate) struct Orders {
    /// Replies, one connection's behind the other's.
    pub(super) bytes: Vec<u8>,
    /// What to do, each with the slot of its connection.
    pub(super) list: Vec<(u32, Order)>,
    /// Write what can be written, and end.
    pub(super) stop: bool,
}

/// What is to be done with a connection.
pub(super) enum Order {
    /// It is new.
    Open(Box<Connection>),
    /// Write the next so many bytes of the batch.
    Write(usize),
    /// Write all of this.
    WriteAll(Vec<u8>),
    /// Read on: what was handed over before has run.
    Read(Credit),
    /// Say when all is written.
    Tell,
    /// Read and write nothing any more.
    HangUp,
    /// Close it.
    Close,
    /// Give it back as it is.
    Return,
}

/// The credit to hand over more input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Credit {
    /// The next byte begins a request.
    AtRequest,
    /// The next bytes belong to a request that the command thread parses.
    Within,
}

impl Arrivals {
    /// Whether no connection more belongs into this batch.
    pub(super) fn is_ample(&self) -> bool {
        self.filled >= BATCH_BYTES || self.inputs.len() >= BATCH_CONNECTIONS
    }
}

impl Batch for Arrivals {
    fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.notes.is_empty() && self.returned.is_empty()
    }

    fn clear(&mut self) {
        self.filled = 0;
        self.outlines.clear();
        self.inputs.clear();
        self.notes.clear();
        self.returned.clear();
    }
}

impl Orders {
    /// Writes these bytes.
    pub(super) fn write(&mut self, slot: u32, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.list.push((slot, Order::Write(bytes.len())));
    }

    /// Does this with the connection in a slot.
    pub(super) fn push(&mut self, slot: u32, order: Order) {
        self.list.push((slot, order));
    }
}

impl Batch for Orders {
    fn is_empty(&self) -> bool {
        self.list.is_empty() && !self.stop
    }

    fn clear(&mut self) {
        /// Bytes of an empty batch that keep their memory.
        const KEPT_BYTES_MAX: usize = 256 << 10;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.list.clear();
    }
}
