//! DEBUG, as far as test suites and tools of Redis need it.
//!
//! DIGEST and DIGEST-VALUE change nothing and are open to users with administrative commands; all
//! else needs `enable-debug-command`, as in Redis.

mod group;
mod knobs;

use std::time::Duration;

use stillframe_rdb::{Encoder, Head, Version};
use stillframe_resp::Protocol;

use super::admin::rewrite_config;
use super::{Alone, Context, Table};
use crate::ServeError;
use crate::connections::hub::Delivery;
use crate::state::persistence;
use crate::state::roles::break_off;
use stillframe_commands::digest;
use stillframe_commands::encoding;
use stillframe_commands::errors::NO_SUCH_KEY;
use stillframe_commands::{Consumer, Refusal, values};
use stillframe_storage::recover_log;

/// Adds the command of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("debug", debug);
}

const NOT_ALLOWED: Refusal = Refusal::new(
    "ERR DEBUG command not allowed. If the enable-debug-command option is \
    set to \"local\", you can run it from a local connection, otherwise you need to set this option \
    in the configuration file, and then restart the server.",
);

/// `DEBUG subcommand [argument...]`
fn debug(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let name = args[1].to_ascii_lowercase();
    let open = matches!(name.as_slice(), b"digest" | b"digest-value");
    let allowed = ctx.server.config.debug_command;
    if !open && !allowed.allows(ctx.session.caller.peer.is_local()) {
        return Err(NOT_ALLOWED);
    }
    refuse_member(ctx, &name)?;
    match (name.as_slice(), &args[2..]) {
        (b"change-repl-id", []) => knobs::change_replication_id(ctx),
        (b"config-rewrite-force-all", []) => rewrite_config(ctx, true)?,
        (b"digest", []) => {
            let digest = digest::of_all(ctx.keyspace);
            ctx.out.simple(&digest);
        }
        (b"digest-value", keys @ [_, ..]) => digest::of_keys(&mut ctx.data(), keys),
        (b"error", [text]) => return Err(text.to_vec().into()),
        (b"group-view", words) => group::view(ctx, words)?,
        (b"help", []) => ctx.out.lines(&HELP),
        (b"loadaof", []) => load_log(ctx)?,
        (b"log", [text]) => {
            tracing::warn!("DEBUG LOG: {}", String::from_utf8_lossy(text));
            ctx.out.ok();
        }
        (b"object", [key]) => object(ctx, key)?,
        (b"pause-cron", [switch]) => knobs::pause_cron(ctx, switch),
        (b"populate", [_] | [_, _] | [_, _, _]) => knobs::populate(ctx, &args[2..])?,
        (b"protocol", [kind]) => protocol(ctx, kind)?,
        (b"quicklist-packed-threshold", [size]) => knobs::packed_threshold(ctx, size)?,
        (b"reload", options) => reload(ctx, options)?,
        // Buffers of replies are freed at once here.
        (b"replybuffer", [_, _]) => ctx.out.ok(),
        (b"replicate", words @ [_, ..]) => knobs::replicate(ctx, words),
        (b"set-active-expire", [switch]) => {
            ctx.server.clock.expire_actively(**switch != *b"0");
            ctx.out.ok();
        }
        (b"set-disable-deny-scripts", [switch]) => knobs::open_to_scripts(ctx, switch),
        (b"set-skip-checksum-validation", [switch]) => knobs::skip_checksums(ctx, switch),
        (b"sleep", [seconds]) => {
            let seconds = std::str::from_utf8(seconds).ok().and_then(|text| text.parse().ok());
            let time = Duration::try_from_secs_f64(seconds.unwrap_or(0.0)).unwrap_or_default();
            std::thread::sleep(time);
            ctx.out.ok();
        }
        _ => {
            let name = args[1].get(..128).unwrap_or(args[1]).escape_ascii();
            return Err(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try DEBUG HELP."
            )
            .into());
        }
    }
    Ok(())
}

/// What would make the data of a member, or what it knows, differ from the group's.
const NOT_FOR_MEMBERS: [&[u8]; 6] = [
    b"change-repl-id",
    b"group-view",
    b"loadaof",
    b"reload",
    b"replicate",
    b"set-skip-checksum-validation",
];

fn refuse_member(ctx: &Context<'_>, name: &[u8]) -> Result<(), Refusal> {
    let group = &ctx.server.group;
    if group.member().is_none() {
        return Ok(());
    }
    if NOT_FOR_MEMBERS.contains(&name) {
        let name = name.to_ascii_uppercase();
        let why = b" is not for a member of a group, whose members hold the same";
        return Err([b"ERR DEBUG ", &name[..], why].concat().into());
    }
    if name == b"populate" && group.follows() {
        return Err(group.not_here());
    }
    Ok(())
}

