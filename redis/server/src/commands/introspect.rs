//! COMMAND: the commands of the server, from the table itself and its documents.

use stillframe_resp::Out;

use super::{Command, Context, Lookup, Table, permissions};
use stillframe_commands::Refusal;
use stillframe_commands::errors::SYNTAX;
use stillframe_commands::facts::{Argument, Begin, Find, More, READ, Spec, WRITE, categories};
use stillframe_commands::flags::{ABSENT, NAMES, NO_MANDATORY_KEYS};
use stillframe_commands::text::glob;

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("command", all);
    table.add_server("command|count", count);
    table.add_server("command|help", help);
    table.add_server("command|info", info);
    table.add_server("command|list", list);
    table.add_server("command|docs", docs);
    table.add_server("command|getkeys", getkeys);
    table.add_server("command|getkeysandflags", getkeysandflags);
}

fn offered(table: &Table) -> impl Iterator<Item = &Command> {
    table.all().iter().filter(|command| table.is_offered(command))
}

fn top_level(table: &Table) -> impl Iterator<Item = &Command> {
    offered(table).filter(|command| !command.name.contains('|'))
}

/// `COMMAND`
fn all(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let table = ctx.table;
    ctx.out.array(top_level(table).count());
    top_level(table).for_each(|command| describe(&mut ctx.out, table, command));
    Ok(())
}

/// `COMMAND HELP`
fn help(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.lines(&[
        "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "(no subcommand)",
        "    Describe all commands.",
        "COUNT",
        "    Count the commands.",
        "DOCS [<name> ...]",
        "    Show the documents of these commands, or of all.",
        "GETKEYS <request>",
        "    Show the keys of a request.",
        "GETKEYSANDFLAGS <request>",
        "    Show the keys of a request and what it does with them.",
        "INFO [<name> ...]",
        "    Describe these commands, or all.",
        "LIST [FILTERBY (MODULE <name>|ACLCAT <category>|PATTERN <pattern>)]",
        "    Name the commands, or those chosen.",
        "HELP",
        "    Print this help.",
    ]);
    Ok(())
}
/// `COMMAND COUNT`
fn count(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.integer(top_level(ctx.table).count() as i64);
    Ok(())
}

/// `COMMAND INFO [name...]`
fn info(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
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
    Ok(())
}

/// `COMMAND LIST [FILTERBY MODULE m | ACLCAT c | PATTERN p]`
fn list(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let table = ctx.table;
    let names: Vec<&str> = match args.get(2..).unwrap_or_default() {
        [] => offered(table).map(|command| command.name).collect(),
        [filter, kind, value] if filter.eq_ignore_ascii_case(b"filterby") => {
            let value = value.to_ascii_lowercase();
            let chosen: fn(&Command, &[u8]) -> bool = match kind.to_ascii_lowercase().as_slice() {
                b"module" => |_, _| false,
                b"aclcat" => |command, value| {
                    categories(command).iter().any(|name| &name.as_bytes()[1..] == value)
                },
                b"pattern" => |command, value| glob::matches(value, command.name.as_bytes()),
                _ => return Err(SYNTAX),
            };
            offered(table).filter(|command| chosen(command, &value)).map(|c| c.name).collect()
        }
        _ => return Err(SYNTAX),
    };
    // As in Redis, the filtered list is no set.
    if args.len() == 2 {
        ctx.out.set(names.len());
    } else {
        ctx.out.array(names.len());
    }
    names.into_iter().for_each(|name| ctx.out.bulk(name));
    Ok(())
}

/// `COMMAND DOCS [name...]`
fn docs(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let table = ctx.table;
    let names = args.get(2..).unwrap_or_default();
    let chosen: Vec<&Command> = if names.is_empty() {
        top_level(table).collect()
    } else {
        names.iter().filter_map(|name| by_full_name(table, name)).collect()
    };
    ctx.out.map(chosen.len());
    chosen.into_iter().for_each(|command| document(&mut ctx.out, table, command));
    Ok(())
}

