//! Lists: everything but popping and moving elements, which is in `pops`.

mod pops;

use stillframe_keyspace::List;
use stillframe_resp::{Out, parse_integer};

use crate::context::Context;
use crate::errors::{INDEX_RANGE, NO_SUCH_KEY, NOT_AN_INTEGER, Refusal, SYNTAX};
use crate::number::integers::{at_least, clamp_elements};
use crate::table::Table;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("lindex", lindex);
    table.add("linsert", linsert);
    table.add("llen", llen);
    table.add("lpos", lpos);
    table.add("lpush", |ctx, args| push(ctx, args, Side::Left, false));
    table.add("lpushx", |ctx, args| push(ctx, args, Side::Left, true));
    table.add("lrange", lrange);
    table.add("lrem", lrem);
    table.add("lset", lset);
    table.add("ltrim", ltrim);
    table.add("rpush", |ctx, args| push(ctx, args, Side::Right, false));
    table.add("rpushx", |ctx, args| push(ctx, args, Side::Right, true));
    pops::register(table);
}

/// An end of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The head.
    Left,
    /// The tail.
    Right,
}

impl Side {
    /// `LEFT` or `RIGHT`
    fn parse(word: &[u8]) -> Result<Self, Refusal> {
        match word.to_ascii_uppercase().as_slice() {
            b"LEFT" => Ok(Self::Left),
            b"RIGHT" => Ok(Self::Right),
            _ => Err(SYNTAX),
        }
    }

    /// As [`parse`](Self::parse) reads it.
    fn name(self) -> &'static [u8] {
        if self == Self::Left { b"LEFT" } else { b"RIGHT" }
    }

    /// The event of pushing at this end.
    fn push_event(self) -> &'static str {
        if self == Self::Left { "lpush" } else { "rpush" }
    }

    /// The event of popping from this end.
    fn pop_event(self) -> &'static str {
        if self == Self::Left { "lpop" } else { "rpop" }
    }
}

/// `LPUSH key element...` and its siblings
fn push(
    ctx: &mut Context<'_>,
    args: &[&[u8]],
    side: Side,
    only_existing: bool,
) -> Result<(), Refusal> {
    let (key, elements) = (args[1], &args[2..]);
    let (out, list) = ctx.found_to_edit::<List<'_>>(key)?;
    if list.is_none() && only_existing {
        out.integer(0);
        return Ok(());
    }
    let length = ctx.keyspace.edit_list(ctx.caller.db, key, |list| {
        for element in elements {
            match side {
                Side::Left => list.push_front(element),
                Side::Right => list.push_back(element),
            }
        }
        list.len()
    })?;
    ctx.changed_times(key, elements.len(), 'l', side.push_event());
    ctx.out.integer(length as i64);
    Ok(())
}

/// `LLEN key`
fn llen(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, list) = ctx.found::<List<'_>>(args[1])?;
    out.integer(list.map_or(0, |list| list.len() as i64));
    Ok(())
}

/// `LINDEX key index`
fn lindex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, list) = ctx.found::<List<'_>>(args[1])?;
    let Some(list) = list else {
        out.null();
        return Ok(());
    };
    let index = parse_integer(args[2]).ok_or(NOT_AN_INTEGER)?;
    out.bulk_or_null(position(index, list.len()).and_then(|index| list.get(index)));
    Ok(())
}

/// Where an index, negative from the end, lies among `length` elements.
fn position(index: i64, length: usize) -> Option<usize> {
    let signed = i64::try_from(length).ok()?;
    let index = if index < 0 { index.checked_add(signed)? } else { index };
    usize::try_from(index).ok().filter(|&index| index < length)
}

