//! XINFO: what a stream, its groups and their consumers are like.

use stillframe_keyspace::{Consumer, Group, Stream, StreamId};
use stillframe_resp::{Out, parse_integer};

use super::group::{no_such_group, unknown};
use super::{answer_entry, answer_id};
use crate::context::Context;
use crate::errors::{NO_SUCH_KEY, NOT_AN_INTEGER, Refusal};
use crate::progress::Progress;
use crate::table::Table;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("xinfo", help);
    table.add("xinfo|consumers", consumers);
    table.add("xinfo|groups", groups);
    table.add("xinfo|help", help);
    table.add("xinfo|stream", stream);
}

fn found<'s, 'c>(
    ctx: &'s mut Context<'c>,
    key: &[u8],
) -> Result<(&'s mut Out<'c>, Stream<'s>), Refusal> {
    let (out, stream) = ctx.stream(key)?;
    Ok((out, stream.ok_or(NO_SUCH_KEY)?))
}

/// The groups in the order of their names.
fn sorted(stream: Stream<'_>) -> Vec<Group<'_>> {
    let mut groups: Vec<_> = stream.groups().collect();
    groups.sort_by_key(|group| group.name());
    groups
}

fn answer_count(out: &mut Out<'_>, name: &str, count: u64) {
    out.bulk(name);
    out.integer(count as i64);
}

fn answer_id_of(out: &mut Out<'_>, name: &str, id: StreamId) {
    out.bulk(name);
    answer_id(out, id);
}

fn answer_or_null(out: &mut Out<'_>, name: &str, number: Option<i64>) {
    out.bulk(name);
    match number {
        Some(number) => out.integer(number),
        None => out.null(),
    }
}

/// `XINFO CONSUMERS key group`
fn consumers(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let now = ctx.now;
    let (out, stream) = found(ctx, args[2])?;
    let group = stream.group(args[3]).ok_or_else(|| no_such_group(args[2], args[3]))?;
    out.array(group.consumer_count());
    for consumer in group.consumers() {
        out.map(4);
        out.bulk("name");
        out.bulk(consumer.name());
        answer_count(out, "pending", consumer.pending_len() as u64);
        out.bulk("idle");
        out.integer(now.wrapping_sub(consumer.seen_ms()).max(0));
        out.bulk("inactive");
        out.integer(consumer.active_ms().map_or(-1, |at| now.wrapping_sub(at).max(0)));
    }
    Ok(())
}

/// `XINFO GROUPS key`
fn groups(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, stream) = found(ctx, args[2])?;
    let progress = Progress::from_stream(stream);
    out.array(stream.group_count());
    for group in sorted(stream) {
        out.map(6);
        out.bulk("name");
        out.bulk(group.name());
        answer_count(out, "consumers", group.consumer_count() as u64);
        answer_count(out, "pending", group.pending_len() as u64);
        answer_id_of(out, "last-delivered-id", group.last_id());
        answer_or_null(out, "entries-read", group.entries_read().map(|read| read as i64));
        answer_or_null(out, "lag", progress.lag(group));
    }
    Ok(())
}

/// What XINFO STREAM is asked for beside the summary: so many entries of each list, 0 for all.
fn full(args: &[&[u8]]) -> Result<Option<usize>, Refusal> {
    const COUNT: usize = 10;
    match &args[3..] {
        [] => Ok(None),
        [word] if word.eq_ignore_ascii_case(b"full") => Ok(Some(COUNT)),
        [word, name, count]
            if word.eq_ignore_ascii_case(b"full") && name.eq_ignore_ascii_case(b"count") =>
        {
            let count = parse_integer(count).ok_or(NOT_AN_INTEGER)?;
            Ok(Some(usize::try_from(count).unwrap_or(COUNT)))
        }
        _ => Err(unknown("XINFO", args[1])),
    }
}

