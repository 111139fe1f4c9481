//! What a command sees, and the path of a request from its arguments to its handler.
//!
//! - A handler runs alone, to the end: between two handlers the data set is at a point of
//!   consistency.
//! - A request that is refused before its handler runs makes an open transaction fail.
//! - Handlers never panic on a client's bytes.

mod absent;
mod acl;
mod admin;
mod branches;
mod client;
mod client_kinds;
mod client_line;
mod cluster;
mod connection;
mod debug;
pub(crate) mod figures;
mod functions;
mod hotkeys;
mod info;
mod introspect;
mod lolwut;
pub(crate) mod migrate;
pub(crate) mod monitor;
mod monitoring;
pub(crate) mod on_branch;
mod permissions;
mod persistence;
mod pubsub;
mod redirects;
mod refusals;
mod replay;
mod replication;
mod scripts;
mod stillframe;
#[cfg(test)]
mod table_tests;
mod tracking;
mod transactions;
mod units;
mod views;

use std::time::Duration;

use stillframe_commands::errors::wrong_arity;
use stillframe_commands::{Effects, Handler, Refusal, categories};
use stillframe_keyspace::Keyspace;
use stillframe_resp::Out;

pub(crate) use refusals::refuses_writes;
use refusals::{is_http, may_run, refuse, reject, unknown_command, unknown_subcommand};
pub(crate) use replay::{Alone, Replay, replay, replay_units};
pub(crate) use stillframe_commands::{Lookup, flags};

use crate::connections::client::{Replica, Replies, Session};
use crate::connections::hub::Delivery;
use crate::node::meter::{self, Traits};
use crate::state::ServerState;
use on_branch::OnBranch;

/// Runs one command that needs the server. `args[0]` is the name; the caller has checked the arity.
/// Writes exactly one reply, or returns why the command is not done.
pub(crate) type ServerHandler = fn(&mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal>;

/// Every command of the server.
pub(crate) type Table = stillframe_commands::Table<ServerHandler>;

/// One command or sub-command.
pub(crate) type Command = stillframe_commands::Command<ServerHandler>;

/// Works on sockets in the middle of a request.
pub(crate) trait Meanwhile {
    /// Serves those that have sent something, and waits for none.
    fn serve_others(&mut self, keyspace: &mut Keyspace, server: &mut ServerState, table: &Table);
    /// Has I/O threads end the connections of clients that are to be removed.
    fn hang_up(&mut self, server: &ServerState);
}

/// Everything a command may use.
pub(crate) struct Context<'a> {
    /// The data.
    pub(crate) keyspace: &'a mut Keyspace,
    /// Configuration, counters, the other clients.
    pub(crate) server: &'a mut ServerState,
    /// The client's own state.
    pub(crate) session: &'a mut Session,
    /// The output for the reply.
    pub(crate) out: Out<'a>,
    /// Unix time in milliseconds, the same throughout one command (and one EXEC).
    pub(crate) now: i64,
    /// All commands.
    pub(crate) table: &'a Table,
    /// Why the request was refused, once that is answered and counted. Of EXEC in a replay, also
    /// why the first of its requests was.
    pub(crate) refused: Option<Refusal>,
    /// Serves other clients while this one's script runs; a replay serves none.
    pub(crate) meanwhile: Option<&'a mut (dyn Meanwhile + 'static)>,
    /// The branch on which the request runs: the keyspace is then its bench, and the ledger one
    /// that nobody reads.
    pub(crate) branch: Option<OnBranch<'a>>,
}

