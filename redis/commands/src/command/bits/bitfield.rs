//! BITFIELD: integers of 1 to 64 bits anywhere in a string.
//!
//! A field of up to 64 bits lies in at most nine bytes: each operation reads those as one number of
//! 72 bits, the [`Window`], and writes them back.

use stillframe_keyspace::IntText;
use stillframe_resp::parse_integer;

use crate::command::string::{length_of, string_bytes};
use crate::context::Context;
use crate::errors::{BIT_OFFSET, NOT_AN_INTEGER, Refusal, SYNTAX};
use crate::table::Table;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("bitfield", |ctx, args| bitfield(ctx, args, true));
    table.add("bitfield_ro", |ctx, args| bitfield(ctx, args, false));
}

/// What happens to a result that its field cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overflow {
    /// The low bits are kept.
    Wrap,
    /// The nearest number that fits.
    Saturate,
    /// Nothing is written, and the reply is null.
    Fail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Get,
    Set(i64, Overflow),
    Add(i64, Overflow),
}

/// One integer in a string.
#[derive(Debug, Clone, Copy)]
struct Field {
    signed: bool,
    /// 1 to 64, unsigned to 63.
    bits: u32,
    /// Position of its highest bit.
    offset: u64,
}

/// `BITFIELD key [GET type offset | [OVERFLOW how] SET|INCRBY type offset value]...`
fn bitfield(ctx: &mut Context<'_>, args: &[&[u8]], may_write: bool) -> Result<(), Refusal> {
    let key = args[1];
    let steps = parse(&args[2..], ctx.string_bytes_max())?;
    let written = steps.iter().filter(|(_, action)| *action != Action::Get);
    let end = written.map(|(field, _)| field.last_byte() + 1).max();
    if end.is_some() && !may_write {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    let length = match end {
        Some(_) => length_of(ctx.keyspace.get(ctx.caller.db, key, ctx.now))?,
        None => ctx.read(key, |_, entry| length_of(entry))?,
    };
    // As in Redis, the string is made long enough even if nothing is written in the end.
    let grown = match end {
        Some(end) if end > length => {
            let outcome = ctx.keyspace.set_range(ctx.caller.db, key, end - 1, &[0]);
            ctx.stored_as(key, "setbit", outcome)?;
            true
        }
        _ => false,
    };
    ctx.out.array(steps.len());
    for (field, action) in steps {
        let entry = ctx.keyspace.peek(ctx.caller.db, key, ctx.now);
        let mut text = IntText::default();
        let bytes = string_bytes(entry, &mut text).ok().flatten().unwrap_or_default();
        let mut window = Window::from_field(&field, bytes);
        let old = window.get(&field);
        let (reply, new) = field.apply(old, action);
        match reply {
            Some(reply) => ctx.out.integer(reply),
            None => ctx.out.null(),
        }
        let Some(new) = new.filter(|&new| new != old) else { continue };
        window.set(&field, new);
        let (at, bytes) = window.bytes(&field);
        ctx.keyspace.set_range(ctx.caller.db, key, at, bytes)?;
        if !grown {
            ctx.changed_as(key, '$', "setbit");
        }
    }
    Ok(())
}

/// Reads all operations.
fn parse(args: &[&[u8]], bytes_max: usize) -> Result<Vec<(Field, Action)>, Refusal> {
    let mut steps = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut rest = args;
    while let [name, after @ ..] = rest {
        let (name, field) = match (name.to_ascii_lowercase().as_slice(), after) {
            (b"overflow", [how, after @ ..]) => {
                overflow = match how.to_ascii_lowercase().as_slice() {
                    b"wrap" => Overflow::Wrap,
                    b"sat" => Overflow::Saturate,
                    b"fail" => Overflow::Fail,
                    _ => return Err("ERR Invalid OVERFLOW type specified".into()),
                };
                rest = after;
                continue;
            }
            (b"get", [kind, offset, ..]) => (b'g', Field::parse(kind, offset, bytes_max)?),
            (b"set", [kind, offset, _, ..]) => (b's', Field::parse(kind, offset, bytes_max)?),
            (b"incrby", [kind, offset, _, ..]) => (b'i', Field::parse(kind, offset, bytes_max)?),
            _ => return Err(SYNTAX),
        };
        if name == b'g' {
            steps.push((field, Action::Get));
            rest = &after[2..];
            continue;
        }
        let value = parse_integer(after[2]).ok_or(NOT_AN_INTEGER)?;
        let action = if name == b's' { Action::Set } else { Action::Add };
        steps.push((field, action(value, overflow)));
        rest = &after[3..];
    }
    Ok(steps)
}

impl Field {
    /// A type such as `i16` and a position such as `100`, or `#2` in units of the type.
    fn parse(kind: &[u8], offset: &[u8], bytes_max: usize) -> Result<Self, Refusal> {
        const TYPE: &str = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is \
            not supported but i64 is.";
        let (signed, bits) = match kind {
            [b'i', bits @ ..] => (true, bits),
            [b'u', bits @ ..] => (false, bits),
            _ => return Err(TYPE.into()),
        };
        let bits = match parse_integer(bits) {
            Some(bits @ 1..=63) => bits,
            Some(64) if signed => 64,
            _ => return Err(TYPE.into()),
        };
        let (number, unit) = match offset {
            [b'#', number @ ..] => (number, bits),
            number => (number, 1),
        };
        let offset = parse_integer(number)
            // Redis lets a product that is too large wrap around.
            .and_then(|number| u64::try_from(number.wrapping_mul(unit)).ok())
            .filter(|offset| offset / 8 < bytes_max as u64)
            .ok_or(BIT_OFFSET)?;
        Ok(Self { signed, bits: bits as u32, offset })
    }

    fn first_byte(&self) -> usize {
        (self.offset / 8) as usize
    }

    fn last_byte(&self) -> usize {
        ((self.offset + u64::from(self.bits) - 1) / 8) as usize
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// The number that the field's bits mean.
    fn value(&self, raw: u64) -> i64 {
        let shift = 64 - self.bits;
        if self.signed { ((raw << shift) as i64) >> shift } else { raw as i64 }
    }

    /// The reply (`None`: null) and the bits to write (`None`: none), given the bits there are.
    fn apply(&self, raw: u64, action: Action) -> (Option<i64>, Option<u64>) {
        let old = self.value(raw);
        let (exact, overflow) = match action {
            Action::Get => return (Some(old), None),
            // An unsigned field takes a negative number for the large one of the same bits.
            Action::Set(value, overflow) if self.signed => (i128::from(value), overflow),
            Action::Set(value, overflow) => (i128::from(value as u64), overflow),
            Action::Add(value, overflow) => (i128::from(old) + i128::from(value), overflow),
        };
        let (min, max) = match self.signed {
            true => (-1i128 << (self.bits - 1), (1i128 << (self.bits - 1)) - 1),
            false => (0, i128::from(self.mask())),
        };
        let fits = (min..=max).contains(&exact);
        let new = match overflow {
            Overflow::Fail if !fits => return (None, None),
            // So far below that the distance overflows in Redis, which then takes it for above.
            Overflow::Saturate
                if !fits
                    && self.signed
                    && matches!(action, Action::Set(..))
                    && max - exact > i128::from(i64::MAX) =>
            {
                max
            }
            Overflow::Saturate => exact.clamp(min, max),
            _ => exact,
        };
        let new = new as u64 & self.mask();
        let reply = if matches!(action, Action::Set(..)) { old } else { self.value(new) };
        (Some(reply), Some(new))
    }
}

/// The nine bytes from a field's first one on, the highest first; zeros behind the string.
struct Window([u8; 9]);

impl Window {
    fn from_field(field: &Field, bytes: &[u8]) -> Self {
        let mut window = [0; 9];
        let tail = bytes.get(field.first_byte()..).unwrap_or_default();
        let taken = tail.len().min(9);
        window[..taken].copy_from_slice(&tail[..taken]);
        Self(window)
    }

    fn number(&self) -> u128 {
        self.0.iter().fold(0, |number, &byte| number << 8 | u128::from(byte))
    }

    /// How far the field's lowest bit is above the window's.
    fn shift(field: &Field) -> u32 {
        72 - (field.offset % 8) as u32 - field.bits
    }

    fn get(&self, field: &Field) -> u64 {
        (self.number() >> Self::shift(field)) as u64 & field.mask()
    }

    fn set(&mut self, field: &Field, raw: u64) {
        let shift = Self::shift(field);
        let kept = self.number() & !(u128::from(field.mask()) << shift);
        let number = kept | u128::from(raw) << shift;
        self.0.copy_from_slice(&number.to_be_bytes()[7..]);
    }

    /// The bytes that the field touches, and where they go.
    fn bytes(&self, field: &Field) -> (usize, &[u8]) {
        (field.first_byte(), &self.0[..=field.last_byte() - field.first_byte()])
    }
}
