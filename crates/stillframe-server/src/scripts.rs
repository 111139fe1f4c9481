//! The interpreter of scripts, made when the first script comes.

use stillframe_redis::Refusal;
use stillframe_script::{Engine, Limits};

use crate::config::Config;

/// The interpreter, while no script runs.
#[derive(Default)]
pub(crate) struct Scripts {
    engine: Option<Box<Engine>>,
    /// A script runs: the interpreter is with it.
    lent: bool,
}

impl Scripts {
    /// The interpreter, which obeys the limits of the configuration.
    pub(crate) fn engine(&mut self, config: &Config) -> Result<&mut Engine, Refusal> {
        if self.lent {
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
    pub(crate) fn lend(&mut self) -> Option<Box<Engine>> {
        let engine = self.engine.take();
        self.lent = engine.is_some();
        engine
    }

    /// Whether a script runs.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.lent
    }

    /// Takes the interpreter back.
    pub(crate) fn give_back(&mut self, engine: Box<Engine>) {
        self.lent = false;
        self.engine = Some(engine);
    }

    /// Forgets all scripts.
    pub(crate) fn flush(&mut self) {
        self.engine = None;
    }
}
