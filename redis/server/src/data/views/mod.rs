//! The views and branches that clients have opened: who opened them, and when they are closed.
//!
//! - A view ends when it is closed, when the client that opened it goes, when nobody has used it
//!   for `views-timeout` seconds, and when views hold more than `views-memory`: then the oldest
//!   goes, whose entries no other view needs. So does a branch, which has a view of its own or
//!   shares that which it began from. Of an instant all go together for want of memory.
//! - What branches have written is bounded by `branches-memory`: requests that need more are
//!   refused.
//! - Any client that may use the command can use any view and branch by its number, so that several
//!   can share the work. Numbers are drawn at random: one of another server, or of one that ran
//!   before, finds nothing.

mod bench;

use std::time::{Duration, Instant};

use stillframe_commands::{Caller, DataHandler, Ledger, Random, Refusal, Watches};
use stillframe_keyspace::{Branch, Keyspace};
use stillframe_resp::Out;

use crate::connections::clients::Clients;
use crate::node::config::{Config, ViewsFull};
use crate::node::machine;
pub(crate) use bench::Bench;

/// There is no such view.
pub(crate) const NO_VIEW: Refusal =
    Refusal::new("NOVIEW No such view: it was closed, or its time or memory ran out");
/// There is no such branch.
pub(crate) const NO_BRANCH: Refusal =
    Refusal::new("NOBRANCH No such branch: it was closed, or its time or memory ran out");
const FULL: Refusal =
    Refusal::new("ERR As many views are open as views-max allows: close one, or raise views-max");
const FULL_OF_BRANCHES: Refusal = Refusal::new(
    "ERR As many branches are open as branches-max allows: close one, or raise branches-max",
);
const IN_USE: Refusal =
    Refusal::new("ERR A request that runs on a branch cannot have another one run on it");

/// Bits of a number that every client's numbers hold.
const ID_BITS: u32 = 53;

/// See the head of this file.
pub(crate) struct Views {
    /// In the order of their opening.
    open: Vec<OpenView>,
    bench: Option<Box<Bench>>,
    machine_bytes: u64,
    counts: ViewCounts,
}

/// When a view is opened: by the clock of the turn, and by that of the data.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) turn: Instant,
    pub(crate) now: i64,
}

/// A command that reads keys.
pub(crate) struct Read<'a> {
    pub(crate) handler: DataHandler,
    pub(crate) keys: &'a [&'a [u8]],
    pub(crate) args: &'a [&'a [u8]],
}

/// A view or a branch as its clients know it.
pub(crate) struct OpenView {
    pub(crate) id: u64,
    /// The number of the view of the keyspace, which several may share.
    pub(crate) instant: u64,
    /// When that view was opened.
    taken: Instant,
    /// The client that opened it, and its place.
    pub(crate) client: u64,
    place: usize,
    pub(crate) opened: Instant,
    pub(crate) used: Instant,
    /// What it is beyond a view.
    branch: Option<Held>,
}

/// A branch, unless a request runs on it, and the bytes that it held when the last one had run.
struct Held {
    branch: Option<Box<OpenBranch>>,
    bytes: usize,
}

/// The data of a branch, and who watches it.
#[derive(Default)]
pub(crate) struct OpenBranch {
    pub(crate) data: Branch,
    pub(crate) watches: Watches,
}

/// A branch on which a request runs, and the bench where it does.
pub(crate) struct Lent {
    id: u64,
    pub(crate) instant: u64,
    pub(crate) branch: Box<OpenBranch>,
    pub(crate) bench: Box<Bench>,
    /// Bytes that the branch may hold: beyond, it grows no more.
    pub(crate) bytes_max: usize,
}

/// Views since the start.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ViewCounts {
    /// Opened.
    pub(crate) opened: u64,
    /// Branches opened.
    pub(crate) branched: u64,
    /// Closed for want of memory, or to make place for another; branches, too.
    pub(crate) displaced: u64,
    /// Closed because nobody used them; branches, too.
    pub(crate) timed_out: u64,
}

impl Default for Views {
    fn default() -> Self {
        let machine_bytes = machine::machine_memory_bytes();
        Self { open: Vec::new(), bench: None, machine_bytes, counts: ViewCounts::default() }
    }
}

impl OpenView {
    pub(crate) fn is_branch(&self) -> bool {
        self.branch.is_some()
    }

    /// The data of a branch.
    pub(crate) fn data(&self) -> Option<&Branch> {
        Some(&self.branch.as_ref()?.branch.as_ref()?.data)
    }
}

impl Lent {
    /// While a request runs, who watches the branch is in the ledger of the bench.
    fn exchange_watches(&mut self) {
        std::mem::swap(&mut self.bench.ledger.watches, &mut self.branch.watches);
    }
}

impl Views {
    /// The open views.
    pub(crate) fn all(&self) -> impl Iterator<Item = &OpenView> {
        self.open.iter().filter(|view| !view.is_branch())
    }