/// `LRANGE key start stop`
fn lrange(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (Some(start), Some(stop)) = (parse_integer(args[2]), parse_integer(args[3])) else {
        return Err(NOT_AN_INTEGER);
    };
    let (out, list) = ctx.found::<List<'_>>(args[1])?;
    let Some(list) = list else {
        out.array(0);
        return Ok(());
    };
    let range = clamp_elements(start, stop, list.len());
    out.array(range.len());
    list.iter_from(range.start).take(range.len()).for_each(|element| out.bulk(element));
    Ok(())
}

/// `LSET key index element`
fn lset(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, element) = (args[1], args[3]);
    let (_, list) = ctx.found_to_edit::<List<'_>>(key)?;
    let list = list.ok_or(NO_SUCH_KEY)?;
    let index = parse_integer(args[2]).ok_or(NOT_AN_INTEGER)?;
    let index = position(index, list.len()).ok_or(INDEX_RANGE)?;
    let db = ctx.caller.db;
    ctx.keyspace.edit_list(db, key, |list| list.set(index, element))?;
    ctx.changed_as(key, 'l', "lset");
    ctx.out.ok();
    Ok(())
}

/// `LINSERT key BEFORE | AFTER pivot element`
fn linsert(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, pivot, element) = (args[1], args[3], args[4]);
    let after = match args[2].to_ascii_uppercase().as_slice() {
        b"BEFORE" => 0,
        b"AFTER" => 1,
        _ => return Err(SYNTAX),
    };
    let (out, list) = ctx.found_to_edit::<List<'_>>(key)?;
    let Some(list) = list else {
        out.integer(0);
        return Ok(());
    };
    let Some(index) = list.iter_from(0).position(|element| element == pivot) else {
        out.integer(-1);
        return Ok(());
    };
    let length = ctx.keyspace.edit_list(ctx.caller.db, key, |list| {
        list.insert(index + after, element);
        list.len()
    })?;
    ctx.changed_as(key, 'l', "linsert");
    ctx.out.integer(length as i64);
    Ok(())
}

/// `LREM key count element`: the first `count` of them, from the tail if negative; all if 0.
fn lrem(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, element) = (args[1], args[3]);
    let count = parse_integer(args[2]).ok_or(NOT_AN_INTEGER)?;
    let (out, list) = ctx.found_to_edit::<List<'_>>(key)?;
    let doomed = list.map_or_else(Vec::new, |list| matches_of(list, element, count));
    if doomed.is_empty() {
        out.integer(0);
        return Ok(());
    }
    let left = ctx.keyspace.edit_list(ctx.caller.db, key, |list| {
        // From the tail on, so that the positions before it stay true; runs go at once.
        for run in doomed.chunk_by(|later, earlier| *earlier + 1 == *later) {
            if let Some(&first) = run.last() {
                list.remove_range(first, run.len());
            }
        }
        list.len()
    })?;
    ctx.changed_times(key, doomed.len(), 'l', "lrem");
    ctx.emptied(key, left);
    ctx.out.integer(doomed.len() as i64);
    Ok(())
}

/// Where LREM finds what it removes, the last position first.
fn matches_of(list: List<'_>, element: &[u8], count: i64) -> Vec<usize> {
    let most = match usize::try_from(count.unsigned_abs()) {
        Ok(most @ 1..) => most,
        _ => usize::MAX,
    };
    let last = list.len().saturating_sub(1);
    let equal = |(_, other): &(usize, &[u8])| *other == element;
    if count < 0 {
        let backwards = list.iter_back_from(last).enumerate().filter(equal);
        return backwards.take(most).map(|(back, _)| last - back).collect();
    }
    let forwards = list.iter_from(0).enumerate().filter(equal);
    let mut found: Vec<usize> = forwards.take(most).map(|(index, _)| index).collect();
    found.reverse();
    found
}

