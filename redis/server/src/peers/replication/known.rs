//! What is known of replicas by their addresses: which versions of files they read.
//!
//! - Redis announces no version. It cannot load an image of a later one, asks for the next at once,
//!   and skips the requests of the stream that it does not know.
//! - So an image of a later version is a trial: a replica that reports an offset afterwards has
//!   passed. One that asks again instead waits longer each time for another of that version.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use stillframe_rdb::Version;

/// Longest pause before the next image.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Addresses that are remembered.
const REPLICAS_MAX: usize = 1024;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Known {
    replicas: HashMap<String, Trials>,
}

/// What a replica made of images in later versions.
struct Trials {
    /// It gets one in this version.
    sent: Option<Version>,
    /// The latest version that it has loaded, and the first that it has not.
    loaded: Option<Version>,
    refused: Option<Version>,
    /// Images in a row that it did not load.
    failures: u32,
    /// When it gets the next one.
    next: Instant,
}

/// A replica that does not load its images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unable {
    pub(crate) address: String,
    pub(crate) version: Version,
    pub(crate) failures: u32,
    pub(crate) pause: Duration,
    /// No lower version holds the data.
    pub(crate) is_needed: bool,
}

impl Known {
    /// A replica gets an image in this version.
    pub(crate) fn note_sent(&mut self, address: &str, version: Version, now: Instant) {
        if self.replicas.len() >= REPLICAS_MAX && !self.replicas.contains_key(address) {
            self.replicas.clear();
        }
        let new = Trials { sent: None, loaded: None, refused: None, failures: 0, next: now };
        self.replicas.entry(address.to_owned()).or_insert(new).sent = Some(version);
    }

    /// A replica asks for an image. Returns what to tell if it did not load the one before. Where
    /// there are `arrays`, no version before theirs holds the data.
    pub(crate) fn note_asked(
        &mut self,
        address: &str,
        now: Instant,
        arrays: bool,
    ) -> Option<Unable> {
        let trials = self.replicas.get_mut(address)?;
        let version = trials.sent.take()?;
        trials.loaded = None;
        trials.refused = trials.refused.into_iter().chain([version]).min_by_key(|it| it.number());
        let address = address.to_owned();
        if !arrays && matches!(version, Version::Redis13 | Version::Redis14) {
            // It gets the data in a lower version at once.
            let (failures, pause) = (1, Duration::ZERO);
            return Some(Unable { address, version, failures, pause, is_needed: false });
        }
        let pause = Duration::from_secs(1 << trials.failures.min(10)).min(PAUSE_MAX);
        trials.failures = trials.failures.saturating_add(1);
        trials.next = now + pause;
        Some(Unable { address, version, failures: trials.failures, pause, is_needed: true })
    }

    /// A replica follows the stream behind such an image.
    pub(crate) fn note_loaded(&mut self, address: &str, now: Instant) {
        let Some(trials) = self.replicas.get_mut(address) else { return };
        let Some(version) = trials.sent.take() else { return };
        let loaded = trials.loaded.into_iter().chain([version]).max_by_key(|it| it.number());
        let refused = trials.refused.filter(|it| it.number() > version.number());
        *trials = Trials { sent: None, loaded, refused, failures: 0, next: now };
    }

    /// The latest version that a replica has loaded.
    pub(crate) fn loaded(&self, address: &str) -> Option<Version> {
        self.replicas.get(address)?.loaded
    }

    /// Whether a replica did not load an image in this version or an earlier one.
    pub(crate) fn has_refused(&self, address: &str, version: Version) -> bool {
        let refused = self.replicas.get(address).and_then(|it| it.refused);
        refused.is_some_and(|it| it.number() <= version.number())
    }

    /// Whether a replica may get an image in this version now.
    pub(crate) fn is_due(&self, address: &str, version: Version, now: Instant) -> bool {
        let is_due = self.replicas.get(address).is_none_or(|it| it.next <= now);
        is_due || !self.has_refused(address, version)
    }

    /// The replica that waits longest for its next image.
    pub(crate) fn unable(&self, now: Instant) -> Option<Unable> {
        let failed = self.replicas.iter().filter(|(_, it)| it.failures > 0 && it.sent.is_none());
        let (address, trials) = failed.max_by_key(|(address, it)| (it.failures, *address))?;
        let pause = trials.next.saturating_duration_since(now);
        let (address, failures) = (address.clone(), trials.failures);
        Some(Unable { address, version: trials.refused?, failures, pause, is_needed: true })
    }

