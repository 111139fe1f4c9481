//! The command thread's end of a connection in the hands of an I/O thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::inputs::{Credit, Gauge, Input};
use super::messages::{Order, Orders};

/// Bytes handed over and not yet taken by the socket above which the rest of the replies waits
/// here, as behind a full socket.
const WINDOW_BYTES: u64 = 1 << 20;
/// Bytes of replies from which on their buffer moves as it is.
pub(crate) const LARGE_BYTES: usize = 16 << 10;

/// See the head of this file.
pub(crate) struct Remote {
    pub(super) thread: usize,
    pub(super) slot: u32,
    pub(super) gauge: Arc<Gauge>,
    /// Bytes of replies handed over, and how many of them the socket is known to have taken.
    handed: u64,
    known_sent: u64,
    /// Bytes of a request that is not whole, as last reported.
    kept: usize,
    /// The credit to read on that goes out with the next replies.
    credit: Option<Credit>,
    /// The I/O thread is to say when all is written, or was asked to.
    reports_drained: bool,
}

impl Remote {
    pub(super) fn new(thread: usize, slot: u32, gauge: Arc<Gauge>) -> Self {
        let (handed, known_sent, kept) = (0, 0, 0);
        Self { thread, slot, gauge, handed, known_sent, kept, credit: None, reports_drained: false }
    }

    /// Notes what comes with input.
    pub(super) fn note_input(&mut self, input: &Input) {
        self.known_sent = input.sent;
        self.kept = input.kept;
    }

    /// Looks at what others may see at any time.
    pub(crate) fn refresh(&mut self) {
        self.known_sent = self.gauge.sent.load(Ordering::Relaxed);
        self.kept = self.gauge.kept.load(Ordering::Relaxed);
    }

    /// All that was handed over is written.
    pub(crate) fn drained(&mut self) {
        self.reports_drained = false;
        self.refresh();
    }

    /// Bytes of a request that is not whole, as last reported.
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }

    /// Bytes of replies handed over that the socket may not have taken: no fewer than there are.
    #[inline]
    pub(crate) fn unsent_most(&self) -> usize {
        (self.handed - self.known_sent) as usize
    }

    /// Bytes of replies handed over that the socket has not taken.
    pub(crate) fn unsent(&self) -> usize {
        if self.handed == self.known_sent {
            return 0;
        }
        (self.handed - self.gauge.sent.load(Ordering::Relaxed)) as usize
    }

    /// Whether a handshake is under way.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.gauge.greets.load(Ordering::Relaxed)
    }

    /// What was handed over no longer counts: the connection ends.
    pub(crate) fn forget_unsent(&mut self) {
        self.known_sent = self.handed;
    }

    /// Asks for more input with the next replies.
    pub(crate) fn ask(&mut self, at_request: bool) {
        self.credit = Some(if at_request { Credit::AtRequest } else { Credit::Within });
    }

    /// Whether it has asked.
    #[inline]
    pub(crate) fn asks(&self) -> bool {
        self.credit.is_some()
    }

    /// Hands replies over.
    pub(crate) fn hand(&mut self, bytes: &[u8], to: &mut Orders) {
        to.write(self.slot, bytes);
        self.handed += bytes.len() as u64;
    }

    /// Hands large replies over as they are.
    pub(crate) fn hand_all(&mut self, bytes: Vec<u8>, to: &mut Orders) {
        self.handed += bytes.len() as u64;
        to.push(self.slot, Order::WriteAll(bytes));
    }

    /// Hands the credit to read on over, if it was given.
    pub(crate) fn hand_credit(&mut self, to: &mut Orders) {
        if let Some(credit) = self.credit.take() {
            to.push(self.slot, Order::Read(credit));
        }
    }

    /// Asks the I/O thread to say when all is written.
    pub(crate) fn report_when_drained(&mut self, to: &mut Orders) {
        if !std::mem::replace(&mut self.reports_drained, true) {
            to.push(self.slot, Order::ReportDrained);
        }
    }

    /// Whether so much waits for the socket that the rest waits here.
    pub(crate) fn is_full(&self) -> bool {
        self.unsent_most() as u64 >= WINDOW_BYTES && self.unsent() as u64 >= WINDOW_BYTES
    }
}
