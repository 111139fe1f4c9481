//! The library `redis`: requests, replies, and what a script says to the server.
//!
//! Every function returns an error, or nil, before its values: see `prelude.lua`.

use stillframe_lua::mlua::{self, Function, Lua, LuaString, Table, Value, Variadic};
use stillframe_lua::{Argument, Reading, Word};
use stillframe_resp::{Protocol, decode_reply, format_double};

use crate::host::{Level, Propagation, Running, SCRIPT};
use crate::reply::{self, error, to_script, truncated};
use crate::sha::Sha;
use crate::version::RedisVersion;

/// An error, or nil, and a value.
pub(crate) type Returned = mlua::Result<(Value, Value)>;

const REPL_AOF: u32 = 1;
const REPL_REPLICA: u32 = 2;

/// The library.
pub(crate) fn library(lua: &Lua, version: RedisVersion) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let add = |name: &str, f: fn(&Lua, Variadic<Value>) -> Returned| {
        table.raw_set(name, lua.create_function(f)?)
    };
    add("status_reply", |lua, args| single(lua, &args, |text| reply::status(lua, text)))?;
    add("error_reply", |lua, args| {
        let in_c = |text: &[u8]| text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        single(lua, &args, |text| error(lua, &with_code(&text[..in_c(text)])))
    })?;
    add("sha1hex", sha1hex)?;
    let add_silent = |name: &str, f: fn(&Lua, Variadic<Value>) -> mlua::Result<Value>| {
        table.raw_set(name, lua.create_function(f)?)
    };
    add_silent("log", log)?;
    add_silent("setresp", set_resp)?;
    add_silent("set_repl", set_repl)?;
    add("acl_check_cmd", acl_check)?;
    add("replicate_commands", |_, _| Ok((Value::Nil, Value::Boolean(true))))?;
    add("breakpoint", |_, _| Ok((Value::Nil, Value::Boolean(false))))?;
    table.raw_set("debug", lua.create_function(|_, _: Variadic<Value>| Ok(Value::Nil))?)?;
    for (number, name) in
        ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"].iter().enumerate()
    {
        table.raw_set(*name, number)?;
    }
    table.raw_set("REPL_NONE", 0)?;
    table.raw_set("REPL_AOF", REPL_AOF)?;
    table.raw_set("REPL_REPLICA", REPL_REPLICA)?;
    table.raw_set("REPL_SLAVE", REPL_REPLICA)?;
    table.raw_set("REPL_ALL", REPL_AOF | REPL_REPLICA)?;
    table.raw_set("REDIS_VERSION", version.to_string())?;
    table.raw_set("REDIS_VERSION_NUM", version.number())?;
    Ok(table)
}

/// The text of an error as Redis has it: a single word is no code.
fn with_code(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let (code, rest) = match text.iter().position(|&byte| byte == b' ') {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (&b"ERR"[..], text),
    };
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let begin = rest.iter().position(|byte| !is_end(byte)).unwrap_or(rest.len());
    let end = rest.iter().rposition(|byte| !is_end(byte)).map_or(begin, |last| last + 1);
    [code, b" ", &rest[begin..end]].concat()
}

/// An error that a function of this library raises.
fn refuse(lua: &Lua, text: &str) -> mlua::Result<Value> {
    error(lua, format!("ERR {text}").as_bytes())
}

fn failed(lua: &Lua, text: &str) -> Returned {
    Ok((refuse(lua, text)?, Value::Nil))
}

/// `redis.call` and `redis.pcall`.
pub(crate) fn requests(lua: &Lua) -> mlua::Result<(Function, Function)> {
    stillframe_lua::requests(lua, ask, &lua.create_function(read)?)
}

/// Words of a request that need no memory of their own.
const FEW: usize = 16;

/// Runs a request.
fn ask(arguments: &[Argument<'_>], reply: &mut Vec<u8>) -> Reading {
    SCRIPT.with(|(running, host)| {
        let Running { digits, ends, protocol, .. } = running;
        digits.clear();
        ends.clear();
        for argument in arguments {
            if let Word::Number(value) = argument.word() {
                format_double(value, digits);
                ends.push(digits.len());
            }
        }
        let (mut start, mut ends) = (0, ends.iter());
        let words = arguments.iter().map(|argument| match argument.word() {
            Word::Text(text) => text,
            Word::Number(_) => {
                let end = *ends.next().unwrap_or(&start);
                &digits[std::mem::replace(&mut start, end)..end]
            }
        });
        let (mut few, many): ([&[u8]; FEW], Vec<&[u8]>);
        let request = if arguments.len() <= FEW {
            few = [&[]; FEW];
            few.iter_mut().zip(words).for_each(|(place, word)| *place = word);
            &few[..arguments.len()]
        } else {
            many = words.collect();
            &many[..]
        };
        host.0.call(request, *protocol, reply);
        match protocol {
            Protocol::Resp2 => Reading::Here,
            Protocol::Resp3 => Reading::ByFunction,
        }
    })
}

/// Reads a reply of RESP3: whether it is an error, and its value.
fn read(lua: &Lua, bytes: LuaString) -> mlua::Result<(bool, Value)> {
    match decode_reply(&bytes.as_bytes()) {
        Ok(Some((decoded, _))) => {
            let value = to_script(lua, &decoded)?;
            Ok((matches!(decoded, stillframe_resp::Reply::Error(_)), value))
        }
        _ => Ok((true, refuse(lua, "the reply to this command cannot be read by a script")?)),
    }
}

/// Copies the arguments into `buffer`, one after the other: where each ends, or nothing if one is
/// neither a string nor a number.
fn gather(args: &[Value], buffer: &mut Vec<u8>) -> Option<Vec<usize>> {
    buffer.clear();
    args.iter()
        .map(|arg| {
            match arg {
                Value::String(text) => buffer.extend_from_slice(&text.as_bytes()),
                Value::Integer(value) => format_double(*value as f64, buffer),
                Value::Number(value) => format_double(*value, buffer),
                _ => return None,
            }
            Some(buffer.len())
        })
        .collect()
}

/// The arguments that lie in `buffer` and end there.
fn words<'a>(buffer: &'a [u8], ends: &[usize]) -> Vec<&'a [u8]> {
    let mut start = 0;
    ends.iter().map(|&end| &buffer[std::mem::replace(&mut start, end)..end]).collect()
}

