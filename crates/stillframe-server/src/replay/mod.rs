//! Replaying requests that ran once: those of a log, of an append-only file, of a primary.
//!
//! - The table of commands runs them ([`Replays`]); their readers know no command.
//! - The clock stands still: requests hold the times at which keys expire.

mod error;
mod loading;

use std::time::Duration;

use stillframe_keyspace::{DATABASES, Keyspace};
use stillframe_resp::{Limits, Parser};

use crate::ServeError;
use crate::client::Session;
use crate::state::ServerState;
pub(crate) use error::{RecordError, ReplayError};
pub(crate) use loading::{Loading, SLICE, delay};

/// The client of a replayed request: an [internal](Session::internal) session, and the buffer for
/// the reply.
pub(crate) type Client<'a> = (&'a mut Session, &'a mut Vec<u8>);

/// Replays requests: the table of commands.
pub(crate) trait Replays {
    /// Replays a request at `now`.
    ///
    /// # Errors
    /// [`ReplayError`]: why that failed.
    fn replay(
        &self,
        keyspace: &mut Keyspace,
        state: &mut ServerState,
        client: Client<'_>,
        now: i64,
        args: &[&[u8]],
    ) -> Result<(), ReplayError>;
}

/// The target of replayed requests, and the table that runs them.
pub(crate) type Parts<'a> = (&'a mut Keyspace, &'a mut ServerState, &'a dyn Replays);

/// A server that loads its data.
pub(crate) trait Host {
    /// The target of the load.
    fn parts(&mut self) -> Parts<'_>;

    /// Serves clients for a turn, which waits for them at most so long; false if the server ends.
    ///
    /// # Errors
    /// [`ServeError`] when that fails.
    fn turn(&mut self, patience: Duration) -> Result<bool, ServeError>;
}

/// The client of a file's requests.
pub(crate) struct Replay {
    session: Session,
    replies: Vec<u8>,
}

impl Replay {
    /// A client that has selected database 0.
    pub(crate) fn new() -> Self {
        Self { session: Session::internal(), replies: Vec::new() }
    }

    /// Replays a request at `now`.
    ///
    /// # Errors
    /// [`ReplayError`]: the end of a sentence that [`named`] begins.
    pub(crate) fn run(
        &mut self,
        (keyspace, state, table): Parts<'_>,
        now: i64,
        args: &[&[u8]],
    ) -> Result<(), ReplayError> {
        let Self { session, replies } = self;
        table.replay(keyspace, state, (session, replies), now, args)
    }
}

/// Applies the records of a log.
pub(crate) struct Records {
    replay: Replay,
    parser: Parser,
    requests: Vec<u8>,
}

impl Records {
    /// None yet.
    pub(crate) fn new() -> Self {
        let limits = Limits { bulk_bytes_max: u32::MAX as usize, ..Limits::OPEN };
        Self { replay: Replay::new(), parser: Parser::new(limits), requests: Vec::new() }
    }

    /// Applies the payload of one: a database, and requests.
    ///
    /// # Errors
    /// [`RecordError`].
    pub(crate) fn apply(
        &mut self,
        (keyspace, state, table): Parts<'_>,
        payload: &[u8],
    ) -> Result<(), RecordError> {
        let Self { replay, parser, requests } = self;
        let (db, payload) = payload
            .split_first()
            .map(|(&db, payload)| (usize::from(db), payload))
            .filter(|&(db, _)| db < DATABASES)
            .ok_or(RecordError::Payload)?;
        replay.session.caller.db = db;
        requests.clear();
        requests.extend_from_slice(payload);
        let mut at = 0;
        while at < requests.len() {
            let used = match parser.parse(&mut requests[at..]) {
                Ok(Some(used)) => used,
                Ok(None) => return Err(RecordError::Cut),
                Err(error) => return Err(error.into()),
            };
            let request = &requests[at..at + used];
            let ranges = parser.args().iter();
            let args: Vec<&[u8]> =
                ranges.map(|range| request.get(range.clone()).unwrap_or_default()).collect();
            at += used;
            let applied = replay.run((&mut *keyspace, &mut *state, table), 0, &args);
            applied.map_err(|source| RecordError::Command { named: named(&args), source })?;
        }
        match replay.session.caller.transaction {
            None => Ok(()),
            Some(_) => Err(RecordError::Open),
        }
    }
}

/// A request for an error's text: its name, and its first argument, which is the key of most.
pub(crate) fn named(args: &[&[u8]]) -> String {
    const SHOWN_BYTES_MAX: usize = 100;
    let shown = |bytes: &[u8]| match bytes.get(..SHOWN_BYTES_MAX) {
        Some(start) if bytes.len() > SHOWN_BYTES_MAX => format!("{}...", start.escape_ascii()),
        _ => bytes.escape_ascii().to_string(),
    };
    let name = shown(args.first().copied().unwrap_or_default()).to_uppercase();
    match args.get(1) {
        Some(key) => format!("{name} of key \"{}\"", shown(key)),
        None => name,
    }
}
