//! When memory is defragmented, and how much of the time that may take.
//!
//! - Once a second the memory of the process is compared with what is in use. If far more is
//!   resident (`active-defrag-*`), a pass over all keys begins: it moves what lies in memory with
//!   many holes, and gives that memory back at its end.
//! - A pass goes on by slices, with pauses by the share of time that the fragmentation allows.
//! - Some memory is lost to more than holes: a pass that moves little is not repeated for as much.
//! - The owner of the allocator says what is sparse: see `Config::on_defragment`.

use std::time::{Duration, Instant};

use stillframe_keyspace::Defragmentation;

/// How often fragmentation is looked at.
const PERIOD: Duration = Duration::from_secs(1);
/// A pass was worth it if it moved one in so many.
const WORTH: u64 = 16;

/// When a pass begins, and how much time it takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) ignored_bytes: u64,
    /// Free memory in percent of what is in use: from which on there is a pass, and from which on
    /// it takes the most time.
    pub(crate) lower_percent: u64,
    pub(crate) upper_percent: u64,
    /// Of the time, in percent: at the lower threshold, and at the upper one.
    pub(crate) least_time: u64,
    pub(crate) most_time: u64,
}

/// A pass over all keys.
pub(crate) struct Pass {
    pub(crate) walk: Defragmentation,
    /// Of the time, in percent.
    share: u64,
    took: Duration,
}

/// Defragmentation, and what it has done.
#[derive(Default)]
pub(crate) struct Defrag {
    pass: Option<Pass>,
    looked_at: Option<Instant>,
    /// Bytes that the last pass could not make free.
    left_bytes: Option<u64>,
    /// A pass has ended: what it left is measured at the next look.
    has_ended: bool,
    /// Of all passes that have ended.
    done: Defragmentation,
    took: Duration,
}

impl Defrag {
    /// Whether a look at the memory of the process is due.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.looked_at.is_none_or(|at| now.saturating_duration_since(at) >= PERIOD);
        if is_due {
            self.looked_at = Some(now);
        }
        is_due && self.pass.is_none()
    }

    /// A look: so much is resident, so much in use. Whether a pass has begun.
    pub(crate) fn look(&mut self, resident_bytes: u64, used_bytes: u64, limits: Limits) -> bool {
        let free = resident_bytes.saturating_sub(used_bytes);
        if std::mem::take(&mut self.has_ended) {
            self.left_bytes = Some(free);
        }
        self.left_bytes = self.left_bytes.map(|left| left.min(free));
        let percent = free.saturating_mul(100) / used_bytes.max(1);
        let is_new = self.left_bytes.is_none_or(|left| free > left + left / 8);
        if free <= limits.ignored_bytes || percent <= limits.lower_percent || !is_new {
            return false;
        }
        let (span, above) = (
            limits.upper_percent.saturating_sub(limits.lower_percent).max(1),
            percent - limits.lower_percent,
        );
        let times = limits.most_time.saturating_sub(limits.least_time);
        let share = limits.least_time + times * above.min(span) / span;
        self.pass = Some(Pass { walk: Defragmentation::default(), share, took: Duration::ZERO });
        true
    }

    /// The pass under way.
    pub(crate) fn pass(&mut self) -> Option<&mut Pass> {
        self.pass.as_mut()
    }

    /// Notes a slice that took so long; returns the pause behind it.
    pub(crate) fn took(&mut self, slice: Duration) -> Duration {
        let Some(pass) = &mut self.pass else { return Duration::ZERO };
        pass.took += slice;
        self.took += slice;
        let times = 100_u64.saturating_sub(pass.share) as f64 / pass.share.max(1) as f64;
        slice.mul_f64(times)
    }

    /// The pass has come to its end, or is given up.
    pub(crate) fn end(&mut self) {
        let Some(pass) = self.pass.take() else { return };
        self.done = sum(&self.done, &pass.walk);
        let was_worth_it = pass.walk.moved * WORTH > pass.walk.looked;
        (self.has_ended, self.left_bytes) = (!was_worth_it, None);
    }

    /// Whether a pass is under way, and how long it has taken.
    pub(crate) fn running(&self) -> Option<Duration> {
        self.pass.as_ref().map(|pass| pass.took)
    }

    /// What all passes have done, and how long they took.
    pub(crate) fn totals(&self) -> (Defragmentation, Duration) {
        let walk = self.pass.as_ref().map_or(self.done, |pass| sum(&self.done, &pass.walk));
        (walk, self.took)
    }
}

fn sum(done: &Defragmentation, walk: &Defragmentation) -> Defragmentation {
    let mut sum = *done;
    sum.looked += walk.looked;
    sum.moved += walk.moved;
    sum.keys_moved += walk.keys_moved;
    sum.keys_looked += walk.keys_looked;
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;
    const LIMITS: Limits = Limits {
        ignored_bytes: 10 * MB,
        lower_percent: 10,
        upper_percent: 100,
        least_time: 1,
        most_time: 25,
    };

    #[test]
    fn a_pass_begins_where_much_is_free() {
        for (resident, begins) in [(100, false), (109, false), (110, false), (113, true)] {
            let begun = Defrag::default().look(resident * MB, 100 * MB, LIMITS);
            assert_eq!(begun, begins, "{resident} MB");
        }
        let limits = Limits { ignored_bytes: 100 * MB, ..LIMITS };
        assert!(!Defrag::default().look(200 * MB, 100 * MB, limits), "ignored");
    }

    #[test]
    fn more_time_goes_to_more_fragmentation() {
        let pause = |resident: u64| {
            let mut defrag = Defrag::default();
            assert!(defrag.look(resident * MB, 100 * MB, LIMITS));
            defrag.took(Duration::from_millis(1))
        };
        assert_eq!(pause(112), Duration::from_millis(99));
        assert_eq!(pause(200), Duration::from_millis(3));
        assert_eq!(pause(900), Duration::from_millis(3));
    }

    #[test]
    fn what_a_pass_cannot_free_is_left() {
        let mut defrag = Defrag::default();
        let end = |defrag: &mut Defrag, moved| {
            let pass = defrag.pass().expect("a pass");
            (pass.walk.looked, pass.walk.moved) = (100, moved);
            defrag.end();
        };
        assert!(defrag.look(150 * MB, 100 * MB, LIMITS));
        end(&mut defrag, 50);
        assert!(defrag.look(140 * MB, 100 * MB, LIMITS), "the pass before was worth it");
        end(&mut defrag, 1);
        assert!(!defrag.look(140 * MB, 100 * MB, LIMITS), "there is no more to free");
        assert!(!defrag.look(142 * MB, 100 * MB, LIMITS));
        assert!(defrag.look(150 * MB, 100 * MB, LIMITS), "more is free now");
        assert_eq!(defrag.totals().0.moved, 51);
    }

    #[test]
    fn memory_is_looked_at_once_a_second() {
        let (mut defrag, now) = (Defrag::default(), Instant::now());
        assert!(defrag.is_due(now));
        assert!(!defrag.is_due(now + PERIOD / 2));
        assert!(defrag.is_due(now + PERIOD));
    }
}
