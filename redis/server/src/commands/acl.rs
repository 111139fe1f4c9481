//! ACL: users, their passwords and rights.

use std::collections::HashSet;
use std::sync::Once;

use stillframe_resp::parse_integer;

use super::pubsub::wrong_subcommand;
use super::{Context, Lookup, Table, permissions, wrong_arity};
use crate::node::acl::{DEFAULT, Denied, RuleError};
use crate::node::config::rewrite;
use stillframe_commands::errors::NOT_AN_INTEGER;
use stillframe_commands::text::c_string;
use stillframe_commands::{Refusal, categories};

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("acl", help);
    table.add_server("acl|cat", cat);
    table.add_server("acl|deluser", deluser);
    table.add_server("acl|dryrun", dryrun);
    table.add_server("acl|genpass", genpass);
    table.add_server("acl|getuser", getuser);
    table.add_server("acl|help", help);
    table.add_server("acl|list", list);
    table.add_server("acl|load", load);
    table.add_server("acl|log", log);
    table.add_server("acl|save", save);
    table.add_server("acl|setuser", setuser);
    table.add_server("acl|users", users);
    table.add_server("acl|whoami", whoami);
}

/// `ACL CAT [category]`
fn cat(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    match args.get(2..).unwrap_or_default() {
        [] => {
            ctx.out.array(categories::NAMES.len());
            categories::NAMES.iter().for_each(|name| ctx.out.bulk(name));
        }
        [category] => {
            let Some(bit) = categories::bit(category) else {
                return Err([b"ERR Unknown category '", c_string(category), b"'"].concat().into());
            };
            let commands = ctx.server.users.catalog().iter();
            let members: Vec<&str> =
                commands.filter(|(_, c)| c.categories & bit != 0).map(|(_, c)| c.name).collect();
            ctx.out.array(members.len());
            members.into_iter().for_each(|name| ctx.out.bulk(name));
        }
        _ => return Err(wrong_subcommand(args)),
    }
    Ok(())
}

/// `ACL SETUSER name [rule...]`
fn setuser(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (name, rules) = (args[2], &args[3..]);
    if name.iter().any(|&byte| byte.is_ascii_whitespace() || byte == 0) {
        return Err("ERR Usernames can't contain spaces or null characters".into());
    }
    let mut user = ctx.server.users.edit(name);
    match ctx.server.users.change(&mut user, rules) {
        Ok(()) => {
            ctx.server.users.put(user);
            warn_in_group(ctx);
            if let Some(number) = ctx.server.users.find(name) {
                end_subscriptions(ctx, number);
            }
            ctx.out.ok();
        }
        Err(error @ RuleError::Unmatched { .. }) => return Err(format!("ERR {error}").into()),
        Err(RuleError::Wrong { rule, problem }) => {
            let start = b"ERR Error in ACL SETUSER modifier '";
            return Err([&start[..], &rule, b"': ", problem.as_bytes()].concat().into());
        }
    }
    Ok(())
}

/// Says once that users are not replicated.
fn warn_in_group(ctx: &Context<'_>) {
    static ONCE: Once = Once::new();
    if ctx.server.group.is_member() {
        ONCE.call_once(|| {
            tracing::warn!(
                "ACL SETUSER and DELUSER change the users of this member alone: send them to each \
                 member of the group, or have each read the same file by ACL LOAD"
            );
        });
    }
}

/// `ACL DELUSER name...`: their connections end.
fn deluser(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    if args[2..].contains(&&b"default"[..]) {
        return Err("ERR The 'default' user cannot be removed".into());
    }
    let users = &mut ctx.server.users;
    let removed: HashSet<usize> = args[2..].iter().filter_map(|name| users.remove(name)).collect();
    end_connections(ctx, &removed);
    warn_in_group(ctx);
    ctx.out.integer(removed.len() as i64);
    Ok(())
}

/// Ends the connections of some users.
fn end_connections(ctx: &mut Context<'_>, numbers: &HashSet<usize>) {
    ctx.server.clients.close_all_later(|client| numbers.contains(&client.session.user));
    ctx.session.closing |= numbers.contains(&ctx.session.user);
}

