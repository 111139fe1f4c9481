//! Memory returns to its floor after every image, and nothing is left when the keyspace is gone.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::Duration;

use common::{Manner, Random, begin, can_image, create, sized};
use stillframe::Algorithm;
use stillframe_keyspace::{Expire, Keyspace};

/// Counts what is allocated and not freed. A double free shows as less than there was.
struct Counting;

static LIVE_BYTES: AtomicIsize = AtomicIsize::new(0);
static LIVE_BLOCKS: AtomicIsize = AtomicIsize::new(0);

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size() as isize, Ordering::Relaxed);
        LIVE_BLOCKS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        LIVE_BLOCKS.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn live() -> (isize, isize) {
    (LIVE_BYTES.load(Ordering::Relaxed), LIVE_BLOCKS.load(Ordering::Relaxed))
}

/// What a queue may keep of its last block.
const TOLERANCE: isize = 4096;

fn key(number: usize) -> Vec<u8> {
    format!("key:{number:06}").into_bytes()
}

/// The same contents whatever there was: one key in 20 holds a blob, one in 500 a large one.
fn fill<A: Algorithm>(keyspace: &mut Keyspace<A>, keys: usize) {
    for number in 0..keys {
        let len = match number {
            _ if number % 500 == 3 => 300 << 10,
            _ if number % 20 == 1 => 5000,
            _ => number % 100,
        };
        let expire = if number % 5 == 0 { Expire::At(1 << 50) } else { Expire::Never };
        keyspace.remove(number % 4, &key(number)); // no reserve of a former text stays
        if number % 25 == 7 {
            for element in 0..number % 300 {
                assert!(edit(keyspace, number, element, true));
            }
            continue;
        }
        keyspace.set(number % 4, &key(number), &vec![b'v'; len], expire).unwrap();
    }
}

/// Puts an element into a collection, or takes one out; false if the key holds something else.
fn edit<A: Algorithm>(
    keyspace: &mut Keyspace<A>,
    number: usize,
    element: usize,
    add: bool,
) -> bool {
    let (db, key, member) = (number % 4, key(number), key(element));
    match (number / 25 % 4, add) {
        (0, true) => keyspace.edit_list(db, &key, |it| it.push_back(&member)).is_ok(),
        (0, false) => keyspace.edit_list(db, &key, |it| it.remove_range(element, 3)).is_ok(),
        (1, true) => {
            let far = Some(i64::MAX / 2 + member.len() as i64);
            let deadline = far.filter(|_| key.len() % 2 == 0);
            keyspace.edit_hash(db, &key, |it| it.set_until(&member, &key, deadline)).is_ok()
        }
        (1, false) => keyspace.edit_hash(db, &key, |it| it.remove(&member)).is_ok(),
        (2, true) => keyspace.edit_set(db, &key, |it| it.insert(&member)).is_ok(),
        (2, false) => keyspace.edit_set(db, &key, |it| it.remove(&member)).is_ok(),
        (_, true) => keyspace.edit_sorted(db, &key, |it| it.set(&member, 1.0)).is_ok(),
        (_, false) => keyspace.edit_sorted(db, &key, |it| it.remove(&member)).is_ok(),
    }
}

fn tend_until_idle<A: Algorithm>(keyspace: &mut Keyspace<A>) {
    keyspace.wait_image();
    while keyspace.tend() || keyspace.stats().garbage_bytes != 0 {
        std::thread::sleep(Duration::from_millis(1)); // the reclaimer has low priority
    }
    let stats = keyspace.stats();
    assert_eq!((stats.limbo_entries, stats.limbo_bytes), (0, 0));
}

/// Everything that moves memory, while an image is taken.
fn churn<A: Algorithm>(keyspace: &mut Keyspace<A>, keys: usize, random: &mut Random) {
    for step in 0..keys {
        let number = random.below(keys);
        let (db, key) = (number % 4, key(number));
        match random.below(10) {
            7..10 => {
                let number = number / 25 * 25 + 7;
                for _ in 0..random.below(20) {
                    edit(keyspace, number, random.below(300), random.one_in(2));
                }
                if random.one_in(10) {
                    keyspace.copy(number % 4, &self::key(number), 3, b"copy").unwrap();
                }
            }
            0 => drop(keyspace.remove(db, &key)),
            1 => drop(keyspace.append(db, &key, &[b'a'; 70]).unwrap()),
            2 => drop(keyspace.set_range(db, &key, random.below(6000), b"patch").unwrap()),
            3 => drop(keyspace.set_expire(db, &key, Some(step as i64))),
            4 => drop(keyspace.rename(db, &key, (db + 1) % 4, b"elsewhere").unwrap()),
            5 => keyspace.set_int(db, &key, step as i64, Expire::Keep).unwrap(),
            6 => keyspace.set(db, &key, &vec![b'w'; random.below(9000)], Expire::Never).unwrap(),
            _ => drop(keyspace.expire_cycle(step as i64, 4)),
        }
        match step * 8 / keys {
            3 if random.one_in(keys / 16) => keyspace.clear(random.below(4)),
            5 if random.one_in(keys / 16) => keyspace.clear_all(),
            _ if random.one_in(50) => drop(keyspace.tend()),
            _ => {}
        }
    }
    for number in 0..keys {
        keyspace.set_expire(number % 4, &key(number), None);
    }
}

fn cycles<A: Algorithm>(random: &mut Random) {
    let keys = sized(3000, 32);
    let mut keyspace = create::<A>();
    fill(&mut keyspace, keys);
    tend_until_idle(&mut keyspace);
    let booked = keyspace.stats().entry_bytes;
    let mut floors = Vec::new();
    for cycle in 0..sized(6, 2) {
        let manner = match cycle % 3 {
            0 => Manner::Slow(200),
            1 => Manner::Fast,
            _ => Manner::Fails(keys / 2),
        };
        let image = can_image::<A>().then(|| begin(&mut keyspace, manner));
        churn(&mut keyspace, keys, random);
        if cycle == 3 {
            keyspace.progress().cancel();
        }
        tend_until_idle(&mut keyspace);
        drop(image);
        keyspace.clear_all();
        fill(&mut keyspace, keys);
        tend_until_idle(&mut keyspace);
        assert_eq!(keyspace.stats().entry_bytes, booked, "the same contents, the same books");
        floors.push(live());
    }
    let (lowest, highest) = (floors.iter().min().unwrap().0, floors.iter().max().unwrap().0);
    // The first cycle may leave slots and chunks behind that later ones reuse.
    let steady = floors.iter().skip(1).map(|floor| (floor.0 - floors[1].0).abs()).max();
    assert!(steady.unwrap() <= TOLERANCE, "{lowest} to {highest}: {floors:?}");
    // An image is under way when the keyspace goes.
    if can_image::<A>() {
        drop(begin(&mut keyspace, Manner::Slow(5)));
        churn(&mut keyspace, keys / 2, random);
    }
}

macro_rules! all {
    ($($module:ident::$algorithm:ident { $($facts:tt)* })*) => {
        /// One test, as there is one counter.
        #[test]
        fn memory_returns_to_its_floor() {
            let _watchdog = stillframe_peers::Watchdog::start();
            let mut random = Random::seeded("memory");
            $(
                cycles::<stillframe::algorithms::$module::$algorithm>(&mut random); // warms up
                let before = live();
                cycles::<stillframe::algorithms::$module::$algorithm>(&mut random);
                assert_eq!(live(), before, "{}: bytes and blocks", stringify!($module));
            )*
        }
    };
}
stillframe::for_each_algorithm!(core all);
