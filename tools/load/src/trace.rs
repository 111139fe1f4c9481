//! Latency against intended time: the longest in short bins, the 99th percentile in bins ten times
//! as long. Bins grow with the measurement, so that there are never more than a few thousand.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::clock::nanos;

/// Short bins in a long bin.
const RATIO: usize = 10;
const FINE_MIN_NS: u64 = 10_000_000;
const FINE_MAX: u64 = 6_000;
const LONGEST: u64 = 3_600_000_000_000;

/// Bins as they fill.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    bin_ns: u64,
    max_ns: Vec<u64>,
    counts: Vec<u64>,
    /// A digit of each latency is enough for a plot.
    coarse: Vec<Histogram<u32>>,
}

/// Bins of a measurement. Latencies in microseconds, `null` where no query was answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TraceReport {
    /// Length of a short bin.
    pub bin_ms: u64,
    /// Queries intended in each.
    pub counts: Vec<u64>,
    /// Longest latency of each.
    pub max_us: Vec<Option<f64>>,
    /// Length of a long bin.
    pub p99_bin_ms: u64,
    /// 99th percentile of each, within 6 %.
    pub p99_us: Vec<Option<f64>>,
}

impl Trace {
    /// For a measurement of that length.
    pub(crate) fn new(duration: Duration) -> Self {
        let whole = nanos(duration).div_ceil(FINE_MAX).div_ceil(1_000_000) * 1_000_000;
        let bin_ns = whole.max(FINE_MIN_NS);
        Self { bin_ns, max_ns: Vec::new(), counts: Vec::new(), coarse: Vec::new() }
    }

    #[inline]
    pub(crate) fn record(&mut self, due: u64, latency: u64, count: u64) {
        let bin = (due / self.bin_ns) as usize;
        self.grow(bin);
        self.counts[bin] += count;
        self.max_ns[bin] = self.max_ns[bin].max(latency);
        self.coarse[bin / RATIO].saturating_record_n(latency, count.try_into().unwrap_or(u32::MAX));
    }

    /// Bins up to number `bin`, which is bounded by the length of the measurement.
    fn grow(&mut self, bin: usize) {
        if bin >= self.counts.len() {
            self.counts.resize(bin + 1, 0);
            self.max_ns.resize(bin + 1, 0);
            let empty = || {
                Histogram::new_with_bounds(1_000, LONGEST, 1)
                    .expect("bounds and digits are constants that fit")
            };
            self.coarse.resize_with(bin / RATIO + 1, empty);
        }
    }

    /// Adds the bins of another thread of the same measurement.
    pub(crate) fn merge(&mut self, other: &Self) {
        if let Some(last) = other.counts.len().checked_sub(1) {
            self.grow(last);
        }
        for (bin, (count, max)) in other.counts.iter().zip(&other.max_ns).enumerate() {
            self.counts[bin] += count;
            self.max_ns[bin] = self.max_ns[bin].max(*max);
        }
        for (ours, theirs) in self.coarse.iter_mut().zip(&other.coarse) {
            *ours += theirs;
        }
    }

    pub(crate) fn report(&self) -> TraceReport {
        let micros = |ns: u64| ns as f64 / 1e3;
        let max = self.counts.iter().zip(&self.max_ns);
        let p99 = self.coarse.iter();
        TraceReport {
            bin_ms: self.bin_ns / 1_000_000,
            counts: self.counts.clone(),
            max_us: max.map(|(&count, &max)| (count > 0).then(|| micros(max))).collect(),
            p99_bin_ms: self.bin_ns * RATIO as u64 / 1_000_000,
            p99_us: p99
                .map(|it| (!it.is_empty()).then(|| micros(it.value_at_quantile(0.99))))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_hold_what_was_intended_in_them() {
        let mut trace = Trace::new(Duration::from_secs(30));
        for number in 0..1_000_u64 {
            trace.record(number * 1_000_000, 1_000 * (number + 1), 1);
        }
        let report = trace.report();
        assert_eq!((report.bin_ms, report.p99_bin_ms), (10, 100));
        assert_eq!((report.counts.len(), report.p99_us.len()), (100, 10));
        assert!(report.counts.iter().all(|&count| count == 10));
        assert_eq!(report.max_us[3], Some(40.0));
        let p99 = report.p99_us[9].expect("queries in it");
        assert!((930.0..1070.0).contains(&p99), "{p99}");
    }

    #[test]
    fn a_day_fits_into_as_many_bins_as_a_minute() {
        for seconds in [1, 60, 3_600, 86_400] {
            let trace = Trace::new(Duration::from_secs(seconds));
            let bins = seconds * 1_000_000_000 / trace.bin_ns;
            assert!(bins <= FINE_MAX && trace.bin_ns >= FINE_MIN_NS, "{seconds}: {bins}");
        }
    }
}
