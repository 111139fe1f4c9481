//! Clients of a member that follows whose requests go to the leader (`raft-forward`): one
//! connection there for each of them.
//!
//! - A client's connection is passed on as a whole, from its first request for the leader on: so
//!   transactions, watches, blocking requests and subscriptions are those of one session.
//! - When another member leads, the leader is missed, or its connection ends, so does the client's,
//!   with an error that says what is not known: nothing is sent to another leader again.

use stillframe_commands::write_request;
use stillframe_resp::Out;

use super::clients::Turn;
use crate::connections::client::{Client, Greeting, Lost, Read, Upstream, WAITING_BYTES_MAX};

impl Turn<'_> {
    /// Passes a client's requests on from now on, the one that it has just sent first.
    pub(super) fn begin_forwarding(&mut self, client: &mut Client) {
        let Some(leader) = self.state.group.followed() else { return };
        let mut requests = Vec::new();
        if let Some(postponed) = client.session.postponed.take() {
            postponed.for_each(|_, args| write_request(&mut requests, args));
        }
        requests.append(&mut client.input);
        client.backlog = false;
        let greeting = Greeting::for_session(&client.session);
        match Upstream::begin(leader.id(), leader.host(), leader.port(), greeting, requests) {
            Ok(upstream) => {
                client.upstream = Some(Box::new(upstream));
                self.forward(client);
            }
            Err(error) => fail(client, &Lost::NotReached(error), true),
        }
    }

    /// Passes bytes on both ways.
    pub(super) fn forward(&mut self, client: &mut Client) {
        let Some(mut upstream) = client.upstream.take() else { return };
        client.session.active = self.state.clock.turn();
        match self.exchange(client, &mut upstream) {
            Ok(unfinished) => {
                client.upstream = Some(upstream);
                if unfinished {
                    self.sockets.queue.add(client);
                }
            }
            Err(_) if upstream.has_all() => client.session.closing = true,
            Err(lost) => fail(client, &lost, upstream.is_between_replies()),
        }
    }

    /// Returns whether there may be more to do at once: no event comes for what was not read.
    fn exchange(&mut self, client: &mut Client, upstream: &mut Upstream) -> Result<bool, Lost> {
        let place = client.session.caller.place;
        let tls = self.state.config.tls.replication.then(|| self.state.net.tls());
        if !upstream.connect(place, &self.sockets.poller, tls)? {
            if upstream.looks() {
                self.sockets.looking.push(place);
            }
            return Ok(false);
        }
        upstream.write()?; // the greeting
        while client.pending() < WAITING_BYTES_MAX && upstream.read(&mut client.output)? {}
        let mut shared = self.sockets.take_shared();
        while client.readable && upstream.takes_requests() {
            match client.read_shared(&mut shared) {
                Read::Bytes(count) => {
                    self.state.meter.received(count);
                    upstream.take_requests(&shared[..count]);
                }
                Read::Nothing => {}
                Read::End => upstream.end_requests(),
            }
        }
        self.sockets.shared = shared;
        upstream.write()?;
        Ok(client.readable && upstream.takes_requests())
    }

    /// Ends the connections of clients whose requests went to a member that leads no more, or is
    /// missed.
    pub(super) fn end_forwarding(&mut self) {
        let leader = match self.state.group.view() {
            Some(view) if view.leads() => Some(view.id),
            _ => self.state.group.followed().map(|leader| leader.id()),
        };
        let mut ended = Vec::new();
        for (place, client) in self.state.clients.others_mut() {
            if let Some(upstream) = client.upstream.take_if(|it| Some(it.leader()) != leader) {
                fail(client, &Lost::Ended, upstream.is_between_replies());
                ended.push(place);
            }
        }
        for place in ended {
            self.attend(place);
        }
    }
}

/// Ends a client's connection with an error, unless the client has got half a reply.
fn fail(client: &mut Client, lost: &Lost, is_between_replies: bool) {
    if is_between_replies {
        Out::new(&mut client.output, client.session.protocol).error(lost.text());
    }
    client.session.closing = true;
}
