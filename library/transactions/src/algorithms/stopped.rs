//! The baselines: all threads are stopped at a point between commits while the image is fixed.
//! Source: Li et al. 2018, sections 3.1.1 and 3.1.2 (one thread there).
//!
//! Begin closes the gate, waits for the commits that are being installed, fixes the image and opens
//! the gate. Epochs are even while the gate is open and odd while it is closed; image `i` is fixed
//! in epoch `2 i + 1`.

use super::walk;
use crate::contract::{CaptureError, Completeness, Concurrent, Info, Records, Writes};
use crate::epochs::Epochs;
use crate::mutant::{Mutant, Mutation};
use crate::settings::Settings;
use crate::shape::{CreateError, Shape};
use crate::table::Table;

/// Naive Snapshot: the state is copied while nobody commits.
pub type Naive = Stopped<Copied>;

/// How the image of a state that stands still is kept.
pub trait Still: Sized + Send + Sync + 'static {
    /// What is known of the algorithm.
    const INFO: Info;
    /// Room for images.
    ///
    /// # Errors
    /// [`CreateError`] when the memory cannot be had.
    fn create(shape: Shape) -> Result<Self, CreateError>;
    /// Fixes the image: nothing is being installed.
    fn fix(&self, shape: Shape, table: &Table);
    /// Pushes the image into a sink.
    ///
    /// # Errors
    /// [`CaptureError`].
    fn capture<S: Records>(
        &self,
        shape: Shape,
        table: &Table,
        sink: &mut S,
    ) -> Result<(), CaptureError<S::Error>>;
    /// Gives the image up.
    fn release(&self) {}
}

/// Records whose images are fixed while nobody commits.
#[derive(Debug)]
pub struct Stopped<I> {
    table: Table,
    image: I,
    shape: Shape,
    epochs: Epochs,
    mutation: Mutation,
}

impl<I: Still> Concurrent for Stopped<I> {
    const INFO: Info = I::INFO;

    fn create(settings: &Settings) -> Result<Self, CreateError> {
        let Settings { shape, workers, .. } = *settings;
        let (table, image) = (Table::new(shape)?, I::create(shape)?);
        let mutation = Mutation::current();
        Ok(Self { table, image, shape, epochs: Epochs::new(workers), mutation })
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
        ordered(epoch / 2);
        writes.changes().for_each(|it| self.table.patch(it.record, it.parts, it.value));
    }
    fn begin(&self) -> u64 {
        let epoch = self.epochs.now();
        self.epochs.set(epoch + 1);
        if !self.mutation.is(Mutant::StoppedDoesNotWait) {
            self.epochs.drain(|announced| announced == epoch);
        }
        self.image.fix(self.shape, &self.table);
        self.epochs.set(epoch + 2);
        epoch / 2
    }
    fn capture<S: Records>(&self, _: u64, sink: &mut S) -> Result<(), CaptureError<S::Error>> {
        self.image.capture(self.shape, &self.table, sink)
    }
    fn settle(&self, _: u64, _: bool) {
        self.image.release();
    }
}

/// A second copy of the state.
#[derive(Debug)]
pub struct Copied(Table);

impl Still for Copied {
    const INFO: Info = Info {
        name: "naive",
        title: "Naive Snapshot, all threads stopped",
        citation: "Li et al. 2018, section 3.1.1",
        memory: "2",
        begin: "O(state), while no commit can be installed",
        image: Completeness::Full,
    };

    fn create(shape: Shape) -> Result<Self, CreateError> {
        Table::new(shape).map(Self)
    }
    fn fix(&self, shape: Shape, table: &Table) {
        (0..shape.records).for_each(|record| self.0.copy(record, table));
    }
    fn capture<S: Records>(
        &self,
        shape: Shape,
        _: &Table,
        sink: &mut S,
    ) -> Result<(), CaptureError<S::Error>> {
        walk(shape, sink, |record, into| self.0.load(record, into))
    }
}
