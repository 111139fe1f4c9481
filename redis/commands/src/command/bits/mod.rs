//! Bits of strings: SETBIT, GETBIT, BITCOUNT, BITPOS, BITOP. Bit 0 is the highest of byte 0.

mod bitfield;
mod operation;

use stillframe_keyspace::IntText;
use stillframe_resp::parse_integer;

use crate::command::string::string_bytes;
use crate::context::Context;
use crate::errors::{BIT_OFFSET, NOT_AN_INTEGER, Refusal, SYNTAX};
use crate::table::Table;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("bitcount", bitcount);
    table.add("bitpos", bitpos);
    table.add("getbit", getbit);
    table.add("setbit", setbit);
    bitfield::register(table);
    operation::register(table);
}

/// The position of a bit, in a string that may be `bytes_max` long.
fn parse_offset(text: &[u8], bytes_max: usize) -> Result<u64, Refusal> {
    let offset = parse_integer(text).and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| offset / 8 < bytes_max as u64).ok_or(BIT_OFFSET)
}

/// `SETBIT key offset 0|1`
fn setbit(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let key = args[1];
    let (offset, on) = parse_setbit(args, ctx.string_bytes_max())?;
    let (at, mask) = ((offset / 8) as usize, 0x80 >> (offset % 8));
    let mut text = IntText::default();
    let entry = ctx.keyspace.get(ctx.caller.db, key, ctx.now);
    let old = string_bytes(entry, &mut text)?.unwrap_or_default().get(at).copied();
    let was_on = old.unwrap_or(0) & mask != 0;
    if old.is_none() || was_on != on {
        let byte = old.unwrap_or(0) & !mask | if on { mask } else { 0 };
        let outcome = ctx.keyspace.set_range(ctx.caller.db, key, at, &[byte]);
        ctx.stored_as(key, "setbit", outcome)?;
    }
    ctx.out.integer(was_on.into());
    Ok(())
}

fn parse_setbit(args: &[&[u8]], bytes_max: usize) -> Result<(u64, bool), Refusal> {
    let offset = parse_offset(args[2], bytes_max)?;
    match parse_integer(args[3]) {
        Some(bit @ (0 | 1)) => Ok((offset, bit == 1)),
        _ => Err("ERR bit is not an integer or out of range".into()),
    }
}

/// `GETBIT key offset`
fn getbit(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let offset = parse_offset(args[2], ctx.string_bytes_max())?;
    ctx.read(args[1], |out, entry| {
        let mut text = IntText::default();
        let bytes = string_bytes(entry, &mut text)?.unwrap_or_default();
        let byte = bytes.get((offset / 8) as usize).copied().unwrap_or(0);
        out.integer((byte >> (7 - offset % 8) & 1).into());
        Ok(())
    })
}

/// `BITCOUNT key [start end [BYTE | BIT]]`
fn bitcount(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.read(args[1], |out, entry| {
        let mut text = IntText::default();
        let bytes = string_bytes(entry, &mut text)?;
        out.integer(bytes.map_or(Ok(0), |bytes| count_bits(bytes, &args[2..]))?);
        Ok(())
    })
}

/// The range of bits, last one included, that `start end [BYTE | BIT]` select; empty ones are none.
fn bit_range(bytes: &[u8], start: i64, end: i64, by_bit: bool) -> Option<(u64, u64)> {
    let length = bytes.len() as i64 * if by_bit { 8 } else { 1 };
    let from_end = |position: i64| if position < 0 { position + length } else { position }.max(0);
    let (start, end) = (from_end(start), from_end(end).min(length - 1));
    if start > end {
        return None;
    }
    let (start, end) = (start as u64, end as u64);
    Some(if by_bit { (start, end) } else { (start * 8, end * 8 + 7) })
}

fn parse_unit(unit: &[u8]) -> Result<bool, Refusal> {
    match unit.to_ascii_lowercase().as_slice() {
        b"bit" => Ok(true),
        b"byte" => Ok(false),
        _ => Err(SYNTAX),
    }
}

fn count_bits(bytes: &[u8], range: &[&[u8]]) -> Result<i64, Refusal> {
    let (start, end, unit) = match range {
        [] => return Ok(bytes.iter().map(|byte| i64::from(byte.count_ones())).sum()),
        [start, end] => (start, end, None),
        [start, end, unit] => (start, end, Some(unit)),
        _ => return Err(SYNTAX),
    };
    let start = parse_integer(start).ok_or(NOT_AN_INTEGER)?;
    let end = parse_integer(end).ok_or(NOT_AN_INTEGER)?;
    if start < 0 && end < 0 && start > end {
        return Ok(0);
    }
    let by_bit = unit.map_or(Ok(false), |unit| parse_unit(unit))?;
    let Some((first, last)) = bit_range(bytes, start, end, by_bit) else { return Ok(0) };
    let whole = &bytes[(first / 8) as usize..=(last / 8) as usize];
    let count: i64 = whole.iter().map(|byte| i64::from(byte.count_ones())).sum();
    let before = bytes[(first / 8) as usize] & !(0xff >> (first % 8));
    let after = bytes[(last / 8) as usize] & (0x7f >> (last % 8));
    Ok(count - i64::from(before.count_ones()) - i64::from(after.count_ones()))
}

/// `BITPOS key 0|1 [start [end [BYTE | BIT]]]`
fn bitpos(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let bit = match parse_integer(args[2]) {
        Some(bit @ (0 | 1)) => bit == 1,
        Some(_) => return Err("ERR The bit argument must be 1 or 0.".into()),
        None => return Err(NOT_AN_INTEGER),
    };
    ctx.read(args[1], |out, entry| {
        let mut text = IntText::default();
        out.integer(match string_bytes(entry, &mut text)? {
            // An absent key is zeros without end.
            None => -i64::from(bit),
            Some(bytes) => find_bit(bytes, bit, &args[3..])?,
        });
        Ok(())
    })
}

fn find_bit(bytes: &[u8], bit: bool, range: &[&[u8]]) -> Result<i64, Refusal> {
    let integer = |text: &[u8]| parse_integer(text).ok_or(NOT_AN_INTEGER);
    let (start, end, by_bit) = match range {
        [] => (0, None, false),
        [start] => (integer(start)?, None, false),
        [start, end] => (integer(start)?, Some(integer(end)?), false),
        [start, end, unit] => {
            let start = integer(start)?;
            let by_bit = parse_unit(unit)?;
            (start, Some(integer(end)?), by_bit)
        }
        _ => return Err(SYNTAX),
    };
    let Some((first, last)) = bit_range(bytes, start, end.unwrap_or(-1), by_bit) else {
        return Ok(-1);
    };
    let skipped = if bit { 0x00 } else { 0xff };
    let mut position = first;
    while position <= last {
        let byte = bytes[(position / 8) as usize];
        if position % 8 == 0 && byte == skipped {
            position += 8;
        } else if (byte >> (7 - position % 8) & 1 == 1) == bit {
            return Ok(position as i64);
        } else {
            position += 1;
        }
    }
    // Without an end given, zeros go on behind the string.
    Ok(if bit || end.is_some() { -1 } else { last as i64 + 1 })
}
