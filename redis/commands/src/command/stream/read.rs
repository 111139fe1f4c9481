//! XREAD and XREADGROUP: entries behind an id of each of several streams, at once or as soon as
//! there are some.

use std::time::{Duration, Instant};

use stillframe_keyspace::{Group, Pending, Stream, StreamEntry, StreamId, Type};
use stillframe_resp::{Out, Protocol, parse_integer};

use super::budget::{Budget, limit};
use super::group::{effect_of_claim, effect_of_group, found, see_consumer, see_known_consumer};
use super::nack::one_more;
use super::{Word, answer_entry, answer_parts, id, no_group_in, top_of};
use crate::command::blocking::Wish;
use crate::context::Context;
use crate::errors::{NOT_AN_INTEGER, Refusal, SYNTAX};
use crate::progress::Progress;
use crate::table::Table;
use crate::waiters::GroupReader;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("xread", xread);
    table.add("xreadgroup", xreadgroup);
}

/// Most entries of a reply to a client that has waited and gave no count.
const COUNT_AFTER_WAIT: u64 = 1000;

/// A request for entries.
#[derive(Debug, Default)]
struct Query<'r, 'a> {
    /// The group and the consumer of XREADGROUP.
    group: Option<[&'a [u8]; 2]>,
    /// Most entries of each stream; `None`: all.
    count: Option<usize>,
    /// Most entries of all streams, and the bytes of the reply after which no more follow.
    count_max: Option<u64>,
    bytes_max: Option<u64>,
    /// BLOCK was given, with this timeout.
    block: Option<Option<Duration>>,
    /// What is read is not pending.
    no_ack: bool,
    /// What is pending for so many milliseconds comes before what nobody has read.
    claim_ms: Option<i64>,
    keys: &'r [&'a [u8]],
    ids: &'r [&'a [u8]],
}

