//! The data directory of a server, its archive, and an oracle that knows the state after each
//! record.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stillframe_durability::disk::Directory;
use stillframe_durability::{Application, Log, Until};
use stillframe_keyspace::KeyspaceOptions;
use stillframe_peers::{Random, rounds};
use stillframe_storage::dump::{self, DataDirectory};
use stillframe_storage::journal::position;
use stillframe_storage::replay::Records;
use stillframe_storage::{LogKeep, Standalone};
use tempfile::TempDir;

use super::faults::Faulty;
use crate::error::ArchiveError;
use crate::manifest::Manifest;
use crate::mutant::{Mutant, with_mutant};
use crate::owner::Owner;
use crate::restore::fetch_from;
use crate::settings::{Settings, Source};
use crate::shared::Shared;
use crate::spool::Spool;
use crate::worker::Worker;

pub(super) type State = BTreeMap<String, String>;

pub(super) fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

/// A server's directory without its server.
pub(super) struct Server {
    pub(super) folder: TempDir,
    data: Option<Standalone>,
    /// The state after each record; the first is that after none.
    pub(super) states: Vec<State>,
    /// Those of logs before, whose numbers were given again.
    earlier: Vec<Vec<State>>,
    keep: u64,
}

impl Server {
    pub(super) fn new(keep: u64) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut server =
            Self { folder, data: None, states: vec![State::new()], earlier: Vec::new(), keep };
        server.open(true);
        server
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn open(&mut self, appendonly: bool) {
        let log_keep = LogKeep { seconds: self.keep, bytes: 0 };
        let settings = stillframe_storage::Settings {
            appendonly,
            log_keep,
            save: Vec::new(),
            appendfsync: stillframe_durability::Policy::Always,
            ..Default::default()
        };
        let directory = DataDirectory::open(self.folder.path(), "dump.rdb").expect("it opens");
        let data = Standalone::open(directory, settings, &KeyspaceOptions::default());
        let mut data = data.expect("it is sound");
        data.attend();
        if appendonly && !data.storage.journal.is_on() {
            data.save().expect("there is room");
        }
        self.data = Some(data);
    }

    fn data(&mut self) -> &mut Standalone {
        self.data.as_mut().expect("it is open")
    }

    /// Runs one write, which is one record, and waits until it is on the disk.
    pub(super) fn set(&mut self, key: &str, value: &str) {
        let mut state = self.states.last().expect("there is one").clone();
        state.insert(key.to_owned(), value.to_owned());
        self.run(&[b"SET", key.as_bytes(), value.as_bytes()], state);
    }

    pub(super) fn flush(&mut self) {
        self.run(&[b"FLUSHALL"], State::new());
    }

    fn run(&mut self, args: &[&[u8]], state: State) {
        let data = self.data();
        data.run(args).expect("it is a write");
        data.attend();
        while let Some(record) = data.storage.journal.awaited()
            && data.storage.journal.durable() < record
        {
            std::thread::yield_now();
        }
        self.states.push(state);
    }

    pub(super) fn save(&mut self) {
        self.data().save().expect("there is room");
    }

    /// Ends well, and starts again.
    pub(super) fn restart(&mut self) {
        self.data.take().expect("it is open").close().expect("it can be closed");
        self.open(true);
    }

    /// The log ends; another begins.
    pub(super) fn next_generation(&mut self) {
        self.data.take().expect("it is open").close().expect("it can be closed");
        self.open(false);
        self.save();
        self.data.take().expect("it is open").close().expect("it can be closed");
        self.open(true);
        let files = Directory::existing(self.path()).expect("it is there");
        let dump = position::of_file(&files, "dump.rdb").expect("it is sound");
        let next = dump.expect("it has a log").from as usize;
        let state = self.states.last().expect("there is one").clone();
        if next < self.states.len() {
            self.earlier.push(self.states.clone());
        }
        self.states.resize(next, State::new());
        self.states[next - 1] = state;
    }

    /// Whether the state after a record is, or once was, this one.
    fn had(&self, record: u64, state: &State) -> bool {
        let histories = self.earlier.iter().chain([&self.states]);
        histories.into_iter().any(|states| states.get(record as usize) == Some(state))
    }

    pub(super) fn source(&self) -> Source {
        source(self.path())
    }
}

pub(super) fn source(path: &Path) -> Source {
    let (dump, logs) = ("dump.rdb".to_owned(), "appendonlydir".to_owned());
    Source::Server { directory: path.to_path_buf(), dump, logs }
}

pub(super) fn settings() -> Settings {
    let settings = Settings::from_url("memory:///test");
    Settings {
        interval: Duration::ZERO,
        image_period: Duration::ZERO,
        bandwidth_bytes: 0,
        ..settings
    }
}

