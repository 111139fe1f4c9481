//! The client whose request runs, as the commands on data know it.

use std::time::Instant;

use crate::address::Address;
use crate::fieldsets::Fieldsets;
use crate::transaction::Transaction;

/// What commands on data see and change of the client they run for.
pub struct Caller {
    /// Number of the client, never reused.
    pub id: u64,
    /// Its place in the registry of clients.
    pub place: usize,
    /// The client's address.
    pub peer: Address,
    /// Selected database.
    pub db: usize,
    /// None: requests of a log or of a primary, which nothing refuses.
    pub internal: bool,
    /// Its user may read keys that the request under way names only by a pattern.
    pub reads_all_keys: bool,
    /// The open transaction.
    pub transaction: Option<Box<Transaction>>,
    /// The lists of names that it has prepared for hashes.
    pub fieldsets: Option<Box<Fieldsets>>,
    /// Bytes of the list of its watched keys.
    pub watched_bytes: usize,
    /// It waits for a key, and is served no further until it gets one or gives up.
    pub waits: bool,
    /// The request under way is that of a wait, run again as one of its keys has changed.
    pub resumed: bool,
    /// When its request is to be run again although no key has changed, if it waits.
    pub again: Option<Instant>,
    /// Index of the last command in the table; `usize::MAX` before the first.
    pub last_command: usize,
}

impl Caller {
    /// A client that has just connected.
    pub fn new(id: u64, peer: Address) -> Self {
        Self {
            id,
            place: usize::MAX,
            peer,
            db: 0,
            internal: false,
            reads_all_keys: true,
            transaction: None,
            fieldsets: None,
            watched_bytes: 0,
            waits: false,
            resumed: false,
            again: None,
            last_command: usize::MAX,
        }
    }
}
