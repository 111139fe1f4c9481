//! What one thread has counted; tallies of threads add up.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::phases::{Phase, Stretches};
use crate::plan::Plan;
use crate::requests::Op;
use crate::trace::Trace;

/// Longest latency that histograms resolve, in nanoseconds: an hour.
const LONGEST: u64 = 3_600_000_000_000;
/// Most codes of errors that are counted apart; a server that sends more sends nonsense.
const CODES_MAX: usize = 64;

/// Latencies in nanoseconds, three digits of each.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3).expect("bounds and digits are constants that fit")
}

/// Queries of one time with replies, whose phase is not known yet.
#[derive(Debug, Clone, Copy)]
struct Unassigned {
    due: u64,
    latency: u64,
    op: Op,
    count: u64,
}

/// How often an event happened, and its first occurrence in full.
#[derive(Debug, Clone, Default)]
pub(crate) struct Occurrence {
    pub(crate) count: u64,
    pub(crate) first: String,
}

impl Occurrence {
    fn add(&mut self, count: u64, what: String) {
        if self.count == 0 {
            self.first = what;
        }
        self.count += count;
    }
}

/// Everything a worker counts.
pub(crate) struct Tally {
    latencies: [[Histogram<u64>; 2]; Phase::ALL.len()],
    unassigned: Vec<Unassigned>,
    pub(crate) trace: Trace,
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    /// Reads that found no value.
    pub(crate) missing: u64,
    /// Without a reply, or never sent because no connection was free.
    pub(crate) unanswered: u64,
    /// Sent late although a connection was free: the generator's own lateness.
    pub(crate) late: u64,
    pub(crate) late_max: u64,
    /// Sent late because every connection waited for the server.
    pub(crate) held: u64,
    pub(crate) refused: BTreeMap<String, Occurrence>,
    pub(crate) wrong: Occurrence,
    pub(crate) lost: Option<String>,
}

impl Tally {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            latencies: std::array::from_fn(|_| std::array::from_fn(|_| histogram())),
            unassigned: Vec::new(),
            trace: Trace::new(plan.duration),
            sent: 0,
            answered: 0,
            missing: 0,
            unanswered: 0,
            late: 0,
            late_max: 0,
            held: 0,
            refused: BTreeMap::new(),
            wrong: Occurrence::default(),
            lost: None,
        }
    }

    /// The latency of one query, whose phase will be known later.
    #[inline]
    pub(crate) fn record(&mut self, due: u64, latency: u64, op: Op) {
        self.record_batch(due, latency, op, 1);
    }

    /// As [`record`](Self::record), for `count` queries sent together whose replies came together.
    #[inline]
    pub(crate) fn record_batch(&mut self, due: u64, latency: u64, op: Op, count: u64) {
        self.trace.record(due, latency, count);
        self.unassigned.push(Unassigned { due, latency, op, count });
    }

    /// The server's error.
    pub(crate) fn refuse(&mut self, error: String) {
        let code = error.split(' ').next().unwrap_or_default();
        let code = if self.refused.len() < CODES_MAX { code } else { "(others)" };
        self.refused.entry(code.to_owned()).or_default().add(1, error);
    }

    /// A reply of the wrong kind.
    pub(crate) fn mistake(&mut self, what: String) {
        self.wrong.add(1, what);
    }

    /// Puts the queries intended before `known` into their phases.
    pub(crate) fn assign(&mut self, known: u64, stretches: &Stretches) {
        let latencies = &mut self.latencies;
        self.unassigned.retain(|it| {
            if it.due >= known {
                return true;
            }
            let phase = stretches.phase(it.due) as usize;
            latencies[phase][it.op as usize].saturating_record_n(it.latency, it.count);
            false
        });
    }

    /// Latencies of a phase: of writes, of reads.
    pub(crate) fn latencies(&self, phase: Phase) -> &[Histogram<u64>; 2] {
        &self.latencies[phase as usize]
    }

    /// Adds what another thread has counted; both are assigned.
    pub(crate) fn merge(&mut self, other: Self) {
        let theirs = other.latencies.iter().flatten();
        for (ours, theirs) in self.latencies.iter_mut().flatten().zip(theirs) {
            *ours += theirs;
        }
        self.unassigned.extend(other.unassigned);
        self.trace.merge(&other.trace);
        self.sent += other.sent;
        self.answered += other.answered;
        self.missing += other.missing;
        self.unanswered += other.unanswered;
        self.late += other.late;
        self.late_max = self.late_max.max(other.late_max);
        self.held += other.held;
        for (code, occurrence) in other.refused {
            self.refused.entry(code).or_default().add(occurrence.count, occurrence.first);
        }
        if other.wrong.count > 0 {
            self.wrong.add(other.wrong.count, other.wrong.first);
        }
        self.lost = self.lost.take().or(other.lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::Stretch;

    fn stretches() -> Stretches {
        let save = Stretch { from_ns: 1_000, to_ns: Some(2_000), asked: true };
        Stretches { saves: vec![save], ..Stretches::default() }
    }

    #[test]
    fn a_query_waits_until_its_phase_is_known() {
        let mut tally = Tally::new(&Plan::default());
        tally.record(500, 10, Op::Write);
        tally.record(1_500, 20, Op::Read);
        tally.record(2_500, 30, Op::Write);
        tally.assign(1_600, &Stretches::default());
        assert_eq!(tally.unassigned.len(), 1, "what is known to be normal is assigned");
        let mut tally = Tally::new(&Plan::default());
        tally.record(1_500, 20, Op::Read);
        tally.assign(1_000, &Stretches::default());
        tally.assign(u64::MAX, &stretches());
        assert_eq!(tally.latencies(Phase::Saving)[Op::Read as usize].len(), 1);
        assert_eq!(tally.latencies(Phase::Normal)[Op::Read as usize].len(), 0);
    }

    /// Two threads count together what one would have counted.
    #[test]
    fn tallies_add_up() {
        let (mut one, mut two, mut both) = (
            Tally::new(&Plan::default()),
            Tally::new(&Plan::default()),
            Tally::new(&Plan::default()),
        );
        for number in 0..10_000_u64 {
            let (due, latency) = (number % 3_000, 1_000 + number * number % 7_919);
            let part = if number % 3 == 0 { &mut one } else { &mut two };
            part.record(due, latency, Op::Write);
            both.record(due, latency, Op::Write);
            if number % 100 == 0 {
                part.refuse("OOM command not allowed".to_owned());
            }
        }
        two.mistake("late".to_owned());
        for tally in [&mut one, &mut two, &mut both] {
            tally.assign(u64::MAX, &stretches());
        }
        one.merge(two);
        for phase in Phase::ALL {
            assert_eq!(one.latencies(phase), both.latencies(phase), "{phase:?}");
        }
        assert_eq!(one.latencies(Phase::Saving)[0].len(), 3_000);
        assert_eq!((one.refused["OOM"].count, one.wrong.count), (100, 1));
        assert_eq!(one.trace.report(), both.trace.report());
    }
}
