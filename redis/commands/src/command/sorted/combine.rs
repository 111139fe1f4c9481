//! Unions, intersections and differences of sorted sets and sets, with weights.
//!
//! Scores come out as in Redis to the last bit: sources are taken from the smallest to the largest
//! (of equal ones in the order of the request), and each member's scores are put together in that
//! order. A plain set is one whose scores are all 1.

use std::cmp::Ordering;
use std::collections::HashMap;

use stillframe_keyspace::{Set, Sorted, Value};
use stillframe_resp::{format_double, parse_integer};

use super::super::collection::View;
use super::super::set::Operation;
use super::{Members, member, members_head, store};
use crate::context::Context;
use crate::errors::{NOT_AN_INTEGER, Refusal, SYNTAX, WrongType};
use crate::number::doubles::parse_double;
use crate::number::integers::at_least;
use crate::table::Table;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    use Operation::{Difference, Intersection, Union};
    table.add("zdiff", |ctx, args| show(ctx, args, Difference));
    table.add("zdiffstore", |ctx, args| keep(ctx, args, Difference));
    table.add("zinter", |ctx, args| show(ctx, args, Intersection));
    table.add("zintercard", zintercard);
    table.add("zinterstore", |ctx, args| keep(ctx, args, Intersection));
    table.add("zunion", |ctx, args| show(ctx, args, Union));
    table.add("zunionstore", |ctx, args| keep(ctx, args, Union));
}

fn stored_event(operation: Operation) -> &'static str {
    match operation {
        Operation::Union => "zunionstore",
        Operation::Intersection => "zinterstore",
        Operation::Difference => "zdiffstore",
    }
}

/// A sorted set, or a set.
#[derive(Clone, Copy)]
enum Source<'a> {
    Sorted(Sorted<'a>),
    Plain(Set<'a>),
}

impl<'a> View<'a> for Source<'a> {
    fn from_value(value: Value<'a>, _: i64) -> Option<Self> {
        match value {
            Value::Sorted(set) => Some(Self::Sorted(set)),
            Value::Set(set) => Some(Self::Plain(set)),
            _ => None,
        }
    }
}

impl Source<'_> {
    fn len(self) -> usize {
        match self {
            Self::Sorted(set) => set.len(),
            Self::Plain(set) => set.len(),
        }
    }

    fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Self::Sorted(set) => set.score(member),
            Self::Plain(set) => set.contains(member).then_some(1.0),
        }
    }

    /// This many members, or as many as there are, from a rank on.
    fn some(self, rank: usize, count: usize) -> Vec<Vec<u8>> {
        match self {
            Self::Sorted(set) => {
                set.iter_from(rank).take(count).map(|(member, _)| member.to_vec()).collect()
            }
            Self::Plain(set) => {
                let end = set.len().min(rank + count);
                (rank..end).filter_map(|at| set.at(at)).map(<[u8]>::to_vec).collect()
            }
        }
    }

    fn visit(self, mut f: impl FnMut(&[u8], f64)) {
        match self {
            Self::Sorted(set) => set.iter_from(0).for_each(|(member, score)| f(member, score)),
            Self::Plain(set) => set.iter().for_each(|member| f(member, 1.0)),
        }
    }
}

/// What becomes of the scores of one member.
#[derive(Debug, Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
    /// Every source that has the member counts by its weight.
    Count,
}

impl Aggregate {
    fn weigh(self, weight: f64, score: f64) -> f64 {
        if matches!(self, Self::Count) { weight } else { weight * score }
    }

    fn add(self, score: f64, more: f64) -> f64 {
        match self {
            Self::Sum | Self::Count => number(score + more),
            // Not `f64::min` and `max`: which of 0 and -0, and what of NaN, is as in Redis.
            Self::Min if more < score => more,
            Self::Max if more > score => more,
            Self::Min | Self::Max => score,
        }
    }
}

/// A score, or 0 for what is none, such as infinity times 0.
fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// What follows the keys in a request.
struct Options {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
}

