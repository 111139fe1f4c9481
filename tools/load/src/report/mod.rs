//! The results of a measurement, as values and as JSON; `text` puts them into words.

mod text;

use hdrhistogram::Histogram;
use serde::Serialize;
use stillframe_measure::scale::number;
use stillframe_measure::{Environment, environment};

use crate::clock::SECOND;
use crate::phases::{Phase, Stretch, Stretches};
use crate::plan::{Plan, Rate};
use crate::requests::Op;
use crate::tally::{Tally, histogram};
use crate::trace::TraceReport;
use crate::worker::LATE;

/// The measurements, before they become a report.
pub(crate) struct Measured {
    /// The sum over all threads, every query in its phase.
    pub(crate) tally: Tally,
    pub(crate) stretches: Stretches,
    /// From the first intended time to the last reply.
    pub(crate) elapsed_ns: u64,
    /// Time on cores of this process.
    pub(crate) cpu_ns: u64,
    pub(crate) warnings: Vec<String>,
    pub(crate) interrupted: bool,
}

/// Latencies in microseconds, from the intended time. Zero if there are none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Arithmetic mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
    /// Longest.
    pub max_us: f64,
}

impl Quantiles {
    /// From latencies in nanoseconds.
    pub(crate) fn from_histogram(latencies: &Histogram<u64>) -> Self {
        let at = |share| latencies.value_at_quantile(share) as f64 / 1e3;
        if latencies.is_empty() {
            return Self::default();
        }
        Self {
            mean_us: latencies.mean() / 1e3,
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: latencies.max() as f64 / 1e3,
        }
    }
}

/// The figures of one phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseReport {
    /// Which.
    pub phase: Phase,
    /// How long it lasted, all its stretches together.
    pub seconds: f64,
    /// Queries intended in it that have a latency.
    pub count: u64,
    /// The same, a second.
    pub rate: f64,
    /// Their latencies.
    pub latency: Quantiles,
    /// Latencies of writes; `None` if nothing wrote.
    pub writes: Option<Quantiles>,
    /// Latencies of reads.
    pub reads: Option<Quantiles>,
    /// How many took longer than 1, 5, 10, 100 and 1000 ms.
    pub slower: [Slower; 5],
}

/// Queries that took longer than a limit, to three digits of their latency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Slower {
    /// The limit.
    pub than_ms: u64,
    /// How many.
    pub count: u64,
}

impl Slower {
    fn all(latencies: &Histogram<u64>) -> [Self; 5] {
        [1, 5, 10, 100, 1_000].map(|than_ms| Self {
            than_ms,
            count: latencies.count_between(than_ms * 1_000_000 + 1, u64::MAX),
        })
    }
}

/// How often something happened, and what it was the first time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Counted {
    /// Code of the error; empty if it has none.
    pub code: String,
    /// How often.
    pub count: u64,
    /// The first one in full.
    pub first: String,
}

/// Queries that left late.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Late {
    /// The lateness, in microseconds, from which a query counts as late.
    pub over_us: f64,
    /// Late although a connection was free: the generator or its machine was too slow.
    pub own: u64,
    /// The longest lateness of those.
    pub own_max_us: f64,
    /// Late because every connection waited for the server.
    pub held: u64,
}

/// The same load against the null server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Floor {
    /// Queries with a reply.
    pub count: u64,
    /// The same, a second.
    pub rate: f64,
    /// Their latencies.
    pub latency: Quantiles,
    /// Queries that took longer than each limit, as for a phase.
    pub slower: [Slower; 5],
    /// Queries that left late.
    pub late: Late,
}

