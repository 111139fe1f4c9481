//! XPENDING: what a group has read and not acknowledged.

use stillframe_keyspace::{Group, Pending, StreamId};
use stillframe_resp::{Out, parse_integer};

use super::{answer_id, id, no_group};
use crate::context::Context;
use crate::errors::{NOT_AN_INTEGER, Refusal, SYNTAX};
use crate::table::Table;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("xpending", xpending);
}

/// Which pending entries to show.
struct Query<'a> {
    idle_ms: i64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> Query<'a> {
    /// `[IDLE min-idle-time] start end count [consumer]`
    fn parse(args: &[&'a [u8]]) -> Result<Self, Refusal> {
        let integer = |text: &[u8]| parse_integer(text).ok_or(NOT_AN_INTEGER);
        let (idle_ms, rest) = match args {
            [word, idle, rest @ ..] if word.eq_ignore_ascii_case(b"idle") => (integer(idle)?, rest),
            rest => (0, rest),
        };
        let [start, end, count, rest @ ..] = rest else { return Err(SYNTAX) };
        let count = usize::try_from(integer(count)?).unwrap_or(0);
        let (start, end) = (id::start(start)?, id::end(end)?);
        Ok(Self { idle_ms, start, end, count, consumer: rest.first().copied() })
    }
}

/// `XPENDING key group [[IDLE min-idle-time] start end count [consumer]]`
fn xpending(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, name) = (args[1], args[2]);
    let query = match args.len() {
        3 => None,
        6..=9 => Some(Query::parse(&args[3..])?),
        _ => return Err(SYNTAX),
    };
    let now = ctx.now;
    let (out, stream) = ctx.stream(key)?;
    let group = stream.and_then(|stream| stream.group(name));
    let group = group.ok_or_else(|| no_group(key, name))?;
    match query {
        None => answer_summary(out, group),
        Some(query) => answer_entries(out, group, &query, now),
    }
    Ok(())
}

fn answer_summary(out: &mut Out<'_>, group: Group<'_>) {
    out.array(4);
    out.integer(group.pending_len() as i64);
    let (first, last) = (group.pending_from(StreamId::MIN).next(), group.last_pending());
    let (Some(first), Some(last)) = (first, last) else {
        out.null();
        out.null();
        return out.null_array();
    };
    answer_id(out, first.id);
    answer_id(out, last.id);
    let busy = group.consumers().filter(|consumer| consumer.pending_len() > 0);
    let busy: Vec<_> = busy.collect();
    out.array(busy.len());
    for consumer in busy {
        out.array(2);
        out.bulk(consumer.name());
        out.bulk(consumer.pending_len().to_string());
    }
}

fn answer_entries(out: &mut Out<'_>, group: Group<'_>, query: &Query<'_>, now: i64) {
    let ids: Box<dyn Iterator<Item = StreamId>> = match query.consumer {
        None => Box::new(group.pending_from(query.start).map(|pending| pending.id)),
        Some(name) => match group.consumer(name) {
            Some(consumer) => Box::new(consumer.pending_from(query.start)),
            None => return out.array(0),
        },
    };
    let pending = ids.take_while(|id| *id <= query.end).filter_map(|id| group.pending(id));
    let is_idle = |pending: &Pending<'_>| {
        let is_old = now.wrapping_sub(pending.time_ms) >= query.idle_ms;
        pending.consumer.is_none() || query.idle_ms == 0 || is_old
    };
    let shown = pending.filter(is_idle).take(query.count);
    let shown: Vec<_> = shown.collect();
    out.array(shown.len());
    for pending in shown {
        out.array(4);
        answer_id(out, pending.id);
        out.bulk(pending.consumer.unwrap_or_default());
        out.integer(pending.consumer.map_or(-1, |_| now.wrapping_sub(pending.time_ms).max(0)));
        out.integer(pending.count as i64);
    }
}