impl Options {
    fn parse(
        args: &[&[u8]],
        keys: usize,
        operation: Operation,
        stores: bool,
    ) -> Result<Self, Refusal> {
        let mut options =
            Self { weights: vec![1.0; keys], aggregate: Aggregate::Sum, with_scores: false };
        let weighs = operation != Operation::Difference;
        let mut rest = args;
        while let [option, after @ ..] = rest {
            rest = after;
            match option.to_ascii_lowercase().as_slice() {
                b"weights" if weighs && after.len() >= keys => {
                    let (weights, after) = after.split_at(keys);
                    rest = after;
                    let weights = weights.iter().map(|weight| parse_double(weight));
                    let weights = weights.collect::<Option<Vec<_>>>();
                    options.weights = weights.ok_or("ERR weight value is not a float")?;
                }
                b"aggregate" if weighs && !after.is_empty() => {
                    rest = &after[1..];
                    options.aggregate = match after[0].to_ascii_lowercase().as_slice() {
                        b"sum" => Aggregate::Sum,
                        b"min" => Aggregate::Min,
                        b"max" => Aggregate::Max,
                        b"count" => Aggregate::Count,
                        _ => return Err(SYNTAX),
                    };
                }
                b"withscores" if !stores => options.with_scores = true,
                _ => return Err(SYNTAX),
            }
        }
        Ok(options)
    }
}

/// A source of a request.
struct Input<'a> {
    key: &'a [u8],
    length: usize,
    /// Its position among the sources.
    position: usize,
}

