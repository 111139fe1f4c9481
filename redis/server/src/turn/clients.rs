//! A turn's work on clients: sockets to requests, replies to sockets.
//!
//! - While a script runs for too long, it takes turns of its own ([`Meanwhile`]): they read
//!   requests, which are refused but for a few, and write replies. Nothing else of a turn happens:
//!   half of a script is no point of consistency, so no image begins, nothing goes to log or
//!   replicas, no key expires or is evicted, and no client that waits for a key is served.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use stillframe_keyspace::Keyspace;

use super::accept;
use super::queue::Queue;
use crate::commands::figures::{Seen, families};
use crate::commands::{Meanwhile, Table};
use crate::connections::client::{Client, SHARED_BYTES, Wire};
use crate::connections::io_threads::{IoThreads, News, Note};
use crate::connections::net::{Poller, Ready};
use crate::peers::group::Member;
use crate::state::ServerState;
use crate::turn::metrics::Metrics;

/// Replies of a client that wait for a record of the log, or a stamp of the group.
pub(super) struct Withheld {
    pub(super) record: u64,
    pub(super) place: usize,
}

/// The sockets, and what waits for their clients.
pub(crate) struct Sockets {
    pub(super) poller: Poller,
    pub(super) io_threads: IoThreads,
    pub(super) queue: Queue,
    /// Replies that wait for records, which rise.
    pub(super) withheld: VecDeque<Withheld>,
    /// The shared buffer for reading from clients without an unfinished request; empty while
    /// requests in it run.
    pub(super) shared: Box<[u8]>,
    /// Requests for figures from the metrics port.
    pub(super) metrics: Metrics,
    /// The events of the sockets, in a buffer kept from turn to turn.
    pub(super) ready: Vec<Ready>,
    /// Places of clients whose leader's address is being looked up.
    pub(super) looking: Vec<usize>,
    /// Events of the client whose script runs: for the next turn.
    missed: Vec<Ready>,
    /// Places of clients with replies from before the script that runs: they go out after it, once
    /// the log has what they acknowledge.
    held: Option<Vec<usize>>,
}

impl Sockets {
    pub(super) fn new(poller: Poller) -> Self {
        Self {
            poller,
            io_threads: IoThreads::default(),
            queue: Queue::default(),
            withheld: VecDeque::new(),
            shared: vec![0; SHARED_BYTES].into_boxed_slice(),
            metrics: Metrics::default(),
            ready: Vec::new(),
            looking: Vec::new(),
            missed: Vec::new(),
            held: None,
        }
    }

    /// The buffer for reading, to be put back; another one while a script has that in hand.
    pub(super) fn take_shared(&mut self) -> Box<[u8]> {
        let shared = std::mem::take(&mut self.shared);
        if shared.is_empty() { vec![0; SHARED_BYTES].into_boxed_slice() } else { shared }
    }

    /// Replies of a client wait for a record, which is one of the last.
    fn withhold(&mut self, record: u64, place: usize) {
        let at = self.withheld.partition_point(|it| it.record <= record);
        self.withheld.insert(at, Withheld { record, place });
    }

    /// Waits until sockets or I/O threads have something, or the time is over. While clients are
    /// not served, their input stays where it is.
    pub(super) fn wait(
        &mut self,
        timeout: Duration,
        are_served: bool,
        ready: &mut Vec<Ready>,
    ) -> io::Result<()> {
        if !are_served {
            return self.poller.wait(timeout, ready);
        }
        if self.io_threads.collect() {
            let is_spared = self.io_threads.spares_poll();
            return if is_spared { Ok(()) } else { self.poller.wait(Duration::ZERO, ready) };
        }
        let sleeps = !timeout.is_zero() && !self.io_threads.lie_down();
        let waited = self.poller.wait(if sleeps { timeout } else { Duration::ZERO }, ready);
        self.io_threads.get_up();
        self.io_threads.collect();
        waited.and_then(|()| self.io_threads.check())
    }

    /// Whether there is something to do before any socket has news.
    pub(super) fn has_work(&self) -> bool {
        self.queue.len() > 0 || !self.missed.is_empty() || self.io_threads.has_arrived()
    }
}

