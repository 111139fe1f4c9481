//! Replaying requests that ran once: those of a log, of an append-only file, of a primary.
//!
//! - The table of commands runs them ([`Replays`]); their readers know no command.
//! - The clock stands still: requests hold the times at which keys expire.

mod error;
mod loading;

use stillframe_commands::Caller;
use stillframe_keyspace::DATABASES;
use stillframe_resp::{Limits, Parser};

pub use error::{RecordError, ReplayError};
pub use loading::{Loading, SLICE, delay};

/// Runs requests again.
pub trait Replays {
    /// The client of replayed requests: an internal [caller](Caller::internal), and what else they
    /// need from one request to the next.
    type Client: AsMut<Caller> + Default;

    /// Replays a request at `now`.
    ///
    /// # Errors
    /// [`ReplayError`]: the end of a sentence that [`named`] begins.
    fn replay(
        &mut self,
        client: &mut Self::Client,
        now: i64,
        args: &[&[u8]],
    ) -> Result<(), ReplayError>;
}

/// Applies the records of a log.
pub struct Records<C> {
    client: C,
    parser: Parser,
    requests: Vec<u8>,
}

impl<C: AsMut<Caller> + Default> Default for Records<C> {
    /// None yet.
    fn default() -> Self {
        let limits = Limits { bulk_bytes_max: u32::MAX as usize, ..Limits::OPEN };
        Self { client: C::default(), parser: Parser::new(limits), requests: Vec::new() }
    }
}

impl<C: AsMut<Caller> + Default> Records<C> {
    /// Applies the payload of one: a database, and requests.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn apply(
        &mut self,
        to: &mut impl Replays<Client = C>,
        payload: &[u8],
    ) -> Result<(), RecordError> {
        let Self { client, parser, requests } = self;
        let (db, payload) = payload
            .split_first()
            .map(|(&db, payload)| (usize::from(db), payload))
            .filter(|&(db, _)| db < DATABASES)
            .ok_or(RecordError::Payload)?;
        client.as_mut().db = db;
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
            let applied = to.replay(client, 0, &args);
            applied.map_err(|source| RecordError::Command { named: named(&args), source })?;
        }
        match client.as_mut().transaction {
            None => Ok(()),
            Some(_) => Err(RecordError::Open),
        }
    }
}

/// A request for an error's text: its name, and its first argument, which is the key of most.
pub fn named(args: &[&[u8]]) -> String {
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
