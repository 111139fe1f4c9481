//! Images of a server without sockets, as RDB files in memory.

use std::sync::mpsc::{Receiver, channel};

use stillframe::{CaptureError, CaptureReport, Point, SinkError};
use stillframe_rdb::{Decoder, Encoder, Output};

use super::InProcess;
use crate::persistence::{self, Counters, Destination, Next, RdbSink, next};

/// An image that is being taken.
pub struct Image(Receiver<Result<Vec<u8>, String>>);

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
    pub fn begin_image(&mut self) -> Result<Image, String> {
        let encoder = Encoder::new(Memory::default());
        let encoder = persistence::with_header(encoder, &self.keyspace, []);
        let counters = Counters::new().map_err(|error| error.to_string())?;
        let sink = RdbSink::new(encoder.map_err(|error| error.to_string())?, counters);
        let (sender, receiver) = channel();
        let publish = move |sink: &mut RdbSink<Memory>,
                            captured: Result<CaptureReport, CaptureError>| {
            let Memory(file) = std::mem::take(sink.encoder.output_mut());
            // Nobody may want it any more.
            let _ = sender.send(captured.map(|_| file).map_err(|error| error.to_string()));
        };
        self.keyspace
            .snapshot(Point::declare(), sink, publish)
            .map_err(|error| error.to_string())?;
        Ok(Image(receiver))
    }

    /// Waits until the image is taken, and gives it as an RDB file.
    ///
    /// # Errors
    /// Why it could not be taken, in a sentence.
    pub fn take_image(&mut self, Image(receiver): Image) -> Result<Vec<u8>, String> {
        self.keyspace.wait_image();
        receiver.recv().map_err(|error| error.to_string())?
    }

    /// Loads an RDB file into a server without data, keys whose time has come included.
    ///
    /// # Errors
    /// What is wrong with the file, in a sentence.
    pub fn load(&mut self, file: &[u8]) -> Result<(), String> {
        let mut decoder = Decoder::new(file).with_file_bytes(file.len() as u64);
        loop {
            let read = next(&mut decoder, &mut self.keyspace, i64::MIN, false);
            if matches!(read.map_err(|error| error.to_string())?, Next::End) {
                return Ok(());
            }
        }
    }
}
