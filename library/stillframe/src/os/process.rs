//! A forked child that runs one closure.

use std::panic::{set_hook, take_hook};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::panicking;

use crate::sync::caught;

/// Whether this process is a child: set there, in memory of its own, and never cleared. One thread.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// A child process. Dropping it kills it and waits for it, so that none outlives its image.
#[derive(Debug)]
pub(crate) struct Child {
    pid: libc::pid_t,
    reaped: bool,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(i32),
    Killed(i32),
    /// Reaped elsewhere, for example because the process ignores SIGCHLD.
    Unknown,
}

/// Why there is no image by `fork`: there is.
pub(crate) const NO_FORK: Option<&str> = None;
/// Exit status of a child whose closure panicked.
pub(crate) const STATUS_PANICKED: i32 = 101;

impl Child {
    /// Forks. The child runs `body` at low priority with all signals blocked and exits with the
    /// status it returns; it dies with the thread that forked it.
    ///
    /// Only the calling thread exists in the child. A lock that another thread held stays locked
    /// there for ever, the allocator's among them: `body` must not allocate, lock or log.
    ///
    /// # Errors
    /// The operating system's code.
    pub(crate) fn spawn(body: impl FnOnce() -> i32) -> Result<Self, i32> {
        let parent = std::process::id().cast_signed();
        Self::spawn_kept(|| {
            die_with_parent(parent);
            super::lower_priority();
            body()
        })
    }

    /// As [`spawn`](Self::spawn), but at the parent's priority, and `body` itself has to see to it
    /// that the child ends with its parent: the thread that forked may end before.
    pub(crate) fn spawn_kept(body: impl FnOnce() -> i32) -> Result<Self, i32> {
        // Blocked across the fork, so that no handler of the parent's ever runs in the child.
        let signals = SignalsBlocked::new();
        // SAFETY: the child runs `body` and `_exit`; it never returns into the caller's frames.
        match unsafe { libc::fork() } {
            -1 => Err(last_errno()),
            0 => {
                IS_CHILD.store(true, Ordering::Relaxed);
                exit_now(caught(body).unwrap_or(STATUS_PANICKED))
            }
            pid => {
                drop(signals);
                Ok(Self { pid, reaped: false })
            }
        }
    }

    /// From now on a panic ends a child at once, before the hook of this moment runs: that would
    /// allocate, and take a lock that another thread of the parent may have held at the fork.
    pub(crate) fn hush_panics() {
        static HUSHED: Once = Once::new();
        if panicking() {
            return; // the hook is in use
        }
        HUSHED.call_once(|| {
            let hook = take_hook();
            set_hook(Box::new(move |panic| {
                if IS_CHILD.load(Ordering::Relaxed) {
                    exit_now(STATUS_PANICKED);
                }
                hook(panic);
            }));
        });
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> i32 {
        self.pid
    }

    /// Kills the child, which has not been reaped.
    pub(super) fn kill(&self) {
        // SAFETY: the child was not reaped, so its number is its own.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
    }

    /// Waits for the child to end.
    pub(crate) fn wait(&mut self) -> Ended {
        self.reap(0).unwrap_or(Ended::Unknown)
    }

    /// How the child ended, or `None` if it has not: only with `WNOHANG`.
    fn reap(&mut self, options: i32) -> Option<Ended> {
        let mut status = 0;
        let pid = loop {
            // SAFETY: `status` is a valid place; a number that is no child of ours is refused.
            let pid = unsafe { libc::waitpid(self.pid, &raw mut status, options) };
            if pid != -1 || last_errno() != libc::EINTR {
                break pid;
            }
        };
        self.reaped = pid != 0;
        match pid {
            0 => None,
            -1 => Some(Ended::Unknown),
            _ if libc::WIFSIGNALED(status) => Some(Ended::Killed(libc::WTERMSIG(status))),
            _ => Some(Ended::Exited(libc::WEXITSTATUS(status))),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Asked first: the child may have been reaped elsewhere (a process that ignores SIGCHLD has
        // it done by the kernel), and its number may be a stranger's by now.
        if !self.reaped && self.reap(libc::WNOHANG).is_none() {
            self.kill();
            self.wait();
        }
    }
}

/// Blocks all signals of this thread while it lives. The child's copy is never dropped.
struct SignalsBlocked {
    before: libc::sigset_t,
}

impl SignalsBlocked {
    fn new() -> Self {
        // SAFETY: a `sigset_t` is plain data; all zero is a value of it.
        let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
        let mut before = all;
        // SAFETY: `all` is a valid place.
        unsafe { libc::sigfillset(&raw mut all) };
        // SAFETY: both sets are valid places.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
        Self { before }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        let none = std::ptr::null_mut();
        // SAFETY: `before` was filled in by `new`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, none) };
    }
}

/// A child left behind would write on and hold its parent's sockets.
fn die_with_parent(parent: libc::pid_t) {
    // SAFETY: takes a signal number and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // SAFETY: touches no memory.
    if unsafe { libc::getppid() } != parent {
        exit_now(STATUS_PANICKED); // the parent died before the request
    }
}

fn exit_now(status: i32) -> ! {
    // SAFETY: ends the process; runs no handlers and flushes nothing of the parent's.
    unsafe { libc::_exit(status) }
}

fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
