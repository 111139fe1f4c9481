//! Why a request, or a record of the log, cannot be replayed.

use stillframe_commands::errors::Refusal;
use stillframe_resp::ProtocolError;

/// Why a request cannot be replayed: the end of a sentence that begins with the request.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// This server lacks the command.
    #[error("cannot be replayed: this server does not have the command")]
    Unknown,
    /// The command changes nothing.
    #[error("cannot be replayed: it is no command that changes data")]
    ChangesNothing,
    /// MULTI or EXEC where there is no transaction to begin or end.
    #[error("cannot be replayed: no transaction begins or ends here")]
    Transaction,
    /// The data differs from that of the request's first run.
    #[error("does not succeed as it once did: {0}")]
    Fails(Refusal),
}

/// Why a record cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It is no payload of a server's log.
    #[error("it holds no requests of a server")]
    Payload,
    /// Its last request is not whole.
    #[error("it ends within a request")]
    Cut,
    /// It is malformed.
    #[error("it holds no request: {0}")]
    Request(#[from] ProtocolError),
    /// A command cannot run, or fails.
    #[error("{named} {source}")]
    Command {
        /// The request.
        named: String,
        /// Why.
        source: ReplayError,
    },
    /// A transaction does not end.
    #[error("it holds a transaction without its EXEC")]
    Open,
}
