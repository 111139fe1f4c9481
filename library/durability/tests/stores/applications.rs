//! A directory is opened by the application whose state it holds, and by no other.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use stillframe_durability::{
    Accepted, Act, ActStore, Action, Application, ApplyError, Error, Increments, Log, LogOptions,
    Options, Store, Until, rewind,
};
use tempfile::tempdir;

/// A tag, and a layout.
type Name = (&'static str, u32);

const NAMES: [Name; 4] = [("", 0), ("order-book", 1), ("order-book", 2), ("game", 1)];

/// How a store is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner {
    Plain,
    Increments,
    Packed,
    Logged,
}

const MANNERS: [Manner; 4] = [Manner::Plain, Manner::Increments, Manner::Packed, Manner::Logged];

fn options((tag, layout): Name, manner: Manner) -> Options {
    let options = Options::words(3).application(tag, layout);
    match manner {
        Manner::Plain | Manner::Logged => options,
        Manner::Increments => options.increments(Increments::at_most(4)),
        Manner::Packed => options.pack(),
    }
}

#[derive(Debug)]
enum Opened {
    Plain(Store),
    Logged(ActStore),
}

impl Deref for Opened {
    type Target = Store;

    fn deref(&self) -> &Store {
        match self {
            Self::Plain(store) => store,
            Self::Logged(store) => store,
        }
    }
}

impl Opened {
    fn write(&mut self, index: usize, value: u64) {
        match self {
            Self::Plain(store) => store.write(index, value),
            Self::Logged(store) => {
                let mut act = store.begin_act();
                act.write(index, value);
                act.commit().expect("a sound disk");
            }
        }
    }

    fn checkpoint(&mut self) {
        let number = match self {
            Self::Plain(store) => store.checkpoint_and_wait(),
            Self::Logged(store) => store.checkpoint_and_wait(),
        };
        number.expect("a sound disk");
    }

    fn close(self) {
        match self {
            Self::Plain(store) => store.close().expect("a sound disk"),
            Self::Logged(store) => store.close().expect("a sound disk"),
        }
    }
}

fn apply(act: &mut Act<'_>, action: &Action<'_>) -> Result<(), ApplyError> {
    act.write(0, u64::from(action.bytes[0]));
    Ok(())
}

fn open(path: &Path, manner: Manner, options: Options) -> Result<Opened, Error> {
    match manner {
        Manner::Logged => ActStore::open_records(path, options, apply).map(Opened::Logged),
        _ => Store::open(path, options).map(Opened::Plain),
    }
}

/// Some checkpoints, and an action after the last one if there is a log.
fn fill(path: &Path, manner: Manner, name: Name) {
    let mut store = open(path, manner, options(name, manner)).expect("a sound disk");
    for value in 1..=3 {
        store.write(0, value);
        store.checkpoint();
    }
    if let Opened::Logged(store) = &mut store {
        store.log(&[4]).expect("a sound disk").write(0, 4);
    }
    store.close();
}

fn last(manner: Manner) -> u64 {
    if manner == Manner::Logged { 4 } else { 3 }
}

fn shown((tag, layout): Name) -> String {
    match tag {
        "" => "a program that gives no name".to_owned(),
        _ => format!("application \"{tag}\", layout {layout}"),
    }
}

fn names(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(path).expect("it is there").map(|entry| entry.expect("it").path());
    let mut files: Vec<_> = entries.filter(|path| !path.ends_with("lock")).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), fs::read(path).expect("it is there"))).collect()
}

#[test]
fn every_application_opens_its_own_and_is_refused_others_by_name() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for (manner, theirs) in MANNERS.into_iter().flat_map(|it| NAMES.map(|name| (it, name))) {
        let folder = tempdir().expect("a folder");
        fill(folder.path(), manner, theirs);
        for (ours, adopts) in NAMES.into_iter().flat_map(|name| [(name, false), (name, true)]) {
            let case = format!("{manner:?}, {theirs:?}, {ours:?}, {adopts}");
            let mut asked = options(ours, manner);
            if adopts {
                asked = asked.adopt_untagged();
            }
            let is_own = ours == theirs || adopts && theirs == NAMES[0];
            if is_own {
                // In a copy: what is adopted bears the tag from then on.
                let copy = tempdir().expect("a folder");
                for (path, bytes) in names(folder.path()) {
                    let name = path.file_name().expect("a name");
                    fs::write(copy.path().join(name), bytes).expect("writable");
                }
                let store = open(copy.path(), manner, asked).expect(&case);
                assert_eq!(store.read(0), last(manner), "{case}");
                continue;
            }
            let before = names(folder.path());
            let refused = open(folder.path(), manner, asked).expect_err(&case);
            assert!(matches!(refused, Error::Foreign { .. }), "{case}: {refused}");
            let text = refused.to_string();
            let (found, wanted) = (shown(theirs), shown(ours));
            assert!(text.contains(&format!("is of {found}, and was")), "{case}: {text}");
            assert!(text.contains(&format!("opened for {wanted}; ")), "{case}: {text}");
            assert_eq!(names(folder.path()), before, "{case}: nothing has changed");
        }
    }
}

/// Adopted once, and checkpointed, a directory needs no more leave, though files of before are in
/// its chain and log.
#[test]
fn what_was_adopted_bears_the_tag() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for manner in MANNERS {
        let folder = tempdir().expect("a folder");
        fill(folder.path(), manner, NAMES[0]);
        let own = || options(("order-book", 1), manner);
        let mut store = open(folder.path(), manner, own().adopt_untagged()).expect("it is adopted");
        store.write(1, 7);
        store.checkpoint();
        drop(store);
        let store = open(folder.path(), manner, own()).expect("it is its own");
        assert_eq!((store.read(0), store.read(1)), (last(manner), 7), "{manner:?}");
        drop(store);
        let refused = open(folder.path(), manner, options(NAMES[0], manner));
        assert!(matches!(refused, Err(Error::Foreign { .. })), "{manner:?}");
    }
}

