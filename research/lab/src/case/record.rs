//! A record: what one round of one case gave. One JSON object a line.

use serde::{Deserialize, Serialize};

use stillframe_measure::Environment;

use crate::case::Case;

/// What one round of one case gave. Zero or absent where nothing was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// Name in the registry, or `none`.
    pub algorithm: String,
    /// Round, from 1.
    pub round: u32,
    /// Length of the update stage, a begin at its start included, over all timed ticks.
    pub tick_latency_ms: Latency,
    /// The same over those ticks at whose stage an image was held (begun before or in it, and not
    /// durable at its start). Of `none`: over all ticks.
    pub tick_latency_capture_ms: Latency,
    /// Ticks in that.
    pub capture_ticks: u64,
    /// How long begin held the writer up.
    pub begin_us: Option<BeginUs>,
    /// Updates by the time of all stages.
    pub throughput_updates_per_s: f64,
    /// One random read, all caches as the load left them, while an image is captured.
    pub read_ns: f64,
    /// The same while no image is held: what is to be compared with `read_ns` of `none`.
    pub read_idle_ns: f64,
    /// Memory of the algorithm with its state before the first image.
    pub memory_base_bytes: u64,
    /// The most that was seen while an image was captured.
    pub memory_peak_bytes: u64,
    /// From begin to durable, median.
    pub image_s: Option<f64>,
    /// From begin to durable, each timed image.
    pub images_s: Vec<f32>,
    /// Images begun in timed ticks and captured whole.
    pub images: u32,
    /// Images of which digests were compared: the timed ones, the base and the memory image.
    pub verified_images: u32,
    /// Words in blocks that differ from the oracle, over all images.
    pub mismatched_words: u64,
    /// Times the writer had to wait for the capture in timed ticks: its budget was used up.
    pub writer_waits: u64,
    /// Times the writer was held up in a write of timed ticks by what the image needed first, where
    /// an algorithm counts it.
    pub interruptions: u64,
    /// The unit that was really used: `half`, `word`, `line` or `page`.
    pub unit: String,
    /// Distinct units written in a period (from one begin to the next), mean.
    pub units_per_period: Option<f64>,
    /// Distinct pages of 4 KiB written in a period, mean.
    pub pages_per_period: Option<f64>,
    /// Timed ticks in which each image was held: first, and first after it.
    pub image_ticks: Vec<(u32, u32)>,
    /// Length of each update stage, if asked for.
    pub trace_ms: Option<Vec<f32>>,
    /// Whether writer and snapshotter had a core each.
    pub pinned: bool,
    /// Ticks that were run, the untimed ones included.
    pub ticks_run: u64,
    /// Why this machine does not let the algorithm run.
    pub unavailable: Option<String>,
    /// Why the round ended without a measurement.
    pub failed: Option<String>,
    /// What the clients of a server saw, if the case is a server's.
    pub served: Option<Served>,
    /// What was run.
    pub case: Case,
    /// Where it was run.
    pub environment: Environment,
}

impl Record {
    /// The record of a case that gave nothing yet.
    #[must_use]
    pub fn new(case: &Case) -> Self {
        Self { algorithm: case.algorithm.clone(), case: case.clone(), ..Self::default() }
    }
    /// Whether the record has any measurement.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.unavailable.is_none() && self.failed.is_none()
    }
    /// Whether an image was wrong, or the round broke.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        self.mismatched_words > 0 || self.failed.is_some()
    }
}

/// What the clients of a server saw.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Served {
    /// The server, in its own words.
    pub server: String,
    /// Queries a second of a closed loop, with saves; 0 if that was not measured.
    pub throughput_per_s: f64,
    /// The least throughput over 50 ms within a save.
    pub least_throughput_per_s: Option<f64>,
    /// Latency from intended times, of queries while no save ran.
    pub normal: Option<QueryMs>,
    /// The same while the server saved, or rewrote its log. Of the null server: of all.
    pub busy: Option<QueryMs>,
    /// Queries without a reply at the end: the server is slower than the rate.
    pub unanswered: u64,
    /// Queries that the generator sent late.
    pub late_own: u64,
    /// Bytes of the dump file.
    pub dump_bytes: u64,
    /// The first fault of the image, if any.
    pub wrong: Option<String>,
}

/// Latencies of queries in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct QueryMs {
    /// Queries.
    pub count: u64,
    /// Median.
    pub p50: f64,
    /// Of 100, the 99th.
    pub p99: f64,
    /// Longest.
    pub max: f64,
}

/// A distribution of times, in milliseconds. Exact: from the sorted values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// Of 100, the 99th.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// Longest.
    pub max: f64,
}

impl Latency {
    /// The distribution of these values; all zero if there are none.
    #[must_use]
    pub fn from_values(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let mean = sorted.iter().sum::<f64>() / sorted.len().max(1) as f64;
        let [p50, p99, p999, max] = [0.5, 0.99, 0.999, 1.0].map(|share| quantile(&sorted, share));
        Self { mean, p50, p99, p999, max }
    }
}

/// The smallest value that at least `share` of the sorted values do not exceed; 0 of none.
#[must_use]
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or_default()
}

/// How long begin held the writer up, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct BeginUs {
    /// Median.
    pub p50: f64,
    /// Longest.
    pub max: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
        let latency = Latency::from_values(&values);
        assert_eq!((latency.p50, latency.p99, latency.p999), (500.0, 990.0, 999.0));
        assert_eq!((latency.mean, latency.max), (500.5, 1000.0));
        assert_eq!(Latency::from_values(&[]), Latency::default());
        assert_eq!(Latency::from_values(&[3.0]).p50, 3.0);
    }
}
