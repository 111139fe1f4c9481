//! When free memory goes back to the system.
//!
//! - The allocator keeps freed memory for the next allocations, and memory that other threads free
//!   until its own thread allocates: an idle server would keep all that it ever used.
//! - Periodic work gives it back once much less is in use, deleted values are freed, and the server
//!   has little to do; or after a while in any case: a busy server soon uses the memory again.
//! - The owner of the allocator provides the call: see `Config::on_give_back`.

use std::time::{Duration, Instant};

/// Free bytes that stay with the allocator.
const KEPT_BYTES: usize = 8 << 20;
/// Requests between two periodic runs up to which a server has little to do.
const FEW_REQUESTS: u64 = 100;
/// How long a busy server keeps free memory.
const BUSY: Duration = Duration::from_secs(10);

/// See the head of this file.
#[derive(Default)]
pub(crate) struct FreeMemory {
    /// The most bytes in use since memory was last given back.
    most_bytes: usize,
    /// Since when much of that is free.
    since: Option<Instant>,
    /// Requests run at the last periodic run.
    requests: u64,
}

impl FreeMemory {
    /// Notes that free memory was given back while so much is in use.
    pub(crate) fn given_back(&mut self, used_bytes: usize) {
        (self.most_bytes, self.since) = (used_bytes, None);
    }

    /// A periodic run: whether it is time to give back free memory. `requests`: run since the
    /// start; `frees`: whether deleted values are still being freed.
    pub(crate) fn is_due(
        &mut self,
        used_bytes: usize,
        requests: u64,
        frees: bool,
        now: Instant,
    ) -> bool {
        self.most_bytes = self.most_bytes.max(used_bytes);
        let few = requests.saturating_sub(self.requests) <= FEW_REQUESTS;
        self.requests = requests;
        if self.most_bytes - used_bytes <= KEPT_BYTES || frees {
            return false;
        }
        let since = *self.since.get_or_insert(now);
        few || now.saturating_duration_since(since) > BUSY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 100 << 20;
    const LESS: usize = MOST - KEPT_BYTES - 1;

    /// Memory of which so much was in use, and a time to count from.
    fn used_most() -> (FreeMemory, Instant) {
        let (mut free, now) = (FreeMemory::default(), Instant::now());
        assert!(!free.is_due(MOST, 0, false, now), "nothing is free");
        (free, now)
    }

    #[test]
    fn an_idle_server_gives_back_a_good_deal() {
        let (mut free, now) = used_most();
        assert!(!free.is_due(MOST - KEPT_BYTES, FEW_REQUESTS, false, now));
        assert!(free.is_due(LESS, 2 * FEW_REQUESTS, false, now));
        free.given_back(LESS);
        assert!(!free.is_due(LESS, 2 * FEW_REQUESTS, false, now));
    }

    #[test]
    fn a_busy_server_gives_back_after_a_while() {
        let (mut free, now) = used_most();
        for (requests, passed, due) in [(1000, 0, false), (2000, 10, false), (3000, 11, true)] {
            let now = now + Duration::from_secs(passed);
            assert_eq!(free.is_due(LESS, requests, false, now), due, "after {passed} s");
        }
    }

    #[test]
    fn what_is_being_freed_is_waited_for() {
        let (mut free, now) = used_most();
        assert!(!free.is_due(LESS, 0, true, now + 2 * BUSY));
        assert!(free.is_due(LESS, 0, false, now + 2 * BUSY));
    }
}
