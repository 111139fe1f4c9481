//! Removes large files in pieces, so that nobody else waits for the disk meanwhile.
//!
//! - A file system that tells its disk what is free (`discard`) is busy for as long as one call has
//!   to free: a file of gigabytes holds up every sync beside it for a good part of a second.
//! - What is to go first gets a name that means nothing else, and that name is made durable: only
//!   then is the file cut. After a crash no file that is cut has a name that counts.
//! - A file that another has open, or that has a second name, is not cut.
//! - When the disk is full, what waits here goes at once.
//! - What is left when a directory is closed goes after its next opening.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::Disk;
use super::calls::patiently;
use crate::caught::caught;
use crate::mutant::{Mutant, Mutation};

/// Before the number in the name of what is to go.
const PREFIX: &str = "gone-";
/// Bytes freed by one call: a millisecond or two where the disk is told of them.
const PIECE_BYTES: u64 = 8 << 20;
/// Pause after a piece: at least so long, and so many times what the piece took.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_TIMES: u32 = 3;
/// How often a file that another has open is looked at again.
const LOOK: Duration = Duration::from_millis(100);
/// How long a writer without room waits for what is removed.
const ROOM_MAX: Duration = Duration::from_secs(10);

/// Whether a name is that of a file or directory that is to go.
#[must_use]
pub fn is_gone(name: &str) -> bool {
    number(name).is_some()
}

fn number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    let number: u64 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

/// Finds a name for what is to go, and has `rename` give it that.
pub(super) fn put_aside(
    disk: &dyn Disk,
    rename: impl Fn(&str) -> io::Result<()>,
) -> io::Result<String> {
    static NAMING: Mutex<()> = Mutex::new(());
    // Two that go at once must not get the same name.
    let _naming = NAMING.lock().unwrap_or_else(PoisonError::into_inner);
    let names = patiently(|| disk.names())?;
    let last = names.iter().filter_map(|name| number(name)).max().unwrap_or(0);
    let name = format!("{PREFIX}{}", last.saturating_add(1));
    patiently(|| rename(&name)).map(|()| name)
}

/// Removes large files of a directory and of those below it. A thread does that, from the first
/// file on; it ends when this is dropped.
#[derive(Debug)]
pub struct Sweeper {
    piece_bytes: u64,
    shared: Arc<Shared>,
    /// Without the thread it works when it is asked.
    has_thread: bool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    work: Mutex<Work>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Work {
    jobs: VecDeque<Job>,
    /// Those whose file another has open.
    later: Vec<Job>,
    is_running: bool,
    /// Writers that wait for room.
    hurried: usize,
    is_closing: bool,
}

/// What goes: a name in a directory, which knows no sweeper.
#[derive(Debug)]
struct Job {
    disk: Arc<dyn Disk>,
    name: String,
    mutation: Mutation,
}

/// How a pause ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Piece,
    /// All that is left, at once.
    All,
    Nothing,
}

/// How a removal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Done,
    /// Another has it open.
    Held,
    Stopped,
}

impl Default for Sweeper {
    /// With a thread, and pauses.
    fn default() -> Self {
        Self::with_pieces(PIECE_BYTES, true)
    }
}

impl Sweeper {
    /// Removes what it is asked to at once, in pieces of so many bytes, for tests.
    #[must_use]
    pub fn in_place(piece_bytes: u64) -> Self {
        Self::with_pieces(piece_bytes.max(1), false)
    }

    fn with_pieces(piece_bytes: u64, has_thread: bool) -> Self {
        Self { piece_bytes, shared: Arc::default(), has_thread, thread: Mutex::default() }
    }

    /// The bytes up to which a file is removed by one call.
    #[must_use]
    pub fn piece_bytes(&self) -> u64 {
        self.piece_bytes
    }

    /// Removes what has such a name.
    pub(super) fn remove(&self, disk: Arc<dyn Disk>, name: String, mutation: Mutation) {
        let job = Job { disk, name, mutation };
        if !self.has_thread {
            if job.run(self.piece_bytes, |_| Next::Piece) == Ended::Held {
                job.run(self.piece_bytes, |_| Next::All);
            }
            return;
        }
        self.shared.lock().jobs.push_back(job);
        self.shared.changed.notify_all();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (theirs, piece_bytes) = (Arc::clone(&self.shared), self.piece_bytes);
            let work = move || theirs.sweep(piece_bytes);
            match Builder::new().name("sweeper".into()).spawn(work) {
                Ok(started) => *thread = Some(started),
                Err(_) => {
                    let jobs = std::mem::take(&mut self.shared.lock().jobs);
                    jobs.into_iter().for_each(|job| _ = job.run(u64::MAX, |_| Next::All));
                }
            }
        }
    }

    /// There is no room on the disk: removes what waits here at once. Returns whether anything did.
    pub(super) fn make_room(&self) -> bool {
        let mut work = self.shared.lock();
        if work.is_idle() {
            return false;
        }
        work.hurried += 1;
        self.shared.changed.notify_all();
        let (mut work, _) = self.shared.wait(work, ROOM_MAX, |work| !work.is_idle());
        work.hurried -= 1;
        true
    }

    /// Waits until all is removed that nobody has open.
    pub(super) fn finish(&self) {
        let mut work = self.shared.lock();
        while work.is_running || !work.jobs.is_empty() {
            work = self.shared.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.shared.lock().is_closing = true;
        self.shared.changed.notify_all();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join(); // what it left undone the next start does
        }
    }
}

