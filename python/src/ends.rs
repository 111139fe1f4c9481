//! How checkpoints, and what goes on behind a call, end: for threads that wait without holding the
//! store and look at signals meanwhile.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use pyo3::prelude::*;
use stillframe_durability as durability;

use crate::errors::{Error, panicked, raise};
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

/// Work on a thread of its own, which goes on when nobody waits for it any more.
pub(crate) struct Behind<R>(Receiver<R>);

impl<R: Send + 'static> Behind<R> {
    /// Begins the work that `begun` is turned to; without a thread it is given back.
    pub(crate) fn begin<T: Send + 'static>(
        begun: T,
        work: impl FnOnce(T) -> R + Send + 'static,
    ) -> Result<Self, (T, PyErr)> {
        let (hand, handed) = channel();
        let (tell, told) = channel();
        let work = move || {
            if let Ok(begun) = handed.recv() {
                let _ = tell.send(work(begun)); // nobody may wait any more
            }
        };
        match Builder::new().name("behind-python".into()).spawn(work) {
            Ok(_) => {}
            Err(error) => return Err((begun, Error::new_err(format!("no thread: {error}")))),
        }
        let _ = hand.send(begun); // it is there
        Ok(Self(told))
    }

    /// What came of it; `None` if nothing has for a moment.
    pub(crate) fn wait(&mut self) -> Option<PyResult<R>> {
        match self.0.recv_timeout(SLICE) {
            Ok(done) => Some(Ok(done)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(panicked())),
        }
    }
}

/// Waits by `wait` until it gives something; Ctrl-C ends the wait alone.
pub(crate) fn patiently<R: Send>(
    py: Python<'_>,
    mut wait: impl FnMut() -> Option<PyResult<R>> + Send,
) -> PyResult<R> {
    loop {
        if let Some(done) = py.detach(&mut wait) {
            return done;
        }
        py.check_signals()?;
    }
}

/// A poisoned lock is taken anyway: each holds one value, which is replaced whole.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