const HELP: [&str; 46] = [
    "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CHANGE-REPL-ID",
    "    Give the replication stream a new name, so that no replica can go on.",
    "CONFIG-REWRITE-FORCE-ALL",
    "    Write all settings to the configuration file, whatever their values.",
    "DIGEST",
    "    Show one number for all that the server holds.",
    "DIGEST-VALUE <key> [<key> ...]",
    "    Show one number for each value.",
    "ERROR <text>",
    "    Answer with this error.",
    "GROUP-VIEW <me> <leader|none> <term> (linearizable|local) <id>=<host>:<port> ...",
    "    Let clients see this group, to whose other members nothing goes.",
    "GROUP-VIEW NONE",
    "    Belong to no group.",
    "LOADAOF",
    "    Forget all data and load it again, the log behind the dump file as well; save first",
    "    where no log is kept.",
    "LOG <text>",
    "    Write a line to the log.",
    "OBJECT <key>",
    "    Show how a value is kept.",
    "PAUSE-CRON (0|1)",
    "    Let the clock do nothing, or work again.",
    "POPULATE <count> [<prefix>] [<size>]",
    "    Store as many strings, each of so many bytes.",
    "PROTOCOL <type>",
    "    Answer with a reply of this type.",
    "QUICKLIST-PACKED-THRESHOLD <size>",
    "    Do nothing: lists are not kept so here.",
    "RELOAD [NOSAVE] [NOFLUSH] [MERGE]",
    "    Save, forget all data and load it again; MERGE lets what is loaded replace a key.",
    "REPLICATE <word> [<word> ...]",
    "    Send replicas the words as a request.",
    "REPLYBUFFER <subcommand> <setting>",
    "    Do nothing: buffers of replies are given back when they are empty.",
    "SET-ACTIVE-EXPIRE (0|1)",
    "    Let the clock delete expired keys, or not.",
    "SET-DISABLE-DENY-SCRIPTS (0|1)",
    "    Let scripts run commands that are not meant for them, or not any more.",
    "SET-SKIP-CHECKSUM-VALIDATION (0|1)",
    "    Let RESTORE look at no checksum, or at each again.",
    "SLEEP <seconds>",
    "    Do nothing for so long; nobody is served meanwhile.",
    "HELP",
    "    Print this help.",
];

/// `DEBUG OBJECT key`: in Redis's form, without an address.
fn object(ctx: &mut Context<'_>, key: &[u8]) -> Result<(), Refusal> {
    let mut payload = Vec::new();
    let workspace = ctx.server.ledger.dump_workspace.take().unwrap_or_default();
    let mut encoder = Encoder::within(workspace, &mut payload).version(Version::Redis12);
    let db = ctx.session.caller.db;
    // An expired key is shown as long as it exists.
    let found = ctx.keyspace.peek(db, key, i64::MIN).map(|entry| {
        let value = entry.value();
        let written = values::encode(&mut encoder, Head::Payload, value);
        // The type before it is not counted, and no checksum was written yet.
        let bytes = encoder.written_bytes().saturating_sub(1);
        (encoding(value), written.map_or(0, |_| bytes))
    });
    ctx.server.ledger.dump_workspace = Some(encoder.take_workspace());
    let (encoding, bytes) = found.ok_or(NO_SUCH_KEY)?;
    let idle_s = ctx.keyspace.idle_ms(db, key).unwrap_or(0) / 1000;
    let clock = ((ctx.now / 1000) as u64).saturating_sub(idle_s) & 0xff_ffff;
    ctx.out.simple(&format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{bytes} lru:{clock} \
         lru_seconds_idle:{idle_s}"
    ));
    Ok(())
}

/// `DEBUG PROTOCOL type`: one reply of each type, for tests of clients.
fn protocol(ctx: &mut Context<'_>, kind: &[u8]) -> Result<(), Refusal> {
    let out = &mut ctx.out;
    let protocol = out.protocol; // a script may speak another one than its client
    match kind.to_ascii_lowercase().as_slice() {
        b"string" => out.bulk("Hello World"),
        b"integer" => out.integer(12345),
        b"double" => out.double(3141.0 / 1000.0),
        b"null" => out.null(),
        b"array" => {
            out.array(3);
            (0..3).for_each(|number| out.integer(number));
        }
        b"set" => {
            out.set(3);
            (0..3).for_each(|number| out.integer(number));
        }
        b"map" => {
            out.map(3);
            for number in 0..3 {
                out.integer(number);
                out.boolean(number == 1);
            }
        }
        b"attrib" => {
            if protocol == Protocol::Resp3 {
                out.attribute(1);
                out.bulk("key-popularity");
                out.array(2);
                out.bulk("key:123");
                out.integer(90);
            }
            out.bulk("Some real reply following the attribute");
        }
        b"push" if protocol == Protocol::Resp2 => {
            return Err("ERR RESP2 is not supported by this command".into());
        }
        b"push" => {
            out.push(2);
            out.bulk("server-cpu-usage");
            out.integer(42);
            out.bulk("Some real reply following the push reply");
        }
        b"verbatim" => out.verbatim(b"txt", "This is a verbatim\nstring"),
        b"true" => out.boolean(true),
        b"false" => out.boolean(false),
        b"bignum" => out.big_number("1234567999999999999999999999999999999"),
        _ => {
            return Err("ERR Wrong protocol type name. Please use one of the following: \
             string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false"
                .into());
        }
    }
    Ok(())
}

