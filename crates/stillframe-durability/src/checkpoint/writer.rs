//! Writes a checkpoint as its image arrives.
//!
//! - Nothing is allocated after [`Writer::new`]: the writer may run in a forked child.
//! - Nothing is written before the first push, so that preparing a header costs the application's
//!   thread no system call.
//! - What a block may hold is bounded by its true payload, packed or not: a reader sizes its buffer
//!   by the header.

use std::fmt;
use std::io::{self, Write};

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use stillframe::SinkError;

use super::{
    BLOCK_HEADER_BYTES, Header, PACKED_HEAD_BYTES, RUN_WORDS_MAX, digest, encode_footer, seal_block,
};

/// Turns pushed words into the bytes of a checkpoint file.
#[derive(Debug)]
pub(crate) struct Writer<W> {
    output: W,
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
    blocks: u64,
    /// Bytes written.
    written: u64,
    digest: crc_fast::Digest,
    packer: Option<Packer>,
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
        let digest = digest();
        Self {
            output,
            header,
            block: vec![0; BLOCK_HEADER_BYTES + payload_bytes],
            used: BLOCK_HEADER_BYTES,
            first: 0,
            run: None,
            next: 0,
            blocks: 0,
            written: 0,
            digest,
            packer: header.packs.then(|| Packer::new(payload_bytes)),
        }
    }

    /// Says what image comes; before the first push.
    pub(crate) fn set_header(&mut self, header: Header) {
        debug_assert_eq!(header.words_per_block, self.header.words_per_block, "buffer is sized");
        debug_assert_eq!((self.next, self.written), (0, 0), "nothing may be written yet");
        self.header = Header { packs: self.packer.is_some(), ..header };
    }

    /// What image this is.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// The file.
    pub(crate) fn output(&mut self) -> &mut W {
        &mut self.output
    }

    /// Bytes written by this process.
    pub(crate) fn written(&self) -> u64 {
        self.written
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
        let footer = encode_footer(&self.header, self.blocks);
        self.digest.update(&footer);
        let digest = self.digest.finalize().to_le_bytes();
        write_all(&mut self.output, &mut self.written, &footer)?;
        write_all(&mut self.output, &mut self.written, &digest)?;
        self.output.flush().map_err(|error| failed(format_args!("writing failed"), &error))?;
        let promised = self.header.file_bytes();
        debug_assert!(
            promised.is_none_or(|bytes| bytes == u128::from(self.written)),
            "as promised"
        );
        Ok(())
    }

    fn begin_file(&mut self) -> Result<(), SinkError> {
        if self.written == 0 {
            let header = self.header.encode();
            self.digest.update(&header);
            write_all(&mut self.output, &mut self.written, &header)?;
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), SinkError> {
        if self.used == BLOCK_HEADER_BYTES {
            return Ok(());
        }
        self.begin_file()?;
        let plain = &mut self.block[..self.used];
        let packed = self.packer.as_mut().and_then(|packer| packer.pack(plain));
        let is_packed = packed.is_some();
        let block = packed.unwrap_or(plain);
        seal_block(block, self.first, is_packed);
        self.digest.update(block);
        write_all(&mut self.output, &mut self.written, block)?;
        self.blocks += 1;
        self.used = BLOCK_HEADER_BYTES;
        self.run = None;
        Ok(())
    }
}

fn write_all(output: &mut impl Write, written: &mut u64, bytes: &[u8]) -> Result<(), SinkError> {
    output.write_all(bytes).map_err(|error| {
        failed(format_args!("writing {} bytes at byte {written} failed", bytes.len()), &error)
    })?;
    *written += bytes.len() as u64;
    Ok(())
}

fn failed(what: fmt::Arguments<'_>, error: &io::Error) -> SinkError {
    match error.raw_os_error() {
        Some(errno) => SinkError::from_errno(what, errno),
        None => SinkError::new(what),
    }
}

/// Packs blocks, in memory of its own.
struct Packer {
    table: CompressTable,
    block: Vec<u8>,
}

impl Packer {
    fn new(payload_bytes: usize) -> Self {
        let head_bytes = BLOCK_HEADER_BYTES + PACKED_HEAD_BYTES;
        let block = vec![0; head_bytes + get_maximum_output_size(payload_bytes)];
        Self { table: CompressTable::large(), block }
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
