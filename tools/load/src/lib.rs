//! The open-loop load generator: queries any Redis-compatible server at fixed times and reports
//! how long replies took, normal operation and saves apart.
//!
//! Invariants:
//! - The rate and the number of a query fix its time; no late or missing reply moves that time.
//!   Latency counts from that time: a server that stalls is charged with every query that it kept
//!   from being sent (no coordinated omission).
//! - A query belongs to the phase of its intended time, and is put there once that phase is known.
//! - Every reply is checked: wrong kinds are counted, errors by their codes, and neither has a
//!   latency.
//!
//! Reading order: `plan`, `schedule`, `worker` (the loop), `wait`, `phases`, `run`, `watch`,
//! `report`.
#![forbid(unsafe_code)]

mod clock;
mod connection;
mod error;
mod fill;
mod null;
mod page;
mod phases;
mod plan;
mod progress;
mod report;
mod requests;
mod run;
mod schedule;
mod side;
mod tally;
mod trace;
mod verify;
mod wait;
mod watch;
mod worker;

pub use error::LoadError;
pub use null::NullServer;
pub use page::html;
pub use phases::{Phase, Stretch};
pub use plan::{Distribution, Plan, Rate, Ratio, Workload};
pub use progress::{Progress, Stage};
pub use report::{Counted, Floor, Late, PhaseReport, Quantiles, Report, Slower};
pub use run::{floor, run};
pub use trace::TraceReport;
pub use verify::{Verified, verify};