/// Ends the connections of a user with subscriptions that the user may no longer have.
fn end_subscriptions(ctx: &mut Context<'_>, number: usize) {
    let users = &ctx.server.users;
    let Some(user) = users.get(number).filter(|user| !user.unlimited) else { return };
    let forbidden = |session: &crate::connections::client::Session| {
        session.user == number
            && session.subscriptions.as_ref().is_some_and(|own| {
                own.all().any(|(name, pattern)| !user.allows_channel(name, pattern))
            })
    };
    ctx.server.clients.close_all_later(|client| forbidden(&client.session));
    ctx.session.closing |= forbidden(ctx.session);
}

/// `ACL GETUSER name`
fn getuser(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let Context { server, out, .. } = ctx;
    let users = &server.users;
    let Some(user) = users.find(args[2]).and_then(|number| users.get(number)) else {
        out.null();
        return Ok(());
    };
    out.map(6);
    out.bulk("flags");
    let flags = user.flags();
    out.set(flags.len());
    flags.into_iter().for_each(|flag| out.bulk(flag));
    out.bulk("passwords");
    let hashes = user.hashes();
    out.array(hashes.len());
    hashes.into_iter().for_each(|hash| out.bulk(hash));
    let (own, others) = user.selectors().split_at(1);
    for selector in own {
        out.bulk("commands");
        out.bulk(selector.show_commands(users.catalog()));
        out.bulk("keys");
        out.bulk(selector.show_keys());
        out.bulk("channels");
        out.bulk(selector.show_channels());
    }
    out.bulk("selectors");
    out.array(others.len());
    for selector in others {
        out.map(3);
        out.bulk("commands");
        out.bulk(selector.show_commands(users.catalog()));
        out.bulk("keys");
        out.bulk(selector.show_keys());
        out.bulk("channels");
        out.bulk(selector.show_channels());
    }
    Ok(())
}

/// `ACL LIST`
fn list(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let Context { server, out, .. } = ctx;
    let lines: Vec<Vec<u8>> = server
        .users
        .iter()
        .map(|user| [b"user ", &user.name[..], b" ", &user.show(server.users.catalog())].concat())
        .collect();
    out.array(lines.len());
    lines.into_iter().for_each(|line| out.bulk(line));
    Ok(())
}

/// `ACL USERS`
fn users(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let Context { server, out, .. } = ctx;
    out.array(server.users.iter().count());
    server.users.iter().for_each(|user| out.bulk(&user.name));
    Ok(())
}

/// `ACL WHOAMI`
fn whoami(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.bulk(ctx.server.users.name(ctx.session.user));
    Ok(())
}

/// `ACL GENPASS [bits]`: from the system's random source.
fn genpass(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let bits = match args.get(2..).unwrap_or_default() {
        [] => Some(256),
        [bits] => match parse_integer(bits) {
            Some(bits) => usize::try_from(bits).ok(),
            None => return Err(NOT_AN_INTEGER),
        },
        _ => return Err(wrong_subcommand(args)),
    };
    let Some(bits @ 1..=4096) = bits else {
        return Err(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a \
             positive number up to 4096"
                .into(),
        );
    };
    let digits = bits.div_ceil(4);
    let mut secret = vec![0; digits.div_ceil(2)];
    let filled = rustix::rand::getrandom(&mut secret[..], rustix::rand::GetRandomFlags::empty());
    // The system always fills up to 256 bytes; a signal may cut a longer request.
    if filled != Ok(secret.len()) {
        return Err("ERR the system has no random bytes, try again".into());
    }
    let text: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    ctx.out.bulk(&text[..digits]);
    Ok(())
}

/// `ACL LOG [count | RESET]`
fn log(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let count = match args.get(2..).unwrap_or_default() {
        [] => 10,
        [word] if word.eq_ignore_ascii_case(b"reset") => {
            ctx.server.users.forget_refusals();
            ctx.out.ok();
            return Ok(());
        }
        [count] => match parse_integer(count) {
            Some(count) => usize::try_from(count).unwrap_or(0),
            None => return Err(NOT_AN_INTEGER),
        },
        _ => return Err(wrong_subcommand(args)),
    };
    let Context { server, out, .. } = ctx;
    let entries = server.users.refusals();
    let now = server.clock.turn();
    out.array(entries.len().min(count));
    for entry in entries.iter().take(count) {
        let age = now.saturating_duration_since(entry.at).as_millis() as f64 / 1000.0;
        out.map(7);
        out.bulk("count");
        out.integer(entry.count as i64);
        for (name, value) in [
            ("reason", entry.reason.as_bytes()),
            ("context", entry.context.as_bytes()),
            ("object", &entry.object),
            ("username", &entry.user),
        ] {
            out.bulk(name);
            out.bulk(value);
        }
        out.bulk("age-seconds");
        out.double(age);
        out.bulk("client-info");
        out.bulk(&entry.client);
    }
    Ok(())
}

