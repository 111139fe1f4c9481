//! The image that a replica starts from, during reception and load.

use std::io::Take;

use stillframe_durability::disk::{DiskFile, Input};
use stillframe_rdb::{DecodeError, HEADER_BYTES, check_header};
use stillframe_storage::dump::Reader;
use stillframe_storage::replay::Loading;

use super::failure::Failure;

/// Length of the mark that ends an image.
const MARK_BYTES: usize = 40;

/// An image of a primary, as it arrives.
pub struct Reception {
    pub(crate) file: Option<Box<dyn DiskFile>>,
    /// Its first bytes.
    head: Vec<u8>,
    ending: Ending,
    /// Bytes received.
    pub(crate) bytes: u64,
}

/// How the end of an image is found.
enum Ending {
    /// By the length of the image.
    After(u64),
    /// By a mark; `tail` has the last bytes.
    Mark { mark: Vec<u8>, tail: Vec<u8> },
}

impl Reception {
    /// The image that a primary announces in `answer`; nothing of it has come yet.
    ///
    /// # Errors
    /// `answer` announces none.
    pub fn announced(answer: String) -> Result<Self, Failure> {
        let ending = match answer.strip_prefix('$') {
            None => return Err(Failure::NoImage { answer }),
            Some(rest) => match rest.strip_prefix("EOF:") {
                Some(mark) if mark.len() == MARK_BYTES => {
                    Ending::Mark { mark: mark.as_bytes().to_vec(), tail: Vec::new() }
                }
                Some(_) => return Err(Failure::NoMark { answer }),
                None => match rest.parse() {
                    Ok(bytes) => Ending::After(bytes),
                    Err(_) => return Err(Failure::NoLength { answer }),
                },
            },
        };
        Ok(Self { file: None, head: Vec::new(), ending, bytes: 0 })
    }

    /// Looks at the head, if it ends within `bytes`: an image of a newer version is of no use, and
    /// need not come whole.
    ///
    /// # Errors
    /// [`DecodeError`]: it cannot be read.
    pub fn check_head(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let missing = HEADER_BYTES - self.head.len();
        self.head.extend(bytes.iter().take(missing));
        if missing > 0 && self.head.len() == HEADER_BYTES {
            check_header(&self.head)?;
        }
        Ok(())
    }

    /// Bytes to come, if known.
    pub fn total(&self) -> u64 {
        match self.ending {
            Ending::After(total) => total,
            Ending::Mark { .. } => 0,
        }
    }

    /// The length of the image, once it has come whole.
    pub fn image_bytes(&self) -> u64 {
        match self.ending {
            Ending::After(bytes) => bytes,
            Ending::Mark { .. } => self.bytes.saturating_sub(MARK_BYTES as u64),
        }
    }

    /// Bytes received, with the mark at its end.
    pub fn received(&self) -> u64 {
        self.bytes
    }

    /// How many of `bytes` come next, and whether the image ends with them.
    pub fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
        let (taken, ends) = self.find_end(bytes);
        self.bytes += taken as u64;
        (taken, ends)
    }

    fn find_end(&mut self, bytes: &[u8]) -> (usize, bool) {
        match &mut self.ending {
            Ending::After(total) => {
                let left = *total - self.bytes;
                let taken = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                (taken, taken as u64 == left)
            }
            Ending::Mark { mark, tail } => {
                let last = &bytes[bytes.len().saturating_sub(MARK_BYTES)..];
                tail.extend_from_slice(last);
                tail.drain(..tail.len().saturating_sub(MARK_BYTES));
                (bytes.len(), tail == mark)
            }
        }
    }
}

/// An image that replaces the data.
pub(crate) struct Load {
    pub(crate) reader: Reader<Take<Input>>,
    /// Its bytes.
    pub(crate) bytes: u64,
    /// Its start and its size.
    pub(crate) progress: Loading,
    /// Keys loaded.
    pub(crate) keys: u64,
    /// The database of the next key.
    pub(crate) db: usize,
}

impl Load {
    /// Its progress.
    pub(crate) fn progress(&self) -> Loading {
        Loading { loaded_bytes: self.reader.offset(), ..self.progress }
    }
}
