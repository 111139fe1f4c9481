//! Writes a checkpoint as its image arrives.
//!
//! - Nothing is allocated after [`Writer::new`], unless the writer may use threads: without them it
//!   may run in a forked child.
//! - Nothing is written before the first push, so that preparing a header costs the application's
//!   thread no system call.
//! - The true payload bounds a block, packed or not: a reader sizes its buffer by the header.

use std::fmt;
use std::io::{self, Write};

use stillframe::SinkError;

use super::digest::digest;
use super::packing::{self, Packer, Pool};
use super::{BLOCK_HEADER_BYTES, Header, RUN_WORDS_MAX, encode_footer, seal_block};

/// Turns pushed words into the bytes of a checkpoint file.
#[derive(Debug)]
pub(crate) struct Writer<W> {
    file: File<W>,
    header: Header,
    /// The block under way, with its head; as long as a full block from the start.
    block: Vec<u8>,
    /// Bytes of `block` in use, its head included.
    used: usize,
    /// The first word in it.
    first: u64,
    /// The run under way in it, if this is an increment.
    run: Option<Run>,
    /// The first word that may come.
    next: u64,
    packer: Option<Packer>,
    /// Threads that may pack in its place, and those that do: from the second block on.
    threads_max: usize,
    pool: Option<Pool>,
}

/// The file so far.
#[derive(Debug)]
struct File<W> {
    output: W,
    blocks: u64,
    /// Bytes written.
    written: u64,
    digest: crc_fast::Digest,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    /// Where its head is in the block.
    at: usize,
    first: u64,
    words: usize,
}

impl<W: Write> Writer<W> {
    /// A writer of one file, whose header says whether it packs; the rest of the header may
    /// [come later](Self::set_header).
    pub(crate) fn new(output: W, header: Header) -> Self {
        let payload_bytes = header.words_per_block as usize * 8;
        // Checksum once now: the first use looks up what the processor can do.
        let _ = header.encode();
        Self {
            file: File { output, blocks: 0, written: 0, digest: digest() },
            header,
            block: vec![0; BLOCK_HEADER_BYTES + payload_bytes],
            used: BLOCK_HEADER_BYTES,
            first: 0,
            run: None,
            next: 0,
            packer: header.packs.then(|| Packer::new(payload_bytes)),
            threads_max: 0,
            pool: None,
        }
    }

    /// Lets threads pack, where there are processors for them.
    pub(crate) fn use_threads(&mut self) {
        self.threads_max = packing::threads_max();
    }

    /// Says what image comes; before the first push.
    pub(crate) fn set_header(&mut self, header: Header) {
        debug_assert_eq!(header.words_per_block, self.header.words_per_block, "buffer is sized");
        debug_assert_eq!((self.next, self.file.written), (0, 0), "nothing may be written yet");
        self.header = Header { packs: self.packer.is_some(), ..header };
    }

    /// What image this is.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// The file.
    pub(crate) fn output(&mut self) -> &mut W {
        &mut self.file.output
    }

    /// Bytes written by this process.
    pub(crate) fn written(&self) -> u64 {
        self.file.written
    }

