//! A disk that is full: the old checkpoint stays, the error is told, the next one works.
//!
//! The limit of the file size stands for the disk, because any user may set it: this program runs
//! itself under `ulimit` and lifts the limit again half-way. With SIGXFSZ ignored a write beyond
//! the limit fails as on a full disk, in the middle of the file.

use std::process::Command;

use rustix::process::{Resource, getrlimit, setrlimit};
use stillframe::Algorithm;
use stillframe::algorithms::{Visitor, dispatch};
use stillframe_durability::{Error, Options, Store};

const WORDS: usize = 100_000;
const NAME: &str = "STILLFRAME_FULL_DISK";

#[test]
fn leaves_the_old_checkpoint_and_takes_the_next() {
    if let Some(name) = std::env::var_os(NAME) {
        let name = name.into_string().expect("a name of the registry");
        return dispatch(&name, UnderLimit).expect("a name of the registry");
    }
    let this = std::env::current_exe().expect("this program has a path");
    for info in stillframe::algorithms::ALL {
        // 200 blocks of 512 or 1024 bytes: less than the checkpoint has, more than its first block.
        let output = Command::new("sh")
            .args(["-c", r#"trap '' XFSZ; ulimit -S -f 200; exec "$0" --exact "$1""#])
            .arg(&this)
            .arg("leaves_the_old_checkpoint_and_takes_the_next")
            .env(NAME, info.name)
            .output()
            .expect("there is a shell");
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}: {told}", info.name);
    }
}

struct UnderLimit;

impl Visitor for UnderLimit {
    type Output = ();
    fn visit<A: Algorithm>(self) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let open = |words| Store::<A>::open_with(path, Options::words(words)).expect("sound");
        // Small at first, so that it fits below the limit.
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
        let limit = getrlimit(Resource::Fsize);
        let lifted = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
        setrlimit(Resource::Fsize, lifted).expect("a soft limit may be lifted");
        store.checkpoint_and_wait().expect("there is space again");
        drop(store);
        assert_eq!(open(WORDS).read(0), 3);
    }
}
