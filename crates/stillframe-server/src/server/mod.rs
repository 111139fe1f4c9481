//! The event loop: the one thread that runs commands.
//!
//! A turn: wait for sockets; read once from each client that has something; run its requests; at
//! the end of the turn log their effects and write each client's replies once; then tend the
//! keyspace and the saves, which costs nothing when idle.
//!
//! - In the common case a request costs one `read` and one `write`, shared by all requests that
//!   arrived together.
//! - One client's share of a turn is bounded; with more to do, it queues behind the others.
//! - Nothing here waits for the snapshotter or for a disk, except SAVE and the end.

mod accept;
mod ahead;
pub(crate) mod cron;
mod queue;
pub(crate) mod requests;
mod serve_waiters;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use stillframe_durability::Policy;
use stillframe_keyspace::Keyspace;

use self::queue::Queue;
use crate::client::SHARED_BYTES;
use crate::commands::Table;
use crate::commands::figures::{Seen, families};
use crate::hub::Delivery;
use crate::metrics::Metrics;
use crate::net::{Poller, Ready};
use crate::process::shutdown;
use crate::replay::{Host, Parts};
use crate::replication::{self, Follower, transfer};
use crate::state::ServerState;
use crate::{ServeError, journal, memory, persistence};

/// The reply to requests that may be lost with a log that was to end.
const LOG_ENDED: &str = "MISCONF The log could not be ended: what was asked last may not be in it.";

/// The server's parts.
pub(crate) struct Server {
    pub(crate) keyspace: Keyspace,
    pub(crate) state: ServerState,
    table: Table,
    poller: Poller,
    queue: Queue,
    /// Records that replies wait for, with the clients: rising.
    withheld: VecDeque<(u64, usize)>,
    /// The shared buffer for reading from clients without an unfinished request.
    shared: Box<[u8]>,
    /// The disk of the log is so slow that the server serves no client.
    stalled: bool,
    /// The keyspace has housekeeping left for the next turn.
    tending: bool,
    next_cron: Instant,
    /// When all clients are checked next.
    next_client_check: Instant,
    /// Requests for figures from the metrics port.
    metrics: Metrics,
    /// The events of the sockets, in a buffer kept from turn to turn.
    ready: Vec<Ready>,
}

impl Server {
    /// Puts the parts together.
    pub(crate) fn new(
        keyspace: Keyspace,
        state: ServerState,
        table: Table,
        poller: Poller,
    ) -> Self {
        let mut keyspace = keyspace;
        keyspace.keep_expired(state.ledger.wants_expired());
        Self {
            keyspace,
            state,
            table,
            poller,
            queue: Queue::default(),
            withheld: VecDeque::new(),
            shared: vec![0; SHARED_BYTES].into_boxed_slice(),
            stalled: false,
            tending: false,
            next_cron: Instant::now(),
            next_client_check: Instant::now(),
            metrics: Metrics::default(),
            ready: Vec::new(),
        }
    }

    /// From now on answers those who want to know the figures.
    pub(crate) fn answer_to(&mut self, metrics: Metrics) {
        self.metrics = metrics;
    }

    /// Serves until a signal or SHUTDOWN stops the server.
    pub(crate) fn run(&mut self) -> Result<(), ServeError> {
        while !self.state.process.stops() {
            self.hear(self.timeout())?;
            self.finish_turn();
        }
        match journal::close(&mut self.keyspace, &mut self.state) {
            Ok(()) => self.release(u64::MAX),
            Err(_) => self.fail_withheld(),
        }
        replication::feed(&mut self.state);
        self.flush();
        Ok(())
    }

