//! A checkpoint file as the sink of an image.

use stillframe::{BLOCK_WORDS, Before, Sink, SinkError};

use crate::checkpoint::Header;
use crate::checkpoint::writer::Writer;
use crate::disk::{Directory, Output};
use crate::error::Error;
use crate::manner::Manner;
use crate::mutant::Mutant;
use crate::names::TEMPORARY;
use crate::touched::Tables;

/// A file, and the blocks that it must hold if it is an increment of full images.
#[derive(Debug)]
pub(crate) struct CheckpointFile {
    writer: Writer<Output>,
    tables: Tables,
    /// Whether only blocks that the tables have are wanted.
    picks: bool,
    native: bool,
    /// Bytes to reserve before the first is written; 0 if their number is not known.
    reserve: u64,
}

impl CheckpointFile {
    pub(super) fn create(directory: &Directory, manner: &Manner) -> Result<Self, Error> {
        let mut output = directory.create(TEMPORARY)?;
        output.set_throttle(manner.throttle.clone());
        output.pass_cache(manner.in_process);
        let mut header = Header::new(0, 0, 0, "");
        header.packs = manner.packs;
        let (mut writer, tables) = (Writer::new(output, header), Tables::default());
        if manner.in_process {
            writer.use_threads();
        }
        Ok(Self { writer, tables, picks: false, native: manner.native, reserve: 0 })
    }

    /// Sets the image that comes next.
    pub(super) fn begin(&mut self, header: Header, tables: Tables) {
        self.writer.set_header(header);
        self.tables = tables;
        self.picks = header.base.is_some() && !self.native;
        let bytes = self.header().file_bytes().and_then(|bytes| u64::try_from(bytes).ok());
        self.reserve = bytes.unwrap_or(0);
    }

    pub(crate) fn header(&self) -> &Header {
        self.writer.header()
    }

    pub(super) fn writer(&mut self) -> &mut Writer<Output> {
        &mut self.writer
    }

    pub(super) fn take_tables(&mut self) -> Tables {
        std::mem::take(&mut self.tables)
    }
}

impl Sink for CheckpointFile {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        if self.reserve > 0 {
            let bytes = std::mem::take(&mut self.reserve);
            let made = self.writer.output().make_room(bytes);
            made.map_err(|error| SinkError::from_errno(format_args!("{error}"), error.errno()))?;
        }
        self.writer.push(start, words)
    }

    fn wants(&mut self, start: usize) -> bool {
        !self.picks || self.tables.has(start / BLOCK_WORDS)
    }

    fn before(&mut self, start: usize, _: &mut [u64]) -> Result<Before, SinkError> {
        if self.header().base.is_some() {
            return Ok(Before::Skipped);
        }
        Err(SinkError::new(format_args!("the block of word {start} is not whole in the image")))
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        if self.writer.output().is(Mutant::PublishBeforeFooter) {
            return Ok(());
        }
        self.writer.finish()
    }
}
