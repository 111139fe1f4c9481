//! Lists: popping and moving elements, at once or as soon as the list has some.

use stillframe_keyspace::{List, Type};
use stillframe_resp::{Out, format_integer};

use super::Side;
use crate::command::blocking::{MultiPop, Wish, parse_timeout};
use crate::context::Context;
use crate::errors::{MUST_BE_POSITIVE, Refusal, SYNTAX, wrong_arity};
use crate::number::integers::at_least;
use crate::table::Table;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("blmove", blmove);
    table.add("blmovem", blmovem);
    table.add("blmpop", blmpop);
    table.add("blpop", |ctx, args| blocking_pop(ctx, args, Side::Left));
    table.add("brpop", |ctx, args| blocking_pop(ctx, args, Side::Right));
    table.add("brpoplpush", brpoplpush);
    table.add("lmove", lmove);
    table.add("lmovem", lmovem);
    table.add("lmpop", lmpop);
    table.add("lpop", |ctx, args| pop(ctx, args, Side::Left));
    table.add("rpop", |ctx, args| pop(ctx, args, Side::Right));
    table.add("rpoplpush", |ctx, args| move_element(ctx, args[1], args[2], RIGHT_TO_LEFT));
}

/// `LPOP key [count]` and `RPOP key [count]`
fn pop(ctx: &mut Context<'_>, args: &[&[u8]], side: Side) -> Result<(), Refusal> {
    let key = args[1];
    if args.len() > 3 {
        return Err(wrong_arity(side.pop_event()));
    }
    let count = args.get(2).map(|count| at_least(count, 0, MUST_BE_POSITIVE)).transpose()?;
    let (out, list) = ctx.found_to_edit::<List<'_>>(key)?;
    match (list, count) {
        (None, None) => out.null(),
        (None, Some(_)) => out.null_array(),
        (Some(_), Some(0)) => out.array(0),
        (Some(list), _) => {
            let most = count.unwrap_or(1).min(list.len());
            if count.is_some() {
                out.array(most);
            }
            answer_end(out, list, side, most);
            take_end(ctx, key, side, most)?;
        }
    }
    Ok(())
}

/// Answers the `count` elements at an end of a list, the outermost first.
fn answer_end(out: &mut Out<'_>, list: List<'_>, side: Side, count: usize) {
    if count == 1 {
        let at = if side == Side::Left { 0 } else { list.len() - 1 };
        return list.get(at).into_iter().for_each(|element| out.bulk(element));
    }
    match side {
        Side::Left => list.iter_from(0).take(count).for_each(|element| out.bulk(element)),
        Side::Right => {
            let last = list.len().saturating_sub(1);
            list.iter_back_from(last).take(count).for_each(|element| out.bulk(element));
        }
    }
}

/// Removes the `count` elements at an end of a list.
fn take_end(ctx: &mut Context<'_>, key: &[u8], side: Side, count: usize) -> Result<(), Refusal> {
    let left = ctx.keyspace.edit_list(ctx.caller.db, key, |list| {
        let first = if side == Side::Left { 0 } else { list.len() - count };
        list.remove_range(first, count);
        list.len()
    })?;
    ctx.changed_times(key, count, 'l', side.pop_event());
    ctx.emptied(key, left);
    Ok(())
}

/// Where an element is taken from and where it goes.
#[derive(Debug, Clone, Copy)]
struct Move {
    from: Side,
    to: Side,
    /// The request names the ends, as LMOVE does.
    named: bool,
}

const RIGHT_TO_LEFT: Move = Move { from: Side::Right, to: Side::Left, named: false };

fn parse_move(from: &[u8], to: &[u8]) -> Result<Move, Refusal> {
    Ok(Move { from: Side::parse(from)?, to: Side::parse(to)?, named: true })
}

/// `LMOVE source destination LEFT | RIGHT LEFT | RIGHT`
fn lmove(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    move_element(ctx, args[1], args[2], parse_move(args[3], args[4])?)
}

fn move_element(
    ctx: &mut Context<'_>,
    source: &[u8],
    target: &[u8],
    ends: Move,
) -> Result<(), Refusal> {
    let db = ctx.caller.db;
    let Move { from, to, named } = ends;
    let (out, list) = ctx.found_to_edit::<List<'_>>(source)?;
    let outermost = |list: List<'_>| {
        list.get(if from == Side::Left { 0 } else { list.len() - 1 }).map(<[u8]>::to_vec)
    };
    let Some(element) = list.and_then(outermost) else {
        out.null();
        return Ok(());
    };
    ctx.found_to_edit::<List<'_>>(target)?;
    // Pushed before it is taken, so that a failure loses nothing; on one list the push shifts none
    // of the element's neighbours out of their order.
    if source == target {
        ctx.keyspace.edit_list(db, source, |list| {
            list.remove_range(if from == Side::Left { 0 } else { list.len() - 1 }, 1);
            push(list, &element, to);
        })?;
        arrived(ctx, target, to);
        ctx.changed_as(source, 'l', from.pop_event());
    } else {
        ctx.keyspace.edit_list(db, target, |list| push(list, &element, to))?;
        arrived(ctx, target, to);
        take_end(ctx, source, from, 1)?;
    }
    if named {
        ctx.effect(&[b"LMOVE", source, target, from.name(), to.name()]);
    } else {
        ctx.effect(&[b"RPOPLPUSH", source, target]);
    }
    ctx.out.bulk(element);
    Ok(())
}

