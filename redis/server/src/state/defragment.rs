//! Defragmentation of the data, as far as the clock calls for it.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use stillframe_keyspace::Keyspace;

use super::eviction::{give_back, used_bytes};
use crate::data::memory::defrag::Limits;
use crate::node::config::Config;
use crate::node::machine;
use crate::state::ServerState;

/// Longest time that one slice takes.
const SLICE: Duration = Duration::from_micros(500);
/// Steps between two readings of the clock.
const STEPS: usize = 16;

/// A periodic run. Returns when to come back, if a pass is under way.
pub(crate) fn tend(keyspace: &mut Keyspace, state: &mut ServerState) -> Option<Duration> {
    let is_sparse = state.config.is_sparse?;
    if !state.config.defragments {
        state.memory.defrag.end();
        return None;
    }
    if state.memory.defrag.is_due(state.clock.turn()) && !has_images(keyspace, state) {
        let (resident, _) = machine::resident_bytes();
        let used = used_bytes(keyspace, state);
        if state.memory.defrag.look(resident, used, limits(&state.config)) {
            give_back(keyspace, state, false); // what other threads freed is known to be free then
        }
    }
    let pass = state.memory.defrag.pass().filter(|_| keyspace.is_movable())?;
    let (start, mut more) = (Instant::now(), true);
    let probed = RefCell::new(&mut pass.probed);
    let is_sparse = |address| is_sparse(address) || probed.borrow_mut().insert(address);
    while more && start.elapsed() < SLICE {
        more = keyspace.defragment(&mut pass.walk, STEPS, &is_sparse);
    }
    let took = start.elapsed();
    state.meter.note_event(&state.config, "active-defrag-cycle", took);
    let pause = state.memory.defrag.took(took);
    if !more {
        state.memory.defrag.end();
        give_back(keyspace, state, false);
    }
    more.then_some(pause)
}

/// Whether memory is in use that will be free soon.
fn has_images(keyspace: &Keyspace, state: &ServerState) -> bool {
    let stats = keyspace.stats();
    keyspace.saving()
        || stats.limbo_bytes + stats.view_bytes + stats.garbage_bytes > 0
        || state.is_loading()
}

fn limits(config: &Config) -> Limits {
    Limits {
        ignored_bytes: config.defrag_ignored_bytes,
        lower_percent: config.defrag_lower_percent.into(),
        upper_percent: config.defrag_upper_percent.into(),
        least_time: config.defrag_least_time.into(),
        most_time: config.defrag_most_time.into(),
    }
}
