//! The interpreter of scripts, made when the first script comes, and the script that runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stillframe_commands::{Command, Refusal, flags};
use stillframe_keyspace::{Keyspace, Libraries};
use stillframe_resp::Protocol;
use stillframe_script::{
    Engine, Functions, Host, Level, Limits, NotACommand, Propagation, Sha, Verdict, flags_of,
};

use crate::node::config::Config;
use crate::node::machine;

/// How long a library of the data set may take to load: it has done so before, so this only ends
/// one that never would.
const RELOAD_MAX: Duration = Duration::from_secs(10);

/// The interpreters, while no script runs.
#[derive(Default)]
pub(crate) struct Scripts {
    engine: Option<Box<Engine>>,
    functions: Option<Box<Functions>>,
    /// The version of the libraries that it has loaded.
    version: u64,
    /// Libraries of that version that do not load: they stay in the data set.
    unloadable: Vec<Arc<[u8]>>,
    /// The script that runs: the interpreter is with it.
    run: Option<Run>,
    /// Scripts may run commands that are not meant for them (DEBUG SET-DISABLE-DENY-SCRIPTS).
    pub(crate) run_all: bool,
}

/// What an interpreter takes.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Taken {
    /// Bytes of the interpreter.
    pub(crate) interpreter: usize,
    /// Bytes of the sources and lists beside it.
    pub(crate) lists: usize,
    /// How many scripts or functions it has.
    pub(crate) count: usize,
}

/// What runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A script.
    Script,
    /// A function of a library.
    Function,
}

/// A script that runs.
pub(crate) struct Run {
    pub(crate) kind: Kind,
    /// The function, and the request that called it.
    pub(crate) called: Vec<Box<[u8]>>,
    /// What its interpreter took when it started.
    pub(crate) taken: Taken,
    /// The place of its client.
    pub(crate) place: usize,
    /// It comes from a log or a primary.
    pub(crate) is_internal: bool,
    pub(crate) started: Instant,
    /// Other clients have been told.
    pub(crate) is_busy: bool,
    /// Other clients are served at this moment.
    pub(crate) waits: bool,
    /// It has run a command that writes.
    pub(crate) wrote: bool,
    /// It must end.
    pub(crate) is_killed: bool,
}

impl Kind {
    /// The command that ends it.
    pub(crate) fn killer(self) -> &'static str {
        match self {
            Self::Script => "SCRIPT KILL",
            Self::Function => "FUNCTION KILL",
        }
    }

    /// The refusal of other requests while it runs.
    pub(crate) fn busy(self) -> &'static str {
        match self {
            Self::Script => {
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN \
                 NOSAVE."
            }
            Self::Function => {
                "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN \
                 NOSAVE."
            }
        }
    }
}

impl Run {
    /// One that starts now.
    pub(crate) fn new(kind: Kind, place: usize, is_internal: bool) -> Self {
        Self {
            kind,
            called: Vec::new(),
            taken: Taken::default(),
            place,
            is_internal,
            started: Instant::now(),
            is_busy: false,
            waits: false,
            wrote: false,
            is_killed: false,
        }
    }
}

impl Scripts {
    /// The interpreter, which obeys the limits of the configuration.
    pub(crate) fn engine(&mut self, config: &Config) -> Result<&mut Engine, Refusal> {
        if self.is_running() {
            return Err("ERR a script is running".into());
        }
        let limits = limits(config);
        match &mut self.engine {
            Some(engine) => {
                engine.set_limits(limits);
                Ok(engine)
            }
            empty => {
                let made = Engine::new(limits, config.redis_version);
                let made =
                    made.map_err(|error| format!("ERR no interpreter for scripts: {error}"))?;
                Ok(empty.insert(Box::new(made)))
            }
        }
    }

