//! Loads scripts and runs them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use stillframe_lua::mlua::{
    self, Function, HookTriggers, Lua, LuaOptions, LuaString, RegistryKey, StdLib, Table, Value,
    VmState,
};
use stillframe_lua::{Passed, Runner, set_readonly};
use stillframe_resp::{Out, Protocol};

use crate::error::{LoadError, RunError};
use crate::host::{Host, INSTRUCTIONS_PER_PAUSE, Lent, Running, SCRIPT, Stop, Verdict};
use crate::reply::Fields;
use crate::sha::{Sha, Spread};
use crate::shebang::{self, Flags};
use crate::version::RedisVersion;
use crate::{library, redis};

/// Name of every script in error messages, as in Redis.
const CHUNK: &str = "@user_script";

/// Name of every library in error messages.
pub(crate) const FUNCTION_CHUNK: &str = "@user_function";

/// What scripts may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the interpreter with all scripts in it; 0 for no limit.
    pub memory_bytes: usize,
    /// Instructions of the interpreter in one run, rounded up to the next 100,000; 0 for no limit.
    pub instructions: u64,
}

/// One run of a script.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The script.
    pub sha: Sha,
    /// `KEYS`
    pub keys: &'a [&'a [u8]],
    /// `ARGV`
    pub args: &'a [&'a [u8]],
}

struct Script {
    source: Rc<[u8]>,
    function: Kept,
    flags: Flags,
}

/// A function that the interpreter keeps. Of handles, the bindings have room for some thousands
/// alone, whatever memory there is; so nothing holds one for each script.
pub(crate) struct Kept(RegistryKey);

impl Kept {
    pub(crate) fn new(lua: &Lua, function: &Function) -> mlua::Result<Self> {
        lua.create_registry_value(function).map(Self)
    }

    /// A handle, for a short time.
    fn get(&self, lua: &Lua) -> mlua::Result<Function> {
        lua.registry_value(&self.0)
    }
}

/// What a function is given.
pub(crate) struct Words<'a> {
    pub(crate) keys: &'a [&'a [u8]],
    pub(crate) args: &'a [&'a [u8]],
    pub(crate) passed: Passed,
}

/// An interpreter, its limits, and what runs in it.
pub(crate) struct Machine {
    pub(crate) lua: Lua,
    /// Runs a function in protected mode.
    runner: Runner,
    /// Names of fields that replies have.
    fields: Fields,
    /// What tables have in common that raise an error for a missing field.
    pub(crate) missing: Table,
    running: Running,
    limits: Limits,
}

/// An interpreter with its scripts. One thread uses it.
pub struct Engine {
    machine: Machine,
    scripts: HashMap<Sha, Script, Spread>,
    /// Bytes of the sources.
    source_bytes: usize,
}

impl Machine {
    pub(crate) fn new(limits: Limits, version: RedisVersion) -> Result<Self, mlua::Error> {
        let lua = Lua::new_with(
            StdLib::TABLE | StdLib::STRING | StdLib::MATH,
            LuaOptions::new().catch_rust_panics(true),
        )?;
        let rust = lua.create_table()?;
        rust.raw_set("redis", redis::library(&lua, version)?)?;
        library::add(&lua, &rust)?;
        let lift = lua.create_function(|lua, function| stillframe_lua::lift(lua, &function))?;
        let (pcall, xpcall) = stillframe_lua::catchers(&lua)?;
        let (request, request_safely) = redis::requests(&lua)?;
        let prelude = lua.load(include_str!("prelude.lua")).set_name("=prelude");
        let words = (rust, library::direct(&lua)?, lift, pcall, xpcall, request, request_safely);
        let (frame, missing) = prelude.call::<(Table, Table)>(words)?;
        let runner = Runner::new(&lua, &frame, &lua.create_function(locate)?)?;
        let fields = Fields::new(&lua)?;
        protect(&lua)?;
        let running = Running {
            protocol: Protocol::Resp2,
            stopped: None,
            pauses_left: 0,
            digits: Vec::new(),
            ends: Vec::new(),
            random: library::SEED,
        };
        let machine = Self { lua, runner, fields, missing, running, limits };
        machine.watch()?;
        machine.lua.set_memory_limit(limits.memory_bytes)?;
        Ok(machine)
    }

