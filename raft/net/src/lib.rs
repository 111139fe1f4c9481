//! Network between the nodes of a raft group, for openraft. What follows is the README.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![allow(clippy::result_large_err, reason = "openraft's errors are as large as they are")]

mod carrier;
mod dial;
mod directory;
mod error;
mod frame;
mod hello;
mod identity;
mod lane;
mod listener;
mod member;
mod message;
mod mutant;
mod network;
mod outgoing;
#[cfg(any(test, feature = "testing"))]
pub mod proxy;
mod seats;
mod served;
mod settings;
mod tls;
mod window;

#[cfg(test)]
mod tests;

pub use carrier::{Carrier, Door, Duplex, Soon, Stream};
#[cfg(any(test, feature = "testing"))]
pub use directory::draw_ids_by;
pub use directory::{Id, IdError, Met, Starts};
pub use error::{Error, ForwardError, KeepError};
pub use hello::Lane;
pub use identity::{Identity, Standing};
pub use lane::LaneState;
pub use listener::{Listener, Serving};
pub use member::{Member, NoMember};
#[cfg(feature = "mutants")]
pub use mutant::{Mutant, with_mutant};
pub use network::{Link, Network};
pub use served::Sender;
pub use settings::{Limits, Settings};
pub use stillframe_tls::FileError;
pub use tls::{Bindings, Bound, Tls, TlsError, TlsFiles};
