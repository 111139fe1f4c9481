//! Connections within one process: queues of bytes in place of a socket.
//!
//! Reading order: `queue` (bytes in one direction), `notice` (a descriptor that tells of them),
//! `porch` (a connection, and how the loop hears of it), `stream` (the server's end), `connection`
//! (the other end).
//!
//! - The server's end behaves as a socket of the loop: it never waits, and an event follows what
//!   changes. Parser, limits and replies are the same code as for sockets.
//! - A thread that waits looks for some microseconds before it sleeps: a reply is often there by
//!   then, and waking a thread costs more than a short command.

mod connection;
mod notice;
mod porch;
mod queue;
mod stream;

pub use connection::Connection;
pub(crate) use connection::forked;
pub(crate) use porch::{Doorstep, Porch, Readiness};
pub(crate) use stream::MemoryStream;
