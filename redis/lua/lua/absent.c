/*
** What a script must not have: files, the operating system, libraries of C, the debugger. The
** symbols stay, since the bindings name them; opening one raises an error.
*/

#include "lua.h"
#include "lauxlib.h"
#include "lualib.h"

static int absent (lua_State *L, const char *name) {
  return luaL_error(L, "the library `%s' is not part of this build", name);
}

LUALIB_API int luaopen_io (lua_State *L) { return absent(L, "io"); }
LUALIB_API int luaopen_os (lua_State *L) { return absent(L, "os"); }
LUALIB_API int luaopen_package (lua_State *L) { return absent(L, "package"); }
LUALIB_API int luaopen_debug (lua_State *L) { return absent(L, "debug"); }
LUALIB_API void luaL_openlibs (lua_State *L) { absent(L, "*"); }
