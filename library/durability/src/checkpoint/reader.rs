//! Reads a checkpoint and trusts nothing in it that is not proved.
//!
//! - Where the header determines the length of the file, the two are compared before anything is
//!   sized by the header; a reader holds one block of at most 1 MiB.
//! - Words are handed out block by block as their checksums match. Only when
//!   [`Reader::next`] has returned `false` are they a checkpoint: the footer may still disagree.

use std::io::{ErrorKind, Read};
use std::ops::ControlFlow;

use super::block::{Block, BlockStart, Expected, Next};
use super::digest::{Joint, digest, digest_of};
use super::{
    BLOCK_HEADER_BYTES, FOOTER_BYTES, HEADER_BYTES, HEADER_BYTES_BY_VERSION, Header, encode_footer,
    version,
};
use crate::damage::checkpoint::Damage;
use crate::fields::u64_at;

/// LZ4 packs no better, so that the length of a file bounds what it can hold.
const PACKED_RATIO_MAX: u32 = 256;

/// A checkpoint file whose header is sound and whose length may be right.
pub(crate) struct Reader<R> {
    input: R,
    header: Header,
    length: u64,
    /// Bytes read so far.
    offset: u64,
    /// The first word that may come.
    next: u64,
    blocks: u64,
    digest: crc_fast::Digest,
    /// One block as it is in the file.
    raw: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Reads the header of a file of `length` bytes.
    pub(crate) fn open(input: R, length: u64) -> Result<Self, Damage> {
        let mut input = input;
        let mut bytes = [0; HEADER_BYTES];
        let mut have = 0;
        let mut wanted = HEADER_BYTES_BY_VERSION[0];
        // The first part has the version, which says how long the rest is.
        while have < wanted {
            if length < wanted as u64 {
                return Err(Damage::Truncated { length, expected: wanted as u128 });
            }
            read(&mut input, have as u64, &mut bytes[have..wanted])?;
            have = wanted;
            wanted = HEADER_BYTES_BY_VERSION[version(&bytes)? as usize - 1];
        }
        let header = Header::decode(&bytes)?;
        if let Some(expected) = header.file_bytes() {
            if u128::from(length) < expected {
                return Err(Damage::Truncated { length, expected });
            }
            if u128::from(length) > expected {
                return Err(Damage::Trailing { length, expected });
            }
        }
        if header.base.is_none() && header.words / u64::from(PACKED_RATIO_MAX) > length / 8 {
            return Err(Damage::Field {
                offset: 16,
                field: "number of words",
                value: header.words,
            });
        }
        let mut digest = digest();
        digest.update(&bytes[..have]);
        let (offset, raw) = (have as u64, Vec::new());
        Ok(Self { input, header, length, offset, next: 0, blocks: 0, digest, raw })
    }

    /// What the header says.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Reads the next block; `false` at the end, when the footer agrees.
    pub(crate) fn next(&mut self, into: &mut Block) -> Result<bool, Damage> {
        let NextPart { block, have } = self.next_part()?;
        let Some(bytes) = block else {
            self.check_footer(have, None)?;
            return Ok(false);
        };
        let mut raw = std::mem::take(&mut self.raw);
        raw.resize(bytes, 0);
        let decoded = self.read_block(&mut raw, have, into);
        self.raw = raw;
        decoded.map(|()| true)
    }

    /// Reads all blocks and the footer, and hands everything that is wrong to `found`, until that
    /// has enough, or nothing can be said of what follows.
    pub(crate) fn verify(mut self, mut found: impl FnMut(Damage) -> ControlFlow<()>) {
        let mut block = Block::default();
        let mut sound = true;
        loop {
            let number = self.blocks;
            match self.next(&mut block) {
                Ok(true) => {}
                Ok(false) => return,
                Err(damage) => {
                    // Behind a damaged block the digest cannot match.
                    let is_known = !sound && matches!(damage, Damage::Digest { .. });
                    let after = self.start_after(&damage);
                    if is_known || found(damage).is_break() {
                        return;
                    }
                    let Some((offset, next)) = after else { return };
                    sound = false;
                    (self.offset, self.next, self.blocks) = (offset, next, number + 1);
                }
            }
        }
    }

    /// Where the next block starts, and its first word, if only the one before is damaged.
    fn start_after(&self, damage: &Damage) -> Option<(u64, u64)> {
        let (offset, bytes) = match *damage {
            Damage::BlockChecksum { offset, bytes, .. }
            | Damage::BlockContent { offset, bytes, .. } => (offset, bytes),
            Damage::BlockHead { offset, .. } => {
                (offset, self.header.file_bytes().and(Some(self.raw.len() as u64))?)
            }
            _ => return None,
        };
        let words = match self.header.base {
            None => self.next + self.full_block_words(),
            Some(_) => self.next,
        };
        Some((offset + bytes, words))
    }