impl Context<'_> {
    /// The part that commands on data may use.
    #[inline]
    pub(crate) fn data(&mut self) -> stillframe_commands::Context<'_> {
        stillframe_commands::Context {
            keyspace: self.keyspace,
            ledger: &mut self.server.ledger,
            caller: &mut self.session.caller,
            out: self.out.reborrow(),
            now: self.now,
        }
    }

    /// The context of a request that the one under way makes, which replies elsewhere.
    fn within<'b>(&'b mut self, out: Out<'b>) -> Context<'b> {
        Context {
            keyspace: self.keyspace,
            server: self.server,
            session: self.session,
            out,
            now: self.now,
            table: self.table,
            refused: None,
            meanwhile: self.meanwhile.as_deref_mut(),
            branch: self.branch.as_mut().map(OnBranch::reborrow),
        }
    }

    /// Replies with a refusal, and counts it among the errors.
    #[cold]
    fn answer_refusal(&mut self, refusal: Refusal) {
        self.server.meter.answered_error(refusal.text());
        self.out.error(&refusal);
        self.refused.get_or_insert(refusal);
    }
}

/// The table of every command.
pub(crate) fn table() -> Table {
    let mut table = Table::empty();
    stillframe_commands::register(&mut table);
    connection::register(&mut table);
    absent::register(&mut table);
    acl::register(&mut table);
    admin::register(&mut table);
    client::register(&mut table);
    cluster::register(&mut table);
    tracking::register(&mut table);
    hotkeys::register(&mut table);
    info::register(&mut table);
    introspect::register(&mut table);
    persistence::register(&mut table);
    replication::register(&mut table);
    pubsub::register(&mut table);
    monitor::register(&mut table);
    monitoring::register(&mut table);
    lolwut::register(&mut table);
    migrate::register(&mut table);
    debug::register(&mut table);
    scripts::register(&mut table);
    stillframe::register(&mut table);
    functions::register(&mut table);
    table
}

/// Runs one request and replies, unless the client wants no reply.
pub(crate) fn dispatch(ctx: &mut Context<'_>, args: &[&[u8]]) {
    if ctx.session.replies == Replies::Sent {
        answer(ctx, args)
    } else {
        silenced(ctx, args)
    }
    if ctx.server.hub.tracks() {
        finish_tracking(ctx);
    }
}

/// The work after a request while clients track changes.
#[cold]
pub(crate) fn finish_tracking(ctx: &mut Context<'_>) {
    let to = &mut Delivery::new(&mut ctx.server.clients, &ctx.server.config, &ctx.server.clock);
    ctx.server.hub.limit_tracking(to);
    ctx.server.hub.send_late(to, ctx.session, &mut ctx.out);
    let own = ctx.table.all().get(ctx.session.caller.last_command);
    if ctx.session.caller.transaction.is_none()
        && let Some(mode) = &mut ctx.session.tracking
        && own.is_none_or(|command| command.name != "client|caching")
    {
        mode.caching = false;
    }
}

/// Runs a request whose reply is dropped, but not its messages.
#[cold]
fn silenced(ctx: &mut Context<'_>, args: &[&[u8]]) {
    if ctx.session.replies == Replies::SkipNext {
        ctx.session.replies = Replies::Skip;
    }
    let start = ctx.out.position();
    ctx.server.clients.silence(true);
    answer(ctx, args);
    ctx.server.clients.silence(false);
    // A request that is postponed or blocks replies later, and that reply is the one to skip.
    let replies_later = ctx.session.postponed.is_some() || ctx.session.caller.waits;
    if !replies_later && ctx.session.drops_reply() {
        if ctx.session.replica.as_deref().is_some_and(Replica::is_real) {
            disown_reply(ctx, args, start);
        }
        ctx.out.buffer.truncate(start);
    }
    ctx.out.buffer.append(ctx.server.clients.waiting_mail());
}

/// A replica receives only the stream. One that asks for a reply would wait in vain: its connection
/// is closed, as in Redis.
fn disown_reply(ctx: &mut Context<'_>, args: &[&[u8]], start: usize) {
    if ctx.out.position() == start {
        return;
    }
    let name = match ctx.table.lookup(args) {
        Lookup::Found(index) => ctx.table.get(index).name.to_owned(),
        _ => args.first().map(|name| name.escape_ascii().to_string()).unwrap_or_default(),
    };
    let peer = &ctx.session.caller.peer;
    if let Some(refusal) = &ctx.refused {
        ctx.server.meter.met_unexpected_error();
        let error = refusal.to_string();
        tracing::warn!(
            "== CRITICAL == This master is sending an error to its replica: '{}' after processing \
             the command '{name}'",
            error.trim_ascii_end()
        );
    }
    tracing::warn!("Replica generated a reply to command '{name}', disconnecting it: {peer}");
    ctx.session.closing = true;
}

