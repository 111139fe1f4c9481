//! Naive Snapshot with a parallel copy. Source: Šidlauskas et al., "A Comparison of the Use of
//! Virtual Versus Physical Snapshots for Supporting Update-Intensive Workloads", the physical
//! snapshot.
//!
//! Idea: as [`naive`](crate::algorithms::naive), but `Options::threads` threads make the copy, the
//! writer included.
//!
//! - Begin: O(state / threads), and some 20 microseconds to start each thread. Threads live as long
//!   as the copy: a copy that is worth sharing takes milliseconds.
//! - All else is naive's.

use crate::algorithms::naive::{Copiers, FullCopy};
use crate::info::Info;
use crate::options::Options;
use crate::sealed::Sealed;

/// Copied by several threads.
pub type NaiveParallel = FullCopy<ByThreads>;

/// As many threads as the options say, the writer included.
#[derive(Debug)]
pub struct ByThreads;

impl Sealed for ByThreads {}
impl Copiers for ByThreads {
    const INFO: Info = NaiveParallel::REGISTERED;

    fn count(options: &Options) -> usize {
        options.threads
    }
}
