//! Commands on keys, whatever they hold.

mod dump;
pub(super) mod expire;
mod scan;
mod slots;

use stillframe_keyspace::{DATABASES, Entry, MemoryError, Type, Value};
use stillframe_resp::parse_integer;

pub use self::dump::payload;
pub(super) use self::scan::scan_collection;
pub use self::scan::{keys_by, scan_by, scan_remarks_by};
pub use self::slots::{Slots, scan_slots_by};

use crate::context::Context;
use crate::errors::{DB_RANGE, NO_SUCH_KEY, NOT_AN_INTEGER, Refusal, SAME_OBJECT, SYNTAX};
use crate::table::Table;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("copy", copy);
    table.add("dbsize", dbsize);
    table.add("del", del);
    table.add("exists", exists);
    table.add("flushall", flushall);
    table.add("flushdb", flushdb);
    table.add("move", move_key);
    table.add("object", object_help);
    table.add("object|encoding", object_encoding);
    table.add("object|freq", object_freq);
    table.add("object|help", object_help);
    table.add("object|idletime", object_idletime);
    table.add("object|refcount", object_refcount);
    table.add("rename", rename);
    table.add("renamenx", renamenx);
    table.add("swapdb", swapdb);
    table.add("touch", touch);
    table.add("type", type_of);
    table.add("unlink", del);
    scan::register(table);
    expire::register(table);
    dump::register(table);
}

/// `DEL key...` and `UNLINK key...`
fn del(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let db = ctx.caller.db;
    let mut deleted = 0;
    for key in &args[1..] {
        // Asked first, because a key whose time has come is absent and not deleted by this.
        if ctx.exists(key) && ctx.keyspace.remove(db, key) {
            ctx.changed_as(key, 'g', "del");
            deleted += 1;
        }
    }
    ctx.out.integer(deleted);
    Ok(())
}

/// `EXISTS key...`: how many of them exist, repetitions counted.
fn exists(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let found = args[1..].iter().map(|key| ctx.probe(key, |_, entry| i64::from(entry.is_some())));
    let count = found.sum();
    ctx.out.integer(count);
    Ok(())
}

/// `TOUCH key...`: as EXISTS, but it is a use of the keys.
fn touch(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let found = args[1..].iter().map(|key| ctx.read(key, |_, entry| i64::from(entry.is_some())));
    let count = found.sum();
    ctx.out.integer(count);
    Ok(())
}

/// `TYPE key`
fn type_of(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.probe(args[1], |out, entry| {
        out.simple(entry.map_or("none", |entry| type_name(entry.value())));
    });
    Ok(())
}

