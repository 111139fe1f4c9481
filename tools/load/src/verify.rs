//! Reads every item that a plan fills, and compares it with what the plan writes.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::LoadError;
use crate::plan::Plan;
use crate::requests::{Check, Kind, Query, Requests, Verdict};
use crate::side::{Side, resolve};

/// Requests sent before their replies are read.
const BATCH: u64 = 200;

/// What a server holds of the items of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Items that were read.
    pub items: u64,
    /// Items that are missing or have another value.
    pub wrong: u64,
    /// What the first of them is.
    pub first: String,
}

/// Reads items `0..keys` of a workload whose items have values of their own.
///
/// # Errors
/// No connection, or a lost one; a plan whose items cannot be known again.
pub fn verify(plan: &Plan, stop: &AtomicBool) -> Result<Verified, LoadError> {
    if !plan.workload.is_verifiable() {
        return Err(LoadError::Plan(format!(
            "--workload {}: its items cannot be known again; take string, hash or ycsb-a to -f",
            plan.workload
        )));
    }
    let mut side = Side::open(plan, &resolve(plan)?)?;
    let requests = Requests::new(plan, 0, Check::Value { filled: true });
    let (mut seen, mut buffer) = (Verified::default(), Vec::new());
    let read = |item| Query { kind: Kind::Read, item, score: 0 };
    while seen.items < plan.keys {
        if stop.load(Ordering::Relaxed) {
            return Err(LoadError::Interrupted);
        }
        buffer.clear();
        let first = seen.items;
        let count = BATCH.min(plan.keys - first);
        for item in first..first + count {
            requests.encode(read(item), &mut buffer);
        }
        let look = |number: usize, reply: &stillframe_resp::Reply<'_>| {
            let verdict = requests.judge(read(first + number as u64), reply);
            if let Verdict::Refused(what) | Verdict::Wrong(what) = verdict {
                if seen.wrong == 0 {
                    seen.first = what;
                }
                seen.wrong += 1;
            }
        };
        side.each(&buffer, count as usize, look).map_err(|error| LoadError::Broken {
            target: plan.target.clone(),
            doing: "reading the keys",
            error,
        })?;
        seen.items += count;
    }
    Ok(seen)
}
