//! On-Demand-Fork and Async-fork: **models** at user level of two changes to the kernel's fork.
//! Source: Pang et al., "Async-fork: Mitigating Query Latency Spikes Incurred by the Fork-based
//! Snapshot Mechanism from the OS Level", 2023, sections 3 and 4, which also describes Zhao et al.,
//! "On-demand-fork", EuroSys 2021.
//!
//! Idea: state lies behind a page table of our own: a root of entries, each a table of 512 entries,
//! each a page of 4 KiB in a pool. Begin copies the root and marks its tables shared; a page is
//! copied on the first write to it. In On-Demand-Fork the writer copies a table on the first write
//! below it. In Async-fork the snapshotter copies all tables before anything else, and the writer
//! copies one itself only if it must write below it first (*proactive synchronisation*).
//!
//! - A model: it shows how often and when the writer is delayed
//!   ([`Progress::interruptions`]), not what a kernel's fault costs. Every read and write walks the
//!   table in software (two loads more), which is the model's own cost, not the algorithms'.
//! - Memory: 1 to 2 copies, by pages written, and 24 bytes a page of tables. Prefaulted, the pool
//!   is 2 copies from the start. Begin: O(root), 8 bytes for 2 MiB. Write: a table copy on the
//!   first write to 2 MiB, a page copy on the first write to 4 KiB. Full image.
//! - Unit: the page; a page is copied whole before a part of it is written.
//! - T1: the writer's root has one owner, the writer. The image has the copy of it.
//! - T2: a table that is marked shared in the writer's root is written by its copier alone: in
//!   Async-fork the thread that claimed it (`claim.rs`), in On-Demand-Fork no thread, since the
//!   copy is the writer's and the image keeps the table.
//! - T3: a page that is marked shared in the writer's table is not written. All pages of a
//!   table are marked when the table is copied.
//! - T4: a page that the writer has replaced is not used again before the image is done (edge 2).
//!   `spare` has one slot for each page, and a copy exchanges one: they cannot run out.
//!
//! Deviations: the paper's listing tests a flag and then copies; its prose adds a lock, which is a
//! claim here. It declares a table copied before its pages are marked; here after
//! (`docs/research/errata.md`).
//!
//! The cases for a table when the writer must write below it (Async-fork): copied: its pages are
//! marked (C2), T3 holds. Being copied: the writer waits, for one table at most. Not yet: the
//! writer claims and copies it, and the snapshotter finds it done. The image is done: the mark is
//! cleared without a copy, as a kernel reuses a page that it finds to be mapped once.

use std::fmt;
use std::marker::PhantomData;

use super::claim::{Claim, Claims};
use crate::algorithm::{Algorithm, New, write_by_replace};
use crate::error::{BeginError, MemoryError};
use crate::handover::{Handover, Progress};
use crate::image::{Held, InProcess, Lease, View};
use crate::info::Info;
use crate::memory::{Item, Words, out_of_bounds};
use crate::mutant::Mutant;
use crate::options::Options;
use crate::os::Shared;
use crate::point::Point;
use crate::sealed::Sealed;
use crate::sink::{BLOCK_WORDS, Sink};

/// The writer copies tables, when it must.
pub type OnDemandFork = PageTables<OnDemand>;
/// The snapshotter copies tables; the writer those that it needs before.
pub type AsyncFork = PageTables<Asynchronous>;

/// Entries in a table; few in tests, whose states are small.
const TABLE: usize = if BLOCK_WORDS == 512 && !cfg!(test) { 512 } else { 2 };
/// Lowest bit of an entry: the image holds what it leads to. The rest is an index of words, of a
/// table's first entry or a page's first word.
const SHARED: u64 = 1;

/// When tables are copied for an image, and by whom.
pub trait TableCopies: Sealed + fmt::Debug + Send + Sync + 'static {
    /// The registry's line.
    const INFO: Info;
    /// Whether the snapshotter copies them, and the writer only those that it needs before.
    const BY_SNAPSHOTTER: bool;
}

/// By the writer, when it must.
#[derive(Debug)]
pub struct OnDemand;

impl Sealed for OnDemand {}
impl TableCopies for OnDemand {
    const INFO: Info = OnDemandFork::REGISTERED;
    const BY_SNAPSHOTTER: bool = false;
}

