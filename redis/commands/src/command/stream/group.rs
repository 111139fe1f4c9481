//! XGROUP and XACK, and what all commands of groups share.

use std::time::{SystemTime, UNIX_EPOCH};

use stillframe_keyspace::{Group, Pending, Stream, StreamId};
use stillframe_resp::{format_integer, parse_integer};

use super::{id, idmp};
use crate::context::Context;
use crate::errors::{NOT_AN_INTEGER, Refusal, WrongType};
use crate::table::Table;
use crate::text::c_string;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("xack", xack);
    table.add("xgroup", help);
    table.add("xgroup|create", create);
    table.add("xgroup|createconsumer", create_consumer);
    table.add("xgroup|delconsumer", delete_consumer);
    table.add("xgroup|destroy", destroy);
    table.add("xgroup|help", help);
    table.add("xgroup|setid", set_id);
}

/// `XACK key group id...`
fn xack(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, name) = (args[1], args[2]);
    let (out, stream) = ctx.stream(key)?;
    if stream.and_then(|stream| stream.group(name)).is_none() {
        out.integer(0);
        return Ok(());
    }
    let ids = args[3..].iter().map(|text| id::strict(text, 0)).collect::<Result<Vec<_>, _>>()?;
    let acknowledged = ctx.keyspace.edit_stream(ctx.caller.db, key, |edit| {
        ids.iter().filter(|&&id| edit.acknowledge(name, id)).count()
    })?;
    ctx.ledger.dirty += acknowledged as u64;
    ctx.out.integer(acknowledged as i64);
    Ok(())
}

/// Options behind the id of XGROUP CREATE and SETID.
#[derive(Default)]
struct Options {
    makes_stream: bool,
    read: Option<u64>,
}

impl Options {
    fn parse(mut rest: &[&[u8]], name: &[u8]) -> Result<Self, Refusal> {
        let mut options = Self::default();
        while let [option, after @ ..] = rest {
            match (option.to_ascii_lowercase().as_slice(), after) {
                (b"mkstream", _) if name.eq_ignore_ascii_case(b"create") => {
                    options.makes_stream = true;
                    rest = after;
                }
                (b"entriesread", [number, after @ ..]) => {
                    options.read = match parse_integer(number).ok_or(NOT_AN_INTEGER)? {
                        -1 => None,
                        number => Some(u64::try_from(number).map_err(|_| {
                            Refusal::new("ERR value for ENTRIESREAD must be positive or -1")
                        })?),
                    };
                    rest = after;
                }
                _ => return Err(unknown("XGROUP", name)),
            }
        }
        Ok(options)
    }
}

/// Notes a request whose group would have read more than was ever added with a number that is not
/// too large, and others as they are: servers before Redis 8.2 take any.
fn effect_of_limited(ctx: &mut Context<'_>, args: &[&[u8]], read: Option<u64>, added: u64) {
    if read.is_none_or(|read| read <= added) {
        return ctx.effect(args);
    }
    let (mut words, mut digits) = (args.to_vec(), [0; 20]);
    let options = words.iter().skip(5).position(|it| it.eq_ignore_ascii_case(b"entriesread"));
    if let Some(number) = options.and_then(|at| words.get_mut(5 + at + 1)) {
        *number = format_integer(i64::try_from(added).unwrap_or(i64::MAX), &mut digits);
        ctx.effect(&words);
    }
}

/// The refusal of a sub-command that has other arguments.
pub(super) fn unknown(container: &str, name: &[u8]) -> Refusal {
    let name = String::from_utf8_lossy(&name[..name.len().min(128)]).into_owned();
    format!(
        "ERR unknown subcommand or wrong number of arguments for '{name}'. Try {container} HELP."
    )
    .into()
}

const NO_STREAM: Refusal = Refusal::new(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use \
     the MKSTREAM option to create an empty stream automatically.",
);

/// The refusal of a sub-command whose group is missing.
pub(super) fn no_such_group(key: &[u8], group: &[u8]) -> Refusal {
    let (key, group) = (c_string(key), c_string(group));
    [b"NOGROUP No such consumer group '", group, b"' for key name '", key, b"'"].concat().into()
}

/// The stream of an XGROUP, to be changed.
fn stream_of<'s>(ctx: &'s mut Context<'_>, key: &[u8]) -> Result<Stream<'s>, Refusal> {
    let (_, stream) = ctx.found_to_edit::<Stream<'_>>(key)?;
    stream.ok_or(NO_STREAM)
}

