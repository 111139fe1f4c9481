//! The allocator of the process, and how it gives back what is free.
//!
//! - mimalloc keeps freed memory. Memory of this thread that another thread frees comes back only
//!   when this thread allocates, or collects.
//! - On Linux a large block is a mapping of its own: it grows by moving its pages, and is given
//!   back when it is freed. In mimalloc, the buffer of a large reply or request would grow by a
//!   copy, and take its size twice, which nothing counts.

#![allow(unsafe_code)]

// SAFETY: this is mimalloc's own declaration of the function. Any thread may call it at any time;
// it frees unused memory, and looks at nothing else.
unsafe extern "C" {
    safe fn mi_collect(force: bool);
}

/// Gives free memory back to the system: this thread's, and memory of no thread.
pub(crate) fn give_back() {
    mi_collect(true);
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

    /// mimalloc, but for large blocks.
    pub(super) struct Mapped;

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
            // SAFETY: the caller's promise.
            unsafe { MiMalloc.alloc(layout) }
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            if is_mapped(layout.size(), layout.align()) {
                return map(layout.size());
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
        use super::MAPPED_MIN;

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
