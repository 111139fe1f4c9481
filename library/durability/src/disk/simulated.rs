//! A disk in memory that fails as a test asks.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::platter::{Change, FileNumber, Files, Platter};
use super::{Disk, DiskFile, Lock, Stage, Sweeper};

/// What happens at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It fails with this code of the operating system. A write has written half of its bytes, a
    /// sync leaves doubtful pieces in doubt; any other call, and any
    /// [interrupted](Self::INTERRUPTED) one, has done nothing.
    Error(i32),
    /// A write writes half of its bytes, and returns how many.
    ShortWrite,
    /// This and every later call fail: the power is gone.
    PowerLoss,
    /// It panics, and has done nothing.
    Panic,
}

impl Fault {
    /// EIO.
    pub const IO: Self = Self::Error(5);
    /// ENOSPC.
    pub const DISK_FULL: Self = Self::Error(28);
    /// EINTR.
    pub const INTERRUPTED: Self = Self::Error(4);
}

/// A disk in memory, for tests. Clones are the same disk. It forgets what a crash would lose, fails
/// the calls that a test names, and is deterministic.
///
/// ```
/// # use std::sync::Arc;
/// use stillframe_durability::disk::SimulatedDisk;
/// use stillframe_durability::{Options, Store};
///
/// # fn main() -> Result<(), stillframe_durability::Error> {
/// let on = |disk: &SimulatedDisk| Options::words(1).disk(Arc::new(disk.clone()));
/// let disk = SimulatedDisk::default();
/// let mut store: Store = Store::open("simulated", on(&disk))?;
/// store.write(0, 7);
/// store.checkpoint_and_wait()?;
///
/// // The power goes, and with it all that was not synced.
/// let disk = SimulatedDisk::holding(&disk.platter().lose_power(|_| false));
/// let store: Store = Store::open("simulated", on(&disk))?;
/// assert_eq!(store.read(0), 7);
/// # Ok(())
/// # }
/// ```
///
/// It takes a lock and allocates, so it does not serve
/// [`Fork`](stillframe::algorithms::fork::Fork), whose checkpoints are written in a child process.
#[derive(Debug, Clone, Default)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
    /// The directory that this is, as the start of paths: "" or "one/" or "one/two/".
    folder: String,
}

#[derive(Debug, Default)]
struct State {
    platter: Platter,
    history: Vec<Change>,
    forgets: bool,
    calls: u64,
    fault: Option<(u64, Fault)>,
    is_off: bool,
    /// Whether files can be written past a page cache.
    has_direct: bool,
    /// Paths of the locks that are held.
    locks: BTreeSet<String>,
    /// How often each file is open.
    open: BTreeMap<FileNumber, usize>,
    /// How many bytes there is room for.
    room: Option<u64>,
    /// In pieces of how many bytes large files are removed.
    piece_bytes: Option<u64>,
    /// How long a sync takes by the clock of a test.
    sync_time: Option<Duration>,
}

impl SimulatedDisk {
    /// A disk that holds `files`, durably.
    #[must_use]
    pub fn holding(files: &Files) -> Self {
        Self::on(Platter::holding(files))
    }

    /// A disk with these contents: those of another after a kill, which loses nothing yet.
    #[must_use]
    pub fn on(platter: Platter) -> Self {
        let state = State { platter, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), folder: String::new() }
    }

    /// The same disk, whose files can be [written past the page cache](DiskFile::set_direct), from
    /// aligned memory alone. Checkpoints then come in large writes, and those that are larger still
    /// by a thread.
    #[must_use]
    pub fn with_direct(self, has_direct: bool) -> Self {
        self.state().has_direct = has_direct;
        self
    }

    /// The same disk, which keeps no [`history`](Self::history): a long run would fill memory.
    #[must_use]
    pub fn without_history(self) -> Self {
        self.state().forgets = true;
        self
    }

    /// The same disk, on which files that are [discarded](super::Directory::discard) are removed in
    /// pieces of so many bytes, before the call returns.
    #[must_use]
    pub fn with_pieces(self, bytes: u64) -> Self {
        self.state().piece_bytes = Some(bytes);
        self
    }

    /// From now on there is room for so many bytes; `None`: for any number. A write that needs
    /// more, or a file that is to be reserved, fails with [`Fault::DISK_FULL`].
    pub fn set_room(&self, bytes: Option<u64>) {
        self.state().room = bytes;
    }

    /// From now on a sync takes so long by the clock of a test: see [`Disk::sync_time`].
    pub fn set_sync_time(&self, time: Duration) {
        self.state().sync_time = Some(time);
    }

    /// Bytes of all files that have a name.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.state().platter.bytes()
    }

    /// Makes `fault` happen once, at the call with this number, from 1.
    pub fn fail_at(&self, call: u64, fault: Fault) {
        self.state().fault = Some((call, fault));
    }

    /// Calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Whether the fault it was asked for has happened.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let state = self.state();
        state.fault.is_some_and(|(call, _)| call <= state.calls)
    }

    /// All changes since the disk was made.
    #[must_use]
    pub fn history(&self) -> Vec<Change> {
        self.state().history.clone()
    }

    /// Changes since the disk was made.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.state().history.len()
    }

    /// The contents, live and durable.
    #[must_use]
    pub fn platter(&self) -> Platter {
        self.state().platter.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is taken anyway: only a test's own panic leaves one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self, name: &str) -> String {
        self.folder.clone() + name
    }

    fn opened(&self, state: &mut State, file: FileNumber) -> Box<dyn DiskFile> {
        *state.open.entry(file).or_default() += 1;
        Box::new(SimulatedFile { disk: self.clone(), file, direct: AtomicBool::new(false) })
    }
}