impl Work {
    fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.later.is_empty() && !self.is_running
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Work> {
        // Taken though poisoned: it is whole between statements.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while `waits` says so, for so long at most; returns whether it was too long.
    fn wait<'a>(
        &self,
        work: MutexGuard<'a, Work>,
        most: Duration,
        waits: impl FnMut(&mut Work) -> bool,
    ) -> (MutexGuard<'a, Work>, bool) {
        let waited = self.changed.wait_timeout_while(work, most, waits);
        let (work, ended) = waited.unwrap_or_else(PoisonError::into_inner);
        (work, ended.timed_out())
    }

    /// The thread.
    fn sweep(&self, piece_bytes: u64) {
        let mut work = self.lock();
        while !work.is_closing {
            let Some(job) = work.jobs.pop_front() else {
                let is_hurried = work.hurried > 0;
                let most = if work.later.is_empty() { Duration::MAX } else { LOOK };
                let idle = |work: &mut Work| {
                    work.jobs.is_empty()
                        && !work.is_closing
                        && (work.hurried == 0 || work.later.is_empty())
                };
                if !is_hurried || work.later.is_empty() {
                    work = self.wait(work, most, idle).0;
                }
                let later = std::mem::take(&mut work.later);
                work.jobs.extend(later);
                continue;
            };
            work.is_running = true;
            drop(work);
            // A disk that panics has the next start do it.
            let run = || job.run(piece_bytes, |took| self.pause(took));
            let ended = caught(run).unwrap_or(Ended::Stopped);
            work = self.lock();
            work.is_running = false;
            if ended == Ended::Held {
                work.later.push(job);
            }
            self.changed.notify_all();
        }
    }

    /// Leaves the disk to others, after a piece that took so long.
    fn pause(&self, took: Duration) -> Next {
        let most = PAUSE_MIN.max(took * PAUSE_TIMES);
        let goes_on = |work: &mut Work| !work.is_closing && work.hurried == 0;
        let (work, _) = self.wait(self.lock(), most, goes_on);
        match (work.is_closing, work.hurried) {
            (true, _) => Next::Nothing,
            (false, 0) => Next::Piece,
            (false, _) => Next::All,
        }
    }
}

impl Job {
    /// Removes it. `next` is asked before each piece, and told how long the one before took.
    fn run(&self, piece_bytes: u64, mut next: impl FnMut(Duration) -> Next) -> Ended {
        let started = Instant::now();
        // Before the first cut: else a crash could give a file that is cut its old name back.
        let is_durable =
            self.mutation.is(Mutant::CutsBeforeRenamed) || self.disk.sync_names().is_ok();
        let piece_bytes = if is_durable { piece_bytes } else { u64::MAX };
        match next(started.elapsed()) {
            Next::Nothing => Ended::Stopped,
            first => remove(&*self.disk, &self.name, piece_bytes, first, &mut next),
        }
    }
}

/// Removes a file, or a directory with all in it. Errors leave it to the next start.
fn remove(
    disk: &dyn Disk,
    name: &str,
    piece_bytes: u64,
    mut next: Next,
    pause: &mut impl FnMut(Duration) -> Next,
) -> Ended {
    if let Ok(inside) = patiently(|| disk.below(name)) {
        for file in patiently(|| inside.names()).unwrap_or_default() {
            match remove(&*inside, &file, piece_bytes, next, pause) {
                Ended::Done => {}
                ended => return ended,
            }
            next = pause(Duration::ZERO);
            if next == Next::Nothing {
                return Ended::Stopped;
            }
        }
        // The directory goes when its files have: a crash then has little left to decide.
        let _ = patiently(|| inside.sync_names());
        let _ = patiently(|| disk.remove_below(name));
        return Ended::Done;
    }
    let file = match next {
        Next::Piece => patiently(|| disk.open_alone(name)),
        _ => Err(ErrorKind::Unsupported.into()),
    };
    match file {
        Err(error) if error.kind() == ErrorKind::ResourceBusy => return Ended::Held,
        Err(_) => {} // it cannot be cut
        Ok(file) => {
            let mut length = patiently(|| file.length()).unwrap_or(0);
            while next == Next::Piece && length > piece_bytes {
                length -= piece_bytes;
                let started = Instant::now();
                if patiently(|| file.cut(length)).is_err() {
                    break;
                }
                next = pause(started.elapsed());
            }
            if next == Next::Nothing {
                return Ended::Stopped;
            }
        }
    }
    let _ = patiently(|| disk.remove(name));
    Ended::Done
}

#[cfg(test)]
mod tests;
