//! The loop's part in one client's requests: read, cut apart, run.

use stillframe_keyspace::WARM_BATCH;
use stillframe_resp::{Insets, Out};

use super::accept::limits;
use super::clients::Turn;
use crate::commands::{self, Context};
use crate::connections::client::{Client, Read, Replies, Session, Wire, taken};
use crate::connections::clients::outweighs;
use crate::connections::io_threads::Arrived;
use crate::connections::net::Stream;
use crate::node::config::OutputLimit;
use crate::turn::ahead::Ahead;

/// Requests run for one client in one turn.
const REQUESTS_PER_TURN: usize = 1024;
/// Replies above which a client's turn ends, in bytes.
const REPLY_BYTES_PER_TURN: usize = 1 << 20;

/// The rest of a client's share of a turn.
struct Share {
    requests: usize,
    /// Bytes of replies before.
    replies_start: usize,
}

impl Turn<'_> {
    /// Serves the clients whose input has come from I/O threads.
    pub(super) fn serve_arrived(&mut self) {
        loop {
            self.warm_arrived();
            let Some(arrived) = self.sockets.io_threads.next() else { break };
            let (place, id) = arrived.client();
            let is_here = |client: &&Client| client.session.caller.id == id && !client.dead;
            if self.state.clients.get(place).filter(is_here).is_none() {
                continue; // it has left
            }
            self.state.meter.received(arrived.received());
            self.serve(place, Some(&arrived));
            if self.state.process.stops() {
                break;
            }
        }
    }

    /// Lets the cache misses of the next clients' keys overlap, as those of one client's requests
    /// do (see `ahead`).
    fn warm_arrived(&mut self) {
        let Self { keyspace, state, sockets, .. } = self;
        let db = |place| state.clients.get(place).map(|client| client.session.caller.db);
        let mut requests = sockets.io_threads.ahead(WARM_BATCH).peekable();
        let Some(first) = requests.peek().and_then(|(place, _)| db(*place)) else { return };
        let mut keys = requests
            .filter(|(place, _)| db(*place) == Some(first))
            .map(|(_, request)| request.args().get(1).copied().unwrap_or_default());
        let (Some(one), Some(two)) = (keys.next(), keys.next()) else { return };
        keyspace.warm(first, [one, two].into_iter().chain(keys));
    }

    /// Gives one client its share of the turn, with the input that has come, if any.
    pub(crate) fn serve(&mut self, place: usize, arrived: Option<&Arrived>) {
        let Some(mut client) = self.state.clients.take(place) else { return };
        client.queued &= arrived.is_some();
        if let Some(arrived) = arrived {
            client.note_arrival(arrived);
        }
        let waits = client.session.postponed.is_some() && self.state.postpones();
        if client.upstream.is_some() {
            self.forward(&mut client);
        } else if client.servable() && !waits {
            let unfinished = self.serve_once(&mut client, arrived);
            self.settle_insets(&mut client);
            if client.session.replica.is_some() || client.session.to_forward {
                self.call_back(&mut client);
            }
            if std::mem::take(&mut client.session.to_forward) {
                self.begin_forwarding(&mut client);
            } else if client.session.postponed.is_some() {
                self.sockets.queue.postpone(place);
            } else if unfinished && client.servable() {
                self.sockets.queue.add(&mut client);
            }
        } else if let Some(arrived) = arrived {
            client.keep(arrived.bytes());
        }
        // A blocked client is not read from: only the event reports its end.
        let left = client.session.caller.waits && client.ended;
        let finished = client.session.closing && client.is_drained();
        // Here and not only after a write: a client that reads nothing is not written to.
        let known = client.session.authenticated || self.state.users.is_open();
        let limits = &self.state.config.output_limits;
        let limit = if known { client.output_limit(limits) } else { OutputLimit::STRANGER };
        let over = client.over_output_limit(limit, self.state.clock.turn());
        if over || self.state.ledger.effects.are_abandoned() {
            client.discard_output(); // half a reply is worse than none
        }
        self.state.clients.put_back(place, client);
        self.state.clients.flush_later(place);
        if finished || over || left {
            self.state.clients.close_later(place);
        }
        if self.has_ready_waiters() {
            self.serve_blocked();
        }
    }

    /// Runs requests left over from the last turn, else those that have come from an I/O thread,
    /// else reads once and runs the new requests. Returns whether there may be more to do at once.
    fn serve_once(&mut self, client: &mut Client, arrived: Option<&Arrived>) -> bool {
        client.session.active = self.state.clock.turn();
        self.state.clients.hold_input(0);
        self.state.clients.own_input(0);
        if let Some(postponed) = client.session.postponed.take() {
            self.state.clock.read();
            let Client { session, output, .. } = client;
            postponed.for_each(|_, args| self.run_request(session, output, None, args));
        }
        if client.backlog && client.session.postponed.is_none() {
            self.execute_own(client);
        }
        if let Some(arrived) = arrived {
            self.execute_arrived(client, arrived);
        }
        let waits = client.session.postponed.is_some();
        if client.backlog || !client.servable() || !client.readable || waits {
            return client.backlog;
        }
        if let Wire::Remote(remote) = &mut client.wire {
            client.readable = false;
            client.session.closing |= client.is_last;
            if !client.is_last {
                remote.ask(client.input.is_empty());
            }
            return false;
        }
        let mut shared = self.sockets.take_shared();
        let own = !client.input.is_empty();
        let read = if own { client.read_own() } else { client.read_shared(&mut shared) };
        self.state.meter.received(if let Read::Bytes(count) = read { count } else { 0 });
        match read {
            Read::Nothing => {}
            Read::End => client.session.closing = true,
            Read::Bytes(count) => {
                if own && outweighs(client, &self.state.config) {
                    client.backlog = true; // does not run: the end of the turn closes it
                } else if own {
                    self.execute_own(client);
                } else {
                    let bytes = &mut shared[..count];
                    let used = self.execute(client, bytes);
                    client.input.extend_from_slice(&bytes[used..]);
                }
            }
        }
        self.sockets.shared = shared;
        self.check_input(client);
        client.backlog || client.readable
    }

    /// Runs the requests that have come from an I/O thread; what cannot run now, or has yet to be
    /// parsed, is the client's own input from then on.
    fn execute_arrived(&mut self, client: &mut Client, arrived: &Arrived) {
        let (mut rest, mut outlines) = (arrived.bytes(), arrived.outlines());
        if client.backlog || client.session.postponed.is_some() {
            outlines = &[];
        }
        if !outlines.is_empty() {
            self.state.clients.hold_input(rest.len());
            let replies_start = client.output.len();
            let mut left = Share { requests: usize::MAX, replies_start };
            self.state.clock.read();
            while !outlines.is_empty() && self.goes_on(client, &left) {
                let ahead = Ahead::outlined(&mut outlines, rest);
                rest = &rest[self.run_ahead(client, &ahead, &mut left)..];
            }
        }
        if !rest.is_empty() {
            client.keep(rest);
            let runs = client.servable() && client.session.postponed.is_none();
            if runs && !outweighs(client, &self.state.config) {
                self.execute_own(client);
            }
        }
        self.check_input(client);
    }

    fn execute_own(&mut self, client: &mut Client) {
        let mut input = std::mem::take(&mut client.input);
        self.state.clients.own_input(input.len());
        let used = self.execute(client, &mut input);
        client.input = input;
        client.consume_own(used);
        self.state.clients.own_input(0);
    }

    /// Runs the whole requests at the start of `bytes`, up to the client's share of a turn.
    /// Returns the bytes used.
    fn execute(&mut self, client: &mut Client, bytes: &mut [u8]) -> usize {
        // The current configuration sets the limits, whenever the client connected.
        client.parser.set_limits(limits(&self.state.config, client.session.authenticated));
        let mut used = 0;
        self.state.clients.hold_input(bytes.len());
        let mut left = Share { requests: REQUESTS_PER_TURN, replies_start: client.output.len() };
        self.state.clock.read();
        while self.goes_on(client, &left) {
            let ahead = Ahead::parse(&client.parser, &bytes[used..]);
            if !ahead.is_empty() {
                used += self.run_ahead(client, &ahead, &mut left);
                continue;
            }
            match client.parser.parse(&mut bytes[used..]) {
                Ok(None) => {
                    client.backlog = false;
                    return used;
                }
                Ok(Some(length)) => {
                    self.answer_parsed(client, &bytes[used..used + length]);
                    used += length;
                    left.requests -= 1;
                }
                Err(error) => {
                    tracing::info!("client {}: {error}", client.session.caller.peer);
                    Out::new(&mut client.output, client.session.protocol).protocol_error(&error);
                    self.state.meter.answered_error(b"ERR");
                    client.session.closing = true;
                }
            }
        }
        if client.session.closing {
            used = bytes.len();
        }
        client.backlog = used < bytes.len();
        used
    }

    /// Runs requests parsed ahead, as many as may run now; returns their bytes.
    #[inline]
    fn run_ahead(&mut self, client: &mut Client, ahead: &Ahead<'_>, left: &mut Share) -> usize {
        let mut used = 0;
        ahead.warm(self.keyspace, client.session.caller.db);
        for request in ahead.requests() {
            if !self.goes_on(client, left) {
                break;
            }
            self.answer(client, request.args());
            used += request.bytes();
            left.requests -= 1;
        }
        used
    }

    /// Whether the client's next request may run in this turn.
    #[inline]
    fn goes_on(&self, client: &Client, left: &Share) -> bool {
        !client.session.closing
            && !self.state.process.stops()
            && !client.session.caller.waits
            && client.session.postponed.is_none()
            && !self.has_ready_waiters()
            && left.requests > 0
            && client.output.len() + client.insets.bytes() - left.replies_start
                <= REPLY_BYTES_PER_TURN
    }

    /// Whether clients wait for keys that are there; while a script runs they go on waiting, also
    /// if it ends with the server.
    pub(super) fn has_ready_waiters(&self) -> bool {
        let in_doubt = self.state.scripts.is_running() || self.state.process.stops();
        self.state.ledger.waiters.has_ready() && !in_doubt
    }

    /// Runs the request that the client's parser has just found in `request`.
    fn answer_parsed(&mut self, client: &mut Client, request: &[u8]) {
        let ranges = client.parser.args().iter();
        let args: Vec<&[u8]> =
            ranges.map(|range| request.get(range.clone()).unwrap_or_default()).collect();
        if !args.is_empty() {
            self.answer(client, &args);
        }
    }

    /// Runs one request that a client has sent.
    #[inline]
    fn answer(&mut self, client: &mut Client, args: &[&[u8]]) {
        let insets_go = is_get(args) && self.takes_insets(client);
        let Client { parser, session, output, insets, .. } = client;
        let authenticated = session.authenticated;
        self.run_request(session, output, insets_go.then_some(insets), args);
        if session.authenticated != authenticated {
            parser.set_limits(limits(&self.state.config, session.authenticated));
        }
    }

    /// Whether the reply of a GET may contain a long text by reference: the socket is at hand,
    /// and nothing is put before the reply or takes it away.
    fn takes_insets(&self, client: &Client) -> bool {
        client.wire.local().is_some_and(Stream::is_plain)
            && client.session.replies == Replies::Sent
            && client.session.caller.transaction.is_none()
            && !self.state.hub.tracks()
            && self.state.ledger.settings.notify.is_empty()
    }

    /// Ends that a client's replies contain texts by reference. They are written before the end of
    /// the turn, unless one may have to wait: for a change by any client that the log or a group
    /// does not have yet.
    fn settle_insets(&mut self, client: &mut Client) {
        if client.insets.is_empty() {
            return;
        }
        let is_free = self.state.has_handed_on() && self.state.awaited().is_none();
        let written = client.settle_insets(is_free);
        if written > 0 {
            self.state.meter.sent(written);
        }
    }

    /// Runs one request of a client.
    fn run_request(
        &mut self,
        session: &mut Session,
        output: &mut Vec<u8>,
        insets: Option<&mut Insets>,
        args: &[&[u8]],
    ) {
        let now = self.state.clock.unix_now();
        let mut ctx = self.context(session, output, now);
        ctx.out.insets = insets;
        commands::dispatch(&mut ctx, args);
    }

    /// The context for a request of the client of `session` at `now`.
    pub(crate) fn context<'a>(
        &'a mut self,
        session: &'a mut Session,
        output: &'a mut Vec<u8>,
        now: i64,
    ) -> Context<'a> {
        let most = session.output_limit(&self.state.config.output_limits).hard_bytes_max();
        let limit = output.len().saturating_add(most);
        let bytes = taken(output) + session.memory() + size_of::<Client>();
        self.state.clients.serve(session, most, bytes);
        Context {
            out: Out { limit, ..Out::new(output, session.protocol) },
            keyspace: self.keyspace,
            server: self.state,
            session,
            now,
            table: self.table,
            refused: None,
            meanwhile: Some(self.sockets),
            branch: None,
        }
    }

    /// Closes a client whose unfinished request or open transaction has grown too large.
    fn check_input(&mut self, client: &mut Client) {
        let queued =
            client.session.caller.transaction.as_ref().map_or(0, |open| open.requests.memory());
        let kept = client.input.len() + queued;
        // The table of many small arguments takes more than they do themselves.
        let most = self.state.config.query_buffer_limit_bytes;
        if kept > most || client.parser.memory() > most.saturating_mul(2) {
            tracing::warn!(
                "closing client {} at {}: its requests exceed client-query-buffer-limit",
                client.session.caller.id,
                client.session.caller.peer
            );
            self.state.meter.closed_for_input();
            client.discard_output();
            client.session.closing = true;
        }
    }
}

#[inline]
fn is_get(args: &[&[u8]]) -> bool {
    matches!(args, [name, _] if name.eq_ignore_ascii_case(b"GET"))
}
