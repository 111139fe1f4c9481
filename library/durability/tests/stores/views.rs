//! Views and branches of a store: beside checkpoints, increments, acts, growth and the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use stillframe::OnFull;
use stillframe::algorithms::any::Any;
use stillframe::algorithms::naive::Naive;
use stillframe_durability::disk::SimulatedDisk;
use stillframe_durability::{
    ActStore, Branch, Error, Increments, NotClosed, Options, Reader, Store, View, ViewLost,
};
use stillframe_peers::{Random, Watchdog, rounds};
use tempfile::TempDir;

const WORDS: usize = 5000;
const WORDS_MAX: usize = 2 * WORDS;

fn directory() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

fn options() -> Options {
    Options::memory(stillframe::Options::words(WORDS).max_words(WORDS_MAX))
}

/// A view or a branch, and what it must hold.
struct Kept<T> {
    kept: T,
    expected: Vec<u64>,
}

fn check_view(view: &View, expected: &[u64], random: &mut Random) {
    assert_eq!(view.words(), expected.len());
    let index = random.below(expected.len());
    assert_eq!(view.read(index), Ok(expected[index]), "word {index}");
    let length = random.below((expected.len() - index).min(1500) + 1);
    let mut run = vec![0; length];
    view.read_run(index, &mut run).expect("it is kept");
    assert_eq!(run, expected[index..index + length], "from word {index} on");
}

fn check_branch(branch: &Branch, expected: &[u64], random: &mut Random) {
    let found: Vec<u64> = (0..branch.words()).map(|index| branch.read(index)).collect();
    assert_eq!(found, expected);
    let index = random.below(expected.len());
    let rest = expected.len() - index;
    for length in [rest, random.below(rest.min(70) + 1)] {
        let mut run = vec![!0; length];
        branch.read_run(index, &mut run).expect("its view is kept");
        assert_eq!(run, expected[index..index + length], "from word {index} on");
    }
    branch.check().expect("its view is kept");
}

/// The store, what it must hold, and all that is kept of it.
struct World {
    store: ActStore,
    oracle: Vec<u64>,
    views: Vec<Kept<Arc<View>>>,
    branches: Vec<Kept<Branch>>,
    random: Random,
}

impl World {
    /// An action that succeeds or is undone.
    fn act(&mut self, writes: usize) {
        let (succeeds, writes) = (self.random.below(3) > 0, self.random.below(writes));
        let before = self.oracle.clone();
        let (oracle, random) = (&mut self.oracle, &mut self.random);
        let acted = self.store.act(|words| {
            for _ in 0..writes {
                let (index, value) = (random.below(oracle.len()), random.next());
                words.write(index, value);
                oracle[index] = value;
            }
            if succeeds { Ok(()) } else { Err(Error::NoLog) }
        });
        assert_eq!(acted.is_ok(), succeeds);
        if !succeeds {
            self.oracle = before;
        }
    }

    fn step(&mut self) {
        match self.random.below(16) {
            0..=3 => self.act(300),
            4 | 5 => self.act(20),
            6 => self.store.checkpoint(),
            7 if self.random.below(6) == 0 => {
                let words = (self.oracle.len() + self.random.below(700)).min(WORDS_MAX);
                let grown = self.store.act(|act| act.grow(words).map_err(Error::Memory));
                grown.expect("there is room");
                self.oracle.resize(words, 0);
            }
            8 if self.views.len() < 6 => {
                let kept = Arc::new(self.store.view().expect("few are kept"));
                self.views.push(Kept { kept, expected: self.oracle.clone() });
            }
            9 if self.branches.len() < 4 => {
                let kept = self.store.branch().expect("few are kept");
                self.branches.push(Kept { kept, expected: self.oracle.clone() });
            }
            10 if !self.views.is_empty() && self.branches.len() < 4 => {
                let from = &self.views[self.random.below(self.views.len())];
                let kept = Branch::from_view(Arc::clone(&from.kept), WORDS_MAX);
                self.branches.push(Kept { kept, expected: from.expected.clone() });
            }
            11 if !self.branches.is_empty() => {
                let at = self.random.below(self.branches.len());
                let Kept { kept, expected } = &mut self.branches[at];
                for _ in 0..self.random.below(50) {
                    let (index, value) = (self.random.below(expected.len()), self.random.next());
                    kept.write(index, value);
                    expected[index] = value;
                }
                if self.random.below(4) == 0 {
                    let words = (expected.len() + 3).min(WORDS_MAX);
                    kept.grow(words).expect("there is room");
                    expected.resize(words, 0);
                }
                check_branch(kept, expected, &mut self.random);
            }
            12 if !self.branches.is_empty() => {
                let at = self.random.below(self.branches.len());
                let one = self.branches.swap_remove(at);
                if self.random.below(2) == 0 {
                    let kept = one.kept.clone();
                    self.branches.push(Kept { kept, expected: one.expected });
                }
            }
            13 if !self.views.is_empty() => {
                drop(self.views.swap_remove(self.random.below(self.views.len())));
            }
            _ => {
                for Kept { kept, expected } in &self.views {
                    check_view(kept, expected, &mut self.random);
                }
            }
        }
        self.store.point();
    }

