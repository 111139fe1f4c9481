//! Packs blocks with LZ4, on this thread or on others.
//!
//! - Blocks go round the threads in turn, and come back in turn: their order needs no numbers, and
//!   the file is the same whichever thread packed it.
//! - Without threads nothing is allocated after the start: a forked child packs by itself.
//! - Threads have the low priority of the one that starts them, and end when their pool is dropped.

use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle, available_parallelism};

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use stillframe::SinkError;

use super::{BLOCK_HEADER_BYTES, PACKED_HEAD_BYTES, seal_block};

/// Blocks that a thread has at once: one that it packs, and the next.
const BLOCKS_EACH: usize = 2;
/// More would wait for the disk.
const THREADS_MAX: usize = 4;

/// Threads that are worth it: none on a single processor.
pub(super) fn threads_max() -> usize {
    let processors = available_parallelism().map_or(1, NonZeroUsize::get);
    if processors > 1 { processors.min(THREADS_MAX) } else { 0 }
}

/// Packs blocks, in memory of its own.
pub(super) struct Packer {
    table: CompressTable,
    block: Vec<u8>,
}

impl Packer {
    pub(super) fn new(payload_bytes: usize) -> Self {
        let head_bytes = BLOCK_HEADER_BYTES + PACKED_HEAD_BYTES;
        let block = vec![0; head_bytes + get_maximum_output_size(payload_bytes)];
        Self { table: CompressTable::large(), block }
    }

    /// The block with its head, its payload packed if that makes it shorter.
    pub(super) fn seal<'a>(&'a mut self, plain: &'a mut [u8], first: u64) -> &'a [u8] {
        let packed = self.pack(plain);
        let is_packed = packed.is_some();
        let block = packed.unwrap_or(plain);
        seal_block(block, first, is_packed);
        block
    }

    /// The block with a packed payload and room for its head, if that is shorter.
    fn pack(&mut self, plain: &[u8]) -> Option<&mut [u8]> {
        let payload = &plain[BLOCK_HEADER_BYTES..];
        let (head, room) = self.block.split_at_mut(BLOCK_HEADER_BYTES + PACKED_HEAD_BYTES);
        head[BLOCK_HEADER_BYTES..].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        let packed = compress_into_with_table(payload, room, &mut self.table).ok()?;
        let bytes = head.len() + packed;
        (bytes < plain.len()).then(|| &mut self.block[..bytes])
    }
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Packer")
    }
}

/// A block on its round.
#[derive(Debug)]
struct Job {
    /// As long as a full block; this many bytes are in use.
    plain: Vec<u8>,
    used: usize,
    first: u64,
    /// What goes into the file.
    sealed: Vec<u8>,
}

/// Threads that pack.
#[derive(Debug)]
pub(super) struct Pool {
    threads: Vec<PackThread>,
    /// Blocks given and blocks taken back, of all.
    given: usize,
    taken: usize,
    idle: Vec<Job>,
}

#[derive(Debug)]
struct PackThread {
    jobs: Option<SyncSender<Job>>,
    done: Receiver<Job>,
    handle: Option<JoinHandle<()>>,
}

impl Pool {
    /// This many threads, or as many as the system gives; `None` if it gives none.
    pub(super) fn start(threads: usize, block_bytes: usize) -> Option<Self> {
        let start = || PackThread::start(block_bytes - BLOCK_HEADER_BYTES).ok();
        let threads: Vec<_> = (0..threads).map_while(|_| start()).collect();
        if threads.is_empty() {
            return None;
        }
        let job = || Job { plain: vec![0; block_bytes], used: 0, first: 0, sealed: Vec::new() };
        let idle = (0..BLOCKS_EACH * threads.len()).map(|_| job()).collect();
        Some(Self { threads, given: 0, taken: 0, idle })
    }

    /// Takes a block of `used` bytes with its head, and leaves the room of another in its place.
    /// The oldest goes to `write` first if the threads have all that they may have.
    pub(super) fn give(
        &mut self,
        plain: &mut Vec<u8>,
        used: usize,
        first: u64,
        write: impl FnMut(&[u8]) -> Result<(), SinkError>,
    ) -> Result<(), SinkError> {
        if self.idle.is_empty() {
            self.take(write)?;
        }
        let mut job = self.idle.pop().ok_or_else(gone)?;
        std::mem::swap(&mut job.plain, plain);
        (job.used, job.first) = (used, first);
        let thread = &self.threads[self.given % self.threads.len()];
        thread.jobs.as_ref().and_then(|jobs| jobs.send(job).ok()).ok_or_else(gone)?;
        self.given += 1;
        Ok(())
    }

    /// Hands all that is left to `write`.
    pub(super) fn finish(
        &mut self,
        mut write: impl FnMut(&[u8]) -> Result<(), SinkError>,
    ) -> Result<(), SinkError> {
        while self.taken < self.given {
            self.take(&mut write)?;
        }
        Ok(())
    }

    /// Waits for the oldest block.
    fn take(
        &mut self,
        mut write: impl FnMut(&[u8]) -> Result<(), SinkError>,
    ) -> Result<(), SinkError> {
        let thread = &self.threads[self.taken % self.threads.len()];
        let job = thread.done.recv().map_err(|_| gone())?;
        self.taken += 1;
        write(&job.sealed)?;
        self.idle.push(job);
        Ok(())
    }
}

/// A thread ends early only by a panic.
fn gone() -> SinkError {
    SinkError::new(format_args!("a thread that packs blocks panicked"))
}

impl PackThread {
    fn start(payload_bytes: usize) -> io::Result<Self> {
        let (jobs, to_pack) = sync_channel::<Job>(BLOCKS_EACH);
        let (packed, done) = sync_channel(BLOCKS_EACH);
        let handle = Builder::new().name("checkpoint-pack".into()).spawn(move || {
            let mut packer = Packer::new(payload_bytes);
            for mut job in to_pack {
                let sealed = packer.seal(&mut job.plain[..job.used], job.first);
                job.sealed.clear();
                job.sealed.extend_from_slice(sealed);
                if packed.send(job).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { jobs: Some(jobs), done, handle: Some(handle) })
    }
}

impl Drop for PackThread {
    fn drop(&mut self) {
        self.jobs = None; // which ends it
        if let Some(handle) = self.handle.take() {
            let _ = handle.join(); // a panic was reported when its block was due
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::Random;

    #[test]
    fn a_block_that_packing_makes_no_shorter_stays_as_it_is() {
        const PAYLOAD: usize = 4096;
        let (mut packer, mut random) = (Packer::new(PAYLOAD), Random(7));
        for is_random in [true, false] {
            let mut plain = vec![0; BLOCK_HEADER_BYTES + PAYLOAD];
            if is_random {
                plain.fill_with(|| random.next() as u8);
            }
            let bytes = plain.len();
            let sealed = packer.seal(&mut plain, 0).len();
            assert_eq!(sealed == bytes, is_random, "{sealed} of {bytes} bytes");
            assert!(sealed <= bytes);
        }
    }
}
