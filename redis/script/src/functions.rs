//! Libraries of functions: loads them, and calls what they registered.
//!
//! - All libraries share one environment, which cannot be written. While a library loads, it shows
//!   `redis.register_function` and little else; later it shows what scripts see, without `KEYS`.
//! - A library that fails to load changes nothing.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use stillframe_lua::mlua::{self, Function, Lua, LuaString, Table, Value, Variadic};
use stillframe_lua::{Passed, lift, set_readonly};
use stillframe_resp::Out;

use crate::engine::{FUNCTION_CHUNK, Kept, Limits, Machine, Words};
use crate::error::{LibraryError, RunError};
use crate::host::Host;
use crate::reply::error;
use crate::shebang::{self, Flags};
use crate::version::RedisVersion;

/// A function of a library.
pub struct Registered {
    /// What the library says of it.
    pub description: Option<Vec<u8>>,
    /// What it may do.
    pub flags: Flags,
    callback: Kept,
}

/// A library.
pub struct Library {
    /// Its source.
    pub source: Arc<[u8]>,
    /// Its functions, by name.
    pub functions: BTreeMap<String, Registered>,
}

/// What the library that loads has registered; `None`: none loads.
type Registry = Rc<RefCell<Option<BTreeMap<String, Registered>>>>;

/// An interpreter with libraries. One thread uses it.
pub struct Functions {
    machine: Machine,
    /// The globals of libraries, and the table that decides what they show.
    globals: Table,
    shows: Table,
    /// What they show while a library loads.
    loading: Table,
    registry: Registry,
    libraries: BTreeMap<String, Library>,
    /// The library and the name of each function, by its name in lower case: calls ignore case.
    owners: HashMap<String, (String, String)>,
    /// Bytes of the sources.
    source_bytes: usize,
}

impl Functions {
    /// An interpreter without libraries.
    ///
    /// # Errors
    /// Memory does not suffice.
    pub fn new(limits: Limits, version: RedisVersion) -> Result<Self, mlua::Error> {
        let machine = Machine::new(limits, version)?;
        let lua = &machine.lua;
        let registry = Registry::default();
        let known = Rc::clone(&registry);
        let register = lua.create_function(move |lua, args: Variadic<Value>| {
            let Err(text) = register(lua, &args, &known)? else { return Ok(Value::Nil) };
            error(lua, format!("ERR {text}").as_bytes())
        })?;
        let redis: Table = lua.globals().raw_get("redis")?;
        let early = lua.create_table()?;
        early.raw_set("register_function", lift(lua, &register)?)?;
        for name in ["log", "LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"] {
            early.raw_set(name, redis.raw_get::<Value>(name)?)?;
        }
        for name in ["REDIS_VERSION", "REDIS_VERSION_NUM"] {
            early.raw_set(name, redis.raw_get::<Value>(name)?)?;
        }
        let missing: Table = machine.missing.clone();
        early.set_metatable(Some(missing.clone()))?;
        let loading = lua.create_table()?;
        for name in ["redis", "server"] {
            loading.raw_set(name, &early)?;
        }
        loading.set_metatable(Some(missing))?;
        let (globals, shows) = (lua.create_table()?, lua.create_table()?);
        shows.raw_set("__index", lua.globals())?;
        shows.raw_set("__metatable", false)?;
        globals.set_metatable(Some(shows.clone()))?;
        for table in [&early, &loading, &globals] {
            set_readonly(lua, table, true)?;
        }
        let (libraries, owners, source_bytes) = (BTreeMap::new(), HashMap::new(), 0);
        Ok(Self { machine, globals, shows, loading, registry, libraries, owners, source_bytes })
    }

    /// Changes the limits of the runs that follow.
    pub fn set_limits(&mut self, limits: Limits) {
        self.machine.set_limits(limits);
    }

