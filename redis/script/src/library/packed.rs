//! `struct`: numbers and strings in fixed binary forms, as the library of R. Ierusalimschy.

use stillframe_lua::mlua::{self, Lua, MultiValue, Table, Value, Variadic};

use super::{Values, bad_argument, failed, number, one, string, wrong_argument};
use crate::reply::truncated;

type Args = Variadic<Value>;

/// Most bytes of an integer.
const INTEGER_MAX: usize = 32;
/// Alignment that `!` without a number asks for.
const ALIGNMENT: usize = 8;

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", lua.create_function(pack)?)?;
    table.raw_set("unpack", lua.create_function(unpack)?)?;
    table.raw_set("size", lua.create_function(size)?)?;
    Ok(table)
}

/// One item of a format.
#[derive(Clone, Copy, PartialEq)]
enum Item {
    Integer {
        bytes: usize,
        signed: bool,
    },
    Float,
    Double,
    Padding,
    /// A string of so many bytes; 0: as many as the number before says.
    Bytes(usize),
    /// A string that ends with a zero byte.
    Terminated,
}

impl Item {
    fn bytes(self) -> usize {
        match self {
            Self::Integer { bytes, .. } | Self::Bytes(bytes) => bytes,
            Self::Float => 4,
            Self::Double => 8,
            Self::Padding => 1,
            Self::Terminated => 0,
        }
    }
}

/// What is wrong: with an argument, or, if that is 0, with a format or data.
struct Wrong {
    argument: usize,
    text: String,
}

impl Wrong {
    fn plain(text: impl Into<String>) -> Self {
        Self { argument: 0, text: text.into() }
    }

    fn raise(self, lua: &Lua) -> Values {
        match self.argument {
            0 => failed(lua, self.text),
            at => wrong_argument(lua, at, self.text),
        }
    }
}

/// A format, and what it said so far.
struct Format<'a> {
    text: &'a [u8],
    /// Unknown letters and digits stand for nothing, as in `struct.size`.
    skips_unknown: bool,
    little: bool,
    alignment: usize,
}

impl<'a> Format<'a> {
    fn new(text: &'a [u8]) -> Self {
        let little = cfg!(target_endian = "little");
        Self { text, skips_unknown: false, little, alignment: 1 }
    }

    /// The next item, with the bytes that align it after `length` bytes.
    fn next(&mut self, length: usize) -> Result<Option<(Item, usize)>, Wrong> {
        loop {
            let Some((&option, rest)) = self.text.split_first() else { return Ok(None) };
            self.text = rest;
            let item = match option {
                b'b' | b'B' => Item::Integer { bytes: 1, signed: option == b'b' },
                b'h' | b'H' => Item::Integer { bytes: 2, signed: option == b'h' },
                b'l' | b'L' => Item::Integer { bytes: 8, signed: option == b'l' },
                b'T' => Item::Integer { bytes: 8, signed: false },
                b'i' | b'I' => {
                    Item::Integer { bytes: self.integer_bytes()?, signed: option == b'i' }
                }
                b'f' => Item::Float,
                b'd' => Item::Double,
                b'x' => Item::Padding,
                b'c' => Item::Bytes(self.digits()?.unwrap_or(1)),
                b's' => Item::Terminated,
                b' ' => continue,
                b'<' | b'>' => {
                    self.little = option == b'<';
                    continue;
                }
                b'!' => {
                    self.alignment = self.digits()?.unwrap_or(ALIGNMENT);
                    if !self.alignment.is_power_of_two() {
                        let alignment = self.alignment;
                        return Err(Wrong::plain(format!(
                            "alignment {alignment} is not a power of 2"
                        )));
                    }
                    continue;
                }
                other if self.skips_unknown && other.is_ascii_alphanumeric() => continue,
                other => {
                    let text = format!("invalid format option '{}'", char::from(other));
                    return Err(Wrong { argument: 1, text });
                }
            };
            return Ok(Some((item, self.padding(item, length))));
        }
    }

