//! Callbacks that are told a number, or why there is none. A panic of one ends with the call: the
//! panic hook has shown it, and what the callback was told of is as true as before.

use std::fmt;
use std::sync::Arc;

use crate::caught::caught;
use crate::error::Error;
use crate::mutant::{Mutant, Mutation};

type Callback = dyn Fn(Result<u64, &Error>) + Send + Sync;

/// What is told.
#[derive(Clone)]
pub(crate) struct Told {
    callback: Arc<Callback>,
    mutation: Mutation,
}

impl Told {
    pub(crate) fn new(callback: impl Fn(Result<u64, &Error>) + Send + Sync + 'static) -> Self {
        Self { callback: Arc::new(callback), mutation: Mutation::current() }
    }

    pub(crate) fn call(&self, what: Result<u64, &Error>) {
        if self.mutation.is(Mutant::PanicsGoOn) {
            return (self.callback)(what);
        }
        caught(|| (self.callback)(what));
    }
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Told")
    }
}
