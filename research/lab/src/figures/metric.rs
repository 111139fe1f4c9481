//! The numbers read from a record.

use crate::case::record::Record;

/// A number of a record, some in relation to the floor under the same workload.
#[derive(Debug)]
pub struct Metric {
    /// Name of the axis or column.
    pub name: &'static str,
    /// Its unit; empty for ratios.
    pub unit: &'static str,
    /// The value, from a record and the floor's record.
    pub of: fn(&Record, Option<&Record>) -> Option<f64>,
}

impl Metric {
    /// Name and unit.
    #[must_use]
    pub fn label(&self) -> String {
        if self.unit.is_empty() {
            self.name.to_owned()
        } else {
            format!("{} [{}]", self.name, self.unit)
        }
    }
}

/// Mean length of the update stage.
pub static MEAN: Metric =
    Metric { name: "mean tick", unit: "ms", of: |it, _| positive(it.tick_latency_ms.mean) };
/// Longest update stage.
pub static WORST: Metric =
    Metric { name: "worst tick", unit: "ms", of: |it, _| positive(it.tick_latency_ms.max) };
/// Mean length of the update stage while an image is held.
pub static HELD: Metric =
    Metric { name: "mean tick while an image is held", unit: "ms", of: |it, _| held(it) };
/// How long begin held up the writer.
pub static BEGIN: Metric =
    Metric { name: "begin", unit: "us", of: |it, _| it.begin_us.map(|begin| begin.p50) };
/// The same, in milliseconds.
pub static BEGIN_MS: Metric =
    Metric { name: "begin", unit: "ms", of: |it, _| it.begin_us.map(|begin| begin.p50 / 1e3) };
/// State over begin: what an eager copy reaches.
pub static COPY_RATE: Metric = Metric {
    name: "copied",
    unit: "GB/s",
    of: |it, _| it.begin_us.map(|begin| it.case.size_bytes as f64 / 1e3 / begin.p50),
};
/// Updates by the time of all update stages.
pub static THROUGHPUT: Metric = Metric {
    name: "updates",
    unit: "M/s",
    of: |it, _| positive(it.throughput_updates_per_s / 1e6),
};
/// From begin to durable.
pub static IMAGE: Metric = Metric { name: "image", unit: "s", of: |it, _| it.image_s };
/// Most memory, by that of the state.
pub static MEMORY: Metric = Metric {
    name: "peak memory",
    unit: "x state",
    of: |it, _| {
        it.case.memory.then_some(it.memory_peak_bytes as f64 / it.case.size_bytes.max(1) as f64)
    },
};
/// Memory above the floor's, by the most that an image may take for itself.
pub static BUDGET: Metric = Metric {
    name: "memory above none",
    unit: "x budget",
    of: |it, floor| {
        let above = it.memory_peak_bytes as f64 - floor?.memory_peak_bytes as f64;
        it.case.memory.then_some(above / it.case.budget() as f64)
    },
};
/// How often the writer had to wait because the budget was used up.
pub static WAITS: Metric =
    Metric { name: "waits", unit: "", of: |it, _| Some(it.writer_waits as f64) };
/// One random read while an image is captured.
pub static READ: Metric = Metric { name: "read", unit: "ns", of: |it, _| positive(it.read_ns) };
/// Time of the writer above the floor, over one period.
pub static OVERHEAD: Metric = Metric {
    name: "overhead per image",
    unit: "ms",
    of: |it, floor| {
        let above = it.tick_latency_ms.mean - floor?.tick_latency_ms.mean;
        let ticks = it.case.interval_ms as f64 / it.case.tick_ms.max(1) as f64;
        (!it.case.is_floor()).then_some(above * ticks)
    },
};
/// Worst tick in which an image began, over the median tick.
pub static SPIKE: Metric =
    Metric { name: "spike at begin", unit: "x median", of: |it, _| spike(it) };
/// Worst tick over the median tick.
pub static PEAK: Metric = Metric {
    name: "worst tick",
    unit: "x median",
    of: |it, _| positive(it.tick_latency_ms.max / it.tick_latency_ms.p50),
};
/// Mean tick while an image is held, over the floor's.
pub static HELD_RATIO: Metric = Metric {
    name: "mean tick while an image is held",
    unit: "x none",
    of: |it, floor| Some(held(it)? / held(floor?)?),
};
/// Worst tick over the floor's worst.
pub static WORST_RATIO: Metric = Metric {
    name: "worst tick",
    unit: "x none",
    of: |it, floor| positive(it.tick_latency_ms.max / floor?.tick_latency_ms.max),
};
/// Read while no image is held, over the floor's.
pub static READ_RATIO: Metric = Metric {
    name: "read",
    unit: "x none",
    of: |it, floor| {
        let idle_ns = if it.case.is_floor() { it.read_ns } else { it.read_idle_ns };
        positive(idle_ns / floor?.read_ns)
    },
};
/// Memory over the floor's.
pub static MEMORY_RATIO: Metric = Metric {
    name: "peak memory",
    unit: "x none",
    of: |it, floor| {
        let ratio = it.memory_peak_bytes as f64 / floor?.memory_peak_bytes as f64;
        positive(ratio).filter(|_| it.case.memory)
    },
};

fn positive(value: f64) -> Option<f64> {
    (value.is_finite() && value > 0.0).then_some(value)
}

fn held(record: &Record) -> Option<f64> {
    (record.capture_ticks > 0).then_some(record.tick_latency_capture_ms.mean).and_then(positive)
}

fn spike(record: &Record) -> Option<f64> {
    let trace = record.trace_ms.as_ref()?;
    let firsts = record.image_ticks.iter().filter_map(|(first, _)| trace.get(*first as usize));
    let worst = firsts
        .copied()
        .fold(None, |worst: Option<f32>, ms| Some(worst.map_or(ms, |worst| worst.max(ms))));
    positive(f64::from(worst?) / record.tick_latency_ms.p50)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::case::record::Latency;

    #[test]
    fn overhead_is_the_time_above_the_floor_in_a_period() {
        let record = |algorithm: &str, mean| Record {
            case: Case { interval_ms: 1000, tick_ms: 100, ..Case::default() }
                .with_algorithm(algorithm),
            tick_latency_ms: Latency { mean, ..Latency::default() },
            ..Record::default()
        };
        let (floor, naive) = (record("none", 2.0), record("naive", 2.5));
        assert_eq!((OVERHEAD.of)(&naive, Some(&floor)), Some(5.0));
        assert_eq!((OVERHEAD.of)(&naive, None), None);
        assert_eq!((OVERHEAD.of)(&floor, Some(&floor)), None);
    }

    #[test]
    fn a_spike_is_looked_for_where_images_begin() {
        let record = Record {
            trace_ms: Some(vec![1.0, 9.0, 1.0, 4.0]),
            image_ticks: vec![(3, 4), (7, 9)],
            tick_latency_ms: Latency { p50: 1.0, max: 9.0, ..Latency::default() },
            ..Record::default()
        };
        assert_eq!((SPIKE.of)(&record, None), Some(4.0));
        assert_eq!((PEAK.of)(&record, None), Some(9.0));
        assert_eq!((SPIKE.of)(&Record::default(), None), None);
        assert_eq!((READ_RATIO.of)(&record, Some(&record)), None);
    }
}
