//! CALC: Checkpointing Asynchronously using Logical Consistency. Sources: Ren et al. 2016,
//! "Low-Overhead Asynchronous Checkpointing in Main-Memory Database Systems"; Li et al. 2018,
//! section 4, compare with it.
//!
//! Idea: a live value of each record and, while an image is under way, a stable one: the value at
//! the point of consistency, which the first later commit sets aside. Five phases: in `REST`
//! nothing is set aside; `PREPARE` sets aside tentatively, as a commit may land on either side of
//! the point; the point itself is the moment at which `RESOLVE` begins; in `CAPTURE` the records
//! are dumped; `COMPLETE` waits for the last transactions of the capture. Whether a record's stable
//! value is *available* is a flag whose meaning changes with each image, so that none is cleared.
//!
//! - Memory: 2 copies (the stable table is allocated at once) and 1 byte a record. Begin: O(1),
//!   waits for installs twice. Read: nothing. Write: a latch and a look at the flags.
//! - `calc` dumps every present record. `pcalc`, the paper's partial form, dumps what has changed
//!   since the image that was kept last; 2 bits a record more.
//!
//! Invariants: in `REST` no record has a stable value and none is available. Once `CAPTURE` has
//! begun, the image's value of a record is its stable one if there is one, else its live one. Each
//! record is dumped once.
//!
//! Race: the capture of a record against a commit of the same. No order of their stores alone is
//! safe, so each takes the record's latch for its body. The commit log's latch makes "before or
//! after the point" one total order.

use std::marker::PhantomData;

use crate::contract::{CaptureError, Change, Completeness, Concurrent, Info, Records, Writes};
use crate::epochs::Epochs;
use crate::mutant::{Mutant, Mutation};
use crate::settings::Settings;
use crate::shape::{CreateError, Shape};
use crate::sync::{AtomicBool, AtomicU8, AtomicU64, Backoff, Mutex, Ordering};
use crate::table::{Bits, Table, bytes};

/// Images of all records.
pub type Calc = Phased<Whole>;
/// Images of what has changed.
pub type PartialCalc = Phased<Changed>;

/// Marks the form that dumps every record.
#[derive(Debug)]
pub struct Whole;
/// Marks the form that dumps what has changed.
#[derive(Debug)]
pub struct Changed;

/// Which records a form dumps.
pub trait Form: Send + Sync + 'static {
    /// What is known of it.
    const INFO: Info;
}

const COMMON: Info = Info {
    name: "calc",
    title: "CALC",
    citation: "Ren et al. 2016",
    memory: "2",
    begin: "O(1), waits for installs twice",
    image: Completeness::Full,
};

impl Form for Whole {
    const INFO: Info = COMMON;
}

impl Form for Changed {
    const INFO: Info =
        Info { name: "pcalc", title: "partial CALC", image: Completeness::Increment, ..COMMON };
}

// An epoch is `PHASES * image + phase`.
const PHASES: u64 = 8;
const REST: u64 = 0;
const PREPARE: u64 = 1;
const RESOLVE: u64 = 2;
const CAPTURE: u64 = 3;
const COMPLETE: u64 = 4;

// The flags of a record, which change under its latch.
const LATCH: u8 = 1;
const AVAILABLE: u8 = 2;
const STABLE: u8 = 4;

/// Records with images by CALC.
#[derive(Debug)]
pub struct Phased<F> {
    live: Table,
    stable: Table,
    flags: Box<[AtomicU8]>,
    /// Whether [`AVAILABLE`] means its opposite.
    flipped: AtomicBool,
    /// Records below have been captured.
    cursor: AtomicU64,
    /// What was written between two images, by the parity of the later one.
    changed: Option<[Bits; 2]>,
    /// Taken to note a commit and to fix the point of consistency.
    commits: Mutex<()>,
    shape: Shape,
    epochs: Epochs,
    mutation: Mutation,
    form: PhantomData<F>,
}

impl<F: Form> Phased<F> {
    /// Changes the flags of a record by `body`, which is given whether its stable value is
    /// available and whether there is one, and gives both back.
    fn latched(&self, record: usize, body: impl FnOnce(bool, bool) -> (bool, bool)) {
        let flags = &self.flags[record];
        let held = if self.mutation.is(Mutant::CalcWithoutLatch) {
            flags.load(Ordering::Acquire)
        } else {
            let mut backoff = Backoff::default();
            loop {
                let free = flags.load(Ordering::Relaxed) & !LATCH;
                let taken = free | LATCH;
                let (done, not) = (Ordering::Acquire, Ordering::Relaxed);
                if flags.compare_exchange_weak(free, taken, done, not).is_ok() {
                    break free;
                }
                backoff.wait();
            }
        };
        let flipped = self.flipped.load(Ordering::Relaxed);
        let available = (held & AVAILABLE != 0) != flipped;
        let (available, stable) = body(available, held & STABLE != 0);
        let next = u8::from(available != flipped) * AVAILABLE + u8::from(stable) * STABLE;
        flags.store(next, Ordering::Release);
    }

    fn set_aside(&self, record: usize) {
        self.stable.copy(record, &self.live);
    }

