//! The views that clients have opened: who opened them, and when they are closed.
//!
//! - A view ends when it is closed, when the client that opened it goes, when nobody has used it
//!   for `views-timeout` seconds, and when views hold more than `views-memory`: then the oldest
//!   goes, whose entries no other view needs.
//! - Any client that may use the command can read any view by its number, so that several can share
//!   the work. Numbers are drawn at random: one of another server, or of one that ran before, finds
//!   no view.

use std::time::{Duration, Instant};

use stillframe_keyspace::{Branch, Keyspace};
use stillframe_redis::{Caller, DataHandler, Ledger, Random, Refusal};
use stillframe_resp::Out;

use crate::clients::Clients;
use crate::config::{Config, ViewsFull};
use crate::process;

/// There is no such view.
pub(crate) const NO_VIEW: Refusal =
    Refusal::new("NOVIEW No such view: it was closed, or its time or memory ran out");
const FULL: Refusal =
    Refusal::new("ERR As many views are open as views-max allows: close one, or raise views-max");

/// Bits of a number that every client's numbers hold.
const ID_BITS: u32 = 53;
/// Most keys that one request may read from a view.
const KEYS_MAX: usize = 1 << 20;

/// See the head of this file.
pub(crate) struct Views {
    /// The oldest first.
    open: Vec<OpenView>,
    bench: Option<Box<Bench>>,
    machine_bytes: u64,
    counts: ViewCounts,
}

/// A view as its clients know it.
pub(crate) struct OpenView {
    pub(crate) id: u64,
    /// The client that opened it, and its place.
    pub(crate) client: u64,
    place: usize,
    pub(crate) opened: Instant,
    pub(crate) used: Instant,
}

/// Views since the start.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ViewCounts {
    /// Opened.
    pub(crate) opened: u64,
    /// Closed for want of memory, or to make place for another.
    pub(crate) displaced: u64,
    /// Closed because nobody used them.
    pub(crate) timed_out: u64,
}

/// Where commands on data run on keys of a view: a keyspace that has these keys alone.
struct Bench {
    keyspace: Keyspace,
    ledger: Ledger,
}

impl Default for Views {
    fn default() -> Self {
        let machine_bytes = process::machine_memory_bytes();
        Self { open: Vec::new(), bench: None, machine_bytes, counts: ViewCounts::default() }
    }
}

impl Views {
    /// The open views, the oldest first.
    pub(crate) fn all(&self) -> &[OpenView] {
        &self.open
    }

    /// Views since the start.
    pub(crate) fn counts(&self) -> ViewCounts {
        self.counts
    }

    /// Opens a view for a client; returns its number.
    ///
    /// # Errors
    /// As many are open as may be.
    pub(crate) fn open(
        &mut self,
        keyspace: &mut Keyspace,
        config: &Config,
        caller: &Caller,
        random: &mut Random,
        (turn, now): (Instant, i64),
    ) -> Result<u64, Refusal> {
        let most = config.views_max as usize;
        if self.open.len() >= most && (most == 0 || config.views_full == ViewsFull::Refuse) {
            return Err(FULL);
        }
        while self.open.len() >= most {
            self.displace(keyspace);
        }
        let id = std::iter::repeat_with(|| random.bits() >> (u64::BITS - ID_BITS))
            .find(|&id| id != 0 && !self.open.iter().any(|view| view.id == id))
            .unwrap_or_default();
        keyspace.open_view(id, now);
        let Caller { id: client, place, .. } = *caller;
        self.open.push(OpenView { id, client, place, opened: turn, used: turn });
        self.counts.opened += 1;
        Ok(id)
    }

    /// Notes that a view is used.
    ///
    /// # Errors
    /// There is none of this number.
    pub(crate) fn touch(&mut self, id: u64, turn: Instant) -> Result<(), Refusal> {
        let view = self.open.iter_mut().find(|view| view.id == id).ok_or(NO_VIEW)?;
        view.used = turn;
        Ok(())
    }

