//! Fork with a stop of all threads: the kernel keeps the image. Source: Li et al. 2018, section
//! 3.1.2 (one thread there, and a child that writes the image).
//!
//! The child sleeps, and the capture reads its memory, so that a sink may do whatever it likes in
//! this process. That costs the capture one more copy, and committers nothing beside the faults of
//! pages that they write first.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stillframe::os::Frozen;

use super::stopped::{Still, Stopped};
use crate::contract::{CaptureError, Completeness, Info, Records};
use crate::shape::{CreateError, Shape};
use crate::table::Table;

/// Fork: the kernel copies pages that are written after it.
pub type Fork = Stopped<Forked>;

/// Records that are read at once: as many as a word of presence bits has.
const RUN: usize = 64;

/// A sleeping child, or why there is none; `None` between images.
#[derive(Debug)]
pub struct Forked(Mutex<Option<io::Result<Frozen>>>);

impl Forked {
    fn image(&self) -> MutexGuard<'_, Option<io::Result<Frozen>>> {
        // Replaced as a whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Still for Forked {
    const INFO: Info = Info {
        name: "fork",
        title: "Fork, all threads stopped",
        citation: "Li et al. 2018, section 3.1.2",
        memory: "1 to 2, by pages written",
        begin: "O(page table), while no commit can be installed",
        image: Completeness::Full,
    };

    fn create(_: Shape) -> Result<Self, CreateError> {
        Ok(Self(Mutex::new(None)))
    }
    fn fix(&self, _: Shape, _: &Table) {
        *self.image() = Some(Frozen::new());
    }
    fn capture<S: Records>(
        &self,
        shape: Shape,
        table: &Table,
        sink: &mut S,
    ) -> Result<(), CaptureError<S::Error>> {
        let image = self.image();
        let failed = |error: &io::Error| CaptureError::Fork(error.kind());
        let frozen = match &*image {
            Some(Ok(frozen)) => frozen,
            Some(Err(error)) => return Err(failed(error)),
            None => return Err(CaptureError::Fork(io::ErrorKind::NotFound)),
        };
        let mut words = vec![0; RUN * shape.words];
        for first in (0..shape.records).step_by(RUN) {
            let records = first..(first + RUN).min(shape.records);
            let words = &mut words[..records.len() * shape.words];
            let present = table.frozen(frozen, records.clone(), words).map_err(|it| failed(&it))?;
            for (place, (record, value)) in records.zip(words.chunks(shape.words)).enumerate() {
                if present >> place & 1 == 1 {
                    sink.record(record, Some(value))?;
                }
            }
        }
        Ok(())
    }
    fn release(&self) {
        *self.image() = None;
    }
}
