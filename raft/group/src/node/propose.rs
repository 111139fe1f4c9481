//! What the loop proposes, on its way to openraft.
//!
//! openraft takes all that it is given before it looks at its clock, and syncs the log for each
//! entry. So it is given little at once: else a leader with much to write would be silent.

use std::sync::Arc;

use openraft::error::ClientWriteError;
use openraft::raft::ClientWriteResponse;
use stillframe_raft_net::Member;
use stillframe_server::consensus::{Batch, Event};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc as channel, oneshot};

use super::Running;
use crate::types::{Types, Wire};

/// Bytes that openraft is given before it has answered.
const BYTES_MAX: usize = 256 << 10;
/// A batch counts as so many at least: it costs a sync, too.
const BATCH_BYTES_MIN: usize = 2 << 10;

/// Batches of the loop that openraft was not given yet. Their bytes are at most those of one unit
/// above those of all batches in flight, which the loop bounds.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Queued {
    pub(super) batches: usize,
    pub(super) bytes: usize,
}

impl Queued {
    pub(super) fn add(&mut self, batch: &Batch) {
        (self.batches, self.bytes) = (self.batches + 1, self.bytes + batch.units.len());
    }

    fn remove(&mut self, bytes: usize) {
        (self.batches, self.bytes) = (self.batches - 1, self.bytes - bytes);
    }
}

/// The share of a batch of the bytes that are under way.
fn share(batch: &Batch) -> u32 {
    batch.units.len().clamp(BATCH_BYTES_MIN, BYTES_MAX) as u32
}

/// What openraft was given.
struct Proposed {
    share: OwnedSemaphorePermit,
    term: u64,
    outcome: Outcome,
}

/// What openraft answers.
type Outcome = oneshot::Receiver<Result<ClientWriteResponse<Types>, ClientWriteError<u64, Member>>>;

impl Running {
    /// Proposes batches, one after the other. The entries that come back say what became of them.
    pub(super) async fn propose(self, mut batches: channel::UnboundedReceiver<Batch>) {
        let room = Arc::new(Semaphore::new(BYTES_MAX));
        let (outcomes, heard) = channel::unbounded_channel();
        tokio::spawn(self.clone().await_outcomes(heard));
        while let Some(batch) = batches.recv().await {
            let share = Arc::clone(&room).acquire_many_owned(share(&batch)).await;
            let Ok(share) = share else { return }; // it is never closed
            let (term, bytes) = (batch.reign.term, batch.units.len());
            // Who does not lead proposes in vain, which the entries that follow show.
            match self.raft.client_write_ff(Wire::from(batch)).await {
                // The task that hears of it lives as long as this one.
                Ok(outcome) => drop(outcomes.send(Proposed { share, term, outcome })),
                Err(error) => return self.events.send(Event::Failed(error.to_string())),
            }
            self.queued.send_modify(|queued| queued.remove(bytes));
        }
    }

    /// Gives back the shares of batches that openraft has answered, or never will: it forgets those
    /// of a reign that is over if an image takes their place.
    async fn await_outcomes(self, mut proposed: channel::UnboundedReceiver<Proposed>) {
        let mut metrics = self.raft.metrics();
        while let Some(Proposed { share, term, outcome }) = proposed.recv().await {
            tokio::select! {
                _ = outcome => {}
                _ = metrics.wait_for(|now| now.current_term > term) => {}
            }
            drop(share);
        }
    }
}