    /// Words of the next block of a full file.
    fn full_block_words(&self) -> u64 {
        u64::from(self.header.words_per_block).min(self.header.words - self.next)
    }

    /// Bytes of the file.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// What is next.
    pub(super) fn next_start(&self) -> BlockStart {
        BlockStart { offset: self.offset, block: self.blocks }
    }

    /// Goes on with the footer, at `end`, from where `input` reads.
    pub(super) fn skip_to_footer(&mut self, end: BlockStart, input: R) {
        (self.offset, self.blocks, self.input) = (end.offset, end.block, input);
    }

    /// The digest of what was read.
    pub(super) fn digest_so_far(&self) -> u64 {
        self.digest.finalize()
    }

    /// What is next. Its head is read, unless it follows from the header.
    fn next_part(&mut self) -> Result<NextPart, Damage> {
        let at = self.next_start();
        let (mut next, mut have) = (at.foreseen(&self.header, self.length)?, 0);
        if let Next::Unknown = next {
            have = BLOCK_HEADER_BYTES;
            self.raw.resize(have, 0);
            read(&mut self.input, at.offset, &mut self.raw)?;
            next = at.by_head(&self.header, self.length, &self.raw)?;
        }
        let block = if let Next::Block(bytes) = next { Some(bytes) } else { None };
        Ok(NextPart { block, have })
    }

    /// Reads what is missing of a block, and what it says.
    fn read_block(&mut self, raw: &mut [u8], have: usize, into: &mut Block) -> Result<(), Damage> {
        read(&mut self.input, self.offset + have as u64, &mut raw[have..])?;
        let expected = Expected { at: self.next_start(), next: self.next };
        self.next = expected.decode(&self.header, raw, into)?;
        self.digest.update(raw);
        self.offset += raw.len() as u64;
        self.blocks += 1;
        Ok(())
    }

    /// Checks the footer, of which the first bytes may have been read. `before` is the digest of
    /// all bytes before it, if others have read them.
    pub(super) fn check_footer(&mut self, have: usize, before: Option<u64>) -> Result<(), Damage> {
        let Self { offset, length, .. } = *self;
        let end = offset + FOOTER_BYTES as u64;
        if length < end {
            return Err(Damage::Truncated { length, expected: end.into() });
        }
        let mut bytes = [0; FOOTER_BYTES];
        bytes[..have].copy_from_slice(&self.raw[..have]);
        read(&mut self.input, offset + have as u64, &mut bytes[have..])?;
        let (fields, stored) = bytes.split_at(FOOTER_BYTES - 8);
        if fields != encode_footer(&self.header, self.blocks) {
            return Err(Damage::Footer { offset });
        }
        let found = match before {
            Some(before) => {
                let length = fields.len() as u64;
                Joint::new(length).join(before, digest_of(fields), length)
            }
            None => {
                self.digest.update(fields);
                self.digest.finalize()
            }
        };
        if found != u64_at(stored, 0) {
            return Err(Damage::Digest { offset: offset + fields.len() as u64 });
        }
        if length > end {
            return Err(Damage::Trailing { length, expected: end.into() });
        }
        Ok(())
    }
}

/// What comes next in a file.
struct NextPart {
    /// A block of this many bytes with its head, or the footer.
    block: Option<usize>,
    /// Bytes of it that are in `raw`.
    have: usize,
}

/// The header at the start of `bytes`; nothing is known of the rest of the file.
pub(crate) fn peek(bytes: &[u8]) -> Result<Header, Damage> {
    let mut header = [0; HEADER_BYTES];
    let have = bytes.len().min(HEADER_BYTES);
    header[..have].copy_from_slice(&bytes[..have]);
    let is_there = |wanted: usize| match have < wanted {
        true => Err(Damage::Truncated { length: have as u64, expected: wanted as u128 }),
        false => Ok(()),
    };
    is_there(HEADER_BYTES_BY_VERSION[0])?;
    is_there(HEADER_BYTES_BY_VERSION[version(&header)? as usize - 1])?;
    Header::decode(&header)
}

/// Reads all of `bytes`, which start at `offset`.
fn read(input: &mut impl Read, offset: u64, bytes: &mut [u8]) -> Result<(), Damage> {
    read_at_least(bytes.len(), input, offset, bytes)
}

/// Reads the first `least` of `bytes`, which start at `offset`, and perhaps more.
pub(super) fn read_at_least(
    least: usize,
    input: &mut impl Read,
    offset: u64,
    bytes: &mut [u8],
) -> Result<(), Damage> {
    let mut have = 0;
    while have < least {
        let unreadable = |message| Damage::Unreadable { offset, message };
        match input.read(&mut bytes[have..]) {
            // The length was right when the file was opened.
            Ok(0) => return Err(unreadable("the file became shorter".into())),
            Ok(count) => have += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(error.to_string())),
        }
    }
    Ok(())
}