    fn check(&self) {
        assert!((0..self.oracle.len()).all(|index| self.store.read(index) == self.oracle[index]));
    }
}

/// Everything at once, life after life; what is kept outlives its store.
#[test]
fn views_beside_everything_else() {
    let _watchdog = Watchdog::start();
    let mut random = Random::new("views");
    for _ in 0..rounds(6, 100) {
        let data = directory();
        let mut oracle = vec![0; WORDS];
        for _ in 0..3 {
            let options = match random.below(3) {
                0 => options(),
                1 => options().increments(Increments::default()),
                _ => options().pack(),
            };
            let store = match random.below(2) {
                0 => ActStore::open(data.path(), options),
                _ => ActStore::open(data.path(), options.keep_generations(3)),
            };
            let store = store.expect("a sound directory");
            let mut world = World {
                store,
                oracle,
                views: Vec::new(),
                branches: Vec::new(),
                random: Random::with_seed(random.next()),
            };
            world.check();
            (0..250).for_each(|_| world.step());
            world.check();
            let World { store, mut views, branches, oracle: last, .. } = world;
            match random.below(2) {
                0 => store.close().expect("a sound disk"),
                _ => drop(store),
            }
            oracle = last;
            for Kept { kept, expected } in &mut views {
                check_view(kept, expected, &mut random);
            }
            for Kept { kept, expected } in &branches {
                check_branch(kept, expected, &mut random);
            }
        }
    }
}

/// Threads that read views of whole transfers while transfers go on and checkpoints are taken.
#[test]
fn readers_see_whole_acts() {
    const TOTAL: u64 = 1 << 40;
    let _watchdog = Watchdog::start();
    let mut random = Random::new("readers of views");
    let data = directory();
    let mut store: Store = Store::open(data.path(), options()).expect("a new directory");
    store.write(0, TOTAL);
    thread::scope(|scope| {
        let mut readers = Vec::new();
        for number in 0..rounds(60, 2000) {
            for _ in 0..500 {
                let [from, to] = [0, 1].map(|_| random.below(WORDS));
                let amount = random.next() % (store.read(from) + 1);
                store.update(from, |balance| balance - amount);
                store.update(to, |balance| balance + amount);
                store.point();
            }
            if number % 5 == 0 {
                store.checkpoint();
            }
            let view = store.view().expect("few are kept");
            readers.push(scope.spawn(move || {
                let mut all = vec![0; WORDS];
                view.read_run(0, &mut all).expect("the budget suffices");
                assert_eq!(all.iter().sum::<u64>(), TOTAL);
                let one_by_one = (0..WORDS).map(|index| view.read(index).expect("as before"));
                assert_eq!(one_by_one.sum::<u64>(), TOTAL);
            }));
            if readers.len() == 8 {
                readers.drain(..).for_each(|reader| reader.join().expect("a whole state"));
            }
        }
    });
}

