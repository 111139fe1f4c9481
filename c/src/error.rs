//! Codes with texts.

use std::borrow::Cow;
use std::ffi::c_char;

use durability::{Error, ViewLost};
use engine::MemoryError;

/// What a function returns: `SF_OK`, or why nothing was done.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "some codes are the server's alone")]
pub enum sf_code {
    /// It is done.
    SF_OK = 0,
    /// A pointer that must not be null is.
    SF_NULL = 1,
    /// Nothing of this kind has this handle: it was closed, never opened, or is of another kind.
    SF_HANDLE = 2,
    /// Another thread is inside the same store, branch or connection; or something still uses what
    /// is to be closed.
    SF_BUSY = 3,
    /// A word or a run is out of bounds.
    SF_RANGE = 4,
    /// An argument is not what it may be; the message names it.
    SF_ARGUMENT = 5,
    /// This store has a log, so its words change within acts alone.
    SF_NO_ACT = 6,
    /// That cannot be done while an act is under way.
    SF_IN_ACT = 7,
    /// An earlier call panicked in this thing: discard it.
    SF_POISONED = 8,
    /// The library panicked: a bug. What the call had in hand is poisoned.
    SF_PANIC = 9,
    /// The handle was inherited by `fork`. A child opens things of its own.
    SF_FORKED = 10,
    /// Another process, or another store of this one, has the directory open.
    SF_LOCKED = 20,
    /// The operating system refused something with a file.
    SF_FILE = 21,
    /// The disk is full.
    SF_NO_ROOM = 22,
    /// A checkpoint or the log is damaged; the message says where, and what to do.
    SF_DAMAGED = 23,
    /// A file is of a later version of this library.
    SF_NEWER = 24,
    /// The directory holds the files of another application, or of a server.
    SF_FOREIGN = 25,
    /// The directory has a log: open it with one.
    SF_NEEDS_LOG = 26,
    /// The store keeps no log.
    SF_NO_LOG = 27,
    /// The log failed, as after an I/O error: open the store again.
    SF_LOG_FAILED = 28,
    /// A record of the log is none that an act left.
    SF_REPLAY = 29,
    /// No memory, or growth beyond `words_max`.
    SF_MEMORY = 40,
    /// No thread could be started.
    SF_THREAD = 41,
    /// A checkpoint could not begin, or was given up.
    SF_CHECKPOINT = 42,
    /// As many views are kept as may be.
    SF_VIEWS_MAX = 43,
    /// The view was given up, because what was written since needs more than the budget.
    SF_VIEW_LOST = 44,
    /// The store that a reader asks, or the connection of a client, has been closed.
    SF_CLOSED = 45,
    /// It did not come in time.
    SF_TIMEOUT = 46,
    /// No checkpoint is as old as the point asked for.
    SF_TOO_EARLY = 47,
    /// A setting of the server is wrong, or none for a server within a program.
    SF_SETTING = 60,
    /// The server cannot listen at an address that the settings name.
    SF_ADDRESS = 61,
    /// The server could not save, and goes on.
    SF_NOT_SAVED = 62,
    /// Another error, of a kind that this header has no code for yet.
    SF_OTHER = 99,
}

/// Bytes of a message, with the zero at its end.
pub const SF_MESSAGE_BYTES: usize = 1020;

/// Where a function leaves its code and a text that says what failed, where, and what to do. The
/// caller owns it, and no call keeps it; so any thread may read it at any time after the call.
/// Each call sets it anew. Null, where the code is enough.
#[repr(C)]
pub struct sf_error {
    /// What the function returns.
    pub code: sf_code,
    /// UTF-8, ends with a zero; empty after `SF_OK`.
    pub message: [c_char; SF_MESSAGE_BYTES],
}

/// Why a call did nothing.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: sf_code,
    pub(crate) message: Cow<'static, str>,
}

impl Failure {
    pub(crate) fn new(code: sf_code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn argument(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(sf_code::SF_ARGUMENT, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let code = match error {
            error if error.wants_room() => sf_code::SF_NO_ROOM,
            Error::Locked { .. } => sf_code::SF_LOCKED,
            Error::File { .. } | Error::NotEmpty { .. } => sf_code::SF_FILE,
            Error::NewerVersion { .. } => sf_code::SF_NEWER,
            Error::NoneSound { .. }
            | Error::BrokenChain { .. }
            | Error::Unmergeable { .. }
            | Error::Unreadable { .. }
            | Error::Log { .. } => sf_code::SF_DAMAGED,
            Error::Foreign { .. } | Error::OfAServer { .. } => sf_code::SF_FOREIGN,
            Error::Tag { .. } | Error::NoSuchRecord { .. } | Error::ActionTooLong { .. } => {
                sf_code::SF_ARGUMENT
            }
            Error::NeedsLog { .. } => sf_code::SF_NEEDS_LOG,
            Error::NoLog => sf_code::SF_NO_LOG,
            Error::NoAct => sf_code::SF_NO_ACT,
            Error::InAct => sf_code::SF_IN_ACT,
            Error::LogFailed { .. } | Error::Vanished { .. } => sf_code::SF_LOG_FAILED,
            Error::Replay { .. } => sf_code::SF_REPLAY,
            Error::Memory(_) => sf_code::SF_MEMORY,
            Error::Thread(_) => sf_code::SF_THREAD,
            Error::Begin { .. } | Error::Capture { .. } => sf_code::SF_CHECKPOINT,
            Error::TooManyViews { .. } => sf_code::SF_VIEWS_MAX,
            Error::View { .. } => sf_code::SF_MEMORY,
            Error::Closed => sf_code::SF_CLOSED,
            Error::NoPoint { .. } => sf_code::SF_TIMEOUT,
            Error::TooEarly { .. } => sf_code::SF_TOO_EARLY,
            _ => sf_code::SF_OTHER,
        };
        // In C there are no functions of these names.
        let message = match error {
            Error::NeedsLog { directory } => format!(
                "{} holds a log of acts since the last checkpoint; set `log` in the options",
                directory.display()
            ),
            Error::NoLog => "this store keeps no log; set `log` in the options".into(),
            Error::NoAct => {
                "no act is under way, and a store with a log changes within one; call sf_act_begin"
                    .into()
            }
            Error::InAct => "an act is under way; end it by sf_act_commit or sf_act_undo".into(),
            Error::TooManyViews { most } => format!(
                "{most} views are kept, and that is the most; close one, or raise `views_max`"
            ),
            Error::NoPoint { waited } => format!(
                "no point came in {waited:?}; call sf_store_point more often, or wait longer"
            ),
            Error::Memory(error) => memory_in_c(*error),
            error => error.to_string(),
        };
        Self::new(code, message)
    }
}

impl From<MemoryError> for Failure {
    fn from(error: MemoryError) -> Self {
        Self::new(sf_code::SF_MEMORY, memory_in_c(error))
    }
}

fn memory_in_c(error: MemoryError) -> String {
    match error {
        MemoryError::Reserved { words, reserved } => format!(
            "{words} words exceed the {reserved} words reserved; raise `words_max` in the options"
        ),
        error => error.to_string(),
    }
}

impl From<ViewLost> for Failure {
    fn from(lost: ViewLost) -> Self {
        Self::new(sf_code::SF_VIEW_LOST, lost.to_string())
    }
}
