//! The server's log (`appendonly yes`): the effects of requests since the image in the dump file.
//!
//! - A log belongs to the image that it continues: the dump file names the log's *generation*, a
//!   directory of its own, and the first record that the image lacks. They agree exactly, because
//!   both are taken between two requests.
//! - A record is one unit of [`Effects`]: a request, or a transaction, whole. Its payload is the
//!   number of the database that is selected before it, a byte, and then requests as clients send
//!   them.
//! - An image is published after every record that is in it is durable, and only then are those
//!   records removed. A crash in between leaves records that nobody reads.
//! - A log that is begun while there are data, or anew after it failed, counts from the moment its
//!   image is published; until then a marker file in its directory means that it may be deleted.
//! - While a log is wanted and none counts, writes of clients wait: from the start under `always`,
//!   after as long as a record may wait for the disk under `everysec`, never under `no`.
//! - Nothing here knows of saves: `storage` begins a log together with the image that it
//!   continues, and reports the outcome of the image.
//! - After a failure, or when no log can begin, the server accepts no write until it has made an
//!   image and a new log. Acknowledged writes are in the old ones.

mod cover;
mod earlier;
mod error;
mod generations;
pub mod position;
mod reopen;
mod upkeep;

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stillframe_durability::disk::Directory;
use stillframe_durability::{Application, Error, Log, LogOptions, LogStats, Policy};
use stillframe_keyspace::DATABASES;

use crate::clock::unix_millis;
use crate::settings::Settings;
use crate::wake::Wake;
pub use cover::{Cover, Covered};
use earlier::{History, Kept, Reach};
pub use error::LogError;
pub use generations::Generations;
pub use position::{POSITION_FIELD, Position};
use stillframe_commands::Effects;

/// Bytes that may wait for the disk; beyond, no requests are served.
const WAITING_BYTES_MAX: usize = 32 << 20;
/// How long a record may wait for the disk under `everysec`; beyond, no requests are served.
const WAITING_MAX: Duration = Duration::from_secs(2);
/// Bytes of a record that are not its payload.
const RECORD_HEAD_BYTES: u64 = 28;

/// The log and its state.
pub struct Journal {
    history: History,
    open: Option<Open>,
    /// Why writes are refused.
    problem: Option<LogProblem>,
    /// Number of the last record, of all generations.
    last: u64,
    /// Bytes of log written since the start, and those of them that are in the last image.
    bytes: u64,
    covered_bytes: u64,
    /// Bytes of the last image.
    base_bytes: u64,
    retry_at: Option<Instant>,
    /// Since when a log has been wanted and none has counted.
    uncovered: Option<Instant>,
    /// Whether the log was ended with records lost that had not reached the disk.
    lost: bool,
    /// Now and then, the number of the last record at that time.
    samples: VecDeque<(Instant, u64)>,
    stalled: Option<Instant>,
    stalls: u64,
    stall_time: Duration,
    wake: Wake,
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

/// Pause before a log that could not begin is retried.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The figures for INFO.
pub struct LogFigures {
    /// Records written, and how long that took.
    pub stats: LogStats,
    /// Bytes of the image and of the log behind it.
    pub current_bytes: u64,
    /// Bytes of the image.
    pub base_bytes: u64,
    /// How often requests had to wait because so much waited for the disk.
    pub stalls: u64,
    /// How long they waited.
    pub stall_time: Duration,
    /// The position of an image that began now.
    pub position: Option<Position>,
}

impl Journal {
    /// No log yet; its generations are below the data directory.
    pub fn new(files: &Arc<Directory>, settings: &Settings, wake: Wake) -> Self {
        Self {
            history: History::new(files, settings),
            open: None,
            problem: None,
            last: 0,
            bytes: 0,
            covered_bytes: 0,
            base_bytes: 0,
            retry_at: None,
            uncovered: None,
            lost: false,
            samples: VecDeque::new(),
            stalled: None,
            stalls: 0,
            stall_time: Duration::ZERO,
            wake,
        }
    }

