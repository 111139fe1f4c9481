//! Pages of a store that only announced writes may change: what else writes there is caught in the
//! act, noted, and let go on.
//!
//! - Pages are read-only, but for those in which announced rows lie. The first write to another
//!   one raises `SIGSEGV`; the handler notes the address, has Python's `faulthandler` tell the
//!   line, and makes the page writable, so that the program goes on as it would have.
//! - The handler makes system calls and uses atomics, no more: it takes no lock and no memory. What
//!   is no page of a store goes on to the handler that was there before.
//! - A page that announced rows share is open: writes beside them there, and those that the kernel
//!   makes for `read(2)` (which fails instead), are for the comparison with a copy to find.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use pyo3::prelude::*;
use stillframe::Live;

use crate::dirty::PAGE_BYTES;
use crate::errors::Error;

/// Stores that are guarded at a time.
const STORES_MAX: usize = 64;
/// Runs of pages that are opened one by one; of more, all between the first and the last.
const RUNS_MAX: usize = 256;

/// The code of a signal that a thread sent to itself (`asm-generic/siginfo.h`).
const SI_TKILL: c_int = -6;

/// What the handler knows of a store. All of it is `Relaxed` but `first`, which is set last and
/// taken away first.
struct Slot {
    /// Address of the first page; 0 where there is no store.
    first: AtomicUsize,
    bytes: AtomicUsize,
    /// The address of the first write since it was last asked for; 0: none.
    written: AtomicUsize,
}

static SLOTS: [Slot; STORES_MAX] = [const {
    Slot { first: AtomicUsize::new(0), bytes: AtomicUsize::new(0), written: AtomicUsize::new(0) }
}; STORES_MAX];

/// Where the lines go, and the signal on which `faulthandler` writes them there.
static TRACE: [AtomicI32; 2] = [const { AtomicI32::new(0) }; 2];

/// The handler that was there before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// The write protection of a store's words.
pub(crate) struct Guard {
    /// Keeps the memory.
    _live: Live,
    slot: usize,
    first: usize,
    bytes: usize,
    /// Pages that are being mutated, as ranges of bytes.
    open: Vec<Range<usize>>,
}

/// How a program hears of it: a file, and a signal on which `faulthandler` writes lines to it.
#[derive(Clone, Copy, FromPyObject)]
pub(crate) struct Trace(c_int, c_int);

impl Guard {
    /// Protects the words of a store. `Err` for a store too many.
    pub(crate) fn new(live: Live, trace: Trace) -> PyResult<Self> {
        TRACE[0].store(trace.0, Ordering::Relaxed);
        TRACE[1].store(trace.1, Ordering::Relaxed);
        install()?;
        let (first, words) = (live.as_ptr().expose_provenance(), live.words());
        let is_free = |slot: &Slot| {
            let taken = slot.first.compare_exchange(0, first, Ordering::AcqRel, Ordering::Relaxed);
            taken.is_ok()
        };
        let Some(slot) = SLOTS.iter().position(is_free) else {
            return Err(Error::new_err(format!("{STORES_MAX} stores are open for debugging")));
        };
        SLOTS[slot].written.store(0, Ordering::Relaxed);
        let mut guard = Self { _live: live, slot, first, bytes: 0, open: Vec::new() };
        guard.grow(words);
        Ok(guard)
    }

    /// The number by which the file names it.
    pub(crate) fn slot(&self) -> usize {
        self.slot
    }

    /// Protects the words that it has now.
    pub(crate) fn grow(&mut self, words: usize) {
        self.bytes = (words * 8).next_multiple_of(PAGE_BYTES);
        SLOTS[self.slot].bytes.store(self.bytes, Ordering::Release);
        self.shut(0..self.bytes);
    }

    /// Lets the bytes of these runs be written until [`close`](Self::close).
    pub(crate) fn open(&mut self, runs: &[Range<usize>]) {
        for pages in pages_of(runs) {
            self.protect(&pages, libc::PROT_READ | libc::PROT_WRITE);
            self.open.push(pages);
        }
    }

    /// Ends what [`open`](Self::open) began with these runs.
    pub(crate) fn close(&mut self, runs: &[Range<usize>]) {
        let closed = pages_of(runs);
        for pages in &closed {
            if let Some(place) = self.open.iter().position(|open| open == pages) {
                self.open.swap_remove(place);
            }
        }
        closed.into_iter().for_each(|pages| self.shut(pages));
    }

    /// Lets everything be written while the engine writes.
    pub(crate) fn open_all(&self) {
        self.protect(&(0..self.bytes), libc::PROT_READ | libc::PROT_WRITE);
    }

    /// Protects everything again.
    pub(crate) fn close_all(&self) {
        self.shut(0..self.bytes);
    }

    /// The first byte that was caught since this was last asked.
    pub(crate) fn take(&self) -> Option<usize> {
        let written = SLOTS[self.slot].written.swap(0, Ordering::AcqRel);
        // What was let go on is read-only again.
        self.shut(0..self.bytes);
        (written != 0).then(|| written - self.first)
    }

    /// Protects pages, but for those that are open.
    fn shut(&self, pages: Range<usize>) {
        self.protect(&pages, libc::PROT_READ);
        for open in &self.open {
            if open.start < pages.end && pages.start < open.end {
                self.protect(open, libc::PROT_READ | libc::PROT_WRITE);
            }
        }
    }

