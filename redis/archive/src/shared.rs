//! What the two threads of an archive share, and what others see of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::ArchiveError;
use crate::manifest::Manifest;
use crate::settings::Settings;
use crate::spool::{Known, Spool};

/// How often the directory is looked at.
const LOOK_PERIOD: Duration = Duration::from_millis(250);
/// An archive that is later than two intervals and so long is behind.
const GRACE: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 5_000 });
/// One that is later than so long, and than four intervals, is warned of, and again as often.
const LATE: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(300)];

/// How far an archive is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum State {
    /// Nothing is known of the store yet.
    #[default]
    Claiming,
    /// Files wait for their upload, or are on their way.
    Behind,
    /// All is archived that was on the disk two intervals ago.
    Current,
    /// The store cannot be reached, or refuses.
    Waiting,
    /// Somebody has to decide; nothing is archived.
    Refused,
}

impl State {
    /// The state in a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Claiming => "claiming",
            Self::Behind => "behind",
            Self::Current => "current",
            Self::Waiting => "waiting",
            Self::Refused => "refused",
        }
    }
}

/// The figures of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Status {
    /// How far it is.
    pub state: State,
    /// How long ago all was archived that was on the disk.
    pub behind: Duration,
    /// Bytes of the files that wait.
    pub pending_bytes: u64,
    /// Bytes uploaded since the start.
    pub uploaded_bytes: u64,
    /// When the last manifest was put, in milliseconds since 1970.
    pub manifest_ms: u64,
    /// The last record that it names.
    pub last_record: u64,
    /// The sets that it names.
    pub sets: u64,
    /// Errors since the start.
    pub errors: u64,
    /// The last one.
    pub last_error: String,
}

/// What the log is to say of how late an archive is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lateness {
    Nothing,
    IsToBeTold,
    Over,
}

/// `told`: how long ago the log said that the archive is late, if it is known to be.
fn lateness(behind: Duration, interval: Duration, told: Option<Duration>) -> Lateness {
    let [late, again] = LATE;
    match behind <= late.max(4 * interval) {
        true if told.is_some() => Lateness::Over,
        false if told.is_none_or(|ago| ago >= again) => Lateness::IsToBeTold,
        _ => Lateness::Nothing,
    }
}

