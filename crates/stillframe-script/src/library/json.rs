//! `cjson`: values of Lua as JSON and back, as lua-cjson 2.1 does.

use stillframe_lua::mlua::{self, LightUserData, Lua, Table, Value, Variadic};

use super::{Values, bad_argument, failed, one, plain_number, string};

/// How deep values may nest, in both directions.
const DEPTH_MAX: usize = 1000;
/// An array may miss more than half of its places only up to this length.
const SPARSE_SAFE: f64 = 10.0;
const SPARSE_RATIO: f64 = 2.0;

type Args = Variadic<Value>;

/// Why a value cannot be written or a text not be read.
type Refusal = String;

/// A step's outcome: an error of the interpreter, a refusal, or a value.
type Read<T> = mlua::Result<Result<T, Refusal>>;

/// Returns the refusal of an inner step.
macro_rules! step {
    ($outcome:expr) => {
        match $outcome? {
            Ok(value) => value,
            Err(refusal) => return Ok(Err(refusal)),
        }
    };
}

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("null", Value::LightUserData(null()))?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    table.raw_set("encode", lua.create_function(encode)?)?;
    table.raw_set("decode", lua.create_function(decode)?)?;
    // Settings that Redis fixes for all scripts: they take and return what is in force.
    for (name, value) in [
        ("encode_max_depth", DEPTH_MAX),
        ("decode_max_depth", DEPTH_MAX),
        ("encode_number_precision", 14),
    ] {
        table.raw_set(
            name,
            lua.create_function(move |_: &Lua, _: Args| one(Value::Number(value as f64)))?,
        )?;
    }
    for name in ["encode_keep_buffer", "decode_invalid_numbers"] {
        table.raw_set(name, lua.create_function(|_, _: Args| one(Value::Boolean(true)))?)?;
    }
    table.raw_set(
        "encode_invalid_numbers",
        lua.create_function(|_, _: Args| one(Value::Boolean(false)))?,
    )?;
    table.raw_set(
        "encode_sparse_array",
        lua.create_function(|_, _: Args| {
            let [ratio, safe] = [SPARSE_RATIO, SPARSE_SAFE].map(Value::Number);
            let values = vec![Value::Nil, Value::Boolean(false), ratio, safe];
            Ok(mlua::MultiValue::from_vec(values))
        })?,
    )?;
    Ok(table)
}

fn null() -> LightUserData {
    LightUserData(std::ptr::null_mut())
}

fn encode(lua: &Lua, args: Args) -> Values {
    let [value] = &args[..] else {
        return failed(lua, "bad argument #1 to 'encode' (expected 1 argument)");
    };
    let mut text = Vec::new();
    match write(lua, value, &mut text, 0)? {
        Ok(()) => string(lua, &text),
        Err(refusal) => failed(lua, refusal),
    }
}

fn write(lua: &Lua, value: &Value, text: &mut Vec<u8>, depth: usize) -> Read<()> {
    match value {
        Value::Nil => text.extend_from_slice(b"null"),
        Value::Boolean(value) => text.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Integer(_) | Value::Number(_) => return write_number(lua, value, text),
        Value::String(bytes) => write_string(&bytes.as_bytes(), text),
        Value::LightUserData(pointer) if *pointer == null() => text.extend_from_slice(b"null"),
        Value::Table(table) => return write_table(lua, table, text, depth + 1),
        other => return Ok(Err(cannot(other, "type not supported"))),
    }
    Ok(Ok(()))
}

fn cannot(value: &Value, why: &str) -> Refusal {
    let kind = match value.type_name() {
        "lightuserdata" => "userdata",
        name => name,
    };
    format!("Cannot serialise {kind}: {why}")
}

fn write_number(lua: &Lua, value: &Value, text: &mut Vec<u8>) -> Read<()> {
    if !plain_number(value).is_some_and(f64::is_finite) {
        return Ok(Err("Cannot serialise number: must not be NaN or Inf".to_owned()));
    }
    if let Some(digits) = lua.coerce_string(value.clone())? {
        text.extend_from_slice(&digits.as_bytes());
    }
    Ok(Ok(()))
}

