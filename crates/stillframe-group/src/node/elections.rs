//! When this member does not ask for votes.
//!
//! A candidate that was refused because another member has a longer log waits, so that that one is
//! elected first. openraft would make it wait before its next election however long ago that was;
//! here the wait ends with the next leader.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openraft::Raft;
use stillframe_raft_net::Network;

use crate::types::Types;

#[derive(Clone)]
pub(super) struct Elections {
    pub(super) raft: Raft<Types>,
    /// It was let go from the group.
    is_over: Arc<AtomicBool>,
}

impl Elections {
    pub(super) fn new(raft: &Raft<Types>) -> Self {
        Self { raft: raft.clone(), is_over: Arc::default() }
    }

    /// This member was let go: it does not ask for votes any more.
    pub(super) fn end(&self, leader: u64) {
        self.is_over.store(true, Ordering::SeqCst);
        self.raft.runtime_config().elect(false);
        tracing::warn!(
            "this member was removed from its group by member {leader}: it serves nobody any more, \
             and can be stopped"
        );
    }

    /// Waits after refusals, until a leader is there or should have been long ago.
    pub(super) async fn stand_back(self, network: Network) {
        let mut refusals = network.refusals();
        // The lease of the last leader and an election of another member, which may be late.
        let longest = Duration::from_millis(3 * self.raft.config().election_timeout_max);
        while refusals.changed().await.is_ok() {
            self.raft.runtime_config().elect(false);
            let leads = |metrics: &super::Metrics| metrics.current_leader.is_some();
            let _ = self.raft.wait(Some(longest)).metrics(leads, "a leader").await;
            self.raft.runtime_config().elect(true);
            // It may have ended between the two: then it is the last who says so.
            if self.is_over.load(Ordering::SeqCst) {
                self.raft.runtime_config().elect(false);
            }
        }
    }
}