/// `ACL DRYRUN user command [argument...]`
fn dryrun(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let users = &ctx.server.users;
    let Some(user) = users.find(args[2]).and_then(|number| users.get(number)) else {
        return Err([b"ERR User '", c_string(args[2]), b"' not found"].concat().into());
    };
    let request = &args[3..];
    let Lookup::Found(index) = ctx.table.lookup_for_client(request) else {
        return Err([b"ERR Command '", c_string(args[3]), b"' not found"].concat().into());
    };
    let command = ctx.table.get(index);
    if !command.accepts(request.len()) {
        return Err(wrong_arity(command.name));
    }
    let touched = permissions::touched(command, index, request);
    let Err(denied) = user.check(&touched) else {
        ctx.out.ok();
        return Ok(());
    };
    let (_, object) = permissions::object(&denied, &touched, command.name);
    let (verb, kind) = match denied {
        Denied::Command => ("run", "command"),
        Denied::Key(_) => ("access", "key"),
        Denied::Channel(_) => ("access", "channel"),
    };
    let start = format!("This user has no permissions to {verb} the '");
    ctx.out.bulk([start.as_bytes(), &object, b"' ", kind.as_bytes()].concat());
    Ok(())
}

const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want \
    to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you \
    have a Redis configuration file set) in order to store users in the Redis configuration.";

/// `ACL SAVE`: replaces the file whole or not at all.
fn save(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let file = &ctx.server.config.aclfile;
    if file.is_empty() {
        return Err(NO_FILE.into());
    }
    let lines = ctx.server.users.lines();
    let text: Vec<u8> = lines.flat_map(|line| [&line[..], b"\n"].concat()).collect();
    match rewrite::replace(file.as_ref(), &text) {
        Ok(()) => ctx.out.ok(),
        Err(error) => {
            tracing::error!("cannot write the aclfile {file}: {error}");
            return Err("ERR There was an error trying to save the ACLs. Please check the \
                           server logs for more information"
                .into());
        }
    }
    Ok(())
}

/// `ACL LOAD`: loads the whole file, or nothing if a line is wrong.
fn load(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let file = &ctx.server.config.aclfile;
    if file.is_empty() {
        return Err(NO_FILE.into());
    }
    let loaded = std::fs::read(file)
        .map_err(|error| format!("Error loading ACLs, opening file '{file}': {error}"))
        .and_then(|text| {
            let loaded = ctx.server.users.load(&text);
            loaded.map_err(|problem| format!("{file}, {problem}. WARNING: ACL errors detected, no change to the previously active ACL rules was performed"))
        });
    match loaded {
        Ok(touched) => {
            // Redis spares connections of the user `default`, too.
            let touched = touched.into_iter().filter(|&number| number != DEFAULT).collect();
            end_connections(ctx, &touched);
            ctx.out.ok();
        }
        Err(problem) => return Err(format!("ERR {problem}").into()),
    }
    Ok(())
}

/// `ACL HELP`
fn help(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.lines(&[
        "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CAT [<category>]",
        "    List the categories, or the commands of one.",
        "DELUSER <username> [<username> ...]",
        "    Delete users and end their connections.",
        "DRYRUN <username> <command> [<arg> ...]",
        "    Return whether the user may run the command, without running it.",
        "GETUSER <username>",
        "    Return a user's details.",
        "GENPASS [<bits>]",
        "    Make a password of 256 or so many random bits.",
        "LIST",
        "    List the users as lines of a configuration file.",
        "LOAD",
        "    Read the users from the ACL file again.",
        "LOG [<count> | RESET]",
        "    Show what was refused.",
        "SAVE",
        "    Write the users into the ACL file.",
        "SETUSER <username> <rule> [<rule> ...]",
        "    Create or change a user.",
        "USERS",
        "    List the names of the users.",
        "WHOAMI",
        "    Return the name of this connection's user.",
        "HELP",
        "    Print this help.",
    ]);
    Ok(())
}