/// A command's name and document.
fn document(out: &mut Out<'_>, table: &Table, command: &Command) {
    let document = command.facts;
    let mut flags = document.document_flags.clone();
    let arguments = document.arguments();
    flags.extend(document.deprecated.map(|_| "deprecated"));
    let (since, instead) = document.deprecated.unwrap_or_default();
    let texts = [
        ("summary", document.summary),
        ("since", document.since),
        ("group", document.group),
        ("complexity", document.complexity),
    ];
    let deprecated = [("deprecated_since", since), ("replaced_by", instead)];
    let count = |texts: &[(&str, &str)]| texts.iter().filter(|(_, text)| !text.is_empty()).count();
    out.bulk(command.name);
    let lists = [flags.len(), arguments.len(), command.subcommands.len()];
    let lists = lists.into_iter().filter(|&count| count > 0).count();
    out.map(count(&texts) + count(&deprecated) + lists);
    fields(out, &texts);
    if !flags.is_empty() {
        out.bulk("doc_flags");
        words(out, &flags);
    }
    fields(out, &deprecated);
    if !arguments.is_empty() {
        out.bulk("arguments");
        self::arguments(out, &arguments);
    }
    if !command.subcommands.is_empty() {
        out.bulk("subcommands");
        out.map(command.subcommands.len());
        command.subcommands.iter().for_each(|&index| self::document(out, table, table.get(index)));
    }
}

/// Fields that have a text.
fn fields(out: &mut Out<'_>, fields: &[(&str, &str)]) {
    for (name, text) in fields.iter().filter(|(_, text)| !text.is_empty()) {
        out.bulk(name);
        out.bulk(text);
    }
}

/// A set of words.
fn words<S: AsRef<str>>(out: &mut Out<'_>, words: &[S]) {
    out.set(words.len());
    words.iter().for_each(|word| out.simple(word.as_ref()));
}

fn arguments(out: &mut Out<'_>, arguments: &[Argument]) {
    out.array(arguments.len());
    for argument in arguments {
        let Argument { name, kind, spec, token, since, deprecated_since, flags, parts } = argument;
        let texts = [token, since, deprecated_since].into_iter().flatten().count();
        let lists = usize::from(!flags.is_empty()) + usize::from(!parts.is_empty());
        out.map(2 + usize::from(spec.is_some()) + texts + lists);
        fields(out, &[("name", name), ("type", kind.name())]);
        if let Some(spec) = spec {
            out.bulk("key_spec_index");
            out.integer(*spec);
        }
        let text = |text: &'_ Option<String>| text.clone().unwrap_or_default();
        if let Some(token) = token {
            out.bulk("token"); // MIGRATE has an empty one
            out.bulk(token);
        }
        fields(out, &[("since", &text(since))]);
        fields(out, &[("deprecated_since", &text(deprecated_since))]);
        if !flags.is_empty() {
            out.bulk("flags");
            words(out, flags);
        }
        if !parts.is_empty() {
            out.bulk("arguments");
            self::arguments(out, parts);
        }
    }
}

/// `COMMAND GETKEYS name [argument...]`
fn getkeys(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let keys = keys_of(ctx.table, args.get(2..).unwrap_or_default())?;
    ctx.out.array(keys.len());
    keys.into_iter().for_each(|(key, _)| ctx.out.bulk(key));
    Ok(())
}

/// `COMMAND GETKEYSANDFLAGS name [argument...]`
fn getkeysandflags(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let keys = keys_of(ctx.table, args.get(2..).unwrap_or_default())?;
    ctx.out.array(keys.len());
    for (key, flags) in keys {
        ctx.out.array(2);
        ctx.out.bulk(key);
        words(&mut ctx.out, &flags);
    }
    Ok(())
}

/// A key, and the access to it.
type Used<'a> = (&'a [u8], Vec<&'static str>);

/// The keys of a request, each with the access to it; or why they are unknown.
fn keys_of<'a>(table: &Table, request: &[&'a [u8]]) -> Result<Vec<Used<'a>>, Refusal> {
    const INVALID: Refusal = Refusal::new("ERR Invalid arguments specified for command");
    let Lookup::Found(index) = table.lookup_for_client(request) else {
        return Err("ERR Invalid command specified".into());
    };
    let command = table.get(index);
    if command.has(ABSENT) {
        return Err("ERR Invalid command specified".into());
    }
    let specs = &command.facts.specs;
    if !specs.iter().any(Spec::is_of_keys) {
        return Err("ERR The command has no key arguments".into());
    }
    if !command.accepts(request.len()) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    let mut keys = Vec::new();
    for spec in specs {
        let found = match spec.begin {
            // MIGRATE names keys behind KEYS in place of an empty key, not beside it.
            Begin::Keyword(..) if command.keys.more == More::Migrated => continue,
            Begin::Index(_) if command.keys.more == More::Migrated => {
                command.keys.in_request(request)
            }
            // SORT alone: the data decides which other keys it reads; the table knows the one it
            // writes.
            Begin::Unknown if spec.flags.contains(&"OW") => {
                command.keys.in_request(request).get(1..).unwrap_or_default().to_vec()
            }
            Begin::Unknown => continue,
            _ => match spec.find(request) {
                None if !command.has(NO_MANDATORY_KEYS) => return Err(INVALID),
                found => found.unwrap_or_default(),
            },
        };
        let flags = if spec.varies() { done(command, request) } else { spec.flags.clone() };
        keys.extend(found.into_iter().map(|key| (key, flags.clone())));
    }
    if keys.is_empty() && !command.has(NO_MANDATORY_KEYS) { Err(INVALID) } else { Ok(keys) }
}

