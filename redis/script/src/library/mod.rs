//! Libraries that Redis gives to scripts, beside those of Lua.
//!
//! A function returns an error, or nil, before its values: see `prelude.lua`.

mod bits;
mod json;
mod msgpack;
mod os;
mod packed;
mod random;

use stillframe_lua::mlua::{self, Lua, MultiValue, Table, Value};

pub(crate) use random::SEED;

/// An error, or nil, and values.
type Values = mlua::Result<MultiValue>;

/// Adds the libraries to the table of what Rust implements.
pub(crate) fn add(lua: &Lua, rust: &Table) -> mlua::Result<()> {
    rust.raw_set("bit", bits::library(lua)?)?;
    rust.raw_set("cjson", json::settings(lua)?)?;
    rust.raw_set("cmsgpack", msgpack::names(lua)?)?;
    rust.raw_set("os", os::library(lua)?)?;
    rust.raw_set("struct", packed::library(lua)?)?;
    rust.raw_set("math", random::library(lua)?)
}

/// The functions that are written in C, by library.
pub(crate) fn direct(lua: &Lua) -> mlua::Result<Table> {
    let (json, message_pack) = stillframe_lua::codecs(lua, json::next, msgpack::next)?;
    let table = lua.create_table()?;
    table.raw_set("cjson", json)?;
    table.raw_set("cmsgpack", message_pack)?;
    Ok(table)
}

/// The error of a function: a text.
fn failed(lua: &Lua, text: impl AsRef<[u8]>) -> Values {
    Ok(MultiValue::from_vec(vec![Value::String(lua.create_string(text)?)]))
}

/// One value, and no error.
fn one(value: Value) -> Values {
    Ok(MultiValue::from_vec(vec![Value::Nil, value]))
}

/// A string, and no error.
fn string(lua: &Lua, bytes: &[u8]) -> Values {
    one(Value::String(lua.create_string(bytes)?))
}

/// A value as a number, as the functions of Lua take it: digits in a string are one.
fn number(lua: &Lua, value: Option<&Value>) -> Option<f64> {
    lua.coerce_number(value?.clone()).ok().flatten()
}

/// The error of a wrong argument: a place, and a text. The script sees the name by which it called.
fn wrong_argument(lua: &Lua, at: usize, text: impl AsRef<[u8]>) -> Values {
    let text = Value::String(lua.create_string(text)?);
    Ok(MultiValue::from_vec(vec![Value::Number(at as f64), text]))
}

/// `bad argument #1 to 'f' (number expected, got nil)`
fn bad_argument(lua: &Lua, at: usize, expected: &str, got: Option<&Value>) -> Values {
    let got = match got {
        None => "no value",
        Some(Value::Error(_) | Value::LightUserData(_)) => "userdata",
        Some(value) => match value.type_name() {
            "integer" => "number",
            other => other,
        },
    };
    wrong_argument(lua, at, format!("{expected} expected, got {got}"))
}
