//! One TLS connection over a socket that does not block.
//!
//! - At most [`READ_BYTES`] and a record or two wait to be read, and [`OUTPUT_BYTES_MAX`] wait for
//!   the socket: no peer can make a connection grow. An idle one holds no buffers.
//! - A read ends when it has filled the caller's room, drained the socket, or used up its share; in
//!   the last case `holds_input` is true. So the event loop's rule holds that a short read waits
//!   for an event.
//! - Output of the connection itself (handshake, alerts, new keys) is written at once; if the
//!   socket is full, `holds_output` is true until an event lets the write go on.
//! - A failed connection stays failed.

use std::io::{self, BufRead, Write};
use std::net::Shutdown;

use mio::net::TcpStream;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustls::Connection;

/// Most bytes that wait for a full socket.
const OUTPUT_BYTES_MAX: usize = 64 << 10;
/// Most bytes of one write, so that a peer that reads as fast as we write lets others in.
const WRITE_BYTES_MAX: usize = 1 << 20;
/// Bytes read from the socket at once.
const READ_BYTES: usize = 32 << 10;
/// Most steps of one read, each a piece for the library or a copy from it, for the same reason.
const READ_STEPS_MAX: usize = 128;

/// A TLS connection, either side of it.
pub(crate) struct TlsStream {
    socket: TcpStream,
    connection: Connection,
    /// Bytes read from the socket, and how many the library has taken: it takes small pieces, each
    /// of which would be a system call.
    arrived: Vec<u8>,
    used: usize,
    /// The socket or the library may hold more to read.
    unread: bool,
    /// The peer sends no more.
    ended: bool,
    failed: bool,
}

impl TlsStream {
    /// A connection whose handshake has yet to begin.
    pub(super) fn new(socket: TcpStream, mut connection: Connection) -> Self {
        connection.set_buffer_limit(Some(OUTPUT_BYTES_MAX));
        let (arrived, used) = (Vec::new(), 0);
        Self { socket, connection, arrived, used, unread: true, ended: false, failed: false }
    }

    /// See [`Stream::read`](crate::connections::net::Stream::read).
    pub(crate) fn read(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        let room = into.len();
        let mut rest = into;
        self.take(room, |piece| {
            let (filled, left) = std::mem::take(&mut rest).split_at_mut(piece.len());
            filled.copy_from_slice(piece);
            rest = left;
        })
    }

    /// See [`Stream::read_behind`](crate::connections::net::Stream::read_behind).
    pub(crate) fn read_behind(&mut self, into: &mut Vec<u8>) -> Result<usize, Errno> {
        let room = into.capacity() - into.len();
        self.take(room, |piece| into.extend_from_slice(piece))
    }

    /// Hands up to `room` bytes on.
    fn take(&mut self, room: usize, mut put: impl FnMut(&[u8])) -> Result<usize, Errno> {
        if self.failed {
            return Err(Errno::CONNRESET);
        }
        self.unread = true;
        let mut count = 0;
        for _ in 0..READ_STEPS_MAX {
            let mut reader = self.connection.reader();
            match reader.fill_buf() {
                Ok(chunk) if !chunk.is_empty() => {
                    let taken = chunk.len().min(room - count);
                    put(&chunk[..taken]);
                    reader.consume(taken);
                    count += taken;
                    if count == room {
                        return Ok(count);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => match self.receive() {
                    Ok(true) => {}
                    Ok(false) => {
                        self.unread = false;
                        return if count > 0 { Ok(count) } else { Err(Errno::AGAIN) };
                    }
                    // The bytes before are good; the next read reports the failure.
                    Err(error) => return if count > 0 { Ok(count) } else { Err(error) },
                },
                // The end, announced or not: requests have lengths, and a cut one never runs.
                Ok(_) | Err(_) => return Ok(count),
            }
        }
        if count > 0 { Ok(count) } else { Err(Errno::INTR) }
    }

    /// Reads once from the socket; false if it has nothing.
    fn receive(&mut self) -> Result<bool, Errno> {
        if self.used == self.arrived.len() {
            (self.arrived, self.used) = (Vec::with_capacity(READ_BYTES), 0);
            match rustix::io::read(&self.socket, spare_capacity(&mut self.arrived)) {
                Ok(count) => self.ended = count == 0,
                Err(Errno::AGAIN) => {
                    self.arrived = Vec::new();
                    return Ok(false);
                }
                Err(Errno::INTR) => return Ok(true),
                Err(error) => return Err(self.fail(&error)),
            }
        }
        let mut rest = &self.arrived[self.used..];
        if let Err(error) = self.connection.read_tls(&mut rest) {
            return Err(self.fail(&error));
        }
        self.used = self.arrived.len() - rest.len();
        if let Err(error) = self.connection.process_new_packets() {
            let _ = self.send(); // the alert for the peer
            return Err(self.fail(&error));
        }
        self.send()?;
        Ok(true)
    }

    /// Writes the bytes that wait for the socket; false if the socket takes no more.
    fn send(&mut self) -> Result<bool, Errno> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.fail(&error)),
            }
        }
        Ok(true)
    }

    fn fail(&mut self, problem: &dyn std::fmt::Display) -> Errno {
        self.failed = true;
        match self.socket.peer_addr() {
            Ok(peer) => tracing::info!("the TLS connection with {peer} ends: {problem}"),
            Err(_) => tracing::info!("a TLS connection ends: {problem}"),
        }
        Errno::CONNRESET
    }

    /// See [`Stream::write`](crate::connections::net::Stream::write).
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        if self.failed {
            return Err(Errno::CONNRESET);
        }
        let wanted = &bytes[..bytes.len().min(WRITE_BYTES_MAX)];
        let mut count = 0;
        while self.send()? && count < wanted.len() && !self.connection.is_handshaking() {
            let taken = self.connection.writer().write(&wanted[count..]);
            count += taken.map_err(|error| self.fail(&error))?;
        }
        if count == 0 && !bytes.is_empty() { Err(Errno::AGAIN) } else { Ok(count) }
    }

    /// See [`Stream::shake_hands`](crate::connections::net::Stream::shake_hands).
    pub(crate) fn shake_hands(&mut self) -> Result<bool, Errno> {
        while self.send()? && self.connection.is_handshaking() {
            if !self.receive()? {
                break;
            }
            if self.ended {
                return Err(self.fail(&"the peer has left"));
            }
        }
        Ok(self.connection.is_handshaking())
    }

    pub(crate) fn holds_output(&self) -> bool {
        self.connection.wants_write() && !self.failed
    }

    pub(crate) fn holds_input(&self) -> bool {
        self.unread
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Sends the closing alert, if the socket takes it, and ends the connection.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        if !self.failed {
            self.connection.send_close_notify();
            let _ = self.send(); // not worth waiting for
        }
        self.socket.shutdown(Shutdown::Both)
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(crate) fn socket_mut(&mut self) -> &mut TcpStream {
        &mut self.socket
    }
}
