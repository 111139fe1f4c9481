//! SET in all its forms: the commands that store whole strings.

use stillframe_keyspace::{Expire, WARM_BATCH};
use stillframe_resp::parse_integer;

use super::compare::Comparison;
use crate::command::keys::expire::{
    MILLISECONDS, SECONDS, TimeForm, UNIX_MILLISECONDS, UNIX_SECONDS, expire_at, make_eternal,
};
use crate::context::Context;
use crate::errors::{Refusal, SYNTAX, wrong_arity};
use crate::table::Table;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("getex", getex);
    table.add("getset", getset);
    table.add("mset", mset);
    table.add("msetex", msetex);
    table.add("msetnx", msetnx);
    table.add("psetex", |ctx, args| setex(ctx, args, "psetex", MILLISECONDS));
    table.add("set", set);
    table.add("setex", |ctx, args| setex(ctx, args, "setex", SECONDS));
    table.add("setnx", setnx);
}

/// What SET or GETEX is asked to do about the time to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lifetime<'a> {
    /// Nothing was said.
    Unsaid,
    /// KEEPTTL
    Keep,
    /// PERSIST
    Persist,
    /// EX, PX, EXAT or PXAT with its number.
    Time(TimeForm, &'a [u8]),
}

/// Options of SET and GETEX.
struct Options<'a> {
    /// XX: only if the key exists (true); NX: only if it does not (false).
    only_if_exists: Option<bool>,
    /// IFEQ, IFNE, IFDEQ or IFDNE.
    comparison: Option<Comparison<'a>>,
    /// GET: answer the old value.
    get: bool,
    lifetime: Lifetime<'a>,
}

impl<'a> Options<'a> {
    const NONE: Self =
        Self { only_if_exists: None, comparison: None, get: false, lifetime: Lifetime::Unsaid };

