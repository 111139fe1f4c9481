//! The encoder's output: one buffer, allocated at the start, in front of the sink.

use std::io::{self, Write};

use crate::crc64::Crc64;

/// Where an encoder's bytes go. Everything that implements [`io::Write`] does.
///
/// In a forked child, writing must not allocate, lock or log.
pub trait Output {
    /// Why the output refused bytes.
    type Error;

    /// Takes all of `bytes`.
    ///
    /// # Errors
    /// Any error makes the file worthless: drop the encoder.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;
}

impl<W: Write> Output for W {
    type Error = io::Error;

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }
}

pub(crate) const BUFFER_BYTES: usize = 128 * 1024;

/// Gathers small pieces, so that the output and the checksum see large ones. Pieces longer than
/// the buffer bypass it.
#[derive(Debug)]
pub(crate) struct Sheet<O> {
    pub(crate) output: O,
    buffer: Box<[u8]>,
    filled: usize,
    flushed_bytes: u64,
    crc: Crc64,
}

impl<O: Output> Sheet<O> {
    /// A sheet over `buffer`, of [`BUFFER_BYTES`].
    pub(crate) fn new(output: O, buffer: Box<[u8]>) -> Self {
        Sheet { output, buffer, filled: 0, flushed_bytes: 0, crc: Crc64::new() }
    }

    /// Returns the buffer, after the last write.
    pub(crate) fn take_buffer(&mut self) -> Box<[u8]> {
        self.filled = 0;
        std::mem::take(&mut self.buffer)
    }

    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), O::Error> {
        match self.buffer[self.filled..].get_mut(..bytes.len()) {
            None => self.put_slowly(bytes),
            Some(room) => {
                room.copy_from_slice(bytes);
                self.filled += bytes.len();
                Ok(())
            }
        }
    }

    #[cold]
    fn put_slowly(&mut self, bytes: &[u8]) -> Result<(), O::Error> {
        self.flush()?;
        if bytes.len() <= self.buffer.len() {
            return self.put(bytes);
        }
        self.crc.update(bytes);
        self.flushed_bytes += bytes.len() as u64;
        self.output.write(bytes)
    }

    /// Hands everything to the output.
    pub(crate) fn flush(&mut self) -> Result<(), O::Error> {
        let bytes = &self.buffer[..self.filled];
        self.crc.update(bytes);
        self.flushed_bytes += bytes.len() as u64;
        self.filled = 0;
        self.output.write(bytes)
    }

    /// The checksum of everything put before the last [`flush`](Self::flush).
    pub(crate) fn flushed_checksum(&self) -> u64 {
        self.crc.value()
    }

    /// Bytes put so far.
    pub(crate) fn put_bytes(&self) -> u64 {
        self.flushed_bytes + self.filled as u64
    }
}
