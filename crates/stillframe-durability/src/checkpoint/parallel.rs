//! Loads a full checkpoint with several threads: each reads and checks stretches of blocks, and
//! puts their words into memory, or one hands them on. Memory that is fresh is slow to touch, so
//! that, too, is better shared. The digest of the file is put together from those of the stretches.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};

use stillframe::Words;

use super::damage::Damage;
use super::digest::{Joint, digest_of};
use super::reader::{Block, Expected, Reader, read_at_least};
use super::{BLOCK_HEADER_BYTES, Header};
use crate::disk::Stage;

/// Blocks that a thread takes at once: 1 MiB.
const STRETCH_BLOCKS: u64 = 16;
const ALIGN: u64 = Stage::ALIGN as u64;

/// What one thread has read.
struct Stretch {
    number: u64,
    digest: u64,
    bytes: u64,
    first: u64,
    /// None if they are where they belong.
    words: Vec<u64>,
}

impl<R: Read + Send> Reader<R> {
    /// Whether that many threads would read apart: the file is large, and its blocks have places.
    pub(crate) fn is_for_threads(&self, threads: usize) -> bool {
        let header = self.header();
        threads > 1 && header.blocks() > STRETCH_BLOCKS && header.file_bytes().is_some()
    }

    /// As [`load`](Reader::load), with up to `threads` threads, the calling one among them; `at`
    /// gives the file from an offset on. The runs come in any order, or go to `memory`.
    pub(crate) fn load_with(
        mut self,
        threads: usize,
        at: impl Fn(u64) -> R + Sync,
        memory: Option<&Words>,
        mut take: impl FnMut(usize, &[u64]),
    ) -> Result<(), Damage> {
        if !self.is_for_threads(threads) {
            return self.load(take);
        }
        let header = *self.header();
        let stretches = header.blocks().div_ceil(STRETCH_BLOCKS);
        let plan = Plan { header, next: AtomicU64::new(0), stop: AtomicBool::new(false) };
        let pool = Mutex::new(Vec::new());
        let mut digests = vec![(0, 0); stretches as usize];
        let mut damaged: Option<Damage> = None;
        let mut started = 0;
        thread::scope(|scope| {
            let (send, receive) = sync_channel(2 * threads);
            for _ in 1..threads.min(stretches as usize + 1) {
                let (send, plan, pool, at) = (send.clone(), &plan, &pool, &at);
                let work = move || {
                    let mut stage = plan.stage();
                    while let Some(number) = plan.take() {
                        let words = pool.lock().unwrap_or_else(PoisonError::into_inner).pop();
                        let read =
                            plan.read(number, at, &mut stage, memory, words.unwrap_or_default());
                        if send.send(read).is_err() {
                            return;
                        }
                    }
                };
                let spawned = Builder::new().name("load".into()).spawn_scoped(scope, work);
                started += usize::from(spawned.is_ok());
            }
            drop(send);
            for read in receive {
                match read {
                    Ok(stretch) => {
                        digests[stretch.number as usize] = (stretch.digest, stretch.bytes);
                        take(stretch.first as usize, &stretch.words);
                        let mut pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
                        pool.push(stretch.words);
                    }
                    Err(damage) => {
                        plan.stop.store(true, Ordering::Relaxed);
                        damaged.get_or_insert(damage);
                    }
                }
            }
        });
        if started == 0 {
            return self.load(take); // no thread was to be had
        }
        if let Some(damage) = damaged {
            return Err(damage);
        }
        let end = plan.offset(header.blocks());
        self.skip_to_footer(end, at(end));
        let (mut joint, before) = (Joint::new(0), self.digest_so_far());
        let join = |all, (one, bytes)| joint.join(all, one, bytes);
        let before = digests.into_iter().fold(before, join);
        self.check_footer(0, Some(before))
    }
}

/// Which stretches are left.
struct Plan {
    header: Header,
    next: AtomicU64,
    stop: AtomicBool,
}

impl Plan {
    fn take(&self) -> Option<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let is_there = number < self.header.blocks().div_ceil(STRETCH_BLOCKS);
        (is_there && !self.stop.load(Ordering::Relaxed)).then_some(number)
    }

    /// Where a block starts, or the footer.
    fn offset(&self, block: u64) -> u64 {
        let words = self.first(block);
        self.header.header_bytes() as u64 + block * BLOCK_HEADER_BYTES as u64 + words * 8
    }

    /// The first word of a block.
    fn first(&self, block: u64) -> u64 {
        self.header.words.min(block * u64::from(self.header.words_per_block))
    }

    /// Reads and checks a stretch, with the bytes around it that make it aligned.
    fn read<R: Read>(
        &self,
        number: u64,
        at: impl Fn(u64) -> R,
        stage: &mut Stage,
        memory: Option<&Words>,
        mut words: Vec<u64>,
    ) -> Result<Stretch, Damage> {
        let from = number * STRETCH_BLOCKS;
        let to = self.header.blocks().min(from + STRETCH_BLOCKS);
        let (start, end) = (self.offset(from), self.offset(to));
        let before = start % ALIGN;
        let room = (end - start + before).next_multiple_of(ALIGN) as usize;
        let room = &mut stage.room()[..room];
        let least = (end - start + before) as usize;
        read_at_least(least, &mut at(start - before), start - before, room)?;
        let bytes = &room[before as usize..least];
        words.clear();
        let mut decoded = Block::default();
        for block in from..to {
            let (offset, end) = (self.offset(block), self.offset(block + 1));
            let raw = &bytes[(offset - start) as usize..(end - start) as usize];
            let expected = Expected { offset, block, next: self.first(block) };
            expected.decode(&self.header, raw, &mut decoded)?;
            decoded.runs().for_each(|(first, run)| match memory {
                Some(memory) => memory.store_run(first, run),
                None => words.extend_from_slice(run),
            });
        }
        let (digest, first) = (digest_of(bytes), self.first(from));
        Ok(Stretch { number, digest, bytes: bytes.len() as u64, first, words })
    }

    /// Room for any stretch.
    fn stage(&self) -> Stage {
        let block = BLOCK_HEADER_BYTES + self.header.words_per_block as usize * 8;
        let most = block * STRETCH_BLOCKS as usize;
        Stage::new((most + Stage::ALIGN).next_multiple_of(Stage::ALIGN))
    }
}
