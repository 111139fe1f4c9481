//! The log at start: what the dump file names is replayed, what it does not name is a leftover.
//!
//! - A log that the dump names is replayed whatever `appendonly` says now: what was acknowledged is
//!   there. The setting only decides whether logging goes on.
//! - Nothing changes on the disk before everything was replayed; a start that is interrupted is
//!   done again.
//! - A dump that names no log was made without one, or put there by someone: a log beside it is set
//!   aside. A log without its dump is no state, and stops the start.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stillframe_durability::{Action, Application, ApplyError, Error, Log, Replayed};
use stillframe_keyspace::DATABASES;
use stillframe_resp::{Limits, Parser, ProtocolError};

use super::{Open, Position, Reach};
use crate::ServeError;
use crate::client::Session;
use crate::host::Host;
use crate::loading::{SLICE, delay};
use crate::state::ServerState;
use stillframe_redis::Consumer;

const PROGRESS_PERIOD: Duration = Duration::from_secs(5);

/// Applies the log that the loaded dump names, and goes on with it if a log is wanted. Returns
/// whether the server is to end, which it was asked to meanwhile.
///
/// # Errors
/// [`ServeError`]: which file, what is wrong with it, what to do.
pub(crate) fn recover(host: &mut impl Host) -> Result<bool, ServeError> {
    let (_, state) = host.parts();
    let wanted = state.config.appendonly;
    if wanted
        && let Some(path) = state.storage.journal.history.generations.foreign().map_err(failed)?
    {
        return Err(ServeError::ForeignLog { path });
    }
    if let Some(position) = state.storage.saves.loaded.position {
        return Ok(!Replay::new(host).run(position, wanted)?);
    }
    clear(state)?;
    // Numbers go on where an earlier log that is kept has ended.
    state.storage.journal.last =
        state.storage.journal.history.last_record_at_most().map_err(failed)?;
    Ok(false)
}

fn failed(problem: impl ToString) -> ServeError {
    ServeError::Log { problem: problem.to_string() }
}

/// The dump names no log: those that are there are of no use.
fn clear(state: &ServerState) -> Result<(), ServeError> {
    let history = &state.storage.journal.history;
    let generations = &history.generations;
    for generation in generations.list().map_err(failed)? {
        if generations.is_unpublished(generation).map_err(failed)? {
            generations.remove(generation).map_err(failed)?;
        } else if !state.storage.saves.directory().has_dump().map_err(failed)? {
            return Err(failed(format_args!(
                "{} is there, and not {}, which it continues; put that back, or move the log away \
                 to start without data",
                generations.path(generation).display(),
                state.storage.saves.dump().display()
            )));
        } else if !history.needs(generation).map_err(failed)? {
            let aside = generations.set_aside(generation).map_err(failed)?;
            tracing::warn!(
                "{} names no log, so the one that was there is not used; it is {} now",
                state.storage.saves.dump().display(),
                aside.display()
            );
        }
    }
    Ok(())
}

/// Applies records.
struct Replay<'a, H: Host> {
    host: &'a mut H,
    applier: Applier,
    told: Instant,
    /// When clients were served last.
    served: Instant,
    /// The server is to end.
    interrupted: bool,
}

impl<'a, H: Host> Replay<'a, H> {
    fn new(host: &'a mut H) -> Self {
        let (applier, told) = (Applier::new(), Instant::now());
        Self { host, applier, told, served: told, interrupted: false }
    }

    /// Replays all from `position` on; false if it was interrupted.
    fn run(mut self, position: Position, go_on: bool) -> Result<bool, ServeError> {
        let Position { generation, from, .. } = position;
        let (_, state) = self.host.parts();
        let accept_loss = state.config.accept_log_loss;
        let generations = &state.storage.journal.history.generations;
        let path = generations.path(generation);
        let place = generations.place(generation).map_err(failed)?;
        let flag = Arc::default();
        let options = state.storage.journal.options(&state.config, &flag);
        let own = Application::server();
        let outcome = if go_on {
            let opened = Log::open(place, from, accept_loss, &own, options, |a| self.apply(a));
            opened.map(|(log, replayed)| (Some(log), replayed))
        } else {
            let read = Log::read(place, from, accept_loss, None, &own, |a| self.apply(a));
            read.map(|replayed| (None, replayed))
        };
        let (log, replayed) = match outcome {
            Ok(outcome) => outcome,
            Err(_) if self.interrupted => return Ok(false),
            Err(error @ Error::Log { .. }) => {
                return Err(ServeError::DamagedLog { problem: error.to_string() });
            }
            Err(error) => return Err(failed(error)),
        };
        report(&path, &replayed);
        let (keyspace, state) = self.host.parts();
        if replayed.records > 0 {
            state.replication.forget_loaded();
        }
        state.meter.stats.reset(keyspace.stats().expired_total, Instant::now());
        let journal = &mut state.storage.journal;
        let history = &journal.history;
        let (newest, reach) = (history.generations.newest(), Reach::of(&state.config));
        history.tidy(Some(position), newest, reach).map_err(failed)?;
        journal.last = replayed.last;
        journal.base_bytes =
            state.storage.saves.directory().open_dump().map_or(0, |(_, bytes)| bytes);
        journal.bytes = replayed.bytes + replayed.records * super::RECORD_HEAD_BYTES;
        if let Some(log) = log {
            let policy = state.config.appendfsync;
            journal.open = Some(Open { log, generation, policy, published: true, failed: flag });
            state.ledger.effects.want(keyspace, Consumer::Log, true);
        }
        Ok(true)
    }

