//! XREAD and XREADGROUP: entries behind an id of each of several streams, at once or as soon as
//! there are some.

use std::time::Duration;

use stillframe_keyspace::{Group, Pending, Stream, StreamId, Type};
use stillframe_resp::{Out, Protocol, parse_integer};

use super::group::{Progress, effect_of_claim, effect_of_group, found, see_consumer};
use super::{Word, answer_entry, id, no_group_in, top_of};
use crate::command::blocking::Wish;
use crate::context::Context;
use crate::errors::{NOT_AN_INTEGER, Refusal, SYNTAX};
use crate::table::Table;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("xread", xread);
    table.add("xreadgroup", xreadgroup);
}

/// Most entries of a reply to a client that has waited and gave no count.
const COUNT_AFTER_WAIT: &[u8] = b"1000";

/// A request for entries.
#[derive(Debug, Default)]
struct Query<'r, 'a> {
    /// The group and the consumer of XREADGROUP.
    group: Option<[&'a [u8]; 2]>,
    /// Most entries of each stream; `None`: all.
    count: Option<usize>,
    /// BLOCK was given, with this timeout.
    block: Option<Option<Duration>>,
    /// What is read is not pending.
    no_ack: bool,
    keys: &'r [&'a [u8]],
    ids: &'r [&'a [u8]],
}

