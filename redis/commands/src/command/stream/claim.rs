//! XCLAIM and XAUTOCLAIM: pending entries get another consumer.

use stillframe_keyspace::{Group, Pending, Stream, StreamId};
use stillframe_resp::parse_integer;

use super::group::{
    effect_of_acknowledgement, effect_of_claim, effect_of_group, found, see_consumer,
    see_known_consumer,
};
use super::nack::one_more;
use super::{answer_entry, answer_id, id, no_group};
use crate::context::Context;
use crate::errors::{Refusal, SYNTAX};
use crate::table::Table;
use crate::text::c_string;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("xautoclaim", xautoclaim);
    table.add("xclaim", xclaim);
}

/// What both commands are asked for.
#[derive(Clone, Copy)]
struct Claim<'a> {
    key: &'a [u8],
    group: &'a [u8],
    consumer: &'a [u8],
    /// Only what was not delivered for so long.
    idle_ms: i64,
    /// The time of delivery that is noted.
    time_ms: i64,
    /// The number of deliveries that is noted.
    count: Option<u64>,
    /// Also what is not pending.
    force: bool,
    /// Ids are answered alone, and count as no delivery.
    just_id: bool,
}

/// What becomes of one entry.
enum Fate {
    /// It stays as it is.
    Stays,
    /// It was deleted from the stream, and is pending no more.
    Gone,
    Claimed,
}

impl<'a> Claim<'a> {
    fn parse(ctx: &Context<'_>, args: &[&'a [u8]]) -> Result<Self, Refusal> {
        let invalid = || -> Refusal {
            let name = String::from_utf8_lossy(args[0]).to_uppercase();
            format!("ERR Invalid min-idle-time argument for {name}").into()
        };
        let idle_ms = parse_integer(args[4]).ok_or_else(invalid)?.max(0);
        let (key, group, consumer) = (args[1], args[2], args[3]);
        let (time_ms, count, force, just_id) = (ctx.now, None, false, false);
        Ok(Self { key, group, consumer, idle_ms, time_ms, count, force, just_id })
    }

    /// Claims one entry and answers it.
    fn run(&self, ctx: &mut Context<'_>, id: StreamId) -> Result<Fate, Refusal> {
        let (key, name, now) = (self.key, self.group, ctx.now);
        let (out, stream) = ctx.found_to_edit::<Stream<'_>>(key)?;
        let Some((stream, group)) = stream.and_then(|it| Some((it, it.group(name)?))) else {
            return Ok(Fate::Stays);
        };
        let last = group.last_id();
        let old = group.pending(id);
        let Some(entry) = stream.get(id) else {
            let Some(Pending { consumer, time_ms, count, .. }) = old else {
                return Ok(Fate::Stays);
            };
            let consumer = consumer.map(<[u8]>::to_vec);
            ctx.keyspace.edit_stream(ctx.caller.db, key, |edit| edit.acknowledge(name, id))?;
            match consumer.as_deref() {
                None => effect_of_acknowledgement(ctx, key, name, &[id]),
                consumer => {
                    let pending = Pending { id, consumer, time_ms, count };
                    effect_of_claim(ctx, key, name, pending, last);
                }
            }
            ctx.ledger.dirty += 1;
            return Ok(Fate::Gone);
        };
        let is_young = |old: &Pending<'_>| {
            // What nobody has may be claimed at once.
            old.consumer.is_some()
                && self.idle_ms > 0
                && now.wrapping_sub(old.time_ms) < self.idle_ms
        };
        let before = match old {
            None if !self.force => return Ok(Fate::Stays),
            None => 1,
            Some(old) if is_young(&old) => return Ok(Fate::Stays),
            Some(old) => old.count,
        };
        if self.just_id {
            answer_id(out, id);
        } else {
            answer_entry(out, &entry);
        }
        let count = self.count.unwrap_or(if self.just_id { before } else { one_more(before) });
        let consumer = Some(self.consumer);
        let pending = Pending { id, consumer, time_ms: self.time_ms, count };
        see_consumer(ctx, key, name, self.consumer, true)?;
        ctx.keyspace.edit_stream(ctx.caller.db, key, |edit| edit.deliver(name, pending))?;
        effect_of_claim(ctx, key, name, pending, last);
        ctx.ledger.dirty += 1;
        Ok(Fate::Claimed)
    }
}

/// The group of a claim, which has to be there.
fn group_of<'s>(ctx: &'s mut Context<'_>, args: &[&'s [u8]]) -> Result<Group<'s>, Refusal> {
    let found = found(ctx, args[1], args[2])?;
    found.map(|(_, group)| group).ok_or_else(|| no_group(args[1], args[2]))
}