/// What the threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    settings: Mutex<Settings>,
    pub(crate) rate: Arc<AtomicU64>,
    pub(crate) is_store: bool,
    known: Mutex<Known>,
    status: Mutex<Status>,
    /// All that was on the disk then is archived; at first, when the archive began.
    archived: Mutex<Instant>,
    stopped: AtomicBool,
    /// All files are to be looked at anew.
    starts_over: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(settings: Settings, is_store: bool) -> Self {
        Self {
            rate: Arc::new(AtomicU64::new(settings.bandwidth_bytes)),
            settings: Mutex::new(settings),
            is_store,
            known: Mutex::default(),
            status: Mutex::default(),
            archived: Mutex::new(Instant::now()),
            stopped: AtomicBool::new(false),
            starts_over: AtomicBool::new(false),
        }
    }

    /// From now on obeys these settings, but for the URL and `take_over`.
    pub(crate) fn obey(&self, settings: &Settings) {
        self.rate.store(settings.bandwidth_bytes, Ordering::Relaxed);
        let mut own = lock(&self.settings);
        let (url, take_over) = (own.url.clone(), own.take_over);
        *own = Settings { url, take_over, ..settings.clone() };
    }

    /// The archive ends.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn status(&self) -> Status {
        let behind = self.behind();
        let mut status = Status { behind, ..lock(&self.status).clone() };
        // Nothing else says so while a request is not answered.
        if status.state == State::Current && behind > 2 * self.settings().interval + GRACE {
            status.state = State::Behind;
        }
        status
    }

    /// How long ago all was archived that was on the disk.
    fn behind(&self) -> Duration {
        lock(&self.archived).elapsed()
    }

    /// All that was on the disk then is archived.
    pub(crate) fn note_archived(&self, at: Instant) {
        let mut archived = lock(&self.archived);
        *archived = at.max(*archived);
    }

    /// As if nothing had been archived for so long.
    #[cfg(test)]
    pub(crate) fn age(&self, behind: Duration) {
        *lock(&self.archived) = Instant::now() - behind;
    }

    pub(crate) fn settings(&self) -> Settings {
        lock(&self.settings).clone()
    }

    pub(crate) fn known<T>(&self, call: impl FnOnce(&mut Known) -> T) -> T {
        call(&mut lock(&self.known))
    }

    pub(crate) fn know(&self, known: Known) {
        *lock(&self.known) = known;
    }

    /// A set begins: all that the directory has is new to it.
    pub(crate) fn start_over(&self) {
        self.know(Known::default());
        self.starts_over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn note_manifest(&self, manifest: &Manifest) {
        let mut status = lock(&self.status);
        status.manifest_ms = manifest.written_ms;
        status.sets = manifest.sets.len() as u64;
        let set = manifest.sets.last();
        let ends = set.iter().flat_map(|set| set.segments.iter().map(|segment| segment.end));
        status.last_record = ends.max().unwrap_or(0);
    }

    pub(crate) fn note_state(&self, state: State) {
        lock(&self.status).state = state;
    }

    pub(crate) fn note_uploaded(&self, bytes: u64) {
        lock(&self.status).uploaded_bytes += bytes;
    }

    pub(crate) fn note_error(&self, error: String) {
        let mut status = lock(&self.status);
        status.state = State::Waiting;
        status.errors += 1;
        status.last_error = error;
    }

    /// Looks at the directory once.
    pub(crate) fn rescan(&self, spool: &mut Spool) -> Result<(), ArchiveError> {
        if self.starts_over.swap(false, Ordering::Relaxed) {
            spool.start_over()?;
        }
        let bytes_max = self.settings().pending_bytes;
        let bytes = self.known(|known| spool.rescan(known, bytes_max))?;
        lock(&self.status).pending_bytes = bytes;
        Ok(())
    }

    /// Warns of an archive that is late, also while its own thread waits for the store. `told`:
    /// when that was done last.
    fn warn_if_late(&self, told: &mut Option<Instant>) {
        let (behind, is_refused) = (self.behind(), lock(&self.status).state == State::Refused);
        match lateness(behind, self.settings().interval, told.map(|at| at.elapsed())) {
            Lateness::Over => {
                *told = None;
                tracing::info!("the archive has caught up");
            }
            Lateness::IsToBeTold if !is_refused => {
                *told = Some(Instant::now());
                let why = lock(&self.status).last_error.clone();
                let why = if why.is_empty() { "the store is slow, or says nothing" } else { &why };
                tracing::warn!("the archive lacks the last {} s: {why}", behind.as_secs());
            }
            Lateness::IsToBeTold | Lateness::Nothing => {}
        }
    }

    /// Looks at the directory until the archive ends.
    pub(crate) fn look_on(&self, mut spool: Spool) {
        let mut told = String::new();
        let mut late = None;
        while !self.stopped.load(Ordering::Relaxed) {
            self.warn_if_late(&mut late);
            match self.rescan(&mut spool) {
                Ok(()) => told.clear(),
                Err(error) => {
                    let text = error.to_string();
                    if text != told {
                        tracing::error!("the archive cannot keep files: {text}");
                        told.clone_from(&text);
                    }
                    self.note_error(text);
                }
            }
            std::thread::park_timeout(LOOK_PERIOD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_that_is_late_is_told_again_until_it_has_caught_up() {
        let seconds = Duration::from_secs;
        for (behind, interval, told, expected) in [
            (60, 10, None, Lateness::Nothing),
            (61, 10, None, Lateness::IsToBeTold),
            (361, 10, Some(299), Lateness::Nothing),
            (361, 10, Some(300), Lateness::IsToBeTold),
            (5, 10, Some(20), Lateness::Over),
            // Files that come every minute are no sign of a store that hangs.
            (200, 60, None, Lateness::Nothing),
            (241, 60, None, Lateness::IsToBeTold),
        ] {
            let found = lateness(seconds(behind), seconds(interval), told.map(seconds));
            assert_eq!(found, expected, "{behind} {interval} {told:?}");
        }
    }
}