impl<'r, 'a> Query<'r, 'a> {
    /// `[GROUP group consumer] [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key... id...`
    fn parse(ctx: &Context<'_>, args: &'r [&'a [u8]], of_group: bool) -> Result<Self, Refusal> {
        let mut query = Self::default();
        let only = |option: &str| {
            Refusal::from(format!(
                "ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
            ))
        };
        let mut rest = &args[1..];
        while let [option, after @ ..] = rest {
            rest = after;
            match (Word::of(option).as_slice(), after) {
                (b"block", [_, ..]) if ctx.ledger.in_script => {
                    let why = b" command is not allowed with BLOCK option from scripts";
                    return Err([b"ERR ", args[0], why].concat().into());
                }
                (b"block", [text, after @ ..]) => {
                    query.block = Some(timeout(text)?);
                    rest = after;
                }
                (b"count", [text, after @ ..]) => {
                    let count = parse_integer(text).ok_or(NOT_AN_INTEGER)?;
                    query.count = usize::try_from(count).ok().filter(|&count| count > 0);
                    rest = after;
                }
                (b"streams", [_, ..]) => {
                    let half = after.len() / 2;
                    if after.len() % 2 != 0 {
                        return Err(UNBALANCED);
                    }
                    (query.keys, query.ids) = after.split_at(half);
                    break;
                }
                (b"group", [group, consumer, after @ ..]) => {
                    if !of_group {
                        return Err(only("GROUP"));
                    }
                    query.group = Some([group, consumer]);
                    rest = after;
                }
                (b"noack", _) => {
                    if !of_group {
                        return Err(only("NOACK"));
                    }
                    query.no_ack = true;
                }
                _ => return Err(SYNTAX),
            }
        }
        match query.group {
            _ if query.keys.is_empty() => Err(SYNTAX),
            None if of_group => Err("ERR Missing GROUP option for XREADGROUP".into()),
            _ => Ok(query),
        }
    }
}

/// Redis says this of XREADGROUP, too.
const UNBALANCED: Refusal = Refusal::new(
    "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
);

/// A timeout in milliseconds; 0 is for ever.
fn timeout(text: &[u8]) -> Result<Option<Duration>, Refusal> {
    let millis = parse_integer(text).ok_or("ERR timeout is not an integer or out of range")?;
    match u64::try_from(millis) {
        Ok(0) => Ok(None),
        Ok(millis) => Ok(Some(Duration::from_millis(millis))),
        Err(_) => Err("ERR timeout is negative".into()),
    }
}

/// Begins the reply's part of one stream.
fn answer_key(out: &mut Out<'_>, key: &[u8]) {
    if out.protocol == Protocol::Resp2 {
        out.array(2);
    }
    out.bulk(key);
}

/// Ends the reply, of which so many streams have a part behind `start`.
fn answer_streams(out: &mut Out<'_>, start: usize, streams: usize) {
    let mut head = Vec::new();
    let mut before = Out::new(&mut head, out.protocol);
    match out.protocol {
        Protocol::Resp2 => before.array(streams),
        Protocol::Resp3 => before.map(streams),
    }
    out.buffer.splice(start..start, head);
}

/// `XREAD [COUNT count] [BLOCK milliseconds] STREAMS key... id...`
fn xread(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let query = Query::parse(ctx, args, false)?;
    let mut from = Vec::with_capacity(query.keys.len());
    for (key, text) in query.keys.iter().zip(query.ids) {
        let (_, stream) = ctx.stream(key)?;
        from.push(match *text {
            b"$" => stream.map_or(StreamId::MIN, Stream::last_id),
            b">" => {
                return Err(
                    "ERR The > ID can be specified only when calling XREADGROUP using the \
                            GROUP <group> <consumer> option."
                        .into(),
                );
            }
            text => id::strict(text, 0)?,
        });
    }
    let (start, mut streams) = (ctx.out.position(), 0);
    for (key, from) in query.keys.iter().zip(&from) {
        let (out, stream) = ctx.stream(key)?;
        if let Some(stream) = stream.filter(|it| top_of(*it).is_some_and(|top| top > *from)) {
            answer_key(out, key);
            answer_behind(out, stream, *from, query.count);
            streams += 1;
        }
    }
    if streams > 0 {
        answer_streams(&mut ctx.out, start, streams);
        return Ok(());
    }
    let own: Vec<_> = from.into_iter().map(id::text).collect();
    let own: Vec<&[u8]> = own.iter().map(AsRef::as_ref).collect();
    wait(ctx, &query, &[args[0]], &own);
    Ok(())
}

/// Answers the entries behind an id, and returns their ids.
fn answer_behind(
    out: &mut Out<'_>,
    stream: Stream<'_>,
    from: StreamId,
    count: Option<usize>,
) -> Vec<StreamId> {
    let first = from.next().map_or(stream.len(), |next| stream.below(next));
    let found = (stream.len() - first).min(count.unwrap_or(usize::MAX));
    out.array(found);
    let entries = stream.iter_from(first).take(found);
    entries.inspect(|entry| answer_entry(out, entry)).map(|entry| entry.id).collect()
}

/// Makes the client wait for one of the keys, if it asked for that and may.
fn wait(ctx: &mut Context<'_>, query: &Query<'_, '_>, head: &[&[u8]], own: &[&[u8]]) {
    if ctx.caller.resumed {
        return ctx.wait_on();
    }
    let Some(timeout) = query.block.filter(|_| ctx.may_block()) else {
        return ctx.out.null_array();
    };
    let count = query.count.map(|count| count.to_string());
    let count = count.as_ref().map_or(COUNT_AFTER_WAIT, |count| count.as_bytes());
    let before = [head, &[b"COUNT", count, b"STREAMS"]].concat();
    let keys = query.keys;
    ctx.block(&Wish {
        keys,
        kind: Type::Stream,
        timeout,
        before: &before,
        own,
        after: &[],
        needs_keys: query.group.is_some(),
    });
}

/// Where XREADGROUP reads.
#[derive(Clone, Copy)]
enum From {
    /// What nobody of the group has read.
    New,
    /// What is pending for the consumer, behind this id.
    Own(StreamId),
}

/// `XREADGROUP GROUP group consumer [COUNT count] [BLOCK ms] [NOACK] STREAMS key... id...`
fn xreadgroup(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let query = Query::parse(ctx, args, true)?;
    let [group, consumer] = query.group.unwrap_or_default();
    let mut from = Vec::with_capacity(query.keys.len());
    for (key, text) in query.keys.iter().zip(query.ids) {
        if ctx.caller.resumed {
            refuse_resumed(ctx, key, group)?;
        } else if found(ctx, key, group)?.is_none() {
            return Err(no_group_in(key, group, b" in XREADGROUP with GROUP option"));
        }
        from.push(match *text {
            b">" => From::New,
            b"$" => {
                return Err(
                    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to \
                            read the history of this consumer by specifying a proper ID, or use \
                            the > ID to get new messages. The $ ID would just return an empty \
                            result set."
                        .into(),
                );
            }
            text => match id::strict(text, 0)? {
                StreamId::MAX => From::New,
                id => From::Own(id),
            },
        });
    }
    ctx.no_effect();
    let (start, mut streams) = (ctx.out.position(), 0);
    for (key, from) in query.keys.iter().zip(&from) {
        let served = match *from {
            From::New => read_new(ctx, &query, (key, group, consumer))?,
            From::Own(id) => read_own(ctx, &query, (key, group, consumer), id)?,
        };
        if served {
            streams += 1;
            // What a client gets that has waited counts as no change, as in Redis.
            ctx.ledger.dirty += u64::from(!ctx.caller.resumed);
        }
    }
    if streams > 0 {
        answer_streams(&mut ctx.out, start, streams);
        return Ok(());
    }
    let mut head = vec![args[0], b"GROUP", group, consumer];
    head.extend(query.no_ack.then_some(&b"NOACK"[..]));
    wait(ctx, &query, &head, &vec![&b">"[..]; query.keys.len()]);
    Ok(())
}

/// Refuses a client whose wait has lost its key or its group.
fn refuse_resumed(ctx: &mut Context<'_>, key: &[u8], group: &[u8]) -> Result<(), Refusal> {
    let now = ctx.now;
    let entry = ctx.keyspace.peek(ctx.caller.db, key, now);
    match crate::command::collection::view_of::<Stream<'_>>(entry, now) {
        Ok(Some(stream)) if stream.group(group).is_some() => Ok(()),
        Ok(Some(_)) => {
            Err("NOGROUP the consumer group this client was blocked on no longer exists".into())
        }
        _ => Err("UNBLOCKED the stream key no longer exists".into()),
    }
}

