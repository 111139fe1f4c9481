//! Copy-on-update by write protection (userfaultfd). Source: ours, from userfaultfd(2) and
//! ioctl_userfaultfd(2); the copy-on-update of Cao et al. 2011, section 4.1, with the processor's
//! page table in place of a test at each write.
//!
//! Idea: begin write-protects all pages of the state. A write to a protected page waits in the
//! kernel while a thread of ours saves the page in a shadow and unprotects it. The snapshotter
//! takes a saved page from the shadow; a page that was not saved it copies, then unprotects.
//!
//! - Memory: 1 to 2 copies, by pages written before they are captured; 24 bytes a page beside.
//!   Begin: one request, O(page table), of which the first image after new memory is the slowest.
//!   Read: nothing added. Write: nothing, except the first one to an uncaptured page, which waits
//!   for a fault, two thread switches, a page copy and a system call. Capture: one system call a
//!   page. Full image.
//! - Unit: the page, and the kernel's business; partial writes need no care.
//! - U1: a page that is protected is not written. Its claimer alone unprotects it
//!   (`claim.rs`), after saving or capturing it, or by the end of the image.
//! - U2: a thread that finds a page claimed or finished leaves it: the claimer's request wakes all
//!   that wait.
//!   So no request is late: one that unprotects a page after the next begin would lose its image.
//! - U3: an image ends only when each of its pages is claimed and all claims are finished, so
//!   nobody is at work on its pages when the next one begins.
//! - U4: a thread that answers has the image (`current`) by a lock that begin takes as well, so it
//!   has seen all that was written before begin. Writers never take it.
//! - U5: begin protects the pages before it shows the image to the handler. A page that a late
//!   message had saved before it is protected would stay so: finished, with nobody to unprotect it.
//!
//! The cases for a page: written first: the handler claims, saves, unprotects, and the capture
//! reads the shadow. Captured first: later writes find no protection. At the same time: one of both
//! claims; if it is the capture, the handler ignores the fault, and the capture's unprotecting
//! wakes the writer. A message that comes late (the writer was woken, and has begun another image):
//! its page is finished, or is saved for the new image a little earlier than need be.

use std::ops::Range;
use std::sync::{Arc, PoisonError};

use super::claim::{Claim, Claims};
use crate::algorithm::{Algorithm, New, write_by_replace};
use crate::error::{BeginError, MemoryError, Unavailable};
use crate::handover::{Handover, Progress};
use crate::image::{Held, InProcess, Lease, View};
use crate::info::Info;
use crate::memory::{Item, Words, out_of_bounds};
use crate::mutant::Mutant;
use crate::options::Options;
use crate::os::{FaultHandler, Shared, UserFaults};
use crate::point::Point;
use crate::sink::{BLOCK_WORDS, Sink};
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};

/// State words whose pages the kernel protects.
#[derive(Debug)]
pub struct UserFault {
    len: usize,
    /// Whole pages.
    words: Words,
    /// As many pages; an image uses the first ones.
    shadow: Words,
    /// Where in the shadow a page is.
    slots: Words,
    claims: Claims,
    max_words: usize,
    handover: Shared<Handover>,
    faults: Arc<UserFaults>,
    current: Arc<Current>,
    // Dropped last: a page is unprotected by the image, if there is one.
    _handler: FaultHandler,
}

/// The image that faults belong to.
#[derive(Debug)]
struct Current(Mutex<Option<Arc<Pages>>>);

impl Current {
    // A poisoned lock is taken anyway: what it guards is replaced whole.
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Pages>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn answer(&self, word: usize) {
        let pages = self.lock().clone();
        if let Some(pages) = pages {
            pages.handover.note_interruption();
            pages.save(word / BLOCK_WORDS);
        }
    }
}

impl UserFault {
    /// Replaces a word, or half of one, in place.
    #[inline(always)]
    fn replace<T: Item>(&mut self, index: usize, new: impl New<T>) {
        let word = index / T::PER_WORD;
        if word >= self.len {
            out_of_bounds(word, self.len);
        }
        self.faults.before_store(word);
        T::store(&self.words, index, new.resolve(|| T::load(&self.words, index)));
    }
}

// SAFETY: the conformance suite proves it.
unsafe impl Algorithm for UserFault {
    type Image<S: Sink + 'static> = InProcess<S, Protected>;
    const INFO: Info = Self::REGISTERED;

