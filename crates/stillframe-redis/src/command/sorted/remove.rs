//! ZREM and the removal of ranges.

use stillframe_keyspace::Sorted;
use stillframe_resp::parse_integer;

use super::bounds::{NameRange, ScoreRange, Span};
use crate::context::Context;
use crate::errors::NOT_AN_INTEGER;
use crate::table::flags::{FAST, WRITE};
use crate::table::{ONE_KEY, Table};

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("zrem", -3, WRITE | FAST, ONE_KEY, zrem);
    table.add("zremrangebylex", 4, WRITE, ONE_KEY, |ctx, args| {
        let range = NameRange::parse(args[2], args[3]).map(Span::Names);
        remove_range(ctx, args[1], range, "zremrangebylex");
    });
    table.add("zremrangebyrank", 4, WRITE, ONE_KEY, |ctx, args| {
        let range = match (parse_integer(args[2]), parse_integer(args[3])) {
            (Some(start), Some(stop)) => Ok(Span::Ranks(start, stop)),
            _ => Err(NOT_AN_INTEGER),
        };
        remove_range(ctx, args[1], range, "zremrangebyrank");
    });
    table.add("zremrangebyscore", 4, WRITE, ONE_KEY, |ctx, args| {
        let range = ScoreRange::parse(args[2], args[3]).map(Span::Scores);
        remove_range(ctx, args[1], range, "zremrangebyscore");
    });
}

/// `ZREM key member...`
fn zrem(ctx: &mut Context<'_>, args: &[&[u8]]) {
    let key = args[1];
    match ctx.held::<Sorted<'_>>(key) {
        None => return,
        Some((out, None)) => return out.integer(0),
        Some((_, Some(_))) => {}
    }
    let outcome = ctx.keyspace.edit_sorted(ctx.caller.db, key, |edit| {
        let removed = args[2..].iter().filter(|member| edit.remove(member).is_some()).count();
        (removed, edit.view().len())
    });
    removed(ctx, key, "zrem", outcome);
}

fn remove_range(
    ctx: &mut Context<'_>,
    key: &[u8],
    span: Result<Span<'_>, &'static str>,
    event: &'static str,
) {
    let span = match span {
        Ok(span) => span,
        Err(error) => return ctx.out.error(error),
    };
    let range = match ctx.held::<Sorted<'_>>(key) {
        None => return,
        Some((out, None)) => return out.integer(0),
        Some((_, Some(set))) => span.ranks(set, false),
    };
    if range.is_empty() {
        return ctx.out.integer(0);
    }
    let outcome = ctx.keyspace.edit_sorted(ctx.caller.db, key, |edit| {
        edit.remove_range(range.start, range.len());
        (range.len(), edit.view().len())
    });
    removed(ctx, key, event, outcome);
}

/// Answers how many members are gone, given that and how many are left.
fn removed(
    ctx: &mut Context<'_>,
    key: &[u8],
    event: &'static str,
    outcome: Result<(usize, usize), stillframe_keyspace::EditError>,
) {
    let Some((removed, left)) = ctx.edited(outcome) else { return };
    if removed > 0 {
        ctx.changed_times(key, removed, 'z', event);
        ctx.emptied(key, left);
    }
    ctx.out.integer(removed as i64);
}
