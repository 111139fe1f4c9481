/*
** `cjson' and `cmsgpack' without handles of the bindings, with the errors of lua-cjson 2.1 and
** lua-cmsgpack 0.4.
**
** Bytes come from outside, so Rust reads them, a piece at a time (`codec.rs'), and C makes values of
** the pieces once Rust has returned. C writes values. What is written lies in memory of Lua, so the
** limit of a script holds for it, and the hook is called now and then: tables that share others can
** be endless in writing.
*/

#include <limits.h>
#include <math.h>
#include <string.h>

#include "lua.h"
#include "lauxlib.h"
#include "lift.h"
#include "lobject.h"

/* Bytes that need no memory of Lua. */
#define SHORT 1024

/* Elements between two calls of the hook. */
#define PAUSE 100000

struct writer {
  lua_State *L;
  char *bytes;
  size_t length, room;
  int slot;  /* of the memory of Lua where the bytes lie */
  int until_pause;
  char some[SHORT];
};

static void begin (struct writer *w, lua_State *L) {
  w->L = L;
  w->bytes = w->some;
  w->length = 0;
  w->room = SHORT;
  w->until_pause = PAUSE;
  luaL_checkstack(L, 2, "too many arguments");
  lua_pushnil(L);
  w->slot = lua_gettop(L);
}

/* Makes room for so many bytes. The stack has a free place. */
static void grow (struct writer *w, size_t length) {
  size_t room = w->room * 2;
  char *bytes;
  lua_work(w->L, w->length / 8);
  if (room - w->length < length) room = w->length + length;
  bytes = lua_newuserdata(w->L, room);
  memcpy(bytes, w->bytes, w->length);
  lua_replace(w->L, w->slot);
  w->bytes = bytes;
  w->room = room;
}

static void put (struct writer *w, const void *bytes, size_t length) {
  if (w->room - w->length < length) grow(w, length);
  memcpy(w->bytes + w->length, bytes, length);
  w->length += length;
}

static void put_byte (struct writer *w, int byte) {
  if (w->room == w->length) grow(w, 1);
  w->bytes[w->length++] = (char)byte;
}

static void count_element (struct writer *w) {
  if (--w->until_pause > 0) return;
  w->until_pause = PAUSE;
  lua_pausepoint(w->L, LUA_HOOKCOUNT);
}

/*
** JSON
*/

/* How deep values may nest, in both directions. */
#define JSON_DEPTH 1000

/* An array may miss more than half of its places only up to this length. */
#define SPARSE_SAFE 10
#define SPARSE_RATIO 2

static void json_refuse (lua_State *L, int index, const char *why) {
  luaL_error(L, "Cannot serialise %s: %s", lua_typename(L, lua_type(L, index)), why);
}

static void json_number (struct writer *w, int index) {
  char digits[LUAI_MAXNUMBER2STR];
  lua_Number number = lua_tonumber(w->L, index);
  if (!isfinite(number)) json_refuse(w->L, index, "must not be NaN or Inf");
  put(w, digits, (size_t)luaO_number2str(digits, number));
}

static void json_string (struct writer *w, int index) {
  static const char hex[] = "0123456789abcdef";
  size_t length;
  const char *next = lua_tolstring(w->L, index, &length);
  const char *plain = next, *end = next + length;
  put_byte(w, '"');
  for (; next < end; next++) {
    unsigned char byte = (unsigned char)*next;
    char code[6] = {'\\', (char)byte, '0', '0', 0, 0};
    size_t size = 2;
    if (byte >= 0x20 && byte != '"' && byte != '\\' && byte != '/' && byte != 0x7f) continue;
    put(w, plain, (size_t)(next - plain));
    plain = next + 1;
    switch (byte) {
      case '"': case '\\': case '/': break;
      case '\b': code[1] = 'b'; break;
      case '\t': code[1] = 't'; break;
      case '\n': code[1] = 'n'; break;
      case '\f': code[1] = 'f'; break;
      case '\r': code[1] = 'r'; break;
      default:
        code[1] = 'u';
        code[4] = hex[byte >> 4];
        code[5] = hex[byte & 15];
        size = 6;
    }
    put(w, code, size);
  }
  put(w, plain, (size_t)(end - plain));
  put_byte(w, '"');
}

/* The length of the array on top of the stack, or -1 if the table is an object, as an empty one. */
static int json_length (struct writer *w) {
  lua_State *L = w->L;
  int max = 0, items = 0;
  lua_pushnil(L);
  while (lua_next(L, -2) != 0) {
    lua_Number key = lua_type(L, -2) == LUA_TNUMBER ? lua_tonumber(L, -2) : 0;
    if (!(key > 0 && floor(key) == key)) {
      lua_pop(L, 2);
      return -1;
    }
    /* lua-cjson keeps an `int', which a larger key turns into the least one */
    if (key > max) max = key > INT_MAX ? INT_MIN : (int)key;
    items++;
    lua_pop(L, 1);
    count_element(w);
  }
  if (max > (long long)items * SPARSE_RATIO && max > SPARSE_SAFE)
    json_refuse(L, -1, "excessively sparse array");
  return max > 0 ? max : -1;
}

