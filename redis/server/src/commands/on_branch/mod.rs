//! How a request runs on a branch: with a bench in place of the keyspace, where the keys that it
//! names are laid, and with a ledger that nobody reads.
//!
//! - A request of a client that uses a branch is checked as `STILLFRAME BRANCH RUN` of it: its user
//!   needs the rights to the command and the keys, and what protects the data and its replicas is
//!   not asked.
//! - What works on keys runs on the branch, also from scripts and transactions, whose requests are
//!   laid one after the other. What works on the server runs beside the branch, as ever. What
//!   would answer from the data of now, or reach others, is refused.
//! - Nothing that a branch does is counted as a change, logged, sent to replicas, or told to
//!   anyone; clients that watch keys of the same branch see it.

pub(crate) mod mutants;
mod whole;

use std::mem::swap;

use stillframe_commands::facts::BranchMode;
use stillframe_commands::{Handler, Ledger, Refusal, parse_db, read_by_sort, transactions};
use stillframe_keyspace::{Branch, Keyspace};

use super::{Command, Context, flags, handle, permissions, show};
use crate::data::views::{Bench, Lent, NO_BRANCH};
use mutants::{Mutant, is_made};

/// The flags of a request on a branch: those of `STILLFRAME BRANCH RUN`.
const FLAGS: u32 = flags::READONLY;

/// What branches hold is at its limit.
pub(super) const FULL: Refusal =
    Refusal::new("OOM command not allowed when branches hold more than 'branches-memory'.");

/// The branch on which a request runs.
pub(crate) struct OnBranch<'a> {
    /// The data of now.
    live: &'a mut Keyspace,
    /// The ledger of the data of now, while that of the branch is in its place.
    ledger: &'a mut Ledger,
    /// The view of that data.
    instant: u64,
    data: &'a mut Branch,
    bytes_max: usize,
}

impl OnBranch<'_> {
    pub(super) fn reborrow(&mut self) -> OnBranch<'_> {
        let Self { live, ledger, instant, data, bytes_max } = self;
        OnBranch { live, ledger, instant: *instant, data, bytes_max: *bytes_max }
    }

    /// Whether the branch may not grow.
    pub(super) fn is_full(&self) -> bool {
        self.data.bytes() > self.bytes_max
    }
}

/// How a command runs on a branch: as the list says, else by its handler and flags.
pub(super) fn mode(command: &Command) -> BranchMode {
    let by_handler = || match command.handler {
        Handler::Exec => BranchMode::Requests,
        Handler::Data(_) => BranchMode::Keys,
        Handler::Server(_) => {
            let reaches = flags::READONLY | flags::WRITE | flags::MAY_REPLICATE;
            if command.has(reaches) { BranchMode::Refused } else { BranchMode::Live }
        }
    };
    command.facts.branch_mode.unwrap_or_else(by_handler)
}

/// The branch on which a request of this client runs that asks for a command.
#[inline]
pub(super) fn branch_for(ctx: &Context<'_>, command: &Command) -> Option<u64> {
    ctx.session.branch.filter(|_| ctx.branch.is_some() || mode(command) != BranchMode::Live)
}

/// The flags of a request: those of its command, or what its script says of itself.
#[inline]
pub(super) fn flags_of(ctx: &Context<'_>, command: &Command, args: &[&[u8]]) -> u32 {
    match command.has(flags::SKIP_MONITOR) {
        _ if branch_for(ctx, command).is_some() => FLAGS,
        // as scripts, which show themselves
        true => ctx.server.scripts.flags_of(command, args, ctx.keyspace.libraries()),
        false => command.flags,
    }
}

/// Whether a client's request may run on its branch, or be queued for it.
///
/// # Errors
/// Why it may not. If the branch is gone, so is an open transaction.
pub(super) fn admit(ctx: &mut Context<'_>, id: u64, command: &Command) -> Result<(), Refusal> {
    if let Some(refusal) = permissions::denied_branches(ctx) {
        return Err(refusal);
    }
    if let Err(gone) = ctx.server.views.touch_branch(id, ctx.server.clock.turn()) {
        transactions::close(&mut ctx.server.ledger, &mut ctx.session.caller);
        return Err(gone);
    }
    if mode(command) == BranchMode::Refused { Err(not_on_a_branch(command)) } else { Ok(()) }
}

