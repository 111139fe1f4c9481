//! Snapshots on their way to other nodes: how fast they go, and which they are.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// A snapshot of which nothing was sent for so long is no longer on its way. One that has arrived
/// is for so long, too: the node that has it needs the log behind it.
const REST: Duration = Duration::from_secs(10);

/// The snapshots of a node.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Bytes a second.
    rate: Option<NonZeroU64>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// When all that was let go so far is due.
    due: Option<Instant>,
    /// The last one to each node.
    last: BTreeMap<u64, Sent>,
}

#[derive(Debug)]
struct Sent {
    /// The index of the last entry in it.
    index: u64,
    /// Chunks that are not answered.
    under_way: u32,
    /// When the last was sent, answered or given up.
    at: Instant,
}

/// A chunk that is on its way as long as this lives.
pub(crate) struct Chunk<'o> {
    outgoing: &'o Outgoing,
    node: u64,
}

impl Outgoing {
    /// That many bytes a second go to all nodes together; `None`: as fast as they can.
    pub(crate) fn new(rate: Option<NonZeroU64>) -> Self {
        Self { rate, inner: Mutex::default() }
    }

    /// Waits until a chunk of `bytes` may go to `node`, of a snapshot up to entry `index`. Who
    /// gives up waiting has used its turn.
    pub(crate) async fn chunk(&self, node: u64, index: u64, bytes: usize) -> Chunk<'_> {
        let begins = {
            let mut inner = self.lock();
            let now = Instant::now();
            let under_way = inner.last.get(&node).map_or(0, |sent| sent.under_way) + 1;
            inner.last.insert(node, Sent { index, under_way, at: now });
            // Time in which nothing was sent is not made up for.
            let begins = inner.due.map_or(now, |due| due.max(now));
            let rate = self.rate.map_or(f64::INFINITY, |rate| rate.get() as f64);
            inner.due = Some(begins + Duration::from_secs_f64(bytes as f64 / rate));
            begins
        };
        let chunk = Chunk { outgoing: self, node };
        sleep_until(begins).await;
        chunk
    }

    /// The last entries of the snapshots on their way, or arrived a moment ago.
    pub(crate) fn indices(&self) -> Vec<u64> {
        let mut inner = self.lock();
        inner.last.retain(|_, sent| sent.under_way > 0 || sent.at.elapsed() < REST);
        inner.last.values().map(|sent| sent.index).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Taken though poisoned: it is whole between statements.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Chunk<'_> {
    fn drop(&mut self) {
        if let Some(sent) = self.outgoing.lock().last.get_mut(&self.node) {
            (sent.under_way, sent.at) = (sent.under_way - 1, Instant::now());
        }
    }
}
