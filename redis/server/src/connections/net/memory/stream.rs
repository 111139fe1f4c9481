//! The server's end of a connection within the process: a socket of its loop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mio::event::Source;
use mio::{Interest, Registry, Token};
use rustix::io::Errno;

use super::porch::{Pipe, Readiness, UNWATCHED};
use super::queue::Taken;

/// The server's end of a connection.
pub(crate) struct MemoryStream(Arc<Pipe>);

impl MemoryStream {
    /// The server's end of a connection that has arrived.
    pub(crate) fn new(pipe: Arc<Pipe>) -> Self {
        Self(pipe)
    }

    /// Reads once; 0 bytes are the end of the stream.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        self.took(self.0.requests.take(into))
    }

    /// Reads once into the spare room of a buffer.
    pub(crate) fn read_behind(&mut self, into: &mut Vec<u8>) -> Result<usize, Errno> {
        self.took(self.0.requests.take_behind(into))
    }

    fn took(&self, taken: Option<Taken>) -> Result<usize, Errno> {
        let taken = taken.ok_or(Errno::AGAIN)?;
        if taken.gives_room {
            self.0.notify();
        }
        Ok(taken.bytes)
    }

    /// Writes once as much as there is room for.
    pub(crate) fn write<'a>(
        &self,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<usize, Errno> {
        let written = self.0.replies.put(pieces).ok_or(Errno::PIPE)?;
        if written == 0 {
            return Err(Errno::AGAIN);
        }
        self.0.notify();
        Ok(written)
    }

    /// Says that no more bytes come.
    pub(crate) fn end_output(&self) {
        self.0.replies.end();
        self.0.notify();
    }

    /// Ends the connection for good.
    pub(crate) fn close(&self) {
        self.0.hang_up();
    }
}

impl Drop for MemoryStream {
    fn drop(&mut self) {
        self.close();
    }
}

/// A registration is a token; the loop's porch does the rest.
impl Source for MemoryStream {
    fn register(&mut self, _: &Registry, token: Token, _: Interest) -> io::Result<()> {
        self.0.token.store(token.0, Ordering::SeqCst);
        if self.0.requests.is_ready() {
            self.0.porch.notify(&self.0, Readiness::READABLE);
        }
        Ok(())
    }

    fn reregister(&mut self, to: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        self.register(to, token, interest)
    }

    fn deregister(&mut self, _: &Registry) -> io::Result<()> {
        self.0.token.store(UNWATCHED, Ordering::SeqCst);
        Ok(())
    }
}
