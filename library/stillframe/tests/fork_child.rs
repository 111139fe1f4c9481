//! What the forked child must not do: allocate, free, take a lock, or make any system call that its
//! sink does not make. The allocator of this binary traps in every process but the first, and a
//! filter of the kernel kills a child that calls it for anything but `write` and the end.
#![allow(clippy::unwrap_used, reason = "a test")]
#![cfg(not(miri))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Seek};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;
use std::{io, thread};

use stillframe::algorithms::fork::Fork;
use stillframe::{Algorithm, BLOCK_WORDS, CaptureError, Image, Options, Point};
use stillframe::{Shared, Sink, SinkError};

/// The system's allocator, for the process that used it first.
struct Trap;

static OWNER: AtomicU32 = AtomicU32::new(0);

impl Trap {
    fn check() {
        let this = std::process::id();
        let owner = OWNER.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed);
        if owner.is_err_and(|owner| owner != this) {
            let message = b"a forked child used the allocator\n";
            // SAFETY: writes from a buffer that lives long enough.
            unsafe { libc::write(2, message.as_ptr().cast(), message.len()) };
            // SAFETY: ends the process.
            unsafe { libc::abort() };
        }
    }
}

// SAFETY: the system's allocator, which keeps the contract; the check does not allocate.
unsafe impl GlobalAlloc for Trap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::check();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        Self::check();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static TRAP: Trap = Trap;

/// What a child does beside comparing.
#[derive(Clone, Copy, PartialEq)]
enum Deed {
    Nothing,
    Allocates,
    Frees,
    Filtered,
    FilteredAndAsksItsName,
}

/// Compares each word with the state at begin, counts in shared memory and writes to a file.
struct Expect {
    expected: Vec<u64>,
    pushed: Shared<AtomicU64>,
    file: Option<RawFd>,
    deed: Deed,
    ballast: Vec<u64>,
}

