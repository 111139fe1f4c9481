//! One client's socket and buffers.
//!
//! - An idle client holds no buffers: all clients read into one shared buffer, and only the rest of
//!   an unfinished request moves into the client's own.
//! - A client's own input grows with the bytes received, never with an announced length.
//! - Replies wait in `output`; `sent` bytes of it have been written. The server serves a
//!   client with many unread replies no further until it reads them, so that memory stays bounded.
//! - Under `appendfsync always` replies wait until the log holds every write they may show, those
//!   of other clients too; later replies wait behind them. So do those of a member of a group that
//!   tell of the data.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use rustix::io::Errno;
use stillframe_resp::{Insets, Limits, Out, Parser};

use crate::connections::client::{Relay, Replica, Session, Upstream, Wire};
use crate::connections::io_threads::{Arrived, Connection, LARGE_BYTES, Orders, Remote};
use crate::connections::net::Stream;
use crate::node::config::{OutputLimit, OutputLimits};

/// Bytes read at once from a client that has no unfinished request.
pub(crate) const SHARED_BYTES: usize = 64 << 10;

/// Unread replies above which a client's next requests wait, in bytes.
pub(crate) const OUTPUT_PAUSE_BYTES: usize = 256 << 20;
/// Bytes above which an empty buffer is freed.
const BUFFER_KEPT_BYTES_MAX: usize = 16 << 10;

/// Bytes of a buffer that were used and are free, and take memory that nothing counts.
const BUFFER_SLACK_BYTES_MAX: usize = 1 << 20;

/// A record that no log ever has.
const NEVER: u64 = u64::MAX;

/// Least room for a read, in bytes, unless a whole argument fits in less.
const READ_BYTES_MIN: usize = 4 << 10;
/// Room that a buffer grows by, in bytes: more than an argument of some KiB needs, so that one read
/// takes what has come of the requests behind it, too. What is not read takes no memory.
const READ_BYTES: usize = 128 << 10;

/// One client.
pub(crate) struct Client {
    pub(crate) wire: Wire,
    pub(crate) session: Session,
    pub(crate) parser: Parser,
    /// Bytes of an unfinished request, or of requests that wait for the client's next turn.
    pub(crate) input: Vec<u8>,
    /// Replies.
    pub(crate) output: Vec<u8>,
    /// Long texts that the replies of the requests that run now lack in `output`.
    pub(crate) insets: Insets,
    /// Bytes of `output` that are written.
    sent: usize,
    /// The replies that wait for the log: the first byte of `output`, and the record.
    withheld: VecDeque<(u64, usize)>,
    /// Bytes of `output` that were judged: whether they have to wait is known.
    judged: usize,
    /// The socket is full: an event reports when it takes more.
    full: bool,
    /// It is in the list of clients to serve this turn or next.
    pub(crate) queued: bool,
    /// It is in the list of clients with replies to write.
    pub(crate) flushing: bool,
    /// `input` starts with requests left over when the client's share of a turn was used up.
    pub(crate) backlog: bool,
    /// The socket may hold more bytes; its I/O thread waits for credit to hand them over.
    pub(crate) readable: bool,
    /// No input follows what is here.
    pub(crate) is_last: bool,
    /// The peer has closed its side, or the socket has failed.
    pub(crate) ended: bool,
    /// To be removed at the end of the turn.
    pub(crate) dead: bool,
    /// Bytes of the replication stream not yet sent to a replica.
    pub(crate) unsent: usize,
    /// The way of an image to a replica behind TLS.
    pub(crate) relay: Option<Box<Relay>>,
    /// The way to the leader of the group, if its requests go there.
    pub(crate) upstream: Option<Box<Upstream>>,
    /// Bytes of its memory that are in the sum of all clients.
    pub(crate) counted_bytes: usize,
    /// Since when its unread replies have been above the soft limit.
    over_soft_limit: Option<Instant>,
    /// Whether it is closed because it does not read its replies.
    pub(crate) over_limit: bool,
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// The number of bytes.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The end of the stream, or an error with the same effect.
    End,
}

