//! `cjson`: values of Lua as JSON and back, as lua-cjson 2.1 does. `codec.c` of `stillframe-lua`
//! writes JSON, and makes values of the pieces that are read here.

use stillframe_lua::mlua::{self, Lua, MultiValue, Table, Value, Variadic};
use stillframe_lua::{Piece, Place, UNTIL_CLOSE};

use super::one;

/// How deep values may nest, in both directions.
const DEPTH_MAX: usize = 1000;
/// An array may miss more than half of its places only up to this length.
const SPARSE_SAFE: f64 = 10.0;
const SPARSE_RATIO: f64 = 2.0;

type Args = Variadic<Value>;

/// What is not written in C: settings that Redis fixes for all scripts. They take and return what
/// is in force.
pub(super) fn settings(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
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
            Ok(MultiValue::from_vec(values))
        })?,
    )?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}

/// Reads the next piece of a value.
pub(super) fn next<'a>(
    text: &'a [u8],
    at: &mut usize,
    place: Place,
    buffer: &mut Vec<u8>,
) -> Piece<'a> {
    if place == Place::Whole && text.len() >= 2 && text[..2].contains(&0) {
        return wrong("JSON parser does not support UTF-16 or UTF-32", buffer);
    }
    let mut reader = Reader { text, at: *at, buffer };
    let piece = reader.piece(place);
    *at = reader.at;
    piece.unwrap_or_else(|refusal| wrong(&refusal, buffer))
}

fn wrong(text: &str, buffer: &mut Vec<u8>) -> Piece<'static> {
    buffer.clear();
    buffer.extend_from_slice(text.as_bytes());
    Piece::Wrong
}

struct Reader<'a, 'b> {
    text: &'a [u8],
    at: usize,
    /// Where a string without its escapes goes.
    buffer: &'b mut Vec<u8>,
}

/// One token.
#[derive(Clone, Copy)]
enum Token<'a> {
    Begin(u8),
    End(u8),
    Text(&'a [u8]),
    /// A string that had escapes: it lies in the buffer.
    Buffered,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    EndOfText,
    /// No token; why.
    Wrong(&'static str),
}

impl Token<'_> {
    fn name(self) -> &'static str {
        match self {
            Self::Begin(b'{') => "T_OBJ_BEGIN",
            Self::Begin(_) => "T_ARR_BEGIN",
            Self::End(b'}') => "T_OBJ_END",
            Self::End(_) => "T_ARR_END",
            Self::Text(_) | Self::Buffered => "T_STRING",
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

/// A token, with where it begins.
type Found<'a> = (usize, Token<'a>);

impl<'a> Reader<'a, '_> {
    fn piece(&mut self, place: Place) -> Result<Piece<'a>, String> {
        let found = self.token();
        match (place, found.1) {
            (Place::FirstItem, Token::End(b']'))
            | (Place::Item, Token::End(b']'))
            | (Place::FirstKey | Place::Key, Token::End(b'}'))
            | (Place::Rest, Token::EndOfText) => Ok(Piece::Close),
            (Place::Rest, _) => Err(expected("the end", found)),
            (Place::Whole | Place::FirstItem, _) => value(found),
            (Place::Item, Token::Comma) | (Place::Value, Token::Colon) => value(self.token()),
            (Place::Item, _) => Err(expected("comma or array end", found)),
            (Place::Value, _) => Err(expected("colon", found)),
            (Place::FirstKey, _) => key(found),
            (Place::Key, Token::Comma) => key(self.token()),
            (Place::Key, _) => Err(expected("comma or object end", found)),
        }
    }

    fn token(&mut self) -> Found<'a> {
        let rest = &self.text[self.at..];
        let blanks = rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.at += blanks;
        let start = self.at;
        let rest = &self.text[start..];
        let Some(&byte) = rest.first() else { return (start, Token::EndOfText) };
        let token = match byte {
            0 => return (start, Token::EndOfText), // as the end of a string of C
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

    fn word(&mut self, length: usize, token: Token<'a>) -> Found<'a> {
        let start = self.at;
        self.at += length;
        (start, token)
    }

    /// A number as `strtod` reads it, infinities and hexadecimal digits included.
    fn number(&mut self) -> Token<'a> {
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

    fn text(&mut self) -> Found<'a> {
        let start = self.at;
        self.at += 1;
        let first = self.at;
        loop {
            let at = self.at;
            let rest = &self.text[at..];
            let Some(plain) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0)) else {
                self.at = self.text.len();
                return (self.at, Token::Wrong("unexpected end of string"));
            };
            if rest[plain] == 0 {
                return (at + plain, Token::Wrong("unexpected end of string"));
            }
            self.at += plain + 1;
            let ends = rest[plain] == b'"';
            if ends && self.buffer.is_empty() && at == first {
                return (start, Token::Text(&rest[..plain]));
            }
            self.buffer.extend_from_slice(&rest[..plain]);
            if ends {
                return (start, Token::Buffered);
            }
            if let Err(wrong) = self.escape() {
                return (at + plain, Token::Wrong(wrong));
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<(), &'static str> {
        let escape = self.text.get(self.at).copied();
        self.at += 1;
        match escape {
            Some(plain @ (b'"' | b'\\' | b'/')) => self.buffer.push(plain),
            Some(b'b') => self.buffer.push(8),
            Some(b'f') => self.buffer.push(12),
            Some(b'n') => self.buffer.push(b'\n'),
            Some(b'r') => self.buffer.push(b'\r'),
            Some(b't') => self.buffer.push(b'\t'),
            Some(b'u') => {
                let point = self.code_point().ok_or("invalid unicode escape code")?;
                push_utf8(point, self.buffer);
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

/// The piece that a token is, or begins.
fn value<'a>(found: Found<'a>) -> Result<Piece<'a>, String> {
    Ok(match found.1 {
        Token::Text(text) => Piece::Text(text),
        Token::Buffered => Piece::Buffered,
        Token::Number(number) => Piece::Number(number),
        Token::Boolean(value) => Piece::Boolean(value),
        Token::Null => Piece::Empty,
        Token::Begin(b'{') => Piece::Map(UNTIL_CLOSE),
        Token::Begin(_) => Piece::List(UNTIL_CLOSE),
        _ => return Err(expected("value", found)),
    })
}

fn key<'a>(found: Found<'a>) -> Result<Piece<'a>, String> {
    match found.1 {
        Token::Text(text) => Ok(Piece::Text(text)),
        Token::Buffered => Ok(Piece::Buffered),
        _ => Err(expected("object key string", found)),
    }
}

fn expected(what: &str, (start, token): Found<'_>) -> String {
    format!("Expected {what} but found {} at character {}", token.name(), start + 1)
}
