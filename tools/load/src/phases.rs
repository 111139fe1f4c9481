//! When saves and full syncs ran, as far as the polls show.
//!
//! The side connection polls INFO. A poll's reply holds up to the time at which the poll was sent
//! ([`Phases::known_until`]); queries intended later wait for their phase.
//! - A save that the measurement asks for starts [`LEAD`] before BGSAVE is sent: queries on
//!   their way meet it. A rewrite of the log that it asks for starts so, too.
//! - A save that the server begins by itself, and a full sync, start when the last poll that did
//!   not see it was sent.
//! - Both end when the reply that shows the end was received.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

/// BGSAVE may hold up requests under way: those intended within this time before it count as
/// saving.
pub(crate) const LEAD: u64 = 1_000_000;

/// What the server was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Neither of the others.
    Normal,
    /// A background save.
    Saving,
    /// A full sync of a replica.
    Syncing,
    /// The log is rewritten.
    Rewriting,
}

impl Phase {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 4] = [Self::Normal, Self::Saving, Self::Syncing, Self::Rewriting];
    /// The phase in a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Saving => "saving",
            Self::Syncing => "syncing",
            Self::Rewriting => "rewriting",
        }
    }
}

/// A save or sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Stretch {
    /// Nanoseconds since the start of the measurement.
    pub from_ns: u64,
    /// The same; `None` if it had not ended when the measurement did.
    pub to_ns: Option<u64>,
    /// Whether the measurement asked for it.
    pub asked: bool,
}

impl Stretch {
    fn holds(&self, time: u64) -> bool {
        self.from_ns <= time && self.to_ns.is_none_or(|to| time < to)
    }
}

/// Saves, syncs and rewrites of the log, each in order and apart from each other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stretches {
    pub(crate) saves: Vec<Stretch>,
    pub(crate) syncs: Vec<Stretch>,
    pub(crate) rewrites: Vec<Stretch>,
}

impl Stretches {
    /// A full sync or a rewrite may need a save of its own: then the phase is theirs.
    pub(crate) fn phase(&self, time: u64) -> Phase {
        let within = |all: &[Stretch]| {
            let after = all.partition_point(|stretch| stretch.from_ns <= time);
            all[..after].last().is_some_and(|stretch| stretch.holds(time))
        };
        match () {
            () if within(&self.syncs) => Phase::Syncing,
            () if within(&self.rewrites) => Phase::Rewriting,
            () if within(&self.saves) => Phase::Saving,
            () => Phase::Normal,
        }
    }
}

/// Stretches as they become known, for all threads.
#[derive(Debug, Default)]
pub(crate) struct Phases {
    stretches: Mutex<Stretches>,
    known_until: AtomicU64,
}

impl Phases {
    /// The phase of every query intended before this time is known.
    pub(crate) fn known_until(&self) -> u64 {
        // Pairs with the store in `know`: a thread that sees the time sees the stretches before it.
        self.known_until.load(Ordering::Acquire)
    }
    /// The stretches known so far.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&Stretches) -> R) -> R {
        look(&self.stretches.lock().unwrap_or_else(PoisonError::into_inner))
    }
    /// Changes what is known, which then holds until `time`.
    pub(crate) fn know(&self, time: u64, change: impl FnOnce(&mut Stretches)) {
        change(&mut self.stretches.lock().unwrap_or_else(PoisonError::into_inner));
        self.known_until.store(time, Ordering::Release);
    }
}

/// One kind of stretch as polls see it.
pub(crate) fn see(stretches: &mut Vec<Stretch>, runs: bool, last_quiet: u64, answered: u64) {
    let open = stretches.last_mut().filter(|stretch| stretch.to_ns.is_none());
    match (open, runs) {
        (Some(stretch), false) => stretch.to_ns = Some(answered),
        (None, true) => {
            // Stretches stay apart even if one ended between the two polls.
            let ended = stretches.last().and_then(|stretch| stretch.to_ns).unwrap_or(0);
            let from_ns = last_quiet.max(ended);
            stretches.push(Stretch { from_ns, to_ns: None, asked: false });
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_belongs_to_the_phase_of_its_intended_time() {
        let mut stretches = Stretches::default();
        stretches.saves.push(Stretch { from_ns: 100, to_ns: Some(200), asked: true });
        stretches.saves.push(Stretch { from_ns: 300, to_ns: None, asked: true });
        stretches.syncs.push(Stretch { from_ns: 350, to_ns: Some(400), asked: false });
        stretches.rewrites.push(Stretch { from_ns: 390, to_ns: Some(410), asked: true });
        let expected = [
            (0, Phase::Normal),
            (99, Phase::Normal),
            (100, Phase::Saving),
            (199, Phase::Saving),
            (200, Phase::Normal),
            (300, Phase::Saving),
            (350, Phase::Syncing),
            (400, Phase::Rewriting),
            (410, Phase::Saving),
            (u64::MAX, Phase::Saving),
        ];
        for (time, phase) in expected {
            assert_eq!(stretches.phase(time), phase, "{time}");
        }
    }

    #[test]
    fn polls_bound_what_the_server_began_by_itself() {
        let mut saves = Vec::new();
        see(&mut saves, false, 0, 10);
        see(&mut saves, true, 10, 20);
        see(&mut saves, true, 10, 30);
        assert_eq!(saves, [Stretch { from_ns: 10, to_ns: None, asked: false }]);
        see(&mut saves, false, 10, 40);
        see(&mut saves, true, 35, 50);
        assert_eq!(saves[0].to_ns, Some(40));
        assert_eq!(saves[1].from_ns, 40, "the second starts no earlier than the first ended");
    }
}