fn write_table(lua: &Lua, table: &Table, text: &mut Vec<u8>, depth: usize) -> Read<()> {
    if depth > DEPTH_MAX {
        return Ok(Err(format!("Cannot serialise, excessive nesting ({depth})")));
    }
    match array_length(table)? {
        Some(Err(refusal)) => return Ok(Err(refusal)),
        Some(Ok(length)) => {
            text.push(b'[');
            for index in 1..=length {
                text.extend_from_slice(if index > 1 { b"," } else { b"" });
                step!(write(lua, &table.raw_get::<Value>(index)?, text, depth));
            }
            text.push(b']');
        }
        None => {
            text.push(b'{');
            let mut first = true;
            for pair in table.pairs::<Value, Value>() {
                let (key, value) = pair?;
                text.extend_from_slice(if first { b"" } else { b"," });
                first = false;
                step!(write_key(lua, &key, text));
                step!(write(lua, &value, text, depth));
            }
            text.push(b'}');
        }
    }
    Ok(Ok(()))
}

fn write_key(lua: &Lua, key: &Value, text: &mut Vec<u8>) -> Read<()> {
    match key {
        Value::Integer(_) | Value::Number(_) => {
            text.push(b'"');
            step!(write_number(lua, key, text));
            text.push(b'"');
        }
        Value::String(bytes) => write_string(&bytes.as_bytes(), text),
        _ => {
            return Ok(Err(cannot(key, "table key must be a number or string")));
        }
    }
    text.push(b':');
    Ok(Ok(()))
}

/// The length of a table that is an array: every key a positive whole number. An empty table is
/// an object.
fn array_length(table: &Table) -> mlua::Result<Option<Result<i64, Refusal>>> {
    let (mut max, mut items) = (0.0_f64, 0.0_f64);
    for pair in table.pairs::<Value, Value>() {
        match pair?.0 {
            Value::Integer(key) if key > 0 => max = max.max(key as f64),
            Value::Number(key) if key > 0.0 && key.fract() == 0.0 => max = max.max(key),
            _ => return Ok(None),
        }
        items += 1.0;
    }
    Ok(if items == 0.0 {
        None
    } else if max > items * SPARSE_RATIO && max > SPARSE_SAFE {
        Some(Err("Cannot serialise table: excessively sparse array".to_owned()))
    } else {
        Some(Ok(max as i64))
    })
}

fn write_string(bytes: &[u8], text: &mut Vec<u8>) {
    text.push(b'"');
    for &byte in bytes {
        match byte {
            b'"' | b'\\' | b'/' => text.extend_from_slice(&[b'\\', byte]),
            0x08 => text.extend_from_slice(b"\\b"),
            b'\t' => text.extend_from_slice(b"\\t"),
            b'\n' => text.extend_from_slice(b"\\n"),
            0x0c => text.extend_from_slice(b"\\f"),
            b'\r' => text.extend_from_slice(b"\\r"),
            0..0x20 | 0x7f => text.extend(format!("\\u{byte:04x}").bytes()),
            _ => text.push(byte),
        }
    }
    text.push(b'"');
}

fn decode(lua: &Lua, args: Args) -> Values {
    let bytes = match &args[..] {
        [value @ (Value::String(_) | Value::Integer(_) | Value::Number(_))] => {
            lua.coerce_string(value.clone())?.map(|text| text.as_bytes().to_vec())
        }
        [other] => return bad_argument(lua, 1, "decode", "string", Some(other)),
        _ => return failed(lua, "bad argument #1 to 'decode' (expected 1 argument)"),
    };
    let bytes = bytes.unwrap_or_default();
    if bytes.len() >= 2 && (bytes[0] == 0 || bytes[1] == 0) {
        return failed(lua, "JSON parser does not support UTF-16 or UTF-32");
    }
    let mut reader = Reader { lua, text: &bytes, at: 0 };
    match reader.whole()? {
        Ok(value) => one(value),
        Err(refusal) => failed(lua, refusal),
    }
}

struct Reader<'a> {
    lua: &'a Lua,
    text: &'a [u8],
    at: usize,
}

