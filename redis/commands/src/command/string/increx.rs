//! INCREX: a counter with bounds and an expiry, as in Redis 8.8.
//!
//! Log and replicas receive SET with the outcome, which every version knows.

use stillframe_keyspace::{Entry, Expire, Value};
use stillframe_resp::parse_integer;

use crate::command::keys::expire::{
    MILLISECONDS, SECONDS, TimeForm, UNIX_MILLISECONDS, UNIX_SECONDS,
};
use crate::context::Context;
use crate::errors::{NOT_A_FLOAT, NOT_AN_INTEGER, Refusal, SYNTAX, WRONG_TYPE};
use crate::number::extended::Extended;
use crate::table::Table;

/// Adds the command.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("increx", increx);
}

const BOUNDS: Refusal = Refusal::new("ERR LBOUND can't be greater than UBOUND");
const INFINITE: Refusal = Refusal::new("ERR applied increment would be Infinity");
const TOO_FAR: Refusal = Refusal::new("ERR applied increment would overflow");

/// What becomes of the time to live.
#[derive(Debug, Clone, Copy)]
enum Lifetime<'a> {
    Persist,
    Time(TimeForm, &'a [u8]),
}

/// What stands behind the key.
#[derive(Debug, Default)]
struct Request<'a> {
    by_int: Option<i64>,
    by_float: Option<Extended>,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    lifetime: Option<Lifetime<'a>>,
    /// Beyond a bound the value becomes the bound; else it stays as it is.
    saturates: bool,
    /// ENX: a time to live that is there stays.
    only_first: bool,
}

impl<'a> Request<'a> {
    fn parse(mut rest: &[&'a [u8]]) -> Result<Self, Refusal> {
        let mut request = Self::default();
        while let [option, after @ ..] = rest {
            rest = after;
            let name = option.to_ascii_lowercase();
            let flag = match name.as_slice() {
                b"saturate" => &mut request.saturates,
                b"enx" => &mut request.only_first,
                b"persist" => {
                    request.set_lifetime(Lifetime::Persist)?;
                    continue;
                }
                name => {
                    let [given, after @ ..] = rest else { return Err(SYNTAX) };
                    request.set(name, given)?;
                    rest = after;
                    continue;
                }
            };
            if std::mem::replace(flag, true) {
                return Err(SYNTAX);
            }
        }
        match request.lifetime {
            _ if request.by_int.is_some() && request.by_float.is_some() => Err(SYNTAX),
            Some(Lifetime::Persist) if request.only_first => Err(SYNTAX),
            _ => Ok(request),
        }
    }

    fn set(&mut self, name: &[u8], given: &'a [u8]) -> Result<(), Refusal> {
        let place = match name {
            b"ex" => return self.set_lifetime(Lifetime::Time(SECONDS, given)),
            b"px" => return self.set_lifetime(Lifetime::Time(MILLISECONDS, given)),
            b"exat" => return self.set_lifetime(Lifetime::Time(UNIX_SECONDS, given)),
            b"pxat" => return self.set_lifetime(Lifetime::Time(UNIX_MILLISECONDS, given)),
            b"byint" => {
                let number = parse_integer(given);
                let number = number.ok_or("ERR Increment is not an integer or out of range")?;
                return if self.by_int.replace(number).is_some() { Err(SYNTAX) } else { Ok(()) };
            }
            b"byfloat" => {
                let number = match Extended::parse(given) {
                    None => return Err("ERR Increment is not a valid float".into()),
                    Some(Extended::Infinite) => {
                        return Err("ERR BYFLOAT increment cannot be Infinity".into());
                    }
                    Some(number) => number,
                };
                return if self.by_float.replace(number).is_some() { Err(SYNTAX) } else { Ok(()) };
            }
            b"lbound" => &mut self.lower,
            b"ubound" => &mut self.upper,
            _ => return Err(SYNTAX),
        };
        if place.replace(given).is_some() { Err(SYNTAX) } else { Ok(()) }
    }

    fn set_lifetime(&mut self, lifetime: Lifetime<'a>) -> Result<(), Refusal> {
        if self.lifetime.replace(lifetime).is_some() { Err(SYNTAX) } else { Ok(()) }
    }
}

/// The value that a sum becomes, with what was added; `None`: the sum is beyond a bound, and the
/// value stays.
struct Sum<N> {
    value: N,
    added: N,
}

/// The bounds of integers.
fn int_bounds(request: &Request<'_>) -> Result<[i64; 2], Refusal> {
    let bound = |text: Option<&[u8]>, none, name: &str| match text {
        None => Ok(none),
        Some(text) => parse_integer(text)
            .ok_or_else(|| Refusal::from(format!("ERR {name} is not an integer or out of range"))),
    };
    let lower = bound(request.lower, i64::MIN, "LBOUND")?;
    let upper = bound(request.upper, i64::MAX, "UBOUND")?;
    if lower > upper { Err(BOUNDS) } else { Ok([lower, upper]) }
}

/// Adds integers.
fn add_int(
    request: &Request<'_>,
    [lower, upper]: [i64; 2],
    current: i64,
) -> Result<Option<Sum<i64>>, Refusal> {
    let sum = i128::from(current) + i128::from(request.by_int.unwrap_or(1));
    let value = sum.clamp(lower.into(), upper.into());
    if value != sum && !request.saturates {
        return Ok(None);
    }
    let added = i64::try_from(value - i128::from(current)).map_err(|_| TOO_FAR)?;
    Ok(Some(Sum { value: value as i64, added }))
}

/// A bound of numbers that need not be whole.
#[derive(Debug, Clone, Copy)]
enum FloatBound {
    /// -inf
    Least,
    At(Extended),
    /// inf
    Greatest,
}

impl FloatBound {
    fn parse(text: &[u8], name: &str) -> Result<Self, Refusal> {
        match Extended::parse(text) {
            None => Err(format!("ERR {name} is not a valid float").into()),
            Some(Extended::Infinite) if text.starts_with(b"-") => Ok(Self::Least),
            Some(Extended::Infinite) => Ok(Self::Greatest),
            Some(number) => Ok(Self::At(number)),
        }
    }

