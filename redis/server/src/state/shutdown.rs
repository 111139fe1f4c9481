//! Shutdown while replicas are behind: writes are postponed until the replicas have everything, or
//! `shutdown-timeout` is over.
//!
//! - A client of SHUTDOWN blocks as in BLPOP, and gets a reply only if the shutdown is aborted.
//! - Replicas need the stream up to the moment of the request; postponed writes are not lost,
//!   because they have no reply.

use std::time::{Duration, Instant};

use stillframe_keyspace::{Keyspace, Type};

use crate::connections::client::{Phase, Session};
use crate::connections::clients::Clients;
use crate::node::process::{Ending, LastSave, Wish, notify};
use crate::state::ServerState;
use crate::state::persistence;
use crate::state::primary::transfer;

use stillframe_commands::{Refusal, Waiter};

/// The outcome of a request to shut down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The server ends with this turn.
    Ends,
    /// It waits for replicas.
    Waits,
    /// The data could not be saved.
    Refused,
}

/// Ends the server, or begins to wait for its replicas.
pub(crate) fn ask(keyspace: &mut Keyspace, state: &mut ServerState, wish: Wish) -> Answer {
    if state.process.ending.is_some() && !wish.now {
        return Answer::Waits;
    }
    let timeout = Duration::from_secs(state.config.process.shutdown_timeout_s.into());
    if !state.scripts.is_running() {
        persistence::hand_on(keyspace, state);
    }
    let offset = state.replication.stream().end();
    if !wish.now && !timeout.is_zero() {
        let behind = replicas_behind(&state.clients, offset);
        if behind > 0 {
            tracing::warn!("{behind} replicas are behind: the end waits for them, and writes wait");
            let deadline = Instant::now() + timeout;
            state.process.ending = Some(Ending { wish, offset, deadline, waiters: Vec::new() });
            state.replication.ask();
            return Answer::Waits;
        }
    }
    log_replicas(&state.clients, offset);
    let ends = stop(keyspace, state, wish.last_save, wish.force);
    if ends { Answer::Ends } else { Answer::Refused }
}

/// Stops the server at the end of this turn, unless a needed save fails. `force`: stop even then.
///
/// - Data that is being loaded is not saved: it is on the disk, and only half of it is here.
/// - A script that runs ends with the server, and leaves nothing in the log or at replicas.
/// - While `appendonly` is on and no log counts, only an image can keep the data: the server saves,
///   and where that is forbidden it stops only by force, as Redis does.
fn stop(
    keyspace: &mut Keyspace,
    state: &mut ServerState,
    last_save: LastSave,
    force: bool,
) -> bool {
    let unlogged = state.config.appendonly && !state.storage.journal.is_on() && !state.is_loading();
    if unlogged && last_save == LastSave::Never && !force {
        tracing::error!("not stopping: the log does not count yet, and a save is not wanted");
        return false;
    }
    if state.scripts.is_running() {
        state.ledger.effects.abandon(); // what it did so far is no unit
    }
    transfer::abort(keyspace, state);
    if state.storage.saves.running().is_some() {
        tracing::info!("cancelling the save under way");
        if let Some(member) = state.group.member_mut() {
            member.give_up_label();
        }
        state.storage.give_up(keyspace);
        state.storage.wait(keyspace, &mut state.ledger);
    }
    let save = match last_save {
        _ if state.is_loading() => false,
        // A member has all in the log of its group.
        LastSave::IfScheduled if state.group.member().is_some() => false,
        LastSave::IfScheduled => !state.config.save.is_empty() || unlogged,
        LastSave::Always => true,
        LastSave::Never => false,
    };
    // Propagate everything before the image holds the offset of the stream.
    persistence::hand_on(keyspace, state);
    state.replication.end_turn(&mut state.ledger.effects);
    if save && persistence::save_and_wait(keyspace, state).is_err() && !force {
        tracing::error!("Error trying to save the DB, can't exit");
        return false;
    }
    tracing::info!("ready to exit, bye bye");
    notify(state.config.process.supervised, "STOPPING=1");
    state.net.close(); // before the end of a connection tells a client that the server is gone
    state.process.stop();
    true
}

/// How many replicas that follow the stream have not applied it up to `offset`.
fn replicas_behind(clients: &Clients, offset: u64) -> usize {
    let replicas = clients.others().filter_map(|(_, client)| client.replica());
    replicas.filter(|it| it.phase == Phase::Online && it.acked < Some(offset)).count()
}

/// Logs which replicas have not applied the stream up to `offset`, and how many have.
fn log_replicas(clients: &Clients, offset: u64) {
    let (mut all, mut synced) = (0, 0);
    for (_, client) in clients.others() {
        let Some(replica) = client.replica() else { continue };
        all += 1;
        if replica.phase == Phase::Online && replica.acked >= Some(offset) {
            synced += 1;
        } else {
            let (peer, acked) = (&client.session.caller.peer, replica.acked.unwrap_or(0));
            tracing::warn!("Lagging replica {peer} reported offset {acked} of {offset}");
        }
    }
    if all > 0 {
        tracing::info!("{synced} of {all} replicas are in sync when shutting down");
    }
}

/// Blocks the client of a SHUTDOWN until the end.
pub(crate) fn await_end(state: &mut ServerState, session: &mut Session) {
    let Some(ending) = &mut state.process.ending else { return };
    ending.waiters.push(session.caller.id);
    session.caller.waits = true;
    let waiter = Waiter {
        place: session.caller.place,
        db: session.caller.db,
        keys: Vec::new(),
        kind: Type::String, // of no key
        group: None,
        deadline: None,
        command: session.caller.last_command,
        before: Vec::new(),
        after: Vec::new(),
        acks: None,
        again: None,
        ticket: 0,
    };
    state.ledger.waiters.park(session.caller.id, waiter);
}

/// Aborts a shutdown, even one that a signal has only asked for; false if there is none.
pub(crate) fn abort(state: &mut ServerState) -> bool {
    let ending = state.process.ending.take();
    let is_due = ending.is_some() || state.process.is_asked_to_stop();
    state.process.forget_signals();
    refuse_waiters(state, &ending.map_or(Vec::new(), |ending| ending.waiters));
    is_due
}

fn refuse_waiters(state: &mut ServerState, waiters: &[u64]) {
    for &id in waiters {
        state.unblock(id, |_| Err(FAILED));
    }
}

/// The reply when the server does not shut down.
pub(crate) const FAILED: Refusal = Refusal::new("ERR Errors trying to SHUTDOWN. Check logs.");

/// Ends the server if its replicas have everything, or the time is over. Called every turn.
pub(crate) fn attend(keyspace: &mut Keyspace, state: &mut ServerState) {
    let Some(ending) = &state.process.ending else { return };
    let behind = replicas_behind(&state.clients, ending.offset);
    if behind > 0 && state.clock.turn() < ending.deadline {
        return;
    }
    if behind > 0 {
        tracing::warn!("{behind} replicas are still behind (shutdown-timeout): ending anyway");
    }
    let Some(Ending { wish, offset, waiters, .. }) = state.process.ending.take() else { return };
    log_replicas(&state.clients, offset);
    if !stop(keyspace, state, wish.last_save, wish.force) {
        tracing::error!("Errors trying to shut down: the server goes on");
        state.process.forget_signals();
        refuse_waiters(state, &waiters);
    }
}
