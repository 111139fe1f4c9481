//! Values of RESP as values of Lua, and back: Redis's rules.

use stillframe_lua::mlua::{self, Lua, LuaString, Table, Value};
use stillframe_resp::{Out, Protocol, Reply};

/// How deep a reply may nest.
const DEPTH_MAX: usize = 1000;

/// A table with one field.
fn single(lua: &Lua, name: &str, value: impl mlua::IntoLua) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, value)?;
    Ok(Value::Table(table))
}

/// A status as scripts have it: `{ok = ..}`.
pub(crate) fn status(lua: &Lua, text: &[u8]) -> mlua::Result<Value> {
    single(lua, "ok", lua.create_string(text)?)
}

/// An error as scripts have it: `{err = ..}`.
pub(crate) fn error(lua: &Lua, text: &[u8]) -> mlua::Result<Value> {
    single(lua, "err", lua.create_string(text)?)
}

/// The reply to a request, as a script reads it. Null is `false` in RESP2.
pub(crate) fn to_script(lua: &Lua, reply: &Reply<'_>, protocol: Protocol) -> mlua::Result<Value> {
    let string = |bytes: &[u8]| lua.create_string(bytes).map(Value::String);
    let array = |replies: &[Reply<'_>]| -> mlua::Result<Value> {
        let table = lua.create_table_with_capacity(replies.len(), 0)?;
        for (index, reply) in replies.iter().enumerate() {
            table.raw_seti(index + 1, to_script(lua, reply, protocol)?)?;
        }
        Ok(Value::Table(table))
    };
    match reply {
        Reply::Simple(text) => status(lua, text),
        Reply::Error(text) => {
            let Value::Table(table) = error(lua, text)? else { return Ok(Value::Nil) };
            table.raw_set("ignore_error_stats_update", true)?;
            Ok(Value::Table(table))
        }
        Reply::Integer(value) => Ok(Value::Number(*value as f64)),
        Reply::Bulk(bytes) => string(bytes),
        Reply::Null | Reply::NullArray if protocol == Protocol::Resp3 => Ok(Value::Nil),
        Reply::Null | Reply::NullArray => Ok(Value::Boolean(false)),
        Reply::Array(replies) | Reply::Push(replies) => array(replies),
        Reply::Map(pairs) => {
            let table = lua.create_table_with_capacity(0, pairs.len())?;
            for (key, value) in pairs {
                let key = to_script(lua, key, protocol)?;
                table.raw_set(key, to_script(lua, value, protocol)?)?;
            }
            single(lua, "map", table)
        }
        Reply::Set(members) => {
            let table = lua.create_table_with_capacity(0, members.len())?;
            for member in members {
                table.raw_set(to_script(lua, member, protocol)?, true)?;
            }
            single(lua, "set", table)
        }
        Reply::Double(value) => single(lua, "double", *value),
        Reply::Boolean(value) => Ok(Value::Boolean(*value)),
        Reply::BigNumber(digits) => single(lua, "big_number", lua.create_string(digits)?),
        Reply::Verbatim(format, text) => {
            let table = lua.create_table_with_capacity(0, 2)?;
            table.raw_set("string", lua.create_string(text)?)?;
            table.raw_set("format", lua.create_string(format)?)?;
            single(lua, "verbatim_string", table)
        }
        _ => Ok(Value::Nil),
    }
}

/// What a script returned, as the reply of its client. `protocol` is the script's.
pub(crate) fn to_client(value: &Value, out: &mut Out<'_>, protocol: Protocol) {
    reply(value, out, protocol, 0);
}

fn reply(value: &Value, out: &mut Out<'_>, protocol: Protocol, depth: usize) {
    if depth == DEPTH_MAX {
        return out.error("ERR reached lua stack limit");
    }
    match value {
        Value::String(text) => out.bulk(&*text.as_bytes()),
        Value::Integer(value) => out.integer(*value),
        Value::Number(value) => out.integer(*value as i64),
        Value::Boolean(value) if protocol == Protocol::Resp3 => out.boolean(*value),
        Value::Boolean(true) => out.integer(1),
        Value::Table(table) => reply_table(table, out, protocol, depth),
        _ => out.null(),
    }
}

fn reply_table(table: &Table, out: &mut Out<'_>, protocol: Protocol, depth: usize) {
    let field = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(_) | Value::Number(_) => value.to_string().ok().map(String::into_bytes),
        _ => None,
    };
    if let Value::String(error) = field("err") {
        return out.error(&*error.as_bytes());
    }
    if let Value::String(status) = field("ok") {
        let line = String::from_utf8_lossy(&status.as_bytes()).replace(['\r', '\n'], " ");
        return out.simple(&line);
    }
    if let Value::Number(_) | Value::Integer(_) = field("double") {
        return out.double(table.raw_get("double").unwrap_or(0.0));
    }
    if let Value::Table(map) = field("map") {
        let pairs: Vec<_> = map.pairs::<Value, Value>().flatten().collect();
        out.map(pairs.len());
        for (key, value) in &pairs {
            reply(key, out, protocol, depth + 1);
            reply(value, out, protocol, depth + 1);
        }
        return;
    }
    if let Value::Table(set) = field("set") {
        let members: Vec<_> = set.pairs::<Value, Value>().flatten().collect();
        out.set(members.len());
        members.iter().for_each(|(member, _)| reply(member, out, protocol, depth + 1));
        return;
    }
    if let Some(digits) = text(&field("big_number")) {
        return out.big_number(&String::from_utf8_lossy(&digits).replace(['\r', '\n'], " "));
    }
    if let Value::Table(verbatim) = field("verbatim_string") {
        let part = |name| verbatim.raw_get::<Option<LuaString>>(name).ok().flatten();
        if let (Some(format), Some(string)) = (part("format"), part("string"))
            && let Ok(format) = <&[u8; 3]>::try_from(&*format.as_bytes())
        {
            return out.verbatim(format, &*string.as_bytes());
        }
    }
    let start = out.position();
    let mut length = 0;
    loop {
        match table.raw_get::<Value>(length + 1) {
            Ok(Value::Nil) | Err(_) => break,
            Ok(value) => reply(&value, out, protocol, depth + 1),
        }
        length += 1;
    }
    out.array_at(start, length as usize);
}
