//! Scripts: EVAL, EVALSHA, their read-only forms, SCRIPT.
//!
//! A script is one request: it runs within one turn of the command thread, and what its requests
//! did is one unit for log and replicas, as a transaction. Its requests are checked as those of
//! its client are, and counted as commands of their own.

use std::time::Duration;

use stillframe_commands::errors::NOT_AN_INTEGER;
use stillframe_commands::flags::NOSCRIPT;
use stillframe_commands::{Audience, Refusal};
use stillframe_resp::{Out, Protocol};
use stillframe_script::{
    Call, Flags, Host, Level, LoadError, NotACommand, Propagation, RunError, Sha, Verdict,
};

use super::redirects::elsewhere_for_script;
use super::refusals::{OUT_OF_MEMORY, STALE, is_stale, may_not_begin_to_write, may_not_write};
use super::units::outgrows_unit;
use super::{Command, Context, Lookup, Table, flags, on_branch, permissions, run};
use crate::data::scripts::{Kind, Run, log};
use crate::node::acl::Denied;
use crate::node::machine;

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("eval", eval);
    table.add_server("evalsha", evalsha);
    table.add_server("eval_ro", eval_ro);
    table.add_server("evalsha_ro", evalsha_ro);
    table.add_server("script", help);
    table.add_server("script|debug", debug);
    table.add_server("script|exists", exists);
    table.add_server("script|flush", flush);
    table.add_server("script|help", help);
    table.add_server("script|kill", kill);
    table.add_server("script|load", load);
}

fn eval(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    evaluate(ctx, args, false)
}

fn eval_ro(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    evaluate(ctx, args, true)
}

fn evalsha(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    evaluate_loaded(ctx, args, false)
}

fn evalsha_ro(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    evaluate_loaded(ctx, args, true)
}

fn evaluate(ctx: &mut Context<'_>, args: &[&[u8]], reads: bool) -> Result<(), Refusal> {
    show_first(ctx, args);
    let keys = count_keys(args)?;
    let sha = ctx.server.engine_of_scripts()?.load(args[1]).map_err(unloadable)?;
    execute(ctx, sha, keys, reads, args)
}

fn evaluate_loaded(ctx: &mut Context<'_>, args: &[&[u8]], reads: bool) -> Result<(), Refusal> {
    show_first(ctx, args);
    let keys = count_keys(args)?;
    let engine = ctx.server.engine_of_scripts()?;
    let sha = Sha::parse(args[1]).filter(|sha| engine.flags(*sha).is_some());
    let sha = sha.ok_or("NOSCRIPT No matching script. Please use EVAL.")?;
    execute(ctx, sha, keys, reads, args)
}

/// Shows the request to the clients in MONITOR, before the requests of the script.
pub(super) fn show_first(ctx: &mut Context<'_>, args: &[&[u8]]) {
    if ctx.server.hub.is_monitored() {
        super::show(ctx, args);
    }
}

/// How many of the arguments after the third are keys.
fn count_keys(args: &[&[u8]]) -> Result<usize, Refusal> {
    let count = stillframe_resp::parse_integer(args[2]).ok_or(NOT_AN_INTEGER)?;
    match usize::try_from(count) {
        Err(_) => Err("ERR Number of keys can't be negative".into()),
        Ok(count) if count > args.len() - 3 => {
            Err("ERR Number of keys can't be greater than number of args".into())
        }
        Ok(count) => Ok(count),
    }
}

fn unloadable(error: LoadError) -> Refusal {
    format!("ERR {error}").into()
}

/// Runs a loaded script with so many keys.
fn execute(
    ctx: &mut Context<'_>,
    sha: Sha,
    keys: usize,
    reads: bool,
    request: &[&[u8]],
) -> Result<(), Refusal> {
    let caller = &ctx.session.caller;
    let run = Run::new(Kind::Script, caller.place, caller.internal);
    let Some(mut engine) = ctx.server.scripts.lend(run) else {
        return Err("ERR a script is running".into());
    };
    let said = engine.flags(sha).unwrap_or_default();
    let outcome = may_start(ctx, said, reads).and_then(|out_of_memory| {
        let (keys, args) = request[3..].split_at(keys);
        let call = Call { sha, keys, args };
        let terms = Terms { name: sha.as_str(), request, keys, flags: said, reads, out_of_memory };
        run_in(ctx, terms, |host, out| engine.run(call, host, out))
    });
    ctx.server.scripts.give_back(engine);
    outcome
}

