//! `cmsgpack`: values of Lua in MessagePack and back, as lua-cmsgpack 0.4 does.

use stillframe_lua::mlua::{self, Lua, MultiValue, Table, Value, Variadic};

use super::{Values, bad_argument, failed, number, plain_number};

/// Tables nested deeper are written as nil, as in lua-cmsgpack.
const DEPTH_MAX: usize = 16;
/// How deep values that are read may nest.
const READ_DEPTH_MAX: usize = 1000;

type Args = Variadic<Value>;

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    table.raw_set("pack", lua.create_function(pack)?)?;
    table.raw_set(
        "unpack",
        lua.create_function(|lua, args: Args| unpack(lua, &args, "unpack", usize::MAX, None))?,
    )?;
    table.raw_set(
        "unpack_one",
        lua.create_function(|lua, args: Args| unpack_some(lua, &args, "unpack_one", Some(1), 1))?,
    )?;
    table.raw_set(
        "unpack_limit",
        lua.create_function(|lua, args: Args| unpack_some(lua, &args, "unpack_limit", None, 2))?,
    )?;
    Ok(table)
}

fn pack(lua: &Lua, args: Args) -> Values {
    if args.is_empty() {
        return failed(lua, "bad argument #0 to 'pack' (MessagePack pack needs input.)");
    }
    let mut bytes = Vec::new();
    for value in args.iter() {
        write(value, &mut bytes, 0)?;
    }
    super::string(lua, &bytes)
}

fn write(value: &Value, bytes: &mut Vec<u8>, depth: usize) -> mlua::Result<()> {
    match value {
        Value::Boolean(value) => bytes.push(0xc2 | u8::from(*value)),
        Value::Integer(value) => write_integer(*value, bytes),
        Value::Number(value) => write_number(*value, bytes),
        Value::String(text) => write_string(&text.as_bytes(), bytes),
        Value::Table(table) if depth < DEPTH_MAX => return write_table(table, bytes, depth + 1),
        _ => bytes.push(0xc0),
    }
    Ok(())
}

fn write_integer(value: i64, bytes: &mut Vec<u8>) {
    let tagged = |tag: u8, number: &[u8], bytes: &mut Vec<u8>| {
        bytes.push(tag);
        bytes.extend_from_slice(number);
    };
    match value {
        -32..=0x7f => bytes.push(value as u8),
        0x80..=0xff => tagged(0xcc, &[value as u8], bytes),
        0x100..=0xffff => tagged(0xcd, &(value as u16).to_be_bytes(), bytes),
        0x1_0000..=0xffff_ffff => tagged(0xce, &(value as u32).to_be_bytes(), bytes),
        0x1_0000_0000.. => tagged(0xcf, &value.to_be_bytes(), bytes),
        -0x80..=-33 => tagged(0xd0, &[value as u8], bytes),
        -0x8000..=-0x81 => tagged(0xd1, &(value as i16).to_be_bytes(), bytes),
        -0x8000_0000..=-0x8001 => tagged(0xd2, &(value as i32).to_be_bytes(), bytes),
        _ => tagged(0xd3, &value.to_be_bytes(), bytes),
    }
}

fn write_number(value: f64, bytes: &mut Vec<u8>) {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if value.fract() == 0.0 && (-LIMIT..LIMIT).contains(&value) {
        write_integer(value as i64, bytes);
    } else if f64::from(value as f32) == value {
        bytes.push(0xca);
        bytes.extend_from_slice(&(value as f32).to_be_bytes());
    } else {
        bytes.push(0xcb);
        bytes.extend_from_slice(&value.to_be_bytes());
    }
}

/// A tag with a length: the least of four forms, of which `small` holds it in the tag.
fn write_length(bytes: &mut Vec<u8>, length: usize, small: (u8, usize), tags: [Option<u8>; 3]) {
    let [one, two, four] = tags;
    if length < small.1 {
        bytes.push(small.0 | length as u8);
    } else if let (Some(tag), ..=0xff) = (one, length) {
        bytes.extend_from_slice(&[tag, length as u8]);
    } else if let (Some(tag), ..=0xffff) = (two, length) {
        bytes.push(tag);
        bytes.extend_from_slice(&(length as u16).to_be_bytes());
    } else if let Some(tag) = four {
        bytes.push(tag);
        bytes.extend_from_slice(&(length as u32).to_be_bytes());
    }
}

