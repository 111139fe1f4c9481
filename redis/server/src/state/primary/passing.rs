//! Relays pass images on to the replicas behind TLS, a piece a turn.

use std::io;

use rustix::io::Errno;

use crate::connections::client::{Client, Relay};
use crate::connections::net::Poller;
use crate::state::ServerState;

/// The result of a turn.
enum Passed {
    /// The relay waits for the image or for the replica.
    Waits,
    /// There is more to do at once.
    More,
    /// The image has ended.
    All,
}

impl Client {
    fn pass_on(&mut self, relay: &mut Relay) -> io::Result<Passed> {
        if relay.passed == relay.filled {
            relay.passed = 0;
            relay.filled = match rustix::io::read(&relay.from, &mut *relay.piece) {
                Ok(0) => return Ok(Passed::All),
                Ok(count) => count,
                Err(Errno::AGAIN | Errno::INTR) => 0,
                Err(error) => return Err(error.into()),
            };
        }
        if relay.passed == relay.filled {
            return Ok(Passed::Waits);
        }
        relay.passed += self.write_past(&relay.piece[relay.passed..relay.filled])?;
        // Waiting replies, or a full socket, bring their own event.
        Ok(if self.is_full() || self.pending() > 0 { Passed::Waits } else { Passed::More })
    }
}

/// Passes images on to the replicas behind TLS. Called every turn.
pub(crate) fn relay(state: &mut ServerState, poller: &Poller) {
    for at in 0..state.replication.followers.places.len() {
        let place = state.replication.followers.places[at];
        let Some(client) = state.clients.get_mut(place) else { continue };
        let Some(mut relay) = client.relay.take() else { continue };
        let passed = if relay.watched {
            client.pass_on(&mut relay)
        } else {
            relay.watched = true;
            let added = poller.add_relay(&mut relay.from, place);
            added.and_then(|()| client.pass_on(&mut relay))
        };
        match passed {
            Ok(Passed::Waits) => client.relay = Some(relay),
            Ok(Passed::More) => {
                client.relay = Some(relay);
                state.replication.followers.more = true;
            }
            Ok(Passed::All) => poller.remove_relay(&mut relay.from),
            Err(error) => {
                tracing::info!("a replica does not take its image: {error}");
                state.clients.close_later(place);
            }
        }
    }
}