static void json_value (struct writer *w, int depth);

static void json_table (struct writer *w, int depth) {
  lua_State *L = w->L;
  int length, i;
  if (depth > JSON_DEPTH || !lua_checkstack(L, 4))
    luaL_error(L, "Cannot serialise, excessive nesting (%d)", depth);
  length = json_length(w);
  put_byte(w, length >= 0 ? '[' : '{');
  for (i = 1; i <= length; i++) {
    if (i > 1) put_byte(w, ',');
    lua_rawgeti(L, -1, i);
    json_value(w, depth);
    lua_pop(L, 1);
  }
  if (length < 0) {
    size_t start = w->length;
    lua_pushnil(L);
    while (lua_next(L, -2) != 0) {
      if (w->length > start) put_byte(w, ',');
      if (lua_type(L, -2) == LUA_TSTRING) json_string(w, -2);
      else if (lua_type(L, -2) == LUA_TNUMBER) {
        put_byte(w, '"');
        json_number(w, -2);
        put_byte(w, '"');
      }
      else json_refuse(L, -2, "table key must be a number or string");
      put_byte(w, ':');
      json_value(w, depth);
      lua_pop(L, 1);
      count_element(w);
    }
  }
  put_byte(w, length >= 0 ? ']' : '}');
}

/* Writes the value on top of the stack. */
static void json_value (struct writer *w, int depth) {
  lua_State *L = w->L;
  switch (lua_type(L, -1)) {
    case LUA_TSTRING: json_string(w, -1); break;
    case LUA_TNUMBER: json_number(w, -1); break;
    case LUA_TTABLE: json_table(w, depth + 1); break;
    case LUA_TBOOLEAN:
      if (lua_toboolean(L, -1)) put(w, "true", 4);
      else put(w, "false", 5);
      break;
    case LUA_TLIGHTUSERDATA:
      if (lua_touserdata(L, -1) != NULL) json_refuse(L, -1, "type not supported");
      put(w, "null", 4);
      break;
    case LUA_TNIL: put(w, "null", 4); break;
    default: json_refuse(L, -1, "type not supported");
  }
}

/* `cjson.encode' */
static int json_encode (lua_State *L) {
  struct writer w;
  luaL_argcheck(L, lua_gettop(L) == 1, 1, "expected 1 argument");
  begin(&w, L);
  lua_pushvalue(L, 1);
  json_value(&w, 0);
  lua_pushlstring(L, w.bytes, w.length);
  return 1;
}

/*
** MessagePack
*/

/* Tables nested deeper are written as nil. */
#define PACK_DEPTH 16

/* Writes a tag and the low bytes of a number, the highest first. */
static void put_tagged (struct writer *w, int tag, unsigned long long bits, int size) {
  unsigned char bytes[9];
  int i;
  bytes[0] = (unsigned char)tag;
  for (i = 1; i <= size; i++) bytes[i] = (unsigned char)(bits >> 8 * (size - i));
  put(w, bytes, (size_t)size + 1);
}

static void pack_integer (struct writer *w, long long value) {
  unsigned long long bits = (unsigned long long)value;
  if (value >= -32 && value <= 0x7f) put_byte(w, (int)(bits & 0xff));
  else if (value >= 0) {
    if (value <= 0xff) put_tagged(w, 0xcc, bits, 1);
    else if (value <= 0xffff) put_tagged(w, 0xcd, bits, 2);
    else if (value <= 0xffffffffLL) put_tagged(w, 0xce, bits, 4);
    else put_tagged(w, 0xcf, bits, 8);
  }
  else if (value >= -0x80) put_tagged(w, 0xd0, bits, 1);
  else if (value >= -0x8000) put_tagged(w, 0xd1, bits, 2);
  else if (value >= -0x80000000LL) put_tagged(w, 0xd2, bits, 4);
  else put_tagged(w, 0xd3, bits, 8);
}

static void pack_number (struct writer *w, lua_Number number) {
  const lua_Number limit = 9223372036854775808.0;
  if (number >= -limit && number < limit && (lua_Number)(long long)number == number)
    pack_integer(w, (long long)number);
  else if ((lua_Number)(float)number == number) {
    float value = (float)number;
    unsigned int bits;
    memcpy(&bits, &value, sizeof(bits));
    put_tagged(w, 0xca, bits, 4);
  }
  else {
    unsigned long long bits;
    memcpy(&bits, &number, sizeof(bits));
    put_tagged(w, 0xcb, bits, 8);
  }
}

