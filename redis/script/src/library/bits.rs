//! `bit`: operations on 32 bits.

use stillframe_lua::mlua::{self, Lua, Table, Value, Variadic};

use super::{Values, bad_argument, number, one, string};

type Args = Variadic<Value>;

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let add =
        |name: &str, f: fn(&Lua, Args) -> Values| table.raw_set(name, lua.create_function(f)?);
    add("tobit", |lua, args| fold(lua, &args[..args.len().min(1)], |a, _| a))?;
    add("bnot", |lua, args| shift(lua, &args, 1, |a, _| !a))?;
    add("bswap", |lua, args| shift(lua, &args, 1, |a, _| a.swap_bytes()))?;
    add("band", |lua, args| fold(lua, &args, |a, b| a & b))?;
    add("bor", |lua, args| fold(lua, &args, |a, b| a | b))?;
    add("bxor", |lua, args| fold(lua, &args, |a, b| a ^ b))?;
    add("lshift", |lua, args| shift(lua, &args, 2, |a, n| a << n))?;
    add("rshift", |lua, args| shift(lua, &args, 2, |a, n| a >> n))?;
    add("arshift", |lua, args| shift(lua, &args, 2, |a, n| (a as i32 >> n) as u32))?;
    add("rol", |lua, args| shift(lua, &args, 2, u32::rotate_left))?;
    add("ror", |lua, args| shift(lua, &args, 2, u32::rotate_right))?;
    add("tohex", |lua, args| tohex(lua, &args))?;
    Ok(table)
}

/// The low 32 bits of the nearest integer.
fn bits(value: f64) -> u32 {
    // Adding 2^52 + 2^51 leaves the rounded integer in the low bits of the mantissa.
    (value + 6_755_399_441_055_744.0).to_bits() as u32
}

fn signed(value: u32) -> Values {
    one(Value::Number(f64::from(value as i32)))
}

fn fold(lua: &Lua, args: &[Value], join: impl Fn(u32, u32) -> u32) -> Values {
    let mut joined = None;
    for at in 0..args.len().max(1) {
        let Some(value) = number(lua, args.get(at)) else {
            return bad_argument(lua, at + 1, "number", args.get(at));
        };
        joined = Some(joined.map_or(bits(value), |joined| join(joined, bits(value))));
    }
    signed(joined.unwrap_or_default())
}

/// An operation on the first argument; the second counts bits, modulo 32.
fn shift(lua: &Lua, args: &[Value], needed: usize, operation: impl Fn(u32, u32) -> u32) -> Values {
    let mut values = [0; 2];
    for (at, place) in values.iter_mut().enumerate().take(needed) {
        let Some(value) = number(lua, args.get(at)) else {
            return bad_argument(lua, at + 1, "number", args.get(at));
        };
        *place = bits(value);
    }
    signed(operation(values[0], values[1] & 31))
}

/// Up to eight hexadecimal digits, in capitals if their number is negative.
fn tohex(lua: &Lua, args: &[Value]) -> Values {
    let Some(value) = number(lua, args.first()) else {
        return bad_argument(lua, 1, "number", args.first());
    };
    let digits = match args.get(1) {
        None => 8,
        Some(digits) => match number(lua, Some(digits)) {
            None => return bad_argument(lua, 2, "number", Some(digits)),
            Some(digits) => bits(digits) as i32,
        },
    };
    let text = format!("{:08x}", bits(value));
    let kept = digits.unsigned_abs().min(8) as usize;
    let text = &text[8 - kept..];
    if digits < 0 {
        string(lua, text.to_uppercase().as_bytes())
    } else {
        string(lua, text.as_bytes())
    }
}
