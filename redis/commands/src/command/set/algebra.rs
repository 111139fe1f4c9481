//! Unions, intersections and differences of sets.
//!
//! All sets are read before anything is stored: the result is gathered apart, since a destination
//! may be one of the sources.

use std::collections::HashSet;

use stillframe_keyspace::Set;

use crate::command::collection::view_of;
use crate::context::Context;
use crate::errors::{Refusal, SYNTAX, WrongType};
use crate::number::integers::at_least;
use crate::table::Table;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    use Operation::{Difference, Intersection, Union};
    table.add("sdiff", |ctx, args| show(ctx, args, Difference));
    table.add("sdiffcard", |ctx, args| count(ctx, args, Difference));
    table.add("sdiffstore", |ctx, args| store(ctx, args, Difference));
    table.add("sinter", |ctx, args| show(ctx, args, Intersection));
    table.add("sintercard", sintercard);
    table.add("sinterstore", |ctx, args| store(ctx, args, Intersection));
    table.add("sunion", |ctx, args| show(ctx, args, Union));
    table.add("sunioncard", |ctx, args| count(ctx, args, Union));
    table.add("sunionstore", |ctx, args| store(ctx, args, Union));
}

/// What is made of several sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::command) enum Operation {
    Union,
    Intersection,
    Difference,
}

impl Operation {
    fn event(self) -> &'static str {
        match self {
            Self::Union => "sunionstore",
            Self::Intersection => "sinterstore",
            Self::Difference => "sdiffstore",
        }
    }
}