fn group_of<'s>(
    ctx: &'s mut Context<'_>,
    key: &[u8],
    name: &'s [u8],
) -> Result<(Stream<'s>, Group<'s>), Refusal> {
    let stream = stream_of(ctx, key)?;
    let group = stream.group(name).ok_or_else(|| no_such_group(key, name))?;
    Ok((stream, group))
}

/// `XGROUP CREATE key group id | $ [MKSTREAM] [ENTRIESREAD entries-read]`
fn create(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, name) = (args[2], args[3]);
    let options = Options::parse(&args[5..], args[1])?;
    let (_, stream) = ctx.found_to_edit::<Stream<'_>>(key)?;
    if stream.is_none() && !options.makes_stream {
        return Err(NO_STREAM);
    }
    if args.len() > 8 {
        return Err(unknown("XGROUP", args[1]));
    }
    let last = match args[4] {
        b"$" => stream.map_or(StreamId::MIN, Stream::last_id),
        text => id::strict(text, 0)?,
    };
    let (is_first, added) = (stream.is_none(), stream.map_or(0, Stream::added));
    let limits = idmp::limits_of_new(ctx).filter(|_| is_first);
    let is_new = ctx.keyspace.edit_stream(ctx.caller.db, key, |edit| {
        if let Some(limits) = limits {
            edit.set_idmp_limits(limits);
        }
        edit.create_group(name, last, options.read)
    })?;
    if !is_new {
        return Err("BUSYGROUP Consumer Group name already exists".into());
    }
    if is_first {
        ctx.touched(ctx.caller.db, key);
    }
    effect_of_limited(ctx, args, options.read, added);
    if let Some(limits) = limits {
        idmp::effect_of_limits(ctx, key, limits);
    }
    ctx.changed_beside(key, "xgroup-create");
    ctx.out.ok();
    Ok(())
}

/// `XGROUP SETID key group id | $ [ENTRIESREAD entries-read]`
fn set_id(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, name) = (args[2], args[3]);
    let options = Options::parse(&args[5..], args[1])?;
    let (stream, _) = group_of(ctx, key, name)?;
    if args.len() > 7 {
        return Err(unknown("XGROUP", args[1]));
    }
    let last = match args[4] {
        b"$" => stream.last_id(),
        text => id::any(text, 0)?,
    };
    let added = stream.added();
    let db = ctx.caller.db;
    ctx.keyspace.edit_stream(db, key, |edit| edit.set_group(name, last, options.read))?;
    effect_of_limited(ctx, args, options.read, added);
    ctx.changed_beside(key, "xgroup-setid");
    ctx.out.ok();
    Ok(())
}

/// `XGROUP DESTROY key group`
fn destroy(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, name) = (args[2], args[3]);
    stream_of(ctx, key)?;
    let was = ctx.keyspace.edit_stream(ctx.caller.db, key, |edit| edit.destroy_group(name))?;
    if was {
        ctx.changed_beside(key, "xgroup-destroy");
        // Who waits for entries of the group is refused.
        ctx.ledger.waiters.touch(ctx.caller.db, key);
    }
    ctx.out.integer(was.into());
    Ok(())
}

/// `XGROUP CREATECONSUMER key group consumer`
fn create_consumer(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, name, consumer) = (args[2], args[3], args[4]);
    let (_, group) = group_of(ctx, key, name)?;
    let is_new = group.consumer(consumer).is_none();
    if is_new {
        see_consumer(ctx, key, name, consumer, false)?;
    }
    ctx.out.integer(is_new.into());
    Ok(())
}

/// The time of the machine.
fn unix_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Notes that a consumer has asked for entries, unless it is new: it is made once it gets some.
pub(super) fn see_known_consumer(
    ctx: &mut Context<'_>,
    key: &[u8],
    group: &[u8],
    consumer: &[u8],
) -> Result<(), Refusal> {
    match found(ctx, key, group)? {
        Some((_, it)) if it.consumer(consumer).is_some() => {
            see_consumer(ctx, key, group, consumer, false)
        }
        _ => Ok(()),
    }
}

