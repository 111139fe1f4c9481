//! When memory is defragmented, and how much of the time that may take.
//!
//! - Once a second the memory of the process is compared with what is in use. If far more is
//!   resident (`active-defrag-*`), a pass over all keys begins: it moves what lies in memory with
//!   many holes, and gives that memory back at its end.
//! - A pass goes on by slices, with pauses by the share of time that the fragmentation allows.
//! - Some memory is lost to more than holes: a pass that moves little is not repeated for as much.
//! - The owner of the allocator says what is sparse: see `Config::on_defragment`. mimalloc cannot
//!   say it of a page that was full, and whose blocks other threads have freed since, as they do
//!   after each save: the thread that allocated there has to free one itself. So a pass moves the
//!   first thing that it meets in each region, whatever the answer.

use std::collections::BTreeMap;
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

impl Limits {
    /// Of the time, in percent, while so much is free in percent of what is in use.
    fn share(&self, percent: u64) -> u64 {
        let span = self.upper_percent.saturating_sub(self.lower_percent).max(1);
        let above = percent.saturating_sub(self.lower_percent).min(span);
        self.least_time + self.most_time.saturating_sub(self.least_time) * above / span
    }
}

/// Bits of an address within a region: pages of the allocator consist of such.
const REGION_BITS: u32 = 16;
/// Regions of one bitmap.
const CHUNK: usize = 4096;

/// Regions of memory in which something has been moved.
#[derive(Debug, Default)]
pub(crate) struct Probed {
    chunks: BTreeMap<usize, Box<[u64; CHUNK / 64]>>,
    count: u64,
}

impl Probed {
    /// Whether the region of an address is new here.
    pub(crate) fn insert(&mut self, address: *const u8) -> bool {
        let region = address.addr() >> REGION_BITS;
        let chunk = self.chunks.entry(region / CHUNK).or_insert_with(|| Box::new([0; CHUNK / 64]));
        let (word, bit) = (&mut chunk[region % CHUNK / 64], 1 << (region % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        self.count += u64::from(is_new);
        is_new
    }
}

/// A pass over all keys.
pub(crate) struct Pass {
    pub(crate) walk: Defragmentation,
    pub(crate) probed: Probed,
    /// Bytes that were free at its begin.
    free_bytes: u64,
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
    /// A pass has ended without a gain; what was free at its begin. What it left is measured at the
    /// next look, and is no more than that: what became free meanwhile, it may have passed before.
    ended: Option<u64>,
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
        is_due
    }

    /// A look: so much is resident, so much in use. Whether a pass has begun; one that is under way
    /// takes as much time from now on as there is need for now.
    pub(crate) fn look(&mut self, resident_bytes: u64, used_bytes: u64, limits: Limits) -> bool {
        let free = resident_bytes.saturating_sub(used_bytes);
        let percent = free.saturating_mul(100) / used_bytes.max(1);
        if let Some(pass) = &mut self.pass {
            pass.share = limits.share(percent);
            return false;
        }
        if let Some(at_begin) = self.ended.take() {
            self.left_bytes = Some(free.min(at_begin));
        }
        self.left_bytes = self.left_bytes.map(|left| left.min(free));
        let is_new = self.left_bytes.is_none_or(|left| free > left + left / 8);
        if free <= limits.ignored_bytes || percent <= limits.lower_percent || !is_new {
            return false;
        }
        let (walk, probed) = (Defragmentation::default(), Probed::default());
        let (share, took) = (limits.share(percent), Duration::ZERO);
        self.pass = Some(Pass { walk, probed, free_bytes: free, share, took });
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
        let moved = pass.walk.moved.saturating_sub(pass.probed.count);
        let was_worth_it = moved * WORTH > pass.walk.looked;
        (self.ended, self.left_bytes) = ((!was_worth_it).then_some(pass.free_bytes), None);
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
    fn a_pass_follows_what_is_free_meanwhile() {
        let mut defrag = Defrag::default();
        assert!(defrag.look(112 * MB, 100 * MB, LIMITS));
        assert!(!defrag.look(200 * MB, 100 * MB, LIMITS), "one is under way");
        assert_eq!(defrag.took(Duration::from_millis(1)), Duration::from_millis(3));
        assert!(!defrag.look(101 * MB, 100 * MB, LIMITS));
        assert_eq!(defrag.took(Duration::from_millis(1)), Duration::from_millis(99));
    }

    #[test]
    fn a_region_is_new_once() {
        let (mut probed, at) = (Probed::default(), |at: usize| std::ptr::without_provenance(at));
        for (address, is_new) in
            [(0x1_0000, true), (0x1_ffff, false), (0x2_0000, true), (0x1_1001_0000, true)]
        {
            assert_eq!(probed.insert(at(address)), is_new, "{address:x}");
        }
        assert_eq!(probed.count, 3);
    }

    #[test]
    fn moves_that_only_ask_are_not_worth_another_pass() {
        let mut defrag = Defrag::default();
        assert!(defrag.look(150 * MB, 100 * MB, LIMITS));
        let pass = defrag.pass().expect("a pass");
        (pass.walk.looked, pass.walk.moved, pass.probed.count) = (100, 20, 19);
        defrag.end();
        assert!(!defrag.look(150 * MB, 100 * MB, LIMITS));
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
    fn what_became_free_during_a_pass_is_looked_for_by_another() {
        let mut defrag = Defrag::default();
        assert!(defrag.look(120 * MB, 100 * MB, LIMITS));
        defrag.pass().expect("a pass").walk.looked = 100;
        assert!(!defrag.look(120 * MB, 20 * MB, LIMITS), "it is under way");
        defrag.end();
        assert!(defrag.look(120 * MB, 20 * MB, LIMITS));
        defrag.pass().expect("a pass").walk.looked = 100;
        defrag.end();
        assert!(!defrag.look(120 * MB, 20 * MB, LIMITS), "it found nothing");
    }

    #[test]
    fn memory_is_looked_at_once_a_second() {
        let (mut defrag, now) = (Defrag::default(), Instant::now());
        assert!(defrag.is_due(now));
        assert!(!defrag.is_due(now + PERIOD / 2));
        assert!(defrag.is_due(now + PERIOD));
    }
}