/// The server, for the work of a turn on its clients.
pub(crate) struct Turn<'a> {
    pub(crate) keyspace: &'a mut Keyspace,
    pub(crate) state: &'a mut ServerState,
    pub(super) table: &'a Table,
    pub(super) sockets: &'a mut Sockets,
}

impl Meanwhile for Sockets {
    fn serve_others(&mut self, keyspace: &mut Keyspace, state: &mut ServerState, table: &Table) {
        Turn { keyspace, state, table, sockets: self }.run_within_script();
    }

    fn hang_up(&mut self, server: &ServerState) {
        let ended = server.clients.closed().filter_map(|client| client.wire.remote());
        ended.for_each(|remote| self.io_threads.hang_up(remote));
        self.io_threads.hand();
    }
}

impl Turn<'_> {
    /// Serves the other clients while a script runs.
    fn run_within_script(&mut self) {
        if self.sockets.held.is_none() {
            // What has changed nothing waits for nothing. In a group `flush` holds back what tells
            // of the data.
            let is_free = self.state.group.member().is_some() || self.state.has_handed_on();
            let clients = &mut self.state.clients;
            self.sockets.held = Some(if is_free { Vec::new() } else { clients.take_flushing() });
        }
        self.state.clients.set_aside();
        let clock = self.state.clock.suspend();
        let mut ready = Vec::new();
        // An error will be there in the next turn of the loop, which reports it.
        if self.sockets.poller.wait(Duration::ZERO, &mut ready).is_ok() {
            ready.drain(..).for_each(|event| self.on_event(event));
        }
        self.sockets.io_threads.collect();
        self.note_news();
        self.serve_queue();
        self.flush();
        self.remove_closed();
        self.state.clock.resume(clock);
        self.state.clients.resume();
    }

    /// Notes the events of the sockets, those first that a script kept from its client.
    pub(super) fn on_events(&mut self, ready: &mut Vec<Ready>) {
        let missed = std::mem::take(&mut self.sockets.missed);
        missed.into_iter().chain(ready.drain(..)).for_each(|event| self.on_event(event));
        self.note_news();
    }

    /// Notes the news of connections of I/O threads.
    fn note_news(&mut self) {
        for Note { id, place, news } in self.sockets.io_threads.take_notes() {
            let Some(client) = self.state.clients.get_mut(place) else { continue };
            if client.session.caller.id != id {
                continue; // it has left
            }
            match news {
                News::Ended => client.ended = true,
                News::Drained => client.drained(),
                News::Failed => {
                    self.state.clients.close_later(place);
                    continue;
                }
            }
            self.sockets.queue.add(client);
            self.state.clients.flush_later(place);
        }
    }

    fn on_event(&mut self, event: Ready) {
        match event {
            Ready::Primary { .. } => {
                let following = self.state.replication.following_mut();
                if let Some(link) = following.and_then(|following| following.link_mut()) {
                    link.on_event(event);
                }
            }
            Ready::Listener(number) => {
                let Sockets { poller, io_threads, .. } = &mut *self.sockets;
                accept::all(self.state, poller, io_threads, number);
            }
            Ready::Woken => {
                let figures = || families(&Seen::new(self.keyspace, self.state, self.table));
                self.sockets.metrics.answer(figures);
            }
            Ready::Upstream { place, readable, writable } => {
                let Some(client) = self.state.clients.get_mut(place) else { return };
                if let Some(upstream) = &mut client.upstream {
                    upstream.note(readable, writable);
                    self.sockets.queue.add(client);
                }
            }
            Ready::Client { place, readable, writable, ended } => {
                let Some(client) = self.state.clients.get_mut(place) else {
                    if self.state.scripts.place() == Some(place) {
                        self.sockets.missed.push(event);
                    }
                    return;
                };
                client.readable |= readable;
                client.ended |= ended;
                if writable {
                    client.go_on();
                }
                if readable || ended {
                    self.sockets.queue.add(client);
                }
                self.state.clients.flush_later(place);
            }
        }
    }

    /// Writes the replies of this turn, once for each client.
    pub(crate) fn flush(&mut self) {
        let (awaited, in_group) = (self.state.awaited(), self.state.group.member().is_some());
        let mut unfinished = Vec::new();
        for place in self.state.clients.take_flushing() {
            let Some(client) = self.state.clients.get_mut(place) else { continue };
            if let Some(held) = &mut self.sockets.held
                && in_group
                && client.session.shows_data
            {
                held.push(place); // the group is asked at the end of the turn
                continue;
            }
            client.flushing = false;
            // What tells nothing of the data waits for no more than its turn, what tells of some
            // keys for what has changed these.
            let is_replica = !in_group && client.session.replica.is_some();
            let holds_all = self.state.group.member().is_some_and(Member::holds_all);
            let shows_data = std::mem::take(&mut client.session.shows_data) || holds_all;
            let awaited = match shows_data || is_replica {
                true => awaited,
                false if in_group => None,
                false => {
                    let last = self.state.ledger.effects.last_change(&client.session.reads);
                    self.state.storage.journal.awaited_up_to(last)
                }
            };
            client.session.reads.clear();
            if client.judge(awaited) {
                awaited.iter().for_each(|&record| self.sockets.withhold(record, place));
            }
            if !client.can_flush() {
                continue;
            }
            let written = match &client.wire {
                Wire::Local(_) => client.flush(),
                Wire::Remote(remote) => {
                    Ok(client.hand_over(self.sockets.io_threads.orders(remote)))
                }
            };
            self.state.meter.sent(*written.as_ref().unwrap_or(&0));
            let lost = match written {
                Ok(_) => client.session.closing && client.is_drained(),
                Err(_) => true,
            };
            if !lost && client.can_flush() {
                client.flushing = true;
                unfinished.push(place);
            }
            self.state.clients.weigh(place);
            let Some(client) = self.state.clients.get_mut(place) else { continue };
            if lost {
                self.state.clients.close_later(place);
            } else if client.servable() && (client.backlog || client.has_news()) {
                self.sockets.queue.add(client);
            }
        }
        self.state.clients.flush_on(unfinished);
        self.sockets.io_threads.hand();
    }

    /// Schedules a client's replies for the end of the turn, and its input for service.
    pub(crate) fn attend(&mut self, place: usize) {
        self.state.clients.flush_later(place);
        if let Some(client) = self.state.clients.get_mut(place) {
            self.sockets.queue.add(client);
        }
    }

    /// Removes the clients that are gone.
    pub(crate) fn remove_closed(&mut self) {
        while let Some(place) = self.state.clients.next_closed() {
            let Some(mut client) = self.state.clients.take(place) else { continue };
            tracing::debug!(
                "client {} at {} left",
                client.session.caller.id,
                client.session.caller.peer
            );
            self.state.meter.left(client.over_limit);
            self.state.ledger.watches.forget(client.session.caller.id);
            self.state.views.forget(client.session.branch, client.session.caller.id);
            self.state.hub.forget(&mut client.session, &mut self.state.ledger.events);
            self.state.ledger.waiters.leave(client.session.caller.id);
            self.state.replication.forget(place);
            match client.wire {
                Wire::Local(stream) => self.sockets.poller.remove_client(stream),
                Wire::Remote(remote) => self.sockets.io_threads.close(&remote),
            }
            self.state.clients.release(place);
        }
    }

    /// Gives each client with something to do its share of the turn.
    pub(crate) fn serve_share(&mut self) {
        for place in std::mem::take(&mut self.sockets.looking) {
            self.attend(place);
        }
        self.serve_queue();
        if let Some(held) = self.sockets.held.take() {
            self.state.clients.flush_on(held);
        }
    }

    fn serve_queue(&mut self) {
        for _ in 0..self.sockets.queue.len() {
            let Some(place) = self.sockets.queue.next() else { break };
            self.serve(place, None);
            if self.state.process.stops() {
                return;
            }
        }
        self.serve_arrived();
    }
}

impl Turn<'_> {
    /// Takes a client's connection back from its I/O thread, for a peer that this thread serves.
    pub(super) fn call_back(&mut self, client: &mut Client) {
        let Wire::Remote(remote) = &client.wire else { return };
        let Some(mut connection) = self.sockets.io_threads.call_back(remote) else {
            client.session.closing = true;
            return;
        };
        let place = client.session.caller.place;
        if let Err(error) = self.sockets.poller.add_client(&mut connection.stream, place) {
            tracing::warn!("cannot watch a connection: {error}");
            client.session.closing = true;
        }
        client.take_home(connection);
    }
}