/// The results of a measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The plan of the measurement.
    pub plan: Plan,
    /// The server, in its own words.
    pub server: String,
    /// The machine of the generator.
    pub environment: Environment,
    /// From the first intended time to the last reply.
    pub elapsed_s: f64,
    /// Normal operation first; without phases that did not occur.
    pub phases: Vec<PhaseReport>,
    /// 99th percentile while saving, by that of normal operation.
    pub p99_ratio: Option<f64>,
    /// The same ratio of the longest latency.
    pub max_ratio: Option<f64>,
    /// Background saves.
    pub saves: Vec<Stretch>,
    /// Full syncs of replicas.
    pub syncs: Vec<Stretch>,
    /// Rewrites of the log.
    pub rewrites: Vec<Stretch>,
    /// Queries sent, and those with a right reply.
    pub sent: u64,
    /// See above.
    pub answered: u64,
    /// Reads of keys that are not there.
    pub missing: u64,
    /// Intended, but without a reply when the measurement ended; their latency counts until then.
    pub unanswered: u64,
    /// Queries that left late.
    pub late: Late,
    /// Errors of the server, by code; they have no latency.
    pub errors: Vec<Counted>,
    /// Replies of the wrong kind; they have no latency either.
    pub wrong: Counted,
    /// How a connection was lost.
    pub lost: Option<String>,
    /// Whether the measurement was interrupted.
    pub interrupted: bool,
    /// Time on cores of the generator, by the length of the measurement.
    pub cpu_share: f64,
    /// Why the figures are doubtful.
    pub warnings: Vec<String>,
    /// The same load against the null server, if it was asked for.
    pub floor: Option<Floor>,
    /// Latency against time.
    pub trace: TraceReport,
}

impl Late {
    fn from_tally(tally: &Tally) -> Self {
        Self {
            over_us: LATE as f64 / 1e3,
            own: tally.late,
            own_max_us: tally.late_max as f64 / 1e3,
            held: tally.held,
        }
    }
}

impl Floor {
    pub(crate) fn new(plan: &Plan, measured: &Measured) -> Self {
        let Measured { tally, elapsed_ns, .. } = measured;
        let latencies = both(tally.latencies(Phase::Normal));
        let seconds = seconds(plan, *elapsed_ns);
        Self {
            count: latencies.len(),
            rate: latencies.len() as f64 / seconds,
            latency: Quantiles::from_histogram(&latencies),
            slower: Slower::all(&latencies),
            late: Late::from_tally(tally),
        }
    }
}

/// Length of the schedule as far as it was run, in seconds.
fn seconds(plan: &Plan, elapsed_ns: u64) -> f64 {
    plan.duration.as_secs_f64().min(elapsed_ns as f64 / SECOND as f64).max(1e-9)
}

fn both([writes, reads]: &[Histogram<u64>; 2]) -> Histogram<u64> {
    let mut sum = histogram();
    sum += writes;
    sum += reads;
    sum
}

impl Report {
    pub(crate) fn new(plan: Plan, server: String, measured: Measured) -> Self {
        let Measured { tally, stretches, elapsed_ns, cpu_ns, warnings, interrupted } = measured;
        let whole = seconds(&plan, elapsed_ns);
        let lengths = lengths(&stretches, whole);
        let phases: Vec<PhaseReport> = Phase::ALL
            .into_iter()
            .zip(lengths)
            .map(|(phase, seconds)| phase_report(&tally, phase, seconds))
            .filter(|it| it.count > 0)
            .collect();
        let pick = |phase| phases.iter().find(|it| it.phase == phase).map(|it| it.latency);
        let ratio = |value: fn(&Quantiles) -> f64| {
            let (normal, saving) = (pick(Phase::Normal)?, pick(Phase::Saving)?);
            (value(&normal) > 0.0).then(|| value(&saving) / value(&normal))
        };
        let errors = tally.refused.iter().map(|(code, it)| Counted {
            code: code.clone(),
            count: it.count,
            first: it.first.clone(),
        });
        let mut report = Self {
            server,
            environment: environment().clone(),
            elapsed_s: elapsed_ns as f64 / SECOND as f64,
            p99_ratio: ratio(|it| it.p99_us),
            max_ratio: ratio(|it| it.max_us),
            phases,
            saves: stretches.saves,
            syncs: stretches.syncs,
            rewrites: stretches.rewrites,
            sent: tally.sent,
            answered: tally.answered,
            missing: tally.missing,
            unanswered: tally.unanswered,
            late: Late::from_tally(&tally),
            errors: errors.collect(),
            wrong: Counted {
                code: String::new(),
                count: tally.wrong.count,
                first: tally.wrong.first.clone(),
            },
            lost: tally.lost.clone(),
            interrupted,
            cpu_share: cpu_ns as f64 / elapsed_ns.max(1) as f64,
            warnings,
            floor: None,
            trace: tally.trace.report(),
            plan,
        };
        report.judge();
        report
    }

