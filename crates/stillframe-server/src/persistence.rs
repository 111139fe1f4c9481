//! stub
use stillframe::Algorithm;
use stillframe_keyspace::Keyspace;

use crate::state::ServerState;

pub(crate) struct Saves {
    pub(crate) last_ok: bool,
}

impl Saves {
    pub(crate) fn new() -> Self {
        Self { last_ok: true }
    }
}

pub(crate) fn attend<A: Algorithm>(_keyspace: &mut Keyspace<A>, _state: &mut ServerState) {}
pub(crate) fn run_schedule<A: Algorithm>(_keyspace: &mut Keyspace<A>, _state: &mut ServerState) {}
pub(crate) fn stop<A: Algorithm>(
    _keyspace: &mut Keyspace<A>,
    state: &mut ServerState,
    _save: Option<bool>,
) {
    state.stopping = true;
}
