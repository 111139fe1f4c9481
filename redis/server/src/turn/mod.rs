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

pub(crate) mod accept;
mod ahead;
mod clients;
pub(crate) mod cron;
mod forward;
mod grouped;
pub(crate) mod metrics;
mod paced;
mod queue;
mod replica;
pub(crate) mod requests;
#[cfg(test)]
mod roles_tests;
mod serve_waiters;

use std::time::{Duration, Instant};

use stillframe_durability::Policy;
use stillframe_keyspace::Keyspace;
use stillframe_storage::dump::StreamPoint;
use stillframe_storage::replay::{ReplayError, Replays};
use stillframe_storage::{Host, Parts};

use self::clients::{Sockets, Turn, Withheld};
use self::serve_waiters::takes_writes;
use crate::commands::{Alone, Replay, Table};
use crate::connections::client::Client;
use crate::connections::io_threads::IoThreads;
use crate::connections::net::{Poller, Ready};
use metrics::Metrics;
use paced::Paced;
use replica::Follower;

use crate::ServeError;
use crate::state::ServerState;
use crate::state::{eviction, persistence, primary, roles, shutdown};

/// The reply to requests that may be lost with a log that was to end.
const LOG_ENDED: &str = "MISCONF The log could not be ended: what was asked last may not be in it.";