/// `DEBUG RELOAD [NOSAVE] [NOFLUSH] [MERGE]`
fn reload(ctx: &mut Context<'_>, options: &[&[u8]]) -> Result<(), Refusal> {
    let (mut save, mut flush, mut merge) = (true, true, false);
    for option in options {
        match option.to_ascii_lowercase().as_slice() {
            b"nosave" => save = false,
            b"noflush" => flush = false,
            b"merge" => merge = true,
            _ => {
                return Err(
                    "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.".into(),
                );
            }
        }
    }
    if ctx.server.ledger.in_exec || ctx.keyspace.saving() || ctx.server.is_loading() {
        return Err("ERR DEBUG RELOAD cannot run now: a save or a transaction is under way".into());
    }
    if save && let Err(problem) = persistence::save_and_wait(ctx.keyspace, ctx.server) {
        return Err(format!("ERR DEBUG RELOAD: {problem}").into());
    }
    let begun = ctx.server.storage.saves.directory().begin_load(ctx.now);
    let mut load = match begun {
        Ok(Some(load)) => load,
        Ok(None) => return Err("ERR Error trying to load the RDB dump: there is none".into()),
        Err(error) => {
            return Err(format!("ERR Error trying to load the RDB dump: {error}").into());
        }
    };
    if !save || !flush {
        break_off(ctx.keyspace, ctx.server);
    }
    if flush {
        ctx.keyspace.reset();
    }
    if merge || !flush {
        load.merge();
    }
    ctx.server.hub.invalidate_all(&mut Delivery::new(
        &mut ctx.server.clients,
        &ctx.server.config,
        &ctx.server.clock,
    ));
    match load.rest(ctx.keyspace) {
        Ok(loaded) => {
            ctx.server.storage.saves.loaded = loaded;
            ctx.out.ok();
        }
        Err(error) => {
            tracing::error!("stopping: DEBUG RELOAD has lost the data: {error}");
            ctx.server.process.stop();
            return Err(format!("ERR Error trying to load the RDB dump: {error}").into());
        }
    }
    Ok(())
}

/// `DEBUG LOADAOF`: reloads the data from the dump file and the log behind it. The counters of INFO
/// restart, too. Where no log is kept, it is DEBUG RELOAD.
fn load_log(ctx: &mut Context<'_>) -> Result<(), Refusal> {
    if ctx.server.ledger.in_exec || ctx.server.is_loading() {
        return Err("ERR DEBUG LOADAOF cannot run while data is loaded, or in a transaction".into());
    }
    if ctx.server.storage.saves.running().is_some() {
        ctx.server.storage.wait(ctx.keyspace, &mut ctx.server.ledger);
    }
    if !ctx.server.storage.journal.is_on() {
        return reload(ctx, &[]);
    }
    if ctx.keyspace.saving() {
        return Err("ERR DEBUG LOADAOF cannot run now: replicas are sent an image".into());
    }
    if persistence::end_log(ctx.keyspace, ctx.server).is_err() {
        return Err("ERR DEBUG LOADAOF: the log has failed".into());
    }
    // Replicas have all of it.
    let replicated = ctx.server.replication.is_active() && !ctx.server.replication.is_replica();
    ctx.server.ledger.effects.want(ctx.keyspace, Consumer::Replicas, false);
    let dirty = ctx.server.ledger.dirty;
    ctx.keyspace.reset();
    ctx.server.hub.invalidate_all(&mut Delivery::new(
        &mut ctx.server.clients,
        &ctx.server.config,
        &ctx.server.clock,
    ));
    let loaded = reload_all(ctx);
    ctx.server.ledger.dirty = dirty;
    ctx.server.clients.end_replay(ctx.session.who());
    ctx.server.ledger.effects.want(ctx.keyspace, Consumer::Replicas, replicated);
    match loaded {
        Ok(()) => ctx.out.ok(),
        Err(error) => {
            tracing::error!("stopping: DEBUG LOADAOF has lost the data: {error}");
            ctx.server.process.stop();
            return Err(format!("ERR DEBUG LOADAOF: {error}").into());
        }
    }
    Ok(())
}

/// Loads the dump file and the log behind it into an empty keyspace.
fn reload_all(ctx: &mut Context<'_>) -> Result<(), ServeError> {
    if let Some(load) = ctx.server.storage.saves.directory().begin_load(ctx.now)? {
        ctx.server.storage.saves.loaded = load.rest(ctx.keyspace)?;
    }
    // Nobody is served while a command runs.
    let Context { keyspace, server, table, .. } = ctx;
    recover_log(&mut Alone { keyspace, state: server, table }).map(drop)
}
