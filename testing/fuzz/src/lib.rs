//! What the fuzz targets in `targets/` do with their bytes, as plain functions, so that
//! `cargo test` replays the corpora and random bytes on any toolchain.
//!
//! - Each function panics if a reader panics, takes damage for sound, or disagrees with another
//!   reader of the same format.
//! - Checksums stop a fuzzer at the door. So each reader gets the bytes as they are, and once more
//!   with right checksums, as from a forger.
//! - [`canary`] holds a planted bug: a fuzzer that does not find it proves nothing.

#![forbid(unsafe_code)]

mod checkpoint;
mod commands;
mod fields;
mod log;
mod rdb;
mod resp;
mod scripts;

pub use checkpoint::checkpoint;
pub use commands::commands;
pub use log::log;
pub use rdb::{payload, rdb};
pub use resp::{canary, resp};
pub use scripts::scripts;

/// A target: its name, which is its corpus's, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target but the canary.
pub const TARGETS: [Target; 7] = [
    ("checkpoint", checkpoint),
    ("commands", commands),
    ("log", log),
    ("payload", payload),
    ("rdb", rdb),
    ("resp", resp),
    ("scripts", scripts),
];
