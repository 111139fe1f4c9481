//! What may become of an order book: a sample of courses that events may take, each on a copy of
//! the keyspace of now, while that itself goes on.
//!
//! ```text
//! cargo run --release -p stillframe-keyspace --example branches -- [ORDERS] [COURSES] [STEPS]
//! ```
//!
//! Fills a book with so many orders (200,000), a key each beside two sorted sets of prices, then
//! tries so many courses (100) of so many orders (100) each: on a branch, on a copy of all keys,
//! and in a forked process. The three take turns, and the book gets ten orders of its own
//! meanwhile. Every course is checked by a replay: all keys of the branch must be those of the copy
//! on which the same orders came, and the process must come to the same.

#[allow(dead_code, reason = "other examples use the rest")]
#[path = "common/mod.rs"]
mod common;

use std::collections::hash_map::DefaultHasher;
use std::error::Error;
use std::hash::{Hash, Hasher};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use stillframe_keyspace::{Branch, Entry, Expire, IntText, Keyspace, KeyspaceOptions, Value, View};

use common::key;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn Error>;

const NOW: i64 = 0;
/// The ways to get a copy that may be changed.
const WAYS: [&str; 3] = ["branch", "copy", "fork"];
/// The book: a sorted set of order numbers by price for each side, and what was traded.
const SIDES: [&[u8]; 2] = [b"bids", b"asks"];
const TRADED: &[u8] = b"traded";

/// What a course comes to: pieces traded, and orders that wait on either side.
type Outcome = [u64; 3];

/// Where orders come in: something that has a keyspace with the keys that a step names.
trait Place {
    fn on<R>(
        &mut self,
        keys: &[&[u8]],
        step: impl FnOnce(&mut Keyspace) -> Result<R, Failure>,
    ) -> Result<R, Failure>;
}

impl Place for Keyspace {
    fn on<R>(
        &mut self,
        _: &[&[u8]],
        step: impl FnOnce(&mut Keyspace) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        step(self)
    }
}

/// A branch, its view, and the bench.
struct OnBranch<'a>(&'a mut Branch, View<'a>, &'a mut Keyspace);

impl Place for OnBranch<'_> {
    fn on<R>(
        &mut self,
        keys: &[&[u8]],
        step: impl FnOnce(&mut Keyspace) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let Self(branch, view, bench) = self;
        let keys: Vec<(usize, &[u8])> = keys.iter().map(|key| (0, *key)).collect();
        branch.lay(view, bench, &keys, NOW)?;
        let result = step(bench);
        branch.take_back(view, bench, &keys);
        result
    }
}

fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

fn number_of(keyspace: &mut Keyspace, key: &[u8]) -> i64 {
    match keyspace.get(0, key, NOW).map(|entry| entry.value()) {
        Some(Value::Int(number)) => number,
        _ => 0,
    }
}

/// An order comes in, and takes what the other side offers as cheap as it asks for, up to all of
/// the best order; the rest waits.
fn step(place: &mut impl Place, order: u64, chance: u64) -> Result<(), Failure> {
    let side = (chance & 1) as usize;
    let price = (10_000 + (chance >> 8) % 2_000) as f64 - if side == 0 { 1_000.0 } else { 0.0 };
    let wanted = 1 + (chance >> 32) as i64 % 100;
    let (own, other) = (SIDES[side], SIDES[1 - side]);
    let best = place.on(&[other], |keyspace| {
        let Some(Value::Sorted(offers)) = keyspace.get(0, other, NOW).map(|it| it.value()) else {
            return Ok(None);
        };
        let best = offers.at(if side == 0 { 0 } else { offers.len() - 1 });
        Ok(best.map(|(name, price)| (name.to_vec(), price)))
    })?;
    let crosses = |at: f64| if side == 0 { at <= price } else { at >= price };
    let mut left = wanted;
    if let Some((name, _)) = best.filter(|(_, at)| crosses(*at)) {
        left = place.on(&[&name, other, TRADED], |keyspace| {
            let offered = number_of(keyspace, &name);
            let traded = number_of(keyspace, TRADED) + offered.min(wanted);
            keyspace.set_int(0, TRADED, traded, Expire::Never)?;
            if offered > wanted {
                keyspace.set_int(0, &name, offered - wanted, Expire::Never)?;
            } else {
                keyspace.remove(0, &name);
                keyspace.edit_sorted(0, other, |offers| offers.remove(&name))?;
            }
            Ok((wanted - offered).max(0))
        })?;
    }
    if left > 0 {
        let name = key(order);
        place.on(&[&name, own], |keyspace| {
            keyspace.set_int(0, &name, left, Expire::Never)?;
            keyspace.edit_sorted(0, own, |orders| orders.set(&name, price))?;
            Ok(())
        })?;
    }
    Ok(())
}

