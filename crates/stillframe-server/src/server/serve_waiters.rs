//! The loop's part in waiting: clients are served when a key is ready, and give up in time.

use std::time::Instant;

use super::Server;
use crate::client::{Client, Replies};
use crate::commands::{self};
use stillframe_redis::Waiter;

impl Server {
    /// Serves those who wait for keys that were changed, until no change is left to look at:
    /// serving one (BLMOVE) may change another key.
    pub(crate) fn serve_blocked(&mut self) {
        self.state.clock.read();
        let now = self.state.clock.unix_now();
        while let Some((db, key)) = self.state.ledger.waiters.next_ready() {
            let mut from = 0;
            while let Some(entry) = self.keyspace.get(db, &key, now) {
                let kind = entry.value().kind();
                let Some((at, id)) = self.state.ledger.waiters.first((db, &key), from, kind) else {
                    break;
                };
                from = at;
                let Some(waiter) = self.state.ledger.waiters.leave(id) else { break };
                let place = waiter.place;
                let Some(mut client) = self.state.hub.clients.take(place) else { continue };
                client.session.caller.waits = false;
                if !client.dead {
                    self.run_for(&mut client, &waiter, &key, now);
                }
                self.state.hub.clients.put_back(place, client);
                self.state.hub.clients.wake(place);
            }
        }
    }

    /// Runs what a waiter has left behind.
    fn run_for(&mut self, client: &mut Client, waiter: &Waiter, key: &[u8], now: i64) {
        let before = waiter.before.iter().map(AsRef::as_ref);
        let after = waiter.after.iter().map(AsRef::as_ref);
        let args: Vec<&[u8]> = before.chain([key]).chain(after).collect();
        let Client { session, output, .. } = client;
        let db = std::mem::replace(&mut session.caller.db, waiter.db);
        let mut ctx = self.context(session, output, now);
        let start = ctx.out.position();
        // It was shown when it was sent.
        let hidden = ctx.server.hub.hide_requests();
        let _ = commands::run(&mut ctx, waiter.command, &args); // answered and counted already
        ctx.server.hub.show_again(hidden);
        if ctx.session.replies == Replies::Dropped {
            ctx.out.buffer.truncate(start);
        }
        if ctx.server.hub.tracks() {
            commands::finish_tracking(&mut ctx);
        }
        session.caller.db = db;
    }

    /// Tells those whose time is over that there was nothing.
    pub(crate) fn time_out_blocked(&mut self, now: Instant) {
        while let Some(id) = self.state.ledger.waiters.overdue(now) {
            self.state.give_up(id);
        }
    }

    /// Clients that got a reply out of turn: it is written, and what they sent meanwhile is served.
    pub(crate) fn attend_woken(&mut self) {
        for place in self.state.hub.clients.take_woken() {
            self.attend(place);
        }
    }
}
