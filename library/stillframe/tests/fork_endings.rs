//! Every way for a forked child to end badly reaches its parent, and none outlives its image.
#![allow(clippy::unwrap_used, reason = "a test")]
#![cfg(not(miri))]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::Duration;

use stillframe::algorithms::fork::Fork;
use stillframe::{Algorithm, CaptureError, Image, Options, Point, Shared, Sink, SinkError};

/// How the process treats SIGCHLD is one for all threads: who changes it writes.
static SIGCHLD: RwLock<()> = RwLock::new(());

#[derive(Clone, Copy)]
enum Deed {
    Succeeds,
    WritesTo(i32),
    Panics,
    Aborts,
    Faults,
    Exits(i32),
    Waits,
}

#[derive(Default)]
struct Board {
    pid: AtomicI32,
    go_on: AtomicBool,
}

// SAFETY: its fields are atomics.
unsafe impl stillframe::Shareable for Board {}

struct Actor {
    deed: Deed,
    board: Shared<Board>,
}

impl Sink for Actor {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        self.board.pid.store(std::process::id().cast_signed(), Ordering::Release);
        if start == 0 {
            return Ok(());
        }
        match self.deed {
            Deed::Succeeds => {}
            Deed::WritesTo(file) => {
                // SAFETY: writes from a buffer that lives long enough.
                let written = unsafe { libc::write(file, words.as_ptr().cast(), 8) };
                if written < 0 {
                    let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
                    return Err(SinkError::from_errno(format_args!("writing {start}"), errno));
                }
            }
            Deed::Panics => panic!("on purpose"),
            Deed::Aborts => std::process::abort(),
            Deed::Faults => {
                // SAFETY: none: it reads where nothing is, which ends this process, a child. Its
                // length counts, so that the call stays.
                std::hint::black_box(unsafe { libc::strlen(std::ptr::without_provenance(8)) });
            }
            // SAFETY: ends this process, a child, at once.
            Deed::Exits(status) => unsafe { libc::_exit(status) },
            Deed::Waits => {
                while !self.board.go_on.load(Ordering::Acquire) {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
        Ok(())
    }
}

const WORDS: usize = 4 * stillframe::BLOCK_WORDS;

fn state() -> Fork {
    Fork::create(&Options::words(WORDS)).unwrap()
}

type Begun = (<Fork as Algorithm>::Image<Actor>, Shared<Board>);

fn begin(state: &mut Fork, deed: Deed) -> Begun {
    let board = Shared::new(Board::default()).unwrap();
    let sink = Actor { deed, board: board.clone() };
    (state.begin(Point::declare(), sink).unwrap(), board)
}

/// The number of the child, once it waits.
fn child(board: &Board) -> i32 {
    loop {
        match board.pid.load(Ordering::Acquire) {
            0 => thread::yield_now(),
            pid => return pid,
        }
    }
}

/// Runs an image that ends as `deed` makes it, then one that succeeds.
fn ending(deed: Deed) -> CaptureError {
    let mut state = state();
    let (mut image, _) = begin(&mut state, deed);
    let result = image.capture();
    drop(image);
    begin(&mut state, Deed::Succeeds).0.capture().unwrap();
    result.unwrap_err()
}

fn is_alive(pid: i32) -> bool {
    // SAFETY: signal 0 asks only.
    unsafe { libc::kill(pid, 0) == 0 }
}

#[test]
fn a_full_disk_is_reported_with_its_code() {
    let _watchdog = stillframe_peers::Watchdog::start();
    use std::os::fd::AsRawFd;
    let _shared = SIGCHLD.read().unwrap();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let error = ending(Deed::WritesTo(full.as_raw_fd()));
    let CaptureError::Sink(error) = error else { panic!("{error:?}") };
    assert_eq!(error.errno(), libc::ENOSPC);
    assert_eq!(error.message(), format!("writing {}", stillframe::BLOCK_WORDS));
}

#[test]
fn a_panic_is_reported() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let _shared = SIGCHLD.read().unwrap();
    assert!(matches!(ending(Deed::Panics), CaptureError::Panicked));
}

/// The hook of the program waits for a lock that another thread holds at the fork.
#[test]
fn a_panic_takes_no_lock_of_the_parent() {
    const NAME: &str = "a_panic_takes_no_lock_of_the_parent";
    if std::env::var_os("STILLFRAME_HOOK").is_none() {
        // The hook is one for all threads: in a process of its own.
        let mut again = Command::new(std::env::current_exe().unwrap());
        let again = again.args([NAME, "--exact"]).env("STILLFRAME_HOOK", "1").output().unwrap();
        return assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stdout));
    }
    let _watchdog = stillframe_peers::Watchdog::start();
    static PRINTING: Mutex<()> = Mutex::new(());
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let _printing = PRINTING.lock();
        before(panic);
    }));
    let mut state = state();
    let printing = PRINTING.lock().unwrap();
    let (mut image, _) = begin(&mut state, Deed::Panics);
    drop(printing);
    assert!(matches!(image.capture(), Err(CaptureError::Panicked)));
    // Here it runs as ever.
    assert!(std::panic::catch_unwind(|| panic!("on purpose")).is_err());
}

