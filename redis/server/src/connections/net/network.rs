//! The server's connections to others.

use std::ops::Range;
use std::time::Instant;

use super::listen::Accepted;
use super::{Listeners, Peer, Peers};
use crate::connections::tls::Tls;
use crate::{Config, ServeError};

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Network {
    /// The sockets it listens on.
    listeners: Listeners,
    /// The material of TLS connections.
    tls: Tls,
    /// Connections to servers to which keys were moved lately.
    peers: Peers,
}

impl Network {
    /// A server that listens.
    pub(crate) fn new(listeners: Listeners, tls: Tls) -> Self {
        Self { listeners, tls, peers: Peers::default() }
    }

    /// The next connection at a listening socket, or `None` if none waits.
    pub(crate) fn accept(
        &mut self,
        socket: usize,
        config: &Config,
        now: Instant,
    ) -> Option<Accepted> {
        self.listeners.next(socket, config.tcp_keepalive_seconds, &self.tls, now)
    }

    /// The listening sockets at which connections may wait without an event.
    pub(crate) fn take_unasked(&mut self) -> Range<usize> {
        if self.listeners.take_retry() { 0..self.listeners.count() } else { 0..0 }
    }

    /// Listens as `config` says, or, if that fails, goes on as `before` says.
    ///
    /// # Errors
    /// [`ServeError`]: an address cannot be used.
    pub(crate) fn listen_anew(
        &mut self,
        config: &Config,
        before: &Config,
    ) -> Result<(), ServeError> {
        let (port, _) = self.ports(); // the system chose it if the setting is 0
        self.listeners.change(config, &Config { port, ..before.clone() })
    }

    /// The ports for plain TCP and for TLS, 0 where there is none.
    pub(crate) fn ports(&self) -> (u16, u16) {
        self.listeners.ports()
    }

    /// Accepts nobody any more.
    pub(crate) fn close(&mut self) {
        self.listeners.close();
    }

    /// Logs where the server listens.
    pub(crate) fn announce(&self) {
        self.listeners.announce();
    }

    /// The material of new TLS connections.
    pub(crate) fn tls(&self) -> &Tls {
        &self.tls
    }

    /// New TLS connections use this material.
    pub(crate) fn renew_tls(&mut self, tls: Tls) {
        self.tls = tls;
    }

    /// Takes the kept connection to a server.
    pub(crate) fn take_peer(&mut self, host: &[u8], port: &[u8]) -> Option<Peer> {
        self.peers.take(host, port)
    }

    /// Keeps the connection to a server.
    pub(crate) fn keep_peer(&mut self, host: &[u8], port: &[u8], peer: Peer) {
        self.peers.keep(host, port, peer);
    }

    /// Closes kept connections that were unused for a while.
    pub(crate) fn tend_peers(&mut self, now: Instant) {
        self.peers.tend(now);
    }

    /// How many connections to servers are kept.
    pub(crate) fn peers(&self) -> usize {
        self.peers.count()
    }
}