    pub(crate) fn set_limits(&mut self, limits: Limits) {
        if self.limits != limits {
            self.limits = limits;
            // The interpreter was made with a limit, so it can have another.
            let _ = self.lua.set_memory_limit(limits.memory_bytes);
        }
    }

    /// Runs a function: its reply goes to `out`, or its error is returned.
    pub(crate) fn run(
        &mut self,
        name: &str,
        function: &Kept,
        words: Words<'_>,
        host: &mut dyn Host,
        out: &mut Out<'_>,
    ) -> Result<(), RunError> {
        let function = function.get(&self.lua).map_err(|error| RunError::inner(&error))?;
        let result = match self.start(&function, words, host) {
            Ok((true, value)) => {
                self.fields.to_client(&value, out, self.running.protocol, host);
                return Ok(());
            }
            Ok((false, error)) => RunError::raised(&error, name),
            Err(error) => RunError::inner(&error),
        };
        if result.is_memory() {
            let _ = self.lua.gc_collect(); // what this script left behind is not the next one's
        }
        Err(result)
    }

    /// Runs a function: whether it succeeded, and its value or error.
    fn start(
        &mut self,
        function: &Function,
        Words { keys, args, passed }: Words<'_>,
        host: &mut dyn Host,
    ) -> mlua::Result<(bool, Value)> {
        self.running.begin(self.limits.instructions);
        let Self { lua, runner, running, .. } = self;
        let run = || runner.run(lua, function, keys, args, passed);
        let outcome = SCRIPT.set((running, Lent(host)), run);
        if self.running.stopped.is_some() {
            let _ = self.watch();
        }
        outcome
    }

    /// Runs the source of a library.
    pub(crate) fn load(&mut self, source: &Function, host: &mut dyn Host) -> Result<(), String> {
        let error =
            match self.start(source, Words { keys: &[], args: &[], passed: Passed::Not }, host) {
                Ok((true, _)) => return Ok(()),
                Ok((false, Value::Table(error))) => error.raw_get::<Option<LuaString>>("err"),
                Ok((false, _)) => return Err(OUT_OF_MEMORY.to_owned()),
                Err(error) => Err(error),
            };
        let text = |error: LuaString| error.to_string_lossy();
        Err(error.map_or_else(|error| error.to_string(), |it| it.map_or_else(String::new, text)))
    }

    /// Makes the interpreter pause now and then.
    fn watch(&self) -> mlua::Result<()> {
        let every = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_PAUSE);
        self.lua.set_global_hook(every, |lua, debug| pause(lua, debug.event()))
    }
}

impl Engine {
    /// An interpreter without scripts, which are told this version of Redis.
    ///
    /// # Errors
    /// Memory does not suffice.
    pub fn new(limits: Limits, version: RedisVersion) -> Result<Self, mlua::Error> {
        let machine = Machine::new(limits, version)?;
        Ok(Self { machine, scripts: HashMap::default(), source_bytes: 0 })
    }

    /// Changes the limits of the runs that follow.
    pub fn set_limits(&mut self, limits: Limits) {
        self.machine.set_limits(limits);
    }

    /// Loads a script, unless it is there already.
    ///
    /// # Errors
    /// The source is no script.
    pub fn load(&mut self, source: &[u8]) -> Result<Sha, LoadError> {
        let sha = Sha::hash(source);
        if let Entry::Vacant(vacant) = self.scripts.entry(sha) {
            let (flags, start) = shebang::read(source)?;
            let lua = &self.machine.lua;
            let function = compile(lua, &source[start..])?;
            let function = Kept::new(lua, &function).map_err(unloaded)?;
            self.source_bytes += source.len();
            vacant.insert(Script { source: source.into(), function, flags });
        }
        Ok(sha)
    }