/// How many elements LMOVEM moves, and in which order they arrive.
#[derive(Debug, Clone, Copy)]
struct Many {
    count: usize,
    /// None are moved where there are fewer.
    exactly: bool,
    /// In the order in which they are taken, one by one; else in that of the source.
    one_by_one: bool,
}

impl Many {
    const ONE: Self = Self { count: 1, exactly: false, one_by_one: true };

    /// `[COUNT count | EXACTLY count  OBO | BULK]`
    fn parse(options: &[&[u8]]) -> Result<Self, Refusal> {
        let [selector, number, order] = options else {
            return if options.is_empty() { Ok(Self::ONE) } else { Err(SYNTAX) };
        };
        let one_of = |word: &[u8], first: &str, second: &str| {
            let is_first = word.eq_ignore_ascii_case(first.as_bytes());
            let known = is_first || word.eq_ignore_ascii_case(second.as_bytes());
            known.then_some(is_first).ok_or(SYNTAX)
        };
        Ok(Self {
            exactly: one_of(selector, "EXACTLY", "COUNT")?,
            count: at_least(number, 1, "ERR count should be greater than 0")?,
            one_by_one: one_of(order, "OBO", "BULK")?,
        })
    }

    /// How many of so many elements.
    fn count_in(self, len: usize) -> usize {
        if self.exactly && len < self.count { 0 } else { self.count.min(len) }
    }
}

/// `LMOVEM source destination LEFT | RIGHT LEFT | RIGHT [COUNT count | EXACTLY count OBO | BULK]`
fn lmovem(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (ends, many) = (parse_move(args[3], args[4])?, Many::parse(&args[5..])?);
    if !move_elements(ctx, args[1], args[2], ends, many)? {
        ctx.out.null_array();
    }
    Ok(())
}

/// Moves elements, and answers them in the order in which they then stand; false if there are too
/// few.
fn move_elements(
    ctx: &mut Context<'_>,
    source: &[u8],
    target: &[u8],
    Move { from, to, .. }: Move,
    many: Many,
) -> Result<bool, Refusal> {
    let db = ctx.caller.db;
    let (_, list) = ctx.found_to_edit::<List<'_>>(source)?;
    let Some((list, count)) = list.map(|it| (it, many.count_in(it.len()))).filter(|it| it.1 > 0)
    else {
        return Ok(false);
    };
    let (len, first) = (list.len(), if from == Side::Left { 0 } else { list.len() - count });
    let mut moved: Vec<Vec<u8>> = list.iter_from(first).take(count).map(<[u8]>::to_vec).collect();
    if many.one_by_one && from == to {
        moved.reverse();
    }
    ctx.found_to_edit::<List<'_>>(target)?;
    if source == target {
        ctx.keyspace.edit_list(db, source, |list| {
            list.remove_range(first, count);
            push_all(list, &moved, to);
        })?;
        arrived(ctx, target, to);
        ctx.changed_times(source, count, 'l', from.pop_event());
    } else {
        ctx.keyspace.edit_list(db, target, |list| push_all(list, &moved, to))?;
        arrived(ctx, target, to);
        take_end(ctx, source, from, count)?;
    }
    // A list that moves into itself as a whole is never empty in between.
    let turns_whole = source == target && count == len;
    effects_of_move(ctx, source, from, target, to, &moved, turns_whole);
    ctx.out.array(count);
    moved.iter().for_each(|element| ctx.out.bulk(element));
    Ok(true)
}

/// Pushes elements, so that they stand in their order.
fn push_all(list: &mut stillframe_keyspace::ListEdit<'_>, elements: &[Vec<u8>], side: Side) {
    match side {
        Side::Left => elements.iter().rev().for_each(|element| list.push_front(element)),
        Side::Right => elements.iter().for_each(|element| list.push_back(element)),
    }
}

/// Notes what LMOVEM did, as requests that every replica knows.
fn effects_of_move(
    ctx: &mut Context<'_>,
    source: &[u8],
    from: Side,
    target: &[u8],
    to: Side,
    moved: &[Vec<u8>],
    turns_whole: bool,
) {
    if !ctx.ledger.effects.wanted() {
        return;
    }
    let mut digits = [0; 20];
    let count = format_integer(moved.len() as i64, &mut digits);
    let pushed = |side: Side| {
        let mut words = vec![side.push_event().as_bytes(), target];
        words.extend(moved.iter().map(Vec::as_slice));
        if side == Side::Left {
            words[2..].reverse();
        }
        words
    };
    if turns_whole {
        ctx.effect(&pushed(Side::Right));
        ctx.effect(&[b"LPOP", source, count]);
    } else {
        ctx.effect(&[from.pop_event().as_bytes(), source, count]);
        ctx.effect(&pushed(to));
    }
}

