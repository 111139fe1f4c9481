//! No images: the floor for measurements.

use crate::contract::{CaptureError, Completeness, Concurrent, Info, Records, Writes};
use crate::epochs::Epochs;
use crate::settings::Settings;
use crate::shape::CreateError;
use crate::table::Table;

/// One table, from which no images are taken: they are empty.
#[derive(Debug)]
pub struct Bare {
    table: Table,
    epochs: Epochs,
}

impl Concurrent for Bare {
    const INFO: Info = Info {
        name: "none",
        title: "no images",
        citation: "the floor",
        memory: "1",
        begin: "nothing",
        image: Completeness::Nothing,
    };

    fn create(settings: &Settings) -> Result<Self, CreateError> {
        let Settings { shape, workers, .. } = *settings;
        Ok(Self { table: Table::new(shape)?, epochs: Epochs::new(workers) })
    }
    fn epochs(&self) -> &Epochs {
        &self.epochs
    }
    fn newest(&self, _: usize) -> &Table {
        &self.table
    }
    fn install(&self, _: usize, epoch: u64, writes: &Writes<'_>, ordered: impl FnOnce(u64)) {
        ordered(epoch);
        writes.changes().for_each(|it| self.table.patch(it.record, it.parts, it.value));
    }
    fn begin(&self) -> u64 {
        let image = self.epochs.now();
        self.epochs.set(image + 1);
        image
    }
    fn capture<S: Records>(&self, _: u64, _: &mut S) -> Result<(), CaptureError<S::Error>> {
        Ok(())
    }
    fn settle(&self, _: u64, _: bool) {}
}