/// The terms on which a script or a function runs.
pub(super) struct Terms<'a> {
    pub(super) name: &'a str,
    pub(super) request: &'a [&'a [u8]],
    /// The keys in it.
    pub(super) keys: &'a [&'a [u8]],
    /// What it says of itself.
    pub(super) flags: Flags,
    /// The request does not let it write.
    pub(super) reads: bool,
    /// Memory was used up when it started.
    pub(super) out_of_memory: bool,
}

/// Runs a script or a function as one unit for log and replicas.
pub(super) fn run_in(
    ctx: &mut Context<'_>,
    terms: Terms<'_>,
    runs: impl FnOnce(&mut dyn Host, &mut Out<'_>) -> Result<(), RunError>,
) -> Result<(), Refusal> {
    let Terms { name, request, keys, flags, reads, out_of_memory } = terms;
    let reads = reads || flags.no_writes;
    let (place, db) = (ctx.session.caller.last_command, ctx.session.caller.db);
    let in_exec = std::mem::replace(&mut ctx.server.ledger.in_exec, true);
    ctx.server.ledger.in_script = true;
    let fieldsets = ctx.session.caller.fieldsets.take(); // a script has its own
    let silent = ctx.server.clients.silence(true); // messages wait for the script's reply
    // Its requests reply into buffers of their own.
    let mut replies = std::mem::take(ctx.out.buffer);
    let (protocol, limit) = (ctx.out.protocol, ctx.out.limit);
    let mut out = Out { limit, ..Out::new(&mut replies, protocol) };
    let failed = false;
    let mut running = ScriptHost { ctx, flags, reads, name, request, keys, out_of_memory, failed };
    let result = runs(&mut running, &mut out);
    let failed = running.failed;
    *ctx.out.buffer = replies;
    ctx.server.clients.silence(silent);
    (ctx.server.ledger.in_exec, ctx.server.ledger.in_script) = (in_exec, false);
    (ctx.session.caller.last_command, ctx.session.caller.db) = (place, db);
    ctx.session.caller.fieldsets = fieldsets;
    ctx.server.ledger.effects.set_audience(Audience::ALL);
    ctx.data().no_effect(); // its requests had their own
    match result {
        Ok(()) if failed => ctx.server.meter.failed(place),
        Ok(()) => {}
        // The request that failed was counted, and the script's error is the same one.
        Err(error) if error.counted => {
            ctx.server.meter.failed(place);
            ctx.out.error(error.text);
        }
        Err(error) => return Err(error.text.into()),
    }
    Ok(())
}

/// Whether a script may start, by its flags; and whether memory is used up.
pub(super) fn may_start(ctx: &mut Context<'_>, said: Flags, reads: bool) -> Result<bool, Refusal> {
    if ctx.session.caller.internal {
        return Ok(false);
    }
    if said.no_cluster && ctx.server.group.is_member() {
        return Err("ERR Can not run script on cluster, 'no-cluster' flag is set.".into());
    }
    let limited = ctx.server.config.maxmemory_bytes > 0;
    let out_of_memory = match &ctx.branch {
        Some(branch) => branch.is_full(),
        None => limited && ctx.server.memory.is_short(),
    };
    if is_stale(ctx.server) && !said.allow_stale {
        return Err(STALE.into());
    }
    if !said.declared {
        return Ok(out_of_memory);
    }
    if reads && !said.no_writes {
        return Err("ERR Can not execute a script with write flag using *_ro command.".into());
    }
    if !said.no_writes {
        if ctx.branch.is_none()
            && let Some(refusal) = may_not_write(ctx.server)
        {
            return Err(refusal);
        }
        if out_of_memory && !said.allow_oom {
            return Err("OOM allow-oom flag is not set on the script, can not run it when used \
                        memory > 'maxmemory'"
                .into());
        }
    }
    Ok(out_of_memory)
}

/// The server as a running script sees it.
struct ScriptHost<'a, 'c> {
    ctx: &'a mut Context<'c>,
    flags: Flags,
    /// The script may not write.
    reads: bool,
    /// Its name.
    name: &'a str,
    /// The request that asked for it.
    request: &'a [&'a [u8]],
    /// The keys in it, which its client has read once the script reads anything.
    keys: &'a [&'a [u8]],
    /// The script started while memory was used up.
    out_of_memory: bool,
    /// Its reply is an error, or has one in it.
    failed: bool,
}

impl ScriptHost<'_, '_> {
    /// The command of a request, if there is one.
    fn find(&self, args: &[&[u8]]) -> Option<usize> {
        match self.ctx.table.lookup_for_client(args) {
            Lookup::Found(index) => Some(index),
            Lookup::Unknown | Lookup::UnknownSubcommand => None,
        }
    }

