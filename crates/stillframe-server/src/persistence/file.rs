//! The dump file while it is written: past the page cache where the file system allows it.
//!
//! A dump of gigabytes would push everything else out of the page cache, and making its pages
//! takes the kernel about a second per gigabyte, during which many kernels let no other thread have
//! the core: the command thread would wait. So what is written is gathered in a stage of aligned
//! memory and goes from there to the disk (`O_DIRECT`). Where that is refused, and for the odd
//! bytes at the end, the file is written as any other, and pushed to the disk now and then.

use std::fs::File;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use stillframe::SinkError;
use stillframe_rdb::Output;

use super::sink::Counters;

/// Bytes gathered for one write: small enough for the rate limit and the progress to stay smooth.
const STAGE_BYTES: usize = 256 << 10;
/// What disks want positions, lengths and addresses to be multiples of, at most.
const ALIGN: usize = 4096;
/// Bytes after which what was written through the page cache is pushed to the disk, so that the
/// last sync is short and the machine's write-back never stalls.
const SYNC_BYTES: u64 = 32 << 20;

/// Aligned memory that writes are made from. Kept from one save to the next: fresh memory is slow
/// to touch.
pub(crate) struct Stage {
    memory: Box<[u8]>,
    start: usize,
}

impl Stage {
    /// Allocates and touches it.
    pub(crate) fn new() -> Self {
        let memory: Box<[u8]> = vec![1; STAGE_BYTES + ALIGN].into();
        let start = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
        Self { memory, start }
    }

    /// Nothing can be gathered in it: it only takes a place.
    fn spent() -> Self {
        Self { memory: Box::default(), start: 0 }
    }

    fn room(&mut self, filled: usize) -> &mut [u8] {
        let end = self.memory.len().min(self.start + STAGE_BYTES);
        self.memory.get_mut(self.start + filled..end).unwrap_or_default()
    }

    fn filled(&self, range: std::ops::Range<usize>) -> &[u8] {
        self.memory.get(self.start + range.start..self.start + range.end).unwrap_or_default()
    }
}

/// The file being written.
pub(crate) struct DumpFile {
    file: File,
    counters: Counters,
    stage: Stage,
    /// Bytes of the stage that are to be written.
    filled: usize,
    /// Most bytes per second, 0 for no limit.
    bandwidth_bytes: u64,
    started: Instant,
    written_bytes: u64,
    unsynced_bytes: u64,
}

impl DumpFile {
    /// Prepares to write `file`, which is empty.
    pub(crate) fn new(file: File, stage: Stage, counters: Counters, bandwidth_bytes: u64) -> Self {
        let this = Self {
            file,
            counters,
            stage,
            filled: 0,
            bandwidth_bytes,
            started: Instant::now(),
            written_bytes: 0,
            unsynced_bytes: 0,
        };
        // A file system that has no such thing says so here or at the first write.
        let _ = this.set_direct(true);
        this
    }

    /// The file itself.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Takes the stage away for the next file. Nothing more can be written through this one.
    pub(crate) fn take_stage(&mut self) -> Stage {
        self.filled = 0;
        std::mem::replace(&mut self.stage, Stage::spent())
    }

    /// Writes what is still in the stage.
    pub(crate) fn finish(&mut self) -> Result<(), SinkError> {
        let whole = self.filled / ALIGN * ALIGN;
        self.write_stage(0..whole)?;
        if whole < self.filled {
            self.set_direct(false).map_err(|error| failed("preparing", error))?;
            self.write_stage(whole..self.filled)?;
        }
        self.filled = 0;
        Ok(())
    }

    fn set_direct(&self, direct: bool) -> Result<(), Errno> {
        let mut flags = fcntl_getfl(&self.file)?;
        flags.set(OFlags::DIRECT, direct);
        fcntl_setfl(&self.file, flags)
    }

    fn write_stage(&mut self, mut range: std::ops::Range<usize>) -> Result<(), SinkError> {
        let mut may_be_direct = true;
        while !range.is_empty() {
            match rustix::io::write(&self.file, self.stage.filled(range.clone())) {
                Ok(0) => return Err(failed("writing", Errno::IO)),
                Ok(count) => {
                    range.start += count;
                    self.written(count)?;
                }
                Err(Errno::INTR) => {}
                // Not past the page cache, or not from this position after a short write.
                Err(Errno::INVAL) if may_be_direct => {
                    may_be_direct = false;
                    self.set_direct(false).map_err(|error| failed("preparing", error))?;
                }
                Err(error) => return Err(failed("writing", error)),
            }
        }
        Ok(())
    }

    fn written(&mut self, count: usize) -> Result<(), SinkError> {
        self.written_bytes += count as u64;
        self.unsynced_bytes += count as u64;
        self.counters.bytes.store(self.written_bytes, Ordering::Relaxed);
        if self.unsynced_bytes >= SYNC_BYTES {
            self.unsynced_bytes = 0;
            rustix::fs::fdatasync(&self.file).map_err(|error| failed("syncing", error))?;
        }
        self.keep_pace();
        Ok(())
    }

    /// Sleeps for as long as the file is ahead of the rate limit.
    fn keep_pace(&self) {
        if self.bandwidth_bytes == 0 {
            return;
        }
        let due = Duration::from_secs_f64(self.written_bytes as f64 / self.bandwidth_bytes as f64);
        let ahead = due.saturating_sub(self.started.elapsed());
        if !ahead.is_zero() {
            std::thread::sleep(ahead);
        }
    }
}

fn failed(what: &str, error: Errno) -> SinkError {
    SinkError::from_errno(format_args!("{what} the dump file"), error.raw_os_error())
}

impl Output for DumpFile {
    type Error = SinkError;

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), SinkError> {
        while !bytes.is_empty() {
            let room = self.stage.room(self.filled);
            let count = room.len().min(bytes.len());
            if count == 0 {
                return Err(failed("writing", Errno::BADF)); // the stage was taken away
            }
            room[..count].copy_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            self.filled += count;
            if self.filled == STAGE_BYTES {
                self.filled = 0;
                self.write_stage(0..STAGE_BYTES)?;
            }
        }
        Ok(())
    }
}
