//! The event loop: the one thread that runs commands.
//!
//! A turn: wait for sockets; read once from each client that has something; run its requests; at
//! the end of the turn log what they did and write the replies of all of them, once each; then tend
//! the keyspace and the saves, which costs nothing when there is nothing to do.
//!
//! - In the common case a request costs one `read` and one `write`, shared by all requests that
//!   arrived together.
//! - What one client gets in one turn is bounded; if it has more, it queues behind the others.
//! - Nothing here waits for the snapshotter or for a disk, except SAVE and the end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use stillframe::Algorithm;
use stillframe_durability::Policy;
use stillframe_keyspace::{Keyspace, WARM_BATCH};
use stillframe_resp::{Limits, Out};

use crate::commands::{self, Context, Table};
use crate::connection::{Client, Read};
use crate::listen::Listeners;
use crate::poll::{Poller, Ready};
use crate::replication::transfer;
use crate::session::Session;
use crate::state::ServerState;
use crate::{ServeError, ahead, cron, journal, persistence};

/// Bytes read at once from a client that has no unfinished request.
const SHARED_BYTES: usize = 64 << 10;
/// Requests run for one client in one turn.
const REQUESTS_PER_TURN: usize = 1024;
/// Replies above which a client's turn ends, in bytes.
const REPLY_BYTES_PER_TURN: usize = 1 << 20;
/// Arguments that need no allocation.
const ARGS_ON_STACK: usize = 8;

/// The server's parts.
pub(crate) struct Server<A: Algorithm> {
    pub(crate) keyspace: Keyspace<A>,
    pub(crate) state: ServerState,
    pub(crate) table: Table<A>,
    pub(crate) poller: Poller,
    pub(crate) listeners: Listeners,
    pub(crate) signalled: Arc<AtomicBool>,
    /// Clients to serve, in order.
    pub(crate) runnable: VecDeque<usize>,
    /// Records that replies wait for, with the clients: rising.
    held: VecDeque<(u64, usize)>,
    /// Clients with requests that a pause holds.
    pub(crate) postponed: Vec<usize>,
    shared: Box<[u8]>,
    /// The disk of the log is so slow that nobody is served.
    stalled: bool,
    /// The keyspace has housekeeping left for the next turn.
    tending: bool,
    next_cron: Instant,
}

impl<A: Algorithm> Server<A> {
    /// Puts the parts together.
    pub(crate) fn new(
        keyspace: Keyspace<A>,
        state: ServerState,
        table: Table<A>,
        poller: Poller,
        listeners: Listeners,
        signalled: Arc<AtomicBool>,
    ) -> Self {
        let mut keyspace = keyspace;
        keyspace.keep_expired(state.wants_expired());
        state.count_uses(&mut keyspace);
        Self {
            keyspace,
            state,
            table,
            poller,
            listeners,
            signalled,
            runnable: VecDeque::new(),
            held: VecDeque::new(),
            postponed: Vec::new(),
            shared: vec![0; SHARED_BYTES].into_boxed_slice(),
            stalled: false,
            tending: false,
            next_cron: Instant::now(),
        }
    }

    /// Serves until the server is told to stop.
    pub(crate) fn run(&mut self) -> Result<(), ServeError> {
        let mut ready = Vec::new();
        while !self.state.stopping {
            ready.clear();
            let timeout = self.timeout();
            self.poller.wait(timeout, &mut ready).map_err(ServeError::Events)?;
            self.state.begin_turn();
            self.end_pause();
            self.time_out_blocked(self.state.loop_time);
            let since = self.state.loop_time.saturating_duration_since(self.state.started);
            self.keyspace.set_clock(since.as_millis() as u64);
            if self.state.evicting {
                self.state.make_room(&mut self.keyspace);
            }
            for event in &ready {
                self.on_event(*event);
            }
            self.stalled = self.state.journal.lags(self.state.loop_time);
            let share = if self.stalled { 0 } else { self.runnable.len() };
            for _ in 0..share {
                let Some(place) = self.runnable.pop_front() else { break };
                self.serve(place);
                if self.state.stopping {
                    break;
                }
            }
            self.follow();
            self.state.answer_waits();
            self.attend_woken();
            self.state.broadcast_changes();
            self.settle();
            self.flush();
            self.feed();
            self.tending = self.keyspace.tend();
            persistence::attend(&mut self.keyspace, &mut self.state);
            transfer::attend(&mut self.keyspace, &mut self.state);
            if self.state.loop_time >= self.next_cron {
                self.next_cron = cron::run(self);
            }
            self.bury();
        }
        match journal::close(&mut self.keyspace, &mut self.state) {
            Ok(()) => self.release(u64::MAX),
            Err(_) => self.fail_held(),
        }
        self.flush();
        Ok(())
    }

