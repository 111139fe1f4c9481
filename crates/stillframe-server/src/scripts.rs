//! The interpreter of scripts, made when the first script comes, and the script that runs.

use std::time::Instant;

use stillframe_redis::Refusal;
use stillframe_script::{Engine, Limits};

use crate::config::Config;

/// The interpreter, while no script runs.
#[derive(Default)]
pub(crate) struct Scripts {
    engine: Option<Box<Engine>>,
    /// The script that runs: the interpreter is with it.
    run: Option<Run>,
}

/// What runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A script.
    Script,
}

/// A script that runs.
pub(crate) struct Run {
    pub(crate) kind: Kind,
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
        }
    }

    /// The refusal of other requests while it runs.
    pub(crate) fn busy(self) -> &'static str {
        match self {
            Self::Script => {
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN \
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
        let limits = Limits {
            memory_bytes: config.script_memory_bytes,
            instructions: config.script_instructions,
        };
        match &mut self.engine {
            Some(engine) => {
                engine.set_limits(limits);
                Ok(engine)
            }
            empty => {
                let made = Engine::new(limits);
                let made =
                    made.map_err(|error| format!("ERR no interpreter for scripts: {error}"))?;
                Ok(empty.insert(Box::new(made)))
            }
        }
    }

    /// The interpreter, if there is one yet.
    pub(crate) fn loaded(&self) -> Option<&Engine> {
        self.engine.as_deref()
    }

    /// Lends the interpreter to a script that runs.
    pub(crate) fn lend(&mut self, run: Run) -> Option<Box<Engine>> {
        let engine = self.engine.take();
        self.run = engine.is_some().then_some(run);
        engine
    }

    /// Takes the interpreter back.
    pub(crate) fn give_back(&mut self, engine: Box<Engine>) {
        self.run = None;
        self.engine = Some(engine);
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

    /// Forgets all scripts.
    pub(crate) fn flush(&mut self) {
        self.engine = None;
    }
}
