//! The loop's part in blocking: clients are served when a key is ready, or time out.

use std::time::Instant;

use super::clients::Turn;
use crate::commands::{self, refuses_writes};
use crate::connections::client::Client;
use crate::state::ServerState;
use stillframe_commands::Waiter;

/// Whether a write may run that no request of this turn asks for.
pub(super) fn takes_writes(state: &ServerState) -> bool {
    let in_doubt = state.scripts.is_running() || state.process.stops() || state.is_loading();
    !in_doubt && !state.postpones() && !state.follows() && !refuses_writes(state)
}

impl Turn<'_> {
    /// Serves the clients blocked on changed keys, until no change is left: serving one (BLMOVE)
    /// may change another key.
    pub(crate) fn serve_blocked(&mut self) {
        self.state.clock.read();
        let now = self.state.clock.unix_now();
        while let Some((db, key)) = self.state.ledger.waiters.next_ready() {
            let mut from = 0;
            loop {
                let kind = self.keyspace.get(db, &key, now).map(|entry| entry.value().kind());
                let Some((at, id)) = self.state.ledger.waiters.first((db, &key), from, kind) else {
                    break;
                };
                from = at + 1;
                let Some(waiter) = self.state.ledger.waiters.leave(id) else { break };
                self.try_serve(id, waiter, &[&key], now);
            }
        }
    }

    /// Runs the requests again of clients for which time alone may have brought something.
    pub(crate) fn look_again(&mut self) {
        if self.state.ledger.waiters.next_look().is_none() || !takes_writes(self.state) {
            return;
        }
        self.state.clock.read();
        let (now, turn) = (self.state.clock.unix_now(), Instant::now());
        while let Some(id) = self.state.ledger.waiters.to_look_at(turn) {
            let Some(mut waiter) = self.state.ledger.waiters.leave(id) else { break };
            waiter.again = None;
            let keys: Vec<Box<[u8]>> = waiter.keys.iter().map(|it| it.key.clone()).collect();
            let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
            self.try_serve(id, waiter, &keys, now);
        }
    }

    /// Runs the request of a client that has left the queues, for each of these keys in turn until
    /// one has something for it. Without that the client waits on.
    fn try_serve(&mut self, id: u64, mut waiter: Waiter, keys: &[&[u8]], now: i64) {
        let place = waiter.place;
        let Some(mut client) = self.state.clients.take(place) else { return };
        client.session.caller.waits = false;
        for key in keys {
            client.session.caller.waits = false;
            if client.dead {
                break;
            }
            self.run_for(&mut client, &waiter, key, now);
            if !client.session.caller.waits {
                break;
            }
            waiter.again = waiter.again.into_iter().chain(client.session.caller.again).min();
        }
        client.session.caller.again = None;
        let waits_on = client.session.caller.waits;
        self.state.clients.put_back(place, client);
        if waits_on {
            self.state.ledger.waiters.put_back(id, waiter);
        } else {
            self.state.clients.wake(place);
        }
    }

    /// Runs the request of a waiter that a key has made ready.
    fn run_for(&mut self, client: &mut Client, waiter: &Waiter, key: &[u8], now: i64) {
        let args = waiter.request(key);
        let Client { session, output, .. } = client;
        let db = std::mem::replace(&mut session.caller.db, waiter.db);
        session.caller.resumed = true;
        let mut ctx = self.context(session, output, now);
        let start = ctx.out.position();
        // MONITOR showed it when it was sent.
        let hidden = ctx.server.hub.hide_requests();
        commands::run(&mut ctx, waiter.command, &args);
        ctx.server.hub.show_again(hidden);
        if !ctx.session.caller.waits && ctx.session.drops_reply() {
            ctx.out.buffer.truncate(start);
        }
        if ctx.server.hub.tracks() {
            commands::finish_tracking(&mut ctx);
        }
        session.caller.db = db;
        session.caller.resumed = false;
    }

    /// Ends the waiting of clients whose timeout is over.
    pub(crate) fn time_out_blocked(&mut self, now: Instant) {
        while let Some(id) = self.state.ledger.waiters.overdue(now) {
            self.state.give_up(id);
        }
    }

    /// Schedules clients that got a reply out of turn: the reply, and their input.
    pub(crate) fn attend_woken(&mut self) {
        for place in self.state.clients.take_woken() {
            self.attend(place);
        }
    }
}
