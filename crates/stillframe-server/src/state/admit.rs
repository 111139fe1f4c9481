//! Who is let in: connections that may be served become clients.

use stillframe_redis::Address;

use super::ServerState;
use crate::acl::DEFAULT;
use crate::client::Session;
use crate::net::{Listeners, Stream};

impl ServerState {
    /// The next connection at a socket that may be served, or `None` if none waits.
    pub(crate) fn admit(
        &mut self,
        listeners: &mut Listeners,
        number: usize,
    ) -> Option<(Stream, Session)> {
        loop {
            let ways = (self.config.tcp_keepalive_seconds, &self.net.tls);
            let (mut stream, peer, local) = listeners.next(number, ways, self.clock.turn)?;
            self.meter.stats.connections_received += 1;
            let Some(reason) = self.turned_away(&peer) else {
                let free = self.users.is_open();
                let id = self.hub.clients.next_id();
                tracing::debug!("client {id} at {peer} connected");
                let fd = stream.number();
                let session = Session::new(id, peer, local, fd, free, self.clock.turn);
                return Some((stream, session));
            };
            self.meter.stats.rejected_connections += 1;
            if stream.is_plain() {
                // Whether the peer gets to read it is up to the peer.
                let _ = stream.write(format!("-{reason}\r\n").as_bytes());
            } else {
                // It could only be told after a handshake.
                tracing::info!("turning {peer} away: {reason}");
            }
        }
    }

    /// Why a connection cannot be served.
    fn turned_away(&self, peer: &Address) -> Option<&'static str> {
        let config = &self.config;
        if self.hub.clients.count() >= config.maxclients as usize {
            return Some("ERR max number of clients reached");
        }
        let protected =
            config.protected_mode && self.users.get(DEFAULT).is_some_and(|user| user.nopass);
        if protected && !peer.is_local() {
            return Some(
                "DENIED Redis is running in protected mode because protected mode is enabled and no \
                 password is set for the default user. Set one with --requirepass, or turn the \
                 protection off with --protected-mode no, or connect from the same machine.",
            );
        }
        None
    }
}
