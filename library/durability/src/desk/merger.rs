//! The thread that merges chains, and what it shares with the desk.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::{Builder, JoinHandle};

use super::Desk;
use crate::caught::caught;
use crate::chain::Part;
use crate::error::Error;
use crate::merge::merge;
use crate::mutant::Mutant;
use crate::retention;

/// A thread that merges what the desk asks for, until dropped.
#[derive(Debug)]
pub(crate) struct Merger {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

impl Merger {
    /// Starts the thread, if the desk ever needs it.
    pub(crate) fn start(desk: &Arc<Desk>) -> Result<Option<Self>, Error> {
        if desk.manner.increments.is_none() {
            return Ok(None);
        }
        let theirs = Arc::clone(desk);
        let thread = Builder::new().name("merger".into()).spawn(move || {
            stillframe::os::lower_priority();
            while let Some(chain) = theirs.next_merge() {
                // A panic must not leave the desk waiting.
                let merge = || merge(&theirs.directory, &chain, &theirs.manner, &theirs.closing);
                theirs.merged(caught(merge).unwrap_or(Ok(None)));
            }
        });
        let thread = Some(thread.map_err(Error::Thread)?);
        Ok(Some(Self { desk: Arc::clone(desk), thread }))
    }
}

impl Drop for Merger {
    fn drop(&mut self) {
        {
            let _state = self.desk.lock();
            self.desk.closing.store(true, Ordering::Relaxed);
        }
        self.desk.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it catches its panics
        }
    }
}

impl Desk {
    /// Waits until no chain is being merged, nor to be.
    pub(crate) fn wait_merged(&self) {
        let mut state = self.lock();
        while (state.merging || state.merge.is_some()) && !self.closing.load(Ordering::Relaxed) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Asks for a merge of a chain that has become long; waits for it if it is far too long.
    pub(super) fn merge_if_long(&self) {
        let Some(most) = self.manner.increments else { return };
        let mut state = self.lock();
        if !most.are_many(&state.chain) {
            return;
        }
        if !state.merging {
            state.merge = Some(state.chain.clone());
            self.changed.notify_all();
        }
        let is_far_too_long = |chain: &[Part]| chain.len() > most.count_max.saturating_mul(2);
        if !is_far_too_long(&state.chain) {
            return;
        }
        drop(state);
        self.wait_merged();
        let mut state = self.lock();
        // Merges fail. Where a full checkpoint is no more than a checkpoint, the next one is full.
        if is_far_too_long(&state.chain) && !self.manner.native {
            state.chain.clear();
        }
    }

    /// The chain to merge next; `None` when there will be none.
    fn next_merge(&self) -> Option<Vec<Part>> {
        let mut state = self.lock();
        loop {
            if self.closing.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(chain) = state.merge.take() {
                state.merging = true;
                if self.directory.is(Mutant::ChainRemovedFirst) {
                    let newest = chain.last().map_or(0, |part| part.link.number);
                    let _ = retention::remove_below(&self.directory, newest);
                }
                return Some(chain);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A merge has ended: its file takes the place of its newest increment.
    fn merged(&self, merged: Result<Option<Part>, Error>) {
        let mut failed = None;
        match merged {
            Ok(None) => {}
            Ok(Some(full)) => {
                let mut state = self.lock();
                let at = state.chain.iter().position(|part| part.link == full.link);
                if let Some(at) = at {
                    state.chain.drain(..at);
                    state.chain[0] = full;
                }
                state.stats.merges += 1;
                drop(state);
                let remove = || self.remove_old(full.link.number).err();
                failed = caught(remove).flatten();
            }
            Err(error) => {
                if matches!(error, Error::Unmergeable { .. }) {
                    self.lock().chain.clear();
                }
                self.lock().stats.merge_failures += 1;
                failed = Some(error);
            }
        }
        let mut state = self.lock();
        state.merging = false;
        if let Some(error) = failed {
            state.stats.last_error = Some(error.to_string());
        }
        self.changed.notify_all();
    }
}
