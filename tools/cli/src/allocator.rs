//! The allocator of the process, and how it gives back what is free.
//!
//! - mimalloc keeps freed memory. Memory of this thread that another thread frees comes back only
//!   when this thread allocates, or collects.
//! - Which of its pages are free, a thread finds out quickly, and no other can. To unmap them takes
//!   10 ms and more a GB, and any thread can: a server has one that does nothing else.
//! - On Linux a large block is a mapping of its own: it grows by moving its pages, and is given
//!   back when it is freed. In mimalloc, the buffer of a large reply or request would grow by a
//!   copy, and take its size twice, which nothing counts.
//! - Asked for an alignment, mimalloc adds it to a size that is not a power of two, and takes the
//!   next size of its blocks: 64 bytes for 48. All its blocks are aligned well enough for most.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;
use std::{io, ptr};

// SAFETY: this is mimalloc's own declaration of the function. Any thread may call it at any time;
// it frees unused memory, and looks at nothing else.
unsafe extern "C" {
    safe fn mi_collect(force: bool);
}

// SAFETY: this is mimalloc's own declaration of the function.
unsafe extern "C" {
    fn mi_unsafe_heap_page_is_under_utilized(
        heap: *const c_void,
        address: *const u8,
        percent: usize,
    ) -> bool;
}

/// A page of the allocator with more blocks in use than this, in percent, is left as it is.
const DENSE: usize = 90;

/// Whether most blocks of the allocator's page at an address are in use, but for some that could
/// lie elsewhere. The page that the next blocks come from is never sparse, and neither, as far as
/// mimalloc can say, is one without an owner: a full page gives up its thread, and has it again
/// once that frees a block in it.
pub(crate) fn is_sparse(address: *const u8) -> bool {
    // SAFETY: a map of all addresses has the page, which stays while the caller's block is in use.
    // Another thread may change the counters meanwhile: each is one word, read whole on every
    // machine we build for, and an old one makes a move needless, no more.
    unsafe { mi_unsafe_heap_page_is_under_utilized(ptr::null(), address, DENSE) }
}

/// How often the thread that gives back looks for free memory unasked: more often than mimalloc,
/// which does so after a second, in whichever thread happens to free something.
const PERIOD: Duration = Duration::from_millis(900);

/// Wakes the thread that gives back.
static WAKE: OnceLock<SyncSender<()>> = OnceLock::new();

/// Starts the thread that gives back free memory.
pub(crate) fn start_giving_back() -> io::Result<()> {
    let (wake, woken) = sync_channel(1);
    Builder::new().name("give-back".into()).spawn(move || {
        while !matches!(woken.recv_timeout(PERIOD), Err(RecvTimeoutError::Disconnected)) {
            mi_collect(true);
        }
    })?;
    let _ = WAKE.set(wake);
    Ok(())
}

/// Gives free memory back to the system: this thread's, and memory of no thread; now, or soon and
/// elsewhere.
pub(crate) fn give_back(waits: bool) {
    match WAKE.get().filter(|_| !waits) {
        Some(wake) => {
            mi_collect(false);
            let _ = wake.try_send(()); // if it is full, the thread is about to look
        }
        None => mi_collect(true),
    }
}

#[cfg(not(target_os = "linux"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mapped::Mapped = mapped::Mapped;

#[cfg(target_os = "linux")]
mod mapped {
    use std::alloc::{GlobalAlloc, Layout};
    use std::ptr;