fn write_string(text: &[u8], bytes: &mut Vec<u8>) {
    write_length(bytes, text.len(), (0xa0, 32), [Some(0xd9), Some(0xda), Some(0xdb)]);
    bytes.extend_from_slice(text);
}

fn write_table(table: &Table, bytes: &mut Vec<u8>, depth: usize) -> mlua::Result<()> {
    let pairs = table.pairs::<Value, Value>().collect::<mlua::Result<Vec<_>>>()?;
    if is_array(&pairs) {
        write_length(bytes, pairs.len(), (0x90, 16), [None, Some(0xdc), Some(0xdd)]);
        for index in 1..=pairs.len() {
            write(&table.raw_get::<Value>(index)?, bytes, depth)?;
        }
    } else {
        write_length(bytes, pairs.len(), (0x80, 16), [None, Some(0xde), Some(0xdf)]);
        for (key, value) in &pairs {
            write(key, bytes, depth)?;
            write(value, bytes, depth)?;
        }
    }
    Ok(())
}

/// Whether the keys are the numbers from one on.
fn is_array(pairs: &[(Value, Value)]) -> bool {
    let count = pairs.len() as f64;
    let is_place = |key: f64| key.fract() == 0.0 && key >= 1.0 && key <= count;
    pairs.iter().all(|(key, _)| plain_number(key).is_some_and(is_place))
}

fn unpack_some(
    lua: &Lua,
    args: &[Value],
    name: &str,
    count: Option<usize>,
    offset_at: usize,
) -> Values {
    let whole = |at: usize| match args.get(at) {
        None | Some(Value::Nil) if at == offset_at => Some(0),
        value => number(lua, value).map(|value| value as i64),
    };
    let Some(offset) = whole(offset_at) else {
        return bad_argument(lua, offset_at + 1, name, "number", args.get(offset_at));
    };
    let limit = match count {
        Some(count) => count as i64,
        None => match whole(1) {
            Some(limit) => limit,
            None => return bad_argument(lua, 2, name, "number", args.get(1)),
        },
    };
    if limit < 0 || offset < 0 {
        let length =
            args.first().and_then(Value::as_string).map_or(0, |text| text.as_bytes().len());
        return failed(
            lua,
            format!("Invalid request to unpack with offset of {offset} and limit of {length}."),
        );
    }
    unpack(lua, args, name, limit as usize, Some(offset))
}

/// Reads up to `count` values; with an offset, where to read on comes before them, or -1.
fn unpack(lua: &Lua, args: &[Value], name: &str, count: usize, offset: Option<i64>) -> Values {
    let text = match args.first() {
        Some(value @ (Value::String(_) | Value::Integer(_) | Value::Number(_))) => {
            lua.coerce_string(value.clone())?
        }
        other => return bad_argument(lua, 1, name, "string", other),
    };
    let bytes = text.map_or_else(Vec::new, |text| text.as_bytes().to_vec());
    let start = offset.unwrap_or(0);
    let Some(at) = usize::try_from(start).ok().filter(|start| *start <= bytes.len()) else {
        let length = bytes.len();
        return failed(lua, format!("Start offset {start} greater than input length {length}."));
    };
    let mut reader = Reader { lua, bytes: &bytes, at };
    let mut values = MultiValue::new();
    while values.len() < count && reader.at < bytes.len() {
        match reader.value(0)? {
            Ok(value) => values.push_back(value),
            Err(wrong) => return failed(lua, wrong),
        }
        if values.len() > 7000 {
            return failed(lua, "too many results to unpack");
        }
    }
    if offset.is_some() {
        let rest = if reader.at < bytes.len() { reader.at as f64 } else { -1.0 };
        values.push_front(Value::Number(rest));
    }
    values.push_front(Value::Nil);
    Ok(values)
}