    fn padding(&self, item: Item, length: usize) -> usize {
        let size = item.bytes().min(self.alignment);
        if matches!(item, Item::Bytes(_)) || size <= 1 {
            return 0;
        }
        // Of sizes that are no powers of two the original library makes this, too.
        size.wrapping_sub(length & (size - 1)) & (size - 1)
    }

    fn integer_bytes(&mut self) -> Result<usize, Wrong> {
        let bytes = self.digits()?.unwrap_or(4);
        if bytes > INTEGER_MAX {
            let text = format!("integral size {bytes} is larger than limit of {INTEGER_MAX}");
            return Err(Wrong::plain(text));
        }
        Ok(bytes)
    }

    fn digits(&mut self) -> Result<Option<usize>, Wrong> {
        let length = self.text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.text.split_at(length);
        self.text = rest;
        if digits.is_empty() {
            return Ok(None);
        }
        let value = str::from_utf8(digits).ok().and_then(|digits| digits.parse::<i32>().ok());
        value
            .map(|value| Some(value as usize))
            .ok_or_else(|| Wrong::plain("integral size overflow"))
    }
}

fn text(lua: &Lua, value: Option<&Value>) -> Option<Vec<u8>> {
    match value? {
        value @ (Value::String(_) | Value::Integer(_) | Value::Number(_)) => {
            let text = lua.coerce_string(value.clone()).ok().flatten()?;
            Some(text.as_bytes().to_vec())
        }
        _ => None,
    }
}

fn pack(lua: &Lua, args: Args) -> Values {
    let Some(format) = text(lua, args.first()) else {
        return bad_argument(lua, 1, "string", args.first());
    };
    let mut format = Format::new(&format);
    let mut bytes = Vec::new();
    let mut at = 1;
    loop {
        let (item, padding) = match format.next(bytes.len()) {
            Ok(Some(next)) => next,
            Ok(None) => return string(lua, &bytes),
            Err(wrong) => return wrong.raise(lua),
        };
        bytes.resize(bytes.len() + padding, 0);
        let arg = args.get(at);
        match item {
            Item::Padding => {
                bytes.push(0);
                continue;
            }
            Item::Bytes(_) | Item::Terminated => {
                let Some(value) = text(lua, arg) else {
                    return bad_argument(lua, at + 1, "string", arg.or(Some(&Value::Nil)));
                };
                let length = match item {
                    Item::Bytes(length) if length > 0 => length,
                    _ => value.len(),
                };
                if value.len() < length {
                    let next = at + 2; // as the original library counts
                    return wrong_argument(lua, next, "string too short");
                }
                bytes.extend_from_slice(&value[..length]);
                if item == Item::Terminated {
                    bytes.push(0);
                }
            }
            Item::Integer { .. } | Item::Float | Item::Double => {
                let Some(value) = number(lua, arg) else {
                    return bad_argument(lua, at + 1, "number", arg.or(Some(&Value::Nil)));
                };
                append(item, value, format.little, &mut bytes);
            }
        }
        at += 1;
    }
}

/// A number as a whole one of 64 bits; one too large becomes what it does on the processors on
/// which Redis runs.
fn bits(value: f64) -> u64 {
    const TOP: f64 = (1u64 << 63) as f64;
    if value >= TOP * 2.0 {
        0
    } else if value >= TOP {
        value as u64
    } else {
        truncated(value).cast_unsigned()
    }
}

fn append(item: Item, value: f64, little: bool, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    match item {
        Item::Float => bytes.extend_from_slice(&(value as f32).to_le_bytes()),
        Item::Double => bytes.extend_from_slice(&value.to_le_bytes()),
        _ => {
            // Whole numbers of 64 bits, negative ones in two's complement; the rest is zero.
            let bits = bits(value);
            let size = item.bytes();
            bytes.extend_from_slice(&bits.to_le_bytes()[..size.min(8)]);
            bytes.resize(start + size, 0);
        }
    }
    if !little {
        bytes[start..].reverse();
    }
}

