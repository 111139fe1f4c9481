//! What is measured more than once, and what a thread has used of the processor.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The middle of some values, and the least and the largest one. Panics if there are none.
#[must_use]
pub fn spread(values: impl Iterator<Item = f64>) -> String {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    format!("{:.2} ({:.2} to {:.2})", all[all.len() / 2], all[0], all[all.len() - 1])
}

/// Time that the processor has given to this thread.
#[must_use]
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32) // below a second
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_middle_and_both_ends() {
        assert_eq!(spread([3.0, 1.0, 2.0].into_iter()), "2.00 (1.00 to 3.00)");
        assert_eq!(spread([1.5].into_iter()), "1.50 (1.50 to 1.50)");
    }

    #[test]
    fn the_time_of_a_thread_never_falls() {
        let before = thread_time();
        assert!(thread_time() >= before);
    }
}
