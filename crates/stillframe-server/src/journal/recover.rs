//! The log at start: the one that the dump file names is replayed, any other is a leftover.
//!
//! - A log that the dump names is replayed whatever `appendonly` says now, because it has
//!   acknowledged writes. The setting only decides whether logging goes on.
//! - Nothing changes on the disk before everything was replayed, so an interrupted start is
//!   repeated.
//! - A dump that names no log was made without one, or copied there: a log beside it is set aside.
//!   A log without its dump is no state, and stops the start.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stillframe_durability::{Action, Application, ApplyError, Log, Replayed};

use super::{History, LogError, Open, Position, Reach};
use crate::ServeError;
use crate::replay::{Host, Records};
use crate::replay::{SLICE, delay};
use stillframe_redis::Consumer;

const PROGRESS_PERIOD: Duration = Duration::from_secs(5);

/// Applies the log that the loaded dump names, from that position on, and continues it if a log is
/// wanted. Returns whether a shutdown was requested meanwhile.
///
/// # Errors
/// [`ServeError`]: which file, what is wrong with it, what to do.
pub(crate) fn recover(host: &mut impl Host, named: Option<Position>) -> Result<bool, ServeError> {
    let (_, state, _) = host.parts();
    let wanted = state.config.appendonly;
    if wanted
        && let Some(path) =
            state.storage.journal.history.generations.foreign().map_err(ServeError::of_log)?
    {
        return Err(ServeError::ForeignLog { path });
    }
    if let Some(position) = named {
        return Ok(!Recovery::new(host).run(position, wanted)?);
    }
    clear(&state.storage.journal.history)?;
    // Numbers continue where an earlier kept log has ended.
    state.storage.journal.last =
        state.storage.journal.history.last_record_at_most().map_err(ServeError::of_log)?;
    Ok(false)
}

/// Sets existing logs aside: the dump names none.
fn clear(history: &History) -> Result<(), LogError> {
    let generations = &history.generations;
    for generation in generations.list()? {
        if generations.is_unpublished(generation)? {
            generations.remove(generation)?;
        } else if !history.has_dump()? {
            let (log, dump) = (generations.path(generation), history.dump());
            return Err(LogError::WithoutDump { log, dump });
        } else if !history.needs(generation)? {
            let aside = generations.set_aside(generation)?;
            tracing::warn!(
                "{} names no log, so the one that was there is not used; it is {} now",
                history.dump().display(),
                aside.display()
            );
        }
    }
    Ok(())
}

/// Applies records.
struct Recovery<'a, H: Host> {
    host: &'a mut H,
    records: Records,
    reported: Instant,
    /// When clients were last served.
    served: Instant,
    /// Whether a shutdown was requested.
    interrupted: bool,
}

impl<'a, H: Host> Recovery<'a, H> {
    fn new(host: &'a mut H) -> Self {
        let (records, reported) = (Records::new(), Instant::now());
        Self { host, records, reported, served: reported, interrupted: false }
    }

    /// Replays all from `position` on; false if it was interrupted.
    fn run(mut self, position: Position, go_on: bool) -> Result<bool, ServeError> {
        let Position { generation, from, .. } = position;
        let (_, state, _) = self.host.parts();
        let accept_loss = state.config.accept_log_loss;
        let generations = &state.storage.journal.history.generations;
        let path = generations.path(generation);
        let location = generations.location(generation).map_err(ServeError::of_log)?;
        let flag = Arc::default();
        let options = state.storage.journal.options(&state.config, &flag);
        let own = Application::server();
        let outcome = if go_on {
            let opened = Log::open(location, from, accept_loss, &own, options, |a| self.apply(a));
            opened.map(|(log, replayed)| (Some(log), replayed))
        } else {
            let read = Log::read(location, from, accept_loss, None, &own, |a| self.apply(a));
            read.map(|replayed| (None, replayed))
        };
        let (log, replayed) = match outcome {
            Ok(outcome) => outcome,
            Err(_) if self.interrupted => return Ok(false),
            Err(error) => return Err(ServeError::of_log(error)),
        };
        report(&path, &replayed);
        let (keyspace, state, _) = self.host.parts();
        if replayed.records > 0 {
            state.replication.forget_loaded();
        }
        state.meter.reset(keyspace.stats().expired_total, Instant::now());
        let journal = &mut state.storage.journal;
        let history = &journal.history;
        let (newest, reach) = (history.generations.newest(), Reach::of(&state.config));
        history.tidy(Some(position), newest, reach).map_err(ServeError::of_log)?;
        journal.last = replayed.last;
        journal.base_bytes = journal.history.dump_bytes();
        journal.bytes = replayed.bytes + replayed.records * super::RECORD_HEAD_BYTES;
        if let Some(log) = log {
            let policy = state.config.appendfsync;
            journal.open = Some(Open { log, generation, policy, published: true, failed: flag });
            state.ledger.effects.want(keyspace, Consumer::Log, true);
        }
        Ok(true)
    }

    fn apply(&mut self, action: &Action<'_>) -> Result<(), ApplyError> {
        self.records.apply(self.host.parts(), action.bytes)?;
        let (_, state, _) = self.host.parts();
        let slow = delay(state.config.key_load_delay_us);
        if self.reported.elapsed() >= PROGRESS_PERIOD {
            self.reported = Instant::now();
            let share = action.progress.bytes * 100 / action.progress.total_bytes.max(1);
            tracing::info!("replaying the log: record {}, {share}%", action.sequence);
        }
        if !slow && self.served.elapsed() < SLICE {
            return Ok(());
        }
        state.storage.note_loaded(action.progress.bytes, action.progress.total_bytes);
        self.interrupted = !self.host.turn(Duration::ZERO)?;
        self.served = Instant::now();
        if self.interrupted { Err("the server is to end".into()) } else { Ok(()) }
    }
}

/// Logs the findings.
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