    /// Checks that the script may run a command now.
    fn check(&mut self, found: usize, args: &[&[u8]]) -> Result<(), Refusal> {
        let ctx = &mut *self.ctx;
        let command = ctx.table.get(found);
        if !command.accepts(args.len()) {
            return Err("ERR Wrong number of args calling Redis command from script".into());
        }
        // A transaction within a script would outlive it.
        let opened = ctx.server.scripts.run_all && !command.has(flags::NOT_QUEUED);
        let refuses = command.has(NOSCRIPT) && !command.has(flags::RUNS_IN_SCRIPT);
        if refuses && !opened {
            return Err("ERR This Redis command is not allowed from script".into());
        }
        if !ctx.session.caller.internal && is_stale(ctx.server) && !command.has(flags::STALE) {
            return Err("ERR Can not execute the command on a stale replica".into());
        }
        let unlimited = ctx.server.users.get(ctx.session.user).is_some_and(|user| user.unlimited);
        ctx.session.caller.reads_all_keys = unlimited;
        if !unlimited && let Some(denied) = permissions::find_denied(ctx, found, args) {
            return Err(match denied {
                Denied::Command => {
                    "ERR The user executing the script can't run this command or subcommand"
                }
                Denied::Key(_) => {
                    "ERR The user executing the script can't access at least one of the keys \
                     mentioned in the command arguments"
                }
                Denied::Channel(_) => {
                    "ERR The user executing the script can't publish to the channel mentioned in \
                     the command"
                }
            }
            .into());
        }
        let writes = command.has(flags::WRITE);
        if command.has(flags::WRITE | flags::MAY_REPLICATE) && self.reads {
            return Err("ERR Write commands are not allowed from read-only scripts.".into());
        }
        let wrote = ctx.server.scripts.running().is_some_and(|run| run.wrote);
        // What began to write goes on: half a script would be worse than a late refusal.
        if writes
            && !wrote
            && !ctx.session.caller.internal
            && ctx.branch.is_none()
            && let Some(refusal) = may_not_begin_to_write(ctx.server)
        {
            return Err(refusal);
        }
        let grows = command.has(flags::DENYOOM) && !self.flags.allow_oom && !wrote;
        if self.out_of_memory && grows {
            return Err(match ctx.branch {
                Some(_) => on_branch::FULL,
                None => OUT_OF_MEMORY,
            });
        }
        if ctx.branch.is_none()
            && let Some(refusal) = refused_by_group(ctx, command, args)
        {
            return Err(refusal);
        }
        if let Some(run) = ctx.server.scripts.running_mut() {
            run.wrote |= writes;
        }
        Ok(())
    }
}

/// Why a member of a group does not run a request of a script.
fn refused_by_group(ctx: &Context<'_>, command: &Command, args: &[&[u8]]) -> Option<Refusal> {
    let follows = ctx.server.group.follows() && !ctx.session.caller.internal;
    let elsewhere = if follows { elsewhere_for_script(ctx, command, args) } else { None };
    elsewhere.or_else(|| outgrows_unit(ctx.server, args).filter(|_| command.has(flags::WRITE)))
}

impl Host for ScriptHost<'_, '_> {
    fn call(&mut self, args: &[&[u8]], protocol: Protocol, reply: &mut Vec<u8>) {
        let found = self.find(args);
        let refused = match found {
            None => Some("ERR Unknown Redis command called from script".into()),
            Some(index) => self.check(index, args).err(),
        };
        let table = self.ctx.table;
        let mut inner = self.ctx.within(Out::new(reply, protocol));
        if let Some(refusal) = refused {
            if let Some(index) = found {
                inner.server.meter.rejected(index);
            }
            inner.answer_refusal(refusal);
        } else if let Some(index) = found {
            match table.real_name(index, args[0]) {
                Some(name) => run(&mut inner, index, &[&[name.as_bytes()], &args[1..]].concat()),
                None => run(&mut inner, index, args),
            }
            let reads = table.get(index).has(flags::READONLY) && inner.branch.is_none();
            if reads && inner.session.tracking.is_some() {
                inner.server.hub.remember_read(inner.session, self.keys);
            }
        }
    }

    fn may_run(&mut self, args: &[&[u8]]) -> Result<bool, NotACommand> {
        let ctx = &*self.ctx;
        let Lookup::Found(index) = ctx.table.lookup_for_client(args) else {
            return Err(NotACommand);
        };
        if !ctx.table.get(index).accepts(args.len()) {
            return Err(NotACommand);
        }
        let touched = permissions::touched(ctx.table.get(index), index, args);
        let user = ctx.server.users.get(ctx.session.user);
        Ok(user.is_some_and(|user| user.unlimited || user.check(&touched).is_ok()))
    }

