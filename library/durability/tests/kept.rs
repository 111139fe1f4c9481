//! What is kept of a store over thousands of checkpoints costs no more with each: mappings, memory
//! and time. One test, since the counts are those of the process.

use std::time::{Duration, Instant};

use stillframe::OnFull;
use stillframe_durability::{Branch, Options, Store, View, ViewLost};
use stillframe_peers::{Random, Watchdog, rounds};
use tempfile::TempDir;

const WORDS: usize = 4 * 512 + 3;

/// A store in memory where there is such a file system.
fn store(words: usize, budget: usize) -> (TempDir, Store) {
    let memory = stillframe::Options::words(words).budget(budget, OnFull::Slow);
    let data = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let data = data.expect("a directory");
    let store = Store::open(data.path(), Options::memory(memory)).expect("a new directory");
    (data, store)
}

/// Mappings of the process, and bytes that are resident.
fn costs() -> (usize, usize) {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let pages = read("/proc/self/statm");
    let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    (read("/proc/self/maps").lines().count(), resident.unwrap_or(0) * 4096)
}

/// The costs of now are those of before, but for what the allocator takes.
fn check_costs(before: (usize, usize), round: usize) {
    let (mappings, bytes) = costs();
    assert!(mappings <= before.0 + 24, "{mappings} mappings in round {round}, {} before", before.0);
    let more = bytes.saturating_sub(before.1);
    assert!(more < 24 << 20, "{more} bytes more in round {round}");
}

fn write(store: &mut Store, oracle: &mut [u64], count: usize, random: &mut Random) {
    for _ in 0..count {
        let (index, value) = (random.below(WORDS), random.next());
        store.write(index, value);
        oracle[index] = value;
    }
}

/// The fastest of some reads of all words, one by one.
fn time_to_read(view: &View) -> Duration {
    let times = (0..5).map(|_| {
        let started = Instant::now();
        (0..WORDS).for_each(|index| assert!(view.read(index).is_ok(), "word {index} is lost"));
        started.elapsed()
    });
    times.min().unwrap_or_default()
}

struct Kept {
    view: View,
    branch: Branch,
    expected: Vec<u64>,
    written: (usize, u64),
}

impl Kept {
    fn from_store(store: &mut Store, oracle: &[u64], random: &mut Random) -> Self {
        let written = (random.below(WORDS), random.next());
        let (view, mut branch) = (store.view().expect("few"), store.branch().expect("few"));
        branch.write(written.0, written.1);
        Self { view, branch, expected: oracle.to_vec(), written }
    }

    fn check(&self) {
        let mut words = vec![0; WORDS];
        self.view.read_run(0, &mut words).expect("the budget suffices");
        assert_eq!(words, self.expected);
        for (index, &expected) in self.expected.iter().enumerate() {
            let expected = if index == self.written.0 { self.written.1 } else { expected };
            assert_eq!(self.branch.read(index), expected, "word {index} of the branch");
        }
        self.branch.check().expect("its view is kept");
    }
}

fn kept(random: &mut Random) {
    let (_data, mut store) = store(WORDS, 64 << 20);
    let mut oracle = vec![0; WORDS];
    write(&mut store, &mut oracle, WORDS, random);
    let one = Kept::from_store(&mut store, &oracle, random);
    let (mut before, mut first) = ((0, 0), Duration::ZERO);
    let all = rounds(3000, 40_000);
    for round in 0..all {
        write(&mut store, &mut oracle, if round % 100 == 0 { 2000 } else { 30 }, random);
        match round % 4 {
            3 => drop(store.view().expect("few")),
            _ => _ = store.checkpoint_and_wait().expect("a sound disk"),
        }
        if round % 50 == 0 {
            one.check();
        }
        if round == all / 3 {
            (before, first) = (costs(), time_to_read(&one.view));
        } else if round > all / 3 && round % 100 == 0 {
            check_costs(before, round);
        }
    }
    // A busy machine lets some of these be fast.
    let is_fast = (0..100).any(|_| time_to_read(&one.view) < 3 * first);
    assert!(is_fast, "reads took {first:?}, and later {:?}", time_to_read(&one.view));
    let bytes = store.stats().views_bytes;
    assert!(bytes > 0 && bytes < 1 << 20, "{bytes} bytes for a state of {WORDS} words");
    assert_eq!(store.stats().failures, 0);
}

fn lost(random: &mut Random) {
    let (_data, mut store) = store(WORDS, 1 << 15);
    let mut oracle = vec![0; WORDS];
    let one = Kept::from_store(&mut store, &oracle, random);
    let (mut before, all) = ((0, 0), rounds(1000, 20_000));
    for round in 0..all {
        write(&mut store, &mut oracle, 3000, random);
        store.checkpoint_and_wait().expect("a sound disk");
        if round == all / 3 {
            before = costs();
        } else if round > all / 3 && round % 100 == 0 {
            check_costs(before, round);
        }
    }
    assert_eq!(one.view.read(0), Err(ViewLost));
    assert_eq!(one.branch.try_read(one.written.0), Ok(one.written.1));
}

/// As many views as may be are lost one after the other: what they held goes though they stay.
fn many_lost(random: &mut Random) {
    const LARGE: usize = 1 << 20;
    let (_data, mut store) = store(LARGE, 8 << 20);
    let (mut views, mut before) = (Vec::new(), (0, 0));
    for round in 0..60 {
        views.push(store.view().expect("few"));
        for _ in 0..LARGE / 2 {
            store.write(random.below(LARGE), random.next());
        }
        match round {
            5 => before = costs(),
            6.. => {
                let (mappings, bytes) = costs();
                assert!(mappings < before.0 + 8 * views.len(), "{mappings} mappings");
                let more = bytes.saturating_sub(before.1);
                assert!(more < 40 << 20, "{more} bytes more for {} views", views.len());
            }
            _ => {}
        }
    }
    assert!(views.iter().all(|view| view.read(0) == Err(ViewLost)), "what is lost stays so");
}

#[test]
#[cfg(target_os = "linux")]
fn views_kept_over_thousands_of_checkpoints() {
    let _watchdog = Watchdog::start();
    let mut random = Random::new("kept views");
    kept(&mut random);
    lost(&mut random);
    many_lost(&mut random);
}
