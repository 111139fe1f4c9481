//! `maxmemory`: what counts, which keys go, and how long a request waits for that.
//!
//! - The count has the live data (entries and their place in the index), clients with their buffers
//!   but no replicas, sources of scripts and functions, and the server's own memory: INFO's
//!   `used_memory` less images, views, the stream to replicas and the log of a group.
//!   docs/internals/decisions.md argues why images do not count.
//! - A request makes room before it runs, for a bounded time; later requests and turns do the rest.
//!   A request that needs memory is refused only when no key may go.
//! - An eviction is a DEL for log and replicas, an `evicted` event, and a change for clients that
//!   watch or cache the key.

use std::time::{Duration, Instant};

use stillframe_keyspace::{Choice, Keyspace};

use crate::connections::client::SHARED_BYTES;
use crate::connections::clients::Clients;
use crate::peers::group::Member;
use crate::state::ServerState;

/// Longest time that eviction delays a request.
const SLICE: Duration = Duration::from_micros(500);
/// Keys evicted between two readings of the clock.
const BATCH: usize = 16;

/// Bytes of a server without data and clients: its read buffer and its state.
pub(crate) const OWN_BYTES: usize = SHARED_BYTES + size_of::<ServerState>();

/// Whether eviction has freed enough memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// Below the limit.
    Enough,
    /// Not yet, but there are keys to evict.
    Soon,
    /// Above the limit, and no key may go.
    None,
}

/// Memory in use: what `maxmemory` is compared with, what images, views and branches hold, the
/// stream to replicas, and the log of a group.
pub(crate) fn used_bytes(keyspace: &Keyspace, state: &ServerState) -> u64 {
    let stats = keyspace.stats();
    let images = stats.limbo_bytes + stats.view_bytes + arena_bytes(keyspace);
    let images = images + state.views.branch_bytes();
    let stream = state.replication.stream().memory();
    let log = state.group.member().map_or(0, Member::log_memory);
    counted_bytes(keyspace, state) + (images + stream) as u64 + log
}

/// The library reports the newest image, even when it has ended.
pub(crate) fn arena_bytes(keyspace: &Keyspace) -> usize {
    let progress = keyspace.progress();
    if progress.running() { progress.arena_bytes() } else { 0 }
}

/// Memory that counts for `maxmemory`, in bytes.
pub(crate) fn counted_bytes(keyspace: &Keyspace, state: &ServerState) -> u64 {
    let scripts = state.scripts.list_bytes(keyspace.libraries());
    let hot_keys = state.meter.hotkeys.as_ref().map_or(0, |it| it.memory());
    (keyspace.data_bytes() + state.clients.bytes() + scripts + hot_keys + OWN_BYTES) as u64
}

/// Evicts keys until memory is below the limit, for a short while.
#[cold]
pub(crate) fn make_room(keyspace: &mut Keyspace, state: &mut ServerState) -> Room {
    state.memory.evicting = false;
    let limit = state.config.maxmemory_bytes;
    if state.group.follows() {
        return Room::Enough; // what goes is the leader's choice
    }
    if state.replication.is_replica() && state.config.replication.ignore_maxmemory {
        return Room::Enough; // what goes is the primary's choice
    }
    let is_enough =
        |keyspace: &Keyspace, state: &ServerState| counted_bytes(keyspace, state) <= limit;
    if limit == 0 || state.is_loading() || is_enough(keyspace, state) {
        return Room::Enough;
    }
    let closed = state.clients.close_largest(&state.config); // before keys
    state.meter.evicted_clients(closed);
    if is_enough(keyspace, state) {
        return Room::Enough;
    }
    let Some(choice) = state.config.maxmemory_policy.choice(state.config.maxmemory_samples) else {
        return Room::None;
    };
    if state.postpones() {
        return Room::Soon; // the data stands still
    }
    let start = Instant::now();
    let room = loop {
        if !evict_batch(keyspace, state, choice, limit) {
            break Room::None;
        }
        if is_enough(keyspace, state) {
            break Room::Enough;
        }
        if start.elapsed() > SLICE {
            state.memory.evicting = true;
            break Room::Soon;
        }
    };
    state.meter.note_event(&state.config, "eviction-cycle", start.elapsed());
    room
}

/// Evicts some keys; false if none may go.
fn evict_batch(
    keyspace: &mut Keyspace,
    state: &mut ServerState,
    choice: Choice,
    limit: u64,
) -> bool {
    for _ in 0..BATCH {
        let random = &mut state.ledger.random;
        let Some((db, key)) = keyspace.evict(choice, &mut || random.bits()) else {
            return false;
        };
        state.meter.evicted_key();
        state.ledger.watches.touch(db, &key);
        state.ledger.gone(db, &key);
        state.ledger.notify('e', "evicted", db, &key);
        state.send_events();
        state.ledger.effects.seal(); // each by itself, as in Redis: nothing has to go together
        if counted_bytes(keyspace, state) <= limit {
            break;
        }
    }
    true
}

/// Gives free memory back to the system; waits for it only if somebody asked (MEMORY PURGE).
pub(crate) fn give_back(keyspace: &Keyspace, state: &mut ServerState, waits: bool) {
    state.memory.free.given_back(in_use_bytes(keyspace, &state.clients));
    if let Some(give_back) = state.config.give_back {
        let start = Instant::now();
        give_back(waits);
        state.meter.note_event(&state.config, "give-back", start.elapsed());
    }
}

/// A periodic run: gives back free memory if it is time to.
pub(crate) fn tend_free(keyspace: &Keyspace, state: &mut ServerState) {
    let used = in_use_bytes(keyspace, &state.clients);
    let requests = state.meter.stats().commands_processed;
    let frees = keyspace.stats().garbage_bytes > 0;
    if state.memory.free.is_due(used, requests, frees, state.clock.turn()) {
        give_back(keyspace, state, false);
    }
}

/// Bytes in use, or about to be freed.
fn in_use_bytes(keyspace: &Keyspace, clients: &Clients) -> usize {
    let figures = keyspace.stats();
    let old = figures.limbo_bytes + figures.view_bytes + figures.garbage_bytes;
    figures.entry_bytes + old + arena_bytes(keyspace) + clients.bytes()
}