/// Runs a course: orders of its own numbers.
fn run(place: &mut impl Place, course: u64, steps: u64) -> Result<Outcome, Failure> {
    for at in 0..steps {
        let order = course << 32 | at;
        step(place, order, mixed(order))?;
    }
    place.on(&[SIDES[0], SIDES[1], TRADED], |keyspace| {
        let mut len = |side| keyspace.get(0, side, NOW).map_or(0, |it| it.value().len() as u64);
        let [bids, asks] = SIDES.map(&mut len);
        Ok([number_of(keyspace, TRADED) as u64, bids, asks])
    })
}

/// A keyspace of its own with all keys.
fn copy(source: &mut Keyspace) -> Result<Keyspace, Failure> {
    let mut copy = Keyspace::create(&KeyspaceOptions::default())?;
    let mut outcome = Ok(());
    source.for_each(0, NOW, |entry| {
        let mut all = || -> Result<(), Failure> {
            match entry.value() {
                Value::Sorted(orders) => copy.edit_sorted(0, entry.key(), |set| {
                    orders.iter_from(0).for_each(|(name, price)| {
                        set.set(name, price);
                    });
                })?,
                value => {
                    let text = value.to_bytes(&mut IntText::default()).to_vec();
                    copy.set(0, entry.key(), &text, Expire::Never)?;
                }
            }
            Ok(())
        };
        if outcome.is_ok() {
            outcome = all();
        }
    });
    outcome.map(|()| copy)
}

/// A digest of an entry; those of all keys are added up, as they come in any order.
fn digest(entry: &Entry) -> u64 {
    let mut hasher = DefaultHasher::new();
    entry.key().hash(&mut hasher);
    match entry.value() {
        Value::Sorted(orders) => orders.iter_from(0).for_each(|(name, price)| {
            (name, price.to_bits()).hash(&mut hasher);
        }),
        value => value.to_bytes(&mut IntText::default()).hash(&mut hasher),
    }
    hasher.finish()
}

/// Runs a course in a forked process. Returns what it comes to and the bytes of pages that the
/// process had to copy.
fn in_fork(book: &mut Keyspace, course: u64, steps: u64) -> Result<(Outcome, u64), Failure> {
    let (mut reader, writer) = std::io::pipe()?;
    // SAFETY: the child runs the course on its copy of the memory, writes four words, and exits
    // without running destructors. It allocates: the other threads of this program wait for work
    // then, and hold no lock of the allocator.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error().into()),
        0 => {
            let before = faults();
            let [traded, bids, asks] = run(book, course, steps).unwrap_or_default();
            let words = [traded, bids, asks, (faults() - before) * 4096];
            // SAFETY: four words of 8 bytes lie there; the descriptor is open.
            unsafe { libc::write(writer.as_raw_fd(), words.as_ptr().cast(), size_of_val(&words)) };
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(0) }
        }
        child => {
            drop(writer);
            let mut bytes = [0; 32];
            let read = reader.read_exact(&mut bytes);
            let mut status = 0;
            // SAFETY: waits for our own child; the status is a local variable.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            read?;
            let words: Vec<u64> =
                bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect();
            Ok(([words[0], words[1], words[2]], words[3]))
        }
    }
}

