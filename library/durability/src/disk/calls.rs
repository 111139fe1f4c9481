//! Single calls, tried again: an interrupted call is made again, and a short one is completed. A
//! sync is never made again.

use std::io::{self, ErrorKind};

use super::DiskFile;

/// Makes the call until it is not interrupted.
pub(super) fn patiently<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Writes all of `bytes` at `offset`.
///
/// # Errors
/// The operating system's: some of the bytes may be in the file.
pub fn write_all_at(file: &dyn DiskFile, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match patiently(|| file.write_at(offset, bytes))? {
            0 => return Err(ErrorKind::WriteZero.into()),
            written => {
                offset += written as u64;
                bytes = bytes.get(written..).unwrap_or_default();
            }
        }
    }
    Ok(())
}