/// Handles one request, from the lookup of its command on.
fn answer(ctx: &mut Context<'_>, args: &[&[u8]]) {
    let found = match ctx.session.caller.internal {
        true => ctx.table.lookup(args),
        false => ctx.table.lookup_for_client(args),
    };
    let index = match found {
        Lookup::Found(index) => index,
        Lookup::Unknown if is_http(args) => {
            tracing::warn!(
                "closing client {} at {}: it speaks HTTP, as an attack through a browser would",
                ctx.session.caller.id,
                ctx.session.caller.peer
            );
            ctx.session.closing = true;
            return;
        }
        Lookup::Unknown => return reject(ctx, unknown_command(args)),
        Lookup::UnknownSubcommand => return reject(ctx, unknown_subcommand(args)),
    };
    match ctx.table.real_name(index, args[0]) {
        // From here on everything, logs and replicas included, sees the real name.
        Some(name) if !ctx.session.caller.internal => {
            check(ctx, index, &[&[name.as_bytes()], &args[1..]].concat(), args[0])
        }
        _ => check(ctx, index, args, args[0]),
    }
}

/// Keeps a request until it may run, as its client has sent it: it is looked up again then, or by
/// another server.
#[cold]
fn postpone(ctx: &mut Context<'_>, index: usize, args: &[&[u8]], given: &[u8]) {
    let args = [&[given], &args[1..]].concat();
    let flags = ctx.table.get(index).flags;
    ctx.session.postponed.get_or_insert_default().push(index, flags, &args);
}

/// Checks that a request, whose command the client gave this name, may run now; then runs or queues
/// it.
fn check(ctx: &mut Context<'_>, index: usize, args: &[&[u8]], given: &[u8]) {
    let command = ctx.table.get(index);
    ctx.session.caller.last_command = index; // in any case: ACL LOG shows it
    if !command.accepts(args.len()) {
        return refuse(ctx, index, wrong_arity(command.name));
    }
    let outcome = may_run(ctx, index, args);
    if ctx.server.group.forwards() && redirects::forwards(ctx, command, outcome.as_ref().copied()) {
        ctx.session.to_forward = true;
        return postpone(ctx, index, args, given);
    }
    let needs = match outcome {
        Ok(needs) => needs,
        Err(refusal) => return refuse(ctx, index, refusal),
    };
    let branch = on_branch::branch_for(ctx, command);
    if let Some(id) = branch
        && let Err(refusal) = on_branch::admit(ctx, id, command)
    {
        return refuse(ctx, index, refusal);
    }
    let may_wait = !ctx.session.caller.internal && ctx.session.replica.is_none();
    if ctx.server.postpones() && may_wait && ctx.server.postpones_request(needs) {
        return postpone(ctx, index, args, given);
    }
    if ctx.session.caller.transaction.is_some() && !command.has(flags::NOT_QUEUED) {
        transactions::queue(ctx, index, args);
        return;
    }
    match branch {
        Some(id) => on_branch::run(ctx, id, index, args),
        None => run(ctx, index, args),
    }
}

/// Calls a command whose lookups are no uses of keys, unless it is TOUCH.
#[cold]
fn call_untouching(ctx: &mut Context<'_>, index: usize, args: &[&[u8]]) {
    let spares = ctx.table.get(index).name != "touch";
    let before = ctx.keyspace.spare_uses(spares);
    call(ctx, index, args);
    ctx.keyspace.spare_uses(before);
}

