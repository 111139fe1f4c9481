//! The save under way, the outcome of earlier ones, and the workspace of saves.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use stillframe::MemoryError;
use stillframe_durability::disk::{Stage, Throttle};
use stillframe_keyspace::{HeldImage, Keyspace};
use stillframe_rdb::{Version, Workspace};

use super::file::stage;
use super::{Counters, DataDirectory, Drag, Handback, Loaded, SaveError};
use crate::clock::unix_millis;
use crate::journal::Covered;
use crate::settings::SavePoint;
use crate::wake::Wake;

/// The save under way and the outcome of earlier ones.
pub struct Saves {
    /// Whether the last save in the background, or attempt at one, succeeded.
    pub last_ok: bool,
    /// Saves in the background, or attempts, that failed since the last that succeeded.
    pub failures: u64,
    /// Whether the last save that ended succeeded, in the foreground or background.
    pub ended_well: bool,
    /// When the last successful save ended (or the server started), in unix seconds.
    pub last_success_s: i64,
    /// How long the last background save took, whether it succeeded or not.
    pub last_duration: Option<Duration>,
    /// How long the last begin of an image blocked the command thread.
    pub latest_begin: Duration,
    /// Successful saves since the start.
    pub count: u64,
    /// For what an image was asked for while it could not begin.
    pub scheduled: Option<Purpose>,
    /// The figures of the load at start.
    pub loaded: Loaded,
    /// Bytes of the dump that was saved or loaded last.
    pub dump_bytes: u64,
    pub(crate) running: Option<Save>,
    /// How it ended.
    pub(crate) handback: Handback<Saved, (Workspace, Stage)>,
    /// The workspace of a save, kept from one to the next: fresh memory is slow to touch, and the
    /// command thread would wait for it.
    pub(crate) workspace: Option<(Workspace, Stage)>,
    /// The part of it that an image for replicas does not need.
    stage: Option<Stage>,
    pub(crate) counters: Counters,
    /// Pauses of the image under way.
    pub drag: Drag,
    pub(crate) last_try: Option<Instant>,
    pub(crate) directory: DataDirectory,
    wake: Wake,
    /// Holds dumps to their rate.
    pub throttle: Throttle,
    /// Holds images for replicas to their rate.
    pub sending: Throttle,
    pub(crate) due: Option<Due>,
    /// The version of dumps as it was logged last.
    told: Version,
}

/// A save that the schedule asks for, from the first time that it did.
#[derive(Debug)]
pub(crate) struct Due {
    since: Instant,
    /// When it becomes overdue, by its schedule.
    grace: Duration,
    /// When to log it again.
    tell_after: Duration,
}

/// What an image is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A dump that somebody wants: BGSAVE, the schedule, a replica.
    Dump,
    /// The place of the log so far. Nobody needs it once the log is to end.
    Log,
}

/// A save under way.
pub struct Save {
    /// What it is for.
    pub purpose: Purpose,
    /// When it began.
    pub started: Instant,
    /// Keys it will save.
    pub keys_total: u64,
    pub(crate) dirty: u64,
    pub(crate) counters: Counters,
    pub(crate) covered: Covered,
    pub(crate) image: HeldImage,
    /// Whether a client waits for its end.
    pub(crate) awaited: bool,
    /// Whether an operator has cancelled it.
    pub(crate) cancelled: bool,
}

impl Save {
    /// Whether it ends soon, unfinished, because its log has ended.
    pub fn is_dropped(&self) -> bool {
        self.cancelled && self.purpose == Purpose::Log
    }

    /// Keys saved so far.
    pub fn keys_done(&self) -> u64 {
        self.counters.keys.load(Ordering::Relaxed)
    }

    /// Bytes written so far.
    pub fn bytes_done(&self) -> u64 {
        self.counters.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that the file will have, estimated from the keys saved so far.
    pub fn bytes_total(&self) -> u64 {
        let done = u128::from(self.keys_done());
        let bytes = u128::from(self.bytes_done()) * u128::from(self.keys_total);
        u64::try_from(bytes.checked_div(done).unwrap_or(0)).unwrap_or(u64::MAX)
    }

    /// Time left, if the rest takes as long per key as before.
    pub fn time_left(&self) -> Duration {
        let (done, total) = (self.keys_done(), self.keys_total);
        if done == 0 {
            return Duration::ZERO;
        }
        self.started.elapsed().mul_f64(total.saturating_sub(done) as f64 / done as f64)
    }
}

/// How a save ended.
pub(crate) type Saved = Result<(), SaveError>;

impl Saves {
    /// State before the first save.
    pub fn new(directory: DataDirectory, wake: Wake) -> Result<Self, MemoryError> {
        Ok(Self {
            last_ok: true,
            failures: 0,
            ended_well: true,
            last_success_s: unix_millis() / 1000,
            last_duration: None,
            latest_begin: Duration::ZERO,
            count: 0,
            scheduled: None,
            loaded: Loaded::default(),
            dump_bytes: 0,
            running: None,
            handback: Handback::new(Arc::clone(&wake)),
            workspace: Some((Workspace::new(), stage())),
            stage: None,
            counters: Counters::new()?,
            drag: Drag::new()?,
            last_try: None,
            directory,
            wake,
            throttle: Throttle::new(0)?,
            sending: Throttle::new(0)?,
            due: None,
            told: Version::default(),
        })
    }

