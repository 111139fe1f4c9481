//! Redis-protocol server on a stillframe keyspace.
//!
//! Folders are floors, and imports lead down only (`cargo xtask rooms redis/server`):
//!
//! - `start`: from settings and files to a running server.
//! - `turn`: the event loop; one turn after the other.
//! - `commands`: the path of a request; commands on data are in `stillframe_commands`.
//! - `state`: what the server is beside the data, and what changes several parts of that at once.
//! - `peers`, `data`: parts that know nothing of each other: replication and the group; views,
//!   scripts and memory of the data.
//! - `connections`: sockets, clients, and messages to them.
//! - `node`: settings, users, time and figures of this one process.
//!
//! - One thread runs all commands; the snapshotter is another. Nothing else touches data.
//! - No input of a client can make this crate panic.

#![forbid(unsafe_code)]

mod commands;
mod connections;
pub mod consensus;
#[cfg(test)]
mod crash;
mod data;
#[cfg(any(test, feature = "in-process"))]
mod in_process;
mod mutant;
mod node;
mod peers;
mod start;
mod state;
mod turn;

pub use connections::net::Connection;
pub use data::queries::{OpenQueries, QueryWish};
pub use data::read_views::{DataView, DataViewError, ViewDoor};
#[cfg(any(test, feature = "in-process"))]
pub use in_process::{ImageUnderWay, InProcess, request_of};
#[cfg(feature = "mutants")]
pub use mutant::Mutant;
pub use node::archive::{Archive, ArchiveFigures, ArchiveWish, OpenArchive};
pub use node::config::{
    CheckNames, Config, ConfigError, FileError, LogFormat, LogLevel, QuoteError, Size, ValueError,
    directives, flags_help, parse_size, read_peers, split_words,
};
pub use node::error::ServeError;
pub use peers::group::slot;
pub use peers::replication::reception::Reception;
pub use start::embedded::{Client, ClientError, Embedded, Handle, OnLog};
pub use start::import::{Imported, import};
pub use start::rewind::{RewindError, Rewound, replay_batches, rewind};
#[cfg(feature = "in-process")]
pub use start::stepped::Stepped;
pub use start::{Hooks, check_names, enter_directory, leaves_terminal, serve};
