//! Commands of Redis that this server does not have. COMMAND does not list them; whoever sends one
//! is told so in plain words, rather than that it is unknown. MODULE is there to say that there are
//! none.

use stillframe::Algorithm;

use super::{Context, NO_KEYS, Table, flags::*};

/// What a Redis says that is no node of a cluster: clients ask so to find out.
const NO_CLUSTER: &str = "ERR This instance has cluster support disabled";
const CLUSTER: [&str; 4] = ["ASKING", "CLUSTER", "READONLY", "READWRITE"];

/// Groups of commands, and what they work on.
const GROUPS: [(&str, &[&str]); 2] = [
    (
        "streams",
        &[
            "XACK",
            "XADD",
            "XAUTOCLAIM",
            "XCLAIM",
            "XDEL",
            "XGROUP",
            "XINFO",
            "XLEN",
            "XPENDING",
            "XRANGE",
            "XREAD",
            "XREADGROUP",
            "XREVRANGE",
            "XSETID",
            "XTRIM",
        ],
    ),
    (
        "scripts",
        &["EVAL", "EVALSHA", "EVALSHA_RO", "EVAL_RO", "FCALL", "FCALL_RO", "FUNCTION", "SCRIPT"],
    ),
];

/// The error for a command that is not here yet; `None` for names that Redis does not know either.
pub(super) fn error(name: &[u8]) -> Option<String> {
    if CLUSTER.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name)) {
        return Some(NO_CLUSTER.to_owned());
    }
    GROUPS.iter().find_map(|(group, names)| {
        let name = names.iter().find(|known| known.as_bytes().eq_ignore_ascii_case(name))?;
        Some(format!("ERR {name}: {group} are not supported by this server yet"))
    })
}

/// Adds MODULE.
pub(crate) fn register<A: Algorithm>(table: &mut Table<A>) {
    let admin = ADMIN | NOSCRIPT;
    table.add("module", -2, 0, NO_KEYS, module_help);
    table.add_sub("module|help", 2, LOADING | STALE, NO_KEYS, module_help);
    table.add_sub("module|list", 2, admin, NO_KEYS, |ctx, _| ctx.out.array(0));
    table.add_sub("module|load", -3, admin | NO_ASYNC_LOADING, NO_KEYS, no_modules);
    table.add_sub("module|loadex", -3, admin | NO_ASYNC_LOADING, NO_KEYS, no_modules);
    table.add_sub("module|unload", 3, admin | NO_ASYNC_LOADING, NO_KEYS, no_modules);
}

/// Other commands of Redis, which are answered as unknown ones.
const UNKNOWN: [&str; 4] = ["MIGRATE", "PFDEBUG", "PFSELFTEST", "RESTORE-ASKING"];

/// Whether Redis has a command of this name, and this server has not.
pub(super) fn is_of_redis(name: &[u8]) -> bool {
    let is = |known: &&str| known.as_bytes().eq_ignore_ascii_case(name);
    error(name).is_some() || UNKNOWN.iter().any(is)
}

const NOT_ALLOWED: &str = "ERR MODULE command not allowed. If the enable-module-command option is \
    set to \"local\", you can run it from a local connection, otherwise you need to set this option \
    in the configuration file, and then restart the server.";

/// `MODULE LOAD`, `LOADEX`, `UNLOAD`
fn no_modules<A: Algorithm>(ctx: &mut Context<'_, A>, _args: &[&[u8]]) {
    if !ctx.server.config.module_command.allows(ctx.session.peer.is_local()) {
        return ctx.out.error(NOT_ALLOWED);
    }
    ctx.out.error("ERR MODULE: modules are not supported by this server");
}

/// `MODULE HELP`
fn module_help<A: Algorithm>(ctx: &mut Context<'_, A>, _args: &[&[u8]]) {
    ctx.help(&[
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
}
