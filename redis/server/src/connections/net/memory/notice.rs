//! A descriptor for loops of the embedding program, readable as that of a socket is.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

/// A descriptor that can be read while there is something for the other end of a connection.
///
/// A thread that changes what there is calls [`update`](Self::update) afterwards: the last call
/// sees the last change, so the descriptor neither misses news nor tells of what was taken. A loop
/// that waits on it may then read without a limit of time.
#[derive(Default)]
pub(super) struct Notice {
    descriptor: OnceLock<OwnedFd>,
    shown: Mutex<bool>,
}

impl Notice {
    /// The descriptor, from now on; update it.
    pub(super) fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        if self.descriptor.get().is_none() {
            let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let _ = self.descriptor.set(made); // another thread was faster
        }
        let there = self.descriptor.get().map(AsFd::as_fd);
        there.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Shows whether there is something.
    #[inline]
    pub(super) fn update(&self, is_there: impl Fn() -> bool) {
        if let Some(descriptor) = self.descriptor.get() {
            self.show(descriptor, is_there);
        }
    }

    fn show(&self, descriptor: &OwnedFd, is_there: impl Fn() -> bool) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = is_there();
        if wanted == *shown {
            return;
        }
        *shown = wanted;
        // Its number is 0 or 1, so neither waits.
        let _ = if wanted {
            rustix::io::write(descriptor, &1u64.to_ne_bytes())
        } else {
            rustix::io::read(descriptor, &mut [0; 8])
        };
    }
}
