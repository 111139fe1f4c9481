//! State of the server that is neither data nor one client's: configuration, counters, clients.

use std::time::Instant;

use crate::commands::transactions::Watches;
use crate::config::Config;
use crate::random::Random;

/// What every command may see and change of the server.
pub(crate) struct ServerState {
    /// Configuration.
    pub(crate) config: Config,
    /// Counters for INFO.
    pub(crate) stats: Stats,
    /// Keys watched by clients.
    pub(crate) watches: Watches,
    /// Changes of the data set since the last successful save.
    pub(crate) dirty: u64,
    /// EXEC is running the queued requests of a transaction.
    pub(crate) in_exec: bool,
    /// Source of randomness (not for secrets).
    pub(crate) random: Random,
    /// When the server started.
    pub(crate) started: Instant,
}

/// Counters since the start or CONFIG RESETSTAT.
#[derive(Default)]
pub(crate) struct Stats {
    /// One per command of the table.
    pub(crate) commands: Vec<CommandStats>,
    /// Commands run.
    pub(crate) commands_processed: u64,
    /// Error replies.
    pub(crate) error_replies: u64,
    /// Keys found by reading commands.
    pub(crate) keyspace_hits: u64,
    /// Keys not found by reading commands.
    pub(crate) keyspace_misses: u64,
}

/// Counters of one command.
#[derive(Default, Clone)]
pub(crate) struct CommandStats {
    /// Times it ran.
    pub(crate) calls: u64,
    /// Times it was refused before it ran.
    pub(crate) rejected: u64,
    /// Times it answered an error.
    pub(crate) failed: u64,
}