    /// Whether there is a log, or one is being begun.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Sets the data directory for the next log.
    pub fn move_to(&mut self, files: &Arc<Directory>, settings: &Settings) {
        self.history = History::new(files, settings);
    }

    /// Whether a log is kept and an image names it: only then does it count.
    pub fn is_on(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.published)
    }

    /// Whether a log is beginning, with its image under way.
    pub fn is_starting(&self) -> bool {
        self.open.as_ref().is_some_and(|open| !open.published)
    }

    /// Whether writes of clients wait: a kill would lose them against the promise of `appendfsync`,
    /// because no log that a start would replay has them.
    #[inline]
    pub fn holds_writes(&self, settings: &Settings, now: Instant) -> bool {
        settings.appendonly
            && !self.is_on()
            && self.problem.is_none()
            && self.is_overdue(settings.appendfsync, now)
    }

    #[cold]
    fn is_overdue(&self, policy: Policy, now: Instant) -> bool {
        let since = self.uncovered.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        match policy {
            Policy::Always => true,
            Policy::EverySecond => since > WAITING_MAX,
            Policy::No => false,
        }
    }

    /// The state of the log in a word, when one is `wanted`.
    pub fn state(&self, wanted: bool) -> &'static str {
        match (self.is_on(), wanted) {
            (true, _) => "on",
            (false, false) => "off",
            (false, true) if self.problem.is_some() => "failed",
            (false, true) => "beginning",
        }
    }

    /// Why writes are refused, if they are.
    pub fn problem(&self) -> Option<&LogProblem> {
        self.problem.as_ref()
    }

    /// The record for which replies must wait now.
    pub fn awaited(&self) -> Option<u64> {
        let open = self.open.as_ref().filter(|open| open.published)?;
        (open.policy == Policy::Always && open.log.durable() < self.last).then_some(self.last)
    }

    /// As [`awaited`](Self::awaited), for replies that show nothing of later records than this.
    pub fn awaited_up_to(&self, record: u64) -> Option<u64> {
        let last = self.awaited()?;
        (self.durable() < record).then_some(record.min(last))
    }

    /// Whether replies wait for records, or will once the log counts.
    pub(crate) fn withholds(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.policy == Policy::Always)
    }

    /// The last record on the disk, for which replies wait no more. Once a log has ended well, that
    /// is its last one.
    pub fn durable(&self) -> u64 {
        match &self.open {
            Some(open) => open.log.durable(),
            None if self.lost => 0,
            None => self.last,
        }
    }

    /// The number of the last record.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Whether the records up to this one are on the disk, in a log that a start would replay.
    pub fn has_durable(&self, record: u64) -> bool {
        self.is_on() && self.durable() >= record
    }

    /// Hurries the records up to this one to the disk.
    pub fn hurry(&self, record: u64) {
        if let Some(open) = &self.open {
            open.log.hurry(record);
        }
    }

    /// The figures of the log, if one is kept.
    pub fn figures(&self) -> Option<LogFigures> {
        let open = self.open.as_ref()?;
        let current_bytes = self.base_bytes + self.bytes.saturating_sub(self.covered_bytes);
        Some(LogFigures {
            stats: open.log.stats(),
            current_bytes,
            base_bytes: self.base_bytes,
            stalls: self.stalls,
            stall_time: self.stall_time + self.stalled.map_or(Duration::ZERO, |at| at.elapsed()),
            position: self.position(),
        })
    }

    /// The position of an image that began now. All effects so far must have been
    /// passed on.
    fn position(&self) -> Option<Position> {
        let open = self.open.as_ref()?;
        let begun_ms = u64::try_from(unix_millis()).unwrap_or(0);
        Some(Position { generation: open.generation, from: self.last + 1, begun_ms })
    }

    /// The kept past.
    pub fn kept(&self) -> Kept {
        self.history.kept()
    }

    /// The work on the log for an image that begins now.
    pub fn cover(&self, settings: &Settings) -> Cover {
        Cover {
            position: self.position(),
            log: self.open.as_ref().map(|open| open.log.handle()),
            history: self.history.clone(),
            reach: Reach::from_settings(settings),
            newest: self.history.generations.newest(),
            bytes: self.bytes,
        }
    }

    /// Notes that an image of so many bytes was published.
    pub fn published(&mut self, cover: &Covered, image_bytes: u64) {
        (self.base_bytes, self.covered_bytes) = (image_bytes, cover.bytes);
        let named = cover.position.map(|position| position.generation);
        if let Some(open) = self.open.as_mut().filter(|open| Some(open.generation) == named) {
            if !open.published {
                tracing::info!("the log is on: generation {}", open.generation);
            }
            open.published = true;
            self.problem = None;
            self.retry_at = None;
        }
    }

    /// Adds the units of `effects`.
    pub(crate) fn append(&mut self, effects: &Effects) {
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
        if count == 0 {
            return; // replicas alone get something
        }
        self.bytes += records.clone().map(|[_, requests]| requests.len() as u64 + 1).sum::<u64>()
            + count * RECORD_HEAD_BYTES;
        self.last = open.log.append_all(records).unwrap_or_else(|_| {
            // The turn notices; numbers of lost records are not used again.
            open.failed.store(true, Ordering::Relaxed);
            self.last + count
        });
    }

    /// Whether so much waits for the disk that requests must wait, too.
    pub fn lags(&mut self, now: Instant) -> bool {
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

    /// Whether the log has grown so much that an image should replace it.
    pub fn rewrite_due(&self, settings: &Settings) -> bool {
        let Some(log) = self.figures().filter(|_| self.is_on()) else { return false };
        let grown = log.current_bytes.saturating_sub(log.base_bytes);
        let percentage = u128::from(grown) * 100 / u128::from(log.base_bytes.max(1));
        settings.auto_aof_rewrite_percentage > 0
            && log.current_bytes > settings.auto_aof_rewrite_min_bytes
            && percentage >= u128::from(settings.auto_aof_rewrite_percentage)
    }

    fn options(&self, settings: &Settings, failed: &Arc<AtomicBool>) -> LogOptions {
        let (failed, wake) = (Arc::clone(failed), Arc::clone(&self.wake));
        LogOptions::policy(settings.appendfsync).waiting_bytes_max(usize::MAX).on_durable(
            move |durable| {
                if durable.is_err() {
                    failed.store(true, Ordering::Relaxed);
                }
                wake();
            },
        )
    }

    /// Whether to retry a log that could not begin; if so, not again for a while.
    pub fn try_again(&mut self, now: Instant) -> bool {
        let may = self.retry_at.is_none_or(|retry_at| retry_at <= now);
        if may {
            self.retry_at = Some(now + RETRY_PAUSE);
        }
        may
    }

    /// Notes that no log could begin: writes are refused.
    pub fn not_begun(&mut self, error: &dyn Display) {
        self.problem = Some(LogProblem::NotBegun(error.to_string()));
    }

    /// Begins a new generation after the last record.
    fn create(&mut self, settings: &Settings) -> Result<(), Error> {
        if let Err(error) = self.history.clear_begun() {
            tracing::warn!("cannot remove what is left of a log that was begun: {error}");
        }
        let failed = Arc::default();
        let options = self.options(settings, &failed);
        let begun = self.history.generations.begin().and_then(|(generation, place)| {
            Ok((generation, Log::create(place, self.last + 1, &Application::server(), options)?))
        });
        let (generation, log) = begun.inspect_err(|error| {
            if error.wants_room() {
                self.history.give_way();
            }
        })?;
        let policy = settings.appendfsync;
        self.open = Some(Open { log, generation, policy, published: false, failed });
        self.samples.clear();
        Ok(())
    }
}

/// Why writes are refused while no log counts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogProblem {
    /// No log could begin, or no image that names it could be saved.
    #[error("the log cannot be begun: {0}")]
    NotBegun(String),
    /// The log that counted takes no more records.
    #[error("{}", .0.as_deref().unwrap_or("the log takes no more records"))]
    Failed(Option<String>),
}
