//! Periodic work: expiry, schedules of saves, timeouts of clients, rates.
//!
//! - Runs `hz` times a second, more often while expired keys pile up; a run is short whatever the
//!   number of keys. Every client is weighed at each run, and checked once a second.

use std::time::{Duration, Instant};

use super::clients::Sockets;
use super::{Server, accept};
use crate::connections::clients::Clients;
use crate::node::config::Config;
use crate::node::process::{LastSave, Signal, Wish};
use crate::state::shutdown::{self, Answer};
use crate::state::{defragment, eviction, own_expiry, persistence, primary};

/// Longest time that one run may spend on deleting expired keys.
const EXPIRY_SLICE: Duration = Duration::from_millis(1);
/// Pause after a slice that did not finish: a quarter of the time at most goes to expiry.
const EXPIRY_PAUSE: Duration = Duration::from_millis(3);
/// Keys visited between two readings of the clock.
const EXPIRY_BATCH: usize = 64;
/// Hashes looked at and fields deleted before the clock is read again.
const FIELDS_BATCH: usize = 256;

/// Longest time that a TLS handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Does the work that is due, and returns when to come back.
pub(crate) fn run(server: &mut Server) -> Instant {
    if server.state.clock.stands() {
        return Instant::now() + Duration::from_secs(1) / server.state.config.hz;
    }
    if let Some(signal) = server.state.process.take_signal() {
        obey(server, signal);
        if server.state.process.stops() {
            return Instant::now(); // the image that was saved is the last state
        }
    }
    let is_replica = server.state.replication.is_replica();
    let expires = server.state.clock.expires() && !server.state.spares_expired();
    let more_expired = !server.state.postpones() && expires && expire(server);
    if is_replica && !server.state.postpones() && server.state.clock.expires() {
        own_expiry::expire_own(&mut server.keyspace, &mut server.state);
    }
    let closed = server.state.clients.weigh_again(&server.state.config);
    server.state.meter.evicted_clients(closed);
    // While an image is loaded there is nothing to save.
    if !server.state.is_loading() {
        persistence::run_schedule(&mut server.keyspace, &mut server.state);
    }
    server.state.storage.journal.sample(server.state.clock.turn());
    primary::tend_replicas(&mut server.keyspace, &mut server.state);
    attend_clients(server);
    let period = Duration::from_secs(1) / server.state.config.hz;
    let defrags = defragment::tend(&mut server.keyspace, &mut server.state);
    let pause = if more_expired { EXPIRY_PAUSE } else { period };
    Instant::now() + defrags.map_or(pause, |until| until.min(pause))
}

/// Handles a signal that asks for shutdown.
fn obey(server: &mut Server, signal: Signal) {
    tracing::warn!("asked to stop");
    let running = &server.state.config.process;
    let asked = match signal {
        Signal::Int => running.on_sigint,
        Signal::Term => running.on_sigterm,
        Signal::Last => running.on_sigterm.at_any_price(),
    };
    let last_save = match asked.saves {
        None => LastSave::IfScheduled,
        Some(true) => LastSave::Always,
        Some(false) => LastSave::Never,
    };
    let wish = Wish { last_save, force: asked.force, now: asked.now };
    let outcome = shutdown::ask(&mut server.keyspace, &mut server.state, wish);
    if outcome == Answer::Refused {
        server.state.process.forget_signals();
    }
}

/// Does the periodic work on clients, also while data is loaded.
pub(crate) fn attend_clients(server: &mut Server) {
    let now = server.state.clock.turn();
    server.state.meter.sample(now);
    eviction::tend_free(&server.keyspace, &mut server.state);
    for socket in server.state.net.take_unasked() {
        let Sockets { poller, io_threads, .. } = &mut server.sockets;
        accept::all(&mut server.state, poller, io_threads, socket);
    }
    if now >= server.next_client_check {
        server.next_client_check = now + Duration::from_secs(1);
        check_clients(&mut server.state.clients, &server.state.config, now);
        server.state.net.tend_peers(now);
    }
}

/// Deletes expired keys for a while. Returns whether many are left.
fn expire(server: &mut Server) -> bool {
    let start = Instant::now();
    server.state.clock.read();
    let unix_now = server.state.clock.unix_now();
    let (mut more, mut keys, mut fields) = (true, 0, 0);
    while more && start.elapsed() < EXPIRY_SLICE {
        // Few of the keys and hashes had expired: lazy expiry and later runs take the rest.
        let expired = server.keyspace.expire_cycle(unix_now, EXPIRY_BATCH);
        let expired_fields = server.keyspace.expire_fields_cycle(unix_now, FIELDS_BATCH);
        more = expired > EXPIRY_BATCH / 4 || expired_fields > FIELDS_BATCH / 4;
        (keys, fields) = (keys + expired, fields + expired_fields);
        server.state.note_expired(&mut server.keyspace);
        server.state.ledger.effects.seal();
    }
    let took = start.elapsed();
    server.state.meter.expired(took, more, [keys, fields]);
    server.state.meter.note_event(&server.state.config, "expire-cycle", took);
    more
}

/// Closes clients that have been idle, or have not read their replies, for too long.
fn check_clients(clients: &mut Clients, config: &Config, now: Instant) {
    let timeout = Duration::from_secs(config.timeout_seconds.into());
    let limits = config.output_limits;
    let mut gone = Vec::new();
    for (place, client) in clients.others_mut() {
        let idle = now.saturating_duration_since(client.session.active);
        let greets = client.wire.is_handshaking();
        let waits = client.session.subscriptions.is_some()
            || client.session.caller.waits
            || client.session.replica.is_some();
        if greets && now.saturating_duration_since(client.session.connected) > HANDSHAKE_MAX {
            tracing::info!(
                "closing {}: its TLS handshake does not end",
                client.session.caller.peer
            );
            gone.push(place);
        } else if !timeout.is_zero() && idle > timeout && !waits {
            tracing::debug!("closing idle client {}", client.session.caller.peer);
            gone.push(place);
        } else if client.over_output_limit(client.output_limit(&limits), now) {
            gone.push(place);
        }
    }
    gone.into_iter().for_each(|place| clients.close_later(place));
}