    /// Options of SET (`setting`) or of GETEX; `None` if they do not make sense together.
    fn parse(args: &[&'a [u8]], setting: bool) -> Option<Self> {
        let mut options = Self::NONE;
        let mut rest = args;
        while let [option, after @ ..] = rest {
            rest = after;
            let named = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
            let form = [
                ("EX", SECONDS),
                ("PX", MILLISECONDS),
                ("EXAT", UNIX_SECONDS),
                ("PXAT", UNIX_MILLISECONDS),
            ]
            .into_iter()
            .find_map(|(name, form)| named(name).then_some(form));
            if let (Some(form), [number, after @ ..]) = (form, rest) {
                rest = after;
                options.set_lifetime(Lifetime::Time(form, number))?;
            } else if !setting {
                if !named("PERSIST") {
                    return None;
                }
                options.set_lifetime(Lifetime::Persist)?;
            } else if named("NX") || named("XX") {
                let exists = named("XX");
                let differs = options.only_if_exists.is_some_and(|said| said != exists);
                if differs || options.comparison.is_some() {
                    return None;
                }
                options.only_if_exists = Some(exists);
            } else if named("GET") {
                options.get = true;
            } else if named("KEEPTTL") {
                options.set_lifetime(Lifetime::Keep)?;
            } else if let [given, after @ ..] = rest
                && options.only_if_exists.is_none()
                && options.comparison.is_none()
            {
                options.comparison = Some(Comparison::from_name(option, given)?);
                rest = after;
            } else {
                return None;
            }
        }
        Some(options)
    }

    /// What becomes of the time to live of the key that `command` sets.
    fn expire(&self, now: i64, command: &str) -> Result<Expire, Refusal> {
        Ok(match self.lifetime {
            Lifetime::Unsaid | Lifetime::Persist => Expire::Never,
            Lifetime::Keep => Expire::Keep,
            Lifetime::Time(form, number) => Expire::At(form.future_instant(number, now, command)?),
        })
    }

    /// Saying the same twice is allowed and the last number counts.
    fn set_lifetime(&mut self, lifetime: Lifetime<'a>) -> Option<()> {
        let same = match (self.lifetime, lifetime) {
            (Lifetime::Unsaid, _) => true,
            (Lifetime::Time(said, _), Lifetime::Time(form, _)) => said == form,
            (said, lifetime) => said == lifetime,
        };
        self.lifetime = lifetime;
        same.then_some(())
    }
}

/// `SET key value [NX | XX | IFEQ v | IFNE v | IFDEQ digest | IFDNE digest] [GET]
/// [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]`
fn set(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    if let [_, key, value] = args {
        store(ctx, key, value, Expire::Never)?;
        ctx.out.ok();
        return Ok(());
    }
    let options = Options::parse(&args[3..], true).ok_or(SYNTAX)?;
    let dirty = ctx.ledger.dirty;
    set_with(ctx, "set", args[1], args[2], &options)?;
    let timed = matches!(options.lifetime, Lifetime::Time(..));
    if timed || ctx.ledger.dirty == dirty {
        return Ok(());
    }
    if options.comparison.is_some() {
        // A replay compares nothing.
        let keeps = options.lifetime == Lifetime::Keep;
        let words: [&[u8]; 4] = [b"SET", args[1], args[2], b"KEEPTTL"];
        ctx.effect(if keeps { &words } else { &words[..3] });
    } else if options.get {
        // A replay asks for no old value.
        let (start, rest) = args.split_at(3);
        let others = rest.iter().filter(|word| !word.eq_ignore_ascii_case(b"get"));
        let words: Vec<&[u8]> = start.iter().chain(others).copied().collect();
        ctx.effect(&words);
    }
    Ok(())
}

fn set_with(
    ctx: &mut Context<'_>,
    command: &str,
    key: &[u8],
    value: &[u8],
    options: &Options<'_>,
) -> Result<(), Refusal> {
    let expire = options.expire(ctx.now, command)?;
    // This also deletes a key whose time has come, so that KEEPTTL cannot keep a past time.
    let exists = if options.get { ctx.answer_value(key)? } else { ctx.exists(key) };
    let holds = match options.comparison {
        Some(comparison) => comparison.holds(ctx, key)?,
        None => options.only_if_exists.is_none_or(|wanted| wanted == exists),
    };
    if !holds {
        if !options.get {
            ctx.out.null();
        }
        return Ok(());
    }
    store(ctx, key, value, expire)?;
    if !options.get {
        ctx.out.ok();
    }
    Ok(())
}

#[inline]
fn store(ctx: &mut Context<'_>, key: &[u8], value: &[u8], expire: Expire) -> Result<(), Refusal> {
    ctx.store_string(key, value, expire)?;
    if let Expire::At(instant) = expire {
        ctx.effect(&[b"SET", key, value, b"PXAT", instant.to_string().as_bytes()]);
        ctx.ledger.notify('g', "expire", ctx.caller.db, key);
    }
    Ok(())
}

/// `SETNX key value`
fn setnx(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, value) = (args[1], args[2]);
    if ctx.exists(key) {
        ctx.out.integer(0);
        return Ok(());
    }
    store(ctx, key, value, Expire::Never)?;
    ctx.out.integer(1);
    Ok(())
}

/// `SETEX key seconds value` and `PSETEX key milliseconds value`
fn setex(
    ctx: &mut Context<'_>,
    args: &[&[u8]],
    command: &'static str,
    form: TimeForm,
) -> Result<(), Refusal> {
    let options = Options { lifetime: Lifetime::Time(form, args[2]), ..Options::NONE };
    set_with(ctx, command, args[1], args[3], &options)
}

/// `GETSET key value`
fn getset(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let options = Options { get: true, ..Options::NONE };
    let dirty = ctx.ledger.dirty;
    set_with(ctx, "getset", args[1], args[2], &options)?;
    if ctx.ledger.dirty > dirty {
        ctx.effect(&[b"SET", args[1], args[2]]); // a replay asks for no old value
    }
    Ok(())
}