/// The threads of an archive, taken step by step.
pub(super) struct Steps {
    pub(super) shared: Arc<Shared>,
    pub(super) spool: Spool,
    pub(super) worker: Worker,
    runtime: tokio::runtime::Runtime,
}

impl Steps {
    pub(super) fn new(source: &Source, store: &Arc<Faulty>, settings: Settings) -> Self {
        let spool = Spool::open(source).expect("the folder can be made");
        let owner = Owner::read(&spool.files, "memory:///test").expect("it can be read");
        let shared = Arc::new(Shared::new(settings, source.is_store()));
        let worker = Worker::new(store.remote(), owner, &spool, Arc::clone(&shared));
        Self { shared, spool, worker, runtime: runtime() }
    }

    pub(super) fn rescan(&mut self) {
        self.shared.rescan(&mut self.spool).expect("the directory can be read");
    }

    pub(super) fn turn(&mut self) -> Result<bool, ArchiveError> {
        self.runtime.block_on(self.worker.turn())
    }

    /// Turns until nothing is left to do.
    pub(super) fn settle(&mut self) {
        let mut last = None;
        for _ in 0..1_000 {
            self.rescan();
            match self.turn() {
                Ok(false) => return,
                Ok(true) => {}
                Err(error) if error.is_final() => panic!("{error}"),
                Err(error) => last = Some(error),
            }
        }
        panic!("it does not end: {last:?}, {:?}", Spool::pending(&self.spool.files));
    }
}

/// The newest manifest.
pub(super) fn newest(store: &Arc<Faulty>) -> Option<Manifest> {
    runtime().block_on(store.remote().newest()).expect("it is sound")
}

/// The state up to a record as the archive has it, with the last record in it.
pub(super) fn restored(
    store: &Arc<Faulty>,
    until: Option<Until>,
) -> Result<(u64, State), ArchiveError> {
    let folder = tempfile::tempdir().expect("a folder");
    runtime().block_on(fetch_from(&store.remote(), until, folder.path()))?;
    let scratch = tempfile::tempdir().expect("a folder");
    let directory = DataDirectory::open(scratch.path(), "dump.rdb").expect("it is empty");
    let settings = stillframe_storage::Settings { save: Vec::new(), ..Default::default() };
    let opened = Standalone::open(directory, settings, &KeyspaceOptions::default());
    let mut opened = opened.expect("it is empty");
    let files = Arc::new(Directory::existing(folder.path()).expect("it is there"));
    let loaded = dump::load(&mut opened.keyspace, &files, "dump.rdb", i64::MIN);
    let position = loaded.expect("the dump is sound").position;
    let position = position.expect("the dump has a log");
    let log = folder.path().join(format!("appendonlydir/{}", position.generation));
    let (mut records, own) = (Records::default(), Application::server());
    let replayed = Log::read(log, position.from, false, until, &own, |action| {
        Ok(records.apply(&mut opened, action.bytes)?)
    });
    let last = replayed
        .unwrap_or_else(|error| panic!("{error}: {position:?}, {:?}", newest(store)))
        .last
        .max(position.from - 1);
    let reply = opened.run(&[b"KEYS", b"*"]).expect("it is a read");
    let mut state = State::new();
    for key in strings(&reply) {
        let value = opened.run(&[b"GET", key.as_bytes()]).expect("it is a read");
        state.insert(key, strings(&value).remove(0));
    }
    Ok((last, state))
}

/// The bulk strings of a reply, which have no line ends.
fn strings(reply: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(reply);
    let lines = text.split("\r\n").filter(|line| !line.is_empty());
    lines.filter(|line| !line.starts_with(['*', '$'])).map(str::to_owned).collect()
}

/// Everything that the manifest names is there, and each point of it is the oracle's.
pub(super) fn verify(server: &Server, store: &Arc<Faulty>, random: &mut Random) {
    let Some(manifest) = newest(store) else { return };
    let images = manifest.sets.iter().flat_map(|set| &set.images);
    let Some(oldest) = images.clone().map(|image| image.from).min() else { return };
    let (last, state) = restored(store, None).expect("it can be restored");
    assert!(server.had(last, &state), "record {last}: {state:?}, {manifest:?}");
    if oldest > last + 1 {
        return; // the log counts from 1 again
    }
    let until = oldest - 1 + random.below((last + 2 - oldest) as usize) as u64;
    let (reached, state) =
        restored(store, Some(Until::Sequence(until))).expect("it can be restored");
    assert!(reached <= until, "{reached} is beyond {until}");
    assert!(server.had(reached, &state), "{reached} of {until}: {state:?}, {manifest:?}");
    if manifest.sets.len() == 1 {
        assert_eq!(reached, until, "nothing is missing in {manifest:?}");
    }
}