    /// The rest of a turn, after the events of the sockets are noted.
    pub(crate) fn finish_turn(&mut self) {
        if self.state.memory.evicts() {
            memory::make_room(&mut self.keyspace, &mut self.state);
        }
        self.stalled = self.state.storage.journal.lags(self.state.clock.turn());
        if !self.stalled {
            self.serve_share();
        }
        if !self.state.process.stops() {
            let Self { keyspace, state, table, poller, .. } = self;
            // Otherwise the saved image is the last state.
            Follower { keyspace, state, table, poller }.follow();
        }
        if self.state.ledger.waiters.has_ready() {
            self.serve_blocked(); // a replica that takes writes has clients that wait, too
        }
        replication::answer_waits(&mut self.state);
        shutdown::attend(&mut self.keyspace, &mut self.state);
        self.attend_woken();
        self.state.hub.broadcast_changes(&mut Delivery::new(
            &mut self.state.clients,
            &self.state.config,
            &self.state.clock,
        ));
        persistence::attend_log(&mut self.keyspace, &mut self.state);
        self.hand_on();
        self.flush();
        replication::feed(&mut self.state);
        replication::attend_failover(&mut self.keyspace, &mut self.state);
        self.tending = self.keyspace.tend();
        persistence::attend(&mut self.keyspace, &mut self.state);
        transfer::attend(&mut self.keyspace, &mut self.state);
        replication::relay(&mut self.state, &self.poller);
        if !self.state.process.stops() && self.state.clock.turn() >= self.next_cron {
            self.next_cron = cron::run(self);
        }
        self.bury();
        let closed = self.state.clients.close_largest(&self.state.config);
        self.state.meter.evicted_clients(closed);
        self.bury();
    }

    /// Begins a turn: waits for sockets, for so long at most, and notes their events.
    pub(crate) fn hear(&mut self, timeout: Duration) -> Result<(), ServeError> {
        let mut ready = std::mem::take(&mut self.ready);
        self.poller.wait(timeout, &mut ready).map_err(ServeError::Events)?;
        self.state.clock.begin_turn();
        self.heard(&mut ready);
        self.ready = ready;
        Ok(())
    }

    /// Notes the events of the sockets at the beginning of a turn, after the clocks were read.
    pub(crate) fn heard(&mut self, ready: &mut Vec<Ready>) {
        self.end_pause();
        self.time_out_blocked(self.state.clock.turn());
        let since = self.state.clock.turn().saturating_duration_since(self.state.clock.started());
        self.keyspace.set_clock(since.as_millis() as u64);
        ready.drain(..).for_each(|event| self.on_event(event));
    }

    /// Gives each client with something to do its share of the turn.
    pub(crate) fn serve_share(&mut self) {
        for _ in 0..self.queue.len() {
            let Some(place) = self.queue.next() else { break };
            self.serve(place);
            if self.state.process.stops() {
                break;
            }
        }
    }

    /// Propagates the effects of this turn, and releases the replies that waited for the log; if
    /// the log has failed, ends the connections whose requests are in doubt.
    fn hand_on(&mut self) {
        journal::hand_on(&mut self.keyspace, &mut self.state);
        self.release(self.state.storage.journal.durable());
        let ServerState { storage, ledger, .. } = &mut self.state;
        if storage.journal.has_failed(&mut self.keyspace, ledger) {
            self.fail_withheld();
        }
    }

    /// Ends the connections whose replies wait for a failed log: their writes will never be on the
    /// disk.
    fn fail_withheld(&mut self) {
        let mut doubted: Vec<usize> = self.withheld.drain(..).map(|(_, place)| place).collect();
        if self.state.config.appendfsync == Policy::Always {
            doubted.extend(self.state.clients.flushing()); // the replies of this turn
        }
        let error =
            self.state.storage.writes_refused(&self.state.config).unwrap_or(LOG_ENDED.into());
        for place in doubted {
            let Some(client) = self.state.clients.get_mut(place) else { continue };
            client.judge(Some(u64::MAX));
            client.fail_withheld(error.as_bytes());
            self.state.clients.flush_later(place);
        }
    }

    /// Schedules the replies that waited for records up to `durable`.
    fn release(&mut self, durable: u64) {
        while let Some(&(record, place)) = self.withheld.front()
            && record <= durable
        {
            self.withheld.pop_front();
            let Some(client) = self.state.clients.get_mut(place) else { continue };
            client.release(durable);
            self.state.clients.flush_later(place);
        }
    }

