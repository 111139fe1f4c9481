//! The server's log (`appendonly yes`): what requests did since the image in the dump file.
//!
//! - A log belongs to the image that it continues: the dump file names the log's *generation*, a
//!   directory of its own, and the first record that the image lacks. They agree exactly, because
//!   both are fixed between two requests.
//! - A record is one unit of [`Effects`]: a request, or a transaction, whole. Its payload is the
//!   number of the database that is selected before it, a byte, and then requests as clients send
//!   them.
//! - An image is published after every record that is in it is durable, and only then are those
//!   records removed. A crash in between leaves records that nobody reads.
//! - A log that is begun while there are data, or anew after it failed, counts from the moment its
//!   image is published; until then a marker file in its directory says that it may be thrown away.
//! - After a failure no write is accepted until an image and a new log have been made. What was
//!   acknowledged is in the old ones.

mod cover;
pub(crate) mod earlier;
mod generations;
mod recover;

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stillframe::Algorithm;
use stillframe_durability::disk::Directory;
use stillframe_durability::{Log, LogOptions, LogStats, Policy};
use stillframe_keyspace::{DATABASES, Keyspace};

use crate::config::Config;
use crate::effects::{Consumer, Effects};
use crate::persistence;
use crate::poll::Waker;
use crate::server::unix_millis;
use crate::state::ServerState;
pub(crate) use cover::{Cover, Covered, POSITION_FIELD, Position};
use earlier::{History, Kept, Reach};
pub(crate) use generations::Generations;
pub(crate) use recover::{Applier, recover};

/// Bytes that may wait for the disk; beyond, no requests are served.
const WAITING_BYTES_MAX: usize = 32 << 20;
/// How long a record may wait for the disk under `everysec`; beyond, no requests are served.
const WAITING_MAX: Duration = Duration::from_secs(2);
/// Pause before a log that could not be begun is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Bytes of a record that are not its payload.
const RECORD_HEAD_BYTES: u64 = 28;

/// The log and how it is.
pub(crate) struct Journal {
    history: History,
    open: Option<Open>,
    /// Why writes are refused.
    problem: Option<String>,
    /// Number of the last record, of all generations.
    last: u64,
    /// Bytes of log written since the start, and those of them that are in the last image.
    bytes: u64,
    covered_bytes: u64,
    /// Bytes of the last image.
    base_bytes: u64,
    retry_at: Option<Instant>,
    /// Now and then, the number of the last record at that time.
    samples: VecDeque<(Instant, u64)>,
    stalled: Option<Instant>,
    stalls: u64,
    stall_time: Duration,
    waker: Waker,
}

/// A log that is being written.
struct Open {
    log: Log,
    generation: u64,
    policy: Policy,
    /// An image that names it is published.
    published: bool,
    failed: Arc<AtomicBool>,
}

/// What INFO tells.
pub(crate) struct Told {
    pub(crate) stats: LogStats,
    pub(crate) current_bytes: u64,
    pub(crate) base_bytes: u64,
    pub(crate) stalls: u64,
    pub(crate) stall_time: Duration,
    pub(crate) position: Option<Position>,
}

impl Journal {
    /// No log yet; its generations are below the data directory.
    pub(crate) fn new(files: &Arc<Directory>, config: &Config, waker: Waker) -> Self {
        Self {
            history: History::new(files, config),
            open: None,
            problem: None,
            last: 0,
            bytes: 0,
            covered_bytes: 0,
            base_bytes: 0,
            retry_at: None,
            samples: VecDeque::new(),
            stalled: None,
            stalls: 0,
            stall_time: Duration::ZERO,
            waker,
        }
    }