    fn exceeds(self, other: Self) -> bool {
        match (self, other) {
            (Self::At(this), Self::At(other)) => this.exceeds(other),
            (Self::Greatest, Self::Greatest) => false,
            (Self::Greatest, _) => true,
            (this, Self::Least) => !matches!(this, Self::Least),
            _ => false,
        }
    }
}

/// The bounds of numbers that need not be whole.
fn float_bounds(request: &Request<'_>) -> Result<[FloatBound; 2], Refusal> {
    let bound = |text: Option<&[u8]>, none, name| match text {
        None => Ok(none),
        Some(text) => FloatBound::parse(text, name),
    };
    let lower = bound(request.lower, FloatBound::At(Extended::MAX.negated()), "LBOUND")?;
    let upper = bound(request.upper, FloatBound::At(Extended::MAX), "UBOUND")?;
    if lower.exceeds(upper) { Err(BOUNDS) } else { Ok([lower, upper]) }
}

/// Adds numbers that need not be whole.
fn add_float(
    increment: Extended,
    saturates: bool,
    [lower, upper]: [FloatBound; 2],
    current: Extended,
) -> Result<Option<Sum<Extended>>, Refusal> {
    if current == Extended::Infinite {
        return Err("ERR value cannot be Infinity".into());
    }
    let sum = current.checked_add(increment);
    let beyond =
        if increment.exceeds(Extended::ZERO) { Extended::MAX } else { Extended::MAX.negated() };
    let has_end = match increment.exceeds(Extended::ZERO) {
        true => !matches!(upper, FloatBound::Greatest),
        false => !matches!(lower, FloatBound::Least),
    };
    let value = match (lower, upper) {
        (FloatBound::Greatest, _) | (_, FloatBound::Least) if saturates => return Err(INFINITE),
        (FloatBound::Greatest, _) | (_, FloatBound::Least) => return Ok(None),
        _ if sum.is_none() && saturates && !has_end => return Err(INFINITE),
        (FloatBound::At(lower), _) if lower.exceeds(sum.unwrap_or(beyond)) => lower,
        (_, FloatBound::At(upper)) if sum.unwrap_or(beyond).exceeds(upper) => upper,
        _ => sum.unwrap_or(beyond),
    };
    if sum != Some(value) && !saturates {
        return Ok(None);
    }
    // What is lost by rounding was not added.
    let added = value.checked_add(current.negated()).ok_or(TOO_FAR)?;
    Ok(Some(Sum { value, added }))
}

/// What becomes of a key's deadline.
fn expiry(request: &Request<'_>, deadline: Option<i64>, now: i64) -> Result<Expire, Refusal> {
    match request.lifetime {
        None if request.only_first => Err("ERR ENX flag requires an expiration".into()),
        None => Ok(Expire::Keep),
        Some(Lifetime::Persist) => Ok(Expire::Never),
        Some(Lifetime::Time(form, number)) => {
            let instant = form.future_instant(number, now, "increx")?;
            let stays = request.only_first && deadline.is_some();
            Ok(if stays { Expire::Keep } else { Expire::At(instant) })
        }
    }
}

/// `INCREX key [BYFLOAT increment | BYINT increment] [LBOUND lowerbound] [UBOUND upperbound]
/// [SATURATE] [EX s | PX ms | EXAT s | PXAT ms | PERSIST] [ENX]`
fn increx(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, request) = (args[1], Request::parse(&args[2..])?);
    let entry = ctx.keyspace.get(ctx.caller.db, key, ctx.now);
    let (deadline, exists) = (entry.and_then(Entry::expire_at), entry.is_some());
    let mut text = Vec::new();
    let value = entry.map(Entry::value);
    if let Some(increment) = request.by_float {
        let bounds = float_bounds(&request)?;
        let expire = expiry(&request, deadline, ctx.now)?;
        let current = match value {
            None => Some(Extended::ZERO),
            Some(Value::Int(int)) => Some(int.into()),
            Some(Value::Bytes(bytes)) => Extended::parse(bytes),
            Some(_) => return Err(WRONG_TYPE),
        };
        let current = current.ok_or(NOT_A_FLOAT)?;
        let sum = add_float(increment, request.saturates, bounds, current)?;
        let (is_added, sum) =
            (sum.is_some(), sum.unwrap_or(Sum { value: current, added: Extended::ZERO }));
        if is_added {
            sum.value.print(&mut text);
            store(ctx, key, &text, expire, Stored { exists, deadline, event: "incrbyfloat" })?;
        }
        ctx.out.array(2);
        answer_float(ctx, sum.value);
        answer_float(ctx, sum.added);
        return Ok(());
    }
    let bounds = int_bounds(&request)?;
    let expire = expiry(&request, deadline, ctx.now)?;
    let current = match value {
        None => Some(0),
        Some(Value::Int(int)) => Some(int),
        Some(Value::Bytes(bytes)) => parse_integer(bytes),
        Some(_) => return Err(WRONG_TYPE),
    };
    let current = current.ok_or(NOT_AN_INTEGER)?;
    let sum = add_int(&request, bounds, current)?;
    if let Some(sum) = &sum {
        text.extend_from_slice(sum.value.to_string().as_bytes());
        store(ctx, key, &text, expire, Stored { exists, deadline, event: "incrby" })?;
    }
    let sum = sum.unwrap_or(Sum { value: current, added: 0 });
    ctx.out.array(2);
    ctx.out.integer(sum.value);
    ctx.out.integer(sum.added);
    Ok(())
}