/// `LTRIM key start stop`: only those are left.
fn ltrim(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let key = args[1];
    let (Some(start), Some(stop)) = (parse_integer(args[2]), parse_integer(args[3])) else {
        return Err(NOT_AN_INTEGER);
    };
    let (out, list) = ctx.found_to_edit::<List<'_>>(key)?;
    let Some(list) = list else {
        out.ok();
        return Ok(());
    };
    let length = list.len();
    let kept = clamp_elements(start, stop, length);
    ctx.keyspace.edit_list(ctx.caller.db, key, |list| {
        list.remove_range(kept.end, length - kept.end);
        list.remove_range(0, kept.start);
    })?;
    let removed = (length - kept.len()) as u64;
    ctx.changed_as(key, 'l', "ltrim");
    // Redis marks watchers even if nothing was removed, and counts what was.
    ctx.ledger.dirty = ctx.ledger.dirty - 1 + removed;
    if kept.is_empty() {
        ctx.emptied(key, 0);
    }
    ctx.out.ok();
    Ok(())
}

/// What LPOS is asked for.
struct Search {
    /// Which match comes first; negative: from the tail.
    rank: i64,
    /// How many to answer, 0 for all; `None`: one, and not as an array.
    count: Option<usize>,
    /// How many elements to look at, 0 for all.
    look_at: usize,
}

impl Search {
    fn parse(options: &[&[u8]]) -> Result<Self, Refusal> {
        const RANK_ZERO: &str = "ERR RANK can't be zero: use 1 to start from the first match, 2 \
            from the second ... or use negative to start from the end of the list";
        let mut search = Self { rank: 1, count: None, look_at: 0 };
        let (pairs, rest) = options.as_chunks::<2>();
        for [option, number] in pairs {
            match option.to_ascii_uppercase().as_slice() {
                b"RANK" => {
                    search.rank = parse_integer(number).ok_or(NOT_AN_INTEGER)?;
                    if search.rank == 0 {
                        return Err(RANK_ZERO.into());
                    }
                }
                b"COUNT" => {
                    search.count = Some(at_least(number, 0, "ERR COUNT can't be negative")?);
                }
                b"MAXLEN" => search.look_at = at_least(number, 0, "ERR MAXLEN can't be negative")?,
                _ => return Err(SYNTAX),
            }
        }
        if rest.is_empty() { Ok(search) } else { Err(SYNTAX) }
    }

    fn run(&self, list: List<'_>, element: &[u8]) -> Vec<usize> {
        let look_at = if self.look_at == 0 { usize::MAX } else { self.look_at };
        let most = match self.count {
            None => 1,
            // Redis negates the rank in 64 bits: the most negative one stays so, skips nothing, and
            // no count is ever reached.
            Some(count) if count == 0 || self.rank == i64::MIN => usize::MAX,
            Some(count) => count,
        };
        let skip = usize::try_from(self.rank.wrapping_abs() - i64::from(self.rank != i64::MIN));
        let skip = skip.unwrap_or(0);
        let equal = |(_, other): &(usize, &[u8])| *other == element;
        let last = list.len().saturating_sub(1);
        if self.rank < 0 {
            let seen = list.iter_back_from(last).enumerate().take(look_at).filter(equal);
            seen.skip(skip).take(most).map(|(back, _)| last - back).collect()
        } else {
            let seen = list.iter_from(0).enumerate().take(look_at).filter(equal);
            seen.skip(skip).take(most).map(|(index, _)| index).collect()
        }
    }
}

/// `LPOS key element [RANK rank] [COUNT count] [MAXLEN length]`
fn lpos(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let search = Search::parse(&args[3..])?;
    let (out, list) = ctx.found::<List<'_>>(args[1])?;
    let found = list.map_or_else(Vec::new, |list| search.run(list, args[2]));
    answer_positions(out, &search, &found);
    Ok(())
}

fn answer_positions(out: &mut Out<'_>, search: &Search, found: &[usize]) {
    match (search.count, found.first()) {
        (None, None) => out.null(),
        (None, Some(&position)) => out.integer(position as i64),
        (Some(_), _) => {
            out.array(found.len());
            found.iter().for_each(|&position| out.integer(position as i64));
        }
    }
}