    /// Whether a log is kept and an image names it: only then may anyone rely on it.
    pub(crate) fn is_on(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.published)
    }

    /// A log is being begun: its image is under way.
    pub(crate) fn is_starting(&self) -> bool {
        self.open.as_ref().is_some_and(|open| !open.published)
    }

    /// Why writes are refused, if they are.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// The record that replies of this moment have to wait for.
    pub(crate) fn awaited(&self) -> Option<u64> {
        let open = self.open.as_ref().filter(|open| open.published)?;
        (open.policy == Policy::Always && open.log.durable() < self.last).then_some(self.last)
    }

    /// The last record that is on the disk.
    pub(crate) fn durable(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.log.durable())
    }

    /// What there is to tell of the log, if one is kept.
    pub(crate) fn told(&self) -> Option<Told> {
        let open = self.open.as_ref()?;
        let current_bytes = self.base_bytes + self.bytes.saturating_sub(self.covered_bytes);
        Some(Told {
            stats: open.log.stats(),
            current_bytes,
            base_bytes: self.base_bytes,
            stalls: self.stalls,
            stall_time: self.stall_time + self.stalled.map_or(Duration::ZERO, |at| at.elapsed()),
            position: self.position(),
        })
    }

    /// The position of an image that began now. All effects so far must have been
    /// [settled](settle).
    fn position(&self) -> Option<Position> {
        let open = self.open.as_ref()?;
        let begun_ms = u64::try_from(unix_millis()).unwrap_or(0);
        Some(Position { generation: open.generation, from: self.last + 1, begun_ms })
    }

    /// What is kept of the past.
    pub(crate) fn kept(&self) -> Kept {
        self.history.kept()
    }

    /// What an image that begins now has to do with the log.
    pub(crate) fn cover(&self, config: &Config) -> Cover {
        Cover {
            position: self.position(),
            log: self.open.as_ref().map(|open| open.log.handle()),
            history: self.history.clone(),
            reach: Reach::of(config),
            newest: self.history.generations.newest(),
            bytes: self.bytes,
        }
    }

    /// An image was published, of so many bytes.
    pub(crate) fn published(&mut self, cover: &Covered, image_bytes: u64) {
        (self.base_bytes, self.covered_bytes) = (image_bytes, cover.bytes);
        let named = cover.position.map(|position| position.generation);
        if let Some(open) = self.open.as_mut().filter(|open| Some(open.generation) == named) {
            if !open.published {
                tracing::info!("the log is on: generation {}", open.generation);
            }
            open.published = true;
            self.problem = None;
        }
    }

    /// An image was not published: a log that waited for it is given up.
    pub(crate) fn not_published<A: Algorithm>(
        keyspace: &mut Keyspace<A>,
        state: &mut ServerState,
        cover: &Covered,
    ) {
        let named = cover.position.map(|position| position.generation);
        let journal = &mut state.journal;
        if journal.open.as_ref().is_some_and(|it| !it.published && Some(it.generation) == named) {
            journal.open = None; // its files go when the next one is begun
            journal.retry_at = Some(Instant::now() + RETRY_PAUSE);
            state.effects.want(keyspace, Consumer::Log, false);
        }
    }

    /// Adds the units of `effects`.
    fn append(&mut self, effects: &Effects) {
        /// Numbers of databases as bytes.
        const DBS: [[u8; 1]; DATABASES] = {
            let mut dbs = [[0]; DATABASES];
            let mut db = 0;
            while db < DATABASES {
                dbs[db] = [db as u8];
                db += 1;
            }
            dbs
        };
        let Some(open) = &self.open else { return };
        let records = effects.units().map(|(db, requests)| [&DBS[db][..], requests]);
        let count = records.len() as u64;
        self.bytes += records.clone().map(|[_, requests]| requests.len() as u64 + 1).sum::<u64>()
            + count * RECORD_HEAD_BYTES;
        self.last = open.log.append_all(records).unwrap_or_else(|_| {
            // The turn notices; the numbers of lost records are not used again.
            open.failed.store(true, Ordering::Relaxed);
            self.last + count
        });
    }

    /// Whether so much waits for the disk that requests have to wait, too.
    pub(crate) fn lags(&mut self, now: Instant) -> bool {
        let Some(open) = &self.open else { return false };
        let durable = open.log.durable();
        while self.samples.front().is_some_and(|&(_, last)| last <= durable) {
            self.samples.pop_front();
        }
        let oldest = self.samples.front().map_or(now, |&(at, _)| at);
        let is_late = open.policy == Policy::EverySecond
            && now.saturating_duration_since(oldest) > WAITING_MAX;
        let lags = is_late || open.log.stats().waiting_bytes > WAITING_BYTES_MAX;
        match (lags, self.stalled) {
            (true, None) => {
                self.stalls += 1;
                self.stalled = Some(now);
            }
            (false, Some(since)) => {
                self.stall_time += since.elapsed();
                self.stalled = None;
            }
            _ => {}
        }
        lags
    }

    /// Whether the log has grown so much that an image should take its place.
    pub(crate) fn rewrite_due(&self, config: &Config) -> bool {
        let Some(told) = self.told().filter(|_| self.is_on()) else { return false };
        let grown = told.current_bytes.saturating_sub(told.base_bytes);
        let percentage = u128::from(grown) * 100 / u128::from(told.base_bytes.max(1));
        config.auto_aof_rewrite_percentage > 0
            && told.current_bytes > config.auto_aof_rewrite_min_bytes
            && percentage >= u128::from(config.auto_aof_rewrite_percentage)
    }

    fn options(&self, config: &Config, failed: &Arc<AtomicBool>) -> LogOptions {
        let (failed, waker) = (Arc::clone(failed), self.waker.clone());
        LogOptions::policy(config.appendfsync).waiting_bytes_max(usize::MAX).on_durable(
            move |told| {
                if told.is_err() {
                    failed.store(true, Ordering::Relaxed);
                }
                waker.wake();
            },
        )
    }

    /// Begins a new generation after the last record.
    fn create(&mut self, config: &Config) -> Result<(), String> {
        let failed = Arc::default();
        let options = self.options(config, &failed);
        let begun = self.history.generations.begin().and_then(|(generation, place)| {
            Ok((generation, Log::create(place, self.last + 1, CREATOR, options)?))
        });
        let (generation, log) = begun.map_err(|error| {
            if is_for_want_of_room(error.kind()) {
                self.history.give_way();
            }
            error.to_string()
        })?;
        let policy = config.appendfsync;
        self.open = Some(Open { log, generation, policy, published: false, failed });
        self.samples.clear();
        Ok(())
    }
}

