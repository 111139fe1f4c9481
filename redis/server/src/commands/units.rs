//! How much a member of a group may write at once: `raft-write-max-size`.

use stillframe_commands::{Refusal, request_bytes};

use super::{Command, Context};
use crate::state::ServerState;

/// Bytes that a unit has beside its requests: SELECT, MULTI, EXEC, its length.
const UNIT_HEAD_BYTES: usize = 64;

/// The refusal of a request or a transaction that changes, as it stands, more than a member may
/// propose.
pub(super) fn too_large(ctx: &Context<'_>, command: &Command, args: &[&[u8]]) -> Option<Refusal> {
    let member = ctx.server.group.member()?;
    let queued = ctx.session.caller.transaction.as_ref();
    let queued = queued.map_or(0, |transaction| transaction.requests.request_bytes());
    let own = if command.is_exec() { 0 } else { bytes_of(args) };
    let bytes = queued + own + UNIT_HEAD_BYTES;
    (!member.takes_unit(bytes)).then(|| {
        let most = member.unit_bytes_max();
        format!(
            "ERR {bytes} bytes to write at once are more than raft-write-max-size, {most}: nothing \
             was done"
        )
        .into()
    })
}

fn bytes_of(args: &[&[u8]]) -> usize {
    request_bytes(args.iter().map(|arg| arg.len()))
}

/// The refusal of a request within a script or a transaction with which that would change more than
/// a member may propose.
pub(super) fn outgrows_unit(server: &ServerState, args: &[&[u8]]) -> Option<Refusal> {
    let member = server.group.member()?;
    let bytes = server.ledger.effects.open_bytes() + bytes_of(args) + UNIT_HEAD_BYTES;
    (!member.takes_unit(bytes)).then(|| {
        format!(
            "ERR A script or transaction may change {} bytes (raft-write-max-size): this request \
             was not done, and what it did before counts",
            member.unit_bytes_max()
        )
        .into()
    })
}
