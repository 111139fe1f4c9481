//! The dump file while it is written: past the page cache where the file system allows it.
//!
//! A dump of gigabytes would push everything else out of the page cache, and making its pages
//! takes the kernel about a second per gigabyte, during which many kernels let no other thread have
//! the core: the command thread would wait. So what is written is gathered in a stage of aligned
//! memory and goes from there to the disk (`O_DIRECT`). Where that is refused, and for the odd
//! bytes at the end, the file is written as any other, and pushed to the disk now and then.

use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use stillframe::SinkError;
use stillframe_durability::disk::{DiskFile, Stage};
use stillframe_rdb::Output;

use super::sink::{Counters, Destination, GivenUp};

/// Bytes gathered for one write: small enough for the rate limit and the progress to stay smooth.
const STAGE_BYTES: usize = 256 << 10;
/// Bytes after which what was written through the page cache is pushed to the disk, so that the
/// last sync is short and the machine's write-back never stalls.
const SYNC_BYTES: u64 = 32 << 20;

/// A stage for one file after the other.
pub(crate) fn stage() -> Stage {
    Stage::new(STAGE_BYTES)
}

/// How often who sleeps for the limit looks whether the image was given up.
const LOOK: Duration = Duration::from_millis(10);

/// A limit on bytes per second, until the image is given up.
pub(crate) struct Pace {
    /// 0 for none.
    bandwidth_bytes: u64,
    started: Instant,
    given_up: GivenUp,
}

impl Pace {
    /// Begins now; 0 is no limit.
    pub(crate) fn new(bandwidth_bytes: u64, given_up: GivenUp) -> Self {
        Self { bandwidth_bytes, started: Instant::now(), given_up }
    }

    /// Sleeps for as long as so many bytes are ahead of the limit.
    ///
    /// # Errors
    /// The image was given up.
    pub(crate) fn keep(&self, written_bytes: u64) -> Result<(), SinkError> {
        let rate = self.bandwidth_bytes.max(1) as f64;
        let due = Duration::from_secs_f64(written_bytes as f64 / rate);
        loop {
            if self.given_up.is_set() {
                return Err(SinkError::new(format_args!("the image was given up")));
            }
            let ahead = due.saturating_sub(self.started.elapsed());
            if self.bandwidth_bytes == 0 || ahead.is_zero() {
                return Ok(());
            }
            std::thread::sleep(ahead.min(LOOK));
        }
    }
}

/// The file being written.
pub(crate) struct DumpFile {
    file: Box<dyn DiskFile>,
    counters: Counters,
    /// `None` when it was taken away.
    stage: Option<Stage>,
    pace: Pace,
    written_bytes: u64,
    unsynced_bytes: u64,
}

impl DumpFile {
    /// Prepares to write `file`, which is empty.
    pub(crate) fn new(
        file: Box<dyn DiskFile>,
        stage: Stage,
        counters: Counters,
        bandwidth_bytes: u64,
    ) -> Self {
        // A file system that has no such thing says so here or at the first write.
        let _ = file.set_direct(true);
        Self {
            file,
            pace: Pace::new(bandwidth_bytes, counters.given_up.clone()),
            counters,
            stage: Some(stage),
            written_bytes: 0,
            unsynced_bytes: 0,
        }
    }

    /// The file itself.
    pub(crate) fn file(&self) -> &dyn DiskFile {
        &*self.file
    }

    /// Takes the stage away for the next file. Nothing more can be written through this one.
    pub(crate) fn take_stage(&mut self) -> Stage {
        let mut stage = self.stage.take().unwrap_or_else(stage);
        stage.clear();
        stage
    }

    /// Writes what is in the stage, and makes its room free again.
    fn write_stage(&mut self) -> Result<(), SinkError> {
        let mut stage = self.stage.take().ok_or_else(|| failed("writing", Errno::BADF))?;
        let bytes = stage.gathered();
        let (whole, rest) = bytes.split_at(bytes.len() / Stage::ALIGN * Stage::ALIGN);
        let mut outcome = self.write_all(whole);
        if outcome.is_ok() && !rest.is_empty() {
            let _ = self.file.set_direct(false);
            outcome = self.write_all(rest);
        }
        stage.clear();
        self.stage = Some(stage);
        outcome
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), SinkError> {
        let mut may_be_direct = true;
        while !bytes.is_empty() {
            match self.file.write_at(self.written_bytes, bytes) {
                Ok(0) => return Err(failed("writing", Errno::IO)),
                Ok(count) => {
                    bytes = bytes.get(count..).unwrap_or_default();
                    self.written(count)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Not past the page cache, or not from this position after a short write.
                Err(error) if error.kind() == ErrorKind::InvalidInput && may_be_direct => {
                    may_be_direct = false;
                    let _ = self.file.set_direct(false);
                }
                Err(error) => return Err(failed("writing", errno(&error))),
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
            self.file.sync().map_err(|error| failed("syncing", errno(&error)))?;
        }
        self.pace.keep(self.written_bytes)
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn failed(what: &str, error: Errno) -> SinkError {
    SinkError::from_errno(format_args!("{what} the dump file"), error.raw_os_error())
}

impl Output for DumpFile {
    type Error = SinkError;

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), SinkError> {
        while !bytes.is_empty() {
            let Some(stage) = &mut self.stage else { return Err(failed("writing", Errno::BADF)) };
            let taken = stage.take(bytes);
            bytes = &bytes[taken..];
            if stage.is_full() {
                self.write_stage()?;
            }
        }
        Ok(())
    }
}

impl Destination for DumpFile {
    fn finish(&mut self) -> Result<(), SinkError> {
        self.write_stage()
    }
}
