//! Refusals, for ACL LOG.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// One kind of refusal, and how often it came.
pub(crate) struct Entry {
    /// Refusals of this kind, each within a minute of the one before.
    pub(crate) count: u64,
    /// `command`, `key`, `channel` or `auth`.
    pub(crate) reason: &'static str,
    /// `toplevel` or `multi`.
    pub(crate) context: &'static str,
    /// The command, key or channel; [`SHOWN_BYTES_MAX`] of it at most.
    pub(crate) object: Vec<u8>,
    /// The user who was refused.
    pub(crate) user: Vec<u8>,
    /// The client at the last refusal.
    pub(crate) client: String,
    /// The time of the last refusal.
    pub(crate) at: Instant,
}

/// The newest refusals first.
#[derive(Default)]
pub(super) struct Log {
    /// See [`Log`].
    pub(super) entries: VecDeque<Entry>,
    /// How many were refused for each reason, whatever the log keeps.
    pub(super) counts: BTreeMap<&'static str, u64>,
}

/// Bytes kept of the name of a key, channel or user, which the refused client chooses.
const SHOWN_BYTES_MAX: usize = 1024;

impl Log {
    /// Notes a refusal: counts up an equal one of the last minute, if it is among the newest. Keeps
    /// at most `len_max`.
    pub(super) fn add(&mut self, mut new: Entry, len_max: usize) {
        const SAME: Duration = Duration::from_secs(60);
        const NEWEST: usize = 10;
        *self.counts.entry(new.reason).or_default() += 1;
        new.object.truncate(SHOWN_BYTES_MAX);
        new.user.truncate(SHOWN_BYTES_MAX);
        new.object.shrink_to_fit();
        new.user.shrink_to_fit();
        let alike = |old: &Entry| {
            (old.reason, old.context, &old.object, &old.user)
                == (new.reason, new.context, &new.object, &new.user)
                && new.at.saturating_duration_since(old.at) <= SAME
        };
        let known = self.entries.iter().take(NEWEST).position(alike);
        let count = known.and_then(|at| self.entries.remove(at)).map_or(0, |old| old.count);
        self.entries.push_front(Entry { count: count + 1, ..new });
        self.entries.truncate(len_max);
    }
}