/// Records that an element was pushed, which counts as one change with its removal elsewhere.
fn arrived(ctx: &mut Context<'_>, target: &[u8], side: Side) {
    ctx.changed_as(target, 'l', side.push_event());
    ctx.ledger.dirty -= 1;
}

fn push(list: &mut stillframe_keyspace::ListEdit<'_>, element: &[u8], side: Side) {
    match side {
        Side::Left => list.push_front(element),
        Side::Right => list.push_back(element),
    }
}

/// `LMPOP numkeys key... LEFT | RIGHT [COUNT count]`
fn lmpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let wanted = MultiPop::parse(&args[1..], Side::parse)?;
    if !pop_first(ctx, wanted.keys, wanted.end, Some(wanted.count))? {
        ctx.out.null_array();
    }
    Ok(())
}

/// Pops from the first key that is a list, and answers its name and one element or, with a count,
/// an array of elements; false if there is none.
fn pop_first(
    ctx: &mut Context<'_>,
    keys: &[&[u8]],
    side: Side,
    count: Option<usize>,
) -> Result<bool, Refusal> {
    let mut digits = [0; 20];
    for key in keys {
        let (out, list) = ctx.found_to_edit::<List<'_>>(key)?;
        let Some(list) = list else { continue };
        let most = count.unwrap_or(1).min(list.len());
        out.array(2);
        out.bulk(key);
        if count.is_some() {
            out.array(most);
        }
        answer_end(out, list, side, most);
        take_end(ctx, key, side, most)?;
        let number = format_integer(most as i64, &mut digits);
        let words = [side.pop_event().as_bytes(), key, number];
        ctx.effect(if count.is_some() { &words } else { &words[..2] });
        return Ok(true);
    }
    Ok(false)
}

/// `BLPOP key... timeout` and `BRPOP key... timeout`
fn blocking_pop(ctx: &mut Context<'_>, args: &[&[u8]], side: Side) -> Result<(), Refusal> {
    let (keys, last) = args[1..].split_at(args.len() - 2);
    let timeout = parse_timeout(last[0])?;
    if pop_first(ctx, keys, side, None)? {
        return Ok(());
    }
    if !ctx.may_block() {
        ctx.out.null_array();
        return Ok(());
    }
    ctx.block(&Wish {
        keys,
        kind: Type::List,
        timeout,
        before: &args[..1],
        after: &[b"0"],
        ..Wish::NONE
    });
    Ok(())
}

/// `BLMPOP timeout numkeys key... LEFT | RIGHT [COUNT count]`
fn blmpop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let wanted = MultiPop::parse(&args[2..], Side::parse)?;
    let timeout = parse_timeout(args[1])?;
    if pop_first(ctx, wanted.keys, wanted.end, Some(wanted.count))? {
        return Ok(());
    }
    if !ctx.may_block() {
        ctx.out.null_array();
        return Ok(());
    }
    ctx.block(&Wish {
        keys: wanted.keys,
        kind: Type::List,
        timeout,
        before: &[args[0], b"0", b"1"],
        after: &args[3 + wanted.keys.len()..],
        ..Wish::NONE
    });
    Ok(())
}

/// `BLMOVE source destination LEFT | RIGHT LEFT | RIGHT timeout`
fn blmove(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    blocking_move(ctx, args, parse_move(args[3], args[4])?)
}

/// `BRPOPLPUSH source destination timeout`
fn brpoplpush(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    blocking_move(ctx, args, RIGHT_TO_LEFT)
}

fn blocking_move(ctx: &mut Context<'_>, args: &[&[u8]], ends: Move) -> Result<(), Refusal> {
    let source = args[1];
    let timeout = parse_timeout(args[args.len() - 1])?;
    let (_, list) = ctx.found_to_edit::<List<'_>>(source)?;
    if list.is_some() {
        move_element(ctx, source, args[2], ends)?;
    } else if ctx.may_block() {
        let (before, after) = (&args[..1], &args[2..]);
        ctx.block(&Wish {
            keys: &[source],
            kind: Type::List,
            timeout,
            before,
            after,
            ..Wish::NONE
        });
    } else {
        ctx.out.null();
    }
    Ok(())
}

/// `BLMOVEM source destination LEFT | RIGHT LEFT | RIGHT timeout [COUNT count | EXACTLY count OBO |
/// BULK]`
fn blmovem(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (source, ends) = (args[1], parse_move(args[3], args[4])?);
    let (timeout, many) = (parse_timeout(args[5])?, Many::parse(&args[6..])?);
    if move_elements(ctx, source, args[2], ends, many)? {
        return Ok(());
    }
    if ctx.caller.resumed {
        ctx.wait_on();
    } else if ctx.may_block() {
        let (before, after) = (&args[..1], &args[2..]);
        let (keys, kind) = (&[source][..], Type::List);
        ctx.block(&Wish { keys, kind, timeout, before, after, ..Wish::NONE });
    } else {
        ctx.out.null_array();
    }
    Ok(())
}
