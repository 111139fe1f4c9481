//! Listening sockets and the connections that arrive there.
//!
//! - A connection that must be turned away gets one line of reason.
//! - When descriptors run out, connections wait in the kernel's queue and are tried again by the
//!   clock: no busy loop, and nobody is told off for a shortage that may pass.

use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use rustix::net::sockopt;

use crate::ServeError;
use crate::acl::DEFAULT;
use crate::poll::Poller;
use crate::session::Session;
use crate::state::ServerState;

/// The sockets the server listens on.
pub(crate) struct Listeners {
    sockets: Vec<(TcpListener, SocketAddr)>,
    /// An `accept` failed for lack of descriptors or memory: try again.
    pub(crate) retry: bool,
    last_complaint: Option<Instant>,
}

impl Listeners {
    /// Binds every configured address. An address with a `-` before it may be missing on this
    /// machine.
    pub(crate) fn bind(
        bind: &[String],
        port: u16,
        backlog: u32,
        poller: &Poller,
    ) -> Result<Self, ServeError> {
        let mut sockets = Vec::new();
        for name in bind {
            let optional = name.starts_with('-');
            let name = name.trim_start_matches('-');
            let failed = |error| ServeError::Bind { address: format!("{name}:{port}"), error };
            match open(name, port, backlog) {
                Ok(opened) => sockets.extend(opened),
                Err(error) if optional && absent(&error) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        for (number, (socket, address)) in sockets.iter_mut().enumerate() {
            let failed = |error| ServeError::Bind { address: address.to_string(), error };
            poller.add_listener(socket, number).map_err(failed)?;
        }
        Ok(Self { sockets, retry: false, last_complaint: None })
    }

    /// Where the server listens.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.sockets.iter().map(|(_, address)| *address)
    }

    /// The next connection at a socket that may be served, or `None` if none waits.
    pub(crate) fn accept(
        &mut self,
        number: usize,
        state: &mut ServerState,
    ) -> Option<(TcpStream, Session)> {
        loop {
            let (socket, _) = self.sockets.get(number)?;
            let (stream, peer) = match socket.accept() {
                Ok(accepted) => accepted,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return None,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => continue,
                    _ => {
                        self.complain(&error, state.loop_time);
                        return None;
                    }
                },
            };
            state.stats.connections_received += 1;
            match turned_away(peer, state) {
                Some(reason) => {
                    state.stats.rejected_connections += 1;
                    // Whether the peer gets to read it is up to the peer.
                    let _ = (&stream).write(format!("-{reason}\r\n").as_bytes());
                }
                None => {
                    configure(&stream, state.config.tcp_keepalive_seconds);
                    let local = stream.local_addr().unwrap_or(peer);
                    let free = state.users.is_open();
                    let id = state.clients.next_id();
                    tracing::debug!("client {id} at {peer} connected");
                    let fd = stream.as_raw_fd();
                    let session = Session::new(id, peer, local, fd, free, state.loop_time);
                    return Some((stream, session));
                }
            }
        }
    }

    fn complain(&mut self, error: &io::Error, now: Instant) {
        self.retry = true;
        let quiet = Duration::from_secs(1);
        if self.last_complaint.is_none_or(|last| now.duration_since(last) >= quiet) {
            self.last_complaint = Some(now);
            tracing::warn!("cannot accept connections for now: {error}");
        }
    }

    /// The number of sockets.
    pub(crate) fn count(&self) -> usize {
        self.sockets.len()
    }
}

fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
}

fn open(name: &str, port: u16, backlog: u32) -> io::Result<Vec<(TcpListener, SocketAddr)>> {
    let name = match name {
        "*" => "0.0.0.0",
        "::*" => "::",
        name => name,
    };
    let mut sockets = Vec::new();
    for address in (name, port).to_socket_addrs()? {
        let socket = TcpListener::bind(address)?;
        rustix::net::listen(&socket, i32::try_from(backlog).unwrap_or(i32::MAX))?;
        let address = socket.local_addr()?;
        sockets.push((socket, address));
    }
    Ok(sockets)
}

/// Why a connection cannot be served.
fn turned_away(peer: SocketAddr, state: &ServerState) -> Option<&'static str> {
    let config = &state.config;
    if state.clients.count() >= config.maxclients as usize {
        return Some("ERR max number of clients reached");
    }
    let protected =
        config.protected_mode && state.users.get(DEFAULT).is_some_and(|user| user.nopass);
    if protected && !peer.ip().to_canonical().is_loopback() {
        return Some(
            "DENIED Redis is running in protected mode because protected mode is enabled and no \
             password is set for the default user. Set one with --requirepass, or turn the \
             protection off with --protected-mode no, or connect from the same machine.",
        );
    }
    None
}

/// Small replies leave at once; dead peers are found in the end. Neither is worth failing for.
fn configure(stream: &TcpStream, keepalive_seconds: u32) {
    let _ = stream.set_nodelay(true);
    if keepalive_seconds > 0 {
        let idle = Duration::from_secs(keepalive_seconds.into());
        let between = Duration::from_secs((keepalive_seconds / 3).max(1).into());
        let _ = sockopt::set_socket_keepalive(stream, true);
        let _ = sockopt::set_tcp_keepidle(stream, idle);
        let _ = sockopt::set_tcp_keepintvl(stream, between);
        let _ = sockopt::set_tcp_keepcnt(stream, 3);
    }
}
