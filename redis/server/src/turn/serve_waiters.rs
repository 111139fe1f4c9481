//! The loop's part in blocking: clients are served when a key is ready, or time out.

use std::time::Instant;

use super::clients::Turn;
use crate::commands::{self, refuses_writes};
use crate::connections::client::Client;
use crate::state::ServerState;
use stillframe_commands::{Found, Waiter};
use stillframe_keyspace::{Entry, Value};

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
            let found = self.found(db, &key, now);
            let mut turns = self.state.ledger.waiters.turns(db, &key, found);
            loop {
                let found = self.found(db, &key, now);
                let waiters = &mut self.state.ledger.waiters;
                let Some(id) = waiters.next_turn(db, &key, &mut turns, found) else { break };
                if let Some(waiter) = waiters.leave(id) {
                    self.try_serve(id, waiter, &key, now);
                }
            }
        }
    }

    /// What a key holds, as clients that wait for it need to know.
    fn found(&mut self, db: usize, key: &[u8], now: i64) -> Found {
        match self.keyspace.get(db, key, now).map(Entry::value) {
            None => Found::Nothing,
            Some(Value::Stream(stream)) => {
                let last = stream.len().checked_sub(1).and_then(|last| stream.at(last));
                Found::Stream { last: last.map(|entry| entry.id) }
            }
            Some(value) => Found::Other(value.kind()),
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
            let (db, keys) = (waiter.db, waiter.keys.clone());
            let Some(first) = keys.first() else { continue };
            if self.try_serve(id, waiter, &first.key, now) {
                // There may be more, for those who would look later.
                keys.iter().for_each(|it| self.state.ledger.waiters.touch(db, &it.key));
            }
        }
    }

    /// Runs the request of a client that has left the queues, for this key. If that has nothing for
    /// it, the client waits on, and false is returned.
    fn try_serve(&mut self, id: u64, mut waiter: Waiter, key: &[u8], now: i64) -> bool {
        let place = waiter.place;
        let Some(mut client) = self.state.clients.take(place) else { return true };
        client.session.caller.waits = false;
        if !client.dead {
            self.run_for(&mut client, &waiter, key, now);
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
        !waits_on
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
