//! A server within another program: on a thread of its own, without a port unless the settings name
//! one, and without a hand on the process: no signals, no exit, no change of directory or limits.

mod client;
mod log;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

pub use client::{Client, ClientError};
use log::LogTo;

use super::{Hooks, Ways};
use crate::LogLevel;
use crate::connections::net::{Connection, forked};
use crate::consensus::Start;
use crate::node::config::{OomScore, Supervised};
use crate::node::process::{Asker, Signal, Signals};
use crate::{Config, DataView, DataViewError, ServeError};
use stillframe_storage::{StorageError, dump};

/// How often who starts a server is asked whether it is to go on.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// What a server within a program does with a line of its log.
pub type OnLog = Arc<dyn Fn(LogLevel, &str) + Send + Sync>;

/// A server in this process, from [`start`](Self::start) to [`shutdown`](Self::shutdown).
///
/// - It serves [`Connection`]s of its [`Handle`], and sockets if the settings name a port or a unix
///   socket. Several servers in one process share nothing.
/// - Dropping it shuts it down: as on a signal, data is saved if the settings have a schedule; if
///   that fails, the log has the reason. That is not waited for where a
///   [shutdown](Self::shutdown_within) was not waited for. A process that ends without either is as
///   one that was killed: the log of commands keeps what `appendfsync` promises.
/// - INFO's figures of the process (memory of the system, processor time) are the process's;
///   `used_memory`, `maxmemory` and all others are the server's own.
pub struct Embedded {
    handle: Handle,
    asker: Asker,
    refusals: Receiver<()>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
    /// It was asked to stop, and nobody has heard the answer yet.
    is_asked: bool,
}

/// Connects to a server in this process, from any thread.
#[derive(Clone)]
pub struct Handle {
    ways: Ways,
    process: u32,
}

impl Handle {
    /// A new connection, as a client's over a unix socket.
    ///
    /// # Errors
    /// The server has ended, or it is in the process that this one was forked from.
    pub fn connect(&self) -> io::Result<Connection> {
        if std::process::id() != self.process {
            return Err(forked());
        }
        self.ways.porch.connect().map(Connection::new)
    }

    /// As [`ViewDoor::view`](crate::ViewDoor::view).
    ///
    /// # Errors
    /// [`DataViewError`].
    pub fn view(&self) -> Result<DataView, DataViewError> {
        self.ways.views.view()
    }

    /// As [`ViewDoor::view_as`](crate::ViewDoor::view_as).
    ///
    /// # Errors
    /// [`DataViewError`].
    pub fn view_as(&self, user: &[u8], password: &[u8]) -> Result<DataView, DataViewError> {
        self.ways.views.view_as(user, password)
    }

    /// As [`ViewDoor::renew`](crate::ViewDoor::renew).
    ///
    /// # Errors
    /// [`DataViewError`].
    pub fn renew_view(
        &self,
        view: &DataView,
        user: &[u8],
        password: &[u8],
    ) -> Result<(), DataViewError> {
        self.ways.views.renew(view, user, password)
    }

    /// A client with a connection of its own.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect).
    pub fn client(&self) -> io::Result<Client> {
        self.connect().map(Client::new)
    }
}

impl Embedded {
    /// Starts a server with these settings, best those of [`Config::embedded`], and returns once it
    /// has loaded its data and serves.
    ///
    /// # Errors
    /// [`ServeError`]: as for a server of its own, or a setting is one of a whole process.
    pub fn start(config: Config) -> Result<Self, ServeError> {
        Self::start_while(config, None, || true)
    }

