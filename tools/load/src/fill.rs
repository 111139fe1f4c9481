//! Loads every key before the measurement: many at once, one connection, nothing timed.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::LoadError;
use crate::plan::Plan;
use crate::requests::{Check, Requests};
use crate::side::Side;

/// Bytes of requests sent before their replies are read, and requests.
const BATCH_BYTES: usize = 256 << 10;
const BATCH: u64 = 1_000;

/// Writes items `0..keys`; `progress` receives how many are written.
pub(crate) fn fill(
    plan: &Plan,
    side: &mut Side,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64),
) -> Result<(), LoadError> {
    let mut requests = Requests::new(plan, 0, Check::Kind);
    let mut buffer = Vec::with_capacity(BATCH_BYTES + plan.value_size);
    let (mut item, target) = (0, || plan.target.clone());
    while item < plan.keys {
        if stop.load(Ordering::Relaxed) {
            return Err(LoadError::Interrupted);
        }
        buffer.clear();
        let (first, mut count) = (item, 0);
        while item < plan.keys && item - first < BATCH && buffer.len() < BATCH_BYTES {
            let query = requests.fill(item);
            count += requests.encode(query, &mut buffer);
            item += 1;
        }
        let refused = side.batch(&buffer, count).map_err(|error| LoadError::Broken {
            target: target(),
            doing: "loading the keys",
            error,
        })?;
        if let Some(answer) = refused {
            return Err(LoadError::Refused { target: target(), what: "the keys", answer });
        }
        progress(item);
    }
    Ok(())
}
