//! ZREM and the removal of ranges.

use stillframe_keyspace::Sorted;
use stillframe_resp::parse_integer;

use super::bounds::{NameRange, ScoreRange, Span};
use crate::context::Context;
use crate::errors::{NOT_AN_INTEGER, Refusal};
use crate::table::Table;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("zrem", zrem);
    table.add("zremrangebylex", |ctx, args| {
        let range = Span::Names(NameRange::parse(args[2], args[3])?);
        remove_range(ctx, args[1], &range, "zremrangebylex")
    });
    table.add("zremrangebyrank", |ctx, args| {
        let start = parse_integer(args[2]).ok_or(NOT_AN_INTEGER)?;
        let stop = parse_integer(args[3]).ok_or(NOT_AN_INTEGER)?;
        remove_range(ctx, args[1], &Span::Ranks(start, stop), "zremrangebyrank")
    });
    table.add("zremrangebyscore", |ctx, args| {
        let range = Span::Scores(ScoreRange::parse(args[2], args[3])?);
        remove_range(ctx, args[1], &range, "zremrangebyscore")
    });
}

/// `ZREM key member...`
fn zrem(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let key = args[1];
    let (out, set) = ctx.found_to_edit::<Sorted<'_>>(key)?;
    if set.is_none() {
        out.integer(0);
        return Ok(());
    }
    let outcome = ctx.keyspace.edit_sorted(ctx.caller.db, key, |edit| {
        let removed = args[2..].iter().filter(|member| edit.remove(member).is_some()).count();
        (removed, edit.view().len())
    });
    removed(ctx, key, "zrem", outcome)
}

fn remove_range(
    ctx: &mut Context<'_>,
    key: &[u8],
    span: &Span<'_>,
    event: &'static str,
) -> Result<(), Refusal> {
    let (_, set) = ctx.found_to_edit::<Sorted<'_>>(key)?;
    let range = set.map_or(0..0, |set| span.ranks(set, false));
    if range.is_empty() {
        ctx.out.integer(0);
        return Ok(());
    }
    let outcome = ctx.keyspace.edit_sorted(ctx.caller.db, key, |edit| {
        edit.remove_range(range.start, range.len());
        (range.len(), edit.view().len())
    });
    removed(ctx, key, event, outcome)
}

/// Answers how many members are gone, given that and how many are left.
fn removed(
    ctx: &mut Context<'_>,
    key: &[u8],
    event: &'static str,
    outcome: Result<(usize, usize), stillframe_keyspace::EditError>,
) -> Result<(), Refusal> {
    let (removed, left) = outcome?;
    if removed > 0 {
        ctx.changed_times(key, removed, 'z', event);
        ctx.emptied(key, left);
    }
    ctx.out.integer(removed as i64);
    Ok(())
}