    /// Logs that the data asks for dumps of another version than before.
    pub(crate) fn tell_version(&mut self, version: Version) {
        let number = version.number();
        match version {
            _ if version == self.told => {}
            Version::Redis10 => tracing::info!("dumps are RDB version 10 again, as of Redis 7.0"),
            _ => {
                let since = version.first_redis();
                tracing::info!(
                    "dumps are RDB version {number} from now on, as the data needs it: Redis before \
                     {since} and Valkey cannot read them (see rdb-version)"
                );
            }
        }
        self.told = version;
    }

    /// The data directory.
    pub fn directory(&self) -> &DataDirectory {
        &self.directory
    }

    /// Saves into another directory, or under another name, from the next save on.
    pub fn save_into(&mut self, directory: DataDirectory) {
        self.directory = directory;
    }

    /// The path of the dump file.
    pub fn dump(&self) -> &Path {
        self.directory.dump()
    }

    /// Wakes the event loop.
    pub fn wake(&self) -> Wake {
        Arc::clone(&self.wake)
    }

    /// The save that the schedule asks for now. If it waits for longer than the schedule's period,
    /// it is overdue, which is logged, less and less often.
    pub(crate) fn note_due(&mut self, point: Option<&SavePoint>) {
        let Some(point) = point else { return self.due = None };
        let (since, grace) = (Instant::now(), Duration::from_secs(point.seconds.max(1)));
        let due = self.due.get_or_insert(Due { since, grace, tell_after: grace });
        let waits = due.since.elapsed();
        if waits < due.tell_after {
            return;
        }
        due.tell_after = 2 * waits;
        let what = match &self.running {
            Some(running) => format!(
                "the one under way has saved {} of {} keys: see snapshot-bandwidth",
                running.keys_done(),
                running.keys_total
            ),
            None => "saves fail, or cannot begin".to_owned(),
        };
        let SavePoint { seconds, changes } = point;
        let waits = waits.as_secs();
        tracing::warn!("a save has been due for {waits} s (save {seconds} {changes}); {what}");
    }

    /// How long a save has been overdue; zero if none is.
    pub fn overdue(&self) -> Duration {
        let overdue = |due: &Due| due.since.elapsed().saturating_sub(due.grace);
        self.due.as_ref().map_or(Duration::ZERO, overdue)
    }

    /// Images under way go on at this rate, in bytes a second; 0 is no limit.
    pub fn hold_to(&self, bandwidth_bytes: u64) {
        self.throttle.change(bandwidth_bytes);
        self.sending.change(bandwidth_bytes);
    }

    /// Stops an image at once: nothing more of it is written. The throttle is that of its writer.
    pub fn give_up(&self, keyspace: &Keyspace, image: HeldImage, throttle: &Throttle) {
        keyspace.cancel(image);
        throttle.cancel();
        self.drag.set(0);
    }

    /// The save under way.
    pub fn running(&self) -> Option<&Save> {
        self.running.as_ref()
    }

    /// Lends the encoder's workspace until [`give_back`](Self::give_back). While it is lent, or a
    /// save has it, the other makes its own.
    pub fn lend_workspace(&mut self) -> Workspace {
        self.workspace.take().map_or_else(Workspace::new, |(workspace, stage)| {
            self.stage = Some(stage);
            workspace
        })
    }

    /// Takes back what [`lend_workspace`](Self::lend_workspace) gave.
    pub fn give_back(&mut self, workspace: Workspace) {
        if let Some(own) = self.stage.take() {
            self.workspace = Some((workspace, own));
        }
    }

    /// The pauses of an image that is about to begin.
    pub fn dragged(&self, delay_us: i32) -> Drag {
        self.drag.set(delay_us);
        self.drag.clone()
    }

    /// Whether a save was published and its image is about to end, so that the loop looks again
    /// soon.
    pub fn ends_soon(&self) -> bool {
        self.handback.has_ended()
    }
}
