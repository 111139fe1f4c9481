//! Errors of the protocol, in the words of Redis 7.0.
//!
//! Clients and their test suites compare these texts, so they are part of the protocol. A server
//! replies `-ERR <text>` ([`Out::protocol_error`](crate::Out::protocol_error)) and then closes:
//! after an error no next request can be found in the stream.

use thiserror::Error;

/// A malformed request; the server sends the error, then closes the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The number of arguments is not a number, or beyond [`Limits::args_max`](crate::Limits).
    #[error("Protocol error: invalid multibulk length")]
    InvalidMultibulkLength,
    /// More arguments than a client may send before it has authenticated.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedMultibulkLength,
    /// The line that counts the arguments does not end.
    #[error("Protocol error: too big mbulk count string")]
    TooBigMultibulkCount,
    /// An argument does not start with its length; holds the byte found instead.
    #[error("Protocol error: expected '$', got '{}'", printable(*.0))]
    ExpectedBulk(u8),
    /// The length of an argument is not a number, is negative, or is beyond the limit.
    #[error("Protocol error: invalid bulk length")]
    InvalidBulkLength,
    /// A longer argument than a client may send before it has authenticated.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedBulkLength,
    /// The line with an argument's length does not end.
    #[error("Protocol error: too big bulk count string")]
    TooBigBulkCount,
    /// An inline request without a line end.
    #[error("Protocol error: too big inline request")]
    TooBigInline,
    /// An inline request with a quote that is not closed, or closed in the middle of a word.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
}

/// The byte in a form for a reply line, which a line end would break.
fn printable(byte: u8) -> char {
    match byte {
        b'\r' | b'\n' => ' ',
        _ => char::from(byte),
    }
}
