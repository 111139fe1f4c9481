//! `cmsgpack`: values of Lua in MessagePack and back, as lua-cmsgpack 0.4 does. `codec.c` of
//! `stillframe-lua` writes MessagePack, and makes values of the pieces that are read here.

use stillframe_lua::mlua::{self, Lua, Table};
use stillframe_lua::{Piece, Place};

/// What the library says of itself.
pub(super) fn names(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(table)
}

/// Reads the next piece of a value, wherever it stands.
pub(super) fn next<'a>(
    bytes: &'a [u8],
    at: &mut usize,
    _: Place,
    buffer: &mut Vec<u8>,
) -> Piece<'a> {
    let mut reader = Reader { bytes, at: *at };
    let piece = reader.piece();
    *at = reader.at;
    piece.unwrap_or_else(|wrong| {
        buffer.extend_from_slice(wrong.as_bytes());
        Piece::Wrong
    })
}

const BAD: &str = "Bad data format in input.";
const SHORT: &str = "Missing bytes in input.";

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
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

    fn piece(&mut self) -> Result<Piece<'a>, &'static str> {
        let [tag] = self.take::<1>()?;
        let length = match tag {
            0xd9 => self.length(1)?,
            0xda | 0xdc | 0xde => self.length(2)?,
            0xdb | 0xdd | 0xdf => self.length(4)?,
            0xa0..=0xbf => usize::from(tag & 31),
            _ => usize::from(tag & 15),
        };
        match tag {
            0xa0..=0xbf | 0xd9..=0xdb => self.text(length),
            0x90..=0x9f | 0xdc | 0xdd => Ok(Piece::List(length)),
            0x80..=0x8f | 0xde | 0xdf => Ok(Piece::Map(length)),
            _ => self.scalar(tag),
        }
    }

    fn scalar(&mut self, tag: u8) -> Result<Piece<'a>, &'static str> {
        Ok(Piece::Number(match tag {
            0..=0x7f => f64::from(tag),
            0xe0..=0xff => f64::from(tag as i8),
            0xc0 => return Ok(Piece::Nil),
            0xc2 | 0xc3 => return Ok(Piece::Boolean(tag == 0xc3)),
            0xca => f32::from_be_bytes(self.take()?).into(),
            0xcb => f64::from_be_bytes(self.take()?),
            0xcc => self.take::<1>()?[0].into(),
            0xcd => u16::from_be_bytes(self.take()?).into(),
            0xce => u32::from_be_bytes(self.take()?).into(),
            0xd0 => i8::from_be_bytes(self.take()?).into(),
            0xd1 => i16::from_be_bytes(self.take()?).into(),
            0xd2 => i32::from_be_bytes(self.take()?).into(),
            // lua-cmsgpack takes numbers without a sign of 64 bits for such with one.
            0xcf | 0xd3 => i64::from_be_bytes(self.take()?) as f64,
            _ => return Err(BAD),
        }))
    }

    fn text(&mut self, length: usize) -> Result<Piece<'a>, &'static str> {
        let text = self.bytes.get(self.at..).and_then(|rest| rest.get(..length)).ok_or(SHORT)?;
        self.at += length;
        Ok(Piece::Text(text))
    }
}
