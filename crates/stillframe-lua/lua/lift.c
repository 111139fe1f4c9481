/*
** Functions of Rust that raise errors of Lua.
**
** A function of Rust must not jump out of its own frames, and an error that it returns reaches the
** script as an object of the bindings. So such a function returns an error, or nil, before its
** values, and a function of C around it raises the error once the function of Rust is gone.
*/

#include "lua.h"
#include "lauxlib.h"

/* Calls the function in upvalue 1; raises the error that it returned. */
static int lifted (lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  if (lua_gettop(L) == 0 || lua_isnil(L, 1)) {
    if (lua_gettop(L) > 0) lua_remove(L, 1);
    return lua_gettop(L);
  }
  lua_settop(L, 1);
  if (lua_type(L, 1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, 1);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

/* Replaces the function on top of the stack by one that raises its errors. */
LUALIB_API void stillframe_lift (lua_State *L) {
  lua_pushcclosure(L, lifted, 1);
}

/* As `pcall'; an error that is a table with a text is caught as that text, as in Redis. */
static int caught (lua_State *L) {
  int status;
  luaL_checkany(L, 1);
  status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  lua_pushboolean(L, status == 0);
  lua_insert(L, 1);
  if (status == 0) return lua_gettop(L);
  lua_pausepoint(L, LUA_HOOKLINE);  /* a script that must end may not catch that */
  if (lua_istable(L, 2)) {
    lua_pushliteral(L, "err");
    lua_rawget(L, 2);
    if (lua_isstring(L, -1)) lua_replace(L, 2);
    else lua_pop(L, 1);
  }
  return 2;
}

/* As `xpcall'. */
static int handled (lua_State *L) {
  int status;
  luaL_checkany(L, 2);
  lua_settop(L, 2);
  lua_insert(L, 1);
  status = lua_pcall(L, 0, LUA_MULTRET, 1);
  if (status != 0) lua_pausepoint(L, LUA_HOOKLINE);
  lua_pushboolean(L, status == 0);
  lua_replace(L, 1);
  return lua_gettop(L);
}

/* Pushes those two functions. */
LUALIB_API void stillframe_catchers (lua_State *L) {
  lua_pushcfunction(L, caught);
  lua_pushcfunction(L, handled);
}