    fn available() -> Result<(), Unavailable> {
        UserFaults::available().map_err(|what| Unavailable(what.into()))
    }

    fn create(options: &Options) -> Result<Self, MemoryError> {
        let max_words = options.max_words.max(options.words);
        let max_pages = max_words.div_ceil(BLOCK_WORDS);
        let whole = max_pages.checked_mul(BLOCK_WORDS);
        let whole = whole.ok_or(MemoryError::TooLarge { words: max_words })?;
        let words = Words::create(&options.room(whole))?;
        let faults = Arc::new(UserFaults::register(words.region())?);
        let handover = Shared::new(Handover::new())?;
        let current = Arc::new(Current(Mutex::new(None)));
        let theirs = Arc::clone(&current);
        let handler = FaultHandler::start(Arc::clone(&faults), move |word| theirs.answer(word))?;
        let mut state = Self {
            len: 0,
            words,
            shadow: Words::create(&options.room(whole))?,
            slots: Words::create(&options.room(max_pages))?,
            claims: Claims::create(&options.room(max_pages), &handover)?,
            max_words,
            handover,
            faults,
            current,
            _handler: handler,
        };
        state.grow(options.words)?;
        Ok(state)
    }

    fn words(&self) -> usize {
        self.len
    }

    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        if words > self.max_words {
            return Err(MemoryError::Reserved { words, reserved: self.max_words });
        }
        let pages = words.div_ceil(BLOCK_WORDS);
        self.claims.grow(pages)?;
        self.slots.grow(pages)?;
        self.shadow.grow(pages * BLOCK_WORDS)?;
        self.words.grow(pages * BLOCK_WORDS)?;
        if self.faults.needs_populated() {
            // A page that was never touched would stay unprotected. Those beyond `len` are zero.
            for page in self.len.div_ceil(BLOCK_WORDS)..pages {
                self.words.store(page * BLOCK_WORDS, 0);
            }
        }
        self.len = self.len.max(words);
        Ok(())
    }

    #[inline]
    fn read(&self, index: usize) -> u64 {
        assert!(index < self.len, "word {index} of {}", self.len);
        self.words.load(index)
    }

    write_by_replace!(in_place);

    #[inline]
    fn approach(&self, index: usize) {
        self.words.prefetch(index);
    }

    fn begin<S: Sink + 'static>(
        &mut self,
        _point: Point,
        sink: S,
    ) -> Result<Self::Image<S>, BeginError> {
        self.handover.check_idle()?;
        let lease = Lease::publish(&self.handover, self.len);
        let pages = Arc::new(Pages {
            words: self.words.view(),
            shadow: self.shadow.view(),
            slots: self.slots.view(),
            claims: self.claims.view(),
            taken: AtomicUsize::new(0),
            epoch: lease.epoch,
            faults: Arc::clone(&self.faults),
            handover: self.handover.clone(),
        });
        let answers_early = self.handover.is(Mutant::UserFaultAnswersEarly);
        if answers_early {
            *self.current.lock() = Some(Arc::clone(&pages));
        }
        let image = Protected(pages); // dropped before the lease, if protecting fails half-way
        self.faults.protect(0..image.0.words.len())?;
        if !answers_early {
            *self.current.lock() = Some(Arc::clone(&image.0));
        }
        Ok(InProcess::new(image, Held::new(sink, lease)))
    }

    fn progress(&self) -> Progress {
        Progress::new(&self.handover)
    }
}

/// The pages of one image, for the handler and the snapshotter.
#[derive(Debug)]
struct Pages {
    words: Words,
    shadow: Words,
    slots: Words,
    claims: Claims,
    /// Pages of the shadow in use.
    taken: AtomicUsize,
    epoch: u64,
    faults: Arc<UserFaults>,
    handover: Shared<Handover>,
}

impl Pages {
    fn range(page: usize) -> Range<usize> {
        page * BLOCK_WORDS..(page + 1) * BLOCK_WORDS
    }