    /// The flags of a loaded script.
    pub fn flags(&self, sha: Sha) -> Option<Flags> {
        self.scripts.get(&sha).map(|script| script.flags)
    }

    /// The source of a loaded script.
    pub fn source(&self, sha: Sha) -> Option<Rc<[u8]>> {
        self.scripts.get(&sha).map(|script| Rc::clone(&script.source))
    }

    /// How many scripts are loaded.
    pub fn len(&self) -> usize {
        self.scripts.len()
    }

    /// Whether no script is loaded.
    pub fn is_empty(&self) -> bool {
        self.scripts.is_empty()
    }

    /// Bytes of the interpreter, with all that scripts made in it.
    pub fn memory_bytes(&self) -> usize {
        self.machine.lua.used_memory()
    }

    /// Bytes of the sources and of the list of scripts.
    pub fn list_bytes(&self) -> usize {
        self.source_bytes + self.scripts.capacity() * size_of::<(Sha, Script)>()
    }

    /// Runs a loaded script: its reply goes to `out`, or its error is returned.
    ///
    /// # Errors
    /// The script raised an error, reached a limit, or is not loaded.
    pub fn run(
        &mut self,
        call: Call<'_>,
        host: &mut dyn Host,
        out: &mut Out<'_>,
    ) -> Result<(), RunError> {
        let Some(script) = self.scripts.get(&call.sha) else {
            return Err(RunError::plain("NOSCRIPT No matching script. Please use EVAL."));
        };
        let words = Words { keys: call.keys, args: call.args, passed: Passed::AsGlobals };
        self.machine.run(call.sha.as_str(), &script.function, words, host, out)
    }
}

/// Lets the host decide whether the script goes on, after every so many instructions or steps of a
/// pattern; and ends it again wherever it catches the error.
fn pause(lua: &Lua, event: mlua::debug::DebugEvent) -> mlua::Result<VmState> {
    if !SCRIPT.is_set() {
        return Ok(VmState::Continue); // a source is compiled, and no script runs
    }
    let (stopped, first) = SCRIPT.with(|(running, host)| {
        let first = running.stopped.is_none();
        if first && event == mlua::debug::DebugEvent::Count {
            running.pauses_left = running.pauses_left.saturating_sub(1);
            if running.pauses_left == 0 {
                running.stopped = Some(Stop::Instructions);
            } else {
                running.stopped = match host.0.pause() {
                    Verdict::GoOn => None,
                    Verdict::Stop => Some(Stop::Killed),
                    Verdict::Late => Some(Stop::Late),
                };
            }
        }
        (running.stopped, first)
    });
    let Some(stop) = stopped else { return Ok(VmState::Continue) };
    if first {
        let line = HookTriggers::EVERY_LINE;
        lua.set_global_hook(line, |lua, debug| pause(lua, debug.event()))?;
    }
    Err(mlua::Error::runtime(stop.text()))
}

impl Stop {
    fn text(self) -> &'static str {
        match self {
            Self::Killed => "Script killed by user with SCRIPT KILL...",
            Self::Instructions => "Script used more instructions than it may.",
            Self::Late => "FUNCTION LOAD timeout",
        }
    }
}

impl Running {
    fn begin(&mut self, instructions: u64) {
        self.protocol = Protocol::Resp2;
        self.stopped = None;
        self.pauses_left = match instructions {
            0 => u64::MAX,
            some => some.div_ceil(INSTRUCTIONS_PER_PAUSE.into()),
        };
    }
}

impl RunError {
    fn plain(text: &str) -> Self {
        Self { text: text.into(), counted: false }
    }

    fn inner(error: &mlua::Error) -> Self {
        match error {
            mlua::Error::MemoryError(_) => Self::plain(OUT_OF_MEMORY),
            other => Self::plain(&format!("ERR {other}")),
        }
    }