#[test]
fn all_is_archived_and_each_point_can_be_restored() {
    let mut random = Random::new("all_is_archived");
    let mut server = Server::new(3600);
    let store = Arc::new(Faulty::default());
    let mut steps = Steps::new(&server.source(), &store, settings());
    steps.settle();
    for number in 0..60 {
        server.set(&format!("k{}", number % 7), &format!("v{number}"));
        match number % 10 {
            3 => server.save(),
            6 => server.restart(),
            9 if number > 30 => server.flush(),
            _ => {}
        }
        if number % 5 == 4 {
            steps.settle();
            verify(&server, &store, &mut random);
        }
    }
    steps.settle();
    let last = server.states.len() as u64 - 1;
    for until in 0..=last {
        let (reached, state) = restored(&store, Some(Until::Sequence(until))).expect("it is there");
        assert_eq!((reached, &state), (until, &server.states[until as usize]));
    }
    assert_eq!(restored(&store, None).expect("it is there").0, last);
    assert_eq!(newest(&store).expect("there is one").sets.len(), 1);
}

/// A life: writes, saves, restarts, new logs, cuts, kills, an archiver that is behind.
fn life(random: &mut Random, length: usize) {
    let keep = if random.below(2) == 0 { 0 } else { 3600 };
    let mut server = Server::new(keep);
    let store = Arc::new(Faulty::default());
    let mut settings = settings();
    settings.pending_bytes = [1 << 10, 4 << 10, 1 << 30][random.below(3)];
    let mut steps = Steps::new(&server.source(), &store, settings.clone());
    for number in 0..length {
        match random.below(20) {
            0..8 => {
                server.set(&format!("k{}", random.below(9)), &format!("v{number}"));
            }
            8 | 9 => server.save(),
            10 => server.restart(),
            11 if random.below(3) == 0 => server.next_generation(),
            12 if random.below(3) == 0 => server.flush(),
            13 => {
                let call = store.calls() + 1 + random.below(10) as u64;
                store.fail(call, 1 + random.below(6) as u64, random.below(2) == 0);
            }
            14 => steps = Steps::new(&server.source(), &store, settings.clone()),
            15 | 16 => steps.rescan(),
            _ => {
                steps.rescan();
                for _ in 0..random.below(8) {
                    match steps.turn() {
                        Err(error) if error.is_final() => panic!("{error}"),
                        _ => {}
                    }
                }
            }
        }
        store_is_sound(&server, &store, random);
    }
    store.fail(0, 0, false);
    steps.settle();
    verify(&server, &store, random);
    let last = server.states.len() as u64 - 1;
    let (reached, state) = restored(&store, None).expect("it is there");
    assert_eq!((reached, &state), (last, &server.states[last as usize]), "all is archived");
}

/// As `verify`, without faults meanwhile.
fn store_is_sound(server: &Server, store: &Arc<Faulty>, random: &mut Random) {
    if random.below(4) == 0 {
        store.fail(0, 0, false);
        verify(server, store, random);
    }
}

#[test]
fn at_every_moment_the_manifest_can_be_restored() {
    let mut random = Random::new("at_every_moment");
    for _ in 0..rounds(6, 300) {
        life(&mut random, 120);
    }
}

/// Each call fails once, before its effect or after it.
#[test]
fn every_call_may_fail_once() {
    let script = |fails: u64, late: bool| {
        let mut server = Server::new(0);
        let store = Arc::new(Faulty::default());
        store.fail(fails, u64::from(fails > 0), late);
        let mut random = Random::with_seed(fails);
        let mut steps = Steps::new(&server.source(), &store, settings());
        for number in 0..3 {
            server.set("k", &format!("a value that needs some room, number {number}"));
            server.save();
            server.set(&format!("k{number}"), "v");
            steps.settle();
        }
        steps = Steps::new(&server.source(), &store, settings());
        steps.settle();
        let calls = store.calls();
        store.fail(0, 0, false);
        verify(&server, &store, &mut random);
        let last = server.states.len() as u64 - 1;
        assert_eq!(restored(&store, None).expect("it is there").0, last);
        assert_eq!(newest(&store).expect("there is one").sets.len(), 1);
        calls
    };
    let calls = script(0, false);
    let step = if std::env::var_os("STILLFRAME_LONG").is_some() { 1 } else { 3 };
    for call in (1..=calls).step_by(step) {
        script(call, call % 2 == 0);
        script(call, call % 2 == 1);
    }
}

