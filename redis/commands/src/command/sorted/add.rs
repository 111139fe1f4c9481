//! ZADD and ZINCRBY.

use stillframe_keyspace::{Sorted, SortedEdit};

use crate::context::Context;
use crate::errors::{NOT_A_FLOAT, Refusal, SYNTAX};
use crate::number::doubles::parse_double;
use crate::table::Table;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("zadd", |ctx, args| zadd(ctx, args, false));
    table.add("zincrby", |ctx, args| zadd(ctx, args, true));
}

/// Which members may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Condition {
    /// All.
    Any,
    /// Only new ones.
    New,
    /// Only those that are there.
    Present,
}

/// Options of ZADD.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Options {
    /// Which members may change.
    pub(in super::super) condition: Condition,
    /// Only upwards.
    pub(in super::super) greater: bool,
    /// Only downwards.
    pub(in super::super) less: bool,
    /// Members whose score changed count too.
    pub(in super::super) changed: bool,
    /// The score is added to that of the one member, and the sum answered.
    pub(in super::super) increment: bool,
}

impl Options {
    pub(in super::super) const NONE: Self = Self {
        condition: Condition::Any,
        greater: false,
        less: false,
        changed: false,
        increment: false,
    };
}

/// `ZADD key [NX | XX] [GT | LT] [CH] [INCR] [score member]...`, `ZINCRBY key increment member`
fn zadd(ctx: &mut Context<'_>, args: &[&[u8]], increment: bool) -> Result<(), Refusal> {
    let (options, pairs) = parse(&args[2..], increment)?;
    if let [pair] = pairs {
        return add(ctx, args[1], options, &[read(pair).ok_or(NOT_A_FLOAT)?]);
    }
    let pairs = pairs.iter().map(read).collect::<Option<Vec<_>>>().ok_or(NOT_A_FLOAT)?;
    add(ctx, args[1], options, &pairs)
}

fn read<'a>(&[score, member]: &[&'a [u8]; 2]) -> Option<(f64, &'a [u8])> {
    Some((parse_double(score)?, member))
}

/// Options, and scores with their members.
type Parsed<'p, 'a> = (Options, &'p [[&'a [u8]; 2]]);

fn parse<'p, 'a>(args: &'p [&'a [u8]], increment: bool) -> Result<Parsed<'p, 'a>, Refusal> {
    let mut options = Options { increment, ..Options::NONE };
    let (mut new, mut present) = (false, false);
    let mut rest = args;
    while let [option, after @ ..] = rest {
        let flag = match option.len() {
            2 if option.eq_ignore_ascii_case(b"nx") => &mut new,
            2 if option.eq_ignore_ascii_case(b"xx") => &mut present,
            2 if option.eq_ignore_ascii_case(b"gt") => &mut options.greater,
            2 if option.eq_ignore_ascii_case(b"lt") => &mut options.less,
            2 if option.eq_ignore_ascii_case(b"ch") => &mut options.changed,
            4 if option.eq_ignore_ascii_case(b"incr") => &mut options.increment,
            _ => break,
        };
        *flag = true;
        rest = after;
    }
    let (pairs, odd) = rest.as_chunks::<2>();
    if pairs.is_empty() || !odd.is_empty() {
        return Err(SYNTAX);
    }
    options.condition = match (new, present) {
        (true, true) => {
            return Err("ERR XX and NX options at the same time are not compatible".into());
        }
        (true, false) => Condition::New,
        (false, true) => Condition::Present,
        (false, false) => Condition::Any,
    };
    if (options.greater || options.less) && new || options.greater && options.less {
        return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
    }
    if options.increment && pairs.len() > 1 {
        return Err("ERR INCR option supports a single increment-element pair".into());
    }
    Ok((options, pairs))
}

/// What adding has done.
#[derive(Default)]
struct Done {
    added: usize,
    updated: usize,
    /// The new score of the last member that passed the conditions.
    score: Option<f64>,
    not_a_number: bool,
}

/// Adds members to a sorted set, or changes their scores, and answers as ZADD.
pub(in super::super) fn add(
    ctx: &mut Context<'_>,
    key: &[u8],
    options: Options,
    pairs: &[(f64, &[u8])],
) -> Result<(), Refusal> {
    let (_, found) = ctx.found_to_edit::<Sorted<'_>>(key)?;
    let done = if found.is_none() && options.condition == Condition::Present {
        Done::default()
    } else {
        let db = ctx.caller.db;
        ctx.keyspace.edit_sorted(db, key, |edit| apply(edit, options, pairs))?
    };
    let changes = done.added + done.updated;
    if changes > 0 {
        let event = if options.increment { "zincr" } else { "zadd" };
        ctx.changed_times(key, changes, 'z', event);
    }
    match done {
        Done { not_a_number: true, .. } => {
            return Err("ERR resulting score is not a number (NaN)".into());
        }
        Done { score: Some(score), .. } if options.increment => ctx.out.double(score),
        _ if options.increment => ctx.out.null(),
        _ if options.changed => ctx.out.integer(changes as i64),
        Done { added, .. } => ctx.out.integer(added as i64),
    }
    Ok(())
}

fn apply(edit: &mut SortedEdit<'_>, options: Options, pairs: &[(f64, &[u8])]) -> Done {
    let mut done = Done::default();
    let Options { condition, greater, less, increment, .. } = options;
    if condition == Condition::Any && !(greater || less || increment) {
        for &(score, member) in pairs {
            match edit.set(member, score) {
                None => done.added += 1,
                Some(old) => done.updated += usize::from(old != score),
            }
        }
        return done;
    }
    for &(score, member) in pairs {
        let old = edit.view().score(member);
        let excluded = match condition {
            Condition::Any => false,
            Condition::New => old.is_some(),
            Condition::Present => old.is_none(),
        };
        if excluded {
            continue;
        }
        let new = match old {
            Some(old) if increment => old + score,
            _ => score,
        };
        if new.is_nan() {
            done.not_a_number = true;
            return done;
        }
        if let Some(old) = old {
            if greater && new <= old || less && new >= old {
                continue;
            }
            done.updated += usize::from(new != old);
        } else {
            done.added += 1;
        }
        done.score = Some(new);
        if old != Some(new) {
            edit.set(member, new);
        }
    }
    done
}