impl<'r, 'a> Query<'r, 'a> {
    /// `[GROUP group consumer] [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize]
    /// [BLOCK milliseconds] [CLAIM min-idle-time] [NOACK] STREAMS key... id...`
    fn parse(args: &'r [&'a [u8]], of_group: bool) -> Result<Self, Refusal> {
        let mut query = Self::default();
        let only = |option: &str| {
            Refusal::from(format!(
                "ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
            ))
        };
        let mut rest = &args[1..];
        while let [option, after @ ..] = rest {
            rest = after;
            match (Word::from_option(option).as_slice(), after) {
                (b"block", [text, after @ ..]) => {
                    query.block = Some(timeout(text)?);
                    rest = after;
                }
                (b"count", [text, after @ ..]) => {
                    let count = parse_integer(text).ok_or(NOT_AN_INTEGER)?;
                    query.count = usize::try_from(count).ok().filter(|&count| count > 0);
                    rest = after;
                }
                (b"maxcount", [text, after @ ..]) => {
                    query.count_max = Some(limit("MAXCOUNT", text)?);
                    rest = after;
                }
                (b"maxsize", [text, after @ ..]) => {
                    query.bytes_max = Some(limit("MAXSIZE", text)?);
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
                (b"claim", [text, after @ ..]) => {
                    if !of_group {
                        return Err(only("CLAIM"));
                    }
                    query.claim_ms = Some(idle_time(text)?);
                    rest = after;
                }
                _ => return Err(SYNTAX),
            }
        }
        let is_less = |most: u64| query.count.is_some_and(|count| most < count as u64);
        match query.group {
            _ if query.keys.is_empty() => Err(SYNTAX),
            _ if query.count_max.is_some_and(is_less) => {
                Err("ERR MAXCOUNT must be greater than or equal to COUNT".into())
            }
            None if of_group => Err("ERR Missing GROUP option for XREADGROUP".into()),
            _ => Ok(query),
        }
    }

    fn budget(&self, protocol: Protocol) -> Budget {
        Budget::new(self.count_max, self.bytes_max, protocol)
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

/// For how many milliseconds an entry has to be pending.
fn idle_time(text: &[u8]) -> Result<i64, Refusal> {
    match parse_integer(text) {
        None => Err("ERR min-idle-time is not an integer or out of range".into()),
        Some(..0) => Err("ERR min-idle-time must be a positive integer".into()),
        Some(idle_ms) => Ok(idle_ms),
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

/// `XREAD [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] [BLOCK milliseconds] STREAMS key...
/// id...`
fn xread(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let query = Query::parse(args, false)?;
    let mut from = Vec::with_capacity(query.keys.len());
    // What waits for several keys is served what is a stream, whatever became of others.
    let resumed = ctx.caller.resumed;
    for (key, text) in query.keys.iter().zip(query.ids) {
        let stream = match ctx.stream(key) {
            Err(_) if resumed => None,
            found => found?.1,
        };
        from.push(match *text {
            b"$" => stream.map_or(StreamId::MIN, Stream::last_id),
            // From the last entry on.
            b"+" => stream.map_or(StreamId::MIN, |stream| {
                let top = top_of(stream).and_then(StreamId::previous);
                top.unwrap_or(stream.last_id())
            }),
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
    let mut budget = query.budget(ctx.out.protocol);
    let (start, mut streams) = (ctx.out.position(), 0);
    for (key, from) in query.keys.iter().zip(&from) {
        let (out, stream) = match ctx.stream(key) {
            Err(_) if resumed => continue,
            found => found?,
        };
        if let Some(stream) = stream.filter(|it| top_of(*it).is_some_and(|top| top > *from))
            && !budget.is_spent()
        {
            answer_key(out, key);
            budget.begin_stream(key);
            answer_behind(out, stream, *from, query.count, &mut budget);
            streams += 1;
        }
    }
    if streams > 0 {
        answer_streams(&mut ctx.out, start, streams);
        return Ok(());
    }
    let texts: Vec<_> = from.iter().map(|&from| id::text(from)).collect();
    // Of several that come at once, `+` takes the last.
    let from = texts.iter().zip(&from).zip(query.ids).map(|((text, &from), given)| match *given {
        b"+" => (*given, StreamId::MIN),
        _ => (text.as_ref(), from),
    });
    wait(ctx, &query, &[args[0]], &from.collect::<Vec<_>>());
    Ok(())
}

/// Answers the entries behind an id.
fn answer_behind(
    out: &mut Out<'_>,
    stream: Stream<'_>,
    from: StreamId,
    count: Option<usize>,
    budget: &mut Budget,
) {
    let first = from.next().map_or(stream.len(), |next| stream.below(next));
    let room = count.unwrap_or(usize::MAX);
    let found = match budget.is_unlimited() {
        true => (stream.len() - first).min(room),
        false => stream.iter_from(first).take(room).take_while(|it| budget.admit(it)).count(),
    };
    budget.end_stream(found);
    out.array(found);
    stream.iter_from(first).take(found).for_each(|entry| answer_entry(out, &entry));
}

/// Makes the client wait for one of the keys, if it asked for that and may.
fn wait(ctx: &mut Context<'_>, query: &Query<'_, '_>, head: &[&[u8]], from: &[(&[u8], StreamId)]) {
    if ctx.caller.resumed {
        return ctx.wait_on();
    }
    let Some(timeout) = query.block.filter(|_| ctx.may_block()) else {
        return ctx.out.null_array();
    };
    let count = query.count.map_or(COUNT_AFTER_WAIT, |count| count as u64);
    let count = count.min(query.count_max.unwrap_or(u64::MAX));
    let limits =
        [("COUNT", Some(count)), ("MAXCOUNT", query.count_max), ("MAXSIZE", query.bytes_max)];
    let limits = limits.into_iter().filter_map(|(name, it)| Some([name.into(), it?.to_string()]));
    let limits: Vec<String> = limits.flatten().collect();
    let limits: Vec<&[u8]> = limits.iter().map(|it| it.as_bytes()).collect();
    let before = [head, &limits, &[b"STREAMS"]].concat();
    let (keys, kind, before) = (query.keys, Type::Stream, &before[..]);
    let claim_ms = query.claim_ms;
    let group = query.group.map(|[name, _]| GroupReader { name: name.into(), claim_ms });
    ctx.block(&Wish { keys, kind, timeout, before, from, after: &[], group });
}

/// Where XREADGROUP reads.
#[derive(Clone, Copy)]
enum From {
    /// What nobody of the group has read.
    New,
    /// What is pending for the consumer, behind this id.
    Own(StreamId),
}

/// `XREADGROUP GROUP group consumer [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] [BLOCK ms]
/// [CLAIM min-idle-time] [NOACK] STREAMS key... id...`
fn xreadgroup(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let mut query = Query::parse(args, true)?;
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
            b"$" | b"+" => {
                let sign = char::from(text[0]);
                return Err(format!(
                    "ERR The {sign} ID is meaningless in the context of XREADGROUP: you want to \
                     read the history of this consumer by specifying a proper ID, or use the > ID \
                     to get new messages. The {sign} ID would just return an empty result set."
                )
                .into());
            }
            text => match id::strict(text, 0)? {
                StreamId::MAX => From::New,
                id => From::Own(id),
            },
        });
    }
    ctx.no_effect();
    let mut budget = query.budget(ctx.out.protocol);
    let (start, mut streams) = (ctx.out.position(), 0);
    for (key, from) in query.keys.iter().zip(&from) {
        if budget.is_spent() {
            break;
        }
        let reader = (*key, group, consumer);
        let served = match *from {
            From::New => read_new(ctx, &query, reader, &mut budget)?,
            From::Own(id) => {
                query.claim_ms = None; // also of the streams behind, as in Redis
                read_own(ctx, &query, reader, id, &mut budget)?
            }
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
    let idle_ms = query.claim_ms.map(|idle_ms| idle_ms.to_string());
    let waits = ctx.caller.resumed || query.block.is_some() && ctx.may_block();
    if let (Some(min_ms), Some(text), true) = (query.claim_ms, &idle_ms, waits) {
        head.extend([&b"CLAIM"[..], text.as_bytes()]);
        let again_ms = next_claim(ctx, query.keys, group, min_ms)?;
        ctx.caller.again = Instant::now().checked_add(Duration::from_millis(again_ms));
    }
    wait(ctx, &query, &head, &vec![(&b">"[..], StreamId::MIN); query.keys.len()]);
    Ok(())
}

/// In how many milliseconds something may have been pending for `idle_ms`, while nothing is yet. By
/// then others may have read entries, so the keys are looked at again even if nothing is pending.
fn next_claim(
    ctx: &mut Context<'_>,
    keys: &[&[u8]],
    group: &[u8],
    idle_ms: i64,
) -> Result<u64, Refusal> {
    const LOOKS_APART_MS: i64 = 100;
    let now = ctx.now;
    let mut next = idle_ms.max(LOOKS_APART_MS);
    for key in keys {
        let oldest = found(ctx, key, group)?.and_then(|(stream, group)| {
            group.pending_by_age().find(|it| stream.get(it.id).is_some())
        });
        let left = oldest.map(|it| it.time_ms.saturating_add(idle_ms).saturating_sub(now));
        next = next.min(left.unwrap_or(next)).max(1);
    }
    Ok(next as u64)
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

/// What XREADGROUP finds for `>` in one stream.
#[derive(Default)]
struct Found {
    /// What is pending for long enough, that which was delivered first before others.
    claimed: Vec<StreamId>,
    /// What nobody of the group has read.
    new: Vec<StreamId>,
    /// There is more, but not one entry more fits into the reply.
    is_cut: bool,
}

impl Found {
    fn from_query(
        query: &Query<'_, '_>,
        stream: Stream<'_>,
        group: Group<'_>,
        now: i64,
        budget: &mut Budget,
    ) -> Self {
        let (mut found, mut room) = (Self::default(), query.count.unwrap_or(usize::MAX));
        let shown: &[i64] = if query.claim_ms.is_some() { &[0, 0] } else { &[] };
        if let Some(idle_ms) = query.claim_ms {
            let is_old = |it: &Pending<'_>| now.saturating_sub(it.time_ms) >= idle_ms;
            let old = group.pending_by_age().take_while(is_old);
            // An entry that the stream does not have any more stays pending, as in Redis.
            for (it, entry) in old.filter_map(|it| Some((it, stream.get(it.id)?))).take(room) {
                if !budget.admit_with(&entry, &delivered(&it, now)) {
                    found.is_cut = true;
                    break;
                }
                found.claimed.push(it.id);
            }
            room -= found.claimed.len();
        }
        if let Some(first) = group.last_id().next().map(|next| stream.below(next)) {
            let new = stream.iter_from(first).take(room);
            let new = new.take_while(|it| {
                let fits = budget.admit_with(it, shown);
                found.is_cut |= !fits;
                fits
            });
            found.new = new.map(|entry| entry.id).collect();
        }
        budget.end_stream(found.claimed.len() + found.new.len());
        found
    }

    fn is_empty(&self) -> bool {
        self.claimed.is_empty() && self.new.is_empty()
    }

    /// Answers the entries; with CLAIM each tells for how long it was pending, and how often it was
    /// delivered before.
    fn answer(&self, out: &mut Out<'_>, stream: Stream<'_>, claims: Option<(Group<'_>, i64)>) {
        out.array(self.claimed.len() + self.new.len());
        let entry = |id: &StreamId| stream.get(*id);
        let Some((group, now)) = claims else {
            return self.new.iter().filter_map(entry).for_each(|it| answer_entry(out, &it));
        };
        let mut answer = |entry: &StreamEntry<'_>, numbers: [i64; 2]| {
            out.array(4);
            answer_parts(out, entry);
            numbers.into_iter().for_each(|number| out.integer(number));
        };
        for entry in self.claimed.iter().filter_map(entry) {
            let Some(it) = group.pending(entry.id) else { continue };
            answer(&entry, delivered(&it, now));
        }
        self.new.iter().filter_map(entry).for_each(|entry| answer(&entry, [0, 0]));
    }
}

/// For how many milliseconds something has been pending, and how often it was delivered.
fn delivered(it: &Pending<'_>, now: i64) -> [i64; 2] {
    [now.saturating_sub(it.time_ms).max(0), i64::try_from(it.count).unwrap_or(i64::MAX)]
}

/// Answers what is pending for long enough, and what nobody of the group has read, and notes for
/// whom it is pending.
fn read_new(
    ctx: &mut Context<'_>,
    query: &Query<'_, '_>,
    reader: Reader<'_>,
    budget: &mut Budget,
) -> Result<bool, Refusal> {
    let ((key, name, consumer), now) = (reader, ctx.now);
    let Some((out, stream, group)) = of_reader(ctx, reader) else { return Ok(false) };
    let mut left = *budget;
    left.begin_stream(key);
    let found = Found::from_query(query, stream, group, now, &mut left);
    let is_shown = !found.is_empty() || found.is_cut;
    if is_shown {
        *budget = left;
        answer_key(out, key);
        found.answer(out, stream, query.claim_ms.map(|_| (group, now)));
    }
    if found.is_empty() {
        see_known_consumer(ctx, key, name, consumer)?;
        return Ok(is_shown);
    }
    let is_active = !found.claimed.is_empty() || !query.no_ack;
    see_consumer(ctx, key, name, consumer, is_active)?;
    let Some((_, stream, group)) = of_reader(ctx, reader) else { return Ok(false) };
    let (progress, mut read) = (Progress::from_stream(stream), group.entries_read());
    let again = found.claimed.iter().filter_map(|&id| {
        let count = one_more(group.pending(id)?.count);
        Some(Pending { id, consumer: Some(consumer), time_ms: now, count })
    });
    let again: Vec<Pending<'_>> = again.collect();
    let mut last = group.last_id();
    for &id in &found.new {
        (read, last) = (progress.after(read, last, id), id);
    }
    ctx.keyspace.edit_stream(ctx.caller.db, key, |edit| {
        again.iter().for_each(|&pending| {
            edit.deliver(name, pending);
        });
        if !found.new.is_empty() {
            edit.set_group(name, last, read);
        }
        if !query.no_ack {
            edit.deliver_first(name, consumer, &found.new, now);
        }
    })?;
    if !ctx.ledger.effects.wanted() {
        return Ok(true);
    }
    again.iter().for_each(|&pending| effect_of_claim(ctx, key, name, pending, last));
    if !query.no_ack {
        let consumer = Some(consumer);
        let pending = |id| Pending { id, consumer, time_ms: now, count: 1 };
        found.new.iter().for_each(|&id| effect_of_claim(ctx, key, name, pending(id), last));
    }
    if !found.new.is_empty() {
        effect_of_group(ctx, key, name, last, read);
    }
    Ok(true)
}

/// Answers what is pending for a consumer, once more.
fn read_own(
    ctx: &mut Context<'_>,
    query: &Query<'_, '_>,
    reader: Reader<'_>,
    behind: StreamId,
    budget: &mut Budget,
) -> Result<bool, Refusal> {
    let (key, name, consumer) = reader;
    let time_ms = ctx.now;
    see_consumer(ctx, key, name, consumer, false)?;
    let Some((out, stream, group)) = of_reader(ctx, reader) else { return Ok(false) };
    answer_key(out, key);
    budget.begin_stream(key);
    let first = behind.next().unwrap_or(StreamId::MAX);
    let owned = group.consumer(consumer).into_iter().flat_map(|it| it.pending_from(first));
    let owned = owned.take(query.count.unwrap_or(usize::MAX));
    let ids: Vec<StreamId> =
        owned.take_while(|&id| budget.admit_pending(id, stream.get(id).as_ref())).collect();
    budget.end_stream(ids.len());
    out.array(ids.len());
    let mut again = Vec::new();
    for &id in &ids {
        if let Some(entry) = stream.get(id) {
            answer_entry(out, &entry);
            let count = one_more(group.pending(id).map_or(0, |pending| pending.count));
            again.push(Pending { id, consumer: Some(consumer), time_ms, count });
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
    again.iter().for_each(|pending| effect_of_claim(ctx, key, name, *pending, last));
    Ok(true)
}