/// A store that is down while the server keeps nothing itself: all is kept for it.
#[test]
fn what_comes_while_the_store_is_down_is_caught_up() {
    let mut server = Server::new(0);
    let store = Arc::new(Faulty::default());
    let mut steps = Steps::new(&server.source(), &store, settings());
    server.set("k", "before");
    steps.settle();
    store.fail(store.calls() + 1, u64::MAX / 2, false);
    for number in 0..40 {
        server.set("k", &number.to_string());
        if number % 4 == 0 {
            server.save();
        }
        if number % 7 == 0 {
            server.restart();
        }
        steps.rescan();
        assert!(!matches!(steps.turn(), Err(error) if error.is_final()));
    }
    store.fail(0, 0, false);
    steps.settle();
    let manifest = newest(&store).expect("there is one");
    assert_eq!(manifest.sets.len(), 1, "no gap");
    for until in 1..server.states.len() as u64 {
        let (reached, state) = restored(&store, Some(Until::Sequence(until))).expect("it is there");
        assert_eq!((reached, &state), (until, &server.states[until as usize]));
    }
}

/// Beyond the bound the archive lets go, says so, and begins a set.
#[test]
fn a_gap_begins_a_set() {
    let mut server = Server::new(0);
    let store = Arc::new(Faulty::default());
    let settings = Settings { pending_bytes: 1, ..settings() };
    let mut steps = Steps::new(&server.source(), &store, settings);
    server.set("k", "before");
    steps.settle();
    store.fail(store.calls() + 1, u64::MAX / 2, false);
    for _ in 0..3 {
        server.restart();
        server.set("k", "lost");
        server.restart();
        server.save();
        steps.rescan();
    }
    server.set("k", "after");
    store.fail(0, 0, false);
    steps.settle();
    let manifest = newest(&store).expect("there is one");
    assert_eq!(manifest.sets.len(), 2, "{manifest:?}");
    assert!(manifest.sets[1].why.contains("in no file any more"), "{}", manifest.sets[1].why);
    verify(&server, &store, &mut Random::with_seed(1));
    let last = server.states.len() as u64 - 1;
    assert_eq!(restored(&store, None).expect("it is there").0, last);
    // A record in the gap is not passed off as there: what leads there ends before it.
    assert_eq!(restored(&store, Some(Until::Sequence(2))).expect("it is there").0, 1);
}

/// A segment comes and goes between two looks, while the one before it still waits.
#[test]
fn a_segment_that_nobody_saw_begins_a_set() {
    let mut server = Server::new(0);
    let store = Arc::new(Faulty::default());
    let mut steps = Steps::new(&server.source(), &store, settings());
    server.set("k", "before");
    steps.settle();
    for value in ["unseen", "after"] {
        server.restart();
        server.set("k", value);
    }
    server.save();
    steps.settle();
    let manifest = newest(&store).expect("there is one");
    assert_eq!(manifest.sets.len(), 2, "{manifest:?}");
    assert_eq!(manifest.sets[1].why, "records 2 to 2 of log 1 are in no file any more");
    for (until, reached) in [(1, 1), (2, 1), (3, 3)] {
        let found = restored(&store, Some(Until::Sequence(until))).expect("it is there");
        assert_eq!(found, (reached, server.states[reached as usize].clone()), "{until}");
    }
}

/// The log was off for a while, and its next one has the numbers of the last one, of which the
/// archive has an image and no record.
#[test]
fn another_log_of_the_same_number_begins_a_set() {
    let mut server = Server::new(0);
    let store = Arc::new(Faulty::default());
    let mut steps = Steps::new(&server.source(), &store, settings());
    steps.settle();
    server.set("k", "unseen");
    server.next_generation();
    server.set("l", "seen");
    for _ in 0..2 {
        steps.settle();
        assert_eq!(newest(&store).expect("there is one").sets.len(), 2);
        let last = server.states.len() as u64 - 1;
        let found = restored(&store, None).expect("it is there");
        assert_eq!(found, (last, server.states[last as usize].clone()));
        server.save();
    }
}