#[test]
fn a_signal_is_reported() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let _shared = SIGCHLD.read().unwrap();
    for (deed, expected) in [(Deed::Aborts, libc::SIGABRT), (Deed::Faults, libc::SIGSEGV)] {
        match ending(deed) {
            CaptureError::ChildKilled { signal } => assert_eq!(signal, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_early_exit_is_reported_whatever_its_status() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let _shared = SIGCHLD.read().unwrap();
    for expected in [0, 1, 7, 255] {
        match ending(Deed::Exits(expected)) {
            CaptureError::ChildExited { status } => assert_eq!(status, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_kill_from_outside_is_reported() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let _shared = SIGCHLD.read().unwrap();
    let mut state = state();
    let (mut image, board) = begin(&mut state, Deed::Waits);
    // SAFETY: the child runs until its board says otherwise.
    unsafe { libc::kill(child(&board), libc::SIGKILL) };
    let result = image.capture();
    assert!(matches!(result, Err(CaptureError::ChildKilled { signal: libc::SIGKILL })));
}

#[test]
fn a_cancel_is_reported() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let _shared = SIGCHLD.read().unwrap();
    let mut state = state();
    let (mut image, board) = begin(&mut state, Deed::Waits);
    child(&board);
    state.progress().cancel();
    board.go_on.store(true, Ordering::Release);
    assert!(matches!(image.capture(), Err(CaptureError::Cancelled)));
}

/// Signals meant for the parent's handlers never run in the child.
#[test]
fn other_signals_stay_with_the_parent() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let _shared = SIGCHLD.read().unwrap();
    let mut state = state();
    let (mut image, board) = begin(&mut state, Deed::Waits);
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1] {
        // SAFETY: the child runs until its board says otherwise.
        unsafe { libc::kill(child(&board), signal) };
    }
    board.go_on.store(true, Ordering::Release);
    image.capture().unwrap();
}

#[test]
fn a_dropped_image_leaves_no_child() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let _shared = SIGCHLD.read().unwrap();
    let mut state = state();
    for _ in 0..20 {
        let (image, board) = begin(&mut state, Deed::Waits);
        let pid = child(&board);
        assert!(is_alive(pid));
        drop(image);
        assert!(!is_alive(pid), "the child runs on, or was not waited for");
        assert!(!state.progress().running());
    }
    begin(&mut state, Deed::Succeeds).0.capture().unwrap();
}

#[test]
fn the_child_dies_with_the_thread_that_began() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let _shared = SIGCHLD.read().unwrap();
    let (mut state, mut image) = thread::spawn(|| {
        let mut state = state();
        let (image, board) = begin(&mut state, Deed::Waits);
        child(&board);
        (state, image)
    })
    .join()
    .unwrap();
    let result = image.capture();
    assert!(matches!(result, Err(CaptureError::ChildKilled { signal: libc::SIGKILL })));
    drop(image);
    begin(&mut state, Deed::Succeeds).0.capture().unwrap();
}

/// With SIGCHLD ignored the kernel waits for the child and its status is lost; success and the
/// sink's error still arrive, and the rest arrives as an unknown end.
#[test]
fn an_ignored_sigchld_loses_nothing_but_the_status() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let _alone = SIGCHLD.write().unwrap();
    // SAFETY: sets a disposition that runs no code.
    let before = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    let mut state = state();
    let succeeds = begin(&mut state, Deed::Succeeds).0.capture();
    let fails = begin(&mut state, Deed::WritesTo(-1)).0.capture();
    let aborts = begin(&mut state, Deed::Aborts).0.capture();
    let (image, board) = begin(&mut state, Deed::Waits);
    let pid = child(&board);
    drop(image);
    let gone = !is_alive(pid);
    // Dropped when the child has ended and the kernel has waited for it.
    let (image, board) = begin(&mut state, Deed::Succeeds);
    let pid = child(&board);
    while is_alive(pid) {
        thread::yield_now();
    }
    drop(image);
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGCHLD, before) };
    succeeds.unwrap();
    assert!(matches!(fails, Err(CaptureError::Sink(error)) if error.errno() == libc::EBADF));
    assert!(matches!(aborts, Err(CaptureError::ChildExited { status: -1 })), "{aborts:?}");
    assert!(gone);
}

/// Set in the process that `the_child_dies_with_its_parent` starts and kills.
const VICTIM: &str = "STILLFRAME_TEST_VICTIM";

#[test]
fn the_child_dies_with_its_parent() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let _shared = SIGCHLD.read().unwrap();
    if std::env::var_os(VICTIM).is_some() {
        let mut state = state();
        let (mut image, board) = begin(&mut state, Deed::Waits);
        println!("child {}", child(&board));
        let _ = image.capture();
        return;
    }
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_child_dies_with_its_parent", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(victim.stdout.take().unwrap());
    let pid = output
        .lines()
        .find_map(|line| line.unwrap().split_once("child ")?.1.parse::<i32>().ok())
        .unwrap();
    assert!(is_alive(pid));
    victim.kill().unwrap();
    victim.wait().unwrap();
    // The process that adopts it may be late to wait for it: a zombie has no memory and no files.
    let stat = format!("/proc/{pid}/stat");
    while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        thread::yield_now();
    }
}