/// `XCLAIM key group consumer min-idle-time id... [IDLE ms] [TIME unix-time-milliseconds]
/// [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID id]`
fn xclaim(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (now, read) = (ctx.now, group_of(ctx, args)?.entries_read());
    let mut claim = Claim::parse(ctx, args)?;
    let ids = args[5..].iter().map_while(|text| id::strict(text, 0).ok()).collect::<Vec<_>>();
    let (mut time_ms, mut last) = (None, StreamId::MIN);
    let mut options = &args[5 + ids.len()..];
    while let [option, after @ ..] = options {
        options = after;
        let name = option.to_ascii_uppercase();
        let number = |text: &[u8]| -> Result<i64, Refusal> {
            let name = String::from_utf8_lossy(&name);
            let invalid = || format!("ERR Invalid {name} option argument for XCLAIM").into();
            parse_integer(text).ok_or_else(invalid)
        };
        match (name.as_slice(), after) {
            (b"FORCE", _) => {
                claim.force = true;
                continue;
            }
            (b"JUSTID", _) => {
                claim.just_id = true;
                continue;
            }
            (b"IDLE", [text, ..]) => time_ms = Some(now.wrapping_sub(number(text)?)),
            (b"TIME", [text, ..]) => time_ms = Some(number(text)?),
            (b"RETRYCOUNT", [text, ..]) => claim.count = u64::try_from(number(text)?).ok(),
            (b"LASTID", [text, ..]) => last = id::strict(text, 0)?,
            _ => {
                let option = c_string(option);
                return Err([b"ERR Unrecognized XCLAIM option '", option, b"'"].concat().into());
            }
        }
        options = &after[1..];
    }
    // A time that no clock shows is taken for now; -1 says that none was given. The clock of a
    // replay stands still.
    let latest = if ctx.caller.internal { i64::MAX } else { now };
    claim.time_ms = time_ms.filter(|time_ms| (0..=latest).contains(time_ms)).unwrap_or(now);
    ctx.no_effect();
    let (key, name) = (claim.key, claim.group);
    see_known_consumer(ctx, key, name, claim.consumer)?;
    let mut is_ahead = last > group_of(ctx, args)?.last_id();
    if is_ahead {
        let db = ctx.caller.db;
        ctx.keyspace.edit_stream(db, key, |edit| edit.set_group(name, last, read))?;
    }
    let (start, mut claimed) = (ctx.out.position(), 0);
    for &id in &ids {
        match claim.run(ctx, id)? {
            Fate::Stays => continue,
            Fate::Gone => {}
            Fate::Claimed => claimed += 1,
        }
        is_ahead = false; // the effect of a claim says it, too
    }
    if is_ahead {
        effect_of_group(ctx, key, name, last, read);
        ctx.ledger.dirty += 1;
    }
    if claimed > 0 && claim.time_ms < now {
        // A client may wait for what is as old as that.
        ctx.ledger.waiters.touch(ctx.caller.db, key);
    }
    ctx.out.array_at(start, claimed);
    Ok(())
}

/// `XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]`
fn xautoclaim(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    /// Entries that are looked at for each that is wanted.
    const LOOKED_AT: usize = 10;
    const COUNT_MAX: i64 = i64::MAX / 16;
    let mut claim = Claim::parse(ctx, args)?;
    let first = id::start(args[5])?;
    let mut count = 100;
    let mut options = &args[6..];
    while let [option, after @ ..] = options {
        options = after;
        match (option.to_ascii_lowercase().as_slice(), after) {
            (b"count", [text, after @ ..]) => {
                let number = parse_integer(text).filter(|it| (1..=COUNT_MAX).contains(it));
                count = number.ok_or("ERR COUNT must be > 0")? as usize;
                options = after;
            }
            (b"justid", _) => claim.just_id = true,
            _ => return Err(SYNTAX),
        }
    }
    group_of(ctx, args)?;
    ctx.no_effect();
    see_known_consumer(ctx, claim.key, claim.group, claim.consumer)?;
    let looked_at = count.saturating_mul(LOOKED_AT);
    let start = ctx.out.position();
    let (mut looked, mut claimed, mut gone) = (0, 0, Vec::new());
    // Claiming changes the tree that is walked: ids are taken from it in parts.
    const PART: usize = 256;
    let mut next = Some(first);
    let mut cursor = StreamId::MIN;
    'parts: while let Some(from) = next {
        let part = group_of(ctx, args)?.pending_from(from).map(|pending| pending.id);
        let part: Vec<StreamId> = part.take(PART).collect();
        for &id in &part {
            if looked == looked_at || claimed + gone.len() == count {
                cursor = id;
                break 'parts;
            }
            looked += 1;
            match claim.run(ctx, id)? {
                Fate::Stays => {}
                Fate::Gone => gone.push(id),
                Fate::Claimed => claimed += 1,
            }
        }
        next = part.last().filter(|_| part.len() == PART).and_then(|last| last.next());
    }
    let mut head = Vec::new();
    let mut before = stillframe_resp::Out::new(&mut head, ctx.out.protocol);
    before.array(3);
    answer_id(&mut before, cursor);
    before.array(claimed);
    ctx.out.buffer.splice(start..start, head);
    ctx.out.array(gone.len());
    gone.into_iter().for_each(|id| answer_id(&mut ctx.out, id));
    Ok(())
}