/// A segment that lost its end on the disk begins one set, and no more.
#[test]
fn a_damaged_segment_begins_a_set_once() {
    let mut server = Server::new(0);
    let store = Arc::new(Faulty::default());
    for value in ["a", "b", "c"] {
        server.set("k", value);
    }
    server.restart();
    server.set("k", "d");
    let log = server.path().join("appendonlydir/1/log-00000000000000000001");
    let file = std::fs::OpenOptions::new().write(true).open(&log).expect("it is there");
    let bytes = file.metadata().expect("it is there").len();
    file.set_len(bytes - 60).expect("it is shorter"); // a mark, and the end of a record
    let mut steps = Steps::new(&server.source(), &store, settings());
    steps.settle();
    let manifest = newest(&store).expect("there is one");
    // The set before had no image, and is gone.
    let [set] = &manifest.sets[..] else { panic!("{manifest:?}") };
    assert_eq!(set.why, "records 3 to 3 of log 1 are in no file any more");
    let ends = set.segments.iter().map(|it| (it.first, it.end));
    assert_eq!(ends.collect::<Vec<_>>(), [(1, 2), (4, 4)], "{manifest:?}");
}

/// The directory goes back: an older copy of it takes its place.
#[test]
fn a_directory_that_went_back_begins_a_set() {
    let mut server = Server::new(0);
    let store = Arc::new(Faulty::default());
    let mut steps = Steps::new(&server.source(), &store, settings());
    server.set("k", "before");
    server.restart();
    steps.settle();
    let copy = tempfile::tempdir().expect("a folder");
    copy_files(server.path(), copy.path());
    server.set("k", "other");
    server.set("k", "history");
    server.save();
    steps.settle();
    drop(server.data.take());
    // All but the folder of the archive goes back.
    for name in ["dump.rdb", "appendonlydir"] {
        let path = server.path().join(name);
        let _ = std::fs::remove_file(&path);
        let _ = std::fs::remove_dir_all(&path);
    }
    let folder = copy.path().join("archive");
    let _ = std::fs::remove_dir_all(folder);
    copy_files(copy.path(), server.path());
    server.states.truncate(2);
    server.open(true);
    server.set("k", "this");
    server.save();
    server.set("k", "history instead");
    let mut steps = Steps::new(&server.source(), &store, settings());
    steps.settle();
    let manifest = newest(&store).expect("there is one");
    assert_eq!(manifest.sets.len(), 2, "{manifest:?}");
    let (last, state) = restored(&store, None).expect("it is there");
    assert_eq!((last, &state), (3, &server.states[3]));
}

pub(super) fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("writable");
    for entry in std::fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("readable").is_dir() {
            copy_files(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("writable");
        }
    }
}

/// Old images go, with the log that only they need; what is left can be restored.
#[test]
fn what_is_too_old_goes() {
    let mut server = Server::new(0);
    let store = Arc::new(Faulty::default());
    let settings = Settings { keep: Duration::from_millis(1), keep_images: 2, ..settings() };
    let mut steps = Steps::new(&server.source(), &store, settings);
    steps.worker.grace_ms = 0;
    for number in 0..20 {
        server.set("k", &number.to_string());
        server.restart();
        server.save();
        std::thread::sleep(Duration::from_millis(2));
        steps.settle();
        verify(&server, &store, &mut Random::with_seed(number));
    }
    let manifest = newest(&store).expect("there is one");
    assert!(manifest.sets[0].images.len() <= 2, "{manifest:?}");
    let objects = runtime().block_on(store.remote().list("objects")).expect("it can be listed");
    let named = manifest.objects().count();
    assert!(objects.len() <= named + 5, "{} objects, {named} are named", objects.len());
    let early = restored(&store, Some(Until::Sequence(1)));
    assert!(matches!(early, Err(ArchiveError::TooEarly { .. })), "{early:?}");
}

/// Each mistake makes one of these tests fail.
#[test]
fn every_mistake_is_found() {
    let tests: &[(Mutant, fn())] = &[
        (Mutant::ManifestFirst, all_is_archived_and_each_point_can_be_restored),
        (Mutant::ForgottenEarly, what_comes_while_the_store_is_down_is_caught_up),
        (Mutant::GapIgnored, a_gap_begins_a_set),
        (Mutant::DivergenceIgnored, a_directory_that_went_back_begins_a_set),
        (Mutant::DroppedAtOnce, super::takers::a_reader_is_not_left_without_its_objects),
        (Mutant::ClaimIgnored, super::takers::the_one_who_lost_its_claim_puts_nothing),
        (Mutant::ClaimTaken, super::takers::another_directory_is_refused),
        (Mutant::BytesTrusted, super::takers::damaged_objects_are_named),
    ];
    for mutant in Mutant::ALL {
        let found = tests.iter().find(|(it, _)| it == mutant);
        let (_, test) = found.unwrap_or_else(|| panic!("no test is for {mutant:?}"));
        let outcome = catch_unwind(AssertUnwindSafe(|| with_mutant(*mutant, test)));
        assert!(outcome.is_err(), "{mutant:?} is not found");
    }
}
