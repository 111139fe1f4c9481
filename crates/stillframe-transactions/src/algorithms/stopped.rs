//! Naive Snapshot with a stop of all threads: the baseline. Source: Li et al. 2018, section 3.1
//! (one thread there).
//!
//! Begin closes the gate, waits for the commits that are being installed, copies the whole state
//! and opens the gate. Epochs are even while the gate is open and odd while it is closed; image `i`
//! is fixed in epoch `2 i + 1`.

use super::walk;
use crate::contract::{CaptureError, Completeness, Concurrent, Info, Records, Writes};
use crate::epochs::Epochs;
use crate::mutant::{Mutant, Mutation};
use crate::shape::{CreateError, Shape};
use crate::table::Table;

/// Records whose images are copied while nobody commits.
#[derive(Debug)]
pub struct Stopped {
    table: Table,
    copy: Table,
    shape: Shape,
    epochs: Epochs,
    mutation: Mutation,
}

impl Concurrent for Stopped {
    const INFO: Info = Info {
        name: "naive",
        title: "Naive Snapshot, all threads stopped",
        citation: "Li et al. 2018, section 3.1",
        memory: "2",
        begin: "O(state), while no commit can be installed",
        image: Completeness::Full,
    };

    fn create(shape: Shape, workers: usize) -> Result<Self, CreateError> {
        let (table, copy) = (Table::new(shape)?, Table::new(shape)?);
        let mutation = Mutation::current();
        Ok(Self { table, copy, shape, epochs: Epochs::new(workers), mutation })
    }
    fn epochs(&self) -> &Epochs {
        &self.epochs
    }
    fn open(epoch: u64) -> bool {
        epoch.is_multiple_of(2)
    }
    fn newest(&self, _: usize) -> &Table {
        &self.table
    }
    fn install(&self, _: usize, epoch: u64, writes: &Writes<'_>, ordered: impl FnOnce(u64)) {
        writes.iter().for_each(|(record, value)| self.table.store(record, value));
        ordered(epoch / 2);
    }
    fn begin(&self) -> u64 {
        let epoch = self.epochs.now();
        self.epochs.set(epoch + 1);
        if !self.mutation.is(Mutant::StoppedDoesNotWait) {
            self.epochs.drain(|announced| announced == epoch);
        }
        (0..self.shape.records).for_each(|record| self.copy.copy(record, &self.table));
        self.epochs.set(epoch + 2);
        epoch / 2
    }
    fn capture<S: Records>(&self, _: u64, sink: &mut S) -> Result<(), CaptureError<S::Error>> {
        walk(self.shape, sink, |record, into| self.copy.load(record, into))
    }
    fn settle(&self, _: u64, _: bool) {}
}