    /// Saves, syncs and rewrites.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = &Stretch> {
        self.saves.iter().chain(&self.syncs).chain(&self.rewrites)
    }

    /// Adds why the figures are doubtful.
    fn judge(&mut self) {
        self.warnings.extend(self.environment.warnings.iter().cloned());
        let share = self.late.own as f64 / self.sent.max(1) as f64;
        if share > 0.001 {
            self.warnings.push(format!(
                "{:.1} % of the queries left more than {} us late though a connection was free: \
                 latencies are those of a busy generator as well; lower --rate or use another \
                 machine",
                share * 100.0,
                number(self.late.over_us)
            ));
        }
        if self.plan.rate == Rate::Max {
            self.warnings.push(
                "--rate max is a closed loop: a stalled server is asked less, so latencies look \
                 better than they are"
                    .to_owned(),
            );
        }
    }
}

fn phase_report(tally: &Tally, phase: Phase, seconds: f64) -> PhaseReport {
    let latencies = tally.latencies(phase);
    let all = both(latencies);
    let part = |op: Op| {
        let part = &latencies[op as usize];
        (!part.is_empty()).then(|| Quantiles::from_histogram(part))
    };
    let rate = if seconds > 0.0 { all.len() as f64 / seconds } else { 0.0 };
    PhaseReport {
        phase,
        seconds,
        count: all.len(),
        rate,
        latency: Quantiles::from_histogram(&all),
        writes: part(Op::Write),
        reads: part(Op::Read),
        slower: Slower::all(&all),
    }
}

/// Seconds of each phase, in the order of [`Phase::ALL`].
fn lengths(stretches: &Stretches, whole: f64) -> [f64; Phase::ALL.len()] {
    let mut edges = vec![0, (whole * SECOND as f64) as u64];
    let end = edges[1];
    let all = [&stretches.saves, &stretches.syncs, &stretches.rewrites];
    for it in all.into_iter().flatten() {
        edges.extend([it.from_ns.min(end), it.to_ns.unwrap_or(end).min(end)]);
    }
    edges.sort_unstable();
    let mut lengths = [0.0; Phase::ALL.len()];
    for pair in edges.windows(2) {
        lengths[stretches.phase(pair[0]) as usize] += (pair[1] - pair[0]) as f64 / SECOND as f64;
    }
    lengths
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;

    /// One second at 1000/s, of which a save took 0.2 s; queries took 100 us, in the save 500.
    pub(crate) fn report() -> Report {
        let plan = Plan {
            rate: Rate::PerSecond(1_000),
            duration: Duration::from_secs(1),
            ..Plan::default()
        };
        let save = Stretch { from_ns: 300_000_000, to_ns: Some(500_000_000), asked: true };
        let stretches = Stretches { saves: vec![save], ..Stretches::default() };
        let mut tally = Tally::new(&plan);
        for number in 0..1_000_u64 {
            let due = number * 1_000_000;
            let latency = if (300..500).contains(&number) { 500_000 } else { 100_000 };
            tally.record(due, latency, if number % 2 == 0 { Op::Write } else { Op::Read });
        }
        (tally.sent, tally.answered) = (1_000, 1_000);
        tally.assign(u64::MAX, &stretches);
        let (elapsed_ns, cpu_ns) = (SECOND + 1_000_000, SECOND / 10);
        let measured =
            Measured { tally, stretches, elapsed_ns, cpu_ns, warnings: vec![], interrupted: false };
        Report::new(plan, "redis <7>".to_owned(), measured)
    }

    #[test]
    fn phases_are_kept_apart() {
        let report = report();
        let [normal, saving] = report.phases.as_slice() else { panic!("{:?}", report.phases) };
        assert_eq!((normal.count, saving.count), (800, 200));
        assert!((normal.seconds - 0.8).abs() < 1e-6 && (saving.rate - 1000.0).abs() < 1.0);
        let near = |value: f64, wanted: f64| (value / wanted - 1.0).abs() < 0.002;
        assert!(near(normal.latency.p99_us, 100.0) && near(saving.latency.max_us, 500.0));
        assert_eq!(saving.slower[0].count, 0);
        assert!(near(report.p99_ratio.expect("both phases"), 5.0));
    }
}