/// Whether this failed because the disk is full.
pub(crate) fn is_for_want_of_room(kind: Option<ErrorKind>) -> bool {
    matches!(kind, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
}

/// Who wrote the log, for people.
const CREATOR: &str = "server";

/// Hands the effects of all requests so far to whoever takes them. To be called at the end of each
/// turn, and before an image begins.
pub(crate) fn settle<A: Algorithm>(keyspace: &mut Keyspace<A>, state: &mut ServerState) {
    if !state.effects.wanted() {
        return;
    }
    state.settle_expired(keyspace, |_, _| {});
    let effects = &mut state.effects;
    effects.seal();
    if !effects.is_empty() {
        state.journal.append(effects);
        state.replication.add(effects);
        effects.clear();
    }
}

/// Notes that the log has failed; true, once, if it has.
pub(crate) fn has_failed<A: Algorithm>(
    keyspace: &mut Keyspace<A>,
    state: &mut ServerState,
) -> bool {
    let journal = &mut state.journal;
    let Some(open) = journal.open.take_if(|open| open.failed.load(Ordering::Relaxed)) else {
        return false;
    };
    let stats = open.log.stats();
    let problem = stats.failed.unwrap_or_else(|| "the log takes no more records".to_owned());
    tracing::error!(
        "the log failed, writes are refused until it can be begun anew; records up to {} are \
         durable, {} are not: {problem}",
        stats.durable,
        journal.last.saturating_sub(stats.durable)
    );
    if open.published {
        journal.problem = Some(problem);
    }
    journal.retry_at = Some(Instant::now() + RETRY_PAUSE);
    state.effects.want(keyspace, Consumer::Log, false);
    open.published
}

/// Begins a log, and the image that it continues, at a point of consistency. `bandwidth_bytes`:
/// most bytes of the image written per second, 0 for no limit.
///
/// # Errors
/// One sentence; nothing has changed.
pub(crate) fn begin<A: Algorithm>(
    keyspace: &mut Keyspace<A>,
    state: &mut ServerState,
    bandwidth_bytes: u64,
) -> Result<(), String> {
    settle(keyspace, state);
    state.journal.create(&state.config)?;
    state.effects.want(keyspace, Consumer::Log, true);
    let begun = persistence::begin_at_rate(keyspace, state, bandwidth_bytes);
    if begun.is_err() {
        state.journal.open = None;
        state.effects.want(keyspace, Consumer::Log, false);
    }
    begun
}

/// Does what is due: begins or ends the log as the configuration has it. Called by the clock.
pub(crate) fn attend<A: Algorithm>(keyspace: &mut Keyspace<A>, state: &mut ServerState) {
    let now = Instant::now();
    let journal = &mut state.journal;
    if let Some(open) = &mut journal.open {
        if open.policy != state.config.appendfsync {
            open.policy = state.config.appendfsync;
            open.log.set_policy(open.policy);
        }
        if journal.samples.back().is_none_or(|&(_, last)| last < journal.last) {
            journal.samples.push_back((now, journal.last));
        }
        if !state.config.appendonly {
            let _ = close(keyspace, state); // what is lost then was never to be kept
        }
    } else if !state.config.appendonly {
        journal.problem = None;
    } else if state.saves.running().is_none()
        && journal.retry_at.is_none_or(|retry_at| retry_at <= now)
    {
        journal.retry_at = Some(now + RETRY_PAUSE);
        let bandwidth_bytes = state.config.snapshot_bandwidth_bytes;
        if let Err(problem) = begin(keyspace, state, bandwidth_bytes) {
            tracing::error!("the log cannot be begun, trying again: {problem}");
        }
    }
}

/// Ends the log when all that is in it is durable.
///
/// # Errors
/// It never will be, which was logged.
pub(crate) fn close<A: Algorithm>(
    keyspace: &mut Keyspace<A>,
    state: &mut ServerState,
) -> Result<(), ()> {
    settle(keyspace, state);
    let Some(open) = state.journal.open.take() else { return Ok(()) };
    state.effects.want(keyspace, Consumer::Log, false);
    match open.log.close() {
        Ok(()) => {
            tracing::info!("the log has ended with record {}", state.journal.last);
            Ok(())
        }
        Err(error) => {
            tracing::error!("the log could not be ended: {error}");
            Err(())
        }
    }
}
