//! COMMAND: what the server can do, from the table itself.

use stillframe::Algorithm;
use stillframe_resp::Out;

use crate::acl::categories;

use super::{Command, Context, Lookup, NO_KEYS, Table, flags::*, glob};

/// Adds the commands of this module.
pub(crate) fn register<A: Algorithm>(table: &mut Table<A>) {
    let flags = LOADING | STALE | CONNECTION;
    table.add("command", -1, flags, NO_KEYS, all);
    table.add_sub("command|count", 2, flags, NO_KEYS, count);
    table.add_sub("command|help", 2, LOADING | STALE | CONNECTION, NO_KEYS, help);
    table.add_sub("command|info", -2, flags, NO_KEYS, info);
    table.add_sub("command|list", -2, flags, NO_KEYS, list);
    table.add_sub("command|docs", -2, flags, NO_KEYS, docs);
    table.add_sub("command|getkeys", -4, flags, NO_KEYS, getkeys);
}

fn top_level<A: Algorithm>(table: &Table<A>) -> impl Iterator<Item = &Command<A>> {
    table.all().iter().filter(|command| !command.name.contains('|'))
}

/// `COMMAND`
fn all<A: Algorithm>(ctx: &mut Context<'_, A>, _args: &[&[u8]]) {
    let table = ctx.table;
    ctx.out.array(top_level(table).count());
    top_level(table).for_each(|command| describe(&mut ctx.out, table, command));
}

/// `COMMAND HELP`
fn help<A: Algorithm>(ctx: &mut Context<'_, A>, _args: &[&[u8]]) {
    ctx.help(&[
        "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "(no subcommand)",
        "    Describe all commands.",
        "COUNT",
        "    Count the commands.",
        "DOCS [<name> ...]",
        "    Name the commands; their documents are elsewhere.",
        "GETKEYS <request>",
        "    Show the keys of a request.",
        "INFO [<name> ...]",
        "    Describe these commands, or all.",
        "LIST [FILTERBY (MODULE <name>|ACLCAT <category>|PATTERN <pattern>)]",
        "    Name the commands, or those chosen.",
        "HELP",
        "    Print this help.",
    ]);
}

/// `COMMAND COUNT`
fn count<A: Algorithm>(ctx: &mut Context<'_, A>, _args: &[&[u8]]) {
    ctx.out.integer(top_level(ctx.table).count() as i64);
}

/// `COMMAND INFO [name...]`
fn info<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    let names = args.get(2..).unwrap_or_default();
    if names.is_empty() {
        return all(ctx, args);
    }
    ctx.out.array(names.len());
    for name in names {
        match by_full_name(ctx.table, name) {
            Some(command) => describe(&mut ctx.out, ctx.table, command),
            None => ctx.out.null(),
        }
    }
}

/// `COMMAND LIST [FILTERBY MODULE m | ACLCAT c | PATTERN p]`
fn list<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    let table = ctx.table;
    let names: Vec<&str> = match args.get(2..).unwrap_or_default() {
        [] => table.all().iter().map(|command| command.name).collect(),
        [filter, kind, value] if filter.eq_ignore_ascii_case(b"filterby") => {
            let value = value.to_ascii_lowercase();
            let chosen: fn(&Command<A>, &[u8]) -> bool = match kind.to_ascii_lowercase().as_slice()
            {
                b"module" => |_, _| false,
                b"aclcat" => |command, value| {
                    categories(command).iter().any(|name| &name.as_bytes()[1..] == value)
                },
                b"pattern" => |command, value| glob::matches(value, command.name.as_bytes()),
                _ => return ctx.out.error("ERR syntax error"),
            };
            table.all().iter().filter(|command| chosen(command, &value)).map(|c| c.name).collect()
        }
        _ => return ctx.out.error("ERR syntax error"),
    };
    ctx.out.set(names.len());
    names.into_iter().for_each(|name| ctx.out.bulk(name));
}

/// `COMMAND DOCS [name...]`: names without documents; the handlers' comments are the documents.
fn docs<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    let table = ctx.table;
    let names = args.get(2..).unwrap_or_default();
    let chosen: Vec<&Command<A>> = if names.is_empty() {
        top_level(table).collect()
    } else {
        names.iter().filter_map(|name| by_full_name(table, name)).collect()
    };
    ctx.out.map(chosen.len());
    for command in chosen {
        ctx.out.bulk(command.name);
        ctx.out.map(0);
    }
}

/// `COMMAND GETKEYS name [argument...]`
fn getkeys<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    let request = args.get(2..).unwrap_or_default();
    let Lookup::Found(index) = ctx.table.lookup(request) else {
        return ctx.out.error("ERR Invalid command specified");
    };
    let command = ctx.table.get(index);
    if command.keys == NO_KEYS {
        return ctx.out.error("ERR The command has no key arguments");
    }
    if !command.accepts(request.len()) {
        return ctx.out.error("ERR Invalid number of arguments specified for command");
    }
    let keys = command.keys.of(request);
    if keys.is_empty() {
        return ctx.out.error("ERR Invalid arguments specified for command");
    }
    ctx.out.array(keys.len());
    keys.into_iter().for_each(|key| ctx.out.bulk(key));
}

/// The command of a name such as `get` or `client|list`, in any case.
fn by_full_name<'t, A: Algorithm>(table: &'t Table<A>, name: &[u8]) -> Option<&'t Command<A>> {
    let mut parts = name.splitn(2, |&byte| byte == b'|');
    let command = table.get(table.find(parts.next()?)?);
    match parts.next() {
        None => Some(command),
        Some(own) => table.find_sub(command, own).map(|index| table.get(index)),
    }
}

fn describe<A: Algorithm>(out: &mut Out<'_>, table: &Table<A>, command: &Command<A>) {
    let shown = NAMES.iter().filter(|(flag, _)| command.has(*flag));
    let shown: Vec<&str> = shown.map(|(_, name)| *name).collect();
    let categories = categories(command);
    out.array(10);
    out.bulk(command.name);
    out.integer(command.arity.into());
    out.set(shown.len());
    shown.into_iter().for_each(|flag| out.simple(flag));
    out.integer(command.keys.first.into());
    out.integer(command.keys.last.into());
    out.integer(command.keys.step.into());
    out.set(categories.len());
    categories.into_iter().for_each(|category| out.simple(&category));
    out.array(0); // hints for proxies
    out.array(0); // key specifications
    out.array(command.subcommands.len());
    command.subcommands.iter().for_each(|&index| describe(out, table, table.get(index)));
}

fn categories<A: Algorithm>(command: &Command<A>) -> Vec<String> {
    let bits = categories::of(command.name, command.flags);
    categories::names(bits).map(|name| format!("@{name}")).collect()
}
