//! A server while it loads: what is loaded into, and who is served between two slices.

use std::time::Duration;

use stillframe_keyspace::Keyspace;

use crate::ServeError;
use crate::client::Session;
use crate::state::ServerState;

/// What commands work on.
pub(crate) type Parts<'a> = (&'a mut Keyspace, &'a mut ServerState);

/// A server that loads its data.
pub(crate) trait Host {
    /// What is loaded into.
    fn parts(&mut self) -> Parts<'_>;

    /// Runs a request of the log again; its reply is left in `replies`.
    ///
    /// # Errors
    /// Which request does not succeed as it once did, and why.
    fn replay(
        &mut self,
        session: &mut Session,
        replies: &mut Vec<u8>,
        args: &[&[u8]],
    ) -> Result<(), String>;

    /// Serves clients for a turn, which waits for them at most so long; false if the server is to
    /// end.
    ///
    /// # Errors
    /// [`ServeError`] when that cannot be.
    fn turn(&mut self, patience: Duration) -> Result<bool, ServeError>;
}
