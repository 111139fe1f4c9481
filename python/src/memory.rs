//! Words of the engine as memory of Python.
//!
//! - [`Memory`] exports its bytes by the buffer protocol and lives as long as an array upon it; the
//!   words stay when the store is closed.
//! - Words of a store are writable only in a [`Memory`] that comes from an announcement. What C
//!   code stores there races the threads that copy an image. They copy whole words, by assembly or
//!   by relaxed atomics, and put back each word that was announced, so a torn or late copy of such
//!   a word is in no image: `Algorithm::announce` promises that.
//! - Nothing in Rust makes a reference to these bytes.

use std::ffi::c_int;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use stillframe::Live;

use crate::frozen::Room;

/// A run of bytes for `numpy.ndarray(buffer=...)`.
#[pyclass(frozen, module = "stillframe._stillframe")]
pub(crate) struct Memory {
    words: Words,
    /// First byte, and how many.
    start: usize,
    len: usize,
    writable: bool,
}

enum Words {
    /// Of a store.
    Live(Live),
    /// Of a view, shared by all who read it.
    Frozen(Arc<Room>),
    /// A copy, of a branch.
    Copy(Box<[u64]>),
}

impl Memory {
    /// Bytes of a store.
    pub(crate) fn live(live: Live, start: usize, len: usize, writable: bool) -> PyResult<Self> {
        let bytes = live.words() * 8;
        if start > bytes || len > bytes - start {
            return Err(PyValueError::new_err(format!("{len} bytes at {start} of {bytes}")));
        }
        Ok(Self { words: Words::Live(live), start, len, writable })
    }

    /// Bytes of a view, which are never written again.
    pub(crate) fn frozen(room: Arc<Room>, start: usize, len: usize) -> Self {
        Self { words: Words::Frozen(room), start, len, writable: false }
    }

    /// Bytes of a copy, which holds them.
    pub(crate) fn copy(words: Vec<u64>, start: usize, len: usize) -> Self {
        debug_assert!(start + len <= words.len() * 8, "the copy is as long as was asked");
        Self { words: Words::Copy(words.into()), start, len, writable: false }
    }
}

#[pymethods]
impl Memory {
    fn __len__(&self) -> usize {
        self.len
    }

    /// # Safety
    /// For the interpreter alone, which gives a view to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let memory = slf.get();
        let words = match &memory.words {
            Words::Live(live) => live.as_ptr(),
            Words::Frozen(room) => room.as_ptr(),
            Words::Copy(words) => words.as_ptr(),
        };
        let first = words.cast::<u8>().wrapping_add(memory.start).cast_mut();
        let readonly = c_int::from(!memory.writable);
        // A length that is in memory is one of `isize`.
        let len = memory.len.cast_signed();
        // SAFETY: `view` is the interpreter's, to be filled. `len` bytes from `first` on lie within
        // words that `slf` holds, to which the view takes a reference; they are writable where the
        // flag says so, since they come from memory of the engine that is no `&` of Rust's.
        let failed = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), first.cast(), len, readonly, flags)
        };
        if failed < 0 { Err(PyErr::fetch(slf.py())) } else { Ok(()) }
    }
}
