//! Virtual Hourglass (vHG). Source: Li et al. 2018, "A Comparative Study of Consistent Snapshot
//! Algorithms for Main-Memory Database Systems", section 4.
//!
//! Idea: two tables; commits of an epoch go into one, those of the next into the other, and each
//! table has flags of what was written in its epoch. Begin makes the next epoch the present one
//! and waits until the commits of the old one are installed; then nobody writes the old table until
//! the next begin, and the snapshotter dumps what is flagged there. `latest` says which table holds
//! the newest value of a record.
//!
//! - Memory: 2 copies and 3 bits a record, and an increment that was not kept. Begin: O(1), waits
//!   for installs. Read: one bit. Image: an increment, and cannot be otherwise (a record last
//!   written two epochs ago lies in the table that is written now).
//!
//! Deviation: the side of a transaction is fixed when it commits, with all its locks held, not when
//! it starts. The paper's rule is unsafe under its own two-phase locking: a transaction that
//! started before the trigger may read what one started after it has committed, and its write goes
//! to the image of which the other is no part (`docs/research/errata.md`).

use std::collections::BTreeMap;

use crate::contract::{CaptureError, Completeness, Concurrent, Info, Records, Writes};
use crate::epochs::Epochs;
use crate::mutant::{Mutant, Mutation};
use crate::settings::Settings;
use crate::shape::{CreateError, Shape};
use crate::sync::Mutex;
use crate::table::{Bits, Table};

/// Records with images by vHG.
#[derive(Debug)]
pub struct VirtualHourglass {
    tables: [Table; 2],
    /// What was written in the last epoch of each table.
    written: [Bits; 2],
    /// Whether the newest value of a record is in table 1.
    latest: Bits,
    shape: Shape,
    epochs: Epochs,
    /// Records of images that no sink has kept.
    owed: Mutex<Owed>,
    mutation: Mutation,
}

/// The side of an epoch.
fn side(epoch: u64) -> usize {
    (epoch & 1) as usize
}

/// Records that are part of no image that was kept, each with its value.
type Owed = BTreeMap<usize, Option<Box<[u64]>>>;

impl VirtualHourglass {
    /// Pushes what was written in the epoch of an image, and what is owed.
    fn push<S: Records>(
        &self,
        image: u64,
        owed: &Owed,
        words: &mut [u64],
        sink: &mut S,
    ) -> Result<(), CaptureError<S::Error>> {
        let (table, written) = (&self.tables[side(image)], &self.written[side(image)]);
        let mut due = owed.iter().peekable();
        for record in 0..self.shape.records {
            let value = match due.next_if(|(at, _)| **at == record) {
                Some((_, value)) => value.as_deref(),
                None if written.get(record) => table.load(record, words).then_some(&*words),
                None => continue,
            };
            sink.record(record, value)?;
        }
        Ok(())
    }
}

impl Concurrent for VirtualHourglass {
    const INFO: Info = Info {
        name: "vhg",
        title: "Virtual Hourglass, the side fixed at commit",
        citation: "Li et al. 2018, section 4",
        memory: "2",
        begin: "O(1), waits for installs",
        image: Completeness::Increment,
    };

    fn create(settings: &Settings) -> Result<Self, CreateError> {
        let Settings { shape, workers, .. } = *settings;
        Ok(Self {
            tables: [Table::new(shape)?, Table::new(shape)?],
            written: [Bits::new(shape.records)?, Bits::new(shape.records)?],
            latest: Bits::new(shape.records)?,
            shape,
            epochs: Epochs::new(workers),
            owed: Mutex::default(),
            mutation: Mutation::current(),
        })
    }
    fn epochs(&self) -> &Epochs {
        &self.epochs
    }
    fn newest(&self, record: usize) -> &Table {
        &self.tables[usize::from(self.latest.get(record))]
    }
    fn install(&self, _: usize, epoch: u64, writes: &Writes<'_>, ordered: impl FnOnce(u64)) {
        ordered(epoch);
        let side = side(epoch);
        for (record, value) in writes.iter() {
            self.tables[side].store(record, value);
            self.written[side].set(record, true);
            self.latest.set(record, side == 1);
        }
    }
    fn begin(&self) -> u64 {
        let image = self.epochs.now();
        self.epochs.set(image + 1);
        if !self.mutation.is(Mutant::EpochDoesNotDrain) {
            self.epochs.drain(|announced| announced == image);
        }
        image
    }
    fn capture<S: Records>(&self, image: u64, sink: &mut S) -> Result<(), CaptureError<S::Error>> {
        let written = &self.written[side(image)];
        let mut owed = self.owed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // What is owed and not written anew is part of this increment.
        let mut words = vec![0; self.shape.words];
        owed.retain(|&record, _| !written.get(record));
        if self.mutation.is(Mutant::HourglassTakesOwed) {
            let taken = std::mem::take(&mut *owed);
            self.push(image, &taken, &mut words, sink)?;
            *owed = taken;
            return Ok(());
        }
        // It stays in the list: the sink may fail or panic.
        self.push(image, &owed, &mut words, sink)
    }
    fn settle(&self, image: u64, kept: bool) {
        let (table, written) = (&self.tables[side(image)], &self.written[side(image)]);
        let mut owed = self.owed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if kept {
            owed.clear();
        } else {
            let mut words = vec![0; self.shape.words];
            for record in (0..self.shape.records).filter(|&record| written.get(record)) {
                let present = table.load(record, &mut words);
                owed.insert(record, present.then(|| words.clone().into()));
            }
        }
        written.clear();
    }
}
