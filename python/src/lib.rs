//! The module `stillframe._stillframe`: what `stillframe` in Python is made of.
//!
//! - Nothing here waits while it holds the interpreter: what may take time is detached from it.
//! - A child that was forked has none of the threads of its parent, and shares the words in which
//!   images are handed over. So each object knows its process ([`own::Own`]): in another one its
//!   methods raise, and it is never dropped.
//! - `unsafe` is in [`memory`], where an array of Python is laid upon words; in [`frozen`], which
//!   has room for the words of a view; in [`guard`], which protects words and handles the signal;
//!   in [`dirty`] and [`follow`], which watch and copy memory of others; where [`socket`] reads
//!   into a buffer of Python; and where the interpreter is asked for its number, below.

mod direct;
mod dirty;
mod ends;
mod errors;
mod follow;
mod frozen;
mod guard;
mod memory;
mod own;
mod reply;
mod server;
mod socket;
mod store;
mod view;

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

#[pymodule]
fn _stillframe(module: &Bound<'_, PyModule>) -> PyResult<()> {
    errors::register(module)?;
    module.add_class::<memory::Memory>()?;
    module.add_class::<store::Store>()?;
    module.add_class::<ends::End>()?;
    module.add_class::<view::View>()?;
    module.add_class::<view::Branch>()?;
    module.add_class::<view::Reader>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<socket::Socket>()?;
    module.add_class::<direct::Direct>()?;
    module.add_function(wrap_pyfunction!(check_interpreter, module)?)?;
    module.add("VERSION", env!("CARGO_PKG_VERSION"))
}

/// Refuses sub-interpreters: exceptions and classes here are those of one interpreter.
#[pyfunction]
fn check_interpreter(_py: Python<'_>) -> PyResult<()> {
    // SAFETY: this thread is attached to an interpreter, as `_py` shows.
    let interpreter = unsafe { ffi::PyInterpreterState_Get() };
    // SAFETY: that interpreter lives as long as this thread is attached to it.
    match unsafe { ffi::PyInterpreterState_GetID(interpreter) } {
        0 => Ok(()),
        number => Err(PyImportError::new_err(format!(
            "stillframe does not work in sub-interpreters, and this is interpreter {number}; \
             import it in the main one, or in a process of its own"
        ))),
    }
}

#[cfg(not(target_os = "linux"))]
compile_error!("stillframe for Python is tested on Linux alone; build it there");