/// Runs a command that was looked up and checked, replies if it refuses, and counts it.
pub(crate) fn run(ctx: &mut Context<'_>, index: usize, args: &[&[u8]]) {
    let start = ctx.out.buffer.len();
    let start_of_reply = ctx.server.meter.hotkeys.is_some().then(|| hotkeys::reply_bytes(&ctx.out));
    let begun_ns = ctx.server.clock.ns();
    let dirty = ctx.server.ledger.dirty;
    ctx.session.caller.last_command = index;
    ctx.server.ledger.begin(ctx.keyspace, ctx.session.caller.db);
    let command = ctx.table.get(index);
    if ctx.session.touches_nothing {
        call_untouching(ctx, index, args);
    } else {
        call(ctx, index, args);
    }
    if ctx.keyspace.has_expired() {
        ctx.server.ledger.note_expired(ctx.keyspace);
    }
    ctx.server.send_events();
    if !ctx.session.caller.waits {
        note_shown(ctx, command, args);
    }
    if ctx.server.ledger.effects.wanted() {
        note_effects(ctx, args, ctx.server.ledger.dirty > dirty);
    }
    if ctx.server.hub.is_monitored() && !command.has(flags::ADMIN | flags::SKIP_MONITOR) {
        show(ctx, args);
    }
    // A script remembers its own keys once it reads.
    let reads = command.has(flags::READONLY) && !command.has(flags::SKIP_MONITOR);
    let reads = reads && ctx.branch.is_none();
    if ctx.session.tracking.is_some() && reads && !ctx.server.scripts.is_asking() {
        ctx.server.hub.remember_read(ctx.session, &command.keys.in_request(args));
    }
    if let Some(start_of_reply) = start_of_reply {
        hotkeys::note(ctx, command, args, begun_ns, start_of_reply);
    }
    if ctx.session.caller.waits {
        return; // it counts when it is served or gives up
    }
    ctx.server.clock.read();
    let took_ns = ctx.server.clock.ns().saturating_sub(begun_ns);
    if meter::is_long(&ctx.server.config, took_ns) && !ctx.session.caller.internal {
        let traits = Traits {
            is_fast: command.has(flags::FAST),
            is_skipped: command.has(flags::SKIP_SLOWLOG),
        };
        let (session, took) = (&*ctx.session, Duration::from_nanos(took_ns));
        let ServerState { meter, config, .. } = &mut *ctx.server;
        meter.note_time(config, &session.caller, &session.name, args, took, traits);
    }
    ctx.server.meter.ran(index, took_ns, ctx.server.config.latency_tracking);
    if let Some(mail) = ctx.server.clients.due_mail() {
        if ctx.out.is_full() {
            mail.clear();
        }
        ctx.out.buffer.splice(start..start, mail.drain(..));
        ctx.session.shows_data = true; // it may be of keys
    }
}

/// Notes for what the reply waits: the group, or the log.
#[inline]
fn note_shown(ctx: &mut Context<'_>, command: &Command, args: &[&[u8]]) {
    if let Some(member) = ctx.server.group.member_mut() {
        if shows_data(command, member.serves()) {
            ctx.session.shows_data = true;
            if ctx.branch.is_none() {
                member.note_access();
            }
        }
    } else if !ctx.server.ledger.effects.know_changes() || !shows_keys_alone(ctx, command, args) {
        ctx.session.shows_data = true;
    }
}

/// Whether the reply to a request shows nothing but the keys that it names, which are noted, or
/// nothing at all.
#[cold]
fn shows_keys_alone(ctx: &mut Context<'_>, command: &Command, args: &[&[u8]]) -> bool {
    /// Keys of one client in a turn.
    const KEYS_MAX: usize = 1024;
    if command.facts.categories & categories::bit(b"connection").unwrap_or(0) != 0 {
        return true;
    }
    // A script or a pattern may ask for others.
    let asks_others = command.has(flags::SKIP_MONITOR) || command.name == "sort_ro";
    let is_one = command.has(flags::READONLY) && !asks_others && ctx.branch.is_none();
    let keys = if is_one { command.keys.in_request(args) } else { Vec::new() };
    let reads = &mut ctx.session.reads;
    if keys.is_empty() || keys.len() + reads.len() > KEYS_MAX {
        return false;
    }
    reads.extend(keys.into_iter().map(Effects::place));
    true
}