    use mimalloc::MiMalloc;
    use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap, munmap};

    /// Blocks of this size or more are mappings. Their pages are new each time, which costs more
    /// than a copy of smaller blocks does.
    const MAPPED_MIN: usize = 16 << 20;
    /// Mappings are aligned so on every machine.
    const ALIGN: usize = 4096;

    /// Blocks of this size or more are aligned so.
    const ALIGNED: usize = 16;

    // SAFETY: these are mimalloc's own declarations of the functions.
    unsafe extern "C" {
        fn mi_malloc(size: usize) -> *mut u8;
        fn mi_zalloc(size: usize) -> *mut u8;
        fn mi_realloc(block: *mut u8, size: usize) -> *mut u8;
    }

    /// mimalloc, but for large blocks.
    pub(super) struct Mapped;

    /// Whether a block of this size is aligned so without asking.
    fn is_aligned(size: usize, align: usize) -> bool {
        align <= ALIGNED && align <= size
    }

    fn is_mapped(size: usize, align: usize) -> bool {
        size >= MAPPED_MIN && align <= ALIGN
    }

    /// A new mapping of zeros; null if there is no memory.
    fn map(size: usize) -> *mut u8 {
        let (writable, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the system chooses a place where nothing is.
        let mapped = unsafe { mmap_anonymous(ptr::null_mut(), size, writable, private) };
        mapped.map_or(ptr::null_mut(), <*mut _>::cast)
    }

    // SAFETY: size and alignment, which are those of a block's layout, say which of the two
    // allocators has it; each keeps the contract. The system rounds lengths of mappings up to whole
    // pages, alike at every call.
    unsafe impl GlobalAlloc for Mapped {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            if is_mapped(layout.size(), layout.align()) {
                return map(layout.size());
            }
            if is_aligned(layout.size(), layout.align()) {
                // SAFETY: any size may be asked for.
                return unsafe { mi_malloc(layout.size()) };
            }
            // SAFETY: the caller's promise.
            unsafe { MiMalloc.alloc(layout) }
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            if is_mapped(layout.size(), layout.align()) {
                return map(layout.size());
            }
            if is_aligned(layout.size(), layout.align()) {
                // SAFETY: any size may be asked for.
                return unsafe { mi_zalloc(layout.size()) };
            }
            // SAFETY: the caller's promise.
            unsafe { MiMalloc.alloc_zeroed(layout) }
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            if is_mapped(layout.size(), layout.align()) {
                // SAFETY: the block is a mapping of this size, and nobody uses it any more. It
                // stays only if the system cannot split a mapping.
                let _ = unsafe { munmap(block.cast(), layout.size()) };
                return;
            }
            // SAFETY: the caller's promise; the block is mimalloc's.
            unsafe { MiMalloc.dealloc(block, layout) }
        }

        unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            let align = layout.align();
            match (is_mapped(layout.size(), align), is_mapped(size, align)) {
                // SAFETY: the caller's promise; the block is mimalloc's and will be.
                (false, false) if is_aligned(size, align) => unsafe { mi_realloc(block, size) },
                // SAFETY: as above.
                (false, false) => unsafe { MiMalloc.realloc(block, layout, size) },
                (true, true) => {
                    let (from, flags) = (block.cast(), MremapFlags::MAYMOVE);
                    // SAFETY: the block is a mapping of this size, which only the caller uses.
                    let moved = unsafe { mremap(from, layout.size(), size, flags) };
                    moved.map_or(ptr::null_mut(), <*mut _>::cast)
                }
                _ => {
                    // SAFETY: the caller promises that the size, rounded up to the alignment, does
                    // not overflow, and an alignment is right.
                    let new = unsafe { Layout::from_size_align_unchecked(size, align) };
                    // SAFETY: the caller promises a size that is not 0.
                    let to = unsafe { self.alloc(new) };
                    if !to.is_null() {
                        let both = layout.size().min(size);
                        // SAFETY: both blocks have so many bytes, and the new one is another.
                        unsafe { ptr::copy_nonoverlapping(block, to, both) };
                        // SAFETY: the caller's promise; nothing uses it any more.
                        unsafe { self.dealloc(block, layout) };
                    }
                    to
                }
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use std::alloc::{GlobalAlloc, Layout};

        use super::{MAPPED_MIN, Mapped};

        // SAFETY: this is mimalloc's own declaration of the function.
        unsafe extern "C" {
            fn mi_usable_size(block: *const u8) -> usize;
        }

        #[test]
        fn a_block_has_the_size_that_was_asked_for_and_its_alignment() {
            for size in [16, 48, 80, 112, 320, 1280] {
                for align in [1, 8, 16] {
                    let layout = Layout::from_size_align(size, align).unwrap();
                    // SAFETY: the size is not 0.
                    let block = unsafe { Mapped.alloc(layout) };
                    // SAFETY: it is a block of mimalloc's.
                    assert_eq!(unsafe { mi_usable_size(block) }, size);
                    assert_eq!(block.align_offset(16), 0);
                    // SAFETY: it was made by this layout; the size is not 0.
                    let block = unsafe { Mapped.realloc(block, layout, 2 * size) };
                    let layout = Layout::from_size_align(2 * size, align).unwrap();
                    assert_eq!(block.align_offset(16), 0);
                    // SAFETY: it was made by this layout.
                    unsafe { Mapped.dealloc(block, layout) };
                }
            }
            for align in [32, 64, 4096] {
                let layout = Layout::from_size_align(100, align).unwrap();
                // SAFETY: the size is not 0.
                let block = unsafe { Mapped.alloc_zeroed(layout) };
                assert_eq!(block.align_offset(align), 0);
                // SAFETY: it was made by this layout.
                unsafe { Mapped.dealloc(block, layout) };
            }
        }

        #[test]
        fn blocks_keep_their_bytes_across_the_border() {
            let byte = |at: usize| (at * 31 % 251) as u8;
            let mut bytes: Vec<u8> = Vec::new();
            for length in [10, MAPPED_MIN - 1, MAPPED_MIN, 3 * MAPPED_MIN + 5, MAPPED_MIN, 99] {
                bytes.truncate(length);
                bytes.shrink_to_fit();
                bytes.reserve_exact(length - bytes.len());
                bytes.extend((bytes.len()..length).map(byte));
                assert!(bytes.iter().enumerate().step_by(997).all(|(at, it)| *it == byte(at)));
                assert_eq!((bytes.len(), bytes.capacity()), (length, length));
            }
            assert!(vec![0_u64; MAPPED_MIN].iter().all(|word| *word == 0));
        }
    }
}