    /// The interpreter of functions, with these libraries in it.
    pub(crate) fn functions(
        &mut self,
        libraries: &Libraries,
        config: &Config,
    ) -> Result<&mut Functions, Refusal> {
        if self.is_running() {
            return Err("ERR a script is running".into());
        }
        if self.functions.is_none() || self.version != libraries.version() {
            let made = Functions::new(limits(config), config.redis_version);
            let mut made =
                made.map_err(|error| format!("ERR no interpreter for functions: {error}"))?;
            self.unloadable.clear();
            for source in libraries.sources() {
                let mut host = Loading { deadline: Some(Instant::now() + RELOAD_MAX) };
                if let Err(error) = made.load(source, false, &mut host) {
                    tracing::error!("a library of functions does not load: {error}");
                    self.unloadable.push(source.clone());
                }
            }
            (self.functions, self.version) = (Some(Box::new(made)), libraries.version());
        }
        let functions = self.functions.as_mut().ok_or("ERR no interpreter for functions")?;
        functions.set_limits(limits(config));
        Ok(functions)
    }

    /// Loads the libraries of a data set that came from a file or a primary.
    #[inline]
    pub(crate) fn catch_up(&mut self, libraries: &Libraries, config: &Config) {
        if self.version != libraries.version() && !self.is_running() {
            self.reload(libraries, config);
        }
    }

    #[cold]
    fn reload(&mut self, libraries: &Libraries, config: &Config) {
        self.functions = None;
        if !libraries.sources().is_empty()
            && let Err(refusal) = self.functions(libraries, config)
        {
            tracing::error!("functions cannot run: {refusal}");
        }
        self.version = libraries.version(); // the next call tries again
    }

    /// The libraries are those of the interpreter from now on.
    pub(crate) fn keep(&mut self, keyspace: &mut Keyspace) {
        let Some(functions) = &self.functions else { return };
        let sources = functions.libraries().values().map(|library| library.source.clone());
        keyspace.set_libraries(sources.chain(self.unloadable.iter().cloned()).collect());
        self.version = keyspace.libraries().version();
    }

    /// Lends the interpreter of functions to one that runs.
    pub(crate) fn lend_functions(&mut self, run: Run) -> Option<Box<Functions>> {
        let functions = self.functions.take()?;
        self.run = Some(Run { taken: of_functions(&functions), ..run });
        Some(functions)
    }

    /// Takes the interpreter of functions back.
    pub(crate) fn give_functions_back(&mut self, functions: Box<Functions>) {
        self.run = None;
        self.functions = Some(functions);
    }

    /// The interpreter of functions, if there is one yet and none runs.
    pub(crate) fn loaded_functions(&self) -> Option<&Functions> {
        self.functions.as_deref()
    }

    /// The interpreter, if there is one yet.
    pub(crate) fn loaded(&self) -> Option<&Engine> {
        self.engine.as_deref()
    }

    /// Lends the interpreter to a script that runs.
    pub(crate) fn lend(&mut self, run: Run) -> Option<Box<Engine>> {
        let engine = self.engine.take()?;
        self.run = Some(Run { taken: of_scripts(&engine), ..run });
        Some(engine)
    }

    /// Takes the interpreter back.
    pub(crate) fn give_back(&mut self, engine: Box<Engine>) {
        self.run = None;
        self.engine = Some(engine);
    }

    /// The flags of a request: those of its command, or what its script says of itself. What
    /// no interpreter has loaded yet is looked at when it starts.
    pub(crate) fn flags_of<S>(
        &self,
        command: &Command<S>,
        args: &[&[u8]],
        libraries: &Libraries,
    ) -> u32 {
        let word = args.get(1).copied().unwrap_or_default();
        let said = match command.name {
            "eval" | "eval_ro" => flags_of(word),
            "evalsha" | "evalsha_ro" => Sha::parse(word).and_then(|sha| self.loaded()?.flags(sha)),
            "fcall" | "fcall_ro" => {
                let name = String::from_utf8_lossy(word);
                let functions = self.loaded_functions();
                let functions = functions.filter(|_| self.version == libraries.version());
                functions.and_then(|functions| functions.flags(&name))
            }
            _ => None,
        };
        let Some(said) = said.filter(|said| said.declared) else { return command.flags };
        let needs = [
            (flags::WRITE, !said.no_writes),
            (flags::DENYOOM, !said.no_writes && !said.allow_oom),
            (flags::STALE, said.allow_stale),
        ];
        let own = command.flags & !(flags::MAY_REPLICATE | flags::SCRIPT);
        needs.iter().fold(own, |all, &(flag, is)| if is { all | flag } else { all & !flag })
    }