/// On a small budget views are given up, and say so; checkpoints are not harmed.
#[test]
fn a_view_is_given_up_for_a_checkpoint() {
    let _watchdog = Watchdog::start();
    let data = directory();
    let mut options = options();
    options.memory = options.memory.budget(1 << 12, OnFull::Slow);
    let mut store: Store = Store::open(data.path(), options).expect("a new directory");
    for round in 0..20 {
        let view = store.view().expect("none is kept");
        let mut branch = store.branch().expect("one is kept");
        branch.write(3, 7);
        store.checkpoint();
        store.point();
        (0..WORDS).for_each(|index| store.write(index, round + 1));
        store.wait().expect("the disk is sound");
        assert_eq!(view.read(0), Err(ViewLost));
        assert!(view.read(0).expect_err("as before").to_string().contains("raise it"));
        assert_eq!((branch.read(3), branch.read(4)), (7, 0), "what is lost reads as zero");
        assert_eq!((branch.try_read(3), branch.try_read(4)), (Ok(7), Err(ViewLost)));
        assert_eq!(branch.check(), Err(ViewLost));
        let (mut here, mut beyond) = ([0; 1], [0; 2]);
        assert_eq!((branch.read_run(3, &mut here), here), (Ok(()), [7]));
        assert_eq!(branch.read_run(3, &mut beyond), Err(ViewLost));
        drop((view, branch));
        assert_eq!(store.views(), 0);
    }
    assert_eq!(store.stats().failures, 0);
    let view = store.view().expect("none is kept");
    assert_eq!(view.read(WORDS - 1), Ok(20));
}

/// A writer that is to wait for its views goes on when they are dropped.
#[test]
fn a_writer_may_wait_for_its_views() {
    let _watchdog = Watchdog::start();
    let data = directory();
    let mut options = options().views(2, OnFull::Slow);
    options.memory = options.memory.budget(1 << 12, OnFull::Cancel);
    let mut store: Store = Store::open(data.path(), options).expect("a new directory");
    for round in 1..10 {
        let view = store.view().expect("none is kept");
        let reader = thread::spawn(move || {
            let all = (0..WORDS).map(|index| view.read(index).expect("the writer waits for it"));
            all.for_each(|word| assert_eq!(word, round - 1));
        });
        (0..WORDS).for_each(|index| store.write(index, round));
        reader.join().expect("as it was");
    }
    assert!(store.stats().writer_waits > 0, "waits for views count");
}

/// Threads ask for views while the writer goes on: each gets one of a point, and none waits for a
/// store that has ended.
#[test]
fn readers_ask_for_views() {
    let _watchdog = Watchdog::start();
    let data = directory();
    let mut store: Store = Store::open(data.path(), options()).expect("a new directory");
    let (reader, ended) = (store.reader(), AtomicUsize::new(0));
    let waited = reader.view_timeout(Duration::from_millis(1)).expect_err("there is no point");
    assert!(matches!(waited, Error::NoPoint { .. }), "{waited}");
    thread::scope(|scope| {
        for _ in 0..4 {
            let (reader, ended) = (reader.clone(), &ended);
            scope.spawn(move || {
                let mut before = 0;
                for _ in 0..rounds(50, 1000) {
                    let view = reader.view().expect("it is open");
                    let words = [0, WORDS - 1].map(|index| view.read(index).expect("it is kept"));
                    assert!(words[0] == words[1] && words[0] >= before, "{words:?} after {before}");
                    before = words[0];
                }
                ended.fetch_add(1, Ordering::Relaxed);
            });
        }
        let mut round = 0;
        while ended.load(Ordering::Relaxed) < 4 {
            round += 1;
            store.write(0, round);
            store.write(WORDS - 1, round);
            store.point();
        }
    });
    let waiting = thread::spawn({
        let reader = reader.clone();
        move || reader.view().map(drop)
    });
    store.close().expect("the disk is sound");
    // It asked before and is told of the end, or asked too late.
    assert!(matches!(waiting.join().expect("no panic"), Err(Error::Closed)));
    assert!(matches!(reader.view(), Err(Error::Closed)));
}

/// Views and branches of every algorithm may be shared by threads.
#[test]
fn what_is_kept_is_shared() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<View>();
    is_shared::<Branch>();
    is_shared::<View<Any>>();
    is_shared::<Branch<Any>>();
    is_shared::<Reader<Any>>();
}

/// A store that the disk has no room for comes back, and is closed once there is.
#[test]
fn a_store_that_cannot_be_closed_comes_back() {
    let disk = SimulatedDisk::default();
    let options = || options().disk(Arc::new(disk.clone())).checkpoint_on_close();
    let mut store: Store = Store::open("simulated", options()).expect("a new directory");
    store.write(3, 7);
    disk.set_room(Some(100));
    let NotClosed { store, error } = store.close().expect_err("there is no room");
    assert!(error.to_string().contains("No space left on device"), "{error}");
    assert_eq!(store.read(3), 7);
    disk.set_room(None);
    store.close().expect("there is room");
    assert_eq!(Store::open("simulated", options()).expect("its own").read(3), 7);

    let logged = SimulatedDisk::default();
    let options = || options().disk(Arc::new(logged.clone()));
    let mut store = ActStore::open("simulated", options()).expect("a new directory");
    logged.set_room(Some(10));
    let acted = store.act(|words| {
        words.write(3, 8);
        Ok::<_, Error>(())
    });
    acted.expect("it is in memory");
    let not_closed = store.close().expect_err("there is no room");
    assert_eq!(not_closed.store.read(3), 8, "what the log lacks can be read out");
    drop(not_closed);
}

