//! The dump file while it is written.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use stillframe::{Shared, SinkError};
use stillframe_durability::disk::{self, Stage, Throttle};
use stillframe_rdb::Output;

use super::sink::Destination;

/// Bytes gathered for one write: small enough for the rate limit and the progress to stay smooth.
const STAGE_BYTES: usize = 256 << 10;

/// A stage that one file after another uses.
pub fn stage() -> Stage {
    Stage::new(STAGE_BYTES)
}

/// The file being written.
pub struct DumpFile {
    file: disk::Output,
    throttle: Throttle,
    /// Bytes written, perhaps by a forked child.
    written: Shared<AtomicU64>,
}

impl DumpFile {
    /// Prepares to write `file`, which is empty.
    pub fn new(
        mut file: disk::Output,
        stage: Stage,
        throttle: Throttle,
        written: Shared<AtomicU64>,
    ) -> Self {
        file.set_throttle(Some(throttle.clone()));
        file.report_written(written.clone());
        file.gather_in(stage);
        Self { file, throttle, written }
    }

    /// The file itself, and the bytes that it should have.
    pub fn file(&mut self) -> (&mut disk::Output, u64) {
        (&mut self.file, self.written.load(Ordering::Relaxed))
    }

    /// Takes the stage for the next file. This one can write nothing more.
    pub fn take_stage(&mut self) -> Stage {
        self.file.take_stage().unwrap_or_else(stage)
    }

    fn call(
        &mut self,
        call: impl FnOnce(&mut disk::Output) -> io::Result<()>,
    ) -> Result<(), SinkError> {
        call(&mut self.file).map_err(|error| match error.raw_os_error() {
            None if self.throttle.is_cancelled() => given_up(),
            errno => {
                SinkError::from_errno(format_args!("writing the dump file"), errno.unwrap_or(EIO))
            }
        })
    }
}

/// The error where the operating system names none.
const EIO: i32 = rustix::io::Errno::IO.raw_os_error();

/// The image is cancelled.
pub fn given_up() -> SinkError {
    SinkError::new(format_args!("the image was given up"))
}

impl Output for DumpFile {
    type Error = SinkError;

    fn write(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        self.call(|file| file.write_all(bytes))
    }
}

impl Destination for DumpFile {
    fn finish(&mut self) -> Result<(), SinkError> {
        self.call(Write::flush)
    }
}
