//! A descriptor for loops of the embedding program, which tells that a connection may have news.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// A descriptor that can be read while a connection may have something for its other end.
#[derive(Default)]
pub(super) struct Bell {
    descriptor: OnceLock<OwnedFd>,
    rung: AtomicBool,
}

impl Bell {
    /// The descriptor, from now on.
    pub(super) fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        if self.descriptor.get().is_none() {
            let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let _ = self.descriptor.set(made); // another thread was faster
            self.rung.store(false, Ordering::SeqCst);
            self.ring(); // for what came before
        }
        let there = self.descriptor.get().map(AsFd::as_fd);
        there.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    #[inline]
    pub(super) fn ring(&self) {
        if let Some(descriptor) = self.descriptor.get()
            && !self.rung.swap(true, Ordering::SeqCst)
        {
            let _ = rustix::io::write(descriptor, &1u64.to_ne_bytes()); // full: it rings already
        }
    }

    /// Silences it; look at the connection once more afterwards.
    pub(super) fn hush(&self) {
        if let Some(descriptor) = self.descriptor.get()
            && self.rung.swap(false, Ordering::SeqCst)
        {
            let _ = rustix::io::read(descriptor, &mut [0; 8]); // nothing rang
        }
    }
}