#[test]
fn single_words_are_asked_for_without_a_panic() {
    let data = directory();
    let mut store: Store = Store::open(data.path(), options()).expect("a new directory");
    store.write(WORDS - 1, 7);
    let (view, branch) = (store.view().expect("none"), store.branch().expect("one"));
    assert_eq!((store.get(WORDS - 1), store.get(WORDS)), (Some(7), None));
    assert_eq!((view.get(WORDS - 1), view.get(WORDS)), (Ok(Some(7)), Ok(None)));
    assert_eq!((branch.get(WORDS - 1), branch.get(WORDS)), (Some(7), None));
    let acted = store.act(|words| Ok::<_, Error>((words.get(WORDS - 1), words.get(WORDS))));
    assert_eq!(acted.expect("no log"), (Some(7), None));
}

#[test]
fn what_cannot_be_is_refused() {
    let data = directory();
    let mut store: Store =
        Store::open(data.path(), options().views(2, OnFull::Cancel)).expect("a new directory");
    let kept = [store.view().expect("none"), store.view().expect("one")];
    assert!(matches!(store.view(), Err(Error::TooManyViews { most: 2 })));
    assert!(matches!(store.branch(), Err(Error::TooManyViews { most: 2 })));
    assert_eq!(store.stats().views, 2);
    store.checkpoint_and_wait().expect("a checkpoint has a place of its own");
    drop(kept);
    let mut branch = store.branch().expect("none");
    assert!(branch.grow(WORDS_MAX + 1).expect_err("too long").to_string().contains("max_words"));
    branch.grow(WORDS_MAX).expect("as long as the store may be");
    assert_eq!(branch.read(WORDS_MAX - 1), 0);

    let data = directory();
    let mut store = Store::<Naive>::open_with(data.path(), options()).expect("a new directory");
    let refused = store.view().expect_err("it holds one image").to_string();
    assert!(refused.contains("'naive' has no views"), "{refused}");
}

#[test]
fn a_branch_never_shrinks() {
    let data = directory();
    let mut store: Store = Store::open(data.path(), options()).expect("a new directory");
    let mut branch = store.branch().expect("none is kept");
    branch.write(WORDS - 1, 7);
    branch.grow(1).expect("it is longer");
    assert_eq!((branch.words(), branch.read(WORDS - 1)), (WORDS, 7));
}

#[test]
#[should_panic(expected = "word 5000 of 5000")]
fn a_word_beyond_a_branch() {
    let data = directory();
    let mut store: Store = Store::open(data.path(), options()).expect("a new directory");
    let branch = store.branch().expect("none is kept");
    let _ = branch.read(WORDS);
}

#[test]
#[should_panic(expected = "of 5000")]
fn a_run_beyond_a_branch() {
    let data = directory();
    let mut store: Store = Store::open(data.path(), options()).expect("a new directory");
    let branch = store.branch().expect("none is kept");
    let _ = branch.read_run(WORDS - 1, &mut [0; 2]);
}

#[test]
fn a_window_beyond_a_branch_is_none() {
    let data = directory();
    let mut store: Store = Store::open(data.path(), options()).expect("a new directory");
    let branch = store.branch().expect("none is kept");
    for (start, len) in [(WORDS, 1), (WORDS - 1, 2), (usize::MAX, 2), (1, usize::MAX)] {
        assert!(branch.window(start, len).is_none(), "{len} words from {start} on");
    }
    assert!(branch.window(WORDS, 0).is_some() && branch.window(0, WORDS).is_some());
}

#[test]
#[should_panic(expected = "word 1 of a window of 1")]
fn a_word_beyond_the_window_of_a_branch() {
    let data = directory();
    let mut store: Store = Store::open(data.path(), options()).expect("a new directory");
    let branch = store.branch().expect("none is kept");
    let window = branch.window(0, 1).expect("it is in bounds");
    window(1);
}
