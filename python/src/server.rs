//! A server in this process.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use stillframe_server::{Config, Embedded, Handle, LogLevel, OnLog, ServeError};
use stillframe_storage::StorageError;

use crate::direct::Direct;
use crate::ends::patiently;
use crate::errors::{DiskFull, Error, Foreign, InUse, leaves_no_room, refuse_fork};
use crate::own::Own;
use crate::socket::Socket;
use crate::view::SLICE;

/// A server on a thread of its own.
#[pyclass(frozen, module = "stillframe._stillframe")]
pub(crate) struct Server {
    /// `None` once it has been shut down.
    embedded: Own<Mutex<Option<Embedded>>>,
    handle: Handle,
}

#[pymethods]
impl Server {
    /// Starts a server in a directory, with directives of redis.conf; returns once it has loaded
    /// its data. `on_log` gets the level (10 to 30, as in `logging`) and text of each line.
    #[staticmethod]
    fn start(
        py: Python<'_>,
        directory: PathBuf,
        settings: Vec<(String, Vec<String>)>,
        on_log: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let mut config = Config::embedded(directory);
        for (name, values) in &settings {
            config.set(name, values).map_err(|error| Error::new_err(error.to_string()))?;
        }
        let mut interrupt = Ok(());
        let embedded = py.detach(|| {
            let on_log = on_log.map(|on_log| Arc::new(logging(on_log)) as OnLog);
            Embedded::start_while(config, on_log, || {
                interrupt = Python::attach(|py| py.check_signals());
                interrupt.is_ok()
            })
        });
        interrupt?;
        let embedded = embedded.map_err(|error| raise(&error))?;
        let handle = embedded.handle();
        Ok(Self { embedded: Own::new(Mutex::new(Some(embedded))), handle })
    }

    /// A stream for a client.
    fn connect(&self) -> PyResult<Socket> {
        self.embedded.get()?;
        self.handle.connect().map(Socket::new).map_err(|error| refuse_fork(&error))
    }

    /// A client with a connection of its own.
    fn direct(&self, decode: bool) -> PyResult<Direct> {
        self.embedded.get()?;
        Direct::new(self.handle.clone(), decode)
    }

    /// Whether it has ended.
    fn has_ended(&self, py: Python<'_>) -> PyResult<bool> {
        let embedded = self.embedded.get()?;
        Ok(py.detach(|| lock(embedded).as_ref().is_none_or(Embedded::has_ended)))
    }

    /// Saves if the settings say so, and ends. After an error the server goes on; after Ctrl-C it
    /// goes on to end, and the next call waits for that.
    fn shutdown(&self, py: Python<'_>) -> PyResult<()> {
        let embedded = self.embedded.get()?;
        patiently(py, || {
            let mut slot = lock(embedded);
            let ended = slot.as_mut().map_or(Some(Ok(())), |it| it.shutdown_within(SLICE))?;
            if !matches!(ended, Err(ServeError::NotSaved)) {
                *slot = None;
            }
            Some(ended.map_err(|error| raise(&error)))
        })
    }
}

impl Drop for Server {
    /// Its thread may wait for the interpreter, to log.
    fn drop(&mut self) {
        let Ok(embedded) = self.embedded.get() else { return };
        Python::attach(|py| py.detach(|| drop(lock(embedded).take())));
    }
}

/// A panic leaves the slot as it is: each change is one assignment.
fn lock(slot: &Mutex<Option<Embedded>>) -> std::sync::MutexGuard<'_, Option<Embedded>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

fn logging(on_log: Py<PyAny>) -> impl Fn(LogLevel, &str) + Send + Sync {
    move |level, line| {
        let level = match level {
            LogLevel::Debug | LogLevel::Verbose => 10,
            LogLevel::Notice => 20,
            _ => 30,
        };
        // An interpreter that ends takes no more lines.
        let _ = Python::try_attach(|py| {
            if let Err(error) = on_log.call1(py, (level, line)) {
                error.write_unraisable(py, None);
            }
        });
    }
}

fn raise(error: &ServeError) -> PyErr {
    let mut text = error.to_string();
    let mut is_full = false;
    let mut below = std::error::Error::source(error);
    while let Some(cause) = below {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        is_full |= cause.downcast_ref().is_some_and(|it: &io::Error| leaves_no_room(it.kind()));
        below = cause.source();
    }
    match error {
        ServeError::Storage(StorageError::Locked { .. }) => InUse::new_err(text),
        ServeError::Storage(StorageError::OfAStore { .. } | StorageError::ForeignLog { .. })
        | ServeError::ForeignData { .. } => Foreign::new_err(text),
        ServeError::Storage(StorageError::Keyspace(_)) => PyMemoryError::new_err(text),
        ServeError::Storage(StorageError::Directory { error, .. })
            if leaves_no_room(error.kind()) =>
        {
            DiskFull::new_err(text)
        }
        _ if is_full => DiskFull::new_err(text),
        _ => Error::new_err(text),
    }
}
