//! The lab: every algorithm under one workload, measured while every image is verified.
//!
//! - A [`Case`] is one algorithm under one workload; a [`Record`] is what one round of it gave.
//! - [`run_rounds`] runs cases, each round in a process of its own, rounds interleaved.
//! - A trial times only what a writer would wait for: its updates, its reads and `begin`. Making
//!   the updates, verifying the images and measuring memory lie outside.
//!
//! Reading order: `case`, `record`, `trial` (a round), `capture` (the sink), `oracle`, `rounds`.
#![forbid(unsafe_code)]

pub mod advise;
mod alone;
pub mod aries;
mod capture;
pub mod case;
pub mod check;
pub mod comparison;
pub mod comparison_page;
mod cores;
mod digest;
pub mod error;
pub mod experiments;
pub mod figures;
mod memory;
pub mod observe;
mod oracle;
pub mod output;
mod players;
mod process;
mod reads;
pub mod record;
pub mod report;
pub mod rounds;
mod served;
mod subject;
pub mod summary;
pub mod tpcc;
mod trial;
mod workload;

pub use case::{Case, Distribution, FLOOR, Service, SinkKind, Verify};
pub use error::LabError;
pub use figures::part_from_stdin;
pub use process::{case_from_stdin, run_case};
pub use record::{BeginUs, Latency, Record};
pub use rounds::{Progress, run_rounds};
pub use served::leash;
pub use stillframe_measure::{Environment, environment};