    fn log(&mut self, level: Level, message: &[u8]) {
        log(level, message);
    }

    fn propagate(&mut self, to: Propagation) -> Result<(), &'static str> {
        let Propagation { log, replicas } = to;
        if self.ctx.server.group.member().is_some() && !(log && replicas) {
            return Err("redis.set_repl() takes REPL_ALL alone at a member of a group, since all \
                        members hold the same.");
        }
        self.ctx.server.ledger.effects.set_audience(Audience { log, replicas });
        Ok(())
    }

    fn replies_error(&mut self, text: &[u8], counted: bool) {
        self.failed = true;
        if !counted {
            self.ctx.server.meter.answered_error(text);
        }
    }

    fn clock(&mut self) -> Duration {
        machine::process_cpu()
    }

    fn pause(&mut self) -> Verdict {
        let ctx = &mut *self.ctx;
        let threshold = Duration::from_millis(ctx.server.config.busy_threshold_ms);
        let Some(run) = ctx.server.scripts.running_mut() else { return Verdict::GoOn };
        let elapsed = run.started.elapsed();
        if ctx.meanwhile.is_none() {
            return Verdict::GoOn;
        }
        if threshold.is_zero() || elapsed < threshold {
            return Verdict::GoOn;
        }
        run.waits = true;
        if !std::mem::replace(&mut run.is_busy, true) {
            run.called =
                [self.name.as_bytes()].iter().chain(self.request).map(|&it| it.into()).collect();
            tracing::warn!(
                "Slow script detected: still in execution after {} milliseconds. You can try \
                 killing the script using the {} command. Script name is: {}.",
                elapsed.as_millis(),
                run.kind.killer(),
                self.name,
            );
        }
        on_branch::beyond(ctx, |ctx| {
            if let Some(meanwhile) = &mut ctx.meanwhile {
                meanwhile.serve_others(ctx.keyspace, ctx.server, ctx.table);
            }
        });
        let Some(run) = ctx.server.scripts.running_mut() else { return Verdict::GoOn };
        run.waits = false;
        if run.is_killed || ctx.server.process.stops() { Verdict::Stop } else { Verdict::GoOn }
    }
}

/// `SCRIPT LOAD`
fn load(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let sha = ctx.server.engine_of_scripts()?.load(args[2]).map_err(unloadable)?;
    ctx.out.bulk(sha.as_str());
    Ok(())
}

/// `SCRIPT EXISTS`
fn exists(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.array(args.len() - 2);
    for name in &args[2..] {
        let engine = ctx.server.scripts.loaded();
        let sha = Sha::parse(name);
        let found = engine.zip(sha).is_some_and(|(engine, sha)| engine.flags(sha).is_some());
        ctx.out.integer(found.into());
    }
    Ok(())
}

/// `SCRIPT FLUSH [ASYNC | SYNC]`
fn flush(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    match &args[2..] {
        [] => {}
        [mode] if mode.eq_ignore_ascii_case(b"sync") || mode.eq_ignore_ascii_case(b"async") => {}
        _ => return Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into()),
    }
    ctx.server.scripts.flush();
    ctx.out.ok();
    Ok(())
}

/// `SCRIPT KILL`
fn kill(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    end(ctx, Kind::Script)
}

/// Ends what runs, if it is of this kind.
pub(super) fn end(ctx: &mut Context<'_>, kind: Kind) -> Result<(), Refusal> {
    let run = ctx.server.scripts.running_mut();
    let run = run.ok_or("NOTBUSY No scripts in execution right now.")?;
    if run.is_internal {
        return Err("UNKILLABLE The busy script was sent by a master instance in the context of \
                    replication and cannot be killed."
            .into());
    }
    if run.wrote {
        return Err("UNKILLABLE Sorry the script already executed write commands against the \
                    dataset. You can either wait the script termination or kill the server in a \
                    hard way using the SHUTDOWN NOSAVE command."
            .into());
    }
    if run.kind != kind {
        return Err(run.kind.busy().into());
    }
    run.is_killed = true;
    ctx.out.ok();
    Ok(())
}

/// `SCRIPT DEBUG`
fn debug(_ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    Err("ERR SCRIPT DEBUG: this server has no debugger for scripts".into())
}

/// `SCRIPT HELP`
fn help(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.lines(&[
        "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "EXISTS <sha1> [<sha1> ...]",
        "    Return for each script whether it is loaded.",
        "FLUSH [ASYNC|SYNC]",
        "    Forget all scripts.",
        "KILL",
        "    End the script that runs, unless it has written.",
        "LOAD <script>",
        "    Load a script without running it.",
        "HELP",
        "    Print this help.",
    ]);
    Ok(())
}