const BAD: &str = "Bad data format in input.";
const SHORT: &str = "Missing bytes in input.";

struct Reader<'a> {
    lua: &'a Lua,
    bytes: &'a [u8],
    at: usize,
}

type Read<T> = mlua::Result<Result<T, &'static str>>;

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let bytes = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()).ok_or(SHORT)?;
        self.at += N;
        Ok(*bytes)
    }

    fn length(&mut self, bytes: usize) -> Result<usize, &'static str> {
        Ok(match bytes {
            1 => usize::from(self.take::<1>()?[0]),
            2 => usize::from(u16::from_be_bytes(self.take()?)),
            _ => u32::from_be_bytes(self.take()?) as usize,
        })
    }

    fn value(&mut self, depth: usize) -> Read<Value> {
        if depth > READ_DEPTH_MAX {
            return Ok(Err(BAD));
        }
        let tag = match self.take::<1>() {
            Ok([tag]) => tag,
            Err(short) => return Ok(Err(short)),
        };
        let length = match tag {
            0xd9 => self.length(1),
            0xda | 0xdc | 0xde => self.length(2),
            0xdb | 0xdd | 0xdf => self.length(4),
            0xa0..=0xbf => Ok(usize::from(tag & 31)),
            _ => Ok(usize::from(tag & 15)),
        };
        let length = match length {
            Ok(length) => length,
            Err(short) => return Ok(Err(short)),
        };
        match tag {
            0xa0..=0xbf | 0xd9..=0xdb => self.text(length),
            0x90..=0x9f | 0xdc | 0xdd => self.array(length, depth),
            0x80..=0x8f | 0xde | 0xdf => self.map(length, depth),
            _ => Ok(self.scalar(tag)),
        }
    }

    fn scalar(&mut self, tag: u8) -> Result<Value, &'static str> {
        Ok(Value::Number(match tag {
            0..=0x7f => f64::from(tag),
            0xe0..=0xff => f64::from(tag as i8),
            0xc0 => return Ok(Value::Nil),
            0xc2 | 0xc3 => return Ok(Value::Boolean(tag == 0xc3)),
            0xca => f32::from_be_bytes(self.take()?).into(),
            0xcb => f64::from_be_bytes(self.take()?),
            0xcc => self.take::<1>()?[0].into(),
            0xcd => u16::from_be_bytes(self.take()?).into(),
            0xce => u32::from_be_bytes(self.take()?).into(),
            0xcf => u64::from_be_bytes(self.take()?) as f64,
            0xd0 => i8::from_be_bytes(self.take()?).into(),
            0xd1 => i16::from_be_bytes(self.take()?).into(),
            0xd2 => i32::from_be_bytes(self.take()?).into(),
            0xd3 => i64::from_be_bytes(self.take()?) as f64,
            _ => return Err(BAD),
        }))
    }

    fn text(&mut self, length: usize) -> Read<Value> {
        let Some(text) = self.bytes.get(self.at..).and_then(|rest| rest.get(..length)) else {
            return Ok(Err(SHORT));
        };
        self.at += length;
        Ok(Ok(Value::String(self.lua.create_string(text)?)))
    }

    fn array(&mut self, length: usize, depth: usize) -> Read<Value> {
        let table = self.lua.create_table()?;
        for index in 1..=length {
            match self.value(depth + 1)? {
                Ok(value) => table.raw_seti(index, value)?,
                Err(wrong) => return Ok(Err(wrong)),
            }
        }
        Ok(Ok(Value::Table(table)))
    }

    fn map(&mut self, length: usize, depth: usize) -> Read<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..length {
            let key = match self.value(depth + 1)? {
                Ok(key) => key,
                Err(wrong) => return Ok(Err(wrong)),
            };
            let value = match self.value(depth + 1)? {
                Ok(value) => value,
                Err(wrong) => return Ok(Err(wrong)),
            };
            if key.is_nil() || plain_number(&key).is_some_and(f64::is_nan) {
                return Ok(Err(BAD));
            }
            table.raw_set(key, value)?;
        }
        Ok(Ok(Value::Table(table)))
    }
}
