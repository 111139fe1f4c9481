//! Values of RESP as values of Lua, and back: Redis's rules.

use stillframe_lua::mlua::{self, Lua, LuaString, Table, Value};
use stillframe_resp::{Out, Protocol, Reply};

use crate::host::Host;

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

/// The reply of RESP3 to a request, as a script reads it. The interpreter reads those of RESP2.
pub(crate) fn to_script(lua: &Lua, reply: &Reply<'_>) -> mlua::Result<Value> {
    let string = |bytes: &[u8]| lua.create_string(bytes).map(Value::String);
    let array = |replies: &[Reply<'_>]| -> mlua::Result<Value> {
        let table = lua.create_table_with_capacity(replies.len(), 0)?;
        for (index, reply) in replies.iter().enumerate() {
            table.raw_seti(index + 1, to_script(lua, reply)?)?;
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
        Reply::Array(replies) | Reply::Push(replies) => array(replies),
        Reply::Map(pairs) => {
            let table = lua.create_table_with_capacity(0, pairs.len())?;
            for (key, value) in pairs {
                let key = to_script(lua, key)?;
                table.raw_set(key, to_script(lua, value)?)?;
            }
            single(lua, "map", table)
        }
        Reply::Set(members) => {
            let table = lua.create_table_with_capacity(0, members.len())?;
            for member in members {
                table.raw_set(to_script(lua, member)?, true)?;
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

/// Names of the fields that make a table another reply than an array.
pub(crate) struct Fields {
    err: LuaString,
    ok: LuaString,
    double: LuaString,
    map: LuaString,
    set: LuaString,
    big_number: LuaString,
    verbatim_string: LuaString,
}

impl Fields {
    pub(crate) fn new(lua: &Lua) -> mlua::Result<Self> {
        Ok(Self {
            err: lua.create_string("err")?,
            ok: lua.create_string("ok")?,
            double: lua.create_string("double")?,
            map: lua.create_string("map")?,
            set: lua.create_string("set")?,
            big_number: lua.create_string("big_number")?,
            verbatim_string: lua.create_string("verbatim_string")?,
        })
    }

    /// What a script returned, as the reply of its client. `protocol` is the script's.
    pub(crate) fn to_client(
        &self,
        value: &Value,
        out: &mut Out<'_>,
        protocol: Protocol,
        host: &mut dyn Host,
    ) {
        Answer { fields: self, out: out.reborrow(), protocol, host }.value(value, 0);
    }
}

/// The reply of a script under way.
struct Answer<'a> {
    fields: &'a Fields,
    out: Out<'a>,
    /// The script's.
    protocol: Protocol,
    host: &'a mut dyn Host,
}

impl Answer<'_> {
    fn value(&mut self, value: &Value, depth: usize) {
        if depth == DEPTH_MAX {
            return self.error(b"ERR reached lua stack limit", false);
        }
        if self.out.is_full() {
            return; // tables that share others are endless when written out
        }
        match value {
            Value::String(text) => self.out.bulk(&*text.as_bytes()),
            Value::Integer(value) => self.out.integer(*value),
            Value::Number(value) => self.out.integer(truncated(*value)),
            Value::Boolean(value) if self.protocol == Protocol::Resp3 => self.out.boolean(*value),
            Value::Boolean(true) => self.out.integer(1),
            Value::Table(table) => self.table(table, depth),
            _ => self.out.null(),
        }
    }

    fn error(&mut self, text: &[u8], counted: bool) {
        self.out.error(text);
        self.host.replies_error(text, counted);
    }

    fn table(&mut self, table: &Table, depth: usize) {
        let Self { fields, out, .. } = self;
        let field = |name: &LuaString| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.as_bytes().to_vec()),
            Value::Integer(_) | Value::Number(_) => value.to_string().ok().map(String::into_bytes),
            _ => None,
        };
        if let Value::String(error) = field(&fields.err) {
            let counted = table.raw_get("ignore_error_stats_update").unwrap_or(false);
            return self.error(&error.as_bytes(), counted);
        }
        if let Value::String(status) = field(&fields.ok) {
            let line = String::from_utf8_lossy(&status.as_bytes()).replace(['\r', '\n'], " ");
            return out.simple(&line);
        }
        if let Value::Number(_) | Value::Integer(_) = field(&fields.double) {
            return out.double(table.raw_get(&fields.double).unwrap_or(0.0));
        }
        if let Value::Table(map) = field(&fields.map) {
            out.map(count(&map));
            return map.pairs::<Value, Value>().flatten().for_each(|(key, value)| {
                self.value(&key, depth + 1);
                self.value(&value, depth + 1);
            });
        }
        if let Value::Table(set) = field(&fields.set) {
            out.set(count(&set));
            let members = set.pairs::<Value, Value>().flatten();
            return members.for_each(|(member, _)| self.value(&member, depth + 1));
        }
        if let Some(digits) = text(&field(&fields.big_number)) {
            return out.big_number(&String::from_utf8_lossy(&digits).replace(['\r', '\n'], " "));
        }
        if let Value::Table(verbatim) = field(&fields.verbatim_string) {
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
                Ok(value) => self.value(&value, depth + 1),
            }
            length += 1;
        }
        self.out.array_at(start, length as usize);
    }
}

/// A number without its fraction. One that is too large, or none, is the least integer, as the
/// processors on which Redis runs have it.
pub(crate) fn truncated(value: f64) -> i64 {
    const LIMIT: f64 = (1u64 << 63) as f64;
    if (-LIMIT..LIMIT).contains(&value) { value as i64 } else { i64::MIN }
}

/// How many pairs a table has. The interpreter holds only some thousands of values for Rust at a
/// time, so they are not gathered.
fn count(table: &Table) -> usize {
    table.pairs::<Value, Value>().flatten().count()
}