    /// Takes the next words of the image: all of them, or of an increment those that changed.
    pub(crate) fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        let (start, total) = (start as u64, self.header.words);
        let is_due =
            if self.header.base.is_none() { start == self.next } else { start >= self.next };
        if !is_due || start > total || words.len() as u64 > total - start {
            return Err(SinkError::new(format_args!(
                "words {start}..{} came where word {} of {total} was due",
                start.saturating_add(words.len() as u64),
                self.next
            )));
        }
        let mut rest = words;
        let mut at = start;
        while !rest.is_empty() {
            let room = match self.header.base {
                None => (self.block.len() - self.used) / 8,
                Some(_) => self.room_in_run(at)?,
            };
            let (now, later) = rest.split_at(rest.len().min(room));
            if self.used == BLOCK_HEADER_BYTES {
                self.first = at;
            }
            self.copy(now);
            at += now.len() as u64;
            self.next = at;
            if self.used == self.block.len() {
                self.end_block()?;
            }
            rest = later;
        }
        Ok(())
    }

    /// How many words may follow in a run in which word `at` is next: the one under way, or a new
    /// one, in this block or the next.
    fn room_in_run(&mut self, at: u64) -> Result<usize, SinkError> {
        let room = (self.block.len() - self.used) / 8;
        let goes_on = self.run.filter(|run| at == self.next && run.words < RUN_WORDS_MAX);
        if let Some(run) = goes_on {
            return Ok(room.min(RUN_WORDS_MAX - run.words)); // a full block has ended
        }
        if room < 2 {
            self.end_block()?;
        }
        if self.used == BLOCK_HEADER_BYTES {
            self.first = at;
        }
        self.run = Some(Run { at: self.used, first: at, words: 0 });
        self.used += 8;
        Ok(((self.block.len() - self.used) / 8).min(RUN_WORDS_MAX))
    }

    /// Copies words that there is room for.
    fn copy(&mut self, words: &[u64]) {
        let bytes = words.len() * 8;
        let target = &mut self.block[self.used..self.used + bytes];
        for (to, word) in target.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        self.used += bytes;
        if let Some(run) = &mut self.run {
            run.words += words.len();
            let head = run.first << 16 | run.words as u64;
            self.block[run.at..run.at + 8].copy_from_slice(&head.to_le_bytes());
        }
    }

    /// Writes what is left, the footer and the digest.
    pub(crate) fn finish(&mut self) -> Result<(), SinkError> {
        if self.header.base.is_none() && self.next != self.header.words {
            return Err(SinkError::new(format_args!(
                "the image ended after {} of {} words",
                self.next, self.header.words
            )));
        }
        self.end_block()?;
        self.begin_file()?; // an image of no words has no block that did
        if let Some(mut pool) = self.pool.take() {
            pool.finish(|block| self.file.add_block(block))?;
        }
        let footer = encode_footer(&self.header, self.file.blocks);
        self.file.add(&footer)?;
        self.file.write(&self.file.digest.finalize().to_le_bytes())?;
        let flushed = self.file.output.flush();
        flushed.map_err(|error| failed(format_args!("writing failed"), &error))?;
        let (promised, written) = (self.header.file_bytes(), u128::from(self.written()));
        debug_assert!(promised.is_none_or(|bytes| bytes == written), "as promised");
        Ok(())
    }

    fn begin_file(&mut self) -> Result<(), SinkError> {
        if self.file.written == 0 { self.file.add(&self.header.encode()) } else { Ok(()) }
    }

    fn end_block(&mut self) -> Result<(), SinkError> {
        if self.used == BLOCK_HEADER_BYTES {
            return Ok(());
        }
        self.begin_file()?;
        let Self { file, block, used, first, packer, pool, .. } = self;
        if packer.is_some() && pool.is_none() && self.threads_max > 0 && file.blocks > 0 {
            *pool = Pool::start(self.threads_max, block.len());
            self.threads_max = 0; // once is enough
        }
        match (pool, packer) {
            (Some(pool), _) => pool.give(block, *used, *first, |block| file.add_block(block))?,
            (None, Some(packer)) => file.add_block(packer.seal(&mut block[..*used], *first))?,
            (None, None) => {
                let block = &mut block[..*used];
                seal_block(block, *first, false);
                file.add_block(block)?;
            }
        }
        self.used = BLOCK_HEADER_BYTES;
        self.run = None;
        Ok(())
    }
}

impl<W: Write> File<W> {
    fn add_block(&mut self, block: &[u8]) -> Result<(), SinkError> {
        self.add(block)?;
        self.blocks += 1;
        Ok(())
    }

    /// Writes what the digest covers.
    fn add(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        self.digest.update(bytes);
        self.write(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        let written = self.written;
        self.output.write_all(bytes).map_err(|error| {
            failed(format_args!("writing {} bytes at byte {written} failed", bytes.len()), &error)
        })?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

fn failed(what: fmt::Arguments<'_>, error: &io::Error) -> SinkError {
    match error.raw_os_error() {
        Some(errno) => SinkError::from_errno(what, errno),
        None => SinkError::new(what),
    }
}
