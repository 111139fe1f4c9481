//! How checkpoints end, for threads that wait for one without holding the store: others read and
//! write it meanwhile, and signals are looked at.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use stillframe_durability as durability;

use crate::errors::raise;
use crate::view::SLICE;

/// The end of the checkpoint that is under way, or of the next one.
#[derive(Clone, Default)]
pub(crate) struct Ends(Arc<Mutex<End>>);

type Ended = Result<u64, PyErr>;

impl Ends {
    /// Is told of each end, on the thread that wrote the checkpoint.
    pub(crate) fn complete(&self, ended: Result<u64, &durability::Error>) {
        let end = std::mem::take(&mut *lock(&self.0));
        *lock(&end.0.ended) = Some(ended.map_err(raise));
        end.0.told.notify_all();
    }

    /// The end that is told next.
    pub(crate) fn next(&self) -> End {
        lock(&self.0).clone()
    }
}

/// The end of one checkpoint.
#[pyclass(frozen, module = "stillframe._stillframe")]
#[derive(Clone, Default)]
pub(crate) struct End(Arc<Told>);

#[derive(Default)]
struct Told {
    ended: Mutex<Option<Ended>>,
    told: Condvar,
}

#[pymethods]
impl End {
    /// The number of the checkpoint when it is durable, for who began it: once. Another gets `None`
    /// when it has ended, or after a moment. Ctrl-C ends the wait alone.
    fn wait(&self, py: Python<'_>, is_mine: bool) -> PyResult<Option<u64>> {
        loop {
            let ended = py.detach(|| {
                let ended = lock(&self.0.ended);
                let waited = self.0.told.wait_timeout_while(ended, SLICE, |it| it.is_none());
                let mut ended = waited.unwrap_or_else(PoisonError::into_inner).0;
                if is_mine { ended.take() } else { None }
            });
            py.check_signals()?;
            if ended.is_some() || !is_mine {
                return ended.transpose();
            }
        }
    }
}

impl End {
    pub(crate) fn is_told(&self) -> bool {
        lock(&self.0.ended).is_some()
    }
}

/// A poisoned lock is taken anyway: each holds one value, which is replaced whole.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
