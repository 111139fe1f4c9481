//! One block of a checkpoint: where it is, how long, and its words, taken out and checked.

use std::ops::Range;

use lz4_flex::block::decompress_into;

use super::{BLOCK_HEADER_BYTES, FOOTER_BYTES, FOOTER_MAGIC, Header, PACKED, PACKED_HEAD_BYTES};
use crate::damage::checkpoint::Damage;
use crate::fields::{u32_at, u64_at};

/// The damage of runs that do not rise.
pub(super) const OUT_OF_PLACE: &str = "a run out of its place";

/// Where a block starts, or the footer.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockStart {
    pub(super) offset: u64,
    /// Which block, from 0.
    pub(super) block: u64,
}

/// What starts there.
pub(super) enum Next {
    /// A block of this many bytes with its head.
    Block(usize),
    Footer,
    /// Its head says so.
    Unknown,
}

/// Words of one block, and where they belong.
#[derive(Debug, Default)]
pub(crate) struct Block {
    words: Vec<u64>,
    runs: Vec<(u64, Range<usize>)>,
    /// A payload that was packed.
    plain: Vec<u8>,
}

impl Block {
    /// Runs of words, each with the index of its first, rising.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (usize, &[u64])> {
        self.runs.iter().map(|(start, range)| (*start as usize, &self.words[range.clone()]))
    }

    /// The run of this number.
    pub(crate) fn run(&self, number: usize) -> Option<(usize, &[u64])> {
        self.runs.get(number).map(|(start, range)| (*start as usize, &self.words[range.clone()]))
    }
}

impl BlockStart {
    /// Behind a block of this many bytes.
    pub(super) fn after(self, bytes: u64) -> Self {
        Self { offset: self.offset + bytes, block: self.block + 1 }
    }

    /// What is here in a file of `length` bytes, if its header determines that. Otherwise the file
    /// has at least a footer's bytes from here on.
    pub(super) fn foreseen(self, header: &Header, length: u64) -> Result<Next, Damage> {
        if header.base.is_none() && self.block >= header.blocks() {
            return Ok(Next::Footer);
        }
        if header.file_bytes().is_some() {
            let end = header.offset(self.block + 1);
            return Ok(Next::Block((end - header.offset(self.block)) as usize));
        }
        let expected = self.offset + FOOTER_BYTES as u64; // there is one, or a block
        match length < expected {
            true => Err(Damage::Truncated { length, expected: expected.into() }),
            false => Ok(Next::Unknown),
        }
    }

    /// What is here by its head, which no checksum has proved.
    pub(super) fn by_head(self, header: &Header, length: u64, head: &[u8]) -> Result<Next, Damage> {
        let Self { offset, block } = self;
        if header.base.is_some() && head[..8] == FOOTER_MAGIC {
            return Ok(Next::Footer);
        }
        let bytes = u32_at(head, 4) & !PACKED;
        if bytes == 0 || bytes > header.words_per_block * 8 {
            return Err(Damage::BlockHead { offset, block });
        }
        let bytes = BLOCK_HEADER_BYTES + bytes as usize;
        let end = offset + bytes as u64;
        match end > length {
            true => Err(Damage::BlockCut { offset, block, end, length }),
            false => Ok(Next::Block(bytes)),
        }
    }

    /// The content of the block here is wrong.
    pub(super) fn content(self, bytes: u64, what: &'static str) -> Damage {
        Damage::BlockContent { offset: self.offset, bytes, block: self.block, what }
    }
}

/// Where a block lies, and with which word it may start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    pub(super) at: BlockStart,
    pub(super) next: u64,
}

impl Expected {
    /// Takes the words out of a block with its head. Returns the first word that may come next.
    pub(super) fn decode(
        self,
        header: &Header,
        raw: &[u8],
        into: &mut Block,
    ) -> Result<u64, Damage> {
        let Self { at: at @ BlockStart { offset, block }, next } = self;
        let bytes = raw.len() as u64;
        // The checksum first: a wrong head with a right checksum is a block of another place.
        if crc_fast::crc32_iscsi(&raw[4..]) != u32_at(raw, 0) {
            return Err(Damage::BlockChecksum { offset, bytes, block });
        }
        let content = |what| at.content(bytes, what);
        let (named_bytes, first) = (u32_at(raw, 4), u64_at(raw, 8));
        let is_packed = named_bytes & PACKED != 0 && header.packs;
        let true_bytes = if is_packed { named_bytes & !PACKED } else { named_bytes };
        if u64::from(true_bytes) != bytes - BLOCK_HEADER_BYTES as u64 {
            return Err(Damage::BlockHead { offset, block });
        }
        let Block { words, runs, plain } = into;
        let mut payload = &raw[BLOCK_HEADER_BYTES..];
        if is_packed {
            unpack(payload, header.words_per_block as usize * 8, plain).map_err(content)?;
            payload = plain;
        }
        words.clear();
        words.extend(payload.chunks_exact(8).map(|word| u64_at(word, 0)));
        if !payload.len().is_multiple_of(8) {
            return Err(content("a part of a word"));
        }
        runs.clear();
        if header.base.is_some() {
            return split(words, runs, first, next, header.words).map_err(content);
        }
        let count = u64::from(header.words_per_block).min(header.words - next);
        if first != next || words.len() as u64 != count {
            return Err(Damage::BlockHead { offset, block });
        }
        runs.push((first, 0..words.len()));
        Ok(next + count)
    }
}

fn unpack(payload: &[u8], most: usize, plain: &mut Vec<u8>) -> Result<(), &'static str> {
    let Some((head, packed)) = payload.split_at_checked(PACKED_HEAD_BYTES) else {
        return Err("no room for the length of what is packed");
    };
    let bytes = u32_at(head, 0) as usize;
    if bytes > most {
        return Err("more packed than a block holds");
    }
    plain.resize(bytes, 0);
    match decompress_into(packed, plain) {
        Ok(unpacked) if unpacked == bytes => Ok(()),
        _ => Err("a payload that cannot be unpacked"),
    }
}

/// Finds the runs of an increment's block, that starts with word `first` and not before `next`.
fn split(
    words: &[u64],
    runs: &mut Vec<(u64, Range<usize>)>,
    first: u64,
    mut next: u64,
    total: u64,
) -> Result<u64, &'static str> {
    let mut at = 0;
    while at < words.len() {
        let (start, count) = (words[at] >> 16, words[at] & 0xFFFF);
        if at == 0 && start != first {
            return Err("a first run of another place");
        }
        let end = start + count; // below 2^48 and 2^16
        let range = at + 1..at + 1 + count as usize;
        if count == 0 || start < next || end > total || range.end > words.len() {
            return Err(OUT_OF_PLACE);
        }
        (at, next) = (range.end, end);
        runs.push((start, range));
    }
    Ok(next)
}
