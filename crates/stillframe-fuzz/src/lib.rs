//! What the fuzz targets in `fuzz/` do with their bytes, as plain functions, so that `cargo test`
//! replays the corpora and random bytes on any toolchain.
//!
//! - Each function panics if a reader does what it must not: panic itself, take damage for sound,
//!   or disagree with another reader of the same format.
//! - Checksums stop a fuzzer at the door. So each reader gets the bytes as they are, and once more
//!   with the checksums made right along the way, which is what a forger would do.
//! - [`canary`] holds a planted bug: a fuzzer that does not find it proves nothing.

#![forbid(unsafe_code)]

mod checkpoint;
mod commands;
mod log;
mod rdb;
mod resp;

pub use checkpoint::checkpoint;
pub use commands::commands;
pub use log::log;
pub use rdb::{payload, rdb};
pub use resp::{canary, resp};

/// A target: its name, which is its corpus's, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target but the canary.
pub const TARGETS: [Target; 6] = [
    ("checkpoint", checkpoint),
    ("commands", commands),
    ("log", log),
    ("payload", payload),
    ("rdb", rdb),
    ("resp", resp),
];

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(field) = bytes.get_mut(at..at + 4) {
        field.copy_from_slice(&value.to_le_bytes());
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Starts `bytes` with the magic and makes the checksum of a header of 64 bytes right.
fn seal_header(bytes: &mut [u8], magic: &[u8; 8]) {
    if let Some(header) = bytes.first_chunk_mut::<64>() {
        header[..8].copy_from_slice(magic);
        let checksum = crc_fast::crc32_iscsi(&header[..60]);
        header[60..].copy_from_slice(&checksum.to_le_bytes());
    }
}