#[test]
fn merges_rewinds_and_recoveries_keep_the_tag() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let folder = tempdir().expect("a folder");
    let own = ("order-book", 2);
    let chain = folder.path().join("chain");
    let limits = || options(own, Manner::Plain).increments(Increments::at_most(1));
    let mut store = open(&chain, Manner::Plain, limits()).expect("a sound disk");
    for value in 1..=5 {
        store.write(0, value);
        store.checkpoint();
        store.wait_merged();
    }
    assert!(store.stats().merges > 0);
    drop(store);
    let refused = open(&chain, Manner::Plain, options(NAMES[3], Manner::Plain));
    assert!(matches!(refused, Err(Error::Foreign { .. })));
    assert_eq!(open(&chain, Manner::Plain, limits()).expect("its own").read(0), 5);

    let source = folder.path().join("source");
    fill(&source, Manner::Logged, own);
    let copy = folder.path().join("copy");
    rewind(&source, None, Accepted::default(), &copy).expect("all of it");
    let refused = open(&copy, Manner::Logged, options(NAMES[3], Manner::Logged));
    assert!(matches!(refused, Err(Error::Foreign { .. })));
    let store = open(&copy, Manner::Logged, options(own, Manner::Logged)).expect("its own");
    assert_eq!(store.read(0), 4);
    let past = |name: Name, target: &str| {
        let (until, target) = (Until::Sequence(3), folder.path().join(target));
        let asked = options(name, Manner::Logged);
        ActStore::rewind_records(&source, until, &target, asked, apply)
    };
    assert!(matches!(past(NAMES[3], "theirs"), Err(Error::Foreign { .. })));
    assert!(!folder.path().join("theirs").join("lock").exists(), "nothing was made");
    drop(past(own, "ours").expect("its own"));
    let ours = folder.path().join("ours");
    let refused = open(&ours, Manner::Logged, options(NAMES[0], Manner::Logged));
    assert!(matches!(refused, Err(Error::Foreign { .. })));
}

#[test]
fn a_log_without_a_checkpoint_is_refused_before_an_action_is_applied() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let folder = tempdir().expect("a folder");
    let own = Application::new("order-book", 1);
    let log = Log::create(folder.path(), 1, &own, LogOptions::default()).expect("a sound disk");
    log.append(&[9]).expect("a sound disk");
    log.close().expect("a sound disk");
    for asked in [Application::default(), Application::new("game", 1)] {
        let refused = Log::read(folder.path(), 1, false, None, &asked, |_| panic!("not its own"));
        assert!(matches!(refused, Err(Error::Foreign { .. })), "{asked:?}");
        let asked = Options::words(1).application(&asked.tag, asked.layout);
        let refused =
            ActStore::open_records(folder.path(), asked.clone(), |_, _| panic!("not its"));
        assert!(matches!(refused, Err(Error::Foreign { .. })));
        assert!(matches!(Store::open(folder.path(), asked), Err(Error::Foreign { .. })));
    }
    let server = Application::server();
    let refused = Log::read(folder.path(), 1, false, None, &server, |_| panic!("not its own"));
    let text = refused.expect_err("it is another's").to_string();
    assert!(text.contains("application \"stillframe\", layout 1"), "{text}");
}

/// A checkpoint of the version before tags.
#[test]
fn a_file_of_before_tags_is_adopted_or_refused() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let hex = include_str!("../../src/checkpoint/version_3.hex");
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    let file: Vec<u8> = digits.chunks_exact(2).map(|it| (it[0] * 16 + it[1]) as u8).collect();
    let folder = tempdir().expect("a folder");
    fs::write(folder.path().join("checkpoint-00000000000000000007"), file).expect("writable");
    let own = Options::words(3).application("order-book", 1);
    let log = |options| ActStore::open_records(folder.path(), options, |_, _| Ok(()));
    let refused = log(own.clone()).expect_err("nobody said that it is its own").to_string();
    assert!(refused.contains("is of a program that gives no name"), "{refused}");
    assert!(refused.contains("`Options::adopt_untagged`"), "{refused}");
    // Its log is gone, which is the next thing to report.
    assert!(matches!(log(own.adopt_untagged()), Err(Error::Log { .. })));
}

#[test]
fn a_tag_that_does_not_fit_and_the_directory_of_a_server_are_refused() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let folder = tempdir().expect("a folder");
    for tag in ["seventeen bytes..", "a\0b"] {
        let refused = Store::open(folder.path(), Options::words(1).application(tag, 1));
        let text = refused.expect_err("it does not fit").to_string();
        assert!(text.contains("at most 16 bytes"), "{text}");
    }
    assert!(
        Store::open(folder.path(), Options::words(1).application("sixteen bytes...", 1)).is_ok()
    );
    for name in ["stillframe.lock", "dump.rdb"] {
        let folder = tempdir().expect("a folder");
        fs::write(folder.path().join(name), b"").expect("writable");
        let refused = Store::open(folder.path(), Options::words(1)).expect_err("a server's");
        assert!(refused.to_string().contains("is the data directory of a server"), "{refused}");
        let logged = ActStore::open_records(folder.path(), Options::words(1), |_, _| Ok(()));
        assert!(matches!(logged, Err(Error::OfAServer { .. })));
    }
}