    fn is_memory(&self) -> bool {
        self.text.starts_with(OUT_OF_MEMORY.as_bytes())
    }

    /// What a script raised, with the position that [`locate`] found.
    fn raised(error: &Value, name: &str) -> Self {
        let Value::Table(error) = error else {
            return Self::plain(OUT_OF_MEMORY); // no handler runs when memory is used up
        };
        let text = |name: &str| error.raw_get::<Option<LuaString>>(name).ok().flatten();
        let mut message = text("err").map_or_else(Vec::new, |text| text.as_bytes().to_vec());
        let line = error.raw_get::<Option<i64>>("line").ok().flatten();
        if let (Some(source), Some(line)) = (text("source"), line) {
            message.extend(format!(" script: {name}, on ").bytes());
            message.extend_from_slice(&source.as_bytes());
            message.extend(format!(":{line}.").bytes());
        }
        let counted = error.raw_get("ignore_error_stats_update").unwrap_or(false);
        Self { text: message, counted }
    }
}

const OUT_OF_MEMORY: &str = "ERR not enough memory";

/// Makes a table of an error, with the line of the script that raised it.
fn locate(lua: &Lua, error: Value) -> mlua::Result<Table> {
    let table = match error {
        Value::Table(table) => table,
        other => {
            let mut text = b"ERR ".to_vec();
            match &other {
                Value::Error(error) => match SCRIPT.with(|(running, _)| running.stopped) {
                    Some(stop) => text.extend_from_slice(stop.text().as_bytes()),
                    None => text.extend_from_slice(error.to_string().as_bytes()),
                },
                Value::String(message) => text.extend_from_slice(&message.as_bytes()),
                other => match lua.coerce_string(other.clone())? {
                    Some(digits) => text.extend_from_slice(&digits.as_bytes()),
                    None => text.extend_from_slice(other.to_string()?.as_bytes()),
                },
            }
            let table = lua.create_table()?;
            table.raw_set("err", lua.create_string(&text)?)?;
            table
        }
    };
    for level in 1.. {
        let found = lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let line = debug.current_line();
            let source = source.source.as_deref();
            let known = [CHUNK, FUNCTION_CHUNK].into_iter().find(|name| source == Some(*name));
            line.zip(known)
        });
        match found {
            None => break,
            Some(None) => {}
            Some(Some((line, source))) => {
                table.raw_set("source", source)?;
                table.raw_set("line", line)?;
                break;
            }
        }
    }
    Ok(table)
}

fn compile(lua: &Lua, source: &[u8]) -> Result<Function, LoadError> {
    let chunk = lua.load(source).set_name(CHUNK).set_mode(mlua::chunk::ChunkMode::Text);
    chunk.into_function().map_err(unloaded)
}

fn unloaded(error: mlua::Error) -> LoadError {
    LoadError::Syntax(match error {
        mlua::Error::SyntaxError { message, .. } => message,
        mlua::Error::MemoryError(_) => "not enough memory".to_owned(),
        other => other.to_string(),
    })
}

/// Makes the globals, all libraries, and what strings have in common, read-only.
fn protect(lua: &Lua) -> mlua::Result<()> {
    let globals = lua.globals();
    let tables = globals.pairs::<Value, Value>().filter_map(|pair| match pair {
        Ok((_, Value::Table(table))) => Some(Ok(table)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    });
    for table in tables.collect::<mlua::Result<Vec<_>>>()? {
        if let Some(meta) = table.metatable() {
            if let Ok(shown) = meta.raw_get::<Table>("__metatable") {
                set_readonly(lua, &shown, true)?;
            }
            set_readonly(lua, &meta, true)?;
        }
        set_readonly(lua, &table, true)?;
    }
    let strings: Table = lua.load("return getmetatable('')").eval()?;
    set_readonly(lua, &strings, true)?;
    set_readonly(lua, &globals, true)
}