/// Members of a result, each once, in the order in which they were met.
#[derive(Default)]
struct Members {
    /// All members, end to end.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Members {
    fn push(&mut self, member: &[u8]) {
        self.bytes.extend_from_slice(member);
        self.ends.push(self.bytes.len());
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    /// Those that are in `other`, too.
    fn filtered(&self, other: Option<Set<'_>>) -> Self {
        let mut kept = Self::default();
        let fits = |member: &&[u8]| other.is_some_and(|other| other.contains(member));
        self.iter().filter(fits).for_each(|member| kept.push(member));
        kept
    }

    fn from_set(set: Option<Set<'_>>) -> Self {
        let mut members = Self::default();
        set.iter().flat_map(|set| set.iter()).for_each(|member| members.push(member));
        members
    }
}

/// Reads the sets of `keys` for an operation.
fn compute(
    ctx: &mut Context<'_>,
    keys: &[&[u8]],
    operation: Operation,
) -> Result<Members, WrongType> {
    let mut sized = measured(ctx, keys)?;
    if operation == Operation::Union {
        return Ok(union(ctx, keys));
    }
    let inside = operation == Operation::Intersection;
    if inside {
        sized.sort_by_key(|(length, _)| *length);
    }
    let mut members = match sized.first() {
        Some((1.., key)) => Members::from_set(set_at(ctx, key)),
        _ => return Ok(Members::default()),
    };
    let others = &sized[1..];
    if !inside {
        return Ok(difference(ctx, members, others));
    }
    for (_, key) in others {
        members = members.filtered(set_at(ctx, key));
    }
    Ok(members)
}

/// The members that are in none of the others, by what takes fewer steps: looking up each member
/// in each of the others, or each of theirs among the members.
fn difference(ctx: &mut Context<'_>, members: Members, others: &[(usize, &[u8])]) -> Members {
    let mut others: Vec<_> = others.iter().filter(|(length, _)| *length > 0).collect();
    let total: usize = others.iter().map(|(length, _)| length).sum();
    let mut left: HashSet<&[u8]> = members.iter().collect();
    if total <= left.len().saturating_mul(others.len()) {
        for (_, key) in others {
            set_at(ctx, key).iter().flat_map(|set| set.iter()).for_each(|member| {
                left.remove(member);
            });
        }
    } else {
        // The largest first: it may leave the least.
        others.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
        for (_, key) in others {
            let Some(set) = set_at(ctx, key) else { continue };
            left.retain(|member| !set.contains(member));
            if left.is_empty() {
                break;
            }
            left.shrink_to_fit(); // to walk what is gone takes time, too
        }
    }
    let mut kept = Members::default();
    members.iter().filter(|member| left.contains(member)).for_each(|member| kept.push(member));
    kept
}

/// The lengths of the sets of `keys`: all are looked at before anything is done.
fn measured<'k>(
    ctx: &mut Context<'_>,
    keys: &[&'k [u8]],
) -> Result<Vec<(usize, &'k [u8])>, WrongType> {
    let mut sized = Vec::with_capacity(keys.len());
    for &key in keys {
        let (_, set) = ctx.found::<Set<'_>>(key)?;
        sized.push((set.map_or(0, |set| set.len()), key));
    }
    Ok(sized)
}

/// How many members all sets have in common, counted up to `most`.
fn common(ctx: &mut Context<'_>, keys: &[&[u8]], most: usize) -> Result<usize, WrongType> {
    /// Members of the smallest set that are looked at together.
    const BATCH: usize = 256;
    let mut sized = measured(ctx, keys)?;
    sized.sort_by_key(|(length, _)| *length);
    let Some((&(length, smallest), others)) = sized.split_first() else { return Ok(0) };
    let (mut count, mut start) = (0, 0);
    while start < length && count < most {
        let end = length.min(start + BATCH);
        let mut members = Members::default();
        if let Some(set) = set_at(ctx, smallest) {
            (start..end).filter_map(|rank| set.at(rank)).for_each(|member| members.push(member));
        }
        for (_, key) in others {
            members = members.filtered(set_at(ctx, key));
        }
        count += members.ends.len();
        start = end;
    }
    Ok(count.min(most))
}

/// A set that was looked up before.
fn set_at<'s>(ctx: &'s mut Context<'_>, key: &[u8]) -> Option<Set<'s>> {
    view_of(ctx.keyspace.get(ctx.caller.db, key, ctx.now), ctx.now).ok().flatten()
}

fn union(ctx: &mut Context<'_>, keys: &[&[u8]]) -> Members {
    let (mut members, mut seen) = (Members::default(), HashSet::new());
    for key in keys {
        for member in set_at(ctx, key).iter().flat_map(|set| set.iter()) {
            if keys.len() == 1 || seen.insert(member.to_vec()) {
                members.push(member);
            }
        }
    }
    members
}

/// `SDIFF key...`, `SINTER key...`, `SUNION key...`
fn show(ctx: &mut Context<'_>, args: &[&[u8]], operation: Operation) -> Result<(), Refusal> {
    let members = compute(ctx, &args[1..], operation)?;
    ctx.out.set(members.ends.len());
    members.iter().for_each(|member| ctx.out.bulk(member));
    Ok(())
}

/// `SDIFFSTORE destination key...` and its siblings
fn store(ctx: &mut Context<'_>, args: &[&[u8]], operation: Operation) -> Result<(), Refusal> {
    let target = args[1];
    let members = compute(ctx, &args[2..], operation)?;
    if members.ends.is_empty() {
        ctx.store_nothing(target);
        ctx.out.integer(0);
        return Ok(());
    }
    ctx.replaced(target, |keyspace, db, name| {
        keyspace.edit_set(db, name, |set| {
            members.iter().for_each(|member| {
                set.insert(member);
            });
        })
    })?;
    ctx.changed_as(target, 's', operation.event());
    ctx.out.integer(members.ends.len() as i64);
    Ok(())
}

/// `SDIFFCARD numkeys key... [LIMIT limit]` and `SUNIONCARD numkeys key... [APPROX] [LIMIT limit]`,
/// which counts exactly with APPROX, too.
fn count(ctx: &mut Context<'_>, args: &[&[u8]], operation: Operation) -> Result<(), Refusal> {
    let (keys, most) = parse_cardinality(&args[1..], operation == Operation::Union)?;
    let members = compute(ctx, keys, operation)?;
    ctx.out.integer(members.ends.len().min(most) as i64);
    Ok(())
}

/// `SINTERCARD numkeys key... [LIMIT limit]`
fn sintercard(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (keys, most) = parse_cardinality(&args[1..], false)?;
    let count = common(ctx, keys, most)?;
    ctx.out.integer(count as i64);
    Ok(())
}

/// Keys and limit of SINTERCARD and its siblings.
fn parse_cardinality<'a>(
    args: &'a [&'a [u8]],
    takes_approx: bool,
) -> Result<(&'a [&'a [u8]], usize), Refusal> {
    const TOO_FEW_KEYS: &str = "ERR numkeys should be greater than 0";
    const TOO_MANY_KEYS: &str = "ERR Number of keys can't be greater than number of args";
    let (number, rest) = args.split_first().ok_or(SYNTAX)?;
    let number = at_least(number, 1, TOO_FEW_KEYS)?;
    let (keys, mut options) = rest.split_at_checked(number).ok_or(TOO_MANY_KEYS)?;
    let mut most = 0;
    loop {
        options = match options {
            [] => break,
            [word, rest @ ..] if takes_approx && word.eq_ignore_ascii_case(b"APPROX") => rest,
            [word, limit, rest @ ..] if word.eq_ignore_ascii_case(b"LIMIT") => {
                most = at_least(limit, 0, "ERR LIMIT can't be negative")?;
                rest
            }
            _ => return Err(SYNTAX),
        };
    }
    Ok((keys, if most == 0 { usize::MAX } else { most }))
}
