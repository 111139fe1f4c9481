//! What carries requests and replies: a socket (TCP, unix, or TCP under TLS), or memory.
//!
//! - Nothing here waits. `AGAIN` means to go on at the next event, `INTR` to go on at once.
//! - Under TLS the library between socket and caller holds bytes of both directions, without an
//!   event: [`holds_input`](Stream::holds_input) and [`holds_output`](Stream::holds_output).
//! - A `match` distinguishes the kinds: requests over plain sockets pay nothing for the others.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use crate::connections::net::memory::MemoryStream;
use crate::connections::tls::TlsStream;

/// Most pieces of one write (`IOV_MAX`).
const PIECES_MAX: usize = 1024;

/// A connected socket.
pub(crate) enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
    /// TLS over TCP.
    Tls(Box<TlsStream>),
    /// A connection within the process.
    Memory(MemoryStream),
}

impl Stream {
    /// Reads once; 0 bytes are the end of the stream.
    #[inline]
    pub(crate) fn read(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Tcp(socket) => rustix::io::read(socket, into),
            Self::Unix(socket) => rustix::io::read(socket, into),
            Self::Tls(stream) => stream.read(into),
            Self::Memory(stream) => stream.read(into),
        }
    }

    /// Reads once into the spare room of a buffer.
    #[inline]
    pub(crate) fn read_behind(&mut self, into: &mut Vec<u8>) -> Result<usize, Errno> {
        match self {
            Self::Tcp(socket) => rustix::io::read(socket, spare_capacity(into)),
            Self::Unix(socket) => rustix::io::read(socket, spare_capacity(into)),
            Self::Tls(stream) => stream.read_behind(into),
            Self::Memory(stream) => stream.read_behind(into),
        }
    }

    /// Writes once as much as the socket takes. An empty write sends held bytes.
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Self::Tcp(socket) => rustix::io::write(socket, bytes),
            Self::Unix(socket) => rustix::io::write(socket, bytes),
            Self::Tls(stream) => stream.write(bytes),
            Self::Memory(stream) => stream.write([bytes]),
        }
    }

    /// As [`write`](Self::write), of several pieces in one go; not for TLS.
    pub(crate) fn write_pieces<'a>(
        &self,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Result<usize, Errno> {
        if let Self::Memory(stream) = self {
            return stream.write(pieces);
        }
        let pieces: Vec<IoSlice<'_>> = pieces.take(PIECES_MAX).map(IoSlice::new).collect();
        match self {
            Self::Tcp(socket) => rustix::io::writev(socket, &pieces),
            Self::Unix(socket) => rustix::io::writev(socket, &pieces),
            Self::Tls(_) | Self::Memory(_) => Ok(0),
        }
    }

    /// Whether a write that left `left` bytes over has filled the socket.
    #[inline]
    pub(crate) fn is_full(&self, left: usize) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) | Self::Memory(_) => left > 0,
            Self::Tls(stream) => stream.holds_output(),
        }
    }

    /// Whether it holds accepted bytes that the socket has not taken yet.
    #[inline]
    pub(crate) fn holds_output(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) | Self::Memory(_) => false,
            Self::Tls(stream) => stream.holds_output(),
        }
    }

    /// Whether there may be more to read although the last read ended short.
    #[inline]
    pub(crate) fn holds_input(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) | Self::Memory(_) => false,
            Self::Tls(stream) => stream.holds_input(),
        }
    }

    /// Whether both sides still agree on keys.
    pub(crate) fn is_handshaking(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) | Self::Memory(_) => false,
            Self::Tls(stream) => stream.is_handshaking(),
        }
    }

    /// Continues a handshake; returns whether it is still under way.
    pub(crate) fn shake_hands(&mut self) -> Result<bool, Errno> {
        match self {
            Self::Tcp(_) | Self::Unix(_) | Self::Memory(_) => Ok(false),
            Self::Tls(stream) => stream.shake_hands(),
        }
    }

    /// Whether an image may be written to the socket by another thread or process.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Tcp(_) | Self::Unix(_))
    }

    /// Ends the connection for good, although a forked child may hold the socket, too.
    pub(crate) fn close(&mut self) {
        // Each fails only if the connection is already gone.
        let _ = match self {
            Self::Tcp(socket) => socket.shutdown(Shutdown::Both),
            Self::Unix(socket) => socket.shutdown(Shutdown::Both),
            Self::Tls(stream) => stream.close(),
            Self::Memory(stream) => {
                stream.close();
                Ok(())
            }
        };
    }

    /// Says that no more bytes come. Under TLS nothing is said: the peer still may reply.
    pub(crate) fn end_output(&mut self) {
        // Fails only if the connection is already gone.
        let _ = match self {
            Self::Tcp(socket) => socket.shutdown(Shutdown::Write),
            Self::Unix(socket) => socket.shutdown(Shutdown::Write),
            Self::Tls(_) => Ok(()),
            Self::Memory(stream) => {
                stream.end_output();
                Ok(())
            }
        };
    }

    /// Why a connection could not be made, if it could not.
    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        match self {
            Self::Tcp(socket) => socket.take_error(),
            Self::Unix(socket) => socket.take_error(),
            Self::Tls(stream) => stream.socket().take_error(),
            Self::Memory(_) => Ok(None),
        }
    }

    /// The socket's descriptor, if it is one.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Tcp(socket) => Some(socket.as_fd()),
            Self::Unix(socket) => Some(socket.as_fd()),
            Self::Tls(stream) => Some(stream.socket().as_fd()),
            Self::Memory(_) => None,
        }
    }

    /// The descriptor's number, for display.
    pub(crate) fn number(&self) -> i32 {
        self.descriptor().map_or(-1, |descriptor| descriptor.as_raw_fd())
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(socket) => socket,
            Self::Unix(socket) => socket,
            Self::Tls(stream) => stream.socket_mut(),
            Self::Memory(stream) => stream,
        }
    }
}

impl Source for Stream {
    fn register(&mut self, to: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        self.source().register(to, token, interest)
    }

    fn reregister(&mut self, to: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        self.source().reregister(to, token, interest)
    }

    fn deregister(&mut self, from: &Registry) -> io::Result<()> {
        self.source().deregister(from)
    }
}
