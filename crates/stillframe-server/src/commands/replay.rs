//! Replaying requests through the table of commands.
//!
//! - Only commands that write, or may reach replicas for another reason (PFCOUNT, PUBLISH), and
//!   SELECT, MULTI and EXEC may run; other and unknown commands are refused.
//! - A refusal, even of a request within EXEC, means that the data differs from that of the first
//!   run.

use stillframe_keyspace::Keyspace;
use stillframe_resp::{Out, Protocol};

use super::{Context, Lookup, Table, dispatch, flags};
use crate::replay::{Client, ReplayError, Replays};
use crate::state::ServerState;

impl Replays for Table {
    fn replay(
        &self,
        keyspace: &mut Keyspace,
        server: &mut ServerState,
        (session, replies): Client<'_>,
        now: i64,
        args: &[&[u8]],
    ) -> Result<(), ReplayError> {
        server.clients.begin_replay(session);
        replies.clear();
        let out = Out::new(replies, Protocol::Resp2);
        let (table, refused, meanwhile) = (self, None, None);
        let ctx = &mut Context { keyspace, server, session, out, now, table, refused, meanwhile };
        apply(ctx, args)
    }
}

/// Replays a request. The session should be [internal](crate::client::Session::internal) and
/// the clock to stand still; the reply is left in the context's output.
fn apply(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), ReplayError> {
    let found = match ctx.table.lookup(args) {
        Lookup::Found(index) => Some(ctx.table.get(index)),
        Lookup::Unknown | Lookup::UnknownSubcommand => None,
    };
    let Some(command) = found.filter(|command| !command.has(flags::ABSENT)) else {
        return Err(ReplayError::Unknown);
    };
    if !command.has(flags::WRITE | flags::MAY_REPLICATE)
        && !command.is_exec()
        && !matches!(command.name, "select" | "multi")
    {
        return Err(ReplayError::ChangesNothing);
    }
    dispatch(ctx, args);
    let _ = ctx.keyspace.tend(); // nobody waits for its housekeeping
    ctx.refused.take().map_or(Ok(()), |refusal| Err(ReplayError::Fails(refusal)))
}
