/*
** Functions of Rust that raise errors of Lua.
**
** A function of Rust must not jump out of its own frames, and an error that it returns reaches the
** script as an object of the bindings. So such a function returns an error, or nil, before its
** values, and a function of C around it raises the error once the function of Rust is gone.
**
** Requests and runs come by the thousand, so these take their arguments and replies without the
** bindings: Rust gets what C has gathered, returns, and only then C makes values of Lua, which may
** jump. The structures here are those of `direct.rs'.
*/

#include <stdlib.h>
#include <string.h>

#include "lua.h"
#include "lauxlib.h"
#include "lift.h"

/*
** Calls the function in upvalue 1; raises the error that it returned. A number there is the place of a
** wrong argument, and what is wrong comes behind.
*/
static int lifted (lua_State *L) {
  int i;
  for (i = 1; i <= lua_gettop(L); i++)
    if (lua_type(L, i) == LUA_TSTRING) lua_work(L, lua_objlen(L, i) * 4);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  if (lua_gettop(L) == 0 || lua_isnil(L, 1)) {
    if (lua_gettop(L) > 0) lua_remove(L, 1);
    return lua_gettop(L);
  }
  if (lua_type(L, 1) == LUA_TNUMBER)
    return luaL_argerror(L, (int)lua_tonumber(L, 1), lua_tostring(L, 2));
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

/* An argument of a request: a text, or a number if there are no bytes. */
struct argument { struct text text; lua_Number number; };

/* How a reply is to be read. */
enum { READ_HERE, READ_BY_FUNCTION, PANICKED };

/* Runs a request. The reply stays where it is until the next request. Never jumps. */
extern int stillframe_request (const void *requests, const struct argument *arguments,
                               size_t count, struct text *reply);

/* Arguments that need no memory of Lua. */
#define ARGUMENTS 32

/* Pushes a table with one text. */
static void push_single (lua_State *L, const char *name, const char *bytes, size_t length) {
  lua_createtable(L, 0, 2);
  lua_pushstring(L, name);
  lua_pushlstring(L, bytes, length);
  lua_rawset(L, -3);
}

/* Pushes an error of `redis.call' itself. */
static int push_refusal (lua_State *L, const char *text) {
  push_single(L, "err", text, strlen(text));
  return '-';
}

/*
** Pushes the reply of RESP2 that `rest' begins with, and takes it off `rest'. Its first byte, or 0 if
** it is none; then what was pushed is to be dropped.
*/
static int push_reply (lua_State *L, struct text *rest) {
  const char *line = rest->bytes;
  const char *stop = rest->length ? memchr(line, '\n', rest->length) : NULL;
  size_t length;
  long long number, i;
  if (stop == NULL || stop - line < 2 || stop[-1] != '\r') return 0;
  length = (size_t)(stop - line) - 2;
  rest->length -= (size_t)(stop + 1 - line);
  rest->bytes = stop + 1;
  luaL_checkstack(L, 4, "a reply nests too deep");
  if (*line == '+') {
    push_single(L, "ok", line + 1, length);
    return '+';
  }
  if (*line == '-') {
    push_single(L, "err", line + 1, length);
    lua_pushliteral(L, "ignore_error_stats_update");
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
    return '-';
  }
  number = strtoll(line + 1, NULL, 10);  /* ends at the '\r' */
  if (*line == ':') lua_pushnumber(L, (lua_Number)number);
  else if (*line != '$' && *line != '*') return 0;
  else if (number < 0) lua_pushboolean(L, 0);
  else if ((size_t)number > rest->length) return 0;
  else if (*line == '$') {
    if ((size_t)number + 2 > rest->length) return 0;
    lua_pushlstring(L, rest->bytes, (size_t)number);
    rest->bytes += number + 2;
    rest->length -= (size_t)number + 2;
  }
  else {
    if (number > 0x7fffffff) return 0;
    lua_createtable(L, (int)number, 0);
    for (i = 1; i <= number; i++) {
      if (push_reply(L, rest) == 0) return 0;
      lua_rawseti(L, -2, (int)i);
    }
  }
  return *line;
}

/* Runs the request on the stack and pushes the reply; '-' if it is an error. */
static int ask (lua_State *L) {
  struct argument some[ARGUMENTS], *arguments = some;
  struct text reply;
  int i, kind, count = lua_gettop(L);
  if (count == 0)
    return push_refusal(L, "ERR Please specify at least one argument for this redis lib call");
  if (count > ARGUMENTS) arguments = lua_newuserdata(L, (size_t)count * sizeof(*arguments));
  for (i = 0; i < count; i++) {
    int type = lua_type(L, i + 1);
    arguments[i].text.bytes = NULL;
    arguments[i].text.length = 0;
    if (type == LUA_TSTRING) {
      arguments[i].text.bytes = lua_tolstring(L, i + 1, &arguments[i].text.length);
      lua_work(L, arguments[i].text.length / 8);
    }
    else if (type == LUA_TNUMBER) arguments[i].number = lua_tonumber(L, i + 1);
    else return push_refusal(L, "ERR Lua redis lib command arguments must be strings or integers");
  }
  kind = stillframe_request(lua_touserdata(L, lua_upvalueindex(1)), arguments, (size_t)count,
                            &reply);
  lua_settop(L, 0);  /* as many arguments as there may be leave no room for a reply */
  if (kind == PANICKED) return luaL_error(L, "the server failed");
  if (kind == READ_BY_FUNCTION) {
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_pushlstring(L, reply.bytes, reply.length);
    lua_call(L, 1, 2);  /* whether it is an error, and the value */
    return lua_toboolean(L, -2) ? '-' : '+';
  }
  kind = push_reply(L, &reply);
  return kind ? kind : push_refusal(L, "ERR the reply to this command cannot be read by a script");
}

/* `redis.call' */
static int called (lua_State *L) {
  return ask(L) == '-' ? lua_error(L) : 1;
}

/* `redis.pcall' */
static int called_safely (lua_State *L) {
  ask(L);
  return 1;
}

/*
** Replaces the place of requests and the function that reads replies by `redis.call' and
** `redis.pcall'.
*/
LUALIB_API void stillframe_requests (lua_State *L) {
  lua_pushvalue(L, -2);
  lua_pushvalue(L, -2);
  lua_pushcclosure(L, called, 2);
  lua_insert(L, -3);
  lua_pushcclosure(L, called_safely, 2);
}

/* How a run gets its keys and arguments. */
enum { AS_GLOBALS, AS_ARGUMENTS, NONE };

/* A run: its keys and then its arguments lie in `texts'. */
struct run { const struct text *texts; size_t keys; size_t args; int passed; };

static void push_list (lua_State *L, const struct text *texts, size_t count) {
  size_t i;
  lua_createtable(L, count < 0x7fffffff ? (int)count : 0, 0);
  for (i = 0; i < count; i++) {
    lua_pushlstring(L, texts[i].bytes, texts[i].length);
    lua_rawseti(L, -2, (int)i + 1);
  }
}

/*
** Runs a function: whether it succeeded, then what it returned, or its error from the handler. The
** upvalues are the table of `KEYS' and `ARGV', and the handler.
*/
static int ran (lua_State *L) {
  const struct run *run = lua_touserdata(L, 2);
  int status;
  lua_settop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_insert(L, 1);
  if (run->passed == AS_GLOBALS) lua_pushliteral(L, "KEYS");
  if (run->passed != NONE) push_list(L, run->texts, run->keys);
  if (run->passed == AS_GLOBALS) {
    lua_rawset(L, lua_upvalueindex(1));
    lua_pushliteral(L, "ARGV");
  }
  if (run->passed != NONE) push_list(L, run->texts + run->keys, run->args);
  if (run->passed == AS_GLOBALS) lua_rawset(L, lua_upvalueindex(1));
  status = lua_pcall(L, lua_gettop(L) - 2, 1, 1);
  lua_pushboolean(L, status == 0);
  lua_insert(L, -2);
  return 2;
}

/* Replaces the table and the handler by that function. */
LUALIB_API void stillframe_runner (lua_State *L) {
  lua_pushcclosure(L, ran, 2);
}
