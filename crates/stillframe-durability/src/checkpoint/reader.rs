//! Reads a checkpoint and believes nothing of it that is not proved.
//!
//! - The length of the file is compared with what the header promises before anything is sized by
//!   it; a reader holds one block of at most 1 MiB.
//! - Words are handed out block by block as their checksums match. Only when
//!   [`Reader::load`] returns `Ok` are they a checkpoint: the footer may still disagree.

use std::io::{ErrorKind, Read};
use std::ops::ControlFlow;

use super::damage::Damage;
use super::{
    BLOCK_HEADER_BYTES, FOOTER_BYTES, HEADER_BYTES, HEADER_HALF_BYTES, Header, digest,
    encode_footer,
};
use crate::fields::{u32_at, u64_at};

/// A checkpoint file whose header is sound and whose length is right.
pub(crate) struct Reader<R> {
    input: R,
    header: Header,
    /// Bytes read so far.
    offset: u64,
    digest: crc_fast::Digest,
}

impl<R: Read> Reader<R> {
    /// Reads the header of a file of `length` bytes.
    pub(crate) fn open(input: R, length: u64) -> Result<Self, Damage> {
        if length < HEADER_HALF_BYTES as u64 {
            return Err(Damage::Truncated { length, expected: HEADER_HALF_BYTES as u128 });
        }
        let mut bytes = [0; HEADER_HALF_BYTES];
        let mut input = input;
        read(&mut input, 0, &mut bytes)?;
        let mut header = Header::decode(&bytes)?;
        let expected = header.file_bytes();
        if u128::from(length) < expected {
            return Err(Damage::Truncated { length, expected });
        }
        if u128::from(length) > expected {
            return Err(Damage::Trailing { length, expected });
        }
        let mut digest = digest();
        digest.update(&bytes);
        let offset = header.header_bytes() as u64;
        if offset == HEADER_BYTES as u64 {
            let mut bytes = [0; HEADER_BYTES - HEADER_HALF_BYTES];
            read(&mut input, HEADER_HALF_BYTES as u64, &mut bytes)?;
            header.decode_second(&bytes)?;
            digest.update(&bytes);
        }
        Ok(Self { input, header, offset, digest })
    }

    /// What the header says.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Hands every run of words to `take(start, words)`, in order, then checks the footer.
    pub(crate) fn load(mut self, mut take: impl FnMut(usize, &[u64])) -> Result<(), Damage> {
        let per_block = u64::from(self.header.words_per_block);
        let block_words = per_block.min(self.header.words) as usize;
        let mut bytes = vec![0; BLOCK_HEADER_BYTES + block_words * 8];
        let mut words = vec![0; block_words];
        for block in 0..self.header.blocks() {
            let start = block * per_block;
            let count = per_block.min(self.header.words - start) as usize;
            let bytes = &mut bytes[..BLOCK_HEADER_BYTES + count * 8];
            self.read_block(block, start, bytes)?;
            for (word, from) in words.iter_mut().zip(bytes[BLOCK_HEADER_BYTES..].chunks_exact(8)) {
                *word = u64_at(from, 0);
            }
            take(start as usize, &words[..count]);
        }
        self.check_footer()
    }

    /// Reads all blocks and the footer, and hands everything that is wrong to `found`, until that
    /// has enough.
    pub(crate) fn verify(mut self, mut found: impl FnMut(Damage) -> ControlFlow<()>) {
        let per_block = u64::from(self.header.words_per_block);
        let mut bytes = vec![0; BLOCK_HEADER_BYTES + per_block.min(self.header.words) as usize * 8];
        let mut sound = true;
        for block in 0..self.header.blocks() {
            let start = block * per_block;
            let count = per_block.min(self.header.words - start) as usize;
            let bytes = &mut bytes[..BLOCK_HEADER_BYTES + count * 8];
            let next = self.offset + bytes.len() as u64;
            if let Err(damage) = self.read_block(block, start, bytes) {
                let unreadable = matches!(damage, Damage::Unreadable { .. });
                if found(damage).is_break() || unreadable {
                    return;
                }
                (self.offset, sound) = (next, false);
            }
        }
        if let Err(damage) = self.check_footer() {
            // Behind a damaged block the digest cannot match.
            if sound || !matches!(damage, Damage::Digest { .. }) {
                let _ = found(damage); // it was the last
            }
        }
    }

    fn read_block(&mut self, block: u64, start: u64, bytes: &mut [u8]) -> Result<(), Damage> {
        let offset = self.offset;
        read(&mut self.input, offset, bytes)?;
        let length = bytes.len() as u64;
        // The checksum first: a wrong head with a right checksum is a block of another place.
        if crc_fast::crc32_iscsi(&bytes[4..]) != u32_at(bytes, 0) {
            return Err(Damage::BlockChecksum { offset, bytes: length, block });
        }
        let named_bytes = u64::from(u32_at(bytes, 4));
        if named_bytes != length - BLOCK_HEADER_BYTES as u64 || u64_at(bytes, 8) != start {
            return Err(Damage::BlockHead { offset, block });
        }
        self.digest.update(bytes);
        self.offset += length;
        Ok(())
    }

    fn check_footer(&mut self) -> Result<(), Damage> {
        let mut bytes = [0; FOOTER_BYTES];
        read(&mut self.input, self.offset, &mut bytes)?;
        let (fields, stored) = bytes.split_at(FOOTER_BYTES - 8);
        if fields != encode_footer(&self.header) {
            return Err(Damage::Footer { offset: self.offset });
        }
        self.digest.update(fields);
        if self.digest.finalize() != u64_at(stored, 0) {
            return Err(Damage::Digest { offset: self.offset + fields.len() as u64 });
        }
        Ok(())
    }
}

/// The header at the start of `bytes`; nothing is known of the rest of the file.
pub(crate) fn peek(bytes: &[u8]) -> Result<Header, Damage> {
    let length = bytes.len() as u64;
    let cut = Damage::Truncated { length, expected: HEADER_BYTES as u128 };
    let (first, second) = bytes.split_first_chunk().ok_or(cut.clone())?;
    let mut header = Header::decode(first)?;
    if header.header_bytes() == HEADER_BYTES {
        header.decode_second(second.first_chunk().ok_or(cut)?)?;
    }
    Ok(header)
}

fn read(input: &mut impl Read, offset: u64, bytes: &mut [u8]) -> Result<(), Damage> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        // The length was right when the file was opened.
        ErrorKind::UnexpectedEof => {
            Damage::Unreadable { offset, message: "the file became shorter".into() }
        }
        _ => Damage::Unreadable { offset, message: error.to_string() },
    })
}
