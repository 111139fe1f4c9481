//! What clients may take together (`maxmemory-clients`).

use super::ServerState;
use crate::client::Client;
use crate::config::Size;

impl ServerState {
    /// Weighs clients anew; above `maxmemory-clients` those that take most are closed.
    pub(crate) fn weigh_clients(&mut self) {
        self.hub.clients.weigh_all();
        self.hub.clients.spared_bytes = 0;
        self.limit_clients();
    }

    /// What clients may take together, if that is limited.
    fn client_limit(&self) -> Option<u64> {
        /// Whatever the setting says: an operator has to get through.
        const LIMIT_BYTES_MIN: u64 = 128 << 10;
        let limit = match self.config.maxmemory_clients {
            Size::Bytes(bytes) => bytes,
            share => share.bytes(self.config.maxmemory_bytes),
        };
        (limit > 0).then_some(limit.max(LIMIT_BYTES_MIN))
    }

    /// Whether a client alone takes more than all may: its request need not run.
    pub(crate) fn outweighs(&self, client: &Client) -> bool {
        let most = self.client_limit().filter(|_| !client.session.spared && !client.is_replica());
        most.is_some_and(|most| client.memory_bytes() as u64 > most)
    }

    /// At the end of a turn, and before keys are evicted: above `maxmemory-clients` the clients
    /// that take most are closed.
    pub(crate) fn limit_clients(&mut self) {
        let Some(most) = self.client_limit() else { return };
        // What is above the limit may be what may not be closed: once is enough to find that out.
        if self.hub.clients.bytes() as u64 <= most.max(self.hub.clients.spared_bytes as u64) {
            return;
        }
        let counts = |client: &Client| !client.dead && !client.is_replica();
        let clients = self.hub.clients.others().filter(|(_, client)| counts(client));
        let (mut bytes, mut evictable) = (self.hub.clients.own_bytes, Vec::new());
        for (place, client) in clients {
            bytes += client.memory_bytes();
            if !client.session.spared {
                evictable.push((client.memory_bytes(), place));
            }
        }
        evictable.sort_unstable();
        while bytes as u64 > most
            && let Some((largest, place)) = evictable.pop()
        {
            bytes -= largest;
            if let Some(client) = self.hub.clients.get(place) {
                tracing::info!(
                    "evicting client {}: it takes {largest} bytes",
                    client.session.caller.peer
                );
            }
            self.meter.stats.evicted_clients += 1;
            self.hub.clients.doom(place);
            self.hub.clients.drop_replies(place);
        }
        self.hub.clients.spared_bytes = bytes;
    }
}
