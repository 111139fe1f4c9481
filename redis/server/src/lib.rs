//! Redis-protocol server on a stillframe keyspace.
//!
//! Reading order: [`serve`] (start), `server` (the event loop), `state` (the owners of its state),
//! `commands` (the path of a request; commands on data are in `stillframe_commands`), `hub`
//! (clients, and messages to them), `persistence` (how the data becomes durable; dumps and the log
//! themselves are in `stillframe_storage`).
//!
//! - One thread runs all commands; the snapshotter is another. Nothing else touches data.
//! - No input of a client can make this crate panic.

#![forbid(unsafe_code)]

mod acl;
mod archive;
mod boot;
mod client;
mod clients;
mod clock;
mod commands;
mod config;
pub mod consensus;
#[cfg(test)]
mod crash;
mod error;
mod group;
mod hub;
mod import;
#[cfg(any(test, feature = "in-process"))]
mod in_process;
mod io_threads;
mod memory;
mod meter;
mod metrics;
mod mutant;
mod net;
mod persistence;
mod process;
mod replication;
mod rewind;
mod scripts;
mod server;
mod start;
mod state;
mod tls;
mod views;

pub use archive::{Archive, ArchiveFigures, ArchiveWish, OpenArchive};
pub use config::{
    Config, ConfigError, FileError, LogFormat, LogLevel, QuoteError, Size, ValueError, directives,
    flags_help, parse_size, read_peers, split_words,
};
pub use error::ServeError;
pub use import::{Imported, import};
#[cfg(any(test, feature = "in-process"))]
pub use in_process::{ImageUnderWay, InProcess};
#[cfg(feature = "mutants")]
pub use mutant::Mutant;
pub use rewind::{RewindError, Rewound, replay_batches, rewind};
pub use start::{enter_directory, leaves_terminal, serve};

/// The version of Redis whose commands, replies and files these are.
pub(crate) const REDIS_VERSION: &str = "7.0.15";
