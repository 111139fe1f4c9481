//! What may lie in memory that a forked child shares.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64};

use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Line};

/// A value that a parent and its forked child may both change in [shared memory](super::Shared).
///
/// # Safety
/// The type consists of atomics alone. A lock would order nothing between two processes, and a
/// pointer to memory that one of them allocated leads the other anywhere.
pub unsafe trait Shareable: Send + Sync {}

macro_rules! atomics {
    ($($atomic:ty),*) => {
        // SAFETY: an atomic, free of locks on every platform that has it.
        $(unsafe impl Shareable for $atomic {})*
    };
}
atomics!(AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, AtomicUsize);

// SAFETY: an array consists of its elements.
unsafe impl<T: Shareable, const N: usize> Shareable for [T; N] {}
// SAFETY: a line consists of its one field.
unsafe impl<T: Shareable> Shareable for Line<T> {}