/// Reads `numkeys key...` and looks at every key; what follows them in the request comes second.
fn inputs<'a>(
    ctx: &mut Context<'_>,
    args: &'a [&'a [u8]],
    name: &str,
) -> Result<(Vec<Input<'a>>, &'a [&'a [u8]]), Refusal> {
    let (keys, rest) = keys(args, name)?;
    let mut inputs = Vec::with_capacity(keys.len());
    for (position, &key) in keys.iter().enumerate() {
        let (_, source) = ctx.found::<Source<'_>>(key)?;
        inputs.push(Input { key, length: source.map_or(0, Source::len), position });
    }
    Ok((inputs, rest))
}

type Split<'a> = (&'a [&'a [u8]], &'a [&'a [u8]]);

fn keys<'a>(args: &'a [&'a [u8]], name: &str) -> Result<Split<'a>, Refusal> {
    let (number, rest) = args.split_first().ok_or(SYNTAX)?;
    let number = parse_integer(number).ok_or(NOT_AN_INTEGER)?;
    match usize::try_from(number) {
        Ok(number @ 1..) => rest.split_at_checked(number).ok_or(SYNTAX),
        _ => Err(format!("ERR at least 1 input key is needed for '{name}' command").into()),
    }
}

/// The members of the result, in the order of their scores.
fn compute(
    ctx: &mut Context<'_>,
    mut inputs: Vec<Input<'_>>,
    operation: Operation,
    options: &Options,
) -> Result<Members, WrongType> {
    if operation != Operation::Difference {
        inputs.sort_by_key(|input| input.length);
    }
    let mut table = HashMap::new();
    for (turn, input) in inputs.iter().enumerate() {
        let (_, source) = ctx.found_to_edit::<Source<'_>>(input.key)?;
        let weight = options.weights.get(input.position).copied().unwrap_or(1.0);
        if operation != Operation::Union && turn > 0 {
            if table.is_empty() {
                break;
            }
            table.shrink_to_fit(); // to walk what is gone takes time, too
        }
        match (operation, turn) {
            (Operation::Union, _) | (_, 0) => merge(&mut table, source, weight, options.aggregate),
            (Operation::Intersection, _) => narrow(&mut table, source, weight, options.aggregate),
            (Operation::Difference, _) => subtract(&mut table, source),
        }
    }
    let mut members: Members = table.into_iter().collect();
    members.sort_unstable_by(|(a, a_score), (b, b_score)| {
        a_score.partial_cmp(b_score).unwrap_or(Ordering::Equal).then_with(|| a.cmp(b))
    });
    Ok(members)
}

type Gathered = HashMap<Vec<u8>, f64>;

/// Adds all members of a source.
fn merge(table: &mut Gathered, source: Option<Source<'_>>, weight: f64, aggregate: Aggregate) {
    let Some(source) = source else { return };
    source.visit(|member, score| {
        let score = number(aggregate.weigh(weight, score));
        match table.get_mut(member) {
            Some(old) => *old = aggregate.add(*old, score),
            None => drop(table.insert(member.to_vec(), score)),
        }
    });
}

/// Takes out the members that are in the source, too, by what takes fewer steps.
fn subtract(table: &mut Gathered, source: Option<Source<'_>>) {
    match source {
        Some(source) if source.len() < table.len() => source.visit(|member, _| {
            table.remove(member);
        }),
        Some(source) => table.retain(|member, _| source.score(member).is_none()),
        None => {}
    }
}

/// Keeps only members that are in the source too.
fn narrow(table: &mut Gathered, source: Option<Source<'_>>, weight: f64, aggregate: Aggregate) {
    table.retain(|member, score| match source.and_then(|source| source.score(member)) {
        Some(more) => {
            *score = aggregate.add(*score, aggregate.weigh(weight, more));
            true
        }
        None => false,
    });
}

/// `ZUNION numkeys key... [WEIGHTS weight...] [AGGREGATE SUM | MIN | MAX | COUNT] [WITHSCORES]` and
/// its kin
fn show(ctx: &mut Context<'_>, args: &[&[u8]], operation: Operation) -> Result<(), Refusal> {
    let name = args[0].to_ascii_lowercase();
    let name = String::from_utf8_lossy(&name);
    let (inputs, rest) = inputs(ctx, &args[1..], &name)?;
    let options = Options::parse(rest, inputs.len(), operation, false)?;
    let members = compute(ctx, inputs, operation, &options)?;
    members_head(&mut ctx.out, members.len(), options.with_scores);
    for (name, score) in &members {
        member(&mut ctx.out, name, *score, options.with_scores);
    }
    Ok(())
}

/// `ZUNIONSTORE destination numkeys key... [WEIGHTS weight...] [AGGREGATE SUM | MIN | MAX | COUNT]`
/// and its kin
fn keep(ctx: &mut Context<'_>, args: &[&[u8]], operation: Operation) -> Result<(), Refusal> {
    let event = stored_event(operation);
    let (inputs, rest) = inputs(ctx, &args[2..], event)?;
    let options = Options::parse(rest, inputs.len(), operation, true)?;
    let members = compute(ctx, inputs, operation, &options)?;
    store(ctx, args[1], &members, event)?;
    if matches!(options.aggregate, Aggregate::Count) {
        state_effects(ctx, args[1], &members);
    }
    Ok(())
}

/// States what was stored: servers before 8.8 do not know COUNT.
fn state_effects(ctx: &mut Context<'_>, key: &[u8], members: &Members) {
    ctx.effect(&[b"DEL", key]);
    if members.is_empty() || !ctx.ledger.effects.wanted() {
        return;
    }
    let texts = members.iter().map(|(_, score)| {
        let mut text = Vec::new();
        format_double(*score, &mut text);
        text
    });
    let texts: Vec<Vec<u8>> = texts.collect();
    let pairs = texts.iter().zip(members).flat_map(|(text, (member, _))| [&text[..], member]);
    ctx.effect(&[&b"ZADD"[..], key].into_iter().chain(pairs).collect::<Vec<_>>());
}

/// `ZINTERCARD numkeys key... [LIMIT limit]`: how many members are in all of them.
fn zintercard(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (inputs, rest) = inputs(ctx, &args[1..], "zintercard")?;
    let limit = parse_limit(rest)?;
    let count = common(ctx, inputs, limit)?;
    ctx.out.integer(count as i64);
    Ok(())
}

/// How many members all sources have in common, counted up to `most`.
fn common(
    ctx: &mut Context<'_>,
    mut inputs: Vec<Input<'_>>,
    most: usize,
) -> Result<usize, WrongType> {
    /// Members of the smallest source that are looked at together.
    const BATCH: usize = 256;
    inputs.sort_by_key(|input| input.length);
    let Some((smallest, others)) = inputs.split_first() else { return Ok(0) };
    let (mut count, mut start) = (0, 0);
    while start < smallest.length && count < most {
        let (_, source) = ctx.found_to_edit::<Source<'_>>(smallest.key)?;
        let mut members = source.map_or_else(Vec::new, |source| source.some(start, BATCH));
        for input in others {
            let (_, source) = ctx.found_to_edit::<Source<'_>>(input.key)?;
            members.retain(|member| source.is_some_and(|it| it.score(member).is_some()));
        }
        count += members.len();
        start += BATCH;
    }
    Ok(count.min(most))
}

/// The last of any number of limits; 0 is none.
fn parse_limit(args: &[&[u8]]) -> Result<usize, Refusal> {
    let mut limit = 0;
    let (pairs, odd) = args.as_chunks::<2>();
    for [option, number] in pairs {
        if !option.eq_ignore_ascii_case(b"LIMIT") {
            return Err(SYNTAX);
        }
        limit = at_least(number, 0, "ERR LIMIT can't be negative")?;
    }
    let limit = if limit == 0 { usize::MAX } else { limit };
    if odd.is_empty() { Ok(limit) } else { Err(SYNTAX) }
}
