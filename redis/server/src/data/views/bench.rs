//! Where commands on data run on keys of a view or a branch: a keyspace that has these keys alone,
//! and a ledger that nobody reads.

use stillframe_commands::{Ledger, Random, Refusal};
use stillframe_keyspace::Keyspace;

/// Most keys that one request may name.
const KEYS_MAX: usize = 1 << 20;

/// See the head of this file.
pub(crate) struct Bench {
    pub(crate) keyspace: Keyspace,
    pub(crate) ledger: Ledger,
}

impl Bench {
    /// A bench for requests on data that belongs to this keyspace.
    ///
    /// # Errors
    /// Memory or threads cannot be had.
    pub(super) fn new(keyspace: &Keyspace, ledger: &Ledger) -> Result<Self, Refusal> {
        let keyspace = keyspace.relative(KEYS_MAX).map_err(|error| format!("OOM {error}"))?;
        Ok(Self { keyspace, ledger: Ledger::new(ledger.settings, Random::seeded()) })
    }

    /// Makes the next request run by the settings that hold now.
    pub(super) fn prepare(&mut self, keyspace: &Keyspace, ledger: &Ledger) {
        self.ledger.settings = ledger.settings;
        self.ledger.settings.notify = Default::default();
        self.ledger.skips_checksums = ledger.skips_checksums;
        self.ledger.in_exec = true; // nothing is worth waiting for: nobody else writes here
        *self.keyspace.limits_mut() = *keyspace.limits();
        self.keyspace.share_libraries(keyspace);
    }
}