    /// Nothing is known any more of those that could not load: no image needs a later version.
    pub(crate) fn forget_failures(&mut self) {
        self.replicas.retain(|_, it| it.loaded.is_some() && it.failures == 0);
    }
}

impl Unable {
    /// Why, and what helps.
    pub(crate) fn text(&self) -> String {
        let Self { address, failures, pause, .. } = self;
        let later = format!("Next image in {} s", pause.as_secs());
        let (what, next) = match self.version {
            Version::Redis14 if self.is_needed => {
                ("there are arrays here, which Redis before 8.8 cannot hold; upgrade it", later)
            }
            Version::Redis13 => (
                "messages of producers are known here, which Redis before 8.6 cannot hold",
                "It gets the data without them".to_owned(),
            ),
            Version::Redis14 => (
                "entries of streams are pending for nobody here, which Redis before 8.8 cannot \
                 hold",
                "It gets them as those of a consumer without a name".to_owned(),
            ),
            _ => (
                "fields of hashes expire here, which Redis before 7.4 cannot hold; upgrade it, or \
                 HPERSIST these fields",
                later,
            ),
        };
        format!(
            "the replica {address} does not load its image ({failures} in a row): {what}. {next}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_an_image_is_loaded() {
        let (mut known, now, version) = (Known::default(), Instant::now(), Version::Redis12);
        assert!(known.note_asked("a:1", now, false).is_none() && known.is_due("a:1", version, now));
        let mut pauses = Vec::new();
        for _ in 0..9 {
            known.note_sent("a:1", version, now);
            pauses.push(known.note_asked("a:1", now, false).expect("it failed").pause.as_secs());
            assert!(known.note_asked("a:1", now, false).is_none(), "it asks again while it waits");
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert!(!known.is_due("a:1", version, now));
        assert!(known.is_due("a:1", version, now + PAUSE_MAX));
        assert!(known.is_due("b:1", version, now) && known.loaded("a:1").is_none());
        assert_eq!(known.unable(now).expect("it waits").failures, 9);
        known.note_sent("a:1", version, now);
        known.note_loaded("a:1", now);
        assert!(known.loaded("a:1") == Some(version) && known.unable(now).is_none());
        known.note_sent("a:1", version, now);
        assert_eq!(
            known.note_asked("a:1", now, false).map(|it| it.failures),
            Some(1),
            "from the start"
        );
        known.forget_failures();
        assert!(known.unable(now).is_none() && known.is_due("a:1", version, now));
    }

    #[test]
    fn who_refuses_one_version_gets_a_lower_one_at_once() {
        let (mut known, now) = (Known::default(), Instant::now());
        let [lower, higher] = [Version::Redis12, Version::Redis13];
        known.note_sent("a:1", higher, now);
        let unable = known.note_asked("a:1", now, false).expect("it failed");
        assert!(unable.text().contains("before 8.6") && unable.text().contains("without them"));
        assert!(known.unable(now).is_none(), "it waits for nothing");
        assert!(known.has_refused("a:1", higher));
        assert!(!known.has_refused("a:1", lower) && known.is_due("a:1", lower, now));
        known.note_sent("a:1", lower, now);
        known.note_loaded("a:1", now);
        assert!(known.loaded("a:1") == Some(lower) && known.has_refused("a:1", higher));
        known.note_sent("a:1", lower, now);
        assert!(known.note_asked("a:1", now, false).is_some() && known.has_refused("a:1", higher));
        assert!(known.loaded("a:1").is_none() && !known.is_due("a:1", lower, now));
    }

    #[test]
    fn who_cannot_load_arrays_waits_for_the_next_image() {
        let (mut known, now) = (Known::default(), Instant::now());
        known.note_sent("a:1", Version::Redis14, now);
        let unable = known.note_asked("a:1", now, true).expect("it failed");
        assert!(unable.text().contains("arrays") && unable.text().contains("Next image in 1 s"));
        assert!(!known.is_due("a:1", Version::Redis14, now));
        assert_eq!(known.unable(now), Some(unable));
    }

    #[test]
    fn addresses_are_bounded() {
        let (mut known, now) = (Known::default(), Instant::now());
        (0..3 * REPLICAS_MAX).for_each(|n| known.note_sent(&n.to_string(), Version::Redis12, now));
        assert!(known.replicas.len() <= REPLICAS_MAX);
    }
}