    fn apply(&mut self, action: &Action<'_>) -> Result<(), ApplyError> {
        let host = &mut *self.host;
        self.applier
            .apply(action.bytes, |(session, replies), args| host.replay(session, replies, args))?;
        let (_, state) = self.host.parts();
        let slow = delay(state.config.key_load_delay_us);
        if self.told.elapsed() >= PROGRESS_PERIOD {
            self.told = Instant::now();
            let share = action.progress.bytes * 100 / action.progress.total_bytes.max(1);
            tracing::info!("replaying the log: record {}, {share}%", action.sequence);
        }
        if !slow && self.served.elapsed() < SLICE {
            return Ok(());
        }
        if let Some(loading) = &mut state.storage.loading {
            loading.total_bytes = action.progress.total_bytes;
            loading.loaded_bytes = action.progress.bytes;
        }
        self.interrupted = !self.host.turn(Duration::ZERO)?;
        self.served = Instant::now();
        if self.interrupted { Err("the server is to end".into()) } else { Ok(()) }
    }
}

/// Why a record cannot be applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    /// It is no payload of a server's log.
    #[error("it holds no requests of a server")]
    Payload,
    /// Its last request is not whole.
    #[error("it ends within a request")]
    Cut,
    /// It holds something else than requests.
    #[error("it holds no request: {0}")]
    Request(#[from] ProtocolError),
    /// A command cannot run, or fails.
    #[error("{0}")]
    Command(String),
    /// A transaction does not end.
    #[error("it holds a transaction without its EXEC")]
    Open,
}

/// Applies the payloads of records.
pub(crate) struct Applier {
    session: Session,
    parser: Parser,
    requests: Vec<u8>,
    replies: Vec<u8>,
}

impl Applier {
    pub(crate) fn new() -> Self {
        let limits = Limits { bulk_bytes_max: u32::MAX as usize, ..Limits::OPEN };
        Self {
            session: Session::internal(),
            parser: Parser::new(limits),
            requests: Vec::new(),
            replies: Vec::new(),
        }
    }

    /// Applies one payload: a database, and requests, each of which `replay` runs.
    pub(crate) fn apply(
        &mut self,
        payload: &[u8],
        mut replay: impl FnMut((&mut Session, &mut Vec<u8>), &[&[u8]]) -> Result<(), String>,
    ) -> Result<(), RecordError> {
        let Self { session, parser, requests, replies } = self;
        let (db, payload) = payload
            .split_first()
            .map(|(&db, payload)| (usize::from(db), payload))
            .filter(|&(db, _)| db < DATABASES)
            .ok_or(RecordError::Payload)?;
        session.caller.db = db;
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
            replay((session, replies), &args).map_err(RecordError::Command)?;
        }
        match session.transaction {
            None => Ok(()),
            Some(_) => Err(RecordError::Open),
        }
    }
}

/// Tells what was found.
fn report(path: &Path, replayed: &Replayed) {
    tracing::info!(
        "replayed {} records, {} bytes, from {} in {:.3} s; the last is {}",
        replayed.records,
        replayed.bytes,
        path.display(),
        replayed.duration.as_secs_f64(),
        replayed.last
    );
    if let Some(torn) = &replayed.torn {
        tracing::warn!("cut off the torn tail of the log: {torn}");
    }
    if let Some(lost) = &replayed.lost {
        tracing::warn!("the loss of records was accepted (accept-log-loss): {lost}");
    }
}
