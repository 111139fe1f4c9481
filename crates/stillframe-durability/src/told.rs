//! Callbacks that are told a number, or why there is none.

use std::fmt;
use std::sync::Arc;

use crate::error::Error;

type Callback = dyn Fn(Result<u64, &Error>) + Send + Sync;

/// What is told.
#[derive(Clone)]
pub(crate) struct Told(Arc<Callback>);

impl Told {
    pub(crate) fn new(callback: impl Fn(Result<u64, &Error>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(callback))
    }

    pub(crate) fn tell(&self, what: Result<u64, &Error>) {
        (self.0)(what);
    }
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Told")
    }
}