    /// As [`start`](Self::start); lines of the log that `loglevel` wants go to a function, on the
    /// server's thread, which waits for it. Without one they go to the program's `tracing`
    /// subscriber, as lines of the server's other threads do.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_logging(config: Config, on_log: OnLog) -> Result<Self, ServeError> {
        Self::start_while(config, Some(on_log), || true)
    }

    /// As [`start_logging`](Self::start_logging), or [`start`](Self::start) without a function. As
    /// long as the data is loaded, `goes_on` is asked some 20 times a second; once it says no, the
    /// server stops, and the directory is free when this returns.
    ///
    /// # Errors
    /// [`ServeError::Stopped`]; else as for [`start`](Self::start).
    pub fn start_while(
        mut config: Config,
        on_log: Option<OnLog>,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Self, ServeError> {
        if let Some(name) = setting_of_process(&config) {
            return Err(ServeError::Embedded(name));
        }
        let failed = |error| StorageError::Directory { path: config.dir.clone(), error };
        config.dir = std::path::absolute(&config.dir).map_err(failed)?;
        dump::create(&config.dir)?;
        config.is_embedded = true;
        config.process.supervised = Supervised::No; // the program may be, the server is not
        let least = config.loglevel();
        let (refuse, refusals) = channel();
        let (ready, is_ready) = channel();
        let (signals, asker) = Signals::asked_by(refuse);
        let run = move || {
            let no_group: Start = Box::new(|_| Err("a server in a program has no group".into()));
            let run = || {
                super::run(config, Hooks { start: no_group, queries: None }, signals, Some(ready))
            };
            match on_log {
                Some(on_log) => {
                    tracing::dispatcher::with_default(&LogTo::dispatch(on_log, least), run)
                }
                None => run(),
            }
        };
        let thread = Builder::new().name("stillframe".to_owned()).spawn(run);
        let thread = thread.map_err(ServeError::Events)?;
        let answer = loop {
            match is_ready.recv_timeout(LOOKS_EVERY) {
                Err(RecvTimeoutError::Timeout) if goes_on() => {}
                answer => break answer,
            }
        };
        if let Ok(ways) = answer {
            let handle = Handle { ways, process: std::process::id() };
            return Ok(Self { handle, asker, refusals, thread: Some(thread), is_asked: false });
        }
        asker.ask(Signal::Last); // unless it has ended
        Err(ended(thread).err().unwrap_or(ServeError::Stopped))
    }

    /// What connects to it.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Whether it has ended, by SHUTDOWN or an error.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops the server as SIGTERM does: waits for replicas (`shutdown-timeout`), saves if there is
    /// a schedule, ends the log of commands; clients find the end of their connections.
    ///
    /// # Errors
    /// [`ServeError::NotSaved`]: it goes on, and this can be tried again. [`ServeError`]: why it
    /// has ended before.
    pub fn shutdown(&mut self) -> Result<(), ServeError> {
        self.stop(Signal::Term)
    }

    /// As [`shutdown`](Self::shutdown), but waits no longer than `limit`: `None` if the server has
    /// not ended by then. It goes on ending; the next call waits for that.
    ///
    /// # Errors
    /// As for [`shutdown`](Self::shutdown).
    pub fn shutdown_within(&mut self, limit: Duration) -> Option<Result<(), ServeError>> {
        match self.ask(Signal::Term) {
            Ok(true) => match self.refusals.recv_timeout(limit) {
                Err(RecvTimeoutError::Timeout) => None,
                answer => Some(self.answered(answer.is_ok())),
            },
            Ok(false) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        }
    }

    fn stop(&mut self, signal: Signal) -> Result<(), ServeError> {
        if !self.ask(signal)? {
            return Ok(());
        }
        let is_refused = self.refusals.recv().is_ok();
        self.answered(is_refused)
    }

    /// Asks the server to stop; false if it has stopped.
    fn ask(&mut self, signal: Signal) -> Result<bool, ServeError> {
        if self.thread.is_none() {
            return Ok(false);
        }
        if std::process::id() != self.handle.process {
            std::mem::forget(self.thread.take()); // it is not in this process
            return Err(ServeError::Events(forked()));
        }
        if self.is_asked && signal == Signal::Term {
            return Ok(true);
        }
        if !self.is_asked {
            while self.refusals.try_recv().is_ok() {} // of SHUTDOWN ABORT, before
        }
        self.asker.ask(signal);
        self.handle.ways.porch.rouse();
        self.is_asked = true;
        Ok(true)
    }

    fn answered(&mut self, is_refused: bool) -> Result<(), ServeError> {
        self.is_asked = false;
        if is_refused {
            return Err(ServeError::NotSaved);
        }
        self.thread.take().map_or(Ok(()), ended)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        let ended = if self.is_asked {
            self.ask(Signal::Last).map(drop) // who asked did not wait, and this does not
        } else {
            self.stop(Signal::Last)
        };
        if let Err(error) = ended {
            tracing::error!("{error}");
        }
    }
}

fn ended(thread: JoinHandle<Result<(), ServeError>>) -> Result<(), ServeError> {
    thread.join().unwrap_or(Err(ServeError::Died))
}

/// The first setting that would reach beyond the server, if there is one.
fn setting_of_process(config: &Config) -> Option<&'static str> {
    let process = &config.process;
    let is_set = [
        ("daemonize", process.daemonize),
        ("pidfile", !process.pidfile.is_empty()),
        ("oom-score-adj", process.oom_score != OomScore::Kept),
        ("raft-id", config.raft.id > 0),
        ("snapshot fork", config.snapshot == "fork"),
    ];
    is_set.into_iter().find(|(_, is_set)| *is_set).map(|(name, _)| name)
}

#[cfg(test)]
mod tests;
