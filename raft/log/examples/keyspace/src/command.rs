//! What an entry holds: requests, and all that they would otherwise take from their machine.

use serde::{Deserialize, Serialize};
use stillframe_commands::Random;
use stillframe_storage::unix_millis;

/// One request, or several that run as one, stamped by the member that proposes them: every member
/// applies them at that time and with that randomness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Unix time in milliseconds. What lies before the time of an earlier command counts as that.
    pub now_ms: i64,
    /// What is random goes by this.
    pub seed: u64,
    /// The database that the first request finds selected.
    pub db: usize,
    /// Replies are in RESP3, and not in RESP2.
    pub resp3: bool,
    /// The requests run as one, and their replies are an array, as after EXEC.
    pub is_transaction: bool,
    /// Each request: its name and its arguments.
    pub requests: Vec<Vec<Vec<u8>>>,
}

impl Command {
    /// A request, stamped here and now.
    #[must_use]
    pub fn new(request: &[&[u8]]) -> Self {
        Self::stamped(false, std::iter::once(request))
    }

    /// Several requests that run as one, stamped here and now: if one of them cannot run, for its
    /// name or its number of arguments, none does.
    #[must_use]
    pub fn transaction(requests: &[&[&[u8]]]) -> Self {
        Self::stamped(true, requests.iter().copied())
    }

    fn stamped<'a>(is_transaction: bool, requests: impl Iterator<Item = &'a [&'a [u8]]>) -> Self {
        let owned = |request: &[&[u8]]| request.iter().map(|arg| arg.to_vec()).collect();
        Self {
            now_ms: unix_millis(),
            seed: Random::seeded().bits(),
            db: 0,
            resp3: false,
            is_transaction,
            requests: requests.map(owned).collect(),
        }
    }

    /// With this database selected.
    #[must_use]
    pub fn db(self, db: usize) -> Self {
        Self { db, ..self }
    }

    /// Replies in RESP3.
    #[must_use]
    pub fn resp3(self) -> Self {
        Self { resp3: true, ..self }
    }
}
