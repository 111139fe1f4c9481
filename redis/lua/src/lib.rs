//! Lua 5.1.5 for hostile scripts: the sources of Lua with patches, linked below [`mlua`].
//!
//! `lua/CHANGES.md` lists what differs from the published sources: no bytecode, no files, no system
//! calls, tables that cannot be written, limits to recursion, and mends of published defects.

mod codec;
mod direct;

pub use codec::{Next, Piece, Place, UNTIL_CLOSE, codecs};
pub use direct::{Argument, Ask, Passed, Reading, Runner, Word, requests};
pub use mlua;

use mlua::{Function, Lua, Table};
use mlua_sys::lua_State;

unsafe extern "C-unwind" {
    fn lua_setreadonly(state: *mut lua_State, index: i32, readonly: i32);
    fn stillframe_lift(state: *mut lua_State);
    fn stillframe_catchers(state: *mut lua_State);
}

/// Makes writes to a table raise an error, raw ones too, or ends that.
///
/// # Errors
/// Memory does not suffice.
pub fn set_readonly(lua: &Lua, table: &Table, readonly: bool) -> mlua::Result<()> {
    let set = |state| {
        // SAFETY: the argument of `exec_raw` below, a table, lies on top of the stack. This sets
        // one flag of that table.
        unsafe { lua_setreadonly(state, -1, readonly.into()) };
        // SAFETY: the stack of this call holds one value, and none is to be returned.
        unsafe { mlua_sys::lua_settop(state, -2) };
    };
    // SAFETY: `exec_raw` calls the closure in protected mode, with room on the stack. The closure
    // removes what was pushed for it, and owns nothing that a jump out of it would leave behind.
    unsafe { lua.exec_raw(table, set) }
}

/// A function that calls `function`, which returns an error, or nil, before its values, and raises
/// that error. A text gets the position of the caller, as errors of Lua's own libraries do.
///
/// # Errors
/// Memory does not suffice.
pub fn lift(lua: &Lua, function: &Function) -> mlua::Result<Function> {
    let wrap = |state| {
        // SAFETY: the argument of `exec_raw` below, a function, lies on top of the stack, and is
        // replaced by one other value.
        unsafe { stillframe_lift(state) }
    };
    // SAFETY: `exec_raw` calls the closure in protected mode, with room on the stack. The closure
    // owns nothing that a jump out of it would leave behind.
    unsafe { lua.exec_raw(function, wrap) }
}

/// `pcall` and `xpcall` that a script which must end cannot use to go on. An error that is a table
/// with a text in `err` is caught by `pcall` as that text.
///
/// # Errors
/// Memory does not suffice.
pub fn catchers(lua: &Lua) -> mlua::Result<(Function, Function)> {
    let push = |state| {
        // SAFETY: this pushes two values, for which `exec_raw` below has made room.
        unsafe { stillframe_catchers(state) }
    };
    // SAFETY: `exec_raw` calls the closure in protected mode, with room on the stack. The closure
    // owns nothing that a jump out of it would leave behind.
    unsafe { lua.exec_raw((), push) }
}