/// By the snapshotter, all of them first.
#[derive(Debug)]
pub struct Asynchronous;

impl Sealed for Asynchronous {}
impl TableCopies for Asynchronous {
    const INFO: Info = AsyncFork::REGISTERED;
    const BY_SNAPSHOTTER: bool = true;
}

/// State words behind a page table.
#[derive(Debug)]
pub struct PageTables<C> {
    words: usize,
    max_words: usize,
    /// One entry a table.
    root: Words,
    /// The root as it was at begin.
    image_root: Words,
    /// Two entries a table, side by side: the writer's and, while there is an image, the image's.
    tables: Words,
    /// Twice as many pages as the state has.
    pages: Words,
    /// Pages that the writer does not use. The image may hold the first `taken`.
    spare: Words,
    taken: usize,
    /// Which tables are copied (Async-fork).
    claims: Claims,
    epoch: u64,
    handover: Shared<Handover>,
    copies: PhantomData<C>,
}

// SAFETY: the conformance suite proves it.
unsafe impl<C: TableCopies> Algorithm for PageTables<C> {
    type Image<S: Sink + 'static> = InProcess<S, Tables<C>>;
    const INFO: Info = C::INFO;

    fn create(options: &Options) -> Result<Self, MemoryError> {
        let max_words = options.max_words.max(options.words);
        let max_pages = max_words.div_ceil(BLOCK_WORDS);
        let max_tables = max_pages.div_ceil(TABLE);
        let page_words = max_pages.checked_mul(2 * BLOCK_WORDS);
        let page_words = page_words.ok_or(MemoryError::TooLarge { words: max_words })?;
        let handover = Shared::new(Handover::new())?;
        let mut state = Self {
            words: 0,
            max_words,
            root: Words::create(&options.room(max_tables))?,
            image_root: Words::create(&options.room(max_tables))?,
            tables: Words::create(&options.room(max_tables * 2 * TABLE))?,
            pages: Words::create(&options.room(page_words))?,
            spare: Words::create(&options.room(max_pages))?,
            taken: 0,
            claims: Claims::create(&options.room(max_tables), &handover)?,
            epoch: 0,
            handover,
            copies: PhantomData,
        };
        state.grow(options.words)?;
        Ok(state)
    }

    fn words(&self) -> usize {
        self.words
    }

    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        if words > self.max_words {
            return Err(MemoryError::Reserved { words, reserved: self.max_words });
        }
        let (old, new) = (self.words.div_ceil(BLOCK_WORDS), words.div_ceil(BLOCK_WORDS));
        if new > old {
            let tables = new.div_ceil(TABLE);
            self.pages.grow(new * 2 * BLOCK_WORDS)?;
            self.spare.grow(new)?;
            self.tables.grow(tables * 2 * TABLE)?;
            self.claims.grow(tables)?;
            self.image_root.grow(tables)?;
            self.root.grow(tables)?;
            self.add_pages(old, new);
        }
        self.words = self.words.max(words);
        Ok(())
    }

    #[inline]
    fn read(&self, index: usize) -> u64 {
        assert!(index < self.words, "word {index} of {}", self.words);
        let entry = self.tables.load(self.position(index / BLOCK_WORDS));
        self.pages.load((entry >> 1) as usize + index % BLOCK_WORDS)
    }

    write_by_replace!(in_place);

    #[inline]
    fn approach(&self, index: usize) {
        let entry = self.tables.load(self.position(index / BLOCK_WORDS));
        self.pages.prefetch((entry >> 1) as usize + index % BLOCK_WORDS);
    }

    fn begin<S: Sink + 'static>(
        &mut self,
        _point: Point,
        sink: S,
    ) -> Result<Self::Image<S>, BeginError> {
        self.handover.check_idle()?;
        self.taken = 0; // T4: the image that held them is done
        for table in 0..self.root.len() {
            let entry = self.root.load(table) | SHARED;
            self.root.store(table, entry);
            self.image_root.store(table, entry);
        }
        let lease = Lease::publish(&self.handover, self.words);
        self.epoch = lease.epoch;
        let tables = Tables {
            root: self.image_root.view(),
            tables: self.tables.view(),
            pages: self.pages.view(),
            claims: self.claims.view(),
            epoch: lease.epoch,
            copies: PhantomData,
        };
        Ok(InProcess::new(tables, Held::new(sink, lease)))
    }

    fn progress(&self) -> Progress {
        Progress::new(&self.handover)
    }
}