fn not_on_a_branch(command: &Command) -> Refusal {
    format!(
        "ERR '{}' does not run on a branch, which this connection uses: STILLFRAME BRANCH USE OFF \
         ends that",
        command.name
    )
    .into()
}

/// Runs a client's request on its branch.
pub(super) fn run(ctx: &mut Context<'_>, id: u64, index: usize, args: &[&[u8]]) {
    if ctx.server.hub.is_monitored() {
        let number = id.to_string();
        let shown: [&[u8]; 4] = [b"stillframe", b"branch", b"run", number.as_bytes()];
        show(ctx, &[&shown[..], args].concat());
    }
    if let Err(refusal) = on(ctx, id, |ctx| super::run(ctx, index, args)) {
        ctx.answer_refusal(refusal);
    }
}

/// Does something on a branch.
///
/// # Errors
/// There is no such branch, or a request runs on it.
pub(super) fn on<R>(
    ctx: &mut Context<'_>,
    id: u64,
    act: impl FnOnce(&mut Context<'_>) -> R,
) -> Result<R, Refusal> {
    let Context { keyspace, server, session, out, now, table, refused, meanwhile, .. } = ctx;
    let turn = server.clock.turn();
    let mut lent = server.views.lend(keyspace, &server.ledger, &server.config, id, turn)?;
    let Lent { instant, branch, bench, bytes_max, .. } = &mut lent;
    let Bench { keyspace: bench, ledger } = &mut **bench;
    exchange(&mut server.ledger, ledger);
    let mut inner = Context {
        keyspace: bench,
        server,
        session,
        out: out.reborrow(),
        now: *now,
        table,
        refused: refused.take(),
        meanwhile: meanwhile.as_deref_mut(),
        branch: Some(OnBranch {
            live: keyspace,
            ledger,
            instant: *instant,
            data: &mut branch.data,
            bytes_max: *bytes_max,
        }),
    };
    let result = act(&mut inner);
    *refused = inner.refused;
    exchange(&mut server.ledger, ledger);
    server.views.give_back(lent);
    Ok(result)
}

/// Puts the ledger that nobody reads into the place of the server's, or back.
fn exchange(ledger: &mut Ledger, other: &mut Ledger) {
    if !is_made(Mutant::SharesTheLedger) {
        swap(ledger, other);
    }
}

/// Does something beside the branch on which the request under way runs, if it does.
pub(super) fn beyond<R>(ctx: &mut Context<'_>, act: impl FnOnce(&mut Context<'_>) -> R) -> R {
    let Some(on) = &mut ctx.branch else { return act(ctx) };
    exchange(&mut ctx.server.ledger, on.ledger);
    let in_exec = std::mem::replace(&mut ctx.server.ledger.in_exec, true);
    let mut outer = Context {
        keyspace: on.live,
        server: ctx.server,
        session: ctx.session,
        out: ctx.out.reborrow(),
        now: ctx.now,
        table: ctx.table,
        refused: ctx.refused.take(),
        meanwhile: ctx.meanwhile.as_deref_mut(),
        branch: None,
    };
    let result = act(&mut outer);
    ctx.refused = outer.refused;
    ctx.server.ledger.in_exec = in_exec;
    exchange(&mut ctx.server.ledger, on.ledger);
    result
}