    /// Closes a view.
    ///
    /// # Errors
    /// There is none of this number.
    pub(crate) fn close(&mut self, keyspace: &mut Keyspace, id: u64) -> Result<(), Refusal> {
        let at = self.open.iter().position(|view| view.id == id).ok_or(NO_VIEW)?;
        self.end(keyspace, at);
        Ok(())
    }

    fn end(&mut self, keyspace: &mut Keyspace, at: usize) {
        keyspace.close_view(self.open.remove(at).id);
        if self.open.is_empty() {
            self.bench = None;
        }
    }

    /// Closes the oldest.
    fn displace(&mut self, keyspace: &mut Keyspace) {
        self.end(keyspace, 0);
        self.counts.displaced += 1;
    }

    /// Closes the views whose clients have gone, that nobody uses, or that hold too much. Called
    /// every turn.
    pub(crate) fn attend(
        &mut self,
        keyspace: &mut Keyspace,
        config: &Config,
        clients: &Clients,
        turn: Instant,
    ) {
        if self.open.is_empty() {
            return;
        }
        let timeout = Duration::from_secs(config.views_timeout_seconds.into());
        for at in (0..self.open.len()).rev() {
            let view = &self.open[at];
            let client = clients.get(view.place).filter(|client| !client.dead);
            let is_there = client.is_some_and(|it| it.session.caller.id == view.client);
            let idle = turn.saturating_duration_since(view.used);
            let has_timed_out = !timeout.is_zero() && idle > timeout;
            if has_timed_out || !is_there {
                tracing::info!("closing view {} of client {}", view.id, view.client);
                self.counts.timed_out += u64::from(is_there);
                self.end(keyspace, at);
            }
        }
        let most = config.views_memory.bytes(self.machine_bytes);
        if !self.open.is_empty() && keyspace.stats().view_bytes as u64 > most {
            tracing::warn!("closing view {}: see views-memory", self.open[0].id);
            self.displace(keyspace);
        }
    }

    /// Runs a command that reads `keys` of database `caller.db` as it is in a view.
    ///
    /// # Errors
    /// There is no such view; or the refusal of the command.
    pub(crate) fn run(
        &mut self,
        (keyspace, ledger): (&Keyspace, &Ledger),
        id: u64,
        caller: &mut Caller,
        (handler, keys, args): (DataHandler, &[&[u8]], &[&[u8]]),
        out: Out<'_>,
    ) -> Result<(), Refusal> {
        let view = keyspace.view(id).ok_or(NO_VIEW)?;
        let bench = match &mut self.bench {
            Some(bench) => bench,
            none => none.insert(Box::new(Bench::new(keyspace, ledger)?)),
        };
        bench.ledger.settings = ledger.settings;
        bench.ledger.settings.notify = Default::default();
        *bench.keyspace.limits_mut() = *keyspace.limits();
        let (db, now) = (caller.db, view.now());
        let keys: Vec<(usize, &[u8])> = keys.iter().map(|key| (db, *key)).collect();
        let mut unchanged = Branch::default();
        unchanged.lay(&view, &mut bench.keyspace, &keys, now)?;
        let Bench { keyspace, ledger } = &mut **bench;
        let outcome =
            handler(&mut stillframe_redis::Context { keyspace, ledger, caller, out, now }, args);
        unchanged.take_back(&view, &mut bench.keyspace, &keys);
        outcome
    }
}

impl Bench {
    fn new(keyspace: &Keyspace, ledger: &Ledger) -> Result<Self, Refusal> {
        let keyspace = keyspace.relative(KEYS_MAX).map_err(|error| format!("OOM {error}"))?;
        let mut ledger = Ledger::new(ledger.settings, Random::seeded());
        ledger.in_exec = true; // nothing is worth waiting for: a view does not change
        Ok(Self { keyspace, ledger })
    }
}
