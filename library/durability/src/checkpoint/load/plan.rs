//! The stretches of a file: who reads which, and where its blocks are.
//!
//! - Where the header determines the offsets of blocks, a stretch is sixteen blocks, and stretches
//!   are independent of each other.
//! - Elsewhere (packed files, increments) a stretch is a piece of the file, and only the head of a
//!   block says where the next one starts. So stretches are read at once and *walked* in turn,
//!   from head to head, which touches a few bytes of each block. Then the thread that has read a
//!   stretch checks it. A walk carries a part of a block at the end to the next stretch: every byte
//!   is read once.
//! - A walk trusts a length before its block's checksum is known. A wrong length leads the walk
//!   astray, but that block comes first, and its checksum is the damage that is reported.
//! - A thread that has taken a stretch gives the next one its turn, even if it cannot read its own.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::super::block::{Block, BlockStart, Expected, Next, OUT_OF_PLACE};
use super::super::digest::digest;
use super::super::reader::{Reader, read_at_least};
use super::super::{BLOCK_HEADER_BYTES, Header};
use crate::damage::checkpoint::Damage;
use crate::disk::Stage;

/// Blocks of a stretch: 1 MiB, as they are written.
const STRETCH_BLOCKS: u64 = 16;
/// A well-packed file is cut into at least this many stretches, or there is nothing to share.
const STRETCHES: u64 = 64;
const ALIGN: u64 = Stage::ALIGN as u64;

/// A file on its way.
pub(super) struct Plan {
    header: Header,
    length: u64,
    /// Bytes of a stretch, if that is a piece of the file.
    stretch_bytes: u64,
    next: AtomicU64,
    stop: AtomicBool,
    turn: Mutex<Turn>,
    turned: Condvar,
}

/// How far the file was walked.
struct Turn {
    /// The stretch that is next.
    number: u64,
    /// Where its first block starts, in it or before.
    at: BlockStart,
    /// What lies before it of that block.
    carried: Vec<u8>,
    /// There are no more blocks, or none that could be found.
    ended: bool,
}

/// What a thread needs to read stretches.
pub(super) struct Scratch {
    stage: Stage,
    /// The length of each block with its head.
    lengths: Vec<usize>,
    block: Block,
}

/// What became of a stretch.
pub(super) struct Done {
    pub(super) number: u64,
    /// Length and digest of its sound blocks.
    pub(super) bytes: u64,
    pub(super) digest: u64,
    /// Where they end.
    pub(super) end: BlockStart,
    /// The first word in them, and what to report if it comes too early for an increment.
    pub(super) first: Option<(u64, Damage)>,
    /// The first word that may come after them in an increment.
    pub(super) next_word: u64,
    /// What is wrong with the block after them.
    pub(super) damage: Option<Damage>,
}

/// Blocks in a stage, whose lengths are in the scratch.
struct Found {
    /// Where the first one starts in the file, and in the stage.
    at: BlockStart,
    from: usize,
    /// What is wrong after the last one.
    damage: Option<Damage>,
}

impl Plan {
    pub(super) fn new<R: Read>(reader: &Reader<R>) -> Self {
        let (header, length) = (*reader.header(), reader.length());
        let fair = (length / STRETCHES).max(1);
        let stretch_bytes = fair.min(large(&header)).next_multiple_of(ALIGN);
        let turn = Turn { number: 0, at: reader.next_start(), carried: Vec::new(), ended: false };
        Self {
            header,
            length,
            stretch_bytes,
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            turn: Mutex::new(turn),
            turned: Condvar::new(),
        }
    }

    /// Whether this many threads have something to share: more than one of them reads at once.
    pub(super) fn is_for_threads(&self, threads: usize) -> bool {
        threads > 1 && self.length > large(&self.header)
    }

    pub(super) fn stretches(&self) -> u64 {
        match self.has_places() {
            true => self.header.blocks().div_ceil(STRETCH_BLOCKS),
            false => self.length.div_ceil(self.stretch_bytes),
        }
    }

    /// Whether the places of all blocks are known.
    fn has_places(&self) -> bool {
        self.header.file_bytes().is_some()
    }

