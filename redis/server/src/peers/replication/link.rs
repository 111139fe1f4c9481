//! The connection of a replica to its primary: the socket, its buffers, and its state.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use stillframe_commands::Needs;
use stillframe_resp::{Limits, Parser};

use super::reception::Reception;
use crate::connections::net::{Ready, Stream};

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// How often this server reports its offset to the primary.
const ACK_PERIOD: Duration = Duration::from_secs(1);

/// The connection to the primary.
pub(crate) struct Link {
    pub(crate) stream: Stream,
    pub(crate) step: Step,
    pub(crate) input: Vec<u8>,
    pub(crate) output: Vec<u8>,
    pub(crate) parser: Parser,
    /// Bytes of `input` whose requests have run, or wait for their EXEC.
    pub(crate) parsed: usize,
    /// What the requests of `input` that wait for their EXEC need.
    pub(crate) needs: Needs,
    /// Nothing of the stream has come yet behind an image.
    pub(crate) awaits_stream: bool,
    /// Whether a pause holds requests in `input`.
    pub(crate) postponed: bool,
    readable: bool,
    pub(crate) writable: bool,
    pub(crate) next_ack: Instant,
    /// The primary has asked for this offset: it hears when that is on the disk.
    pub(crate) awaited: Option<u64>,
}

/// The state of the link.
pub(crate) enum Step {
    /// The server connects.
    Connecting,
    /// The server has asked a question.
    Asked(Question),
    /// The primary announces an image next.
    Announced,
    /// The server receives an image.
    Receiving(Reception),
    /// The server loads the image.
    Loading,
    /// The server receives the stream.
    Streaming,
}

impl Step {
    /// Whether an image comes.
    pub(crate) fn is_image(&self) -> bool {
        matches!(self, Self::Announced | Self::Receiving(_) | Self::Loading)
    }
}

/// The last question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// PING: whether the primary is there.
    Ping,
    /// AUTH: whether the primary lets this server in.
    Auth,
    /// REPLCONF: this server's port.
    Port,
    /// REPLCONF: this server's address.
    Address,
    /// REPLCONF: what this server supports.
    Abilities,
    /// REPLCONF: the version of Valkey whose files this server reads.
    Version,
    /// PSYNC: whether the stream goes on at the offset of the data.
    Psync,
}

impl Drop for Link {
    fn drop(&mut self) {
        // A forked child may hold the socket, too.
        self.stream.close();
    }
}

impl Link {
    /// Drops empty lines before the first byte of the stream, which count as none of it: a primary
    /// that waits for the child which wrote the image shows by them that it is alive.
    pub(crate) fn skip_blanks(&mut self) {
        if self.awaits_stream {
            let blanks = self.input.iter().take_while(|&&byte| byte == b'\n').count();
            self.input.drain(..blanks);
            self.awaits_stream = self.input.is_empty();
        }
    }

    /// A connection that is being made.
    pub(crate) fn over(stream: Stream) -> Self {
        let limits = Limits { bulk_bytes_max: u32::MAX as usize, ..Limits::OPEN };
        Self {
            stream,
            step: Step::Connecting,
            input: Vec::new(),
            output: Vec::new(),
            parser: Parser::new(limits),
            parsed: 0,
            needs: Needs::default(),
            postponed: false,
            readable: false,
            writable: false,
            next_ack: Instant::now(),
            awaits_stream: false,
            awaited: None,
        }
    }

    /// Notes an event.
    pub(crate) fn on_event(&mut self, event: Ready) {
        if let Ready::Primary { readable, writable } = event {
            self.readable |= readable;
            self.writable |= writable;
        }
    }

    /// Reads once; false if there is nothing.
    pub(crate) fn read(&mut self) -> io::Result<bool> {
        if !self.readable {
            return Ok(false);
        }
        self.input.reserve(READ_BYTES);
        match self.stream.read_behind(&mut self.input) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => {
                self.readable = false;
                Ok(false)
            }
            Err(Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes waiting bytes.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        if !self.writable || self.output.is_empty() && !self.stream.holds_output() {
            return Ok(());
        }
        match self.stream.write(&self.output) {
            Ok(count) => {
                self.output.drain(..count);
                self.writable = !self.stream.holds_output();
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                self.writable = false;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reports to the primary the offset of the data, and that of what is on the disk.
    pub(crate) fn acknowledge(&mut self, offset: u64, logged: Option<u64>, now: Instant) {
        let [offset, on_disk] = [offset, logged.unwrap_or(0)].map(|it| it.to_string());
        let words: [&[u8]; 5] =
            [b"REPLCONF", b"ACK", offset.as_bytes(), b"FACK", on_disk.as_bytes()];
        let count = if logged.is_some() { 5 } else { 3 };
        stillframe_commands::write_request(&mut self.output, &words[..count]);
        self.next_ack = now + ACK_PERIOD;
        self.awaited = self.awaited.filter(|&awaited| logged < Some(awaited));
    }
}
