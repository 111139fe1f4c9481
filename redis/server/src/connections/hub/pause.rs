//! CLIENT PAUSE: requests wait until an operator, or the clock, lets them run.
//!
//! - A request that may not run is postponed, and its client is not served meanwhile.
//! - When the pause ends, postponed requests run first, in the clients' order of the registry.
//! - The data stands still meanwhile: expired keys are absent, but not deleted.

use std::time::{Duration, Instant};

use super::Hub;

/// A pause of clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pause {
    /// When it ends by itself.
    end: Instant,
    /// Only requests that write are postponed.
    writes_only: bool,
}

impl Hub {
    /// Postpones requests (those that write, or all) for a while.
    pub(crate) fn pause(&mut self, length: Duration, writes_only: bool) {
        let now = Instant::now();
        let end = now.checked_add(length).unwrap_or(now + Duration::from_secs(1 << 32));
        self.pause = Some(Pause { end, writes_only });
    }

    /// Ends the pause.
    pub(crate) fn unpause(&mut self) {
        self.pause = None;
    }

    /// Whether clients are paused.
    #[inline]
    pub(crate) fn is_paused(&self) -> bool {
        self.pause.is_some()
    }

    /// Whether the pause stops a request, which may write or not.
    pub(crate) fn pause_stops(&self, may_write: bool) -> bool {
        self.pause.is_some_and(|pause| may_write || !pause.writes_only)
    }

    /// Whether the time of the pause is over.
    pub(crate) fn pause_is_over(&self, now: Instant) -> bool {
        self.pause.is_some_and(|pause| pause.end <= now)
    }

    /// How long the pause still lasts.
    pub(crate) fn pause_left(&self) -> Option<Duration> {
        self.pause.map(|pause| pause.end.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_of_writes_stops_writes_alone() {
        let mut hub = Hub::default();
        assert!(!hub.is_paused() && !hub.pause_stops(true));
        hub.pause(Duration::from_secs(1000), true);
        assert!(hub.pause_stops(true) && !hub.pause_stops(false));
        hub.pause(Duration::from_secs(1000), false);
        assert!(hub.pause_stops(true) && hub.pause_stops(false));
        hub.unpause();
        assert!(!hub.is_paused() && hub.pause_left().is_none());
    }

    #[test]
    fn a_pause_is_over_when_its_time_has_come() {
        let (mut hub, now) = (Hub::default(), Instant::now());
        assert!(!hub.pause_is_over(now), "there is none");
        hub.pause(Duration::from_secs(1000), true);
        assert!(!hub.pause_is_over(now) && hub.pause_is_over(now + Duration::from_secs(2000)));
        hub.pause(Duration::MAX, true);
        assert!(!hub.pause_is_over(now + Duration::from_secs(2000)), "it lasts for ages");
    }
}