/// One token, with where it begins.
enum Token {
    Begin(u8),
    End(u8),
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    EndOfText,
    /// No token; why.
    Wrong(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Self::Begin(b'{') => "T_OBJ_BEGIN",
            Self::Begin(_) => "T_ARR_BEGIN",
            Self::End(b'}') => "T_OBJ_END",
            Self::End(_) => "T_ARR_END",
            Self::Text(_) => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::EndOfText => "T_END",
            Self::Wrong(why) => why,
        }
    }
}

impl Reader<'_> {
    fn whole(&mut self) -> Read<Value> {
        let (start, token) = self.token();
        let value = step!(self.value(start, token, 0));
        let (start, token) = self.token();
        if !matches!(token, Token::EndOfText) {
            return Ok(Err(expected("the end", start, &token)));
        }
        Ok(Ok(value))
    }

    fn value(&mut self, start: usize, token: Token, depth: usize) -> Read<Value> {
        Ok(Ok(match token {
            Token::Text(bytes) => Value::String(self.lua.create_string(bytes)?),
            Token::Number(number) => Value::Number(number),
            Token::Boolean(value) => Value::Boolean(value),
            Token::Null => Value::LightUserData(null()),
            Token::Begin(_) if depth == DEPTH_MAX => {
                let depth = depth + 1;
                let place = start + 1;
                return Ok(Err(format!(
                    "Found too many nested data structures ({depth}) at character {place}"
                )));
            }
            Token::Begin(b'{') => return self.object(depth + 1),
            Token::Begin(_) => return self.array(depth + 1),
            other => return Ok(Err(expected("value", start, &other))),
        }))
    }

    fn object(&mut self, depth: usize) -> Read<Value> {
        let table = self.lua.create_table()?;
        let (mut start, mut token) = self.token();
        if matches!(token, Token::End(b'}')) {
            return Ok(Ok(Value::Table(table)));
        }
        loop {
            let Token::Text(key) = token else {
                return Ok(Err(expected("object key string", start, &token)));
            };
            let (at, colon) = self.token();
            if !matches!(colon, Token::Colon) {
                return Ok(Err(expected("colon", at, &colon)));
            }
            let (at, first) = self.token();
            let value = step!(self.value(at, first, depth));
            table.raw_set(self.lua.create_string(key)?, value)?;
            let (at, next) = self.token();
            match next {
                Token::End(b'}') => return Ok(Ok(Value::Table(table))),
                Token::Comma => {}
                other => return Ok(Err(expected("comma or object end", at, &other))),
            }
            (start, token) = self.token();
        }
    }

    fn array(&mut self, depth: usize) -> Read<Value> {
        let table = self.lua.create_table()?;
        let (mut start, mut token) = self.token();
        if matches!(token, Token::End(b']')) {
            return Ok(Ok(Value::Table(table)));
        }
        for index in 1.. {
            let value = step!(self.value(start, token, depth));
            table.raw_seti(index, value)?;
            let (at, next) = self.token();
            match next {
                Token::End(b']') => break,
                Token::Comma => {}
                other => return Ok(Err(expected("comma or array end", at, &other))),
            }
            (start, token) = self.token();
        }
        Ok(Ok(Value::Table(table)))
    }

    fn token(&mut self) -> (usize, Token) {
        let rest = &self.text[self.at..];
        let blanks = rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.at += blanks;
        let start = self.at;
        let rest = &self.text[start..];
        let Some(&byte) = rest.first() else { return (start, Token::EndOfText) };
        let token = match byte {
            b'{' | b'[' => Token::Begin(byte),
            b'}' | b']' => Token::End(byte),
            b':' => Token::Colon,
            b',' => Token::Comma,
            b'"' => return self.text(),
            _ if rest.starts_with(b"null") => return self.word(4, Token::Null),
            _ if rest.starts_with(b"true") => return self.word(4, Token::Boolean(true)),
            _ if rest.starts_with(b"false") => return self.word(5, Token::Boolean(false)),
            b'-' | b'+' | b'0'..=b'9' => return (start, self.number()),
            b'i' | b'I' | b'n' | b'N' if is_no_number(rest) => return (start, self.number()),
            _ => Token::Wrong("invalid token"),
        };
        self.at += 1;
        (start, token)
    }

    fn word(&mut self, length: usize, token: Token) -> (usize, Token) {
        let start = self.at;
        self.at += length;
        (start, token)
    }

    /// A number as `strtod` reads it, infinities and hexadecimal digits included.
    fn number(&mut self) -> Token {
        let rest = &self.text[self.at..];
        let unsigned = rest.strip_prefix(b"-").or(rest.strip_prefix(b"+")).unwrap_or(rest);
        let sign = if rest.starts_with(b"-") { -1.0 } else { 1.0 };
        let prefix = rest.len() - unsigned.len();
        if is_no_number(unsigned) {
            let long = unsigned.get(..8).is_some_and(|word| word.eq_ignore_ascii_case(b"infinity"));
            self.at += prefix + if long { 8 } else { 3 };
            let infinite = unsigned[0].eq_ignore_ascii_case(&b'i');
            let value = if infinite { f64::INFINITY } else { f64::NAN };
            return Token::Number(sign * value);
        }
        if let [b'0', b'x' | b'X', digits @ ..] = unsigned {
            let length = digits.iter().take_while(|digit| digit.is_ascii_hexdigit()).count();
            if length > 0 {
                self.at += prefix + 2 + length;
                let value = digits[..length].iter().fold(0.0, |value, digit| {
                    value * 16.0 + f64::from((*digit as char).to_digit(16).unwrap_or_default())
                });
                return Token::Number(sign * value);
            }
        }
        let length = decimal_length(unsigned);
        let text = str::from_utf8(&unsigned[..length]).unwrap_or_default();
        match text.parse::<f64>() {
            Ok(value) => {
                self.at += prefix + length;
                Token::Number(sign * value)
            }
            Err(_) => Token::Wrong("invalid number"),
        }
    }

    fn text(&mut self) -> (usize, Token) {
        let start = self.at;
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            let at = self.at;
            let Some(&byte) = self.text.get(at) else {
                return (at, Token::Wrong("unexpected end of string"));
            };
            self.at += 1;
            match byte {
                b'"' => return (start, Token::Text(bytes)),
                b'\\' => {
                    if let Err(wrong) = self.escape(&mut bytes) {
                        return (at, Token::Wrong(wrong));
                    }
                }
                _ => bytes.push(byte),
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), &'static str> {
        let escape = self.text.get(self.at).copied();
        self.at += 1;
        match escape {
            Some(plain @ (b'"' | b'\\' | b'/')) => bytes.push(plain),
            Some(b'b') => bytes.push(8),
            Some(b'f') => bytes.push(12),
            Some(b'n') => bytes.push(b'\n'),
            Some(b'r') => bytes.push(b'\r'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'u') => {
                push_utf8(self.code_point().ok_or("invalid unicode escape code")?, bytes);
            }
            _ => return Err("invalid escape code"),
        }
        Ok(())
    }

    /// The code point of `\uXXXX`, two of which may make one.
    fn code_point(&mut self) -> Option<u32> {
        let high = self.unit()?;
        match high {
            0xD800..=0xDBFF => {
                if self.text.get(self.at..self.at + 2)? != b"\\u" {
                    return None;
                }
                self.at += 2;
                let low = self.unit()?;
                (0xDC00..=0xDFFF)
                    .contains(&low)
                    .then(|| 0x10000 + ((high & 0x3FF) << 10 | low & 0x3FF))
            }
            0xDC00..=0xDFFF => None,
            _ => Some(high),
        }
    }

    fn unit(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | (digit as char).to_digit(16)?))
    }
}

fn push_utf8(point: u32, bytes: &mut Vec<u8>) {
    if let Some(point) = char::from_u32(point) {
        bytes.extend_from_slice(point.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// Whether a text begins with `inf` or `nan`.
fn is_no_number(text: &[u8]) -> bool {
    text.get(..3)
        .is_some_and(|word| word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan"))
}

/// Bytes of a decimal number without its sign.
fn decimal_length(text: &[u8]) -> usize {
    let digits = |from: usize| text[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut length = digits(0);
    if text.get(length) == Some(&b'.') {
        length += 1 + digits(length + 1);
    }
    if matches!(text.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    length
}

fn expected(what: &str, start: usize, found: &Token) -> Refusal {
    let place = start + 1;
    let name = found.name();
    format!("Expected {what} but found {name} at character {place}")
}
