//! Images of a server without sockets, as RDB files in memory.

use std::sync::mpsc::{Receiver, channel};

use stillframe::{CaptureError, CaptureReport, MemoryError, Point, SinkError};
use stillframe_rdb::{Decoder, Encoder, Output};
use stillframe_storage::RdbVersion;
use stillframe_storage::dump::{
    Counters, Destination, EntryError, Next, RdbSink, Reader, SaveError, image_version, with_header,
};

use super::InProcess;

/// An image that is being taken.
pub struct ImageUnderWay(Receiver<Result<Vec<u8>, CaptureError>>);

/// Why there is no image, or none can be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It cannot be begun, or is not taken whole.
    #[error(transparent)]
    Save(Box<SaveError>),
    /// There is no memory for its counters.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The file cannot be loaded.
    #[error(transparent)]
    Load(#[from] EntryError),
}

impl From<SaveError> for ImageError {
    fn from(error: SaveError) -> Self {
        Self::Save(error.into())
    }
}

/// A file in memory.
#[derive(Default)]
struct Memory(Vec<u8>);

impl Output for Memory {
    type Error = SinkError;

    fn write(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

impl Destination for Memory {
    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

impl InProcess {
    /// Begins an image of all data, which is taken while more is asked.
    ///
    /// # Errors
    /// Why there can be none, in a sentence.
    pub fn begin_image(&mut self) -> Result<ImageUnderWay, ImageError> {
        let version = image_version(&self.keyspace, RdbVersion::Auto)?;
        let encoder = Encoder::new(Memory::default()).version(version);
        let encoder = with_header(encoder, &self.keyspace, []);
        let sink = RdbSink::new(encoder.map_err(SaveError::Head)?, Counters::new()?);
        let (sender, receiver) = channel();
        let publish = move |sink: &mut RdbSink<Memory>,
                            captured: Result<CaptureReport, CaptureError>| {
            let Memory(file) = std::mem::take(sink.encoder.output_mut());
            // Nobody may want it any more.
            let _ = sender.send(captured.map(|_| file));
        };
        let begun = self.keyspace.snapshot(Point::declare(), sink, publish);
        begun.map_err(SaveError::Begin)?;
        Ok(ImageUnderWay(receiver))
    }

    /// Waits until the image is taken, and gives it as an RDB file.
    ///
    /// # Errors
    /// Why it could not be taken, in a sentence.
    pub fn take_image(
        &mut self,
        ImageUnderWay(receiver): ImageUnderWay,
    ) -> Result<Vec<u8>, ImageError> {
        self.keyspace.wait_image();
        let taken = receiver.recv().map_err(|_| SaveError::Silence)?;
        Ok(taken.map_err(SaveError::Capture)?)
    }

    /// Loads an RDB file into a server without data, keys whose time has come included.
    ///
    /// # Errors
    /// What is wrong with the file, in a sentence.
    pub fn load(&mut self, file: &[u8]) -> Result<(), ImageError> {
        let decoder = Decoder::new(file).with_file_bytes(file.len() as u64);
        let mut reader = Reader::new(decoder);
        loop {
            if let Next::End = reader.next(&mut self.keyspace, i64::MIN)? {
                return Ok(());
            }
        }
    }
}
