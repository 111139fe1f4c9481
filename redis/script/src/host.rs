//! What a script reaches outside of the interpreter.

use std::time::Duration;

use scoped_tls_hkt::{ReborrowMut, scoped_thread_local};
use stillframe_resp::Protocol;

/// The server, as a running script sees it.
pub trait Host {
    /// Runs a request of the script, and appends its reply to `reply` in `protocol`. The reply to a
    /// refused request is an error.
    fn call(&mut self, args: &[&[u8]], protocol: Protocol, reply: &mut Vec<u8>);

    /// Whether the script's user may run a request (`redis.acl_check_cmd`).
    fn may_run(&mut self, args: &[&[u8]]) -> Result<bool, NotACommand>;

    /// Writes a line into the server's log (`redis.log`).
    fn log(&mut self, level: Level, message: &[u8]);

    /// Chooses where later writes go (`redis.set_repl`).
    ///
    /// # Errors
    /// Why they cannot go there alone.
    fn propagate(&mut self, to: Propagation) -> Result<(), &'static str>;

    /// The script's reply is an error, or has one in it. `counted`: it is that of a request of the
    /// script, which has been counted.
    fn replies_error(&mut self, text: &[u8], counted: bool);

    /// The time that scripts measure with (`os.clock`): that of the processor in Redis.
    fn clock(&mut self) -> Duration;

    /// Whether the script may go on. Called every 100,000 instructions.
    fn pause(&mut self) -> Verdict;
}

/// Instructions between two calls of [`Host::pause`].
pub(crate) const INSTRUCTIONS_PER_PAUSE: u32 = 100_000;

/// There is no such command, or it takes another number of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotACommand;

/// Whether a script may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    GoOn,
    /// The script ends with an error, as after `SCRIPT KILL`.
    Stop,
    /// The library takes too long to load.
    Late,
}

/// Level of a line in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// `redis.LOG_DEBUG`
    Debug,
    /// `redis.LOG_VERBOSE`
    Verbose,
    /// `redis.LOG_NOTICE`
    Notice,
    /// `redis.LOG_WARNING`
    Warning,
}

/// Where writes go, beside the data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Propagation {
    /// Into the log.
    pub log: bool,
    /// To replicas.
    pub replicas: bool,
}

/// The state of the script that runs.
pub(crate) struct Running {
    /// Form of the replies that the script reads; `redis.setresp` changes it.
    pub(crate) protocol: Protocol,
    /// Why the script must end. A script cannot catch that.
    pub(crate) stopped: Option<Stop>,
    /// How often it may still pause.
    pub(crate) pauses_left: u64,
    /// Digits of the numbers in a request: a buffer used again and again.
    pub(crate) digits: Vec<u8>,
    /// Where each of them ends, likewise.
    pub(crate) ends: Vec<usize>,
    /// Generator of `math.random`: 48 bits.
    pub(crate) random: u64,
}

/// Why a script must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The host has stopped it.
    Killed,
    /// It has reached its limit of instructions.
    Instructions,
    /// The library took too long to load.
    Late,
}

/// A host, lent for as long as a script runs.
pub(crate) struct Lent<'a>(pub(crate) &'a mut (dyn Host + 'a));

impl<'a, 'b: 'a> ReborrowMut<'a> for Lent<'b> {
    type Result = Lent<'a>;

    fn reborrow_mut(&'a mut self) -> Lent<'a> {
        Lent(&mut *self.0)
    }
}

scoped_thread_local!(pub(crate) static mut SCRIPT: for<'a> (&'a mut Running, Lent<'a>));