/// Runs a command on the branch of the request under way.
pub(super) fn call(
    ctx: &mut Context<'_>,
    command: &Command,
    args: &[&[u8]],
) -> Result<(), Refusal> {
    let in_script = ctx.server.ledger.in_script;
    let is_full = || ctx.branch.as_ref().is_some_and(OnBranch::is_full);
    let writes = command.has(flags::WRITE);
    let mode = match mode(command) {
        BranchMode::Keys if is_made(Mutant::WritesBeside) && writes => BranchMode::Live,
        BranchMode::Whole if is_made(Mutant::WalksBeside) => BranchMode::Live,
        BranchMode::Requests if is_made(Mutant::ScriptsLeave) && !command.is_exec() => {
            BranchMode::Live
        }
        mode => mode,
    };
    match mode {
        // A script began when there was room.
        _ if command.has(flags::DENYOOM) && !in_script && is_full() => Err(FULL),
        BranchMode::Keys | BranchMode::Connection => {
            let read = read_by_patterns(ctx, command, args);
            let db = ctx.session.caller.db;
            let mut keys = named(command, db, args);
            keys.extend(read.iter().map(|key| (db, &key[..])));
            on_keys(ctx, &keys, |ctx| handle(ctx, command, args))?
        }
        BranchMode::Whole => whole::run(ctx, command, args),
        BranchMode::Requests => handle(ctx, command, args),
        BranchMode::Live => beyond(ctx, |ctx| handle(ctx, command, args)),
        BranchMode::Refused => Err(not_on_a_branch(command)),
    }
}

/// Databases and keys that a request names.
fn named<'a>(command: &Command, db: usize, args: &[&'a [u8]]) -> Vec<(usize, &'a [u8])> {
    let keys = command.keys.in_request(args);
    let others: Vec<usize> = match (command.name, args) {
        ("move", [_, _, to]) => parse_db(to).into_iter().collect(),
        ("copy", [_, _, _, options @ ..]) => {
            let pairs = options.windows(2).filter(|pair| pair[0].eq_ignore_ascii_case(b"db"));
            pairs.filter_map(|pair| parse_db(pair[1]).ok()).collect()
        }
        _ => Vec::new(),
    };
    let others = if is_made(Mutant::LaysOneDatabase) { Vec::new() } else { others };
    let dbs = std::iter::once(db).chain(others);
    dbs.flat_map(|db| keys.iter().map(move |key| (db, *key))).collect()
}

/// Keys that SORT reads and does not name.
fn read_by_patterns(ctx: &Context<'_>, command: &Command, args: &[&[u8]]) -> Vec<Vec<u8>> {
    let Some(on) = ctx.branch.as_ref().filter(|_| ["sort", "sort_ro"].contains(&command.name))
    else {
        return Vec::new();
    };
    let Some(view) = on.live.view(on.instant) else { return Vec::new() };
    if is_made(Mutant::ForgetsPatterns) {
        return Vec::new();
    }
    read_by_sort(args, on.data.get(&view, ctx.session.caller.db, args[1], ctx.now))
}

/// Does something while keys are laid on the bench; nothing is laid where no branch is used.
///
/// # Errors
/// The branch is gone, or the bench has no room.
fn on_keys<R>(
    ctx: &mut Context<'_>,
    keys: &[(usize, &[u8])],
    act: impl FnOnce(&mut Context<'_>) -> R,
) -> Result<R, Refusal> {
    if let Some(on) = &mut ctx.branch {
        let view = on.live.view(on.instant).ok_or(NO_BRANCH)?;
        on.data.lay(&view, ctx.keyspace, keys, ctx.now)?;
    }
    let result = act(ctx);
    if let Some(on) = &mut ctx.branch {
        match on.live.view(on.instant) {
            Some(view) => on.data.take_back(&view, ctx.keyspace, keys),
            None => *on.data = Branch::default(),
        }
    }
    Ok(result)
}

/// As [`on_keys`], for all keys that the client watches there.
///
/// # Errors
/// As for [`on_keys`].
pub(super) fn on_watched<R>(
    ctx: &mut Context<'_>,
    act: impl FnOnce(&mut Context<'_>) -> R,
) -> Result<R, Refusal> {
    let watched = match ctx.branch {
        Some(_) if !is_made(Mutant::ForgetsTheWatched) => {
            ctx.server.ledger.watches.keys_of(ctx.session.caller.id)
        }
        _ => Vec::new(),
    };
    let keys: Vec<(usize, &[u8])> = watched.iter().map(|(db, key)| (*db, &key[..])).collect();
    on_keys(ctx, &keys, act)
}

/// The client uses no branch any more.
pub(super) fn leave(ctx: &mut Context<'_>) {
    let branch = ctx.session.branch.take();
    ctx.server.views.forget(branch, ctx.session.caller.id);
}
