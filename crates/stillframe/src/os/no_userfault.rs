//! The interface of `userfault.rs` for Miri, loom and shuttle, which know no page faults: there is
//! none to be had.

use std::ops::Range;
use std::sync::Arc;

use super::Region;
use crate::error::MemoryError;

const MISSING: &str = "userfaultfd needs a real kernel, not a checker of programs";

#[derive(Debug)]
pub(crate) enum UserFaults {}

impl UserFaults {
    pub(crate) fn available() -> Result<(), &'static str> {
        Err(MISSING)
    }
    pub(crate) fn register(_: &Arc<Region>) -> Result<Self, MemoryError> {
        Err(MemoryError::Unavailable { what: MISSING })
    }
    pub(crate) fn needs_populated(&self) -> bool {
        match *self {}
    }
    pub(crate) fn protect(&self, _: Range<usize>) -> Result<(), MemoryError> {
        match *self {}
    }
    pub(crate) fn unprotect(&self, _: Range<usize>) {
        match *self {}
    }
}

#[derive(Debug)]
pub(crate) enum FaultHandler {}

impl FaultHandler {
    pub(crate) fn start(
        faults: Arc<UserFaults>,
        _: impl Fn(usize) + Send + 'static,
    ) -> Result<Self, MemoryError> {
        match *faults {}
    }
}
