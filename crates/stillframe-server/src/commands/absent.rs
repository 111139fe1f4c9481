//! Commands of Redis that this server lacks. COMMAND does not list them, and they get an error that
//! says so. ACL rules know them with their categories, so that an ACL file of Redis keeps its
//! meaning. MODULE exists to reply that there are none.

use stillframe_redis::{Keys, More, Refusal};

use super::{Context, NO_KEYS, ONE_KEY, SECOND_KEY, Table, flags::*};

/// The error of a Redis that is no cluster node, by which clients find out.
const NO_CLUSTER: Refusal = Refusal::new("ERR This instance has cluster support disabled");

/// The second argument is the number of keys.
const COUNTED: Keys = NO_KEYS.and(More::Counted(2));

/// Commands with the same flags and keys.
type Group = (u32, Keys, &'static [&'static str]);

#[rustfmt::skip]
const STREAMS: [Group; 10] = [
    (WRITE | FAST, ONE_KEY, &["xack", "xadd", "xautoclaim", "xclaim", "xdel", "xsetid"]),
    (WRITE, ONE_KEY, &["xtrim"]),
    (READONLY | FAST, ONE_KEY, &["xlen"]),
    (READONLY, ONE_KEY, &["xpending", "xrange", "xrevrange"]),
    (READONLY | BLOCKING, NO_KEYS, &["xread"]),
    (WRITE | BLOCKING, NO_KEYS, &["xreadgroup"]),
    (0, NO_KEYS, &["xgroup", "xgroup|help"]),
    (WRITE, SECOND_KEY, &[
        "xgroup|create", "xgroup|createconsumer", "xgroup|delconsumer", "xgroup|destroy",
        "xgroup|setid",
    ]),
    (0, NO_KEYS, &["xinfo", "xinfo|help"]),
    (READONLY, SECOND_KEY, &["xinfo|consumers", "xinfo|groups", "xinfo|stream"]),
];

#[rustfmt::skip]
const SCRIPTS: [Group; 4] = [
    (0, COUNTED, &["eval", "evalsha", "fcall"]),
    (READONLY, COUNTED, &["evalsha_ro", "eval_ro", "fcall_ro"]),
    (0, NO_KEYS, &[
        "function", "function|dump", "function|help", "function|kill", "function|list",
        "function|stats", "script", "script|debug", "script|exists", "script|flush",
        "script|help", "script|kill", "script|load",
    ]),
    (WRITE, NO_KEYS, &[
        "function|delete", "function|flush", "function|load", "function|restore",
    ]),
];

#[rustfmt::skip]
const CLUSTER: [Group; 4] = [
    (WRITE, ONE_KEY, &["restore-asking"]),
    (FAST | CONNECTION, NO_KEYS, &["asking", "readonly", "readwrite"]),
    (0, NO_KEYS, &[
        "cluster", "cluster|countkeysinslot", "cluster|getkeysinslot", "cluster|help",
        "cluster|info", "cluster|keyslot", "cluster|links", "cluster|myid", "cluster|nodes",
        "cluster|shards", "cluster|slots",
    ]),
    (ADMIN, NO_KEYS, &[
        "cluster|addslots", "cluster|addslotsrange", "cluster|bumpepoch",
        "cluster|count-failure-reports", "cluster|delslots", "cluster|delslotsrange",
        "cluster|failover", "cluster|flushslots", "cluster|forget", "cluster|meet",
        "cluster|replicas", "cluster|replicate", "cluster|reset", "cluster|saveconfig",
        "cluster|set-config-epoch", "cluster|setslot", "cluster|slaves",
    ]),
];

/// The error for a command that is missing yet; `None` for names that Redis does not know either.
pub(super) fn error(name: &[u8]) -> Option<Refusal> {
    let is_among = |groups: &[Group]| {
        let mut names = groups.iter().flat_map(|(.., names)| *names);
        names.any(|known| known.as_bytes().eq_ignore_ascii_case(name))
    };
    let what = match () {
        () if is_among(&CLUSTER) => return Some(NO_CLUSTER),
        () if is_among(&STREAMS) => "streams",
        () if is_among(&SCRIPTS) => "scripts",
        () => return None,
    };
    let name = String::from_utf8_lossy(name).to_uppercase();
    Some(format!("ERR {name}: {what} are not supported by this server yet").into())
}

/// Adds the missing commands, and MODULE.
pub(crate) fn register(table: &mut Table) {
    for &(flags, keys, names) in STREAMS.iter().chain(&SCRIPTS).chain(&CLUSTER) {
        for &name in names {
            // With any arguments: the command is refused before they are checked.
            table.add_server(name, -1, flags | ABSENT, keys, refuse);
        }
    }
    let admin = ADMIN | NOSCRIPT;
    table.add_server("module", -2, 0, NO_KEYS, module_help);
    table.add_server("module|help", 2, LOADING | STALE, NO_KEYS, module_help);
    table.add_server("module|list", 2, admin, NO_KEYS, module_list);
    table.add_server("module|load", -3, admin | NO_ASYNC_LOADING, NO_KEYS, no_modules);
    table.add_server("module|loadex", -3, admin | NO_ASYNC_LOADING, NO_KEYS, no_modules);
    table.add_server("module|unload", 3, admin | NO_ASYNC_LOADING, NO_KEYS, no_modules);
}

/// Refuses a missing command.
fn refuse(_ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    Err(error(args[0]).unwrap_or(NO_CLUSTER))
}

const NOT_ALLOWED: Refusal = Refusal::new(
    "ERR MODULE command not allowed. If the enable-module-command option is \
    set to \"local\", you can run it from a local connection, otherwise you need to set this option \
    in the configuration file, and then restart the server.",
);

/// `MODULE LIST`
fn module_list(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.array(0);
    Ok(())
}

/// `MODULE LOAD`, `LOADEX`, `UNLOAD`
fn no_modules(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    if !ctx.server.config.module_command.allows(ctx.session.caller.peer.is_local()) {
        return Err(NOT_ALLOWED);
    }
    Err("ERR MODULE: modules are not supported by this server".into())
}

/// `MODULE HELP`
fn module_help(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.lines(&[
        "MODULE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "LIST",
        "    List the modules: there are none.",
        "LOAD <path> [<arg> ...]",
        "LOADEX <path> [<arg> ...]",
        "UNLOAD <name>",
        "    Say that modules are not supported.",
        "HELP",
        "    Print this help.",
    ]);
    Ok(())
}
