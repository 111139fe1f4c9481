//! Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH.

use stillframe::Algorithm;

use super::{Context, Table};

/// Adds the commands of this module.
pub(crate) fn register<A: Algorithm>(_table: &mut Table<A>) {}

/// An open transaction.
#[derive(Default)]
pub(crate) struct Transaction {
    /// The requests to run.
    pub(crate) queued: Vec<Queued>,
    /// Bytes the queue holds, for the query buffer limit.
    pub(crate) bytes: usize,
    /// A request was refused: EXEC will refuse them all.
    pub(crate) failed: bool,
}

/// A request that waits for EXEC.
pub(crate) struct Queued {
    /// Index of the command in the table.
    pub(crate) command: usize,
    /// Its arguments, the name included.
    pub(crate) args: Vec<Box<[u8]>>,
}

/// Which keys are watched by which clients, and whose have changed.
#[derive(Default)]
pub(crate) struct Watches {}

impl Watches {
    /// Forgets what a client watched: it ran EXEC, DISCARD or UNWATCH, or went away.
    pub(crate) fn forget(&mut self, _client: u64) {}
}

/// Queues a request for EXEC and answers `QUEUED`.
pub(crate) fn queue<A: Algorithm>(ctx: &mut Context<'_, A>, command: usize, args: &[&[u8]]) {
    let Some(transaction) = &mut ctx.session.transaction else { return };
    let args: Vec<Box<[u8]>> = args.iter().map(|&arg| arg.into()).collect();
    transaction.bytes += args.iter().map(|arg| arg.len() + size_of::<Box<[u8]>>()).sum::<usize>();
    transaction.queued.push(Queued { command, args });
    ctx.out.simple("QUEUED");
}