    /// The script that runs.
    #[inline]
    pub(crate) fn running(&self) -> Option<&Run> {
        self.run.as_ref()
    }

    /// As [`running`](Self::running), to change it.
    pub(crate) fn running_mut(&mut self) -> Option<&mut Run> {
        self.run.as_mut()
    }

    /// Whether a script runs.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// Whether the request under way is one of the script that runs.
    pub(crate) fn is_asking(&self) -> bool {
        self.run.as_ref().is_some_and(|run| !run.waits)
    }

    /// The place of the client whose script runs.
    pub(crate) fn place(&self) -> Option<usize> {
        self.run.as_ref().map(|run| run.place)
    }

    /// What the interpreter of scripts takes.
    pub(crate) fn taken_by_scripts(&self) -> Taken {
        self.loaded().map_or_else(|| self.lent(Kind::Script), of_scripts)
    }

    /// What the interpreter of functions takes. One that has not loaded these libraries yet has
    /// none that count.
    pub(crate) fn taken_by_functions(&self, libraries: &Libraries) -> Taken {
        let taken = self.loaded_functions();
        let taken = taken.map_or_else(|| self.lent(Kind::Function), of_functions);
        if self.version == libraries.version() {
            taken
        } else {
            Taken { interpreter: taken.interpreter, ..Taken::default() }
        }
    }

    /// What the interpreter of the run takes, if it is one of this kind.
    fn lent(&self, kind: Kind) -> Taken {
        self.run.as_ref().filter(|run| run.kind == kind).map_or(Taken::default(), |run| run.taken)
    }

    /// Bytes of sources and lists, which count for `maxmemory`. Those of interpreters do not, as in
    /// Redis.
    pub(crate) fn list_bytes(&self, libraries: &Libraries) -> usize {
        self.taken_by_scripts().lists + self.taken_by_functions(libraries).lists
    }

    /// Forgets all scripts.
    pub(crate) fn flush(&mut self) {
        self.engine = None;
    }
}

/// The server as a library sees it while it loads.
pub(crate) struct Loading {
    /// When it must end; a replay waits.
    pub(crate) deadline: Option<Instant>,
}

impl Host for Loading {
    fn call(&mut self, _: &[&[u8]], protocol: Protocol, reply: &mut Vec<u8>) {
        let refusal = "ERR a library runs no commands while it loads";
        stillframe_resp::Out::new(reply, protocol).error(refusal);
    }

    fn may_run(&mut self, _: &[&[u8]]) -> Result<bool, NotACommand> {
        Err(NotACommand)
    }

    fn log(&mut self, level: Level, message: &[u8]) {
        log(level, message);
    }

    fn propagate(&mut self, _: Propagation) -> Result<(), &'static str> {
        Ok(())
    }

    fn replies_error(&mut self, _: &[u8], _: bool) {}

    fn clock(&mut self) -> Duration {
        machine::process_cpu()
    }

    fn pause(&mut self) -> Verdict {
        let late = self.deadline.is_some_and(|deadline| Instant::now() > deadline);
        if late { Verdict::Late } else { Verdict::GoOn }
    }
}

/// Writes a line of a script into the server's log.
pub(crate) fn log(level: Level, message: &[u8]) {
    let text = String::from_utf8_lossy(message);
    match level {
        Level::Debug => tracing::debug!("{text}"),
        Level::Verbose | Level::Notice => tracing::info!("{text}"),
        Level::Warning => tracing::warn!("{text}"),
    }
}

fn of_scripts(engine: &Engine) -> Taken {
    let (interpreter, lists) = (engine.memory_bytes(), engine.list_bytes());
    Taken { interpreter, lists, count: engine.len() }
}

fn of_functions(functions: &Functions) -> Taken {
    let (interpreter, lists) = (functions.memory_bytes(), functions.list_bytes());
    Taken { interpreter, lists, count: functions.len() }
}

fn limits(config: &Config) -> Limits {
    Limits { memory_bytes: config.script_memory_bytes, instructions: config.script_instructions }
}