/// Page faults of this process so far.
fn faults() -> u64 {
    // SAFETY: all zero is a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is a local variable.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    usage.ru_minflt.try_into().unwrap_or(0)
}

#[derive(Default)]
struct Tally {
    times: Vec<Duration>,
    bytes: u64,
}

impl Tally {
    fn add(&mut self, started: Instant, bytes: u64) {
        self.times.push(started.elapsed());
        self.bytes += bytes;
    }
}

/// Tries a course in every way, and compares them.
fn try_course(
    course: u64,
    steps: u64,
    book: &mut Keyspace,
    bench: &mut Keyspace,
    tallies: &mut [Tally; 3],
) -> Result<(), Failure> {
    let mut digests = [0_u64; 2];
    let mut outcomes = [Outcome::default(); 3];
    for turn in 0..WAYS.len() {
        let way = (turn + course as usize) % WAYS.len();
        let started = Instant::now();
        match way {
            0 => {
                book.open_view(course, NOW);
                let mut branch = Branch::default();
                let view = book.view(course).ok_or("the view is open")?;
                let mut place = OnBranch(&mut branch, view, bench);
                outcomes[way] = run(&mut place, course, steps)?;
                tallies[way].add(started, branch.bytes() as u64);
                let view = book.view(course).ok_or("the view is open")?;
                branch.for_each(&view, 0, NOW, |entry| {
                    digests[0] = digests[0].wrapping_add(digest(entry));
                });
                branch.close(bench);
                book.close_view(course);
            }
            1 => {
                let mut copied = copy(book)?;
                outcomes[way] = run(&mut copied, course, steps)?;
                tallies[way].add(started, copied.data_bytes() as u64);
                copied.for_each(0, NOW, |entry| {
                    digests[1] = digests[1].wrapping_add(digest(entry));
                });
            }
            _ => {
                let (outcome, copied) = in_fork(book, course, steps)?;
                outcomes[way] = outcome;
                tallies[way].add(started, copied);
            }
        }
    }
    if digests[0] != digests[1] || outcomes.iter().any(|it| *it != outcomes[1]) {
        return Err(format!("course {course}: {outcomes:?}, {digests:?}").into());
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let mut next = |default| arguments.next().unwrap_or(Ok(default));
    let (orders, courses, steps) = (next(200_000)?, next(100)?, next(100)?);
    let mut book = Keyspace::create(&KeyspaceOptions::default())?;
    let mut bench = book.relative(1 << 10)?;
    let mut came = 0;
    while (book.len(0) as u64) < orders {
        step(&mut book, came, mixed(came))?;
        came += 1;
    }
    let megabytes = book.stats().entry_bytes / 1_000_000;
    println!("a book of {} keys, {megabytes} MB", book.len(0));

    let mut tallies: [Tally; 3] = Default::default();
    for course in 1..=courses {
        try_course(course, steps, &mut book, &mut bench, &mut tallies)?;
        for _ in 0..10 {
            step(&mut book, came, mixed(came))?;
            came += 1;
        }
        while book.tend() || bench.tend() {}
    }
    println!("{courses} courses of {steps} orders, each checked by a replay");
    println!(
        "{:8} {:>10} {:>12} {:>12} {:>14}",
        "", "a second", "median, ms", "worst, ms", "KB a course"
    );
    for (name, Tally { mut times, bytes }) in WAYS.iter().zip(tallies) {
        times.sort();
        let [median, worst] = [times.len() / 2, times.len().saturating_sub(1)]
            .map(|at| times.get(at).map_or(0.0, Duration::as_secs_f64));
        let bytes = bytes as f64 / 1e3 / courses.max(1) as f64;
        let rate = 1.0 / median.max(1e-9);
        println!("{name:8} {rate:10.0} {:12.3} {:12.3} {bytes:14.1}", median * 1e3, worst * 1e3);
    }
    Ok(())
}