    /// Where it fails, for want of mappings, less is caught, or what is announced is caught, too.
    fn protect(&self, pages: &Range<usize>, rights: c_int) {
        let end = pages.end.min(self.bytes);
        if pages.start < end {
            protect(self.first + pages.start, end - pages.start, rights);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.open_all();
        SLOTS[self.slot].bytes.store(0, Ordering::Relaxed);
        SLOTS[self.slot].first.store(0, Ordering::Release);
    }
}

/// The pages of runs of bytes: neighbours as one, and all between where there are many.
fn pages_of(runs: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut pages: Vec<Range<usize>> = Vec::new();
    let whole = |run: &Range<usize>| {
        run.start / PAGE_BYTES * PAGE_BYTES..run.end.next_multiple_of(PAGE_BYTES)
    };
    for run in runs.iter().filter(|run| !run.is_empty()).map(whole) {
        match pages.last_mut() {
            Some(last) if last.start <= run.start && run.start <= last.end => {
                last.end = last.end.max(run.end);
            }
            _ => pages.push(run),
        }
    }
    if pages.len() > RUNS_MAX {
        let first = pages.iter().map(|run| run.start).min().unwrap_or(0);
        let end = pages.iter().map(|run| run.end).max().unwrap_or(0);
        pages = std::iter::once(first..end).collect();
    }
    pages
}

/// Whether the rights of these bytes, which are whole pages of a store's words, are what is asked.
fn protect(address: usize, bytes: usize, rights: c_int) -> bool {
    let address = std::ptr::with_exposed_provenance_mut::<c_void>(address);
    // SAFETY: these are pages of words, which the store holds. A write to them while they are
    // read-only comes to the handler, and is then done.
    unsafe { libc::mprotect(address, bytes, rights) == 0 }
}

/// Sets the handler, once.
fn install() -> PyResult<()> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    // SAFETY: all zeros are an action: the default one, with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_fault as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    let mut before = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // The old one is known before the new one can be called.
    // SAFETY: a question alone, to which `before` has room for the answer.
    let asked = unsafe { libc::sigaction(libc::SIGSEGV, std::ptr::null(), before.as_mut_ptr()) };
    if asked == 0 {
        // SAFETY: it was filled, and all zeros are an action.
        let _ = BEFORE.set(unsafe { before.assume_init() });
        // SAFETY: the handler keeps to what a handler may do, as the head of this file says.
        if unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut()) } == 0 {
            return Ok(());
        }
    }
    Err(Error::new_err(std::io::Error::last_os_error().to_string()))
}

/// A write to a page of a store goes on; anything else is the business of the handler before.
extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: it is this thread's own number.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above. What was interrupted may be about to look at it.
    let kept = unsafe { *errno };
    // SAFETY: the kernel gives the information, for as long as this runs.
    let told = unsafe { &*info };
    // SAFETY: that of a fault has an address.
    let address = unsafe { told.si_addr() }.addr();
    let within = |slot: &Slot| {
        let first = slot.first.load(Ordering::Acquire);
        first != 0 && address.wrapping_sub(first) < slot.bytes.load(Ordering::Acquire)
    };
    match SLOTS.iter().position(within) {
        // By `raise`, as `faulthandler` hands a fault on that it has told of: it comes again.
        _ if told.si_code == SI_TKILL => {}
        Some(slot) if let_go_on(&SLOTS[slot], address) => note(slot, address),
        _ => leave_to_others(signal, info, context),
    }
    // SAFETY: as above.
    unsafe { *errno = kept };
}

/// Makes the page writable, or all pages where there are too many mappings for one.
fn let_go_on(slot: &Slot, address: usize) -> bool {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let (first, bytes) = (slot.first.load(Ordering::Relaxed), slot.bytes.load(Ordering::Relaxed));
    protect(address / PAGE_BYTES * PAGE_BYTES, PAGE_BYTES, rights) || protect(first, bytes, rights)
}

/// Notes the first write to a store since somebody asked, and has its line written.
fn note(slot: usize, address: usize) {
    let written = &SLOTS[slot].written;
    if written.compare_exchange(0, address, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return;
    }
    let [file, signal] = TRACE.each_ref().map(|number| number.load(Ordering::Relaxed));
    let digit = |number: usize| b'0' + (number % 10) as u8;
    let head = [b'#', digit(slot / 10), digit(slot), b'\n'];
    // SAFETY: the bytes are there; a file that was closed refuses them.
    let written = unsafe { libc::write(file, head.as_ptr().cast(), head.len()) };
    if written == 4 {
        // SAFETY: `faulthandler` was registered for this signal, and runs in this thread, now.
        unsafe { libc::raise(signal) };
    }
}

/// Does what would have been done without this handler.
fn leave_to_others(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(before) = BEFORE.get() else { return };
    if before.sa_flags & libc::SA_SIGINFO != 0 && before.sa_sigaction > libc::SIG_IGN {
        // SAFETY: with this flag the number is the address of a function of three arguments.
        let handler = unsafe {
            std::mem::transmute::<usize, extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void)>(
                before.sa_sigaction,
            )
        };
        return handler(signal, info, context);
    }
    // The access is made again when this returns, and then meets the handler before.
    // SAFETY: the action is one that the system gave.
    unsafe { libc::sigaction(signal, &raw const *before, std::ptr::null_mut()) };
    // SAFETY: the kernel gave the information, and this still runs.
    if unsafe { (*info).si_code } <= 0 {
        // A process sent it: there is no access. It waits until this returns.
        // SAFETY: no memory is touched.
        unsafe { libc::raise(signal) };
    }
}
