//! `os.clock`, all that there is of the library, as from Redis 7.2 on.

use stillframe_lua::mlua::{self, Lua, Table, Value, Variadic};

use super::{Values, one};
use crate::host::SCRIPT;

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("clock", lua.create_function(clock)?)?;
    Ok(table)
}

fn clock(_: &Lua, _: Variadic<Value>) -> Values {
    one(Value::Number(SCRIPT.with(|(_, host)| host.0.clock().as_secs_f64())))
}
