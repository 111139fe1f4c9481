//! The clients to serve in this turn or the next.

use std::collections::VecDeque;

use crate::connections::client::Client;

/// Clients with something to do, by their places.
#[derive(Default)]
pub(super) struct Queue {
    /// Clients to serve, in order.
    ready: VecDeque<usize>,
    /// Clients with requests that are postponed.
    postponed: Vec<usize>,
}

impl Queue {
    /// Adds a client, once however often it is added.
    pub(super) fn add(&mut self, client: &mut Client) {
        if !std::mem::replace(&mut client.queued, true) {
            self.ready.push_back(client.session.caller.place);
        }
    }

    /// The next client to serve.
    pub(super) fn next(&mut self) -> Option<usize> {
        self.ready.pop_front()
    }

    /// The number of clients to serve.
    pub(super) fn len(&self) -> usize {
        self.ready.len()
    }

    /// Remembers a client whose request is postponed.
    pub(super) fn postpone(&mut self, place: usize) {
        self.postponed.push(place);
    }

    /// Whether requests are postponed.
    pub(super) fn has_postponed(&self) -> bool {
        !self.postponed.is_empty()
    }

    /// The clients whose requests were postponed; some may be gone.
    pub(super) fn take_postponed(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.postponed)
    }
}
