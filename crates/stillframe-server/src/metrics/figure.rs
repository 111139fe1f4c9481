//! Figures of one moment, apart from their sources.

use crate::commands::figures::Metric;

/// Counters of one command.
pub(crate) struct OfCommand {
    pub(crate) name: &'static str,
    pub(crate) calls: u64,
    pub(crate) rejected: u64,
    pub(crate) failed: u64,
    pub(crate) seconds: f64,
}

/// One replica.
pub(crate) struct OfReplica {
    pub(crate) ip: String,
    pub(crate) port: u16,
    pub(crate) state: &'static str,
    pub(crate) offset: u64,
    pub(crate) lag_s: u64,
}

/// The primary.
pub(crate) struct OfPrimary {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) up: bool,
    pub(crate) syncing: bool,
    pub(crate) silent_s: u64,
}

/// The figures of one moment.
pub(crate) struct Figures {
    pub(crate) plain: Vec<(Metric, f64)>,
    pub(crate) commands: Vec<OfCommand>,
    pub(crate) errors: Vec<(String, u64)>,
    /// Number of the database, keys, keys with a time to live.
    pub(crate) databases: Vec<(usize, usize, usize)>,
    pub(crate) replicas: Vec<OfReplica>,
    pub(crate) primary: Option<OfPrimary>,
    /// Labels that name this server.
    pub(crate) instance: [(&'static str, String); 7],
}
