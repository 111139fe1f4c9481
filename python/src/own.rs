//! What belongs to one process.

use std::ops::Deref;

use pyo3::prelude::*;
use rustix::process::{Pid, getpid};

use crate::errors::WrongProcess;

/// A value that only the process that made it may use. Elsewhere it is neither used nor dropped.
pub(crate) struct Own<T> {
    /// `None` only while it is being dropped.
    value: Option<T>,
    process: Pid,
}

impl<T> Own<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Some(value), process: getpid() }
    }

    /// The value, in its process.
    pub(crate) fn get(&self) -> PyResult<&T> {
        if getpid() != self.process {
            return Err(WrongProcess::new_err(format!(
                "this object belongs to process {}, which forked this one; open a store or server \
                 of its own here, in another directory, or start the child by \"spawn\"",
                self.process.as_raw_nonzero()
            )));
        }
        Ok(self)
    }
}

impl<T> Deref for Own<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("there is a value until the drop")
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if getpid() != self.process {
            std::mem::forget(self.value.take());
        }
    }
}
