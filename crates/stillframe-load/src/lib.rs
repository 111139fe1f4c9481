//! The open-loop load generator: queries any Redis-compatible server at fixed times and reports
//! how long replies took, normal operation and saves apart.
//!
//! Invariants:
//! - When a query is to be sent is fixed ahead by rate and number alone; no answer, late or
//!   missing, moves it. Latency counts from there: a server that stalls is charged with every query
//!   that it kept from being sent (no coordinated omission).
//! - A query belongs to the phase of its intended time, and is put there once that phase is known.
//! - Every reply is looked at: one of the wrong kind is no answer, an error is counted by its code,
//!   and neither has a latency.
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
mod text;
mod trace;
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
