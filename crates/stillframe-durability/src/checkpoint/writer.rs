//! Writes a checkpoint as its image arrives.
//!
//! - Nothing is allocated after [`Writer::new`]: the writer may run in a forked child.
//! - Nothing is written before the first push, so that preparing a header costs the application's
//!   thread no system call.

use std::io::{self, Write};

use stillframe::SinkError;

use super::{BLOCK_HEADER_BYTES, HEADER_BYTES, Header, digest, encode_footer, seal_block};

/// Turns pushed words into the bytes of a checkpoint file.
#[derive(Debug)]
pub(crate) struct Writer<W> {
    output: W,
    header: Header,
    /// The block under way, with its head; as long as a full block from the start.
    block: Vec<u8>,
    /// Bytes of `block` in use, its head included.
    used: usize,
    /// Words pushed.
    words: u64,
    /// Bytes written.
    written: u64,
    digest: crc_fast::Digest,
}

impl<W: Write> Writer<W> {
    /// A writer of one file; [`set_header`](Self::set_header) may come later.
    pub(crate) fn new(output: W, header: Header) -> Self {
        let block_bytes = BLOCK_HEADER_BYTES + header.words_per_block as usize * 8;
        // Checksum once now: the first use looks up what the processor can do.
        let _ = header.encode();
        let digest = digest();
        Self {
            output,
            header,
            block: vec![0; block_bytes],
            used: BLOCK_HEADER_BYTES,
            words: 0,
            written: 0,
            digest,
        }
    }

    /// Says what image comes; before the first push.
    pub(crate) fn set_header(&mut self, header: Header) {
        debug_assert_eq!(header.words_per_block, self.header.words_per_block, "buffer is sized");
        debug_assert_eq!((self.words, self.written), (0, 0), "nothing may be written yet");
        self.header = header;
    }

    /// What image this is.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// The file.
    pub(crate) fn output(&mut self) -> &mut W {
        &mut self.output
    }

    /// Takes the next words of the image.
    pub(crate) fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        if start as u64 != self.words || words.len() as u64 > self.header.words - self.words {
            return Err(SinkError::new(format_args!(
                "words {start}..{} came where word {} of {} was due",
                start.saturating_add(words.len()),
                self.words,
                self.header.words
            )));
        }
        let mut rest = words;
        while !rest.is_empty() {
            let room = (self.block.len() - self.used) / 8;
            let (now, later) = rest.split_at(rest.len().min(room));
            let bytes = now.len() * 8;
            let target = &mut self.block[self.used..self.used + bytes];
            for (to, word) in target.chunks_exact_mut(8).zip(now) {
                to.copy_from_slice(&word.to_le_bytes());
            }
            self.used += bytes;
            self.words += now.len() as u64;
            if self.used == self.block.len() {
                self.end_block()?;
            }
            rest = later;
        }
        Ok(())
    }

    /// Writes what is left, the footer and the digest.
    pub(crate) fn finish(&mut self) -> Result<(), SinkError> {
        if self.words != self.header.words {
            return Err(SinkError::new(format_args!(
                "the image ended after {} of {} words",
                self.words, self.header.words
            )));
        }
        self.end_block()?;
        self.begin_file()?; // an image of no words has no block that did
        let footer = encode_footer(&self.header);
        self.digest.update(&footer);
        let digest = self.digest.finalize().to_le_bytes();
        write_all(&mut self.output, &mut self.written, &footer)?;
        write_all(&mut self.output, &mut self.written, &digest)?;
        debug_assert_eq!(u128::from(self.written), self.header.file_bytes(), "as promised");
        Ok(())
    }

    fn begin_file(&mut self) -> Result<(), SinkError> {
        if self.written == 0 {
            let header: [u8; HEADER_BYTES] = self.header.encode();
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
        let block = &mut self.block[..self.used];
        let start = self.words - ((self.used - BLOCK_HEADER_BYTES) / 8) as u64;
        seal_block(block, start);
        self.digest.update(block);
        write_all(&mut self.output, &mut self.written, block)?;
        self.used = BLOCK_HEADER_BYTES;
        Ok(())
    }
}

fn write_all(output: &mut impl Write, written: &mut u64, bytes: &[u8]) -> Result<(), SinkError> {
    output.write_all(bytes).map_err(|error: io::Error| {
        let what = format_args!("writing {} bytes at byte {written} failed", bytes.len());
        match error.raw_os_error() {
            Some(errno) => SinkError::from_errno(what, errno),
            None => SinkError::new(what),
        }
    })?;
    *written += bytes.len() as u64;
    Ok(())
}
