//! A log and the image that it continues, which begin together.

use std::time::Instant;

use stillframe_commands::{Effects, Ledger};
use stillframe_durability::{Error, Policy};
use stillframe_keyspace::Keyspace;

use super::Storage;
use crate::dump::{Purpose, SaveError, StreamPoint};

impl Storage {
    /// Passes the effects of all requests so far to the log, and to another reader of them: a
    /// stream of replication. Call it at the end of each turn, and before an image begins.
    pub fn hand_on(
        &mut self,
        keyspace: &mut Keyspace,
        ledger: &mut Ledger,
        other: impl FnOnce(&Effects),
    ) {
        if !ledger.effects.wanted() {
            return;
        }
        ledger.note_expired(keyspace);
        let effects = &mut ledger.effects;
        effects.seal();
        if !effects.is_empty() {
            self.journal.append(effects);
            other(effects);
            effects.clear();
        }
        effects.settle(self.journal.last(), self.journal.withholds());
    }

    /// Ends the log when all that was handed on is durable.
    ///
    /// # Errors
    /// Why that never will be, which was logged.
    pub fn end_log(&mut self, keyspace: &mut Keyspace, ledger: &mut Ledger) -> Result<(), Error> {
        self.journal.end(keyspace, ledger)
    }

    /// Begins a log, and the image that it continues, at a point of consistency at which all
    /// effects were handed on. `bandwidth_bytes`: most bytes of the image written per second, 0 for
    /// no limit.
    ///
    /// # Errors
    /// [`SaveError`]; nothing has changed.
    pub fn begin_log(
        &mut self,
        keyspace: &mut Keyspace,
        ledger: &mut Ledger,
        point: Option<StreamPoint>,
        bandwidth_bytes: u64,
    ) -> Result<(), SaveError> {
        self.journal.begin(keyspace, ledger, &self.settings)?;
        let begun = self.begin_for(keyspace, ledger, point, bandwidth_bytes, Purpose::Log, false);
        if begun.is_err() {
            self.journal.abandon(keyspace, ledger);
        }
        begun
    }

    /// Makes the log follow the settings: begun, ended, under another policy. Call it every turn,
    /// after effects were handed on and before replies are written, so that the reply of CONFIG SET
    /// is true. `may_begin`: an image may begin now.
    pub fn attend_log(
        &mut self,
        keyspace: &mut Keyspace,
        ledger: &mut Ledger,
        now: Instant,
        may_begin: bool,
        point: impl FnOnce() -> Option<StreamPoint>,
    ) {
        if !self.settings.appendonly && self.journal.is_open() {
            let _ = self.end_log(keyspace, ledger); // clients that wait for a reply get an error
            self.drop_image_of_log(keyspace);
        }
        if self.journal.attend(&self.settings, now) && may_begin {
            self.begin_wanted(keyspace, ledger, point);
        }
    }

    /// Cancels an image that only a log needs, as the log has ended: BGSAVE need not wait for it.
    fn drop_image_of_log(&mut self, keyspace: &Keyspace) {
        self.saves.scheduled.take_if(|purpose| *purpose == Purpose::Log);
        if self.saves.running().is_some_and(|save| save.purpose == Purpose::Log) {
            self.abandon(keyspace);
        }
    }

    /// Begins a log that is wanted, unless that is impossible now.
    #[cold]
    fn begin_wanted(
        &mut self,
        keyspace: &mut Keyspace,
        ledger: &mut Ledger,
        point: impl FnOnce() -> Option<StreamPoint>,
    ) {
        if self.saves.running().is_some() || !self.journal.try_again(Instant::now()) {
            return;
        }
        if let Err(error) = self.begin_log_soon(keyspace, ledger, point()) {
            tracing::error!("the log cannot be begun, trying again: {error}");
            self.journal.not_begun(&error);
        }
    }

    /// Begins the log that CONFIG SET asks for, so that its reply reports success or failure; at
    /// the end of a turn instead if a save comes first.
    ///
    /// # Errors
    /// [`SaveError`]; nothing has changed.
    pub fn begin_log_asked(
        &mut self,
        keyspace: &mut Keyspace,
        ledger: &mut Ledger,
        point: Option<StreamPoint>,
    ) -> Result<(), SaveError> {
        if self.saves.running().is_some() || self.journal.is_open() {
            return Ok(());
        }
        self.begin_log_soon(keyspace, ledger, point)
    }

    /// Begins a log whose image is written as fast as its policy wants.
    fn begin_log_soon(
        &mut self,
        keyspace: &mut Keyspace,
        ledger: &mut Ledger,
        point: Option<StreamPoint>,
    ) -> Result<(), SaveError> {
        // Writes wait for it, or soon will.
        let bandwidth_bytes = match self.settings.appendfsync {
            Policy::Always | Policy::EverySecond => 0,
            Policy::No => self.settings.snapshot_bandwidth_bytes,
        };
        self.begin_log(keyspace, ledger, point, bandwidth_bytes)
    }
}
