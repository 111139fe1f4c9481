//! The way to a client's peer: a socket of this thread, or one in the hands of an I/O thread.

use crate::connections::io_threads::Remote;
use crate::connections::net::Stream;

/// See the head of this file.
pub(crate) enum Wire {
    /// This thread reads and writes.
    Local(Stream),
    /// An I/O thread does.
    Remote(Remote),
}

impl Wire {
    /// The socket, if it is this thread's.
    pub(crate) fn local(&self) -> Option<&Stream> {
        match self {
            Self::Local(stream) => Some(stream),
            Self::Remote(_) => None,
        }
    }

    /// As [`local`](Self::local), to read and write.
    #[inline]
    pub(crate) fn local_mut(&mut self) -> Option<&mut Stream> {
        match self {
            Self::Local(stream) => Some(stream),
            Self::Remote(_) => None,
        }
    }

    /// The connection of an I/O thread.
    #[inline]
    pub(crate) fn remote(&self) -> Option<&Remote> {
        match self {
            Self::Local(_) => None,
            Self::Remote(remote) => Some(remote),
        }
    }

    /// As [`remote`](Self::remote), to change it.
    #[inline]
    pub(crate) fn remote_mut(&mut self) -> Option<&mut Remote> {
        match self {
            Self::Local(_) => None,
            Self::Remote(remote) => Some(remote),
        }
    }

    /// Whether both sides still agree on keys.
    pub(crate) fn is_handshaking(&self) -> bool {
        match self {
            Self::Local(stream) => stream.is_handshaking(),
            Self::Remote(remote) => remote.is_handshaking(),
        }
    }
}