/// The server's parts.
pub(crate) struct Server {
    /// Before the keyspace, which waits for the image.
    paced: Option<Paced>,
    pub(crate) keyspace: Keyspace,
    pub(crate) state: ServerState,
    table: Table,
    sockets: Sockets,
    /// The disk of the log is so slow that the server serves no client.
    stalled: bool,
    /// The keyspace has housekeeping left for the next turn.
    tending: bool,
    next_cron: Instant,
    /// When all clients are checked next.
    next_client_check: Instant,
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
            paced: None,
            keyspace,
            state,
            table,
            sockets: Sockets::new(poller),
            stalled: false,
            tending: false,
            next_cron: Instant::now(),
            next_client_check: Instant::now(),
        }
    }

    /// What serves clients in a turn.
    pub(crate) fn at_turn(&mut self) -> Turn<'_> {
        let Self { keyspace, state, table, sockets, .. } = self;
        Turn { keyspace, state, table, sockets }
    }

    /// From now on so many threads read and write the sockets of clients.
    pub(crate) fn start_io_threads(&mut self, count: usize) -> std::io::Result<()> {
        let waker = self.sockets.poller.waker();
        self.sockets.io_threads = IoThreads::start(count, waker)?;
        Ok(())
    }

    /// From now on answers those who want to know the figures.
    pub(crate) fn answer_to(&mut self, metrics: Metrics) {
        self.sockets.metrics = metrics;
    }

    /// Serves until a signal or SHUTDOWN stops the server.
    pub(crate) fn run(&mut self) -> Result<(), ServeError> {
        while !self.state.process.stops() {
            self.take_turn(self.timeout())?;
            self.state.meter.turned(self.state.clock.turn().elapsed());
        }
        self.leave_group();
        match persistence::end_log(&mut self.keyspace, &mut self.state) {
            Ok(()) => self.release(u64::MAX),
            Err(_) => self.fail_withheld(),
        }
        primary::feed(&mut self.state);
        self.at_turn().flush();
        self.sockets.io_threads.finish();
        Ok(())
    }

    /// Waits for events, for so long at most, and deals with them.
    pub(crate) fn take_turn(&mut self, timeout: Duration) -> Result<(), ServeError> {
        self.poll_events(timeout)?;
        self.attend_group()?;
        self.finish_turn();
        Ok(())
    }

    /// The rest of a turn, after the events of the sockets are noted.
    pub(crate) fn finish_turn(&mut self) {
        self.run_requests();
        self.answer_waiting();
        self.hand_on_and_reply();
        self.tend_data();
        self.close_clients();
    }

    /// Runs requests. First, as all that follows depends on what they change; keys are evicted
    /// before, so that requests find room, and blocked clients are served behind, since requests
    /// of clients and of the primary bring what these wait for.
    fn run_requests(&mut self) {
        if self.state.memory.evicts() {
            eviction::make_room(&mut self.keyspace, &mut self.state);
        }
        self.stalled = self.state.storage.journal.lags(self.state.clock.turn());
        if !self.stalled {
            self.at_turn().serve_share();
        }
        if !self.state.process.stops() {
            let Self { keyspace, state, table, sockets, .. } = self;
            let poller = &sockets.poller;
            // Otherwise the saved image is the last state.
            Follower { keyspace, state, table, poller }.follow();
        }
        if !self.stalled {
            self.at_turn().look_again();
        }
        if self.at_turn().has_ready_waiters() {
            // A replica that takes writes has clients that wait, too.
            self.at_turn().serve_blocked();
        }
    }

    /// Answers clients that wait for replicas or for the end, and sends the invalidations of the
    /// turn. Behind the requests that cause these replies, and before replies are written, so that
    /// they leave in this turn.
    fn answer_waiting(&mut self) {
        primary::answer_waits(&mut self.state);
        shutdown::attend(&mut self.keyspace, &mut self.state);
        self.at_turn().attend_woken();
        self.state.broadcast_changes();
    }

    /// Hands the effects of the turn to the log and the group, then writes the replies that need
    /// not wait for these, then feeds replicas: no reply may show what no log has, and no client
    /// waits for a replica. A failover compares offsets, so it comes once the stream is complete.
    fn hand_on_and_reply(&mut self) {
        self.hand_on();
        self.at_turn().flush();
        primary::feed(&mut self.state);
        roles::attend_failover(&mut self.keyspace, &mut self.state);
    }

    /// Begins and ends images, views and the work of the clock. Between the effects of two turns,
    /// since an image for replicas begins at an exact offset of the stream, and behind the replies,
    /// which do not wait for it.
    fn tend_data(&mut self) {
        let ServerState { views, read_views, config, clients, clock, users, storage, .. } =
            &mut self.state;
        views.attend(&mut self.keyspace, config, clients, clock.turn());
        read_views.attend(&mut self.keyspace, users, clock.unix_now(), || storage.saves.wake());
        self.tending = self.keyspace.tend();
        self.state.storage.attend(&mut self.keyspace, &mut self.state.ledger);
        primary::transfer::attend(&mut self.keyspace, &mut self.state);
        primary::relay(&mut self.state, &self.sockets.poller);
        let is_due = self.state.process.is_asked_to_stop();
        let is_due = is_due || self.state.clock.turn() >= self.next_cron;
        if !self.state.process.stops() && is_due {
            self.next_cron = cron::run(self);
        }
    }

    /// Removes clients. Last, as any phase may end a connection, and places of clients stay valid
    /// until then. Those that left free memory, which decides whether others must go.
    fn close_clients(&mut self) {
        self.at_turn().remove_closed();
        let closed = self.state.clients.close_largest(&self.state.config);
        self.state.meter.evicted_clients(closed);
        self.at_turn().remove_closed();
    }

    /// Begins a turn: waits for sockets, for so long at most, and notes their events.
    pub(crate) fn poll_events(&mut self, timeout: Duration) -> Result<(), ServeError> {
        let mut ready = std::mem::take(&mut self.sockets.ready);
        let is_served = !self.stalled;
        self.sockets.wait(timeout, is_served, &mut ready).map_err(ServeError::Events)?;
        self.state.clock.begin_turn();
        self.handle_events(&mut ready);
        self.sockets.ready = ready;
        Ok(())
    }

    /// Notes the events of the sockets at the beginning of a turn, after the clocks were read.
    pub(crate) fn handle_events(&mut self, ready: &mut Vec<Ready>) {
        self.end_pause();
        let now = self.state.clock.turn();
        self.at_turn().time_out_blocked(now);
        let since = self.state.clock.turn().saturating_duration_since(self.state.clock.started());
        self.keyspace.set_clock(since.as_millis() as u64);
        if !self.state.is_loading() {
            self.state.scripts.catch_up(self.keyspace.libraries(), &self.state.config);
        }
        self.at_turn().on_events(ready);
    }

    /// Propagates the effects of this turn, makes the log follow the configuration, and releases
    /// the replies that waited for the log; if the log has failed, ends the connections whose
    /// requests are in doubt.
    fn hand_on(&mut self) {
        persistence::attend_log(&mut self.keyspace, &mut self.state);
        self.state.note_logged();
        self.refuse_overfull();
        self.state.group.cover_reads();
        self.release(self.state.settled());
        let ServerState { storage, ledger, .. } = &mut self.state;
        if storage.journal.has_failed(&mut self.keyspace, ledger) {
            self.fail_withheld();
        }
    }

    /// Ends the connections whose replies wait for a failed log: their writes will never be on the
    /// disk.
    fn fail_withheld(&mut self) {
        let error = self.state.storage.writes_refused().unwrap_or(LOG_ENDED.into());
        let mut places = self.take_withheld();
        if self.state.config.appendfsync == Policy::Always {
            places.extend_from_slice(self.state.clients.flushing()); // the replies of this turn
        }
        self.refuse_replies(places, |_| error.as_bytes());
    }

    /// The clients whose replies wait, which get them no more.
    fn take_withheld(&mut self) -> Vec<usize> {
        self.sockets.withheld.drain(..).map(|waiting| waiting.place).collect()
    }

    /// Ends the connections of these clients, with an error instead of the replies that wait.
    fn refuse_replies<'e>(&mut self, places: Vec<usize>, error: impl Fn(&Client) -> &'e [u8]) {
        for place in places {
            let Some(client) = self.state.clients.get_mut(place) else { continue };
            client.withhold_rest();
            let error = error(client);
            client.fail_withheld(error);
            self.state.clients.flush_later(place);
        }
    }

    /// Schedules the replies that waited for records up to `durable`.
    fn release(&mut self, durable: u64) {
        while let Some(&Withheld { record, place }) = self.sockets.withheld.front()
            && record <= durable
        {
            self.sockets.withheld.pop_front();
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
        let resumes = self.sockets.queue.has_postponed() && !self.state.postpones();
        if self.sockets.has_work() || resumes {
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
        let look = self.state.ledger.waiters.next_look().filter(|_| takes_writes(&self.state));
        let next = next.min(look.unwrap_or(next));
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

    /// Schedules postponed requests once nothing postpones them any more.
    pub(crate) fn end_pause(&mut self) {
        if self.state.hub.pause_is_over(self.state.clock.turn()) {
            self.state.unpause(&mut self.keyspace);
        }
        if self.state.postpones() || !self.sockets.queue.has_postponed() {
            return;
        }
        for place in self.sockets.queue.take_postponed() {
            if let Some(client) = self.state.clients.get_mut(place) {
                self.sockets.queue.add(client);
            }
        }
    }
}

impl Server {
    /// The server as it loads.
    fn alone(&mut self) -> Alone<'_> {
        let Self { keyspace, state, table, .. } = self;
        Alone { keyspace, state, table }
    }
}

impl Replays for Server {
    type Client = Replay;

    fn replay(&mut self, client: &mut Replay, now: i64, args: &[&[u8]]) -> Result<(), ReplayError> {
        self.alone().replay(client, now, args)
    }
}

impl Host for Server {
    type Error = ServeError;

    fn parts(&mut self) -> Parts<'_> {
        let ServerState { ledger, storage, .. } = &mut self.state;
        Parts { keyspace: &mut self.keyspace, ledger, storage }
    }

    fn note_slice(&mut self, point: Option<StreamPoint>, gone: Vec<(usize, Vec<u8>)>) {
        self.alone().note_slice(point, gone);
    }

    fn note_replayed(&mut self, records: u64) {
        self.alone().note_replayed(records);
    }

    fn point(&self) -> Option<StreamPoint> {
        self.state.replication.point()
    }

    fn turn(&mut self, patience: Duration) -> Result<bool, ServeError> {
        self.poll_events(patience)?;
        self.at_turn().serve_share();
        self.state.broadcast_changes();
        self.at_turn().flush();
        cron::attend_clients(self);
        self.at_turn().remove_closed();
        Ok(!self.state.process.stops() && !self.state.process.is_asked_to_stop())
    }
}
