//! The lab: every algorithm under one workload, measured while every image is verified.
//!
//! - A [`Case`] is one algorithm under one workload; a [`Record`] is what one round of it gave.
//! - [`run_rounds`] runs cases, each round in a process of its own, rounds interleaved.
//! - A trial times only what a writer would wait for: its updates, its reads and `begin`. Making
//!   the updates, verifying the images and measuring memory lie outside.
//!
//! Reading order, from what knows nothing of the rest: `machine`, `case`, `trial` (a round here;
//! `capture` is its sink, `oracle` verifies) and `served` (a round through a server), `rounds`,
//! `report`, `comparison`, `figures`.
#![forbid(unsafe_code)]

pub mod aries;
pub mod case;
pub mod comparison;
pub mod error;
pub mod experiments;
pub mod figures;
mod machine;
pub mod output;
pub mod report;
pub mod rounds;
mod served;
pub mod tpcc;
mod trial;

pub use case::record::{BeginUs, Latency, Record};
pub use case::{Case, Distribution, FLOOR, Service, SinkKind, Verify, check, record};
pub use comparison::{advise, page as comparison_page, summary};
pub use error::LabError;
pub use figures::part_from_stdin;
pub use rounds::process::{case_from_stdin, run_case};
pub use rounds::{Progress, run_rounds};
pub use served::{leash, observe};
pub use stillframe_measure::{Environment, environment};
