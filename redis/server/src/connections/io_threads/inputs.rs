//! What an I/O thread has read, by the batch, and what it says of its connections.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use stillframe_resp::Outline;

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

/// Input and news of connections.
#[derive(Default)]
pub(super) struct Inputs {
    /// Input, one connection's behind the other's: the first `filled` bytes.
    pub(super) bytes: Box<[u8]>,
    pub(super) filled: usize,
    /// The plain requests at the start of each connection's input.
    pub(super) outlines: Vec<Outline>,
    pub(super) list: Vec<Input>,
    pub(super) notes: Vec<Note>,
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

/// The credit to hand over more input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Credit {
    /// The next byte begins a request.
    AtRequest,
    /// The next bytes belong to a request that the command thread parses.
    Within,
}

impl Inputs {
    /// Whether no connection more belongs into this batch.
    pub(super) fn is_ample(&self) -> bool {
        self.filled >= BATCH_BYTES || self.list.len() >= BATCH_CONNECTIONS
    }

    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.notes.is_empty()
    }

    /// Empties it, and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.filled = 0;
        self.outlines.clear();
        self.list.clear();
        self.notes.clear();
    }
}