/// A function of one text.
fn single(lua: &Lua, args: &[Value], make: impl FnOnce(&[u8]) -> mlua::Result<Value>) -> Returned {
    match args {
        [Value::String(text)] => Ok((Value::Nil, make(&text.as_bytes())?)),
        // Redis returns this error instead of raising it.
        _ => Ok((Value::Nil, refuse(lua, "wrong number or type of arguments")?)),
    }
}

fn sha1hex(lua: &Lua, args: Variadic<Value>) -> Returned {
    let [value] = &args[..] else { return failed(lua, "wrong number of arguments") };
    let text: Option<LuaString> = lua.coerce_string(value.clone())?;
    let sha = Sha::hash(&text.map_or_else(Vec::new, |text| text.as_bytes().to_vec()));
    Ok((Value::Nil, Value::String(lua.create_string(sha.as_str())?)))
}

fn log(lua: &Lua, args: Variadic<Value>) -> mlua::Result<Value> {
    let [level, parts @ ..] = &args[..] else {
        return refuse(lua, "redis.log() requires two arguments or more.");
    };
    if parts.is_empty() {
        return refuse(lua, "redis.log() requires two arguments or more.");
    }
    let Some(level) = lua.coerce_number(level.clone())? else {
        return refuse(lua, "First argument must be a number (log level).");
    };
    let level = match truncated(level) {
        0 => Level::Debug,
        1 => Level::Verbose,
        2 => Level::Notice,
        3 => Level::Warning,
        _ => return refuse(lua, "Invalid debug level."),
    };
    let mut message = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        if let Some(text) = lua.coerce_string(part.clone())? {
            message.extend_from_slice(if index > 0 { b" " } else { b"" });
            message.extend_from_slice(&text.as_bytes());
        }
    }
    SCRIPT.with(|(_, host)| host.0.log(level, &message));
    Ok(Value::Nil)
}

fn set_resp(lua: &Lua, args: Variadic<Value>) -> mlua::Result<Value> {
    let [version] = &args[..] else {
        return refuse(lua, "redis.setresp() requires one argument.");
    };
    let protocol = match lua.coerce_number(version.clone())?.map(truncated) {
        Some(2) => Protocol::Resp2,
        Some(3) => Protocol::Resp3,
        _ => return refuse(lua, "RESP version must be 2 or 3."),
    };
    SCRIPT.with(|(running, _)| running.protocol = protocol);
    Ok(Value::Nil)
}

fn set_repl(lua: &Lua, args: Variadic<Value>) -> mlua::Result<Value> {
    let [bits] = &args[..] else {
        return refuse(lua, "redis.set_repl() requires two arguments.");
    };
    let bits = truncated(lua.coerce_number(bits.clone())?.unwrap_or(0.0));
    let Some(bits) = u32::try_from(bits).ok().filter(|bits| *bits <= REPL_AOF | REPL_REPLICA)
    else {
        let text = "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
        return refuse(lua, text);
    };
    let to = Propagation { log: bits & REPL_AOF != 0, replicas: bits & REPL_REPLICA != 0 };
    match SCRIPT.with(|(_, host)| host.0.propagate(to)) {
        Ok(()) => Ok(Value::Nil),
        Err(problem) => refuse(lua, problem),
    }
}

fn acl_check(lua: &Lua, args: Variadic<Value>) -> Returned {
    if args.is_empty() {
        return failed(lua, "Please specify at least one argument for this redis lib call");
    }
    let mut buffer = Vec::new();
    let Some(ends) = gather(&args, &mut buffer) else {
        return failed(lua, "redis.acl_check_cmd() require a string or integer arguments");
    };
    match SCRIPT.with(|(_, host)| host.0.may_run(&words(&buffer, &ends))) {
        Ok(may) => Ok((Value::Nil, Value::Boolean(may))),
        Err(_) => failed(lua, "Invalid command passed to redis.acl_check_cmd()"),
    }
}