    /// Loads a library, in place of one with the same name if `replace` says so; its name.
    ///
    /// # Errors
    /// The source is no library, or a name is taken.
    pub fn load(
        &mut self,
        source: &[u8],
        replace: bool,
        host: &mut dyn Host,
    ) -> Result<String, LibraryError> {
        let (name, start) = shebang::read_library(source)?;
        if self.libraries.contains_key(&name) && !replace {
            return Err(LibraryError::Exists(name));
        }
        let functions = self.register_all(&source[start..], host)?;
        if functions.is_empty() {
            return Err(LibraryError::Empty);
        }
        let owner = |function: &String| self.owners.get(&function.to_ascii_lowercase());
        let taken = |function: &&String| owner(function).is_some_and(|it| it.0 != name);
        if let Some(function) = functions.keys().find(taken) {
            return Err(LibraryError::FunctionExists(function.clone()));
        }
        self.delete(&name);
        for function in functions.keys() {
            let owner = (name.clone(), function.clone());
            self.owners.insert(function.to_ascii_lowercase(), owner);
        }
        self.source_bytes += source.len();
        self.libraries.insert(name.clone(), Library { source: source.into(), functions });
        Ok(name)
    }

    /// Runs the source of a library; what it registered.
    fn register_all(
        &mut self,
        source: &[u8],
        host: &mut dyn Host,
    ) -> Result<BTreeMap<String, Registered>, LibraryError> {
        let lua = &self.machine.lua;
        let broken = |error: mlua::Error| {
            LibraryError::Syntax(match error {
                mlua::Error::SyntaxError { message, .. } => message,
                other => other.to_string(),
            })
        };
        let chunk = lua.load(source).set_name(FUNCTION_CHUNK).set_environment(self.globals.clone());
        let chunk = chunk.set_mode(mlua::chunk::ChunkMode::Text).into_function().map_err(broken)?;
        *self.registry.borrow_mut() = Some(BTreeMap::new());
        let outcome = self
            .shows
            .raw_set("__index", &self.loading)
            .map_err(broken)
            .and_then(|()| self.machine.load(&chunk, host).map_err(LibraryError::Failed));
        let shown = self.shows.raw_set("__index", self.machine.lua.globals()).map_err(broken);
        let functions = self.registry.borrow_mut().take().unwrap_or_default();
        outcome.and(shown).map(|()| functions)
    }

    /// Deletes a library; false if there is none of this name.
    pub fn delete(&mut self, name: &str) -> bool {
        self.owners.retain(|_, owner| owner.0 != name);
        let removed = self.libraries.remove(name);
        self.source_bytes -= removed.as_ref().map_or(0, |library| library.source.len());
        let is_removed = removed.is_some();
        drop(removed);
        self.machine.lua.expire_registry_values();
        is_removed
    }

    /// The libraries, by name.
    pub fn libraries(&self) -> &BTreeMap<String, Library> {
        &self.libraries
    }

    /// How many functions there are.
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// What a function may do; `None` if there is none of this name.
    pub fn flags(&self, name: &str) -> Option<Flags> {
        let function = find(&self.owners, &self.libraries, name);
        function.map(|function| Flags { declared: true, ..function.flags })
    }

    /// Bytes of the interpreter, with all that functions made in it.
    pub fn memory_bytes(&self) -> usize {
        self.machine.lua.used_memory()
    }

    /// Bytes of the sources and of the lists of libraries and functions.
    pub fn list_bytes(&self) -> usize {
        self.source_bytes + self.owners.len() * size_of::<(String, Registered, String, String)>()
    }

    /// Calls a function: its reply goes to `out`, or its error is returned.
    ///
    /// # Errors
    /// The function raised an error, reached a limit, or does not exist.
    pub fn call(
        &mut self,
        name: &str,
        keys: &[&[u8]],
        args: &[&[u8]],
        host: &mut dyn Host,
        out: &mut Out<'_>,
    ) -> Result<(), RunError> {
        let Self { machine, owners, libraries, .. } = self;
        let Some(function) = find(owners, libraries, name) else {
            let text = b"ERR Function not found".to_vec();
            return Err(RunError { text, counted: false });
        };
        let words = Words { keys, args, passed: Passed::AsArguments };
        machine.run(name, &function.callback, words, host, out)
    }
}

/// The function of that name, in whatever case.
fn find<'l>(
    owners: &HashMap<String, (String, String)>,
    libraries: &'l BTreeMap<String, Library>,
    name: &str,
) -> Option<&'l Registered> {
    let (library, name) = owners.get(&name.to_ascii_lowercase())?;
    libraries.get(library)?.functions.get(name)
}

