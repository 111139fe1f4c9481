//! Where the entries of an image go: RDB bytes into a file that is open already.
//!
//! - Runs on the snapshotter thread or in a forked child: nothing here allocates, locks or logs
//!   after construction.
//! - What the other side must see while it runs is in [`Counters`], shared with a forked child. All
//!   else that a child changes stays in the child: the parent publishes the file without it.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use stillframe::{MemoryError, Shared, SinkError};
use stillframe_keyspace::{Entry, EntrySink};
use stillframe_rdb::{Encoder, Output, Place};

use super::values;

/// Progress of one save.
#[derive(Debug, Clone)]
pub(crate) struct Counters {
    /// Keys encoded.
    pub(crate) keys: Shared<AtomicU64>,
    /// Bytes written.
    pub(crate) bytes: Shared<AtomicU64>,
}

impl Counters {
    /// Counters at zero.
    pub(crate) fn new() -> Result<Self, MemoryError> {
        Ok(Self { keys: Shared::new(AtomicU64::new(0))?, bytes: Shared::new(AtomicU64::new(0))? })
    }

    /// Begins again, for the next save.
    pub(crate) fn reset(&self) {
        self.keys.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }
}

/// Bytes after which what was written is pushed to the disk, so that the last sync is short and
/// the machine's write-back never stalls.
const SYNC_BYTES: u64 = 32 << 20;
/// Largest single write, so that the rate limit and the progress stay smooth.
const WRITE_BYTES_MAX: usize = 1 << 20;

/// The file being written.
pub(crate) struct DumpFile {
    file: File,
    counters: Counters,
    /// Most bytes per second, 0 for no limit.
    bandwidth_bytes: u64,
    started: Instant,
    written_bytes: u64,
    unsynced_bytes: u64,
}

impl DumpFile {
    /// Prepares to write `file`, which is empty.
    pub(crate) fn new(file: File, counters: Counters, bandwidth_bytes: u64) -> Self {
        Self {
            file,
            counters,
            bandwidth_bytes,
            started: Instant::now(),
            written_bytes: 0,
            unsynced_bytes: 0,
        }
    }

    /// The file itself.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    fn write_some(&mut self, bytes: &[u8]) -> Result<usize, SinkError> {
        let failed = |what, error: Errno| {
            SinkError::from_errno(format_args!("{what} the dump file"), error.raw_os_error())
        };
        let count = match rustix::io::write(&self.file, bytes) {
            Ok(0) => return Err(failed("writing", Errno::IO)),
            Ok(count) => count,
            Err(Errno::INTR) => return Ok(0),
            Err(error) => return Err(failed("writing", error)),
        };
        self.written_bytes += count as u64;
        self.unsynced_bytes += count as u64;
        self.counters.bytes.store(self.written_bytes, Ordering::Relaxed);
        if self.unsynced_bytes >= SYNC_BYTES {
            self.unsynced_bytes = 0;
            rustix::fs::fdatasync(&self.file).map_err(|error| failed("syncing", error))?;
        }
        Ok(count)
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

impl Output for DumpFile {
    type Error = SinkError;

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), SinkError> {
        while !bytes.is_empty() {
            let count = self.write_some(&bytes[..bytes.len().min(WRITE_BYTES_MAX)])?;
            bytes = &bytes[count..];
            self.keep_pace();
        }
        Ok(())
    }
}

/// Encodes the entries of one image.
pub(crate) struct RdbSink {
    /// The encoder, its header written.
    pub(crate) encoder: Encoder<DumpFile>,
    counters: Counters,
    keys: u64,
}

impl RdbSink {
    /// A sink in front of an encoder whose header is written.
    pub(crate) fn new(encoder: Encoder<DumpFile>, counters: Counters) -> Self {
        Self { encoder, counters, keys: 0 }
    }
}

impl EntrySink for RdbSink {
    fn entry(&mut self, entry: &Entry) -> Result<(), SinkError> {
        let (db, key, expire_at_ms) = (entry.db() as u64, entry.key(), entry.expire_at());
        let place = Place::Key { db, key, expire_at_ms };
        if !values::encode(&mut self.encoder, place, entry.value())? {
            return Err(SinkError::new(format_args!("a value has no place in a dump file")));
        }
        self.keys += 1;
        self.counters.keys.store(self.keys, Ordering::Relaxed);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.encoder.finish().map(|_| ())
    }
}
