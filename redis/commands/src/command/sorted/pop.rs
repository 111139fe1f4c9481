//! Taking members from either end, waiting for one included.

use stillframe_keyspace::{Sorted, SortedEdit, Type};
use stillframe_resp::{Protocol, format_integer};

use super::super::blocking::{MultiPop, Wish, parse_timeout};
use super::Members;
use crate::context::Context;
use crate::errors::{MUST_BE_POSITIVE, Refusal, SYNTAX};
use crate::number::integers::at_least;
use crate::table::Table;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("bzmpop", bzmpop);
    table.add("bzpopmax", |ctx, args| bzpop(ctx, args, End::Max));
    table.add("bzpopmin", |ctx, args| bzpop(ctx, args, End::Min));
    table.add("zmpop", zmpop);
    table.add("zpopmax", |ctx, args| zpop(ctx, args, End::Max));
    table.add("zpopmin", |ctx, args| zpop(ctx, args, End::Min));
}

/// Which members go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Min,
    Max,
}

impl End {
    /// `MIN` or `MAX`
    fn parse(word: &[u8]) -> Result<Self, Refusal> {
        match word.to_ascii_lowercase().as_slice() {
            b"min" => Ok(Self::Min),
            b"max" => Ok(Self::Max),
            _ => Err(SYNTAX),
        }
    }

    fn event(self) -> &'static str {
        match self {
            Self::Min => "zpopmin",
            Self::Max => "zpopmax",
        }
    }

    /// Takes members from this end; and how many are left.
    fn take(self, edit: &mut SortedEdit<'_>, count: usize) -> (Members, usize) {
        let set = edit.view();
        let length = set.len();
        let count = count.min(length);
        let own = |(name, score): (&[u8], f64)| (name.to_vec(), score);
        let (members, from): (Members, usize) = match self {
            Self::Min => (set.iter_from(0).take(count).map(own).collect(), 0),
            Self::Max => {
                let from_last = set.iter_back_from(length.saturating_sub(1));
                (from_last.take(count).map(own).collect(), length - count)
            }
        };
        edit.remove_range(from, count);
        (members, length - count)
    }
}

/// Takes members from a key that holds some, and notifies the change.
fn take(ctx: &mut Context<'_>, key: &[u8], end: End, count: usize) -> Result<Members, Refusal> {
    let taken = ctx.keyspace.edit_sorted(ctx.caller.db, key, |edit| end.take(edit, count));
    let (members, left) = taken?;
    ctx.changed_times(key, members.len(), 'z', end.event());
    ctx.emptied(key, left);
    Ok(members)
}

/// `ZPOPMIN key [count]` and `ZPOPMAX key [count]`
fn zpop(ctx: &mut Context<'_>, args: &[&[u8]], end: End) -> Result<(), Refusal> {
    if args.len() > 3 {
        return Err(SYNTAX);
    }
    let count = args.get(2).map(|count| at_least(count, 0, MUST_BE_POSITIVE)).transpose()?;
    let (out, found) = ctx.found_to_edit::<Sorted<'_>>(args[1])?;
    if found.is_none() || count == Some(0) {
        out.array(0);
        return Ok(());
    }
    let members = take(ctx, args[1], end, count.unwrap_or(1))?;
    let nested = count.is_some() && ctx.out.protocol == Protocol::Resp3;
    ctx.out.array(if nested { members.len() } else { members.len() * 2 });
    for (name, score) in &members {
        if nested {
            ctx.out.array(2);
        }
        ctx.out.bulk(name);
        ctx.out.double(*score);
    }
    Ok(())
}

/// A key, and the members taken from it.
type Popped<'a> = (&'a [u8], Members);

/// Takes members from the first key that is a sorted set, if one is.
fn pop_first<'a>(
    ctx: &mut Context<'_>,
    keys: &[&'a [u8]],
    end: End,
    count: Option<usize>,
) -> Result<Option<Popped<'a>>, Refusal> {
    for key in keys {
        let (_, Some(_)) = ctx.found_to_edit::<Sorted<'_>>(key)? else { continue };
        let members = take(ctx, key, end, count.unwrap_or(1))?;
        // Replayed, it neither waits nor looks at other keys.
        let name = end.event().to_ascii_uppercase();
        let mut digits = [0; 20];
        let number = format_integer(members.len() as i64, &mut digits);
        let words = [name.as_bytes(), key, number];
        ctx.effect(if count.is_some() { &words } else { &words[..2] });
        return Ok(Some((key, members)));
    }
    Ok(None)
}

/// `BZPOPMIN key... timeout` and `BZPOPMAX key... timeout`
fn bzpop(ctx: &mut Context<'_>, args: &[&[u8]], end: End) -> Result<(), Refusal> {
    let (keys, last) = args[1..].split_at(args.len() - 2);
    let timeout = parse_timeout(last[0])?;
    match pop_first(ctx, keys, end, None)? {
        None if ctx.may_block() => {
            let kind = Type::Sorted;
            ctx.block(&Wish {
                keys,
                kind,
                timeout,
                before: &args[..1],
                after: &[b"0"],
                ..Wish::NONE
            });
        }
        None => ctx.out.null_array(),
        Some((key, members)) => {
            ctx.out.array(1 + members.len() * 2);
            ctx.out.bulk(key);
            for (name, score) in &members {
                ctx.out.bulk(name);
                ctx.out.double(*score);
            }
        }
    }
    Ok(())
}

/// `ZMPOP numkeys key... MIN | MAX [COUNT count]`
fn zmpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let wanted = MultiPop::parse(&args[1..], End::parse)?;
    if !answer_first(ctx, &wanted)? {
        ctx.out.null_array();
    }
    Ok(())
}

/// `BZMPOP timeout numkeys key... MIN | MAX [COUNT count]`
fn bzmpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let wanted = MultiPop::parse(&args[2..], End::parse)?;
    let timeout = parse_timeout(args[1])?;
    if answer_first(ctx, &wanted)? {
        return Ok(());
    }
    if !ctx.may_block() {
        ctx.out.null_array();
        return Ok(());
    }
    let MultiPop { keys, .. } = wanted;
    let (before, after) = (&[args[0], b"0", b"1"], &args[3 + keys.len()..]);
    ctx.block(&Wish { keys, kind: Type::Sorted, timeout, before, after, ..Wish::NONE });
    Ok(())
}

/// Pops and answers; false if there is nothing to pop.
fn answer_first(ctx: &mut Context<'_>, wanted: &MultiPop<'_, End>) -> Result<bool, Refusal> {
    let popped = pop_first(ctx, wanted.keys, wanted.end, Some(wanted.count))?;
    let Some((key, members)) = popped else { return Ok(false) };
    ctx.out.array(2);
    ctx.out.bulk(key);
    ctx.out.array(members.len());
    for (name, score) in &members {
        ctx.out.array(2);
        ctx.out.bulk(name);
        ctx.out.double(*score);
    }
    Ok(true)
}