impl<C: TableCopies> PageTables<C> {
    /// Replaces a word, or half of one, of a page that the image does not hold, or no longer.
    #[inline(always)]
    fn replace<T: Item>(&mut self, index: usize, new: impl New<T>) {
        let word = index / T::PER_WORD;
        if word >= self.words {
            out_of_bounds(word, self.words);
        }
        let page = word / BLOCK_WORDS;
        let root = self.root.load(page / TABLE);
        let mut entry = self.tables.load((root >> 1) as usize + page % TABLE);
        if (root | entry) & SHARED != 0 {
            entry = self.own_page(page);
        }
        let start = (entry >> 1) as usize * T::PER_WORD;
        let at = start + index % (BLOCK_WORDS * T::PER_WORD);
        T::store(&self.pages, at, new.resolve(|| T::load(&self.pages, at)));
    }

    /// Where the writer's entry of a page is.
    #[inline]
    fn position(&self, page: usize) -> usize {
        (self.root.load(page / TABLE) >> 1) as usize + page % TABLE
    }

    /// Pages `old..new`, all zero, each with a spare one.
    fn add_pages(&mut self, old: usize, new: usize) {
        for page in old..new {
            let table = page / TABLE;
            if page % TABLE == 0 {
                self.root.store(table, (table * 2 * TABLE) as u64 * 2);
            } else if self.root.load(table) & SHARED != 0
                && !self.handover.is(Mutant::AsyncForkAddsToSharedTable)
            {
                self.own_table(table); // T2: a copier must not meet a new entry
            }
            // The new pages side by side, then their spare ones: memory never used before.
            let fresh = old + page;
            self.tables.store(self.position(page), (fresh * BLOCK_WORDS) as u64 * 2);
            self.spare.store(page, ((fresh + new - old) * BLOCK_WORDS) as u64);
        }
    }

    /// Makes sure that the image does not hold a page, and returns its entry.
    #[cold]
    #[inline(never)]
    fn own_page(&mut self, page: usize) -> u64 {
        let table = page / TABLE;
        if self.root.load(table) & SHARED != 0 {
            self.own_table(table);
        }
        let position = self.position(page);
        let mut entry = self.tables.load(position);
        if entry & SHARED != 0 {
            let shared = (entry >> 1) as usize;
            let keep = !self.handover.running() || self.handover.is(Mutant::OdfWritesSharedPage);
            let page = if keep { shared } else { self.copy_page(shared) };
            entry = page as u64 * 2;
            self.tables.store(position, entry);
        }
        entry
    }

    /// Copies a page to a spare one, and leaves it to the image until that is done.
    fn copy_page(&mut self, shared: usize) -> usize {
        let spare = self.spare.load(self.taken) as usize;
        self.spare.store(self.taken, shared as u64);
        if !self.handover.is(Mutant::OdfReusesPages) {
            self.taken += 1;
        }
        self.pages.copy_from(spare, &self.pages, shared, BLOCK_WORDS);
        spare
    }

    /// Makes sure that no other thread touches a table, which is marked shared.
    fn own_table(&mut self, table: usize) {
        let base = (self.root.load(table) >> 1) as usize;
        let mut owned = base;
        if self.handover.running() {
            if C::BY_SNAPSHOTTER {
                self.copied_for_image(table, base);
            } else if !self.handover.is(Mutant::OdfWritesSharedTable) {
                self.handover.note_interruption();
                owned = other(base);
                for entry in 0..TABLE {
                    let shared = self.tables.load(base + entry) | SHARED;
                    self.tables.store(owned + entry, shared);
                }
            }
        }
        self.root.store(table, owned as u64 * 2);
    }

