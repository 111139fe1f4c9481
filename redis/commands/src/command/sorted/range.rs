//! ZRANGE and the commands that it replaced: members in a range of ranks, scores or names.

use stillframe_keyspace::Sorted;
use stillframe_resp::{Out, parse_integer};

use super::bounds::{NameRange, ScoreRange, Span};
use super::{Members, member, members_head};
use crate::context::Context;
use crate::errors::{NOT_AN_INTEGER, Refusal, SYNTAX};
use crate::table::Table;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    use Kind::{Names, Ranks, Scores};
    table.add("zrange", |ctx, args| show(ctx, args, ANY));
    table.add("zrangebylex", |ctx, args| show(ctx, args, up(Names)));
    table.add("zrangebyscore", |ctx, args| show(ctx, args, up(Scores)));
    table.add("zrangestore", zrangestore);
    table.add("zrevrange", |ctx, args| show(ctx, args, down(Ranks)));
    table.add("zrevrangebylex", |ctx, args| show(ctx, args, down(Names)));
    table.add("zrevrangebyscore", |ctx, args| show(ctx, args, down(Scores)));
}

/// What a range is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ranks,
    Scores,
    Names,
}

/// What a command's name says; options say the rest.
#[derive(Debug, Clone, Copy)]
struct Form {
    kind: Option<Kind>,
    reversed: Option<bool>,
    stores: bool,
}

const ANY: Form = Form { kind: None, reversed: None, stores: false };

fn up(kind: Kind) -> Form {
    Form { kind: Some(kind), reversed: Some(false), stores: false }
}

fn down(kind: Kind) -> Form {
    Form { kind: Some(kind), reversed: Some(true), stores: false }
}

/// A request for members.
#[derive(Debug)]
struct Query<'a> {
    span: Span<'a>,
    /// From the highest member down.
    reversed: bool,
    /// Members passed over; negative: all.
    offset: i64,
    /// Members at most; negative: all.
    limit: i64,
    with_scores: bool,
}

impl<'a> Query<'a> {
    /// Reads `start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`.
    fn parse(args: &[&'a [u8]], form: Form) -> Result<Self, Refusal> {
        let integer = |text: &[u8]| parse_integer(text).ok_or(NOT_AN_INTEGER);
        let Form { mut kind, mut reversed, stores } = form;
        let (mut offset, mut limit, mut with_scores) = (0, -1, false);
        let [start, stop, options @ ..] = args else { return Err(SYNTAX) };
        let mut rest = options;
        while let [option, after @ ..] = rest {
            rest = after;
            match (option.to_ascii_lowercase().as_slice(), after) {
                (b"withscores", _) if !stores => with_scores = true,
                (b"limit", [first, count, after @ ..]) => {
                    rest = after;
                    (offset, limit) = (integer(first)?, integer(count)?);
                }
                (b"rev", _) if reversed.is_none() => reversed = Some(true),
                (b"bylex", _) if kind.is_none() => kind = Some(Kind::Names),
                (b"byscore", _) if kind.is_none() => kind = Some(Kind::Scores),
                _ => return Err(SYNTAX),
            }
        }
        let (kind, reversed) = (kind.unwrap_or(Kind::Ranks), reversed.unwrap_or(false));
        if limit != -1 && kind == Kind::Ranks {
            return Err("ERR syntax error, LIMIT is only supported in combination with either \
                        BYSCORE or BYLEX"
                .into());
        }
        if with_scores && kind == Kind::Names {
            return Err(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX".into()
            );
        }
        // By score and by name, a reversed range is given from its high end.
        let (min, max) = if reversed { (stop, start) } else { (start, stop) };
        let span = match kind {
            Kind::Ranks => Span::Ranks(integer(start)?, integer(stop)?),
            Kind::Scores => Span::Scores(ScoreRange::parse(min, max)?),
            Kind::Names => Span::Names(NameRange::parse(min, max)?),
        };
        Ok(Self { span, reversed, offset, limit, with_scores })
    }

    /// How many members that is, and the rank of the first.
    fn choose(&self, set: Sorted<'_>) -> (usize, usize) {
        let range = self.span.ranks(set, self.reversed);
        let whole = matches!(self.span, Span::Ranks(..));
        let offset = if whole { 0 } else { usize::try_from(self.offset).unwrap_or(usize::MAX) };
        let limit = if whole { -1 } else { self.limit };
        let count = range.len().saturating_sub(offset);
        let count = usize::try_from(limit).map_or(count, |limit| count.min(limit));
        if count == 0 {
            return (0, 0);
        }
        (count, if self.reversed { range.end - 1 - offset } else { range.start + offset })
    }

    fn visit(&self, set: Sorted<'_>, count: usize, first: usize, f: impl FnMut((&[u8], f64))) {
        if self.reversed {
            set.iter_back_from(first).take(count).for_each(f);
        } else {
            set.iter_from(first).take(count).for_each(f);
        }
    }
}

/// `ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]` and its kin
fn show(ctx: &mut Context<'_>, args: &[&[u8]], form: Form) -> Result<(), Refusal> {
    let query = Query::parse(&args[2..], form)?;
    let (out, set) = ctx.found(args[1])?;
    answer(out, set, &query);
    Ok(())
}

fn answer(out: &mut Out<'_>, set: Option<Sorted<'_>>, query: &Query<'_>) {
    let Some(set) = set else { return out.array(0) };
    let (count, first) = query.choose(set);
    members_head(out, count, query.with_scores);
    query.visit(set, count, first, |(name, score)| member(out, name, score, query.with_scores));
}

/// `ZRANGESTORE destination key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count]`
fn zrangestore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let query = Query::parse(&args[3..], Form { stores: true, ..ANY })?;
    let (_, set) = ctx.found(args[2])?;
    let members = set.map_or_else(Members::new, |set| gather(set, &query));
    super::store(ctx, args[1], &members, "zrangestore")
}

fn gather(set: Sorted<'_>, query: &Query<'_>) -> Members {
    let (count, first) = query.choose(set);
    let mut members = Members::with_capacity(count);
    query.visit(set, count, first, |(name, score)| members.push((name.to_vec(), score)));
    members
}