    /// The open branches.
    pub(crate) fn branches(&self) -> impl Iterator<Item = &OpenView> {
        self.open.iter().filter(|view| view.is_branch())
    }

    /// Bytes that branches hold beside their views.
    pub(crate) fn branch_bytes(&self) -> usize {
        self.open.iter().filter_map(|view| view.branch.as_ref()).map(|held| held.bytes).sum()
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
        times: Times,
    ) -> Result<u64, Refusal> {
        let most = config.views_max as usize;
        let is_full = |views: &Self| views.all().count() >= most;
        if is_full(self) && (most == 0 || config.views_full == ViewsFull::Refuse) {
            return Err(FULL);
        }
        while is_full(self) {
            let oldest = self.open.iter().position(|view| !view.is_branch());
            self.end(keyspace, oldest.unwrap_or_default());
            self.counts.displaced += 1;
        }
        self.counts.opened += 1;
        Ok(self.add(keyspace, caller, random, times, None))
    }

    /// Opens a branch for a client: of the data as it is now, or as a view or another branch has
    /// it; returns its number.
    ///
    /// # Errors
    /// As many are open as may be, or there is nothing of this number.
    pub(crate) fn branch(
        &mut self,
        keyspace: &mut Keyspace,
        config: &Config,
        caller: &Caller,
        random: &mut Random,
        times: Times,
        from: Option<u64>,
    ) -> Result<u64, Refusal> {
        if self.branches().count() >= config.branches_max as usize {
            return Err(FULL_OF_BRANCHES);
        }
        let mut branch = Box::<OpenBranch>::default();
        let mut shared = None;
        if let Some(from) = from {
            let from = self.find(from).ok_or(NO_VIEW)?;
            let view = keyspace.view(from.instant).ok_or(NO_VIEW)?;
            if from.is_branch() {
                branch.data = from.data().ok_or(IN_USE)?.copied(&view);
            }
            from.used = times.turn;
            shared = Some((from.instant, from.taken));
        }
        let bytes = branch.data.bytes();
        let id = self.add(keyspace, caller, random, times, shared);
        if let Some(view) = self.open.last_mut() {
            view.branch = Some(Held { branch: Some(branch), bytes });
        }
        self.counts.branched += 1;
        Ok(id)
    }

    fn add(
        &mut self,
        keyspace: &mut Keyspace,
        caller: &Caller,
        random: &mut Random,
        Times { turn, now }: Times,
        shared: Option<(u64, Instant)>,
    ) -> u64 {
        let id = std::iter::repeat_with(|| random.bits() >> (u64::BITS - ID_BITS))
            .find(|&id| {
                id != 0 && !self.open.iter().any(|view| [view.id, view.instant].contains(&id))
            })
            .unwrap_or_default();
        let (instant, taken) = shared.unwrap_or((id, turn));
        if shared.is_none() {
            keyspace.open_view(id, now);
        }
        let Caller { id: client, place, .. } = *caller;
        let (opened, used, branch) = (turn, turn, None);
        self.open.push(OpenView { id, instant, taken, client, place, opened, used, branch });
        id
    }

    fn find(&mut self, id: u64) -> Option<&mut OpenView> {
        self.open.iter_mut().find(|view| view.id == id)
    }

    /// Notes that a view is used; returns the number by which the keyspace knows it.
    ///
    /// # Errors
    /// There is none of this number.
    pub(crate) fn touch(&mut self, id: u64, turn: Instant) -> Result<u64, Refusal> {
        let view = self.find(id).filter(|view| !view.is_branch()).ok_or(NO_VIEW)?;
        view.used = turn;
        Ok(view.instant)
    }

    /// As [`touch`](Self::touch), for a branch.
    ///
    /// # Errors
    /// There is none of this number.
    pub(crate) fn touch_branch(&mut self, id: u64, turn: Instant) -> Result<&OpenView, Refusal> {
        let view = self.find(id).filter(|view| view.is_branch()).ok_or(NO_BRANCH)?;
        view.used = turn;
        Ok(view)
    }

    /// Closes a view, or a branch.
    ///
    /// # Errors
    /// There is none of this number.
    pub(crate) fn close(
        &mut self,
        keyspace: &mut Keyspace,
        id: u64,
        is_branch: bool,
    ) -> Result<(), Refusal> {
        let at = self.open.iter().position(|view| view.id == id && view.is_branch() == is_branch);
        let at = at.ok_or(if is_branch { NO_BRANCH } else { NO_VIEW })?;
        self.end(keyspace, at);
        Ok(())
    }

