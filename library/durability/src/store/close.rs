//! The end of a store, which may fail and be tried again.

use std::fmt;

use stillframe::Algorithm;

use super::{Journal, Store};
use crate::error::Error;

impl<A: Algorithm> Store<A> {
    /// Waits for the checkpoint under way, takes a last one if the [`Options`](crate::Options) say
    /// so (the state must be valid then), makes the log durable, and gives the directory free; no
    /// limit of speed holds any more. Dropping a store gives up the checkpoint under way instead.
    ///
    /// # Errors
    /// [`NotClosed`]: why the last checkpoint or the log failed, and the store as it is: free some
    /// space and close it again, or read the state out.
    pub fn close(mut self) -> Result<(), NotClosed<Self>> {
        match self.end() {
            Ok(()) => Ok(()),
            Err(error) => Err(NotClosed { store: Box::new(self), error }),
        }
    }

    fn end(&mut self) -> Result<(), Error> {
        self.desk.lift_limit();
        let ended = self.wait().map(drop);
        if self.checkpoint_on_close { self.checkpoint_and_wait().map(drop) } else { ended }?;
        match &mut self.log {
            Journal::Open(log) => log.close(),
            Journal::None | Journal::Replaying => Ok(()),
        }
    }
}

/// A store that could not be closed, and is as it was.
pub struct NotClosed<S> {
    /// The store, to be closed again.
    pub store: Box<S>,
    /// Why it could not.
    pub error: Error,
}

impl<S> fmt::Display for NotClosed<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<S> fmt::Debug for NotClosed<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotClosed").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<S> std::error::Error for NotClosed<S> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// Drops the store.
impl<S> From<NotClosed<S>> for Error {
    fn from(not_closed: NotClosed<S>) -> Self {
        not_closed.error
    }
}