/// The access of a request to its key where its arguments decide.
fn done(command: &Command, request: &[&[u8]]) -> Vec<&'static str> {
    let [access, _] = permissions::access(command, request);
    match (access & READ != 0, access & WRITE != 0) {
        (true, true) => vec!["RW", "access", "update"],
        (true, false) => vec!["RO", "access"],
        _ => vec!["OW", "update"],
    }
}

/// The command of a name such as `get` or `client|list`, in any case.
fn by_full_name<'t>(table: &'t Table, name: &[u8]) -> Option<&'t Command> {
    let mut parts = name.splitn(2, |&byte| byte == b'|');
    let command = table.get(table.find_for_client(parts.next()?)?);
    let found = match parts.next() {
        None => Some(command),
        Some(own) => table.find_sub(command, own).map(|index| table.get(index)),
    };
    found.filter(|command| !command.has(ABSENT))
}

fn describe(out: &mut Out<'_>, table: &Table, command: &Command) {
    let shown = NAMES.iter().filter(|(flag, _)| command.has(*flag));
    let shown: Vec<&str> = shown.map(|(_, name)| *name).collect();
    let facts = command.facts;
    out.array(10);
    out.bulk(command.name);
    out.integer(command.arity.into());
    words(out, &shown);
    out.integer(command.keys.first.into());
    out.integer(command.keys.last.into());
    out.integer(command.keys.step.into());
    words(out, &categories(command));
    out.set(facts.tips.len());
    facts.tips.iter().for_each(|tip| out.bulk(tip));
    out.set(facts.specs.len());
    facts.specs.iter().for_each(|spec| describe_keys(out, spec));
    out.set(command.subcommands.len());
    command.subcommands.iter().for_each(|&index| describe(out, table, table.get(index)));
}

/// The places of some of the keys, in Redis's form.
fn describe_keys(out: &mut Out<'_>, spec: &Spec) {
    out.map(3);
    out.bulk("flags");
    words(out, &spec.flags);
    out.bulk("begin_search");
    match &spec.begin {
        Begin::Index(index) => numbers(out, "index", &[("index", *index as i64)]),
        Begin::Keyword(word, from) => {
            kind(out, "keyword", 2);
            fields(out, &[("keyword", word)]);
            out.bulk("startfrom");
            out.integer(*from);
        }
        Begin::Unknown => numbers(out, "unknown", &[]),
    }
    out.bulk("find_keys");
    match spec.find {
        Find::Range { last, step, parts } => {
            let limit = if parts > 1 { parts.into() } else { 0 };
            let fields = [("lastkey", last.into()), ("keystep", step.into()), ("limit", limit)];
            numbers(out, "range", &fields);
        }
        Find::Counted { step } => {
            let fields = [("keynumidx", 0), ("firstkey", 1), ("keystep", step.into())];
            numbers(out, "keynum", &fields);
        }
        Find::Unknown => numbers(out, "unknown", &[]),
    }
}

fn kind(out: &mut Out<'_>, kind: &str, fields: usize) {
    out.map(2);
    self::fields(out, &[("type", kind)]);
    out.bulk("spec");
    out.map(fields);
}

fn numbers(out: &mut Out<'_>, kind: &str, fields: &[(&str, i64)]) {
    self::kind(out, kind, fields.len());
    for (name, number) in fields {
        out.bulk(name);
        out.integer(*number);
    }
}

fn categories(command: &Command) -> Vec<String> {
    categories::names(command.facts.categories).map(|name| format!("@{name}")).collect()
}
