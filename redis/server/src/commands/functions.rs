//! Functions: FCALL, FCALL_RO, FUNCTION.
//!
//! The sources of libraries are part of the data set (`Keyspace::libraries`): images, replicas and
//! the log have them. The interpreter loads them as they come.

use std::time::{Duration, Instant};

use stillframe_commands::Refusal;
use stillframe_commands::text::glob;
use stillframe_rdb::Encoder;
use stillframe_script::{Functions, LibraryError, Registered};

use super::scripts::{Terms, end, may_start, run_in, show_first};
use super::{Context, Table};
use crate::data::scripts::{Kind, Loading, Run};

/// How long a library may take to load.
const LOAD_MAX: Duration = Duration::from_millis(500);

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("fcall", |ctx, args| call(ctx, args, false));
    table.add_server("fcall_ro", |ctx, args| call(ctx, args, true));
    table.add_server("function", help);
    table.add_server("function|delete", delete);
    table.add_server("function|dump", dump);
    table.add_server("function|flush", flush);
    table.add_server("function|help", help);
    table.add_server("function|kill", |ctx, _| end(ctx, Kind::Function));
    table.add_server("function|list", list);
    table.add_server("function|load", load);
    table.add_server("function|restore", restore);
    table.add_server("function|stats", stats);
}

fn loading(ctx: &Context<'_>) -> Loading {
    let patient = ctx.session.caller.internal;
    Loading { deadline: (!patient).then(|| Instant::now() + LOAD_MAX) }
}

/// The interpreter, with the libraries of the data set.
fn functions<'a>(ctx: &'a mut Context<'_>) -> Result<&'a mut Functions, Refusal> {
    ctx.server.scripts.functions(ctx.keyspace.libraries(), &ctx.server.config)
}

/// The libraries have changed: the data set gets those of the interpreter.
fn changed(ctx: &mut Context<'_>) {
    ctx.server.scripts.keep(ctx.keyspace);
    ctx.server.ledger.dirty += 1;
}

/// `FCALL function numkeys [key ...] [arg ...]`
fn call(ctx: &mut Context<'_>, args: &[&[u8]], reads: bool) -> Result<(), Refusal> {
    show_first(ctx, args);
    let name = String::from_utf8_lossy(args[1]).into_owned();
    let said = functions(ctx)?.flags(&name).ok_or("ERR Function not found")?;
    let count = stillframe_resp::parse_integer(args[2]);
    let keys = match count.ok_or("ERR Bad number of keys provided")?.try_into() {
        Err(_) => return Err("ERR Number of keys can't be negative".into()),
        Ok(count) if count > args.len() - 3 => {
            return Err("ERR Number of keys can't be greater than number of args".into());
        }
        Ok(count) => count,
    };
    let out_of_memory = may_start(ctx, said, reads)?;
    let caller = &ctx.session.caller;
    let run = Run::new(Kind::Function, caller.place, caller.internal);
    let Some(mut functions) = ctx.server.scripts.lend_functions(run) else {
        return Err("ERR a script is running".into());
    };
    let (keys, rest) = args[3..].split_at(keys);
    let (name, request) = (&*name, args);
    let terms = Terms { name, request, keys, flags: said, reads, out_of_memory };
    let outcome = run_in(ctx, terms, |host, out| functions.call(name, keys, rest, host, out));
    ctx.server.scripts.give_functions_back(functions);
    outcome
}

fn unloadable(error: LibraryError) -> Refusal {
    format!("ERR {error}").into()
}

/// `FUNCTION LOAD [REPLACE] source`
fn load(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (options, source) = (&args[2..args.len() - 1], args[args.len() - 1]);
    if let Some(other) = options.iter().find(|it| !it.eq_ignore_ascii_case(b"replace")) {
        let other = String::from_utf8_lossy(other);
        return Err(format!("ERR Unknown option given: {other}").into());
    }
    let mut host = loading(ctx);
    let name = functions(ctx)?.load(source, !options.is_empty(), &mut host).map_err(unloadable)?;
    changed(ctx);
    ctx.out.bulk(name);
    Ok(())
}

/// `FUNCTION DELETE library`
fn delete(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    if !functions(ctx)?.delete(&String::from_utf8_lossy(args[2])) {
        return Err("ERR Library not found".into());
    }
    changed(ctx);
    ctx.out.ok();
    Ok(())
}

/// `FUNCTION FLUSH [ASYNC | SYNC]`
fn flush(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    match &args[2..] {
        [] => {}
        [mode] if mode.eq_ignore_ascii_case(b"sync") || mode.eq_ignore_ascii_case(b"async") => {}
        [_] => return Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option".into()),
        _ => return Err(unknown(args)),
    }
    ctx.keyspace.set_libraries(Vec::new());
    ctx.server.ledger.dirty += 1;
    ctx.out.ok();
    Ok(())
}

fn unknown(args: &[&[u8]]) -> Refusal {
    let name = String::from_utf8_lossy(args[1]);
    format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try FUNCTION HELP.")
        .into()
}

/// `FUNCTION DUMP`
fn dump(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let mut encoder = Encoder::new(Vec::new());
    let write = |encoder: &mut Encoder<Vec<u8>>| -> std::io::Result<u64> {
        for source in ctx.keyspace.libraries().sources() {
            encoder.library(source)?;
        }
        encoder.finish_payload()
    };
    write(&mut encoder).map_err(|error| format!("ERR {error}"))?;
    ctx.out.bulk(encoder.into_output());
    Ok(())
}