/// `GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]`
fn getex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let key = args[1];
    let options = Options::parse(&args[2..], false).ok_or(SYNTAX)?;
    if !ctx.answer_value(key)? {
        return Ok(());
    }
    match options.lifetime {
        Lifetime::Unsaid | Lifetime::Keep => {}
        Lifetime::Persist => {
            make_eternal(ctx, key);
        }
        Lifetime::Time(form, number) => {
            expire_at(ctx, key, form.future_instant(number, ctx.now, "getex")?);
        }
    }
    Ok(())
}

/// `MSET key value [key value]...`
fn mset(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let pairs = &args[1..];
    if !pairs.len().is_multiple_of(2) {
        return Err(wrong_arity("mset"));
    }
    store_pairs(ctx, pairs)?;
    ctx.out.ok();
    Ok(())
}

/// `MSETNX key value [key value]...`
fn msetnx(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let pairs = &args[1..];
    if !pairs.len().is_multiple_of(2) {
        return Err(wrong_arity("msetnx"));
    }
    if pairs.iter().step_by(2).any(|key| ctx.exists(key)) {
        ctx.out.integer(0);
        return Ok(());
    }
    store_pairs(ctx, pairs)?;
    ctx.out.integer(1);
    Ok(())
}

/// `MSETEX numkeys key value [key value]... [NX | XX] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]`
fn msetex(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let count = parse_integer(args[1]).filter(|count| (1..=0x7fff_ffff).contains(count));
    let count = count.ok_or("ERR invalid numkeys value")? as usize;
    let Some((pairs, options)) = args[2..].split_at_checked(2 * count) else {
        return Err("ERR wrong number of key-value pairs".into());
    };
    let options = Options::parse(options, true).ok_or(SYNTAX)?;
    if options.get || options.comparison.is_some() {
        return Err(SYNTAX);
    }
    let expire = options.expire(ctx.now, "msetex")?;
    if let Some(wanted) = options.only_if_exists
        && pairs.iter().step_by(2).any(|key| ctx.exists(key) != wanted)
    {
        ctx.out.integer(0);
        return Ok(());
    }
    if expire == Expire::Never {
        store_pairs(ctx, pairs)?;
        ctx.effect(&[&[&b"MSET"[..]], pairs].concat());
    } else {
        for &[key, value] in pairs.as_chunks().0 {
            ctx.exists(key); // one whose time has come has no time to keep
            store_with_time(ctx, key, value, expire)?;
        }
    }
    ctx.out.integer(1);
    Ok(())
}

/// Stores a pair of several that have a time: notifications tell of the time first, as in Redis
/// 8.4.
fn store_with_time(
    ctx: &mut Context<'_>,
    key: &[u8],
    value: &[u8],
    expire: Expire,
) -> Result<(), Refusal> {
    ctx.put_string(key, value, expire)?;
    if let Expire::At(instant) = expire {
        ctx.effect(&[b"SET", key, value, b"PXAT", instant.to_string().as_bytes()]);
        ctx.ledger.notify('g', "expire", ctx.caller.db, key);
    } else {
        ctx.effect(&[b"SET", key, value, b"KEEPTTL"]);
    }
    ctx.changed_as(key, '$', "set");
    Ok(())
}

/// Stores all pairs. If memory ends on the way, those before are stored.
fn store_pairs(ctx: &mut Context<'_>, pairs: &[&[u8]]) -> Result<(), Refusal> {
    let db = ctx.caller.db;
    for (index, &[key, value]) in pairs.as_chunks().0.iter().enumerate() {
        if index.is_multiple_of(WARM_BATCH) {
            ctx.keyspace.warm(db, pairs[index * 2..].iter().step_by(2).copied());
        }
        if let Err(refusal) = ctx.store_string(key, value, Expire::Never) {
            if let Some(done @ [_, ..]) = pairs.get(..index * 2) {
                ctx.effect(&[&[&b"MSET"[..]], done].concat());
            }
            return Err(refusal);
        }
    }
    Ok(())
}