/// The type of a value, as TYPE names it.
fn type_name(value: Value<'_>) -> &'static str {
    match value.kind() {
        Type::String => "string",
        Type::List => "list",
        Type::Hash => "hash",
        Type::Set => "set",
        Type::Sorted => "zset",
        Type::Stream => "stream",
        Type::Array => "array",
    }
}

/// `RENAME key newkey`
fn rename(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (from, to) = (args[1], args[2]);
    if !ctx.exists(from) {
        return Err(NO_SUCH_KEY);
    }
    if from != to {
        relocate(ctx, from, ctx.caller.db, to, ["rename_from", "rename_to"])?;
    }
    ctx.out.ok();
    Ok(())
}

/// `RENAMENX key newkey`
fn renamenx(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (from, to) = (args[1], args[2]);
    if !ctx.exists(from) {
        return Err(NO_SUCH_KEY);
    }
    if ctx.exists(to) {
        ctx.out.integer(0);
        return Ok(());
    }
    relocate(ctx, from, ctx.caller.db, to, ["rename_from", "rename_to"])?;
    ctx.out.integer(1);
    Ok(())
}

/// Moves an existing key. `events`: what notifications call the leaving and the arriving.
fn relocate(
    ctx: &mut Context<'_>,
    from: &[u8],
    to_db: usize,
    to: &[u8],
    events: [&'static str; 2],
) -> Result<(), Refusal> {
    let db = ctx.caller.db;
    let before = ctx.kind_to_replace(to_db, to);
    let outcome = ctx.keyspace.rename(db, from, to_db, to).map(drop);
    ctx.touched(db, from);
    relocated(ctx, to_db, to, outcome)?;
    ctx.ledger.notify('g', events[0], db, from);
    ctx.ledger.notify('g', events[1], to_db, to);
    note_arrived(ctx, to_db, to, before);
    Ok(())
}

/// What RENAME, MOVE and COPY do once `to` is written: one change, on which `to` is touched.
fn relocated(
    ctx: &mut Context<'_>,
    to_db: usize,
    to: &[u8],
    outcome: Result<(), MemoryError>,
) -> Result<(), Refusal> {
    outcome?;
    ctx.ledger.dirty += 1;
    ctx.touched(to_db, to);
    ctx.note_expired();
    ctx.ledger.notify('n', "new", to_db, to);
    Ok(())
}

/// Notifies clients of a key that a value has come to, of what was there before.
fn note_arrived(ctx: &mut Context<'_>, db: usize, key: &[u8], before: Option<Type>) {
    if before.is_some()
        && let Some(now) = ctx.kind_to_replace(db, key)
    {
        ctx.note_replaced(db, key, before, now);
    }
}

/// `MOVE key db`
fn move_key(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let key = args[1];
    let to_db = parse_db(args[2])?;
    if to_db == ctx.caller.db {
        return Err(SAME_OBJECT);
    }
    if !ctx.exists(key) || ctx.keyspace.contains(to_db, key, ctx.now) {
        ctx.out.integer(0);
        return Ok(());
    }
    relocate(ctx, key, to_db, key, ["move_from", "move_to"])?;
    ctx.out.integer(1);
    Ok(())
}

/// `COPY source destination [DB db] [REPLACE]`
fn copy(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (from, to, db) = (args[1], args[2], ctx.caller.db);
    let (mut to_db, mut replace) = (db, false);
    let mut rest = &args[3..];
    while let [option, after @ ..] = rest {
        rest = after;
        if option.eq_ignore_ascii_case(b"REPLACE") {
            replace = true;
        } else if let (true, [number, after @ ..]) = (option.eq_ignore_ascii_case(b"DB"), rest) {
            rest = after;
            to_db = parse_db(number)?;
        } else {
            return Err(SYNTAX);
        }
    }
    if (db, from) == (to_db, to) {
        return Err(SAME_OBJECT);
    }
    let found = ctx.read(from, |_, entry| entry.is_some());
    if !found || (ctx.keyspace.contains(to_db, to, ctx.now) && !replace) {
        ctx.out.integer(0);
        return Ok(());
    }
    let before = ctx.kind_to_replace(to_db, to);
    let outcome = ctx.keyspace.copy(db, from, to_db, to).map(drop);
    relocated(ctx, to_db, to, outcome)?;
    ctx.ledger.notify('g', "copy_to", to_db, to);
    note_arrived(ctx, to_db, to, before);
    ctx.out.integer(1);
    Ok(())
}

/// The databases that SWAPDB names.
///
/// # Errors
/// There are no such databases.
pub fn parse_swap(args: &[&[u8]]) -> Result<[usize; 2], Refusal> {
    let parse = |number| parse_integer(number).and_then(|number| i32::try_from(number).ok());
    let a = parse(args[1]).ok_or("ERR invalid first DB index")?;
    let b = parse(args[2]).ok_or("ERR invalid second DB index")?;
    let known = |db| usize::try_from(db).ok().filter(|&db| db < DATABASES);
    let (Some(a), Some(b)) = (known(a), known(b)) else { return Err(DB_RANGE) };
    Ok([a, b])
}

/// The number of a database.
pub fn parse_db(number: &[u8]) -> Result<usize, Refusal> {
    let number = parse_integer(number).ok_or(NOT_AN_INTEGER)?;
    let number = i32::try_from(number)
        .map_err(|_| "ERR value is out of range, value must between -2147483648 and 2147483647")?;
    usize::try_from(number).ok().filter(|&db| db < DATABASES).ok_or(DB_RANGE)
}

/// `DBSIZE`
fn dbsize(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.integer(ctx.keyspace.len(ctx.caller.db) as i64);
    Ok(())
}

/// `FLUSHDB [ASYNC | SYNC]`
fn flushdb(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    check_flush_option(&args[1..])?;
    let db = ctx.caller.db;
    before_flush(ctx, db);
    ctx.keyspace.clear(db);
    ctx.effect(args); // though there was nothing, as in Redis
    ctx.ledger.invalidate_all();
    ctx.out.ok();
    Ok(())
}

/// `FLUSHALL [ASYNC | SYNC]`
fn flushall(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    check_flush_option(&args[1..])?;
    for db in 0..DATABASES {
        before_flush(ctx, db);
    }
    ctx.keyspace.clear_all();
    ctx.effect(args); // though there was nothing, as in Redis
    ctx.ledger.invalidate_all();
    ctx.out.ok();
    Ok(())
}

/// `SWAPDB index index`
fn swapdb(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let [a, b] = parse_swap(args)?;
    if a != b {
        let Context { keyspace, ledger, now, .. } = ctx;
        // A client that watches a key sees it replaced if the key is in either database.
        let mut exists = |key: &[u8]| [a, b].iter().any(|&db| keyspace.contains(db, key, *now));
        ledger.watches.touch_all(a, &mut exists);
        ledger.watches.touch_all(b, &mut exists);
        keyspace.swap(a, b);
    }
    // Named here: a key that the search below finds expired was deleted after the swap.
    ctx.ledger.dirty += 1;
    ctx.effect(args);
    if a != b {
        let Context { keyspace, ledger, now, .. } = ctx;
        // Some wait for a key that is there now, some are refused as theirs is gone.
        let mut exists = |key: &[u8]| [a, b].iter().any(|&db| keyspace.contains(db, key, *now));
        for db in [a, b] {
            ledger.waiters.touch_all(db, &mut exists);
        }
    }
    ctx.out.ok();
    Ok(())
}

/// Both ways are the same here: values are always freed off this thread.
/// Reads the option of FLUSHDB and FLUSHALL, which makes no difference.
///
/// # Errors
/// There is something else.
pub fn check_flush_option(options: &[&[u8]]) -> Result<(), Refusal> {
    match options {
        [] => Ok(()),
        [option] if option.eq_ignore_ascii_case(b"ASYNC") => Ok(()),
        [option] if option.eq_ignore_ascii_case(b"SYNC") => Ok(()),
        _ => Err(SYNTAX),
    }
}

/// Counts the keys of `db` as changed and marks clients that watch or need one that exists.
pub(super) fn before_flush(ctx: &mut Context<'_>, db: usize) {
    let Context { keyspace, ledger, now, .. } = ctx;
    ledger.dirty += keyspace.len(db) as u64;
    ledger.watches.touch_all(db, |key| keyspace.contains(db, key, *now));
    ledger.waiters.touch_all(db, |key| keyspace.contains(db, key, *now));
}

/// `OBJECT ENCODING key`
fn object_encoding(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.peek(args[2], |out, entry| out.bulk_or_null(entry.map(Entry::value).map(encoding)));
    Ok(())
}

/// What Redis would keep such a value in.
pub fn encoding(value: Value<'_>) -> &'static str {
    /// Longest string that Redis allocates together with its object header.
    const EMBEDDED_BYTES_MAX: usize = 44;
    match value {
        Value::Int(_) => "int",
        Value::Bytes(bytes) if bytes.len() <= EMBEDDED_BYTES_MAX => "embstr",
        Value::Bytes(_) => "raw",
        Value::List(_) => "quicklist",
        Value::Hash(hash) => {
            if hash.is_packed() {
                if hash.has_deadlines() { "listpackex" } else { "listpack" }
            } else {
                "hashtable"
            }
        }
        Value::Set(set) => {
            if set.is_packed() {
                "intset"
            } else {
                "hashtable"
            }
        }
        Value::Sorted(sorted) => {
            if sorted.is_packed() {
                "listpack"
            } else {
                "skiplist"
            }
        }
        Value::Stream(_) => "stream",
        Value::Array(_) => "sliced-array",
        _ => "unknown",
    }
}

/// `OBJECT REFCOUNT key`
fn object_refcount(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let is_own = ctx.ledger.settings.keeps_uses;
    ctx.peek(args[2], |out, entry| match entry.map(Entry::value) {
        None => out.null(),
        // Redis shares one object among all keys that hold a small integer, unless each key needs
        // to know when it was used.
        Some(Value::Int(0..=9999)) if !is_own => out.integer(i32::MAX.into()),
        Some(_) => out.integer(1),
    });
    Ok(())
}

/// `OBJECT FREQ key`
fn object_freq(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let found = ctx.peek(args[2], |_, entry| entry.is_some());
    if found && !ctx.ledger.settings.counts_frequency {
        return Err(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please \
             note that when switching between policies at runtime LRU and LFU data will take some \
             time to adjust."
                .into(),
        );
    }
    match ctx.keyspace.frequency(ctx.caller.db, args[2]).filter(|_| found) {
        Some(frequency) => ctx.out.integer(frequency.into()),
        None => ctx.out.null(),
    }
    Ok(())
}

/// `OBJECT IDLETIME key`: in seconds.
fn object_idletime(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let found = ctx.peek(args[2], |_, entry| entry.is_some());
    if found && ctx.ledger.settings.counts_frequency {
        return Err(
            "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that \
             when switching between policies at runtime LRU and LFU data will take some time to \
             adjust."
                .into(),
        );
    }
    match ctx.keyspace.idle_ms(ctx.caller.db, args[2]).filter(|_| found) {
        Some(idle_ms) => ctx.out.integer((idle_ms / 1000).cast_signed()),
        None => ctx.out.null(),
    }
    Ok(())
}

/// `OBJECT HELP`
fn object_help(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.lines(&[
        "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ENCODING <key>",
        "    Name the form in which Redis would keep the value.",
        "FREQ <key>",
        "    Show how often the key is used, on a logarithmic scale from 0 to 255.",
        "IDLETIME <key>",
        "    Show the seconds since the key was used.",
        "REFCOUNT <key>",
        "    Show how many places Redis would refer to the value from.",
        "HELP",
        "    Print this help.",
    ]);
    Ok(())
}