impl State {
    /// Counts a call; returns what shall go wrong with it, other than an error at once.
    fn call(&mut self) -> io::Result<Option<Fault>> {
        self.calls += 1;
        let fault = self.fault.filter(|&(call, _)| call == self.calls).map(|(_, fault)| fault);
        self.is_off |= fault == Some(Fault::PowerLoss);
        if self.is_off {
            return Err(error(Fault::IO));
        }
        match fault {
            Some(Fault::INTERRUPTED) => Err(error(Fault::INTERRUPTED)),
            // Past the hook, which would print it.
            Some(Fault::Panic) => resume_unwind(Box::new("a disk that panics")),
            fault => Ok(fault),
        }
    }

    /// A call that does nothing if it fails.
    fn whole_call(&mut self) -> io::Result<()> {
        match self.call()? {
            Some(fault @ Fault::Error(_)) => Err(error(fault)),
            _ => Ok(()),
        }
    }

    /// Whether there is room for a file to become so long.
    fn check_room(&self, file: FileNumber, bytes: u64) -> io::Result<()> {
        let more = bytes.saturating_sub(self.platter.read(file).len() as u64);
        match self.room {
            Some(room) if more > 0 && self.platter.bytes() + more > room => {
                Err(error(Fault::DISK_FULL))
            }
            _ => Ok(()),
        }
    }

    fn change(&mut self, change: Change) {
        self.platter.apply(&change);
        if !self.forgets {
            self.history.push(change);
        }
    }

    fn find(&self, path: &str) -> io::Result<FileNumber> {
        self.there(path)?;
        self.platter.find(path).ok_or_else(|| io::ErrorKind::IsADirectory.into())
    }

    /// The names in a directory that is there.
    fn names_below(&self, path: &str) -> io::Result<Vec<String>> {
        self.there(path)?;
        self.platter.names_in(path).ok_or_else(|| io::ErrorKind::NotADirectory.into())
    }

