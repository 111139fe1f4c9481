//! A descriptor for loops of the embedding program, which tells that a connection may have news.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// A descriptor that can be read while a connection may have something for its other end.
#[derive(Default)]
pub(super) struct Notice {
    descriptor: OnceLock<OwnedFd>,
    shown: AtomicBool,
}

impl Notice {
    /// The descriptor, from now on.
    pub(super) fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        if self.descriptor.get().is_none() {
            let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let _ = self.descriptor.set(made); // another thread was faster
            self.shown.store(false, Ordering::SeqCst);
            self.show(); // for what came before
        }
        let there = self.descriptor.get().map(AsFd::as_fd);
        there.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    #[inline]
    pub(super) fn show(&self) {
        if let Some(descriptor) = self.descriptor.get()
            && !self.shown.swap(true, Ordering::SeqCst)
        {
            let _ = rustix::io::write(descriptor, &1u64.to_ne_bytes()); // full: it is readable
        }
    }

    /// Takes it back; look at the connection once more afterwards.
    pub(super) fn clear(&self) {
        if let Some(descriptor) = self.descriptor.get()
            && self.shown.swap(false, Ordering::SeqCst)
        {
            let _ = rustix::io::read(descriptor, &mut [0; 8]); // it was not shown
        }
    }
}