/// Registers a function, or says why not.
fn register(
    lua: &Lua,
    args: &[Value],
    registry: &Registry,
) -> mlua::Result<Result<(), &'static str>> {
    let mut registry = registry.borrow_mut();
    let Some(functions) = &mut *registry else {
        return Ok(Err("redis.register_function can only be called on FUNCTION LOAD command"));
    };
    let (name, function) = match read(lua, args)? {
        Ok(read) => read,
        Err(text) => return Ok(Err(text)),
    };
    if !shebang::is_name(&name) {
        return Ok(Err("Library names can only contain letters, numbers, or underscores(_) and \
                       must be at least one character long"));
    }
    let name = String::from_utf8_lossy(&name).into_owned();
    if functions.contains_key(&name) {
        return Ok(Err("Function already exists in the library"));
    }
    functions.insert(name, function);
    Ok(Ok(()))
}

/// The arguments of `redis.register_function`: a name and a function.
fn read(lua: &Lua, args: &[Value]) -> mlua::Result<Result<(Vec<u8>, Registered), &'static str>> {
    let plain = |callback: &Function| {
        let callback = Kept::new(lua, callback)?;
        Ok::<_, mlua::Error>(Registered { description: None, flags: Flags::default(), callback })
    };
    match args {
        [Value::Table(named)] => read_named(lua, named),
        [_] => {
            Ok(Err("calling redis.register_function with a single argument is only applicable \
                       to Lua table (representing named arguments)."))
        }
        [name, callback] => {
            let Some(name) = text(lua, name)? else {
                return Ok(Err("first argument to redis.register_function must be a string"));
            };
            match callback {
                Value::Function(callback) => Ok(Ok((name, plain(callback)?))),
                _ => Ok(Err("second argument to redis.register_function must be a function")),
            }
        }
        _ => Ok(Err("wrong number of arguments to redis.register_function")),
    }
}

/// A string, or the digits of a number.
fn text(lua: &Lua, value: &Value) -> mlua::Result<Option<Vec<u8>>> {
    Ok(lua.coerce_string(value.clone())?.map(|text| text.as_bytes().to_vec()))
}

fn read_named(
    lua: &Lua,
    named: &Table,
) -> mlua::Result<Result<(Vec<u8>, Registered), &'static str>> {
    let (mut name, mut description, mut callback) = (None, None, None);
    let mut flags = Flags::default();
    for pair in named.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let key: Option<LuaString> = lua.coerce_string(key)?;
        let Some(key) = key.map(|key| key.as_bytes().to_ascii_lowercase()) else {
            return Ok(Err("named argument key given to redis.register_function is not a string"));
        };
        match (&key[..], &value) {
            (b"function_name", value) => {
                name = text(lua, value)?;
                if name.is_none() {
                    return Ok(Err(
                        "function_name argument given to redis.register_function must \
                                   be a string",
                    ));
                }
            }
            (b"description", value) => {
                description = text(lua, value)?;
                if description.is_none() {
                    return Ok(Err(
                        "description argument given to redis.register_function must be \
                                   a string",
                    ));
                }
            }
            (b"callback", Value::Function(function)) => callback = Some(function.clone()),
            (b"callback", _) => {
                return Ok(Err(
                    "callback argument given to redis.register_function must be a function",
                ));
            }
            (b"flags", Value::Table(list)) => {
                for at in 1.. {
                    let flag = match list.raw_get::<Value>(at)? {
                        Value::Nil => break,
                        Value::String(flag) => flag.to_string_lossy().to_ascii_lowercase(),
                        _ => return Ok(Err("unknown flag given")),
                    };
                    if flags.set(&flag).is_err() {
                        return Ok(Err("unknown flag given"));
                    }
                }
            }
            (b"flags", _) => {
                return Ok(Err("flags argument to redis.register_function must be a table \
                               representing function flags"));
            }
            _ => return Ok(Err("unknown argument given to redis.register_function")),
        }
    }
    let Some(name) = name else {
        return Ok(Err("redis.register_function must get a function name argument"));
    };
    match callback {
        Some(callback) => {
            let callback = Kept::new(lua, &callback)?;
            Ok(Ok((name, Registered { description, flags, callback })))
        }
        None => Ok(Err("redis.register_function must get a callback argument")),
    }
}