impl Sink for Expect {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        if start == 0 {
            match self.deed {
                Deed::Nothing => {}
                Deed::Allocates => self.ballast.reserve(1 << 10),
                Deed::Frees => self.ballast = Vec::new(),
                Deed::Filtered | Deed::FilteredAndAsksItsName => allow_only_write_and_exit()?,
            }
            if self.deed == Deed::FilteredAndAsksItsName {
                // SAFETY: touches no memory.
                unsafe { libc::syscall(libc::SYS_getpid) };
            }
        }
        if words != &self.expected[start..start + words.len()] {
            return Err(SinkError::new(format_args!("wrong words from {start} on")));
        }
        if let Some(file) = self.file {
            let bytes = size_of_val(words);
            // SAFETY: writes from a buffer that lives long enough.
            let written = unsafe { libc::write(file, words.as_ptr().cast(), bytes) };
            if written != bytes as isize {
                return Err(SinkError::new(format_args!("wrote {written} of {bytes} bytes")));
            }
        }
        self.pushed.fetch_add(words.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

const REFUSED: &str = "no filter";

/// From here on the kernel kills this process at any other system call.
fn allow_only_write_and_exit() -> Result<(), SinkError> {
    const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        step(LOAD_NUMBER, 0, 0, 0),
        step(IF_EQUAL, 2, 0, libc::SYS_write as u32),
        step(IF_EQUAL, 1, 0, libc::SYS_exit_group as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: touches no memory.
    let no_new = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: the program points to a live filter of that length.
    let set =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    if no_new == 0 && set == 0 { Ok(()) } else { Err(SinkError::new(format_args!("{REFUSED}"))) }
}

const WORDS: usize = 20 * BLOCK_WORDS + 3;

struct Rig {
    state: Fork,
    oracle: Vec<u64>,
    seed: u64,
}

impl Rig {
    fn new() -> Self {
        let state = Fork::create(&Options::words(WORDS)).unwrap();
        Self { state, oracle: vec![0; WORDS], seed: 1 }
    }
    fn writes(&mut self, count: usize) {
        for _ in 0..count {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let index = (self.seed >> 33) as usize % WORDS;
            self.state.write(index, self.seed);
            self.oracle[index] = self.seed;
        }
    }
    fn image(&mut self, deed: Deed, file: Option<RawFd>) -> (Result<(), CaptureError>, u64) {
        let pushed = Shared::new(AtomicU64::new(0)).unwrap();
        let (expected, ballast) = (self.oracle.clone(), vec![0; 100]);
        let sink = Expect { expected, pushed: pushed.clone(), file, deed, ballast };
        let mut image = self.state.begin(Point::declare(), sink).unwrap();
        self.writes(500);
        (image.capture(), pushed.load(Ordering::Relaxed))
    }
}

#[test]
fn the_child_never_uses_the_allocator() {
    let mut rig = Rig::new();
    for _ in 0..100 {
        let (result, pushed) = rig.image(Deed::Nothing, None);
        result.unwrap();
        assert_eq!(pushed, WORDS as u64);
    }
}

#[test]
fn the_trap_works() {
    for deed in [Deed::Allocates, Deed::Frees] {
        let (result, pushed) = Rig::new().image(deed, None);
        let aborted = matches!(result, Err(CaptureError::ChildKilled { signal: libc::SIGABRT }));
        assert!(aborted && pushed == 0, "{result:?}");
    }
}

#[test]
fn the_child_makes_no_system_call_but_its_sinks() {
    let mut rig = Rig::new();
    rig.writes(WORDS);
    let name = format!("stillframe-fork-child-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let options = &mut std::fs::OpenOptions::new();
    let mut file = options.create(true).read(true).write(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let image: Vec<u8> = rig.oracle.iter().flat_map(|word| word.to_ne_bytes()).collect();

    let (result, pushed) = rig.image(Deed::Filtered, Some(file.as_raw_fd()));
    if let Err(CaptureError::Sink(error)) = result
        && error.message() == REFUSED
    {
        let test = "a forked child calls the kernel for nothing but its work";
        return stillframe_peers::skipped(test, "this kernel filters no system calls of a process");
    }
    result.unwrap();
    assert_eq!(pushed, WORDS as u64);
    let mut found = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut found).unwrap();
    assert!(found == image, "the file is not the image");

    // The filter itself works.
    let (result, _) = rig.image(Deed::FilteredAndAsksItsName, None);
    let killed = matches!(result, Err(CaptureError::ChildKilled { signal: libc::SIGSYS }));
    assert!(killed, "{result:?}");
}

/// Threads of the parent hold, at most instants, the locks that a careless child would wait for.
#[test]
fn locks_held_at_the_fork_do_not_matter() {
    static LOCK: Mutex<()> = Mutex::new(());
    let stop = AtomicBool::new(false);
    let until_stopped = |body: &dyn Fn()| {
        while !stop.load(Ordering::Relaxed) {
            body();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            until_stopped(&|| {
                let _held = (io::stdout().lock(), io::stderr().lock(), LOCK.lock());
                thread::yield_now();
            });
        });
        for size in [16, 5000, 1 << 20] {
            scope.spawn(move || until_stopped(&|| drop(vec![1u8; size])));
        }
        scope.spawn(|| until_stopped(&|| drop(thread::spawn(|| ()).join())));
        let (sender, receiver) = mpsc::channel();
        scope.spawn(move || {
            let mut rig = Rig::new();
            for _ in 0..60 {
                let (result, pushed) = rig.image(Deed::Nothing, None);
                sender.send((result, pushed)).unwrap();
            }
        });
        for _ in 0..60 {
            // Long enough for any machine: what this distinguishes from success is a wait for ever.
            let image = receiver.recv_timeout(Duration::from_secs(100));
            stop.store(image.is_err(), Ordering::Relaxed);
            let (result, pushed) = image.unwrap();
            result.unwrap();
            assert_eq!(pushed, WORDS as u64);
        }
        stop.store(true, Ordering::Relaxed);
    });
}
