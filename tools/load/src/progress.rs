//! The reports of a measurement under way.

use std::time::Duration;

use crate::phases::Phase;
use crate::report::Quantiles;

/// The progress of a measurement.
#[derive(Debug, Clone)]
pub struct Progress {
    /// The stage under way.
    pub stage: Stage,
    /// The finished share, from 0 to 1.
    pub share: f64,
    /// Keys or queries a second, since the last report.
    pub rate: f64,
    /// Latencies so far; `None` while keys are loaded.
    pub latencies: Option<Quantiles>,
    /// Since the stage began.
    pub elapsed: Duration,
}

/// Part of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Loading the keys.
    Fill,
    /// The load, and what the server is doing.
    Load(Phase),
    /// The same load against the null server.
    Floor,
}