/* Writes a length below `few' within `tag', or behind one of three tags, the first of which may be 0. */
static void pack_length (struct writer *w, size_t length, int tag, size_t few, const int tags[3]) {
  if (length < few) put_byte(w, tag | (int)length);
  else if (tags[0] && length <= 0xff) put_tagged(w, tags[0], length, 1);
  else if (length <= 0xffff) put_tagged(w, tags[1], length, 2);
  else put_tagged(w, tags[2], length, 4);
}

/* Whether the keys of the table on top of the stack are the numbers from 1 on; counts them. */
static int is_list (struct writer *w, size_t *count) {
  lua_State *L = w->L;
  lua_Number max = 0;
  int is = 1;
  *count = 0;
  lua_pushnil(L);
  while (lua_next(L, -2) != 0) {
    lua_Number key = lua_type(L, -2) == LUA_TNUMBER ? lua_tonumber(L, -2) : 0;
    if (!(key > 0 && key <= 0x7fffffff && floor(key) == key)) is = 0;
    if (key > max) max = key;
    lua_pop(L, 1);
    (*count)++;
    count_element(w);
  }
  return is && max == (lua_Number)*count;
}

/* Writes the value on top of the stack. */
static void pack_value (struct writer *w, int depth) {
  static const int of_string[] = {0xd9, 0xda, 0xdb}, of_list[] = {0, 0xdc, 0xdd},
                   of_map[] = {0, 0xde, 0xdf};
  lua_State *L = w->L;
  size_t length;
  int type = lua_type(L, -1);
  luaL_checkstack(L, 4, "in function mp_encode_lua_type");
  if (type == LUA_TSTRING) {
    const char *bytes = lua_tolstring(L, -1, &length);
    pack_length(w, length, 0xa0, 32, of_string);
    put(w, bytes, length);
  }
  else if (type == LUA_TNUMBER) pack_number(w, lua_tonumber(L, -1));
  else if (type == LUA_TBOOLEAN) put_byte(w, lua_toboolean(L, -1) ? 0xc3 : 0xc2);
  else if (type != LUA_TTABLE || depth == PACK_DEPTH) put_byte(w, 0xc0);
  else if (is_list(w, &length)) {
    size_t i, items = lua_objlen(L, -1);
    pack_length(w, items, 0x90, 16, of_list);
    for (i = 1; i <= items; i++) {
      lua_rawgeti(L, -1, (int)i);
      pack_value(w, depth + 1);
      lua_pop(L, 1);
    }
  }
  else {
    pack_length(w, length, 0x80, 16, of_map);
    lua_pushnil(L);
    while (lua_next(L, -2) != 0) {
      lua_pushvalue(L, -2);
      pack_value(w, depth + 1);
      lua_pop(L, 1);
      pack_value(w, depth + 1);
      lua_pop(L, 1);
    }
  }
}

/* `cmsgpack.pack' */
static int pack (lua_State *L) {
  struct writer w;
  int i, count = lua_gettop(L);
  if (count == 0) return luaL_argerror(L, 0, "MessagePack pack needs input.");
  begin(&w, L);
  for (i = 1; i <= count; i++) {
    lua_pushvalue(L, i);
    pack_value(&w, 0);
    lua_pop(L, 1);
  }
  lua_pushlstring(L, w.bytes, w.length);
  return 1;
}

/*
** Reading. The enumerations and `struct piece' are those of `codec.rs'.
*/

enum { JSON, MESSAGE_PACK };

/* What may come next. */
enum { WHOLE, FIRST_ITEM, ITEM, FIRST_KEY, KEY, VALUE, REST };

enum { NIL, NO, YES, EMPTY, NUMBER, TEXT, LIST, MAP, CLOSE, WRONG };

struct piece { int kind; lua_Number number; struct text text; size_t count; };

struct source { const void *readers; int format; struct text bytes; size_t at; };

/* Reads what comes next. Its text stays where it is until the next call. Never jumps. */
extern void stillframe_next (const void *readers, int format, const struct text *bytes, size_t *at,
                             int place, struct piece *piece);

#define TOO_MANY "too many return values at once; use unpack_one or unpack_limit instead."

/* Checks how deep a value of JSON nests. MessagePack has the stack for a limit, as in lua-cmsgpack. */
static void check_depth (lua_State *L, const struct source *s, int depth) {
  if (depth <= JSON_DEPTH && lua_checkstack(L, 4)) return;
  luaL_error(L, "Found too many nested data structures (%d) at character %d", depth, (int)s->at);
}

