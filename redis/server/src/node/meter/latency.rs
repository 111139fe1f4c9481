//! The latency of events, and how long each command takes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::node::clock::unix_millis;

/// Samples kept of an event.
const SAMPLES_MAX: usize = 160;

/// The latency of one event.
#[derive(Default)]
pub(crate) struct Event {
    /// Unix second and milliseconds, the newest last; the worst of each second.
    pub(crate) samples: VecDeque<(i64, u64)>,
    /// The worst ever, in milliseconds.
    pub(crate) max_ms: u64,
}

/// Events by name.
#[derive(Default)]
pub(crate) struct Latency(BTreeMap<&'static str, Event>);

impl Latency {
    /// All events, by name.
    pub(crate) fn events(&self) -> impl ExactSizeIterator<Item = (&'static str, &Event)> {
        self.0.iter().map(|(name, event)| (*name, event))
    }

    /// The event of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Event> {
        self.0.get(name)
    }

    /// Forgets the named events, or all; returns how many.
    pub(super) fn forget(&mut self, names: &[&[u8]]) -> usize {
        let before = self.0.len();
        self.0.retain(|name, _| !names.is_empty() && !names.contains(&name.as_bytes()));
        before - self.0.len()
    }

    /// Notes how long an event took, if that is `threshold_ms` or more; 0: never.
    pub(super) fn sample(&mut self, event: &'static str, took: Duration, threshold_ms: u64) {
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        if threshold_ms == 0 || took_ms < threshold_ms {
            return;
        }
        let second = unix_millis() / 1000;
        let event = self.0.entry(event).or_default();
        event.max_ms = event.max_ms.max(took_ms);
        match event.samples.back_mut() {
            Some((last, worst)) if *last == second => *worst = (*worst).max(took_ms),
            _ => event.samples.push_back((second, took_ms)),
        }
        if event.samples.len() > SAMPLES_MAX {
            event.samples.pop_front();
        }
    }
}

/// The times of a command: a count for each power of two of 1024 ns.
#[derive(Default, Clone)]
pub(crate) struct Histogram([u64; 32]);

impl Histogram {
    /// Counts one run.
    #[inline]
    pub(super) fn add(&mut self, took_ns: u64) {
        let at = (64 - (took_ns >> 10).leading_zeros()).min(31);
        self.0[at as usize] += 1;
    }

    /// Microseconds of a percentile: the upper bound of its bucket.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        let runs = self.runs();
        let mut left = ((runs as f64 * percent / 100.0).round() as u64).clamp(1, runs.max(1));
        let at = self.0.iter().position(|&count| {
            left = left.saturating_sub(count);
            left == 0
        });
        ((1024_u64 << at.unwrap_or(0)) - 1) as f64 / 1000.0
    }

    /// Upper bounds in seconds, up to a quarter of a minute, with the number of runs up to each.
    pub(crate) fn spread(&self) -> Vec<(f64, u64)> {
        let mut sum = 0;
        let counted = self.0.iter().enumerate().take(25);
        counted
            .map(|(at, count)| {
                sum += count;
                ((1024_u64 << at) as f64 / 1e9, sum)
            })
            .collect()
    }

    /// All runs.
    pub(crate) fn runs(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Upper bounds in microseconds, as Redis rounds them, with the number of runs up to each; only
    /// of buckets with runs.
    pub(crate) fn cumulative(&self) -> Vec<(i64, u64)> {
        let mut sum = 0;
        let counted = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        counted
            .map(|(at, count)| {
                sum += count;
                ((((1024 + 8) << at) - 1) / 1000, sum)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_those_of_redis() {
        let mut histogram = Histogram::default();
        for micros in [0, 1, 3, 20, 20, 300, 1_000_000] {
            histogram.add(micros * 1000);
        }
        let expected = [(1, 2), (4, 3), (33, 5), (528, 6), (1_082_130, 7)];
        assert_eq!(histogram.cumulative(), expected);
        let percentiles = [0.0, 50.0, 85.0, 100.0].map(|percent| histogram.percentile(percent));
        assert_eq!(percentiles, [1.023, 32.767, 524.287, 1_073_741.823]);
        let spread = histogram.spread();
        assert_eq!(
            (spread.len(), spread[0], spread[5]),
            (25, (0.000_001_024, 2), (0.000_032_768, 5))
        );
        assert_eq!((spread[24], histogram.runs()), ((17.179_869_184, 7), 7));
    }

    #[test]
    fn the_worst_of_a_second_is_kept() {
        let mut latency = Latency::default();
        let mut sample = |name, ms| latency.sample(name, Duration::from_millis(ms), 5);
        for ms in [4, 7, 9, 6] {
            sample("command", ms);
        }
        sample("eviction-cycle", 5);
        assert_eq!(latency.get("command").expect("a sample").max_ms, 9);
        assert!(latency.get("command").expect("a sample").samples.iter().all(|it| it.1 >= 6));
        assert_eq!(latency.forget(&[b"command", b"none"]), 1);
        assert!(latency.get("command").is_none());
        assert_eq!((latency.forget(&[]), latency.events().len()), (1, 0));
    }
}
