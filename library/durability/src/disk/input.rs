//! Files that are read.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::sync::Arc;

use super::DiskFile;
use super::calls::patiently;

/// A file that is read from front to back.
#[derive(Debug, Clone)]
pub struct Input {
    file: Arc<dyn DiskFile>,
    offset: u64,
}

impl Input {
    /// From its start.
    #[must_use]
    pub fn new(file: Box<dyn DiskFile>) -> Self {
        Self { file: file.into(), offset: 0 }
    }

    /// Bytes that it takes on the disk; see [`DiskFile::stored`].
    ///
    /// # Errors
    /// The operating system's.
    pub fn stored(&self) -> io::Result<u64> {
        patiently(|| self.file.stored())
    }

    /// The same file, from `offset` on.
    #[must_use]
    pub fn at(&self, offset: u64) -> Self {
        Self { file: Arc::clone(&self.file), offset }
    }

    /// Reads past the page cache from now on, if the disk can do that, and as long as places,
    /// lengths and memory are [aligned](super::Stage::ALIGN).
    pub(crate) fn pass_cache(&self) {
        self.file.set_direct(true);
    }

    /// A hint that the file will not be read again soon.
    pub(crate) fn leave_cache(&self) {
        self.file.write_behind(0..u64::MAX);
    }
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut read = patiently(|| self.file.read_at(self.offset, bytes));
        if read.as_ref().is_err_and(|error| error.kind() == ErrorKind::InvalidInput) {
            self.file.set_direct(false); // this file cannot, or not at this offset
            read = patiently(|| self.file.read_at(self.offset, bytes));
        }
        let read = read?;
        self.offset += read as u64;
        Ok(read)
    }
}

impl Seek for Input {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (base, by) = match to {
            SeekFrom::Start(offset) => (offset, 0),
            SeekFrom::Current(by) => (self.offset, by),
            SeekFrom::End(by) => (patiently(|| self.file.length())?, by),
        };
        self.offset = base.checked_add_signed(by).ok_or(ErrorKind::InvalidInput)?;
        Ok(self.offset)
    }
}
