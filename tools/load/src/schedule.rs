//! When queries are to be sent.

use crate::clock::SECOND;
use crate::plan::Rate;

/// The intended times of one worker: every `workers`-th batch of the measurement.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    rate: Rate,
    batch: u64,
    number: u64,
    step: u64,
    end: u64,
}

impl Schedule {
    /// Batches of `batch` queries until `end` (nanoseconds), of which this worker (`index` of
    /// `workers`) sends its share.
    pub(crate) fn new(rate: Rate, batch: usize, index: usize, workers: usize, end: u64) -> Self {
        Self { rate, batch: batch as u64, number: index as u64, step: workers as u64, end }
    }
    /// When the next batch is due; `None` when there are no more. At full speed it always is.
    #[inline]
    pub(crate) fn due(&self, now: u64) -> Option<u64> {
        let due = match self.rate {
            Rate::Max => now,
            Rate::PerSecond(rate) => {
                // From the number alone: the errors of a period must not add up.
                let sent = u128::from(self.number) * u128::from(self.batch);
                u64::try_from(sent * u128::from(SECOND) / u128::from(rate)).unwrap_or(u64::MAX)
            }
        };
        (due < self.end).then_some(due)
    }
    /// The batch has been sent (or given up).
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.number += self.step;
    }
    /// The end of the last batch.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut schedule: Schedule) -> Vec<u64> {
        let mut times = Vec::new();
        while let Some(due) = schedule.due(0) {
            times.push(due);
            schedule.advance();
        }
        times
    }

    #[test]
    fn every_query_of_the_rate_has_one_time_by_any_worker() {
        for (rate, batch, workers) in [(50_000, 1, 1), (30_000, 1, 2), (99_991, 16, 3), (7, 1, 1)] {
            let rate = Rate::PerSecond(rate);
            let end = 3 * SECOND;
            let whole = all(Schedule::new(rate, batch, 0, 1, end));
            let part = |index| all(Schedule::new(rate, batch, index, workers, end));
            let mut parts: Vec<u64> = (0..workers).flat_map(part).collect();
            parts.sort_unstable();
            assert_eq!(parts, whole);
            let Rate::PerSecond(rate) = rate else { continue };
            assert_eq!(whole.len() as u64, (3 * rate).div_ceil(batch as u64));
            assert!(whole.iter().all(|&due| due < end) && whole.first() == Some(&0));
        }
    }

    #[test]
    fn a_long_run_does_not_drift() {
        let mut schedule = Schedule::new(Rate::PerSecond(300_007), 1, 0, 1, u64::MAX);
        schedule.number = 300_007 * 86_400;
        assert_eq!(schedule.due(0), Some(86_400 * SECOND));
    }
}