    /// The next stretch. Once it is taken it must be read, whatever happens meanwhile: others may
    /// wait for it, and it may hold what is wrong before all else.
    pub(super) fn take(&self) -> Option<u64> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.stretches()).then_some(number)
    }

    /// Lets no further stretch be taken.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Ends the waiting of others for their turn if the thread that has this panics.
    pub(super) fn end_guard(&self) -> EndGuard<'_> {
        EndGuard(self)
    }

    pub(super) fn scratch(&self) -> Scratch {
        let bytes = match self.has_places() {
            true => large(&self.header) + 2 * ALIGN,
            false => self.carry_room() + self.stretch_bytes,
        };
        let stage = Stage::new(bytes.next_multiple_of(ALIGN) as usize);
        Scratch { stage, lengths: Vec::new(), block: Block::default() }
    }

    /// Room before a stretch for what is carried to it.
    fn carry_room(&self) -> u64 {
        block_bytes(&self.header).next_multiple_of(ALIGN)
    }

    /// Reads and checks a stretch, and hands its words to `put`.
    pub(super) fn read<R: Read>(
        &self,
        number: u64,
        at: &impl Fn(u64) -> R,
        scratch: &mut Scratch,
        mut put: impl FnMut(usize, &[u64]),
    ) -> Done {
        scratch.lengths.clear();
        let Found { at: mut end, mut from, damage } = match self.has_places() {
            true => self.fetch(number, at, scratch),
            false => self.walk(number, at, scratch),
        };
        let Scratch { stage, lengths, block } = scratch;
        let (start, mut digest, mut first) = (end.offset, digest(), None);
        let is_full = self.header.base.is_none();
        let mut next_word = if is_full { self.header.first_word(end.block) } else { 0 };
        let mut found = None;
        for &bytes in lengths.iter() {
            let raw = &stage.room()[from..from + bytes];
            let expected = Expected { at: end, next: next_word };
            match expected.decode(&self.header, raw, block) {
                Ok(next) => next_word = next,
                Err(damage) => {
                    found = Some(damage);
                    break;
                }
            }
            digest.update(raw);
            if let Some((word, _)) = block.run(0).filter(|_| !is_full && first.is_none()) {
                first = Some((word as u64, end.content(bytes as u64, OUT_OF_PLACE)));
            }
            block.runs().for_each(|(word, run)| put(word, run));
            end = end.after(bytes as u64);
            from += bytes;
        }
        let (bytes, digest) = (end.offset - start, digest.finalize());
        Done { number, bytes, digest, end, first, next_word, damage: found.or(damage) }
    }

    /// Reads blocks that have their places, with the bytes around them that make that aligned.
    fn fetch<R: Read>(&self, number: u64, at: &impl Fn(u64) -> R, scratch: &mut Scratch) -> Found {
        let first = number * STRETCH_BLOCKS;
        let last = self.header.blocks().min(first + STRETCH_BLOCKS);
        let start_of = |block| BlockStart { offset: self.header.offset(block), block };
        let (start, end) = (start_of(first).offset, start_of(last).offset);
        let from = start % ALIGN;
        let least = (end - start + from) as usize;
        let room = &mut scratch.stage.room()[..least.next_multiple_of(Stage::ALIGN)];
        let read = read_at_least(least, &mut at(start - from), start - from, room);
        if read.is_ok() {
            let length = |block| (start_of(block + 1).offset - start_of(block).offset) as usize;
            scratch.lengths.extend((first..last).map(length));
        }
        Found { at: start_of(first), from: from as usize, damage: read.err() }
    }

    /// Reads a piece of the file, and finds the blocks that end in it when its turn has come.
    fn walk<R: Read>(&self, number: u64, at: &impl Fn(u64) -> R, scratch: &mut Scratch) -> Found {
        let (start, room) = (number * self.stretch_bytes, self.carry_room() as usize);
        let bytes = (self.length - start).min(self.stretch_bytes) as usize;
        let stage = scratch.stage.room();
        let read = read_at_least(bytes, &mut at(start), start, &mut stage[room..]);

        let turn = self.lock();
        let is_early = |turn: &mut Turn| turn.number < number && !turn.ended;
        let turn = self.turned.wait_while(turn, is_early);
        let mut turn = turn.unwrap_or_else(PoisonError::into_inner);
        let at = turn.at;
        if turn.ended {
            return Found { at, from: 0, damage: None };
        }
        let from = room + at.offset as usize - start as usize;
        let damage = read.err().or_else(|| {
            stage[room - turn.carried.len()..room].copy_from_slice(&turn.carried);
            self.find(&mut turn, &stage[from..room + bytes], &mut scratch.lengths).err()
        });
        turn.number += 1;
        turn.ended |= damage.is_some();
        if turn.ended {
            self.stop();
        }
        self.turned.notify_all();
        Found { at, from, damage }
    }

    /// Finds the whole blocks in `bytes`, which start with one, and leaves what follows to the
    /// next.
    fn find(&self, turn: &mut Turn, bytes: &[u8], lengths: &mut Vec<usize>) -> Result<(), Damage> {
        let mut rest = bytes;
        loop {
            let mut next = turn.at.foreseen(&self.header, self.length)?;
            if let Next::Unknown = next {
                let Some(head) = rest.get(..BLOCK_HEADER_BYTES) else { break };
                next = turn.at.by_head(&self.header, self.length, head)?;
            }
            let Next::Block(bytes) = next else {
                turn.ended = true; // the footer
                break;
            };
            let Some((_, later)) = rest.split_at_checked(bytes) else { break };
            (rest, turn.at) = (later, turn.at.after(bytes as u64));
            lengths.push(bytes);
        }
        turn.carried.clear();
        turn.carried.extend_from_slice(if turn.ended { &[] } else { rest });
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of a block with its head, at most.
fn block_bytes(header: &Header) -> u64 {
    BLOCK_HEADER_BYTES as u64 + u64::from(header.words_per_block) * 8
}

/// Bytes of a stretch, at most.
fn large(header: &Header) -> u64 {
    block_bytes(header) * STRETCH_BLOCKS
}

/// See [`Plan::end_guard`].
pub(super) struct EndGuard<'a>(&'a Plan);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lock().ended = true;
            self.0.stop();
            self.0.turned.notify_all();
        }
    }
}