    /// Hands on what the requests of this turn did, and lets go of the replies that waited for the
    /// log; if it has failed, ends the connections whose requests are in doubt.
    fn settle(&mut self) {
        journal::settle(&mut self.keyspace, &mut self.state);
        self.release(self.state.journal.durable());
        if journal::has_failed(&mut self.keyspace, &mut self.state) {
            self.fail_held();
        }
    }

    /// The log has failed: what waits for it will never be on the disk.
    fn fail_held(&mut self) {
        let mut doubted: Vec<usize> = self.held.drain(..).map(|(_, place)| place).collect();
        if self.state.config.appendfsync == Policy::Always {
            doubted.extend(&self.state.clients.flushing); // the replies of this turn
        }
        let error = self.state.writes_refused().unwrap_or_default();
        for place in doubted {
            let Some(client) = self.state.clients.get_mut(place) else { continue };
            client.judge(Some(u64::MAX));
            client.fail_held(error.as_bytes());
            self.state.clients.flush_later(place);
        }
    }

    /// Has the replies written that waited for records up to `durable`.
    fn release(&mut self, durable: u64) {
        while let Some(&(record, place)) = self.held.front()
            && record <= durable
        {
            self.held.pop_front();
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
        if !self.runnable.is_empty() || !self.postponed.is_empty() && !self.state.pausing() {
            return Duration::ZERO;
        }
        if self.state.evicting || self.state.replication.is_busy() {
            return Duration::ZERO;
        }
        let next = self
            .state
            .blocked
            .next_deadline()
            .map_or(self.next_cron, |deadline| deadline.min(self.next_cron));
        let rest = next.saturating_duration_since(Instant::now());
        let rest = self.state.pause_left().map_or(rest, |left| rest.min(left));
        if self.tending {
            Duration::ZERO
        } else if self.state.saves.settling() || self.state.replication.transfers.settling() {
            rest.min(Duration::from_millis(1))
        } else {
            rest
        }
    }

    fn on_event(&mut self, event: Ready) {
        match event {
            Ready::Primary { .. } => {
                let following = self.state.replication.following.as_mut();
                if let Some(link) = following.and_then(|following| following.link_mut()) {
                    link.on_event(event);
                }
            }
            Ready::Listener(number) => self.accept(number),
            Ready::Woken => {}
            Ready::Client { place, readable, writable, ended } => {
                let Some(client) = self.state.clients.get_mut(place) else { return };
                client.readable |= readable;
                client.ended |= ended;
                if writable {
                    client.unblock();
                }
                if (readable || ended) && !client.queued {
                    client.queued = true;
                    self.runnable.push_back(place);
                }
                self.state.clients.flush_later(place);
            }
        }
    }

    /// Accepts the connections that wait at one listening socket.
    pub(crate) fn accept(&mut self, number: usize) {
        while let Some((mut stream, mut session)) = self.listeners.accept(number, &mut self.state) {
            let place = self.state.clients.reserve();
            if let Err(error) = self.poller.add_client(&mut stream, place) {
                tracing::warn!("cannot watch a connection: {error}");
                self.state.clients.release(place);
                continue;
            }
            session.place = place;
            let limits = limits(&self.state, session.authenticated);
            // Its first bytes bring an event: it was registered after it was accepted.
            let client = Client::new(stream, session, limits);
            self.state.clients.put(place, Box::new(client));
        }
    }

    /// Gives one client its share of the turn.
    fn serve(&mut self, place: usize) {
        let Some(mut client) = self.state.clients.take(place) else { return };
        client.queued = false;
        let held = client.session.held.is_some() && self.state.pausing();
        if client.servable() && !held {
            let unfinished = self.serve_once(&mut client);
            if client.session.held.is_some() {
                self.postponed.push(place);
            } else if unfinished && client.servable() {
                client.queued = true;
                self.runnable.push_back(place);
            }
        }
        // One that waits is not read from: its end is known from the event alone.
        let left = client.session.blocked && client.ended;
        let finished = client.session.closing && client.pending() == 0;
        // Here and not only after a write: to a client that reads nothing, nothing is written.
        let limit = client.output_limit(&self.state.config.output_limits);
        let over = client.over_output_limit(limit, self.state.loop_time);
        self.state.clients.put(place, client);
        self.state.clients.flush_later(place);
        if finished || over || left {
            self.state.clients.doom(place);
        }
        if self.state.blocked.has_ready() {
            self.serve_blocked();
        }
    }

    /// Runs requests left over from the last turn, else reads once and runs what has come. Returns
    /// whether there may be more to do at once.
    fn serve_once(&mut self, client: &mut Client) -> bool {
        client.session.active = self.state.loop_time;
        if let Some(held) = client.session.held.take() {
            self.state.read_clock();
            let Client { session, output, .. } = client;
            held.for_each(|_, args| self.run_request(session, output, args));
        }
        if client.backlog && client.session.held.is_none() {
            self.execute_own(client);
        }
        let held = client.session.held.is_some();
        if client.backlog || !client.servable() || !client.readable || held {
            return client.backlog;
        }
        self.state.stats.reads += 1;
        let mut shared = std::mem::take(&mut self.shared);
        let own = !client.input.is_empty();
        let read = if own { client.read_own() } else { client.read_shared(&mut shared) };
        match read {
            Read::Nothing => {}
            Read::End => client.session.closing = true,
            Read::Bytes(count) => {
                self.state.stats.input_bytes += count as u64;
                if own {
                    self.execute_own(client);
                } else {
                    let bytes = &mut shared[..count];
                    let used = self.execute(client, bytes);
                    client.input.extend_from_slice(&bytes[used..]);
                }
            }
        }
        self.shared = shared;
        self.check_input(client);
        client.backlog || client.readable
    }

    fn execute_own(&mut self, client: &mut Client) {
        let mut input = std::mem::take(&mut client.input);
        let used = self.execute(client, &mut input);
        client.input = input;
        client.consume_own(used);
    }

    /// Runs the whole requests at the start of `bytes`, up to the client's share of a turn.
    /// Returns the bytes used.
    fn execute(&mut self, client: &mut Client, bytes: &mut [u8]) -> usize {
        let mut used = 0;
        let mut requests = 0;
        let replies_start = client.output.len();
        self.state.read_clock();
        client.backlog = false;
        while !client.session.closing && !self.state.stopping {
            if client.session.blocked
                || self.state.blocked.has_ready()
                || requests == REQUESTS_PER_TURN
                || client.output.len() - replies_start > REPLY_BYTES_PER_TURN
            {
                client.backlog = used < bytes.len();
                break;
            }
            if requests.is_multiple_of(WARM_BATCH) {
                ahead::warm(&self.keyspace, client.session.db, &bytes[used..]);
            }
            match client.parser.parse(&mut bytes[used..]) {
                Ok(None) => break,
                Ok(Some(length)) => {
                    self.answer(client, &bytes[used..used + length]);
                    used += length;
                    requests += 1;
                    if client.session.held.is_some() {
                        client.backlog = used < bytes.len();
                        break;
                    }
                }
                Err(error) => {
                    tracing::info!("client {}: {error}", client.session.peer);
                    Out::new(&mut client.output, client.session.protocol).protocol_error(&error);
                    self.state.stats.count_error(b"ERR");
                    client.session.closing = true;
                }
            }
        }
        if client.session.closing { bytes.len() } else { used }
    }

    /// Runs one request, which the client's parser has just found in `request`.
    fn answer(&mut self, client: &mut Client, request: &[u8]) {
        let Client { parser, session, output, .. } = client;
        let ranges = parser.args();
        let mut stack = [&[][..]; ARGS_ON_STACK];
        let mut heap = Vec::new();
        let slices = ranges.iter().map(|range| request.get(range.clone()).unwrap_or_default());
        let args: &[&[u8]] = if ranges.len() <= ARGS_ON_STACK {
            stack.iter_mut().zip(slices).for_each(|(place, slice)| *place = slice);
            &stack[..ranges.len()]
        } else {
            heap.extend(slices);
            &heap
        };
        if args.is_empty() {
            return;
        }
        let authenticated = session.authenticated;
        self.run_request(session, output, args);
        if session.authenticated != authenticated {
            parser.set_limits(limits(&self.state, session.authenticated));
        }
    }

    /// Runs one request of a client.
    fn run_request(&mut self, session: &mut Session, output: &mut Vec<u8>, args: &[&[u8]]) {
        let now = self.state.unix_now();
        commands::dispatch(&mut self.context(session, output, now), args);
    }

    /// What a request of the client of `session` runs in at `now`.
    pub(crate) fn context<'a>(
        &'a mut self,
        session: &'a mut Session,
        output: &'a mut Vec<u8>,
        now: i64,
    ) -> Context<'a, A> {
        let clients = &mut self.state.clients;
        (clients.own_place, clients.own_id) = (session.place, session.id);
        clients.own_protocol = session.protocol;
        Context {
            out: Out::new(output, session.protocol),
            keyspace: &mut self.keyspace,
            server: &mut self.state,
            session,
            now,
            table: &self.table,
        }
    }

    /// Closes a client whose unfinished request or open transaction has grown too large.
    fn check_input(&mut self, client: &mut Client) {
        let queued = client.session.transaction.as_ref().map_or(0, |open| open.memory());
        if client.input.len() + queued > self.state.config.query_buffer_limit_bytes {
            tracing::warn!(
                "closing client {} at {}: its requests exceed client-query-buffer-limit",
                client.session.id,
                client.session.peer
            );
            client.discard_output();
            client.session.closing = true;
        }
    }

    /// Writes the replies of this turn, once for each client.
    fn flush(&mut self) {
        let awaited = self.state.journal.awaited();
        for place in std::mem::take(&mut self.state.clients.flushing) {
            let Some(client) = self.state.clients.get_mut(place) else { continue };
            client.flushing = false;
            if client.judge(awaited) {
                self.held.extend(awaited.map(|record| (record, place)));
            }
            if !client.can_flush() {
                continue;
            }
            let written = client.flush();
            self.state.stats.writes += 1;
            let lost = match written {
                Ok(count) => {
                    self.state.stats.output_bytes += count as u64;
                    client.session.closing && client.pending() == 0
                }
                Err(_) => true,
            };
            if lost {
                self.state.clients.doom(place);
            } else if !client.queued && client.servable() && (client.backlog || client.readable) {
                client.queued = true;
                self.runnable.push_back(place);
            }
        }
    }

    /// Has a client's replies written at the end of the turn, and what it sent served.
    pub(crate) fn attend(&mut self, place: usize) {
        self.state.clients.flush_later(place);
        let Some(client) = self.state.clients.get_mut(place) else { return };
        if !client.queued {
            client.queued = true;
            self.runnable.push_back(place);
        }
    }

    /// Removes the clients that are gone.
    fn bury(&mut self) {
        while let Some(place) = self.state.clients.doomed.pop() {
            let Some(mut client) = self.state.clients.take(place) else { continue };
            tracing::debug!("client {} at {} left", client.session.id, client.session.peer);
            self.state.watches.forget(client.session.id);
            self.state.pubsub.forget(&mut client.session);
            self.state.stop_monitoring(&mut client.session);
            self.state.tracking.disable(&mut client.session);
            self.state.blocked.leave(client.session.id);
            self.state.replication.forget(place);
            self.poller.remove_client(client.stream);
            self.state.clients.release(place);
        }
    }
}

/// What a client's requests may ask for.
fn limits(state: &ServerState, authenticated: bool) -> Limits {
    Limits { bulk_bytes_max: state.config.bulk_bytes_max, authenticated, ..Limits::OPEN }
}

/// Unix time in milliseconds.
pub(crate) fn unix_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
