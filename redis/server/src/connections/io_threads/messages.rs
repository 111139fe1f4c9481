//! What the command thread and an I/O thread hand each other.

use super::connection::Connection;
use super::inputs::{Credit, Inputs};
use crate::connections::belts::Batch;

/// From an I/O thread.
#[derive(Default)]
pub(crate) struct Arrivals {
    /// Input, and news of connections.
    pub(super) inputs: Inputs,
    /// Connections that were called back.
    pub(super) returned: Vec<Connection>,
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
    ReportDrained,
    /// Read and write nothing any more.
    HangUp,
    /// Close it.
    Close,
    /// Give it back as it is.
    Return,
}

impl Batch for Arrivals {
    fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.returned.is_empty()
    }

    fn clear(&mut self) {
        self.inputs.clear();
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