/// `FUNCTION RESTORE payload [FLUSH | APPEND | REPLACE]`
fn restore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let policy = match &args[3..] {
        [] => b"append".to_vec(),
        [policy] => policy.to_ascii_lowercase(),
        _ => return Err(unknown(args)),
    };
    if ![&b"flush"[..], b"append", b"replace"].contains(&&policy[..]) {
        return Err("ERR Wrong restore policy given, value should be either FLUSH, APPEND or \
                    REPLACE."
            .into());
    }
    let sources = stillframe_rdb::libraries(args[2])
        .map_err(|_| "ERR DUMP payload version or checksum are wrong")?;
    let mut host = loading(ctx);
    let before = ctx.keyspace.libraries().clone();
    if policy == b"flush" {
        ctx.keyspace.set_libraries(Vec::new());
    }
    let mut restored = || -> Result<(), Refusal> {
        let functions = functions(ctx)?;
        let mut names = Vec::new();
        for source in &sources {
            let source = source.as_ref().ok_or("ERR given type is not a function")?;
            let (name, _) = stillframe_script::library_name(source).map_err(unloadable)?;
            let again = names.contains(&name);
            names.push(name);
            let replace = policy == b"replace" && !again;
            functions.load(source, replace, &mut host).map_err(|error| match error {
                LibraryError::Exists(name) => format!("ERR Library {name} already exists").into(),
                other => unloadable(other),
            })?;
        }
        Ok(())
    };
    if let Err(refusal) = restored() {
        ctx.keyspace.set_libraries(before.sources().to_vec()); // all of them or none
        return Err(refusal);
    }
    changed(ctx);
    ctx.out.ok();
    Ok(())
}

/// `FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]`
fn list(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (mut pattern, mut with_code) = (None, false);
    let mut options = args[2..].iter();
    while let Some(option) = options.next() {
        if !with_code && option.eq_ignore_ascii_case(b"withcode") {
            with_code = true;
        } else if pattern.is_none() && option.eq_ignore_ascii_case(b"libraryname") {
            pattern = Some(options.next().ok_or("ERR library name argument was not given")?);
        } else {
            let option = String::from_utf8_lossy(option);
            return Err(format!("ERR Unknown argument {option}").into());
        }
    }
    functions(ctx)?;
    let Some(functions) = ctx.server.scripts.loaded_functions() else { return Ok(()) };
    let fits = |name: &str| {
        pattern.is_none_or(|pattern| {
            glob::matches(&pattern.to_ascii_lowercase(), name.to_ascii_lowercase().as_bytes())
        })
    };
    let found: Vec<_> = functions.libraries().iter().filter(|(name, _)| fits(name)).collect();
    let out = &mut ctx.out;
    out.array(found.len());
    for (name, library) in found {
        out.map(if with_code { 4 } else { 3 });
        ["library_name", name, "engine", "LUA", "functions"].iter().for_each(|it| out.bulk(it));
        out.array(library.functions.len());
        for (name, Registered { description, flags, .. }) in &library.functions {
            out.map(3);
            ["name", name, "description"].iter().for_each(|it| out.bulk(it));
            out.bulk_or_null(description.as_ref());
            out.bulk("flags");
            let flags = flags.names();
            out.set(flags.len());
            flags.iter().for_each(|flag| out.simple(flag));
        }
        if with_code {
            out.bulk("library_code");
            out.bulk(&library.source);
        }
    }
    Ok(())
}

/// `FUNCTION STATS`
fn stats(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let libraries = ctx.keyspace.libraries().sources().len();
    let busy = match ctx.server.scripts.running() {
        Some(run) if run.kind == Kind::Script => return Err(run.kind.busy().into()),
        Some(run) => Some((run.called.clone(), run.started.elapsed())),
        None => None,
    };
    let count = match &busy {
        Some(_) => ctx.server.scripts.taken_by_functions(ctx.keyspace.libraries()).count,
        None => functions(ctx)?.len(),
    };
    let out = &mut ctx.out;
    out.map(2);
    out.bulk("running_script");
    match &busy {
        None => out.null(),
        Some((called, elapsed)) => {
            let (name, request) = called.split_first().unzip();
            out.map(3);
            out.bulk("name");
            out.bulk(name.map_or(&b""[..], |name| name));
            out.bulk("command");
            let request = request.unwrap_or_default();
            out.array(request.len());
            request.iter().for_each(|word| out.bulk(word));
            out.bulk("duration_ms");
            out.integer(elapsed.as_millis() as i64);
        }
    }
    out.bulk("engines");
    out.map(1);
    out.bulk("LUA");
    out.map(2);
    out.bulk("libraries_count");
    out.integer(libraries as i64);
    out.bulk("functions_count");
    out.integer(count as i64);
    Ok(())
}

/// `FUNCTION HELP`
fn help(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.lines(&[
        "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DELETE <library>",
        "    Delete a library.",
        "DUMP",
        "    Return all libraries as a payload for RESTORE.",
        "FLUSH [ASYNC|SYNC]",
        "    Delete all libraries.",
        "KILL",
        "    End the function that runs, unless it has written.",
        "LIST [LIBRARYNAME <pattern>] [WITHCODE]",
        "    Show libraries with their functions.",
        "LOAD [REPLACE] <source>",
        "    Load a library.",
        "RESTORE <payload> [FLUSH|APPEND|REPLACE]",
        "    Load the libraries of a payload: in place of all, beside the others, or in place of",
        "    those of the same names.",
        "STATS",
        "    Show the function that runs, and how many there are.",
        "HELP",
        "    Print this help.",
    ]);
    Ok(())
}