/// `XINFO STREAM key [FULL [COUNT count]]`
fn stream(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (node, now) = (ctx.keyspace.limits().stream_node_entries.max(1), ctx.now);
    let (out, stream) = found(ctx, args[2])?;
    let full = full(args)?;
    // What Redis 7.0 does not tell is told of streams that have it alone.
    let idmp = stream.has_idmp();
    out.map(if full.is_some() { 9 } else { 10 } + if idmp { 6 } else { 0 });
    answer_count(out, "length", stream.len() as u64);
    // There are no radix trees here: these are about what Redis would say.
    let nodes = stream.len().div_ceil(node) as u64;
    answer_count(out, "radix-tree-keys", nodes);
    answer_count(out, "radix-tree-nodes", nodes + 1);
    answer_id_of(out, "last-generated-id", stream.last_id());
    answer_id_of(out, "max-deleted-entry-id", stream.deleted_id());
    answer_count(out, "entries-added", stream.added());
    let first = stream.at(0);
    answer_id_of(out, "recorded-first-entry-id", first.map_or(StreamId::MIN, |first| first.id));
    if idmp {
        answer_idmp(out, stream, now);
    }
    let Some(count) = full else {
        answer_count(out, "groups", stream.group_count() as u64);
        let last = stream.iter_back_from(stream.len()).next();
        for (name, entry) in [("first-entry", first), ("last-entry", last)] {
            out.bulk(name);
            match entry {
                Some(entry) => answer_entry(out, &entry),
                None => out.null(),
            }
        }
        return Ok(());
    };
    let most = if count == 0 { usize::MAX } else { count };
    out.bulk("entries");
    out.array(stream.len().min(most));
    stream.iter_from(0).take(most).for_each(|entry| answer_entry(out, &entry));
    out.bulk("groups");
    out.array(stream.group_count());
    let progress = Progress::from_stream(stream);
    let released = stream.has_released();
    let groups = sorted(stream).into_iter();
    groups.for_each(|group| answer_group(out, group, progress, most, released));
    Ok(())
}

/// Answers what is known of producers.
fn answer_idmp(out: &mut Out<'_>, stream: Stream<'_>, now: i64) {
    let (limits, (producers, messages)) = (stream.idmp_limits(), stream.idmp_known(now));
    let (added, duplicates) = stream.idmp_counts();
    answer_count(out, "idmp-duration", limits.duration_s.into());
    answer_count(out, "idmp-maxsize", limits.entries.into());
    answer_count(out, "pids-tracked", producers as u64);
    answer_count(out, "iids-tracked", messages as u64);
    answer_count(out, "iids-added", added);
    answer_count(out, "iids-duplicates", duplicates);
}

fn answer_group(
    out: &mut Out<'_>,
    group: Group<'_>,
    progress: Progress,
    most: usize,
    released: bool,
) {
    out.map(if released { 8 } else { 7 });
    out.bulk("name");
    out.bulk(group.name());
    answer_id_of(out, "last-delivered-id", group.last_id());
    answer_or_null(out, "entries-read", group.entries_read().map(|read| read as i64));
    answer_or_null(out, "lag", progress.lag(group));
    answer_count(out, "pel-count", group.pending_len() as u64);
    if released {
        answer_count(out, "nacked-count", group.released_len() as u64);
    }
    out.bulk("pending");
    out.array(group.pending_len().min(most));
    for pending in group.pending_from(StreamId::MIN).take(most) {
        out.array(4);
        answer_id(out, pending.id);
        out.bulk(pending.consumer.unwrap_or_default());
        out.integer(pending.time_ms);
        out.integer(pending.count as i64);
    }
    out.bulk("consumers");
    out.array(group.consumer_count());
    group.consumers().for_each(|consumer| answer_consumer(out, group, consumer, most));
}

fn answer_consumer(out: &mut Out<'_>, group: Group<'_>, consumer: Consumer<'_>, most: usize) {
    out.map(5);
    out.bulk("name");
    out.bulk(consumer.name());
    out.bulk("seen-time");
    out.integer(consumer.seen_ms());
    out.bulk("active-time");
    out.integer(consumer.active_ms().unwrap_or(-1));
    answer_count(out, "pel-count", consumer.pending_len() as u64);
    out.bulk("pending");
    out.array(consumer.pending_len().min(most));
    let owned = consumer.pending_from(StreamId::MIN).take(most);
    for pending in owned.filter_map(|id| group.pending(id)) {
        out.array(3);
        answer_id(out, pending.id);
        out.integer(pending.time_ms);
        out.integer(pending.count as i64);
    }
}

/// `XINFO HELP`
fn help(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.lines(&[
        "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CONSUMERS <key> <groupname>",
        "    Show consumers of <groupname>.",
        "GROUPS <key>",
        "    Show the stream consumer groups.",
        "STREAM <key> [FULL [COUNT <count>]",
        "    Show information about the stream.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}