fn answer_float(ctx: &mut Context<'_>, number: Extended) {
    let mut text = Vec::new();
    number.print(&mut text);
    ctx.out.number_text(&text);
}

/// What the key was before, and what storing its new value is called.
struct Stored {
    exists: bool,
    deadline: Option<i64>,
    event: &'static str,
}

/// Stores the value; with a time that is over, the key is deleted instead.
fn store(
    ctx: &mut Context<'_>,
    key: &[u8],
    text: &[u8],
    expire: Expire,
    before: Stored,
) -> Result<(), Refusal> {
    let db = ctx.caller.db;
    if matches!(expire, Expire::At(instant) if instant <= ctx.now) {
        if before.exists {
            ctx.keyspace.remove(db, key);
            ctx.effect(&[b"DEL", key]);
            ctx.changed_as(key, 'g', "del");
        }
        return Ok(());
    }
    let outcome = ctx.keyspace.set(db, key, text, expire);
    ctx.stored_as(key, before.event, outcome)?;
    match expire {
        Expire::At(instant) => {
            ctx.effect(&[b"SET", key, text, b"PXAT", instant.to_string().as_bytes()]);
            ctx.ledger.notify('g', "expire", db, key);
        }
        Expire::Keep => ctx.effect(&[b"SET", key, text, b"KEEPTTL"]),
        Expire::Never => {
            ctx.effect(&[b"SET", key, text]);
            if before.deadline.is_some() {
                ctx.ledger.notify('g', "persist", db, key);
            }
        }
    }
    Ok(())
}
