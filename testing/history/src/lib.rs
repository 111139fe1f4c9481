//! What clients of a Redis-compatible server saw, and whether a server that does one thing after
//! the other could have shown it to them: whether the history is *linearizable*.
//!
//! - [`Recorder`] and [`Client`] record: who called what and when, what came back and when. A call
//!   whose reply was lost may have taken effect at any later time, or never.
//! - [`check`] judges. [`Verdict::Undecided`] is what it says when its budget did not suffice.
//! - A [`Violation`] shows the few calls that no order explains.
//! - [`find_anomaly`] looks for calls that precede one another in a circle. It knows less than
//!   [`check`], and judges histories of any length.
//!
//! Calls are strings, counters, lists and streams that grow, queues on which clients block, and
//! MULTI over any of them.
//!
//! Invariants:
//! - A verdict is a function of the history and the budget: no clock, no chance.
//! - `Linearizable`, `Violated` and an [`Anomaly`] are proofs; what is not known is `Undecided`.
#![forbid(unsafe_code)]

mod call;
mod check;
mod client;
mod cycles;
mod dependencies;
mod frontier;
mod groups;
mod history;
mod model;
mod mutant;
mod search;
mod shrink;

pub use call::{Call, Command, Key, Reply};
pub use check::{Verdict, check};
pub use client::{Answer, Client, Connection, answer, requests};
pub use cycles::{Anomaly, find_anomaly};
pub use dependencies::Why;
pub use history::{Operation, Outcome, Recorder};
pub use search::Budget;
pub use shrink::Violation;

#[cfg(test)]
mod tests;
