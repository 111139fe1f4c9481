//! Admission: connections that may be served become clients.

use std::io;

use stillframe_commands::Address;
use stillframe_resp::Limits;

use crate::connections::client::{Client, Session, Wire};
use crate::connections::io_threads::IoThreads;
use crate::connections::net::{Poller, Stream};
use crate::node::acl::DEFAULT;
use crate::node::config::Config;
use crate::state::ServerState;

/// Accepts the connections that wait at one listening socket.
pub(super) fn all(
    state: &mut ServerState,
    poller: &Poller,
    io_threads: &mut IoThreads,
    number: usize,
) {
    while let Some((stream, mut session)) = admit(state, number) {
        let place = state.clients.reserve();
        let wire = match watch(stream, place, session.caller.id, poller, io_threads) {
            Ok(wire) => wire,
            Err(error) => {
                tracing::warn!("cannot watch a connection: {error}");
                state.clients.release(place);
                continue;
            }
        };
        session.caller.place = place;
        let limits = limits(&state.config, session.authenticated);
        let client = Client::new(wire, session, limits);
        state.clients.put(place, Box::new(client));
    }
}

/// Has a socket watched, by an I/O thread if there are any.
fn watch(
    stream: Stream,
    place: usize,
    id: u64,
    poller: &Poller,
    io_threads: &mut IoThreads,
) -> io::Result<Wire> {
    let opened = match stream {
        Stream::Memory(_) => Err(stream), // there is nothing to relieve this thread of
        socket => io_threads.open(socket, place, id),
    };
    let mut stream = match opened {
        Ok(remote) => return Ok(Wire::Remote(remote)),
        Err(stream) => stream,
    };
    // The first bytes bring an event, since it was registered after it was accepted.
    poller.add_client(&mut stream, place)?;
    Ok(Wire::Local(stream))
}

/// The next connection at a socket that may be served, or `None` if none waits.
fn admit(state: &mut ServerState, number: usize) -> Option<(Stream, Session)> {
    loop {
        let now = state.clock.turn();
        let (mut stream, peer, local) = state.net.accept(number, &state.config, now)?;
        state.meter.accepted();
        let Some(reason) = turned_away(state, &peer) else {
            let free = state.users.is_open();
            let id = state.clients.next_id();
            tracing::debug!("client {id} at {peer} connected");
            let fd = stream.number();
            return Some((stream, Session::new(id, peer, local, fd, free, now)));
        };
        state.meter.turned_away();
        if !stream.is_handshaking() {
            // The peer may or may not read it.
            let _ = stream.write(format!("-{reason}\r\n").as_bytes());
        } else {
            // A TLS peer could read the reason only after a handshake.
            tracing::info!("turning {peer} away: {reason}");
        }
    }
}

/// Why a connection cannot be served.
fn turned_away(state: &ServerState, peer: &Address) -> Option<&'static str> {
    let config = &state.config;
    if state.clients.count() >= config.maxclients as usize {
        return Some("ERR max number of clients reached");
    }
    let has_no_password = || state.users.get(DEFAULT).is_some_and(|user| user.nopass);
    if config.protected_mode && has_no_password() && !peer.is_local() {
        return Some(
            "DENIED Redis is running in protected mode because protected mode is enabled and no \
             password is set for the default user. Set one with --requirepass, or turn the \
             protection off with --protected-mode no, or connect from the same machine.",
        );
    }
    None
}

/// The limits of a client's requests.
pub(crate) fn limits(config: &Config, authenticated: bool) -> Limits {
    Limits { bulk_bytes_max: config.bulk_bytes_max, authenticated, ..Limits::OPEN }
}
