//! What goes from the log: what is in an image and no member is about to need.
//!
//! openraft would let go of all but a number of entries behind the newest image, though members
//! need them. A member that gets an image while the next one is taken would find no log behind it,
//! and get an image again, and so on for as long as an image takes longer to send than to come.

use std::time::Duration;

use stillframe_openraft::LogStore;
use stillframe_server::consensus::Settings;
use tokio::time::{MissedTickBehavior, interval};

use super::{Metrics, Running, matched};
use crate::types::Types;

/// How often to look.
const LOOK: Duration = Duration::from_millis(500);
/// Nobody is waited for while the log has so many times the bytes after which an image is taken:
/// an image is quicker to send.
const TIMES_MAX: u64 = 2;

/// How much is kept.
pub(super) struct Bounds {
    log: LogStore<Types>,
    /// Entries kept behind an image.
    entries: u64,
    log_min_bytes: u64,
}

impl Bounds {
    pub(super) fn from_settings(settings: &Settings, log: LogStore<Types>) -> Self {
        Self { log, entries: settings.entries_kept, log_min_bytes: settings.log_min_bytes }
    }

    /// Whether the log may be kept for others, beside an image of so many bytes.
    fn have_room(&self, image: u64) -> bool {
        self.log.entry_bytes() <= TIMES_MAX.saturating_mul(self.log_min_bytes.max(image))
    }
}

impl Running {
    /// Lets go of the log as images come.
    pub(super) async fn purge(self, bounds: Bounds) {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let metrics = self.raft.metrics();
        loop {
            look.tick().await;
            let now = metrics.borrow().clone();
            if now.running_state.is_err() {
                return;
            }
            let needs = match bounds.have_room(self.newest.bytes()) {
                true => self.needs(&now),
                false => Vec::new(),
            };
            let purged = now.purged.map_or(0, |id| id.index);
            let upto = now.snapshot.and_then(|id| upto(id.index, bounds.entries, &needs, purged));
            if let Some(upto) = upto
                && self.raft.trigger().purge_log(upto).await.is_err()
            {
                return; // `watch` tells why
            }
        }
    }

    /// The last entries that others have: they need what follows.
    fn needs(&self, now: &Metrics) -> Vec<u64> {
        let lost = self.network.lost();
        let others = now.replication.iter().flat_map(|others| others.keys());
        let near = others.filter(|id| !lost.contains(id)).filter_map(|id| matched(now, *id));
        near.map(|id| id.index).chain(self.network.snapshots()).collect()
    }
}

/// The last entry that goes, if any does: not beyond `image` but for `kept` entries, nor beyond
/// what others have, but for those that lack what is gone already.
fn upto(image: u64, kept: u64, others: &[u64], purged: u64) -> Option<u64> {
    let needed = others.iter().copied().filter(|&has| has >= purged).min().unwrap_or(u64::MAX);
    let upto = image.saturating_sub(kept).min(needed);
    (upto > purged).then_some(upto)
}

#[cfg(test)]
mod tests {
    use super::upto;

    #[test]
    fn what_is_in_an_image_goes_but_for_what_others_need() {
        for (image, kept, others, purged, expected) in [
            (100, 0, vec![], 0, Some(100)),
            (100, 10, vec![], 0, Some(90)),
            (100, 10, vec![], 90, None),
            (5, 10, vec![], 0, None),
            // One lags, and one gets an image.
            (100, 10, vec![120, 50], 0, Some(50)),
            (100, 10, vec![50], 50, None),
            // It lacks what is gone: an image is what it needs.
            (100, 10, vec![120, 49], 50, Some(90)),
            (100, 10, vec![95], 50, Some(90)),
        ] {
            assert_eq!(upto(image, kept, &others, purged), expected, "{image} {kept} {others:?}");
        }
    }
}