/// Notes that a consumer was seen, and whether it got entries; one that is new is made.
pub(super) fn see_consumer(
    ctx: &mut Context<'_>,
    key: &[u8],
    group: &[u8],
    consumer: &[u8],
    is_active: bool,
) -> Result<(), Refusal> {
    let (db, now) = (ctx.caller.db, ctx.now);
    // No request says when a consumer was seen: replayed, it is seen at that time.
    let seen_ms = if ctx.caller.internal { unix_millis() } else { now };
    let active_ms = is_active.then_some(seen_ms);
    let is_new = ctx
        .keyspace
        .edit_stream(db, key, |edit| edit.see_consumer(group, consumer, seen_ms, active_ms))?;
    if is_new {
        ctx.changed_beside(key, "xgroup-createconsumer");
        ctx.effect(&[b"XGROUP", b"CREATECONSUMER", key, group, consumer]);
    }
    Ok(())
}

/// `XGROUP DELCONSUMER key group consumer`
fn delete_consumer(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, name, consumer) = (args[2], args[3], args[4]);
    group_of(ctx, key, name)?;
    let db = ctx.caller.db;
    let pending = ctx.keyspace.edit_stream(db, key, |edit| edit.remove_consumer(name, consumer))?;
    if pending.is_some() {
        ctx.changed_beside(key, "xgroup-delconsumer");
    }
    ctx.out.integer(pending.unwrap_or(0) as i64);
    Ok(())
}

/// `XGROUP HELP`
fn help(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.lines(&[
        "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CREATE <key> <groupname> <id|$> [option]",
        "    Create a new consumer group. Options are:",
        "    * MKSTREAM",
        "      Create the empty stream if it does not exist.",
        "    * ENTRIESREAD entries_read",
        "      Set the group's entries_read counter (internal use).",
        "CREATECONSUMER <key> <groupname> <consumer>",
        "    Create a new consumer in the specified group.",
        "DELCONSUMER <key> <groupname> <consumer>",
        "    Remove the specified consumer.",
        "DESTROY <key> <groupname>",
        "    Remove the specified group.",
        "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
        "    Set the current group ID and entries_read counter.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}

/// Notes what became of an entry that is pending for a consumer, as a request that makes it so.
pub(super) fn effect_of_claim(
    ctx: &mut Context<'_>,
    key: &[u8],
    group: &[u8],
    pending: Pending<'_>,
    last: StreamId,
) {
    if !ctx.ledger.effects.wanted() {
        return;
    }
    let (id, last) = (id::text(pending.id), id::text(last));
    let (mut time, mut count) = ([0; 20], [0; 20]);
    let time = format_integer(pending.time_ms, &mut time);
    let count = format_integer(i64::try_from(pending.count).unwrap_or(i64::MAX), &mut count);
    let Some(consumer) = pending.consumer else { return };
    ctx.effect(&[
        b"XCLAIM",
        key,
        group,
        consumer,
        b"0",
        id.as_ref(),
        b"TIME",
        time,
        b"RETRYCOUNT",
        count,
        b"FORCE",
        b"JUSTID",
        b"LASTID",
        last.as_ref(),
    ]);
}

/// Notes that entries are not pending any more, as a request that takes them off.
pub(super) fn effect_of_acknowledgement(
    ctx: &mut Context<'_>,
    key: &[u8],
    group: &[u8],
    ids: &[StreamId],
) {
    if ids.is_empty() || !ctx.ledger.effects.wanted() {
        return;
    }
    let ids: Vec<_> = ids.iter().map(|&id| id::text(id)).collect();
    let mut words = vec![&b"XACK"[..], key, group];
    words.extend(ids.iter().map(AsRef::as_ref));
    ctx.effect(&words);
}

/// Notes what a group has read, as a request that sets it.
pub(super) fn effect_of_group(
    ctx: &mut Context<'_>,
    key: &[u8],
    group: &[u8],
    last: StreamId,
    read: Option<u64>,
) {
    let (last, mut digits) = (id::text(last), [0; 20]);
    let read = read.map_or(-1, |read| i64::try_from(read).unwrap_or(i64::MAX));
    let read = format_integer(read, &mut digits);
    ctx.effect(&[b"XGROUP", b"SETID", key, group, last.as_ref(), b"ENTRIESREAD", read]);
}

/// The stream and its group, for a command that reads.
pub(super) fn found<'s>(
    ctx: &'s mut Context<'_>,
    key: &[u8],
    name: &'s [u8],
) -> Result<Option<(Stream<'s>, Group<'s>)>, WrongType> {
    let (_, stream) = ctx.stream(key)?;
    Ok(stream.and_then(|stream| Some((stream, stream.group(name)?))))
}
