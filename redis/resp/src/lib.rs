//! Sans-io codec of the Redis serialization protocol, RESP2 and RESP3.
//!
//! No sockets, no clock, no threads: bytes in, requests out ([`Parser`]); replies in, bytes out
//! ([`Out`]), with long texts by reference ([`Insets`]); and the client's side of it for tests and
//! load generators ([`decode_reply`]), from a stream ([`Replies`]), or only where replies end
//! ([`Boundary`]).
//!
//! Invariants:
//! - Nothing a peer sends makes this crate panic, and no length a peer announces makes it reserve
//!   memory: reserved memory is proportional to the bytes received.
//! - A request split anywhere gives the same result as the whole, errors included, and the work is
//!   linear in the bytes received: no byte of an unfinished request is read twice.
//! - Requests are not copied: arguments are ranges of the caller's buffer.

#![forbid(unsafe_code)]

mod boundary;
mod decode;
mod encode;
mod error;
mod inline;
mod insets;
mod number;
mod outline;
mod replies;
mod request;

pub use boundary::Boundary;
pub use decode::{Reply, ReplyError, decode_reply};
pub use encode::{Out, Protocol};
pub use error::ProtocolError;
pub use inline::split_line;
pub use insets::Insets;
pub use number::{IntegerBuffer, format_double, format_integer, parse_integer};
pub use outline::{Outline, Start};
pub use replies::Replies;
pub use request::{Limits, Parser, Plain};