    /// What a commit of `phase` does to a record before its value is replaced.
    fn apply(&self, phase: u64, change: Change<'_>) {
        let record = change.record;
        self.latched(record, |mut available, mut stable| {
            match phase {
                PREPARE if !available && !stable => {
                    self.set_aside(record);
                    stable = true;
                }
                RESOLVE | CAPTURE if !available => {
                    let forgotten =
                        self.mutation.is(Mutant::CalcTakesLateInsert) && !self.live.present(record);
                    if !stable && !forgotten {
                        self.set_aside(record);
                        stable = true;
                    }
                    available = true;
                }
                REST | COMPLETE => stable = false,
                _ => {}
            }
            self.live.patch(record, change.parts, change.value);
            (available, stable)
        });
    }

    /// Copies the image's value of a record, if it is present there, and has its flags ready for
    /// the next image.
    fn take(&self, record: usize, into: &mut [u64]) -> bool {
        let mut present = false;
        self.latched(record, |_, stable| {
            let table = if stable { &self.stable } else { &self.live };
            present = table.load(record, into);
            (true, false)
        });
        self.cursor.store(record as u64 + 1, Ordering::Relaxed);
        present
    }
}

impl<F: Form> Concurrent for Phased<F> {
    const INFO: Info = F::INFO;

    fn create(settings: &Settings) -> Result<Self, CreateError> {
        let Settings { shape, workers, .. } = *settings;
        let bits = || Bits::new(shape.records);
        let partial = F::INFO.image == Completeness::Increment;
        Ok(Self {
            live: Table::new(shape)?,
            stable: Table::new(shape)?,
            flags: bytes(shape.records)?,
            flipped: AtomicBool::new(false),
            cursor: AtomicU64::new(0),
            changed: if partial { Some([bits()?, bits()?]) } else { None },
            commits: Mutex::new(()),
            shape,
            epochs: Epochs::new(workers),
            mutation: Mutation::current(),
            form: PhantomData,
        })
    }
    fn epochs(&self) -> &Epochs {
        &self.epochs
    }
    fn newest(&self, _: usize) -> &Table {
        &self.live
    }
    fn install(&self, _: usize, epoch: u64, writes: &Writes<'_>, ordered: impl FnOnce(u64)) {
        let (image, phase) = (epoch / PHASES, epoch % PHASES);
        let after = {
            let _latch = self.commits.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let passed = self.epochs.now() == image * PHASES + RESOLVE;
            let after = (RESOLVE..=COMPLETE).contains(&phase) || (phase == PREPARE && passed);
            ordered(image + u64::from(after));
            after
        };
        writes.changes().for_each(|change| self.apply(phase, change));
        for (record, _) in writes.iter() {
            if phase == PREPARE {
                let keep = after || self.mutation.is(Mutant::CalcKeepsTentative);
                self.latched(record, |available, stable| (available || after, stable && keep));
            }
            if let Some(changed) = &self.changed {
                changed[((image + u64::from(after)) & 1) as usize].set(record, true);
            }
        }
    }
    fn begin(&self) -> u64 {
        let rest = self.epochs.now();
        let image = rest / PHASES;
        let [prepare, resolve] = [PREPARE, RESOLVE].map(|phase| image * PHASES + phase);
        self.cursor.store(0, Ordering::Relaxed);
        self.epochs.set(prepare);
        self.epochs.drain(|announced| announced < prepare);
        {
            let _latch = self.commits.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            self.epochs.set(resolve);
        }
        if !self.mutation.is(Mutant::EpochDoesNotDrain) {
            self.epochs.drain(|announced| announced < resolve);
        }
        self.epochs.set(image * PHASES + CAPTURE);
        image
    }
    fn capture<S: Records>(&self, image: u64, sink: &mut S) -> Result<(), CaptureError<S::Error>> {
        let mut words = vec![0; self.shape.words];
        for record in 0..self.shape.records {
            let present = self.take(record, &mut words);
            let value = present.then_some(words.as_slice());
            match &self.changed {
                Some(changed) if changed[(image & 1) as usize].get(record) => {
                    sink.record(record, value)?;
                }
                None if present => sink.record(record, value)?,
                _ => {}
            }
        }
        Ok(())
    }
    fn settle(&self, image: u64, kept: bool) {
        let mut words = vec![0; self.shape.words];
        for record in self.cursor.load(Ordering::Relaxed) as usize..self.shape.records {
            self.take(record, &mut words);
        }
        if let Some(changed) = &self.changed {
            let [this, next] = [image & 1, (image + 1) & 1].map(|parity| parity as usize);
            for record in (0..self.shape.records).filter(|&it| !kept && changed[this].get(it)) {
                changed[next].set(record, true);
            }
            changed[this].clear();
        }
        let complete = image * PHASES + COMPLETE;
        let early = self.mutation.is(Mutant::CalcFlipsEarly);
        let flip = || self.flipped.fetch_xor(true, Ordering::Relaxed);
        if early {
            flip();
        }
        self.epochs.set(complete);
        self.epochs.drain(|announced| announced < complete);
        if !early {
            flip();
        }
        self.epochs.set((image + 1) * PHASES + REST);
    }
}
