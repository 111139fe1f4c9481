//! SIGKILL at random moments while a writer races its checkpoints, for every algorithm; also that
//! a forked child lives by its rules while it writes a checkpoint.
//!
//! This program runs itself: the child opens the directory, checks what it finds and writes until
//! it is killed. Its allocator ends any process but the one that used it first, so a forked child
//! that allocates or frees, be it in an error's path, dies and its checkpoint fails.

use std::alloc::{GlobalAlloc, Layout, System};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stillframe::Algorithm;
use stillframe::algorithms::{CORE, Visitor, dispatch_core};
use stillframe_durability::{Error, Options, Store};

struct Trap;

#[global_allocator]
static TRAP: Trap = Trap;
static OWNER: AtomicU32 = AtomicU32::new(0);

fn check_owner() {
    let process = std::process::id();
    let owner = OWNER.compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed);
    if owner.is_err_and(|owner| owner != process) {
        std::process::abort();
    }
}

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Trap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check_owner();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        check_owner();
        // SAFETY: the caller keeps the contract of `dealloc`; the place came from `System`.
        unsafe { System.dealloc(place, layout) }
    }
}

const WORDS: usize = 30_000;
/// The job of the program when it runs itself: name of the algorithm, then of the directory.
const JOB: [&str; 2] = ["STILLFRAME_KILL_ALGORITHM", "STILLFRAME_KILL_DIRECTORY"];

/// This program again, as one test, with a job in its environment.
fn start(test: &str, shell: &str, job: [&str; 2]) -> Child {
    let this = std::env::current_exe().expect("this program has a path");
    Command::new("sh")
        .args(["-c", &format!(r#"{shell} exec "$0" --exact "$1""#)])
        .arg(this)
        .arg(test)
        .envs(JOB.into_iter().zip(job))
        .stdout(Stdio::piped())
        .spawn()
        .expect("there is a shell")
}

fn job() -> Option<(String, PathBuf)> {
    let [algorithm, directory] = JOB.map(std::env::var_os);
    Some((algorithm?.into_string().ok()?, directory?.into()))
}

fn printed(output: &Output) -> String {
    format!("{}: {}", output.status, String::from_utf8_lossy(&output.stdout))
}

#[test]
fn a_killed_writer_leaves_a_state_of_a_point_of_consistency() {
    if let Some((algorithm, directory)) = job() {
        return dispatch_core(&algorithm, Race(&directory)).expect("a name of the registry");
    }
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let seed = clock.subsec_nanos();
    let rounds = if std::env::var_os("STILLFRAME_LONG").is_some() { 500 } else { 20 };
    // Side by side: each of them mostly waits for its disk and for its end.
    std::thread::scope(|scope| {
        for info in CORE {
            scope.spawn(move || kill_often(info.name, seed, rounds));
        }
    });
}

/// Kills a writer with one algorithm so many times, in one directory.
fn kill_often(algorithm: &str, seed: u32, rounds: u64) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("a plain name");
    let name = "a_killed_writer_leaves_a_state_of_a_point_of_consistency";
    for round in 0..rounds {
        let mut child = start(name, "", [algorithm, path]);
        let pause = (u64::from(seed) + round).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        while !has_checkpoint(directory.path()) && child.try_wait().expect("ours").is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(pause % 60));
        child.kill().expect("it is ours");
        let output = child.wait_with_output().expect("it is dead");
        let place = format!("seed {seed}, {algorithm}, round {round}");
        assert_eq!(output.status.signal(), Some(9), "{place}: {}", printed(&output));
    }
}

fn has_checkpoint(directory: &Path) -> bool {
    let mut entries = std::fs::read_dir(directory).expect("it is there").flatten();
    entries.any(|entry| entry.file_name().to_string_lossy().starts_with("checkpoint-"))
}

/// Writes for ever; the second half of the state mirrors the first at every point.
struct Race<'a>(&'a Path);

impl Visitor for Race<'_> {
    type Output = ();
    fn visit<A: Algorithm>(self) {
        let options = Options::words(WORDS).every(Duration::from_millis(1));
        let mut store = Store::<A>::open_with(self.0, options).expect("a sound directory");
        for index in 0..WORDS / 2 {
            assert_eq!(store.read(index), store.read(WORDS - 1 - index), "word {index}");
        }
        assert!(store.recovery().skipped.is_empty(), "{:?}", store.recovery());
        let mut random = u64::from(std::process::id());
        loop {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let index = (random >> 33) as usize % (WORDS / 2);
            store.write(index, random);
            store.write(WORDS - 1 - index, random);
            store.point();
            if store.stats().failures > 0 {
                panic!("{:?}", store.stats().last_error);
            }
        }
    }
}

/// The limit of the file size stands for a full disk, because any user may set it: with SIGXFSZ
/// ignored, a write beyond it fails in the middle of the file.
#[test]
fn a_full_disk_leaves_the_old_checkpoint_and_the_next_one_works() {
    if let Some((algorithm, directory)) = job() {
        return dispatch_core(&algorithm, Full(&directory)).expect("a name of the registry");
    }
    for info in CORE {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().to_str().expect("a plain name");
        // Blocks of 512 or 1024 bytes: room for the header and a block, but not for all words.
        let shell = "trap '' XFSZ; ulimit -S -f 180;";
        let name = "a_full_disk_leaves_the_old_checkpoint_and_the_next_one_works";
        let output = start(name, shell, [info.name, path]).wait_with_output().expect("it ran");
        assert!(output.status.success(), "{}: {}", info.name, printed(&output));
    }
}

struct Full<'a>(&'a Path);

impl Visitor for Full<'_> {
    type Output = ();
    fn visit<A: Algorithm>(self) {
        let open = |words| Store::<A>::open_with(self.0, Options::words(words)).expect("sound");
        let mut store = open(100);
        store.write(0, 1);
        assert_eq!(store.checkpoint_and_wait().expect("it fits"), 1);
        drop(store);

        let mut store = open(WORDS);
        store.write(0, 2);
        let error = store.checkpoint_and_wait().expect_err("the disk is full");
        assert!(matches!(error, Error::Capture { number: 2, .. }), "{error}");
        assert!(error.to_string().contains("File too large"), "{error}");
        let stats = store.stats();
        assert_eq!((stats.failures, stats.newest), (1, Some(1)));
        assert_eq!(stats.last_error, Some(error.to_string()));
        drop(store);
        assert_eq!(open(WORDS).read(0), 1, "the old one is intact");

        let mut store = open(WORDS);
        store.write(0, 3);
        store.checkpoint();
        store.point().expect("it begins");
        store.wait().expect_err("the disk is full");
        let maximum = getrlimit(Resource::Fsize).maximum;
        let lifted = Rlimit { current: maximum, maximum };
        setrlimit(Resource::Fsize, lifted).expect("a soft limit may be lifted");
        store.checkpoint_and_wait().expect("there is space again");
        drop(store);
        assert_eq!(open(WORDS).read(0), 3);
    }
}
