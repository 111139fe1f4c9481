//! Replaying requests through the table of commands.
//!
//! - Only commands that write, or may reach replicas for another reason (PFCOUNT, PUBLISH), and
//!   SELECT, MULTI and EXEC may run; other and unknown commands are refused.
//! - A refusal, even of a request within EXEC, means that the data differs from that of the first
//!   run.

use std::time::{Duration, Instant};

use stillframe_commands::Caller;
use stillframe_keyspace::Keyspace;
use stillframe_resp::{Out, Protocol};
use stillframe_storage::dump::StreamPoint;
use stillframe_storage::replay::{Records, ReplayError, Replays};
use stillframe_storage::{Host, Parts};

use super::{Context, Lookup, Table, dispatch, flags};
use crate::ServeError;
use crate::connections::client::Session;
use crate::state::ServerState;

/// The client of replayed requests, with the buffer for its replies.
pub(crate) struct Replay {
    session: Session,
    replies: Vec<u8>,
}

impl Default for Replay {
    /// A client that has selected database 0.
    fn default() -> Self {
        Self { session: Session::internal(), replies: Vec::new() }
    }
}

impl AsMut<Caller> for Replay {
    fn as_mut(&mut self) -> &mut Caller {
        &mut self.session.caller
    }
}

/// A server that serves nobody while it loads: a tool, or one whose command loads.
pub(crate) struct Alone<'a> {
    pub(crate) keyspace: &'a mut Keyspace,
    pub(crate) state: &'a mut ServerState,
    pub(crate) table: &'a Table,
}

impl Replays for Alone<'_> {
    type Client = Replay;

    fn replay(
        &mut self,
        Replay { session, replies }: &mut Replay,
        now: i64,
        args: &[&[u8]],
    ) -> Result<(), ReplayError> {
        replay(self, session, replies, now, args)
    }
}

impl Host for Alone<'_> {
    type Error = ServeError;

    fn parts(&mut self) -> Parts<'_> {
        let ServerState { ledger, storage, .. } = &mut *self.state;
        Parts { keyspace: self.keyspace, ledger, storage }
    }

    fn turn(&mut self, patience: Duration) -> Result<bool, ServeError> {
        // A save is under way: look again soon, and leave it the processor.
        std::thread::sleep(patience.min(Duration::from_micros(20)));
        Ok(true)
    }

    fn note_slice(&mut self, point: Option<StreamPoint>, gone: Vec<(usize, Vec<u8>)>) {
        let backlog_bytes = self.state.config.replication.backlog_bytes;
        self.state.replication.go_on_behind(point, gone, backlog_bytes);
    }

    fn note_replayed(&mut self, records: u64) {
        if records > 0 {
            self.state.replication.forget_loaded();
        }
        self.state.meter.reset(self.keyspace.stats(), Instant::now());
    }

    fn point(&self) -> Option<StreamPoint> {
        self.state.replication.point()
    }
}

/// Replays a request of a session that should be [internal](Session::internal), while the clock
/// stands still.
///
/// # Errors
/// [`ReplayError`]: the end of a sentence that begins with the request.
pub(crate) fn replay(
    alone: &mut Alone<'_>,
    session: &mut Session,
    replies: &mut Vec<u8>,
    now: i64,
    args: &[&[u8]],
) -> Result<(), ReplayError> {
    let Alone { keyspace, state: server, table } = alone;
    server.clients.begin_replay(session);
    replies.clear();
    let Lookup::Found(index) = table.lookup(args) else { return Err(ReplayError::Unknown) };
    let command = table.get(index);
    if command.has(flags::ABSENT) {
        return Err(ReplayError::Unknown);
    }
    if !command.has(flags::WRITE | flags::MAY_REPLICATE)
        && !matches!(command.name, "select" | "multi" | "exec")
    {
        return Err(ReplayError::ChangesNothing);
    }
    let out = Out::new(replies, Protocol::Resp2);
    let (refused, meanwhile, branch) = (None, None, None);
    let mut ctx =
        Context { keyspace, server, session, out, now, table, refused, meanwhile, branch };
    dispatch(&mut ctx, args);
    let _ = ctx.keyspace.tend(); // nobody waits for its housekeeping
    ctx.refused.take().map_or(Ok(()), |refusal| Err(ReplayError::Fails(refusal)))
}

/// Applies a batch of a group's log: units, each behind its length.
pub(crate) fn replay_units(
    records: &mut Records<Replay>,
    to: &mut Alone<'_>,
    mut units: &[u8],
) -> Result<(), String> {
    while let Some((length, rest)) = units.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let (unit, rest) = rest.split_at_checked(length).ok_or("a unit is cut")?;
        records.apply(to, unit).map_err(|error| error.to_string())?;
        units = rest;
    }
    if units.is_empty() { Ok(()) } else { Err("a length is cut".into()) }
}
