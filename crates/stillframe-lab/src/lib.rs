//! The lab: every algorithm under one workload, measured while every image is verified.
//!
//! - A [`Case`] is one algorithm under one workload; a [`Record`] is what one round of it gave.
//! - [`run_rounds`] runs cases, each round in a process of its own, rounds interleaved.
//! - Nothing is timed but what a writer would wait for: its updates, its reads and `begin`. Making the
//!   updates, verifying the images and measuring memory lie outside.
#![forbid(unsafe_code)]

pub mod case;
pub mod error;
pub mod figures;
pub mod record;
pub mod report;
pub mod rounds;

pub use case::{Case, Distribution, FLOOR, SinkKind, Verify};
pub use error::LabError;
pub use record::{BeginUs, Environment, Latency, Record};
pub use rounds::{Progress, run_rounds};
