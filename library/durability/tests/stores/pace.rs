//! When checkpoints are due, and how fast they are written: a store that ends does not wait for a
//! limit of speed, and a schedule that is not kept is reported.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use stillframe::Algorithm;
use stillframe_durability::{Options, Store};
use tempfile::tempdir;

const WORDS: usize = 50_000;

/// A file of this state at this limit takes days.
fn crawling() -> Options {
    Options::words(WORDS).bandwidth(1)
}

fn open<A: Algorithm>(directory: &std::path::Path, options: Options) -> Store<A> {
    Store::open_with(directory, options).expect("the directory is sound")
}

/// A store with a checkpoint under way that its limit holds up.
fn held_up<A: Algorithm>(directory: &std::path::Path, options: Options) -> Store<A> {
    let mut store = open::<A>(directory, options);
    store.write(7, 1);
    store.checkpoint();
    assert_eq!(store.point(), Some(1));
    store.write(7, 2);
    store
}

fn the_end_of_a_store_lifts_its_limit<A: Algorithm>() {
    for asked in [false, true] {
        let directory = tempdir().expect("a temporary directory");
        let options = if asked { crawling().checkpoint_on_close() } else { crawling() };
        held_up::<A>(directory.path(), options).close().expect("the disk is sound");
        let expected = if asked { 2 } else { 1 };
        assert_eq!(open::<A>(directory.path(), Options::words(WORDS)).read(7), expected);
        drop(held_up::<A>(tempdir().expect("a temporary directory").path(), crawling()));
    }
}

macro_rules! each {
    ($($module:ident::$algorithm:ident { $($facts:tt)* })*) => {
        #[test]
        fn the_end_of_a_store_lifts_the_limit_of_speed() {
            let _watchdog = stillframe_peers::Watchdog::start();
            $(the_end_of_a_store_lifts_its_limit::<stillframe::algorithms::$module::$algorithm>();)*
        }
    };
}
stillframe::for_each_algorithm!(core each);

fn wait_until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < deadline, "it does not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Neither a store without points of consistency nor one whose checkpoints are slow keeps its
/// schedule, and both say so.
#[test]
fn a_schedule_that_is_not_kept_is_reported() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let directory = tempdir().expect("a temporary directory");
    let (told, overdue) = mpsc::channel();
    let options = crawling().every(Duration::from_millis(1));
    let options = options.on_overdue(move |count| told.send(count).unwrap_or(()));
    let mut store = Store::open(directory.path(), options).expect("the directory is sound");
    assert_eq!(store.stats().newest_age, None);
    wait_until(|| store.stats().overdue >= 3); // no point came
    assert_eq!(overdue.iter().take(3).collect::<Vec<_>>(), [1, 2, 3]);
    store.point().expect("it is due");
    let before = store.stats().overdue;
    wait_until(|| store.stats().overdue >= before + 3); // it is under way
    store.close().expect("the disk is sound");

    let options = Options::words(WORDS).every(Duration::from_secs(3600));
    let mut store = Store::open(directory.path(), options).expect("the directory is sound");
    let started = Instant::now();
    store.checkpoint_and_wait().expect("the disk is sound");
    let stats = store.stats();
    assert_eq!(stats.overdue, 0, "it is kept");
    assert!(stats.newest_age.is_some_and(|age| age <= started.elapsed()), "{stats:?}");
}