/// A key, a group and a consumer.
type Reader<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// The group that a reader is of, and its stream, beside the place for the reply; they were found
/// before.
fn of_reader<'s, 'c>(
    ctx: &'s mut Context<'c>,
    (key, group, _): Reader<'s>,
) -> Option<(&'s mut Out<'c>, Stream<'s>, Group<'s>)> {
    let (out, stream) = ctx.stream(key).ok()?;
    let stream = stream?;
    Some((out, stream, stream.group(group)?))
}

/// Answers what nobody of the group has read, notes that the group has, and for whom it is pending.
fn read_new(
    ctx: &mut Context<'_>,
    query: &Query<'_, '_>,
    reader: Reader<'_>,
) -> Result<bool, Refusal> {
    let (key, name, consumer) = reader;
    let Some((out, stream, group)) = of_reader(ctx, reader) else { return Ok(false) };
    let from = group.last_id();
    if top_of(stream).is_none_or(|top| top <= from) {
        return Ok(false);
    }
    let (progress, mut read) = (Progress::of(stream), group.entries_read());
    answer_key(out, key);
    let ids = answer_behind(out, stream, from, query.count);
    see_consumer(ctx, key, name, consumer)?;
    for &id in &ids {
        read = progress.after(read, id);
    }
    let last = ids.last().copied().unwrap_or(from);
    let time_ms = ctx.now;
    ctx.keyspace.edit_stream(ctx.caller.db, key, |edit| {
        edit.set_group(name, last, read);
        if !query.no_ack {
            edit.deliver_first(name, consumer, &ids, time_ms);
        }
    })?;
    if !query.no_ack && ctx.ledger.effects.wanted() {
        let pending = |id| Pending { id, consumer, time_ms, count: 1 };
        ids.iter().for_each(|&id| effect_of_claim(ctx, (key, name), pending(id), last));
    }
    effect_of_group(ctx, (key, name), last, read);
    Ok(true)
}

/// Answers what is pending for a consumer, once more.
fn read_own(
    ctx: &mut Context<'_>,
    query: &Query<'_, '_>,
    reader: Reader<'_>,
    behind: StreamId,
) -> Result<bool, Refusal> {
    let (key, name, consumer) = reader;
    let time_ms = ctx.now;
    see_consumer(ctx, key, name, consumer)?;
    let Some((out, stream, group)) = of_reader(ctx, reader) else { return Ok(false) };
    answer_key(out, key);
    let first = behind.next().unwrap_or(StreamId::MAX);
    let owned = group.consumer(consumer).into_iter().flat_map(|it| it.pending_from(first));
    let ids: Vec<StreamId> = owned.take(query.count.unwrap_or(usize::MAX)).collect();
    out.array(ids.len());
    let mut again = Vec::new();
    for &id in &ids {
        if let Some(entry) = stream.get(id) {
            answer_entry(out, &entry);
            let count = group.pending(id).map_or(0, |pending| pending.count).saturating_add(1);
            again.push(Pending { id, consumer, time_ms, count });
        } else {
            out.array(2);
            super::answer_id(out, id);
            out.null_array();
        }
    }
    let last = group.last_id();
    ctx.keyspace.edit_stream(ctx.caller.db, key, |edit| {
        again.iter().for_each(|pending| {
            edit.deliver(name, *pending);
        });
    })?;
    again.iter().for_each(|pending| effect_of_claim(ctx, (key, name), *pending, last));
    Ok(true)
}