/// Whether the reply to a command shows data. So do some that are neither read nor write,
/// where this member `serves`; EXEC says whether a watched key has changed. What shows this server
/// to people (INFO, DEBUG) does not count: it answers the same whichever member leads.
fn shows_data(command: &Command, serves: bool) -> bool {
    if command.has(flags::READONLY | flags::WRITE) {
        return command.name != "lolwut"; // a read of nothing
    }
    let slots = ["cluster|countkeysinslot", "cluster|getkeysinslot", "cluster|slot-stats"];
    let others = ["function|dump", "function|list", "wait", "waitaof"];
    let is_one = command.is_exec() || slots.contains(&command.name);
    serves && (is_one || others.contains(&command.name))
}

/// Shows a request to the clients in MONITOR.
#[cold]
fn show(ctx: &mut Context<'_>, args: &[&[u8]]) {
    // What runs on a branch is shown with the branch.
    if ctx.server.storage.loading().is_none() && ctx.branch.is_none() {
        let to = &mut Delivery::new(&mut ctx.server.clients, &ctx.server.config, &ctx.server.clock);
        let by_script = ctx.server.scripts.is_asking();
        ctx.server.hub.show_request(to, ctx.session, &mut ctx.out, args, by_script);
    }
}

/// Calls the handler of a command.
#[inline]
fn handle(ctx: &mut Context<'_>, command: &Command, args: &[&[u8]]) -> Result<(), Refusal> {
    match command.handler {
        Handler::Data(handler) => handler(&mut ctx.data(), args),
        Handler::Server(handler) => handler(ctx, args),
        Handler::Exec => transactions::exec(ctx),
    }
}

/// Calls the handler of a command. If it refuses, the refusal replaces its output.
#[inline]
fn call(ctx: &mut Context<'_>, index: usize, args: &[&[u8]]) {
    let start = ctx.out.position();
    let command = ctx.table.get(index);
    // A client's write at a writable replica first deletes expired keys, as at a primary: a clock
    // that stands still replays its log.
    let deletes = command.has(flags::WRITE) && !ctx.session.caller.internal;
    let deletes = deletes && ctx.server.replication.is_replica() && ctx.branch.is_none();
    if deletes {
        ctx.keyspace.spare_expired(false);
    }
    let outcome = match ctx.branch {
        None => handle(ctx, command, args),
        Some(_) => on_branch::call(ctx, command, args),
    };
    if let Err(refusal) = outcome {
        ctx.out.buffer.truncate(start);
        ctx.server.meter.failed(index);
        ctx.answer_refusal(refusal);
    }
    if deletes {
        ctx.keyspace.spare_expired(ctx.server.spares_expired());
        let db = ctx.session.caller.db;
        ctx.server.replication.remember_own(ctx.keyspace, command, db, args);
    }
}

/// Keeps the effects of the handler that has just run: its own, or, if it changed anything, the
/// request itself.
#[inline(never)]
fn note_effects(ctx: &mut Context<'_>, args: &[&[u8]], changed: bool) {
    let Context { server, session, .. } = ctx;
    let effects = &mut server.ledger.effects;
    let stated = effects.take_stated();
    if changed && !stated {
        effects.add(session.caller.db, args);
    }
    if !server.ledger.in_exec {
        effects.seal();
    }
    if changed {
        session.in_doubt = server.group.member().is_some();
        session.wrote_up_to = match server.group.member() {
            Some(member) => member.next_stamp(),
            None => server.replication.stream().end() + effects.stream_bytes() as u64,
        };
    }
}
