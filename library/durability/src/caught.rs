//! Code that may be the caller's, and panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What `body` returns, or `None` if it panicked. The panic's payload is leaked: its destructor is
/// the body's own code and may panic again.
pub(crate) fn caught<R>(body: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(body)).map_err(std::mem::forget).ok()
}