    fn there(&self, path: &str) -> io::Result<()> {
        let is_there = self.platter.find(path).is_some() || self.platter.names_in(path).is_some();
        if is_there { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }
}

fn error(fault: Fault) -> io::Error {
    match fault {
        Fault::Error(code) => io::Error::from_raw_os_error(code),
        Fault::ShortWrite | Fault::PowerLoss | Fault::Panic => error(Fault::IO),
    }
}

impl Disk for SimulatedDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.whole_call()?;
        state.platter.names_in(&self.folder).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.whole_call()?;
        let file = state.platter.next_file();
        state.change(Change::Create(self.at(name)));
        Ok(self.opened(&mut state, file))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.whole_call()?;
        let file = state.find(&self.at(name))?;
        Ok(self.opened(&mut state, file))
    }

    fn open_alone(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.whole_call()?;
        let file = state.find(&self.at(name))?;
        if state.platter.links(self.folder.trim_end_matches('/'), file) != 1 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if state.open.contains_key(&file) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        Ok(self.opened(&mut state, file))
    }

    fn sweeper(&self) -> Option<(Arc<Sweeper>, Arc<dyn Disk>)> {
        let sweeper = Sweeper::in_place(self.state().piece_bytes?);
        Some((Arc::new(sweeper), Arc::new(self.clone())))
    }

    /// It is no call that a test can fail: a clock decides when it comes.
    fn identity(&self, name: &str) -> io::Result<Option<(u64, u64)>> {
        let state = self.state();
        if state.is_off {
            return Err(error(Fault::IO));
        }
        Ok(Some((0, state.find(&self.at(name))? as u64)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.whole_call()?;
        state.there(&self.at(from))?;
        state.change(Change::Rename(self.at(from), self.at(to)));
        Ok(())
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.whole_call()?;
        state.find(&self.at(from))?;
        if state.there(&self.at(to)).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.change(Change::Link(self.at(from), self.at(to)));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.whole_call()?;
        state.find(&self.at(name))?;
        state.change(Change::Remove(self.at(name)));
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.state();
        state.whole_call()?;
        state.change(Change::SyncNames(self.folder.trim_end_matches('/').to_owned()));
        Ok(())
    }

    fn below(&self, name: &str) -> io::Result<Arc<dyn Disk>> {
        let mut state = self.state();
        state.whole_call()?;
        let path = self.at(name);
        state.names_below(&path)?;
        Ok(Arc::new(Self { state: Arc::clone(&self.state), folder: path + "/" }))
    }

    fn create_below(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.whole_call()?;
        if state.there(&self.at(name)).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.change(Change::CreateFolder(self.at(name)));
        Ok(())
    }

    fn remove_below(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.whole_call()?;
        let path = self.at(name);
        if !state.names_below(&path)?.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        state.change(Change::Remove(path));
        Ok(())
    }

    fn sync_time(&self) -> Option<Duration> {
        self.state().sync_time
    }

    fn lock(&self, name: &str) -> io::Result<Lock> {
        let mut state = self.state();
        state.whole_call()?;
        let path = self.at(name);
        if !state.locks.insert(path.clone()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimulatedLock { disk: self.clone(), path }))
    }
}

/// A lock that is held.
#[derive(Debug)]
struct SimulatedLock {
    disk: SimulatedDisk,
    path: String,
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        self.disk.state().locks.remove(&self.path);
    }
}

#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    file: FileNumber,
    /// Whether reads and writes must be aligned. Relaxed: one thread at a time writes, and a reader
    /// that came too late gets an error.
    direct: AtomicBool,
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if let Some(count) = state.open.get_mut(&self.file) {
            *count -= 1;
            if *count == 0 {
                state.open.remove(&self.file);
            }
        }
    }
}

impl SimulatedFile {
    fn check_places(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let bounds = [bytes.as_ptr() as usize, bytes.len(), offset as usize];
        let is_direct = self.direct.load(Ordering::Relaxed);
        if is_direct && bounds.iter().any(|bound| bound % Stage::ALIGN > 0) {
            return Err(error(Fault::Error(22))); // EINVAL
        }
        Ok(())
    }
}

impl DiskFile for SimulatedFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        let fault = state.call()?;
        self.check_places(offset, bytes)?;
        state.check_room(self.file, offset + bytes.len() as u64)?;
        let taken = if fault.is_some() { bytes.len() / 2 } else { bytes.len() };
        state.change(Change::Write(self.file, offset, bytes[..taken].to_vec()));
        match fault {
            Some(fault @ Fault::Error(_)) => Err(error(fault)),
            _ => Ok(taken),
        }
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.whole_call()?;
        state.check_room(self.file, bytes)
    }

    fn free(&self) -> io::Result<Option<u64>> {
        let state = self.disk.state();
        Ok(state.room.map(|room| room.saturating_sub(state.platter.bytes())))
    }

    fn cut(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.whole_call()?;
        state.change(Change::Cut(self.file, bytes));
        Ok(())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.whole_call()?;
        self.check_places(offset, into)?;
        let bytes = state.platter.read(self.file);
        let bytes = bytes.get(offset as usize..).unwrap_or_default();
        let count = bytes.len().min(into.len());
        into[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn length(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        state.whole_call()?;
        Ok(state.platter.read(self.file).len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let result = state.whole_call();
        if !state.is_off {
            let change = if result.is_ok() { Change::Sync } else { Change::SyncFailed };
            state.change(change(self.file));
        }
        result
    }

    fn set_direct(&self, direct: bool) -> bool {
        let has_direct = self.disk.state().has_direct;
        self.direct.store(direct && has_direct, Ordering::Relaxed);
        has_direct
    }

    fn write_behind(&self, _: Range<u64>) {}
}
