//! An image on its way to a replica behind TLS.
//!
//! - Only the event loop speaks TLS: the sender of the image (the snapshotter, a forked child, a
//!   thread) writes it into a pair of sockets as if that were the replica, and the loop passes on a
//!   piece a turn. So the replica sets the pace of the image, and a turn of the loop takes no
//!   longer than a piece.
//! - The stream behind the image waits until the relay has ended.

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;

use mio::net::UnixStream;

/// Bytes passed on in one turn.
const PIECE_BYTES: usize = 64 << 10;

/// The near end of the pair, and the bytes read from it.
pub(crate) struct Relay {
    pub(crate) from: UnixStream,
    pub(crate) piece: Box<[u8]>,
    /// Bytes in `piece`, and how many of them were passed on.
    pub(crate) filled: usize,
    pub(crate) passed: usize,
    /// Wakes the loop by its events.
    pub(crate) watched: bool,
}

impl Relay {
    /// A relay, and the socket for the writer of the image.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        let (near, far) = std::os::unix::net::UnixStream::pair()?;
        near.set_nonblocking(true)?;
        let piece = vec![0; PIECE_BYTES].into_boxed_slice();
        let from = UnixStream::from_std(near);
        Ok((Self { from, piece, filled: 0, passed: 0, watched: false }, far.into()))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // The writer, perhaps a forked child, must learn that nobody reads any more.
        let _ = self.from.shutdown(Shutdown::Both);
    }
}
