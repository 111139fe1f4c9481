//! A Redis keyspace as the state of an openraft group. What follows is the README.
//!
#![doc = include_str!("../README.md")]
//!
//! Reading order: [`Command`] (what an entry holds), `state` (how it is applied), `image` (how the
//! keyspace becomes a file, and a file the keyspace).
#![forbid(unsafe_code)]

mod command;
mod image;
mod mutant;
mod options;
mod state;

#[cfg(test)]
mod tests;

pub use command::Command;
pub use options::Options;
pub use state::KeyspaceState;