    fn end(&mut self, keyspace: &mut Keyspace, at: usize) {
        let OpenView { instant, branch, .. } = self.open.remove(at);
        if self.open.iter().all(|view| view.instant != instant) {
            keyspace.close_view(instant);
        }
        let branch = branch.and_then(|held| held.branch);
        if let (Some(branch), Some(bench)) = (branch, &mut self.bench) {
            branch.data.close(&mut bench.keyspace);
        }
    }

    /// Closes the oldest view with all that share it, or gives it up if other threads read it;
    /// false if those that read have not noticed yet, or no view is open.
    fn displace(&mut self, keyspace: &mut Keyspace) -> bool {
        let oldest = keyspace.oldest_view();
        if self.open.iter().all(|view| Some(view.instant) != oldest) {
            let is_given_up = keyspace.give_up_read_view();
            self.counts.displaced += u64::from(is_given_up);
            return is_given_up;
        }
        while let Some(at) = self.open.iter().position(|view| Some(view.instant) == oldest) {
            self.end(keyspace, at);
            self.counts.displaced += 1;
        }
        true
    }

    /// Forgets what a client watches that was served on a branch.
    pub(crate) fn forget(&mut self, branch: Option<u64>, client: u64) {
        let view = branch.and_then(|id| self.find(id));
        let held = view.and_then(|view| view.branch.as_mut()?.branch.as_mut());
        held.into_iter().for_each(|held| held.watches.forget(client));
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
        if self.open.is_empty() && keyspace.read_views() == 0 {
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
                tracing::debug!("closing view {} of client {}", view.id, view.client);
                self.counts.timed_out += u64::from(is_there);
                self.end(keyspace, at);
            }
        }
        let most = config.views_memory.bytes(self.machine_bytes);
        if keyspace.stats().view_bytes as u64 > most && self.displace(keyspace) {
            tracing::warn!("closing the oldest view: see views-memory");
        }
    }

    /// Takes the bench, prepared for a request.
    fn bench(&mut self, keyspace: &Keyspace, ledger: &Ledger) -> Result<Box<Bench>, Refusal> {
        let mut bench = match self.bench.take() {
            Some(bench) => bench,
            None => Box::new(Bench::new(keyspace, ledger)?),
        };
        bench.prepare(keyspace, ledger);
        Ok(bench)
    }

    /// Runs a command that reads `keys` of database `caller.db` as it is in a view.
    ///
    /// # Errors
    /// There is no such view; or the refusal of the command.
    pub(crate) fn run(
        &mut self,
        keyspace: &Keyspace,
        ledger: &Ledger,
        instant: u64,
        caller: &mut Caller,
        Read { handler, keys, args }: Read<'_>,
        out: Out<'_>,
    ) -> Result<(), Refusal> {
        let view = keyspace.view(instant).ok_or(NO_VIEW)?;
        let mut bench = self.bench(keyspace, ledger)?;
        let (db, now) = (caller.db, view.now());
        let keys: Vec<(usize, &[u8])> = keys.iter().map(|key| (db, *key)).collect();
        let mut unchanged = Branch::default();
        let laid = unchanged.lay(&view, &mut bench.keyspace, &keys, now);
        let outcome = laid.map_err(Refusal::from).and_then(|()| {
            let Bench { keyspace, ledger } = &mut *bench;
            handler(&mut stillframe_commands::Context { keyspace, ledger, caller, out, now }, args)
        });
        unchanged.take_back(&view, &mut bench.keyspace, &keys);
        self.bench = Some(bench);
        outcome
    }

    /// Takes a branch, for a request to run on it.
    ///
    /// # Errors
    /// There is none of this number, or a request runs on it.
    pub(crate) fn lend(
        &mut self,
        keyspace: &Keyspace,
        ledger: &Ledger,
        config: &Config,
        id: u64,
        turn: Instant,
    ) -> Result<Lent, Refusal> {
        let instant = self.touch_branch(id, turn)?.instant;
        let most = config.branches_memory.bytes(self.machine_bytes) as usize;
        let others = self.branch_bytes();
        let bench = self.bench(keyspace, ledger)?;
        let held = self.find(id).and_then(|view| view.branch.as_mut());
        let Some((branch, bytes)) = held.and_then(|it| Some((it.branch.take()?, it.bytes))) else {
            self.bench = Some(bench);
            return Err(IN_USE);
        };
        let bytes_max = most.saturating_sub(others - bytes);
        let mut lent = Lent { id, instant, branch, bench, bytes_max };
        lent.exchange_watches();
        Ok(lent)
    }

    /// Takes a branch back, which may have been closed meanwhile.
    pub(crate) fn give_back(&mut self, mut lent: Lent) {
        lent.exchange_watches();
        let Lent { id, branch, mut bench, .. } = lent;
        match self.find(id).and_then(|view| view.branch.as_mut()) {
            Some(held) => *held = Held { bytes: branch.data.bytes(), branch: Some(branch) },
            None => branch.data.close(&mut bench.keyspace),
        }
        self.bench = Some(bench);
    }
}
