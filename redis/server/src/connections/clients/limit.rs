//! The limit on the memory of all clients (`maxmemory-clients`).

use super::Clients;
use crate::connections::client::Client;
use crate::node::config::{Config, Size};

impl Clients {
    /// Weighs clients again, and closes the largest above `maxmemory-clients`. Returns how many.
    pub(crate) fn weigh_again(&mut self, config: &Config) -> u64 {
        self.weigh_all();
        self.spared_bytes = 0;
        self.close_largest(config)
    }

    /// Closes the largest clients above `maxmemory-clients`, at the end of a turn and before keys
    /// are evicted. Returns how many.
    pub(crate) fn close_largest(&mut self, config: &Config) -> u64 {
        let Some(most) = limit(config) else { return 0 };
        // The excess may belong to clients that may not be closed: once is enough to find that out.
        if self.bytes() as u64 <= most.max(self.spared_bytes as u64) {
            return 0;
        }
        let mut closed = 0;
        let counts = |client: &Client| !client.dead && !client.is_replica();
        let clients = self.others().filter(|(_, client)| counts(client));
        let (mut bytes, mut evictable) = (self.served.bytes(), Vec::new());
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
            if let Some(client) = self.get(place) {
                tracing::info!(
                    "evicting client {}: it takes {largest} bytes",
                    client.session.caller.peer
                );
            }
            closed += 1;
            self.close_later(place);
            self.drop_replies(place);
        }
        self.spared_bytes = bytes;
        closed
    }
}

/// The limit on the memory of all clients, if there is one.
fn limit(config: &Config) -> Option<u64> {
    /// The least limit, whatever the setting: an operator must get through.
    const LIMIT_BYTES_MIN: u64 = 128 << 10;
    let limit = match config.maxmemory_clients {
        Size::Bytes(bytes) => bytes,
        share => share.bytes(config.maxmemory_bytes),
    };
    (limit > 0).then_some(limit.max(LIMIT_BYTES_MIN))
}

/// Whether a client alone exceeds the limit of all, so that its request does not run.
pub(crate) fn outweighs(client: &Client, config: &Config) -> bool {
    let most = limit(config).filter(|_| !client.session.spared && !client.is_replica());
    most.is_some_and(|most| client.memory_bytes() as u64 > most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_leaves_room_for_an_operator() {
        let of = |clients: &str, memory: &str| {
            let mut config = Config::default();
            config.set("maxmemory", &[memory]).expect("a setting");
            config.set("maxmemory-clients", &[clients]).expect("a setting");
            limit(&config)
        };
        assert_eq!(of("0", "1gb"), None);
        assert_eq!(of("1", "0"), Some(128 << 10));
        assert_eq!(of("1mb", "0"), Some(1 << 20));
        assert_eq!(of("50%", "800mb"), Some(400 << 20));
        assert_eq!(of("50%", "0"), None, "a share of no limit is none");
    }
}
