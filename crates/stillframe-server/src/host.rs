//! A server while it loads: what is loaded into, and who is served between two slices.

use std::time::Duration;

use stillframe::Algorithm;
use stillframe_keyspace::Keyspace;

use crate::ServeError;
use crate::commands::Table;
use crate::state::ServerState;
use stillframe_redis::Random;

/// How long loading keeps clients waiting.
pub(crate) const SLICE: Duration = Duration::from_millis(10);

/// What commands work on.
pub(crate) type Parts<'a, A> = (&'a mut Keyspace<A>, &'a mut ServerState, &'a Table<A>);

/// A server that loads its data.
pub(crate) trait Host {
    /// The data's algorithm.
    type Algorithm: Algorithm;

    /// What is loaded into.
    fn parts(&mut self) -> Parts<'_, Self::Algorithm>;

    /// Serves clients for a turn, which waits for them at most so long; false if the server is to
    /// end.
    ///
    /// # Errors
    /// [`ServeError`] when that cannot be.
    fn turn(&mut self, patience: Duration) -> Result<bool, ServeError>;
}

/// `key-load-delay`: sleeps for so many microseconds, or if negative for one once in so many times.
/// Returns whether it did.
pub(crate) fn delay(delay_us: i32) -> bool {
    let sleeps = match delay_us {
        0 => return false,
        1.. => true,
        often => Random::seeded().below(often.unsigned_abs() as usize) == 0,
    };
    if sleeps {
        std::thread::sleep(Duration::from_micros(delay_us.max(1).unsigned_abs().into()));
    }
    sleeps
}
