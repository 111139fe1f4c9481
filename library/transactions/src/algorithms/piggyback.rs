//! Virtual Piggyback (vPB). Source: Li et al. 2018, "A Comparative Study of Consistent Snapshot
//! Algorithms for Main-Memory Database Systems", section 4.
//!
//! Idea: two tables as in vHG, but the snapshotter also copies into the table of the present epoch
//! what was last written in the old one ("piggyback"), so that each table is complete when its
//! epoch ends: images are full. `place` says of each record where its newest value is: in both
//! tables, in one of them, or in one from which a copy is being made.
//!
//! - Memory: 2 copies and 1 byte a record. Begin: O(1), waits for installs. Read: one byte.
//!
//! Races: the copier claims a record by the same compare-and-swap as a writer (`OLD` to `COPYING`
//! against `OLD` to `WRITING`), so a copy never lands on a newer value; writers exclude one another
//! by the record's lock. The copier starts after the commits of the old epoch are installed: before
//! that, the old table is not final. A writer that meets a copy waits for it: one record.
//!
//! Deviation: the side of a transaction is fixed when it commits; see [`vhg`](super::hourglass).

use super::walk;
use crate::contract::{CaptureError, Completeness, Concurrent, Info, Records, Writes};
use crate::epochs::Epochs;
use crate::mutant::{Mutant, Mutation};
use crate::settings::Settings;
use crate::shape::{CreateError, Shape};
use crate::sync::{AtomicBool, AtomicU8, Backoff, Ordering};
use crate::table::{Table, bytes};

/// Both tables hold the newest value.
const BOTH: u8 = 0;
/// Only table 0 or 1 does: `ONLY + side`.
const ONLY: u8 = 1;
/// A writer that holds the record's lock is at work.
const WRITING: u8 = 3;
/// The copier copies from table 0 or 1: `COPYING + side`.
const COPYING: u8 = 4;

/// Records with images by vPB.
#[derive(Debug)]
pub struct VirtualPiggyback {
    tables: [Table; 2],
    place: Box<[AtomicU8]>,
    shape: Shape,
    epochs: Epochs,
    /// Whether the copier has been through since begin.
    copied: AtomicBool,
    mutation: Mutation,
}

impl VirtualPiggyback {
    /// Makes the table of the present epoch complete.
    fn piggyback(&self, image: u64) {
        if self.copied.swap(true, Ordering::Relaxed) {
            return;
        }
        let old = (image & 1) as u8;
        let [from, to] = [usize::from(old), 1 - usize::from(old)];
        let careless = self.mutation.is(Mutant::PiggybackCopiesWithoutClaim);
        for (record, place) in self.place.iter().enumerate() {
            if place.load(Ordering::Relaxed) != ONLY + old {
                continue;
            }
            let (only, claim) = (ONLY + old, COPYING + old);
            let claimed =
                place.compare_exchange(only, claim, Ordering::Acquire, Ordering::Relaxed).is_ok();
            if careless && claimed {
                place.store(only, Ordering::Relaxed);
            }
            if claimed {
                self.tables[to].copy(record, &self.tables[from]);
                place.store(BOTH, Ordering::Release);
            }
        }
    }
}

impl Concurrent for VirtualPiggyback {
    const INFO: Info = Info {
        name: "vpb",
        title: "Virtual Piggyback, the side fixed at commit",
        citation: "Li et al. 2018, section 4",
        memory: "2",
        begin: "O(1), waits for installs",
        image: Completeness::Full,
    };

    fn create(settings: &Settings) -> Result<Self, CreateError> {
        let Settings { shape, workers, .. } = *settings;
        Ok(Self {
            tables: [Table::new(shape)?, Table::new(shape)?],
            place: bytes(shape.records)?,
            shape,
            epochs: Epochs::new(workers),
            copied: AtomicBool::new(true),
            mutation: Mutation::current(),
        })
    }
    fn epochs(&self) -> &Epochs {
        &self.epochs
    }
    fn newest(&self, record: usize) -> &Table {
        let place = self.place[record].load(Ordering::Acquire);
        &self.tables[usize::from(place == ONLY + 1 || place == COPYING + 1)]
    }
    fn install(&self, _: usize, epoch: u64, writes: &Writes<'_>, ordered: impl FnOnce(u64)) {
        ordered(epoch);
        let side = (epoch & 1) as u8;
        let old = ONLY + (1 - side);
        for (record, value) in writes.iter() {
            let place = &self.place[record];
            let mut backoff = Backoff::default();
            loop {
                let seen = place.load(Ordering::Acquire);
                if seen == BOTH || seen == ONLY + side {
                    break; // the copier leaves such a record alone
                }
                let claim = |from| {
                    place.compare_exchange(from, WRITING, Ordering::Acquire, Ordering::Relaxed)
                };
                if seen == old && claim(old).is_ok() {
                    break;
                }
                backoff.wait();
            }
            self.tables[usize::from(side)].store(record, value);
            place.store(ONLY + side, Ordering::Release);
        }
    }
    fn begin(&self) -> u64 {
        let image = self.epochs.now();
        self.copied.store(false, Ordering::Relaxed);
        self.epochs.set(image + 1);
        if self.mutation.is(Mutant::PiggybackCopiesBeforeDrain) {
            self.piggyback(image);
        }
        if !self.mutation.is(Mutant::EpochDoesNotDrain) {
            self.epochs.drain(|announced| announced == image);
        }
        image
    }
    fn capture<S: Records>(&self, image: u64, sink: &mut S) -> Result<(), CaptureError<S::Error>> {
        self.piggyback(image);
        let table = &self.tables[(image & 1) as usize];
        walk(self.shape, sink, |record, into| table.load(record, into))
    }
    fn settle(&self, image: u64, _: bool) {
        self.piggyback(image);
    }
}
