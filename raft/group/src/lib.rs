//! A member of a group of servers that agree by raft: [`start`] for the server's
//! [`Consensus`](stillframe_server::consensus::Consensus), on openraft.
//!
//! - Threads of their own run openraft, its log and the network; the server's loop stays the one
//!   writer of the data. They speak by events
//!   ([`Event`](stillframe_server::consensus::Event)) and commands.
//! - The log holds effects, batch by batch. An image is the server's dump file, with the label
//!   behind its last entry: id and membership of the last log entry that is in it.
//! - A member's directory has a file `raft-member`, which says whose it is, the log in `raft-log`,
//!   and the dump. `docs/reference/formats.md` has the bytes of the log.

#![forbid(unsafe_code)]
#![allow(clippy::result_large_err, reason = "openraft's errors are as large as they are")]

mod error;
mod events;
mod identity;
mod machine;
mod mutant;
mod node;
mod offline;
mod received;
mod types;

pub use error::Error;
#[cfg(feature = "mutants")]
pub use mutant::{Mutant, with_mutant};
pub use node::{start, start_on};
pub use offline::{Last, Member, begin_group, first_label, read_member};
pub use types::{Types, Wire};
