//! Single members and numbers of them; random members, and ZSCAN.

use stillframe_keyspace::Sorted;
use stillframe_resp::{Out, format_double, format_integer};

use super::super::keys::scan_collection;
use super::super::sample::Count;
use super::bounds::{NameRange, ScoreRange, Span};
use super::{member, members_head};
use crate::context::Context;
use crate::errors::{OUT_OF_RANGE, Refusal, SYNTAX, wrong_arity};
use crate::table::Table;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("zcard", zcard);
    table.add("zcount", |ctx, args| {
        count(ctx, args[1], Span::Scores(ScoreRange::parse(args[2], args[3])?))
    });
    table.add("zlexcount", |ctx, args| {
        count(ctx, args[1], Span::Names(NameRange::parse(args[2], args[3])?))
    });
    table.add("zmscore", zmscore);
    table.add("zrandmember", zrandmember);
    table.add("zrank", |ctx, args| rank(ctx, args, false));
    table.add("zrevrank", |ctx, args| rank(ctx, args, true));
    table.add("zscan", zscan);
    table.add("zscore", zscore);
}

/// `ZCARD key`
fn zcard(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, set) = ctx.found::<Sorted<'_>>(args[1])?;
    out.integer(set.map_or(0, |set| set.len() as i64));
    Ok(())
}

/// `ZCOUNT key min max` and `ZLEXCOUNT key min max`
fn count(ctx: &mut Context<'_>, key: &[u8], span: Span<'_>) -> Result<(), Refusal> {
    let (out, set) = ctx.found(key)?;
    out.integer(set.map_or(0, |set| span.ranks(set, false).len() as i64));
    Ok(())
}

/// `ZSCORE key member`
fn zscore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, set) = ctx.found(args[1])?;
    answer_score(out, set, args[2]);
    Ok(())
}

/// `ZMSCORE key member...`
fn zmscore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, set) = ctx.found(args[1])?;
    out.array(args.len() - 2);
    args[2..].iter().for_each(|member| answer_score(out, set, member));
    Ok(())
}

fn answer_score(out: &mut Out<'_>, set: Option<Sorted<'_>>, member: &[u8]) {
    match set.and_then(|set| set.score(member)) {
        Some(score) => out.double(score),
        None => out.null(),
    }
}

/// `ZRANK key member [WITHSCORE]` and `ZREVRANK key member [WITHSCORE]`
fn rank(ctx: &mut Context<'_>, args: &[&[u8]], reversed: bool) -> Result<(), Refusal> {
    let with_score = match &args[3..] {
        [] => false,
        [option] if option.eq_ignore_ascii_case(b"WITHSCORE") => true,
        [_] => return Err(SYNTAX),
        _ => return Err(wrong_arity(if reversed { "zrevrank" } else { "zrank" })),
    };
    let (out, set) = ctx.found::<Sorted<'_>>(args[1])?;
    let Some((set, rank)) = set.and_then(|set| Some((set, set.rank(args[2])?))) else {
        if with_score {
            out.null_array()
        } else {
            out.null()
        }
        return Ok(());
    };
    if with_score {
        out.array(2);
    }
    out.integer(if reversed { set.len() - 1 - rank } else { rank } as i64);
    if with_score {
        answer_score(out, Some(set), args[2]);
    }
    Ok(())
}

/// `ZRANDMEMBER key [count [WITHSCORES]]`
fn zrandmember(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let request = parse_random(&args[2..], ctx.out.room())?;
    let mut random = ctx.ledger.random.split();
    let (out, set) = ctx.found::<Sorted<'_>>(args[1])?;
    match (set, request) {
        (None, None) => out.null(),
        (None, Some(_)) => out.array(0),
        (Some(set), None) => {
            let (name, _) = set.at(random.below(set.len())).unwrap_or_default();
            out.bulk(name);
        }
        (Some(set), Some((count, with_scores))) => {
            let ranks = count.ranks(&mut random, set.len());
            members_head(out, ranks.len(), with_scores);
            let members = ranks.iter().filter_map(|&rank| set.at(rank));
            members.for_each(|(name, score)| member(out, name, score, with_scores));
        }
    }
    Ok(())
}

fn parse_random(args: &[&[u8]], room: usize) -> Result<Option<(Count, bool)>, Refusal> {
    let Some((count, options)) = args.split_first() else { return Ok(None) };
    let count = Count::parse(count, room)?;
    match options {
        [] => Ok(Some((count, false))),
        [option] if option.eq_ignore_ascii_case(b"WITHSCORES") => match count {
            Count::Distinct(count) if count > i64::MAX as usize / 2 => Err(OUT_OF_RANGE),
            count => Ok(Some((count, true))),
        },
        _ => Err(SYNTAX),
    }
}

/// `ZSCAN key cursor [MATCH pattern] [COUNT count]`
fn zscan(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    scan_collection(ctx, args, |set: Sorted<'_>, cursor, count, show| {
        let mut text = Vec::new();
        set.scan(cursor, count, |member, score| {
            text.clear();
            // In its compact encoding, Redis keeps whole scores as integers, and shows them so.
            match whole(score).filter(|_| set.is_packed()) {
                Some(score) => text.extend_from_slice(format_integer(score, &mut [0; 20])),
                None => format_double(score, &mut text),
            }
            show(member, Some(&text));
        })
    })
}

/// The integer that a score is, unless it is too large for Redis to see that.
fn whole(score: f64) -> Option<i64> {
    const LIMIT: f64 = (i64::MAX / 2) as f64;
    let integer = score as i64;
    ((-LIMIT..=LIMIT).contains(&score) && integer as f64 == score).then_some(integer)
}