    /// Saves and unprotects a page, unless another thread has done so or is doing so (U2).
    fn save(&self, page: usize) -> Claim {
        let claim = self.claims.claim(page, self.epoch);
        if claim == Claim::Mine {
            let unprotects_first = self.handover.is(Mutant::UserFaultUnprotectsFirst);
            if unprotects_first {
                self.faults.unprotect(Self::range(page));
                std::thread::sleep(std::time::Duration::from_micros(200)); // the writer's turn
            }
            // Each page once: there are as many slots. Relaxed: `finish` publishes what is in it.
            let slot = self.taken.fetch_add(1, Ordering::Relaxed);
            let start = slot * BLOCK_WORDS;
            self.shadow.copy_from(start, &self.words, page * BLOCK_WORDS, BLOCK_WORDS);
            self.slots.store(page, slot as u64);
            let finishes_first = self.handover.is(Mutant::UserFaultFinishesFirst);
            if finishes_first {
                self.claims.finish(page, self.epoch);
            }
            if !unprotects_first {
                self.faults.unprotect(Self::range(page));
            }
            if !finishes_first {
                self.claims.finish(page, self.epoch);
            }
        }
        claim
    }

    /// First word of a saved page in the shadow.
    fn saved(&self, page: usize) -> usize {
        self.slots.load(page) as usize * BLOCK_WORDS
    }
}

/// The snapshotter's side: pages that are protected, or saved.
#[derive(Debug)]
pub struct Protected(Arc<Pages>);

impl View for Protected {
    fn block(&self, block: usize, into: &mut [u64]) {
        let pages = &self.0;
        match pages.claims.claim(block, pages.epoch) {
            Claim::Mine => {
                pages.words.copy_to(block * BLOCK_WORDS, into);
                pages.faults.unprotect(Pages::range(block));
                // The page is not asked for again: it is captured once.
                return pages.claims.finish(block, pages.epoch);
            }
            Claim::Theirs => pages.claims.wait(block, pages.epoch),
            Claim::Finished => {}
        }
        let ignores_shadow = pages.handover.is(Mutant::UserFaultIgnoresShadow);
        let (from, start) = if ignores_shadow {
            (&pages.words, block * BLOCK_WORDS)
        } else {
            (&pages.shadow, pages.saved(block))
        };
        from.copy_to(start, into);
    }

    /// The page stays protected until it is written or the image ends.
    fn pass(&self, _block: usize, _len: usize) {}

    /// Saves the word's page first, since a look at a page that may become writable proves nothing.
    fn word(&self, index: usize) -> u64 {
        let page = index / BLOCK_WORDS;
        if self.0.save(page) == Claim::Theirs {
            self.0.claims.wait(page, self.0.epoch);
        }
        self.0.shadow.load(self.0.saved(page) + index % BLOCK_WORDS)
    }
}

impl Drop for Protected {
    /// Leaves no page protected and no claim unfinished (U3).
    fn drop(&mut self) {
        let pages = &self.0;
        let all = 0..pages.words.len() / BLOCK_WORDS;
        let mut is_any_left = false;
        for page in all {
            match pages.claims.claim(page, pages.epoch) {
                Claim::Mine => {
                    is_any_left = true;
                    pages.claims.finish(page, pages.epoch);
                }
                Claim::Theirs => pages.claims.wait(page, pages.epoch),
                Claim::Finished => {}
            }
        }
        if is_any_left {
            pages.faults.unprotect(0..pages.words.len());
        }
    }
}

#[cfg(all(test, not(any(miri, feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::Image;

    #[test]
    fn a_write_faults_once_a_page_while_an_image_needs_it() {
        if UserFault::available().is_err() {
            return; // the suite says so
        }
        let mut state = UserFault::create(&Options::words(4 * BLOCK_WORDS)).expect("memory");
        let faults = |state: &mut UserFault, pages: Range<usize>| {
            let before = state.progress().interruptions();
            for page in pages.clone().chain(pages) {
                state.write(page * BLOCK_WORDS + 7, 1);
            }
            state.progress().interruptions() - before
        };
        assert_eq!(faults(&mut state, 0..4), 0, "no image was begun");
        let mut image = state.begin(Point::declare(), Vec::new()).expect("idle");
        assert_eq!(faults(&mut state, 0..2), 2);
        image.capture().expect("captured");
        assert_eq!(faults(&mut state, 0..4), 0, "all is captured");
        drop(image);
        drop(state.begin(Point::declare(), Vec::new()).expect("idle"));
        assert_eq!(faults(&mut state, 0..4), 0, "the image was dropped");
    }
}