    /// How long the loop may sleep.
    fn timeout(&self) -> Duration {
        if self.stalled {
            return Duration::from_millis(1);
        }
        if self.queue.len() > 0 || self.queue.has_postponed() && !self.state.postpones() {
            return Duration::ZERO;
        }
        let unwritten = !self.state.clients.flushing().is_empty();
        if self.state.memory.evicts() || unwritten || self.state.replication.is_busy() {
            return Duration::ZERO;
        }
        let next = self
            .state
            .ledger
            .waiters
            .next_deadline()
            .map_or(self.next_cron, |deadline| deadline.min(self.next_cron));
        let rest = next.saturating_duration_since(Instant::now());
        let rest = self.state.hub.pause_left().map_or(rest, |left| rest.min(left));
        if self.tending {
            Duration::ZERO
        } else if self.state.storage.saves.ends_soon()
            || self.state.replication.transfer_ends_soon()
        {
            rest.min(Duration::from_millis(1))
        } else {
            rest
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
            Ready::Listener(number) => accept::all(&mut self.state, &self.poller, number),
            Ready::Woken => {
                let figures = || families(&Seen::of(&self.keyspace, &self.state, &self.table));
                self.metrics.answer(figures);
            }
            Ready::Client { place, readable, writable, ended } => {
                let Some(client) = self.state.clients.get_mut(place) else { return };
                client.readable |= readable;
                client.ended |= ended;
                if writable {
                    client.go_on();
                }
                if readable || ended {
                    self.queue.add(client);
                }
                self.state.clients.flush_later(place);
            }
        }
    }

    /// Writes the replies of this turn, once for each client.
    pub(crate) fn flush(&mut self) {
        let awaited = self.state.storage.journal.awaited();
        let mut unfinished = Vec::new();
        for place in self.state.clients.take_flushing() {
            let Some(client) = self.state.clients.get_mut(place) else { continue };
            client.flushing = false;
            if client.judge(awaited) {
                self.withheld.extend(awaited.map(|record| (record, place)));
            }
            if !client.can_flush() {
                continue;
            }
            let written = client.flush();
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
                self.state.clients.doom(place);
            } else if client.servable() && (client.backlog || client.readable) {
                self.queue.add(client);
            }
        }
        self.state.clients.flush_on(unfinished);
    }

    /// Schedules a client's replies for the end of the turn, and its input for service.
    pub(crate) fn attend(&mut self, place: usize) {
        self.state.clients.flush_later(place);
        if let Some(client) = self.state.clients.get_mut(place) {
            self.queue.add(client);
        }
    }

    /// Removes the clients that are gone.
    pub(crate) fn bury(&mut self) {
        while let Some(place) = self.state.clients.next_doomed() {
            let Some(mut client) = self.state.clients.take(place) else { continue };
            tracing::debug!(
                "client {} at {} left",
                client.session.caller.id,
                client.session.caller.peer
            );
            self.state.ledger.watches.forget(client.session.caller.id);
            self.state.hub.forget(&mut client.session, &mut self.state.ledger.events);
            self.state.ledger.waiters.leave(client.session.caller.id);
            self.state.replication.forget(place);
            self.poller.remove_client(client.stream);
            self.state.clients.release(place);
        }
    }

    /// Schedules postponed requests once nothing postpones them any more.
    pub(crate) fn end_pause(&mut self) {
        if self.state.hub.pause_is_over(self.state.clock.turn()) {
            self.state.unpause(&mut self.keyspace);
        }
        if self.state.postpones() || !self.queue.has_postponed() {
            return;
        }
        for place in self.queue.take_postponed() {
            if let Some(client) = self.state.clients.get_mut(place) {
                self.queue.add(client);
            }
        }
    }
}

impl Host for Server {
    fn parts(&mut self) -> Parts<'_> {
        (&mut self.keyspace, &mut self.state, &self.table)
    }

    fn turn(&mut self, patience: Duration) -> Result<bool, ServeError> {
        self.hear(patience)?;
        self.serve_share();
        self.state.hub.broadcast_changes(&mut Delivery::new(
            &mut self.state.clients,
            &self.state.config,
            &self.state.clock,
        ));
        self.flush();
        cron::attend_clients(self);
        self.bury();
        Ok(!self.state.process.stops() && !self.state.process.signals.is_asked())
    }
}