impl Client {
    /// A client that has just connected.
    pub(crate) fn new(wire: Wire, session: Session, limits: Limits) -> Self {
        let readable = wire.local().is_some();
        Self {
            wire,
            session,
            parser: Parser::new(limits),
            input: Vec::new(),
            output: Vec::new(),
            insets: Insets::default(),
            sent: 0,
            withheld: VecDeque::new(),
            judged: 0,
            full: false,
            queued: false,
            flushing: false,
            backlog: false,
            readable,
            is_last: false,
            ended: false,
            dead: false,
            unsent: 0,
            relay: None,
            upstream: None,
            counted_bytes: 0,
            over_soft_limit: None,
            over_limit: false,
        }
    }

    /// Bytes of replies not yet written.
    pub(crate) fn pending(&self) -> usize {
        self.waiting() + self.wire.remote().map_or(0, Remote::unsent)
    }

    /// No fewer than those, and sooner known.
    fn pending_most(&self) -> usize {
        self.waiting() + self.wire.remote().map_or(0, Remote::unsent_most)
    }

    /// Bytes of replies not yet written or handed over.
    fn waiting(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Whether the socket has taken everything.
    pub(crate) fn is_drained(&self) -> bool {
        self.pending() == 0 && !self.holds_output()
    }

    /// Whether its socket holds accepted bytes back.
    fn holds_output(&self) -> bool {
        self.wire.local().is_some_and(Stream::holds_output)
    }

    /// Whether unread replies keep the client from being served.
    pub(crate) fn paused(&self) -> bool {
        self.pending_most() > OUTPUT_PAUSE_BYTES && self.pending() > OUTPUT_PAUSE_BYTES
    }

    /// Whether its requests may run now.
    pub(crate) fn servable(&self) -> bool {
        !self.session.closing && !self.session.caller.waits && !self.paused()
    }

    /// Whether its socket, or that to its leader, may hold more bytes.
    pub(crate) fn has_news(&self) -> bool {
        self.readable || self.upstream.as_ref().is_some_and(|upstream| upstream.is_readable())
    }

    /// Drops the replies not yet written.
    pub(crate) fn discard_output(&mut self) {
        self.output = Vec::new();
        self.insets.clear();
        self.sent = 0;
        self.withheld.clear();
        self.judged = 0;
        if let Some(remote) = self.wire.remote_mut() {
            remote.forget_unsent();
        }
    }

    /// Ends a turn: new replies may be written, or wait until the log is on the disk up to a
    /// record. Returns whether any replies wait.
    pub(crate) fn judge(&mut self, awaited: Option<u64>) -> bool {
        let start = std::mem::replace(&mut self.judged, self.output.len());
        let Some(record) = awaited.filter(|_| start < self.judged) else { return false };
        let is_new = self.withheld.back().is_none_or(|&(last, _)| last < record);
        if is_new {
            self.withheld.push_back((record, start));
        }
        is_new
    }

    /// Holds back the replies that are not judged yet: what they acknowledge is lost.
    pub(crate) fn withhold_rest(&mut self) {
        self.judge(Some(NEVER));
    }

    /// Releases the replies that waited for records up to `durable`.
    pub(crate) fn release(&mut self, durable: u64) {
        while self.withheld.front().is_some_and(|&(record, _)| record <= durable) {
            self.withheld.pop_front();
        }
        if self.withheld.is_empty() && self.judged == self.output.len() {
            self.session.in_doubt = false;
        }
    }

    /// Drops the waiting replies, whose writes are lost, and ends the connection with an error.
    pub(crate) fn fail_withheld(&mut self, error: &[u8]) {
        let Some((_, start)) = self.withheld.pop_front() else { return };
        self.withheld.clear();
        self.output.truncate(start);
        Out::new(&mut self.output, self.session.protocol).error(error);
        self.judged = self.output.len();
        self.session.closing = true;
    }

    /// Bytes of the replies that may be written now, including those already written.
    fn writable(&self) -> usize {
        self.withheld.front().map_or(self.output.len(), |&(_, start)| start)
    }

    /// Ends the connection at once: nothing is read or written any more.
    pub(crate) fn cut(&mut self) {
        match &mut self.wire {
            Wire::Local(stream) => stream.close(),
            Wire::Remote(_) => {
                // Its I/O thread closes it when the client is removed.
                self.discard_output();
                self.session.closing = true;
            }
        }
    }

    /// Takes the replies not yet written, for another writer.
    pub(crate) fn take_pending(&mut self) -> Vec<u8> {
        let pending = self.output.split_off(self.sent);
        self.discard_output();
        pending
    }

    /// Writes bytes that are no replies, as many as the socket takes, once all replies are written.
    pub(crate) fn write_past(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.full || !self.is_drained() {
            return Ok(0);
        }
        let Some(stream) = self.wire.local_mut() else { return Ok(0) };
        match stream.write(bytes) {
            Ok(count) => {
                self.full = stream.is_full(bytes.len() - count);
                Ok(count)
            }
            Err(Errno::AGAIN) => {
                self.full = true;
                Ok(0)
            }
            Err(Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the socket takes no more for now.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// The socket takes more: output may go on.
    pub(crate) fn go_on(&mut self) {
        self.full = false;
    }

    /// Whether the replies need work at the end of the turn.
    pub(crate) fn wants_flush(&self) -> bool {
        self.judged < self.output.len() || self.can_flush()
    }

    /// Whether any reply can be written now.
    pub(crate) fn can_flush(&self) -> bool {
        !self.full && (self.writable() > self.sent || self.holds_output())
            || self.wire.remote().is_some_and(Remote::asks)
    }

    /// Reads once into `shared`, for a client without unfinished input.
    pub(crate) fn read_shared(&mut self, shared: &mut [u8]) -> Read {
        let room = shared.len();
        let result = self.wire.local_mut().map_or(Err(Errno::AGAIN), |stream| stream.read(shared));
        self.after_read(result, room)
    }

    /// Reads once behind the unfinished input.
    pub(crate) fn read_own(&mut self) -> Read {
        let wanted = self.parser.wanted();
        let least = if wanted == 0 { READ_BYTES_MIN } else { wanted.min(READ_BYTES_MIN) };
        // The buffer grows only when it is full. A large argument under way decides the size, but
        // the buffer at most doubles the bytes received, and its last size is exact.
        if self.input.capacity() - self.input.len() < least {
            if wanted > READ_BYTES.max(self.input.len() / 2) {
                self.input.reserve_exact(wanted);
            } else {
                self.input.reserve(READ_BYTES);
            }
        }
        let room = self.input.capacity() - self.input.len();
        let stream = self.wire.local_mut();
        let result = stream.map_or(Err(Errno::AGAIN), |it| it.read_behind(&mut self.input));
        self.after_read(result, room)
    }

    fn after_read(&mut self, result: Result<usize, Errno>, room: usize) -> Read {
        match result {
            Ok(0) => {
                self.ended = true;
                self.readable = false;
                Read::End
            }
            Ok(count) => {
                // A short read has drained the socket; the next bytes bring an event. The end of
                // the stream may have brought its event already.
                let holds = self.wire.local().is_some_and(Stream::holds_input);
                self.readable = count >= room || self.ended || holds;
                Read::Bytes(count)
            }
            Err(Errno::AGAIN) => {
                self.readable = false;
                Read::Nothing
            }
            Err(Errno::INTR) => Read::Nothing,
            Err(_) => {
                self.ended = true;
                self.readable = false;
                Read::End
            }
        }
    }

    /// Writes replies once, as much as the socket takes. Returns the bytes written.
    pub(crate) fn flush(&mut self) -> io::Result<usize> {
        let end = self.writable();
        let rest = &self.output[self.sent..end];
        let Some(stream) = self.wire.local_mut() else { return Ok(0) };
        let count = match stream.write(rest) {
            Ok(count) => count,
            Err(Errno::AGAIN) => 0,
            Err(Errno::INTR) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        self.full = stream.is_full(rest.len() - count);
        self.wrote(count);
        Ok(count)
    }

    /// Writes borrowed replies now if `may_write`, as much as the socket takes, and copies the
    /// rest. Returns the bytes written.
    pub(crate) fn settle_insets(&mut self, may_write: bool) -> usize {
        let is_written = may_write && !self.full && self.withheld.is_empty();
        let stream = self.wire.local().filter(|_| is_written);
        let pieces = || self.insets.pieces(&self.output, self.sent);
        // An error will be there at the end of the turn, too.
        let count = stream.map_or(0, |stream| stream.write_pieces(pieces()).unwrap_or(0));
        let (mut ahead, start) = if count > 0 { (count, self.sent) } else { (0, 0) };
        let all = self.output.len() - start + self.insets.bytes();
        let mut rest = Vec::with_capacity(all - count);
        for piece in self.insets.pieces(&self.output, start) {
            let skipped = ahead.min(piece.len());
            ahead -= skipped;
            rest.extend_from_slice(&piece[skipped..]);
        }
        self.insets.clear();
        if count > 0 {
            (self.sent, self.judged) = (0, rest.len());
            self.full = !rest.is_empty();
        }
        if rest.is_empty() {
            self.output.clear();
        } else {
            self.output = rest;
        }
        count
    }

    /// Hands the replies that may be written to the I/O thread, with the credit to read on. Returns
    /// their bytes.
    pub(crate) fn hand_over(&mut self, to: &mut Orders) -> usize {
        let end = self.writable();
        let Some(remote) = self.wire.remote_mut() else { return 0 };
        let count = if self.full { 0 } else { end - self.sent };
        if self.sent == 0 && count == self.output.len() && count >= LARGE_BYTES {
            remote.hand_all(std::mem::take(&mut self.output), to);
            self.judged = 0;
        } else if count > 0 {
            remote.hand(&self.output[self.sent..end], to);
            self.wrote(count);
        }
        let Some(remote) = self.wire.remote_mut() else { return count };
        self.full = remote.is_full();
        remote.hand_credit(to);
        if self.session.closing || remote.unsent_most() >= LARGE_BYTES {
            remote.report_when_drained(to);
        }
        count
    }

    /// Notes what comes with input from its I/O thread.
    pub(crate) fn note_arrival(&mut self, arrived: &Arrived) {
        if let Some(remote) = self.wire.remote_mut() {
            arrived.update(remote);
        }
        self.ended |= arrived.is_ended();
        self.is_last |= arrived.is_last();
        self.readable = true; // for more
    }

    /// Keeps input from its I/O thread that has not run.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        self.backlog |= !bytes.is_empty();
    }

    /// The socket has taken all that its I/O thread had.
    pub(crate) fn drained(&mut self) {
        if let Some(remote) = self.wire.remote_mut() {
            remote.drained();
        }
        self.go_on();
    }

    /// Takes the connection back from its I/O thread.
    pub(crate) fn take_home(&mut self, connection: Connection) {
        let mut output = connection.unsent().to_vec();
        let (before, sent) = (output.len(), std::mem::take(&mut self.sent));
        output.extend_from_slice(&self.output[sent..]);
        self.output = output;
        let moved = |at: usize| before + at.saturating_sub(sent);
        self.judged = moved(self.judged);
        self.withheld.iter_mut().for_each(|(_, start)| *start = moved(*start));
        self.input.extend_from_slice(&connection.kept);
        self.wire = Wire::Local(connection.stream);
        (self.readable, self.full) = (true, false);
    }

    /// Notes that the next so many bytes are written.
    fn wrote(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.output.len() {
            self.sent = 0;
            self.judged = 0;
            reset(&mut self.output);
        } else if self.sent > self.output.len() / 2 {
            self.output.drain(..self.sent);
            self.judged = self.judged.saturating_sub(self.sent);
            self.withheld.iter_mut().for_each(|(_, start)| *start -= self.sent);
            self.sent = 0;
            let (length, capacity) = (self.output.len(), self.output.capacity());
            if capacity - length > BUFFER_SLACK_BYTES_MAX {
                self.output.shrink_to(length);
            } else if capacity > BUFFER_KEPT_BYTES_MAX && length < capacity / 4 {
                self.output.shrink_to(length * 2);
            }
        }
    }

    /// Drops the first `used` bytes of the client's own input.
    pub(crate) fn consume_own(&mut self, used: usize) {
        if used == self.input.len() {
            reset(&mut self.input);
        } else if used > 0 {
            self.input.drain(..used);
            if self.input.capacity() > BUFFER_KEPT_BYTES_MAX
                && self.input.len() < self.input.capacity() / 4
            {
                self.input.shrink_to_fit();
            }
        }
    }

    /// The limit on unread replies of its class.
    pub(crate) fn output_limit(&self, limits: &OutputLimits) -> OutputLimit {
        self.session.output_limit(limits)
    }

    /// Whether it must be closed because its unread replies exceed the configured limit; logs that.
    pub(crate) fn over_output_limit(&mut self, limit: OutputLimit, now: Instant) -> bool {
        let over = self.exceeds(limit, now);
        self.over_limit |= over;
        if over {
            tracing::warn!(
                "closing client {} at {}: it does not read its replies \
                 (client-output-buffer-limit)",
                self.session.caller.id,
                self.session.caller.peer
            );
        }
        over
    }

    fn exceeds(&mut self, limit: OutputLimit, now: Instant) -> bool {
        let free = OutputLimit::UNCOUNTED_BYTES as usize;
        if self.pending_most() + self.unsent <= free.min(limit.hard_bytes_max()) {
            self.over_soft_limit = None;
            return false;
        }
        let waiting = self.pending();
        let pending = OutputLimit::counted((waiting + self.unsent) as u64);
        if limit.hard_bytes != 0 && pending > limit.hard_bytes || waiting > limit.hard_bytes_max() {
            return true;
        }
        if limit.soft_bytes == 0 || pending <= limit.soft_bytes {
            self.over_soft_limit = None;
            return false;
        }
        let since = *self.over_soft_limit.get_or_insert(now);
        limit.ends_patience(now.duration_since(since))
    }

    /// Its state as a replica, if it is one.
    pub(crate) fn replica(&self) -> Option<&Replica> {
        self.session.replica.as_deref().filter(|replica| replica.is_real())
    }

    /// As [`replica`](Self::replica), to change it.
    pub(crate) fn replica_mut(&mut self) -> Option<&mut Replica> {
        self.session.replica.as_deref_mut().filter(|replica| replica.is_real())
    }

    /// Whether it is a replica, not only a client that announces to become one.
    pub(crate) fn is_replica(&self) -> bool {
        self.session.replica.as_deref().is_some_and(Replica::is_real)
    }

    /// Bytes of memory of the client: its buffers, its session and its state.
    pub(crate) fn memory_bytes(&self) -> usize {
        let away = self.wire.remote().map_or(0, |remote| remote.kept() + remote.unsent_most());
        let buffers = self.buffer_bytes() + self.parser.memory() + away;
        let passed_on = self.upstream.as_ref().map_or(0, |upstream| upstream.memory());
        buffers + passed_on + self.session.memory() + size_of::<Self>()
    }

    /// Bytes of memory the client's buffers hold, for CLIENT LIST.
    pub(crate) fn buffer_bytes(&self) -> usize {
        taken(&self.input) + taken(&self.output)
    }
}

/// Bytes of memory of a buffer: room of a large one that was never written takes none.
#[inline]
pub(crate) fn taken(buffer: &Vec<u8>) -> usize {
    buffer.len().max(buffer.capacity().min(BUFFER_KEPT_BYTES_MAX))
}

/// Empties a buffer, and frees it if it is large.
fn reset(buffer: &mut Vec<u8>) {
    if buffer.capacity() > BUFFER_KEPT_BYTES_MAX {
        *buffer = Vec::new();
    } else {
        buffer.clear();
    }
}
