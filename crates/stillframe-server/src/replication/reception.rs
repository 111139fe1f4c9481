//! The image that a replica starts from, during reception and load.

use std::io::Take;

use stillframe_durability::disk::{DiskFile, Input};
use stillframe_rdb::Decoder;
use stillframe_storage::replay::Loading;

/// Length of the mark that ends an image.
pub(super) const MARK_BYTES: usize = 40;

/// An image being received.
pub(crate) struct Reception {
    pub(super) file: Option<Box<dyn DiskFile>>,
    pub(super) ending: Ending,
    /// Bytes received.
    pub(crate) bytes: u64,
}

/// How the end of an image is found.
pub(super) enum Ending {
    /// By the length of the image.
    After(u64),
    /// By a mark; `tail` has the last bytes.
    Mark { mark: Vec<u8>, tail: Vec<u8> },
}

impl Reception {
    /// Bytes to come, if known.
    pub(crate) fn total(&self) -> u64 {
        match self.ending {
            Ending::After(total) => total,
            Ending::Mark { .. } => 0,
        }
    }

    /// How many of `bytes` belong to the image, and whether it ends with them.
    pub(super) fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
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
    pub(super) decoder: Decoder<Take<Input>>,
    /// Its bytes.
    pub(crate) bytes: u64,
    /// Its start and its size.
    pub(super) progress: Loading,
    /// Keys loaded.
    pub(super) keys: u64,
    /// The database of the next key.
    pub(super) db: usize,
}

impl Load {
    /// Its progress.
    pub(crate) fn progress(&self) -> Loading {
        Loading { loaded_bytes: self.decoder.offset(), ..self.progress }
    }
}
