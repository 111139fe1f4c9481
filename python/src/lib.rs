//! The module `stillframe._stillframe`: what `stillframe` in Python is made of.
//!
//! - Nothing here waits while it holds the interpreter: what may take time is detached from it.
//! - A child that was forked has none of the threads of its parent, and shares the words in which
//!   images are handed over. So each object knows its process ([`own::Own`]): in another one its
//!   methods raise, and it is never dropped.
//! - `unsafe` is in [`memory`] alone, where an array of Python is laid upon words.

mod direct;
mod errors;
mod memory;
mod own;
mod reply;
mod server;
mod socket;
mod store;
mod undo;
mod view;

use pyo3::prelude::*;

#[pymodule]
fn _stillframe(module: &Bound<'_, PyModule>) -> PyResult<()> {
    errors::register(module)?;
    module.add_class::<memory::Memory>()?;
    module.add_class::<store::Store>()?;
    module.add_class::<view::View>()?;
    module.add_class::<view::Branch>()?;
    module.add_class::<view::Reader>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<socket::Socket>()?;
    module.add_class::<direct::Direct>()?;
    module.add("VERSION", env!("CARGO_PKG_VERSION"))
}

#[cfg(not(target_os = "linux"))]
compile_error!("stillframe for Python is tested on Linux alone; build it there");
