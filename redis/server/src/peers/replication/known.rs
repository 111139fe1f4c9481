//! What is known of replicas by their addresses: who reads fields of hashes that expire.
//!
//! - Redis announces no version. Before 7.4 it cannot load an image with such fields, asks for the
//!   next one at once, and skips the requests of the stream that it does not know.
//! - So an image with such fields is a trial: a replica that reports an offset afterwards has
//!   passed. One that asks again instead waits longer each time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Longest pause before the next image.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Addresses that are remembered.
const REPLICAS_MAX: usize = 1024;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Known {
    replicas: HashMap<String, Trial>,
}

/// What a replica made of images with fields that expire.
struct Trial {
    state: State,
    /// Images in a row that it did not load.
    failures: u32,
    /// When it gets the next one.
    next: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It gets one.
    Sent,
    /// It has loaded one.
    Passed,
    /// It did not load one.
    Failed,
}

/// A replica that does not load its images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unable {
    pub(crate) address: String,
    pub(crate) failures: u32,
    pub(crate) pause: Duration,
}

impl Known {
    /// A replica gets an image with fields that expire.
    pub(crate) fn note_sent(&mut self, address: &str, now: Instant) {
        if self.replicas.len() >= REPLICAS_MAX && !self.replicas.contains_key(address) {
            self.replicas.clear();
        }
        let new = Trial { state: State::Sent, failures: 0, next: now };
        self.replicas.entry(address.to_owned()).or_insert(new).state = State::Sent;
    }

    /// A replica asks for an image. Returns what to tell if it did not load the one before.
    pub(crate) fn note_asked(&mut self, address: &str, now: Instant) -> Option<Unable> {
        let trial = self.replicas.get_mut(address).filter(|it| it.state == State::Sent)?;
        trial.state = State::Failed;
        let pause = Duration::from_secs(1 << trial.failures.min(10)).min(PAUSE_MAX);
        trial.failures = trial.failures.saturating_add(1);
        trial.next = now + pause;
        Some(Unable { address: address.to_owned(), failures: trial.failures, pause })
    }

    /// A replica follows the stream behind such an image.
    pub(crate) fn note_loaded(&mut self, address: &str, now: Instant) {
        if let Some(trial) = self.replicas.get_mut(address) {
            *trial = Trial { state: State::Passed, failures: 0, next: now };
        }
    }

    /// Whether a replica has loaded the last such image that it got.
    pub(crate) fn reads_fields(&self, address: &str) -> bool {
        self.replicas.get(address).is_some_and(|it| it.state == State::Passed)
    }

    /// Whether a replica may get an image with such fields now.
    pub(crate) fn is_due(&self, address: &str, now: Instant) -> bool {
        self.replicas.get(address).is_none_or(|it| it.next <= now)
    }

    /// The replica that waits longest for its next image.
    pub(crate) fn unable(&self, now: Instant) -> Option<Unable> {
        let failed = self.replicas.iter().filter(|(_, it)| it.state == State::Failed);
        let (address, trial) = failed.max_by_key(|(address, it)| (it.failures, *address))?;
        let pause = trial.next.saturating_duration_since(now);
        Some(Unable { address: address.clone(), failures: trial.failures, pause })
    }

    /// Nothing is known any more: no field expires.
    pub(crate) fn forget_failures(&mut self) {
        self.replicas.retain(|_, it| it.state == State::Passed);
    }
}

impl Unable {
    /// Why, and what helps.
    pub(crate) fn text(&self) -> String {
        let Self { address, failures, pause } = self;
        format!(
            "the replica {address} does not load its image ({failures} in a row): fields of \
             hashes expire here, which Redis before 7.4 cannot hold; upgrade it, or HPERSIST \
             these fields. Next image in {} s",
            pause.as_secs()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_an_image_is_loaded() {
        let (mut known, now) = (Known::default(), Instant::now());
        assert!(known.note_asked("a:1", now).is_none() && known.is_due("a:1", now));
        let mut pauses = Vec::new();
        for _ in 0..9 {
            known.note_sent("a:1", now);
            pauses.push(known.note_asked("a:1", now).expect("it failed").pause.as_secs());
            assert!(known.note_asked("a:1", now).is_none(), "it asks again while it waits");
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert!(!known.is_due("a:1", now) && known.is_due("a:1", now + PAUSE_MAX));
        assert!(known.is_due("b:1", now) && !known.reads_fields("a:1"));
        assert_eq!(known.unable(now).expect("it waits").failures, 9);
        known.note_sent("a:1", now);
        known.note_loaded("a:1", now);
        assert!(known.reads_fields("a:1") && known.unable(now).is_none());
        known.note_sent("a:1", now);
        assert_eq!(known.note_asked("a:1", now).map(|it| it.failures), Some(1), "from the start");
        known.forget_failures();
        assert!(known.unable(now).is_none() && known.is_due("a:1", now));
    }

    #[test]
    fn addresses_are_bounded() {
        let (mut known, now) = (Known::default(), Instant::now());
        (0..3 * REPLICAS_MAX).for_each(|n| known.note_sent(&n.to_string(), now));
        assert!(known.replicas.len() <= REPLICAS_MAX);
    }
}