    /// Proactive synchronisation: the image has its copy of a table, be it from the writer.
    fn copied_for_image(&self, table: usize, base: usize) {
        match self.claims.claim(table, self.epoch) {
            Claim::Finished => {}
            Claim::Mine => {
                self.handover.note_interruption();
                copy_table(&self.tables, base, table, &self.claims, self.epoch);
            }
            Claim::Theirs => {
                self.handover.note_interruption();
                if !self.handover.is(Mutant::AsyncForkDoesNotWait) {
                    self.claims.wait(table, self.epoch);
                }
            }
        }
    }
}

/// The other entry of the table that starts at `base`.
fn other(base: usize) -> usize {
    let first = base / (2 * TABLE) * (2 * TABLE);
    first + (first + TABLE - base)
}

/// Copies the table at `base` for the image, and marks its pages (T3), then declares it copied: in
/// the paper's listing it is the other way round. The caller has claimed it.
fn copy_table(tables: &Words, base: usize, table: usize, claims: &Claims, epoch: u64) {
    let marks_late = claims.is(Mutant::AsyncForkMarksLate);
    for entry in 0..TABLE {
        let page = tables.load(base + entry);
        tables.store(other(base) + entry, page);
        if !marks_late {
            tables.store(base + entry, page | SHARED);
        }
    }
    claims.finish(table, epoch);
    if marks_late {
        for entry in 0..TABLE {
            tables.store(base + entry, tables.load(base + entry) | SHARED);
        }
    }
}

/// The snapshotter's side: the root as it was at begin, and what it leads to.
#[derive(Debug)]
pub struct Tables<C> {
    root: Words,
    tables: Words,
    pages: Words,
    claims: Claims,
    epoch: u64,
    copies: PhantomData<C>,
}

impl<C: TableCopies> Tables<C> {
    /// First entry of the image's own table.
    fn table(&self, table: usize) -> usize {
        let base = (self.root.load(table) >> 1) as usize;
        if !C::BY_SNAPSHOTTER {
            return base;
        }
        match self.claims.claim(table, self.epoch) {
            Claim::Finished => {}
            Claim::Mine => {
                copy_table(&self.tables, base, table, &self.claims, self.epoch);
            }
            Claim::Theirs => self.claims.wait(table, self.epoch),
        }
        other(base)
    }

    /// All tables before the first block: from then on none delays the writer.
    fn copy_tables(&self, block: usize) {
        if C::BY_SNAPSHOTTER && block == 0 {
            for table in 0..self.root.len() {
                self.table(table);
            }
        }
    }

    /// First word of a page.
    fn page(&self, page: usize) -> usize {
        (self.tables.load(self.table(page / TABLE) + page % TABLE) >> 1) as usize
    }
}

impl<C: TableCopies> View for Tables<C> {
    fn block(&self, block: usize, into: &mut [u64]) {
        self.copy_tables(block);
        self.pages.copy_to(self.page(block), into);
    }
    fn pass(&self, block: usize, _len: usize) {
        self.copy_tables(block);
    }
    fn word(&self, index: usize) -> u64 {
        self.pages.load(self.page(index / BLOCK_WORDS) + index % BLOCK_WORDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Image;

    const WORDS: usize = 4 * TABLE * BLOCK_WORDS;

    /// Interruptions when every page is written, after `captured` was done with the image.
    fn interruptions<A: Algorithm>(captured: fn(&A::Image<Vec<u64>>)) -> u64 {
        let mut state = A::create(&Options::words(WORDS)).expect("memory");
        let image = state.begin(Point::declare(), Vec::new()).expect("idle");
        captured(&image);
        for _ in 0..2 {
            (0..WORDS).step_by(BLOCK_WORDS).for_each(|index| state.write(index, 1));
        }
        state.progress().interruptions()
    }

    #[test]
    fn the_writer_is_held_up_once_a_table_or_not_at_all() {
        assert_eq!(interruptions::<OnDemandFork>(|_| ()), 4);
        assert_eq!(interruptions::<AsyncFork>(|_| ()), 4, "no snapshotter comes");
        // One word of each table asked for: the snapshotter has copied them.
        fn ask(image: &impl Image) {
            for table in 0..4 {
                assert_eq!(image.get(table * TABLE * BLOCK_WORDS), Some(0));
            }
        }
        assert_eq!(interruptions::<OnDemandFork>(ask), 4);
        assert_eq!(interruptions::<AsyncFork>(ask), 0);
    }
}
