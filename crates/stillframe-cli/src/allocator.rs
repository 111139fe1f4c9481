//! The allocator of the process, and how it gives back what is free.
//!
//! mimalloc keeps freed memory. Memory of this thread that another thread frees comes back only
//! when this thread allocates, or collects.

#![allow(unsafe_code)]

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

// SAFETY: this is mimalloc's own declaration of the function. Any thread may call it at any time;
// it frees unused memory, and looks at nothing else.
unsafe extern "C" {
    safe fn mi_collect(force: bool);
}

/// Gives free memory back to the system: this thread's, and memory of no thread.
pub(crate) fn give_back() {
    mi_collect(true);
}
