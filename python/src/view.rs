//! Views and branches of a store.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use stillframe_durability as durability;

use crate::errors::{ViewLost, raise, raise_memory};
use crate::frozen::Frozen;
use crate::memory::Memory;
use crate::own::Own;
use crate::store::{check_bytes, patched};

/// How long a wait goes on before signals are looked at.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// The state of an instant.
#[pyclass(frozen, module = "stillframe._stillframe")]
pub(crate) struct View {
    view: Own<durability::View>,
    frozen: Frozen,
}

impl View {
    pub(crate) fn new(view: durability::View) -> Self {
        Self { view: Own::new(view), frozen: Frozen::new() }
    }
}

fn lost(_: durability::ViewLost) -> PyErr {
    ViewLost::new_err(
        "the view was given up: what was written since it began needs more memory than `budget`; \
         open the store with a larger one, or close views sooner",
    )
}

#[pymethods]
impl View {
    /// Words of the state.
    fn words(&self) -> PyResult<usize> {
        Ok(self.view.get()?.words())
    }

    /// Some bytes, which all readers share.
    fn read(&self, py: Python<'_>, start: usize, len: usize) -> PyResult<Memory> {
        let view = self.view.get()?;
        check_bytes(view.words(), start, len)?;
        py.detach(|| {
            let read = |first, into: &mut [u64]| view.read_run(first, into).map_err(lost);
            self.frozen.bytes(view.words(), start, len, read)
        })
    }
}

/// A copy of the state of an instant that can be written.
#[pyclass(frozen, module = "stillframe._stillframe")]
pub(crate) struct Branch(Own<Mutex<durability::Branch>>);

impl Branch {
    pub(crate) fn new(branch: durability::Branch) -> Self {
        Self(Own::new(Mutex::new(branch)))
    }
}

#[pymethods]
impl Branch {
    /// Words of the state.
    fn words(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |branch| Ok(branch.words()))
    }

    /// A copy of some bytes.
    fn read(&self, py: Python<'_>, start: usize, len: usize) -> PyResult<Memory> {
        self.with(py, |branch| {
            check_bytes(branch.words(), start, len)?;
            Ok(Memory::copy(words_of(branch, start, len)?, start % 8, len))
        })
    }

    /// Replaces some bytes.
    fn write(&self, py: Python<'_>, start: usize, bytes: PyBuffer<u8>) -> PyResult<()> {
        let bytes = bytes.to_vec(py)?;
        self.with(py, |branch| {
            check_bytes(branch.words(), start, bytes.len())?;
            let old = words_of(branch, start, bytes.len())?;
            for (index, word) in (start / 8..).zip(patched(old, start % 8, &bytes)) {
                branch.write(index, word);
            }
            Ok(())
        })
    }

    /// Grows to so many words.
    fn grow(&self, py: Python<'_>, words: usize) -> PyResult<()> {
        self.with(py, |branch| branch.grow(words).map_err(raise_memory))
    }

    /// Another branch from here.
    fn branch(&self, py: Python<'_>) -> PyResult<Self> {
        self.with(py, |branch| Ok(Self::new(branch.clone())))
    }
}

/// The words that hold these bytes.
fn words_of(branch: &durability::Branch, start: usize, len: usize) -> PyResult<Vec<u64>> {
    let first = start / 8;
    let mut words = vec![0; (start + len).div_ceil(8) - first];
    branch.read_run(first, &mut words).map_err(lost)?;
    Ok(words)
}

impl Branch {
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut durability::Branch) -> PyResult<R> + Send,
    ) -> PyResult<R> {
        let branch = self.0.get()?;
        // A panic leaves a branch as it was: each write is one insertion.
        py.detach(|| work(&mut branch.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Asks for views from any thread.
#[pyclass(frozen, module = "stillframe._stillframe")]
pub(crate) struct Reader(Own<durability::Reader>);

impl Reader {
    pub(crate) fn new(reader: durability::Reader) -> Self {
        Self(Own::new(reader))
    }
}

#[pymethods]
impl Reader {
    /// The state at the next point; `TimeoutError` if none comes in time.
    #[pyo3(signature = (timeout=None))]
    fn view(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<View> {
        let reader = self.0.get()?;
        let limit = timeout.map(seconds).transpose()?;
        let started = Instant::now();
        loop {
            let left = limit.map(|limit| limit.saturating_sub(started.elapsed()));
            match py.detach(|| reader.view_timeout(left.map_or(SLICE, |left| left.min(SLICE)))) {
                Ok(view) => return Ok(View::new(view)),
                Err(durability::Error::NoPoint { .. }) => py.check_signals()?,
                Err(error) => return Err(raise(&error)),
            }
            if let Some(waited) = limit.filter(|&limit| started.elapsed() >= limit) {
                let error = durability::Error::NoPoint { waited };
                return Err(PyTimeoutError::new_err(error.to_string()));
            }
        }
    }
}

/// A time in seconds, as Python gives it.
pub(crate) fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| {
        pyo3::exceptions::PyValueError::new_err(format!("{seconds} seconds: {error}"))
    })
}