fn unpack(lua: &Lua, args: Args) -> Values {
    let Some(format) = text(lua, args.first()) else {
        return bad_argument(lua, 1, "string", args.first());
    };
    let Some(data) = text(lua, args.get(1)) else {
        return bad_argument(lua, 2, "string", args.get(1));
    };
    let start = match args.get(2) {
        None | Some(Value::Nil) => 1.0,
        Some(start) => match number(lua, Some(start)) {
            Some(start) => start,
            None => return bad_argument(lua, 3, "number", Some(start)),
        },
    };
    // One below 0, or none, is beyond any end, as in the original library.
    let Some(start) = (truncated(start) as usize).checked_sub(1) else {
        return wrong_argument(lua, 3, "offset must be 1 or greater");
    };
    match read(lua, &mut Format::new(&format), &data, start)? {
        Ok(values) => Ok(values),
        Err(wrong) => wrong.raise(lua),
    }
}

fn read(
    lua: &Lua,
    format: &mut Format<'_>,
    data: &[u8],
    mut at: usize,
) -> mlua::Result<Result<MultiValue, Wrong>> {
    let mut values = MultiValue::new();
    loop {
        let (item, padding) = match format.next(at) {
            Ok(Some(next)) => next,
            Ok(None) => break,
            Err(wrong) => return Ok(Err(wrong)),
        };
        at = at.saturating_add(padding);
        let mut length = item.bytes();
        if item == Item::Bytes(0) {
            // A text that is a number is one.
            let Some(value) = values.pop_back().and_then(|value| number(lua, Some(&value))) else {
                return Ok(Err(Wrong::plain("format 'c0' needs a previous size")));
            };
            length = bits(value) as usize;
        }
        let Some(rest) = data.get(at..).filter(|rest| rest.len() >= length) else {
            return Ok(Err(Wrong { argument: 2, text: "data string too short".to_owned() }));
        };
        let value = match item {
            Item::Padding => None,
            Item::Bytes(_) => Some(Value::String(lua.create_string(&rest[..length])?)),
            Item::Terminated => {
                let Some(end) = rest.iter().position(|&byte| byte == 0) else {
                    return Ok(Err(Wrong::plain("unfinished string in data")));
                };
                length = end + 1;
                Some(Value::String(lua.create_string(&rest[..end])?))
            }
            _ => Some(Value::Number(decode(item, &rest[..length], format.little))),
        };
        at += length;
        values.extend(value);
    }
    values.push_back(Value::Number(at as f64 + 1.0));
    values.push_front(Value::Nil);
    Ok(Ok(values))
}

fn decode(item: Item, bytes: &[u8], little: bool) -> f64 {
    let mut low = [0; INTEGER_MAX];
    low[..bytes.len()].copy_from_slice(bytes);
    if !little {
        low[..bytes.len()].reverse();
    }
    let first = |count: usize| low[..count].iter().rev().fold(0, |all, &b| all << 8 | u64::from(b));
    match item {
        Item::Float => f32::from_bits(first(4) as u32).into(),
        Item::Double => f64::from_bits(first(8)),
        Item::Integer { bytes, signed } => {
            let bits = first(bytes.min(8));
            if signed && (1..8).contains(&bytes) {
                let shift = 64 - 8 * bytes as u32;
                ((bits << shift) as i64 >> shift) as f64
            } else if signed {
                bits as i64 as f64
            } else {
                bits as f64
            }
        }
        _ => 0.0,
    }
}

fn size(lua: &Lua, args: Args) -> Values {
    let Some(format) = text(lua, args.first()) else {
        return bad_argument(lua, 1, "string", args.first());
    };
    let mut format = Format { skips_unknown: true, ..Format::new(&format) };
    let mut length = 0_usize;
    loop {
        match format.next(length) {
            Ok(None) => return one(Value::Number(length as f64)),
            Err(wrong) => return wrong.raise(lua),
            Ok(Some((Item::Terminated, _))) => {
                return wrong_argument(lua, 1, "option 's' has no fixed size");
            }
            Ok(Some((Item::Bytes(0), _))) => {
                return wrong_argument(lua, 1, "option 'c0' has no fixed size");
            }
            Ok(Some((item, padding))) => length = length.saturating_add(item.bytes() + padding),
        }
    }
}
