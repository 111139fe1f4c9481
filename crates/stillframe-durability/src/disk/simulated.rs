//! A disk in memory that fails as a test tells it to.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::platter::{Change, FileNumber, Files, Platter};
use super::{Disk, DiskFile, Stage};

/// What happens at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It fails with this code of the operating system. A write has written half of its bytes, a
    /// sync leaves what was in doubt so for good; anything else, and any call that is
    /// [interrupted](Self::INTERRUPTED), has done nothing.
    Error(i32),
    /// If it is a write it writes half of its bytes, and says so.
    ShortWrite,
    /// It and every later call fail: the power is gone.
    PowerLoss,
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
/// the calls that it is told to, and does the same each time it is asked the same.
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
pub struct SimulatedDisk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    platter: Platter,
    history: Vec<Change>,
    calls: u64,
    fault: Option<(u64, Fault)>,
    is_off: bool,
    /// Whether files can be written past a page cache.
    has_direct: bool,
}

impl SimulatedDisk {
    /// A disk that holds `files`, durably.
    #[must_use]
    pub fn holding(files: &Files) -> Self {
        let state = State { platter: Platter::holding(files), ..State::default() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// The same disk, whose files can be [written past the page cache](DiskFile::set_direct), from
    /// aligned memory alone. Checkpoints then come in large writes, and those that are larger still
    /// by a thread.
    #[must_use]
    pub fn with_direct(self, has_direct: bool) -> Self {
        self.lock().has_direct = has_direct;
        self
    }

    /// Makes `fault` happen once, at the call with this number, from 1.
    pub fn fail_at(&self, call: u64, fault: Fault) {
        self.lock().fault = Some((call, fault));
    }

    /// Calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// Whether the fault it was told of has happened.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let state = self.lock();
        state.fault.is_some_and(|(call, _)| call <= state.calls)
    }

    /// All changes since the disk was made.
    #[must_use]
    pub fn history(&self) -> Vec<Change> {
        self.lock().history.clone()
    }

    /// Changes since the disk was made.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.lock().history.len()
    }

    /// The contents, live and durable.
    #[must_use]
    pub fn platter(&self) -> Platter {
        self.lock().platter.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is taken all the same: only a test's own panic leaves one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts a call; tells what shall go wrong with it, other than an error at once.
    fn call(&mut self) -> io::Result<Option<Fault>> {
        self.calls += 1;
        let fault = self.fault.filter(|&(call, _)| call == self.calls).map(|(_, fault)| fault);
        self.is_off |= fault == Some(Fault::PowerLoss);
        if self.is_off {
            return Err(error(Fault::IO));
        }
        match fault {
            Some(Fault::INTERRUPTED) => Err(error(Fault::INTERRUPTED)),
            fault => Ok(fault),
        }
    }

    /// A call of which nothing happens if it fails.
    fn whole_call(&mut self) -> io::Result<()> {
        match self.call()? {
            Some(fault @ Fault::Error(_)) => Err(error(fault)),
            _ => Ok(()),
        }
    }

    fn change(&mut self, change: Change) {
        self.platter.apply(&change);
        self.history.push(change);
    }

    fn find(&self, name: &str) -> io::Result<FileNumber> {
        self.platter.find(name).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn error(fault: Fault) -> io::Error {
    match fault {
        Fault::Error(code) => io::Error::from_raw_os_error(code),
        Fault::ShortWrite | Fault::PowerLoss => error(Fault::IO),
    }
}

impl Disk for SimulatedDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut state = self.lock();
        state.whole_call()?;
        Ok(state.platter.names())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.lock();
        state.whole_call()?;
        let file = state.platter.next_file();
        state.change(Change::Create(name.into()));
        Ok(Box::new(SimulatedFile { disk: self.clone(), file, direct: AtomicBool::new(false) }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.lock();
        state.whole_call()?;
        let file = state.find(name)?;
        Ok(Box::new(SimulatedFile { disk: self.clone(), file, direct: AtomicBool::new(false) }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.whole_call()?;
        state.find(from)?;
        state.change(Change::Rename(from.into(), to.into()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.whole_call()?;
        state.find(name)?;
        state.change(Change::Remove(name.into()));
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.whole_call()?;
        state.change(Change::SyncNames);
        Ok(())
    }
}

#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    file: FileNumber,
    /// Whether what is written and read is to be aligned. Relaxed: one thread at a time writes, and
    /// whoever reads is told if he came too late.
    direct: AtomicBool,
}

impl SimulatedFile {
    fn check_places(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let places = [bytes.as_ptr() as usize, bytes.len(), offset as usize];
        let is_direct = self.direct.load(Ordering::Relaxed);
        if is_direct && places.iter().any(|place| place % Stage::ALIGN > 0) {
            return Err(error(Fault::Error(22))); // EINVAL
        }
        Ok(())
    }
}

impl DiskFile for SimulatedFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.lock();
        let fault = state.call()?;
        self.check_places(offset, bytes)?;
        let taken = if fault.is_some() { bytes.len() / 2 } else { bytes.len() };
        state.change(Change::Write(self.file, offset, bytes[..taken].to_vec()));
        match fault {
            Some(fault @ Fault::Error(_)) => Err(error(fault)),
            _ => Ok(taken),
        }
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        self.disk.lock().whole_call()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.disk.lock();
        state.whole_call()?;
        self.check_places(offset, into)?;
        let bytes = state.platter.read(self.file);
        let bytes = bytes.get(offset as usize..).unwrap_or_default();
        let count = bytes.len().min(into.len());
        into[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn length(&self) -> io::Result<u64> {
        let mut state = self.disk.lock();
        state.whole_call()?;
        Ok(state.platter.read(self.file).len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.lock();
        let outcome = state.whole_call();
        if !state.is_off {
            let change = if outcome.is_ok() { Change::Sync } else { Change::SyncFailed };
            state.change(change(self.file));
        }
        outcome
    }

    fn set_direct(&self, direct: bool) -> bool {
        let has_direct = self.disk.lock().has_direct;
        self.direct.store(direct && has_direct, Ordering::Relaxed);
        has_direct
    }

    fn write_behind(&self, _: Range<u64>) {}
}