/* Pushes the next value, and returns its kind; for CLOSE it pushes nothing. */
static int read_value (lua_State *L, struct source *s, int place, int depth) {
  int is_json = s->format == JSON;
  struct piece piece;
  size_t i;
  if (!is_json) luaL_checkstack(L, 1, TOO_MANY);
  lua_work(L, 64);
  stillframe_next(s->readers, s->format, &s->bytes, &s->at, place, &piece);
  switch (piece.kind) {
    case NIL: lua_pushnil(L); break;
    case NO: lua_pushboolean(L, 0); break;
    case YES: lua_pushboolean(L, 1); break;
    case EMPTY: lua_pushlightuserdata(L, NULL); break;
    case NUMBER: lua_pushnumber(L, piece.number); break;
    case TEXT: lua_pushlstring(L, piece.text.bytes, piece.text.length); break;
    case LIST:
      if (is_json) check_depth(L, s, ++depth);
      lua_newtable(L);
      if (!is_json) luaL_checkstack(L, 1, "in function mp_decode_to_lua_array");
      for (i = 1; i <= piece.count; i++) {
        lua_pushnumber(L, (lua_Number)i);
        if (read_value(L, s, i > 1 ? ITEM : FIRST_ITEM, depth) == CLOSE) {
          lua_pop(L, 1);
          break;
        }
        lua_rawset(L, -3);
      }
      break;
    case MAP:
      if (is_json) check_depth(L, s, ++depth);
      lua_newtable(L);
      for (i = 1; i <= piece.count; i++) {
        if (read_value(L, s, i > 1 ? KEY : FIRST_KEY, depth) == CLOSE) break;
        read_value(L, s, VALUE, depth);
        lua_rawset(L, -3);
      }
      break;
    case WRONG:
      luaL_where(L, 1);
      lua_pushlstring(L, piece.text.bytes, piece.text.length);
      lua_concat(L, 2);
      lua_error(L);
  }
  return piece.kind;
}

static struct source source_of (lua_State *L, int format) {
  struct source s;
  s.readers = lua_touserdata(L, lua_upvalueindex(1));
  s.format = format;
  s.bytes.bytes = luaL_checklstring(L, 1, &s.bytes.length);
  s.at = 0;
  return s;
}

/* `cjson.decode' */
static int json_decode (lua_State *L) {
  struct source s;
  luaL_argcheck(L, lua_gettop(L) == 1, 1, "expected 1 argument");
  s = source_of(L, JSON);
  read_value(L, &s, WHOLE, 0);
  read_value(L, &s, REST, 0);
  return 1;
}

/* Unpacks values: all, or so many from an offset on, behind which the next offset comes first. */
static int unpack_some (lua_State *L, int limit, int offset) {
  int all = limit == 0 && offset == 0;
  int count;
  struct source s = source_of(L, MESSAGE_PACK);
  if (offset < 0 || limit < 0)
    return luaL_error(L, "Invalid request to unpack with offset of %d and limit of %d.", offset,
                      (int)s.bytes.length);
  if ((size_t)offset > s.bytes.length)
    return luaL_error(L, "Start offset %d greater than input length %d.", offset,
                      (int)s.bytes.length);
  s.at = (size_t)offset;
  for (count = 0; s.at < s.bytes.length && (all || count < limit); count++)
    read_value(L, &s, VALUE, 0);
  if (all) return count;
  luaL_checkstack(L, 1, "in function mp_unpack_full");
  lua_pushnumber(L, s.at == s.bytes.length ? -1 : (lua_Number)s.at);
  lua_insert(L, 2);
  return count + 1;
}

/* `cmsgpack.unpack' */
static int unpack (lua_State *L) {
  return unpack_some(L, 0, 0);
}

/* `cmsgpack.unpack_one' */
static int unpack_one (lua_State *L) {
  int offset = (int)luaL_optinteger(L, 2, 0);
  lua_settop(L, 1);
  return unpack_some(L, 1, offset);
}

/* `cmsgpack.unpack_limit' */
static int unpack_limit (lua_State *L) {
  int limit = (int)luaL_checkinteger(L, 2);
  int offset = (int)luaL_optinteger(L, 3, 0);
  lua_settop(L, 1);
  return unpack_some(L, limit, offset);
}

static void add (lua_State *L, const char *name, lua_CFunction function) {
  lua_pushvalue(L, -2);
  lua_pushcclosure(L, function, 1);
  lua_setfield(L, -2, name);
}

/* Replaces the place of the readers by the functions of `cjson' and of `cmsgpack'. */
LUALIB_API void stillframe_codecs (lua_State *L) {
  lua_newtable(L);
  add(L, "encode", json_encode);
  add(L, "decode", json_decode);
  lua_insert(L, -2);
  lua_newtable(L);
  add(L, "pack", pack);
  add(L, "unpack", unpack);
  add(L, "unpack_one", unpack_one);
  add(L, "unpack_limit", unpack_limit);
  lua_remove(L, -2);
}
