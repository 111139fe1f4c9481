//! What a file is, by its first bytes.

use std::io::Read;

use stillframe_durability::disk;
use stillframe_rdb::{HEADER_BYTES, file_version};

/// Whether a file that begins so is an RDB file, of any version.
pub(super) fn is_rdb(head: &[u8]) -> bool {
    file_version(head).is_some()
}

/// Whether a file that begins so is an append-only file, or an RDB file.
pub(super) fn is_log_or_rdb(head: &[u8]) -> bool {
    head.starts_with(b"*") || is_rdb(head) || head.starts_with(b"#TS")
}

/// The first bytes of a file; none if it cannot be read, or is no file.
pub(super) fn head(files: &disk::Directory, name: &str) -> Vec<u8> {
    let mut head = Vec::new();
    if let Ok((file, _)) = files.open_file(name) {
        let _ = file.take(HEADER_BYTES as u64).read_to_end(&mut head); // what was read counts
    }
    head
}
