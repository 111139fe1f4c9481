//! The exceptions, with the engine's own text.

use std::io::ErrorKind;

use pyo3::exceptions::{PyException, PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::{PyErr, create_exception};
use stillframe::{BeginError, MemoryError};
use stillframe_durability as durability;

create_exception!(stillframe, Error, PyException, "Why the engine did not do something.");
create_exception!(stillframe, InUse, Error, "Another process, or object, has the directory open.");
create_exception!(stillframe, Foreign, Error, "The directory holds what another program wrote.");
create_exception!(stillframe, DiskFull, Error, "The disk, or a limit of files, leaves no room.");
create_exception!(stillframe, ViewLost, Error, "A view was given up for want of memory.");
create_exception!(stillframe, WrongProcess, Error, "An object of the process that forked this.");
create_exception!(stillframe, CommandError, Error, "The server refused a command.");
create_exception!(stillframe, Unannounced, Error, "Words were written beside the store's methods.");

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<Error>())?;
    module.add("InUse", py.get_type::<InUse>())?;
    module.add("Foreign", py.get_type::<Foreign>())?;
    module.add("DiskFull", py.get_type::<DiskFull>())?;
    module.add("ViewLost", py.get_type::<ViewLost>())?;
    module.add("WrongProcess", py.get_type::<WrongProcess>())?;
    module.add("CommandError", py.get_type::<CommandError>())?;
    module.add("Unannounced", py.get_type::<Unannounced>())
}

/// An exception with the error's text, and that of what lies below where it is not part of it.
pub(crate) fn raise(error: &durability::Error) -> PyErr {
    let text = in_python(error);
    match error {
        durability::Error::Locked { .. } => InUse::new_err(text),
        durability::Error::Foreign { .. } | durability::Error::OfAServer { .. } => {
            Foreign::new_err(text)
        }
        durability::Error::Memory(error) => raise_memory(*error),
        durability::Error::Begin { source: BeginError::Memory(_), .. }
        | durability::Error::View { source: BeginError::Memory(_) } => PyMemoryError::new_err(text),
        _ if is_full(error) => DiskFull::new_err(text),
        _ => Error::new_err(text),
    }
}

pub(crate) fn panicked() -> PyErr {
    Error::new_err("a call panicked and left the store half-changed; open it again")
}

/// The error's text, with Python's names for what is to be done.
fn in_python(error: &durability::Error) -> String {
    match error {
        durability::Error::NeedsLog { directory } => format!(
            "{} holds a log of changes since the last checkpoint; open it with `log`",
            directory.display()
        ),
        durability::Error::NoLog => "this store keeps no log; open it with `log`".into(),
        durability::Error::TooManyViews { most } => format!(
            "{most} views and branches are kept, and that is the most; close one, or open the \
             store with more `views`"
        ),
        durability::Error::NoPoint { waited } => {
            format!("no point came in {waited:?}; call `Store.point` more often, or wait longer")
        }
        durability::Error::BrokenChain { .. } | durability::Error::Log { .. } => {
            error.to_string().replace("accept the loss", "by `accept_loss=True` accept the loss")
        }
        durability::Error::Foreign { path, found, advice, .. } if advice.contains("adopt") => {
            format!("{} is of {found}; name another directory", path.display())
        }
        durability::Error::Memory(error) => memory_in_python(*error),
        error => error.to_string(),
    }
}

fn memory_in_python(error: MemoryError) -> String {
    match error {
        MemoryError::Reserved { words, reserved } => format!(
            "{} bytes exceed the {} bytes reserved; open the store with more `max_rows`",
            words.saturating_mul(8),
            reserved.saturating_mul(8)
        ),
        error => error.to_string(),
    }
}

fn is_full(error: &durability::Error) -> bool {
    match error {
        durability::Error::LogFailed { source, .. } => is_full(source),
        // The sink of an image brings the text of the system alone.
        durability::Error::Capture { source, .. } => {
            let text = source.to_string();
            ["No space left", "File too large", "quota exceeded"].iter().any(|it| text.contains(it))
        }
        _ => error.kind().is_some_and(leaves_no_room),
    }
}

/// Whether the disk, or a limit of files, leaves no room.
pub(crate) fn leaves_no_room(kind: ErrorKind) -> bool {
    use ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(kind, FileTooLarge | QuotaExceeded | StorageFull)
}

pub(crate) fn raise_memory(error: MemoryError) -> PyErr {
    match error {
        MemoryError::Reserved { .. } => PyValueError::new_err(memory_in_python(error)),
        _ => PyMemoryError::new_err(memory_in_python(error)),
    }
}

/// The error of a connection: that of a forked child by its own name.
pub(crate) fn refuse_fork(error: &std::io::Error) -> PyErr {
    let text = error.to_string();
    if text.contains("was forked from") {
        WrongProcess::new_err(text)
    } else {
        pyo3::exceptions::PyConnectionError::new_err(text)
    }
}
