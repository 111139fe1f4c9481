//! What may become of an order book: a sample of courses that events may take, each on a copy of
//! the book of now, while the book itself goes on.
//!
//! ```text
//! cargo run --release -p stillframe-state --example what_if -- [ORDERS] [COURSES] [STEPS]
//! ```
//!
//! Fills a book by so many commands (1,000,000), then tries so many courses (200) of so many
//! commands (1000) each: on a branch, on a clone of all words, and in a forked process. The three
//! take turns, and the book gets a hundred commands of its own meanwhile. What each course comes to
//! is checked by a replay: the same commands on a clone must lead to the same words.

#[allow(dead_code, reason = "the example beside this one uses all of it")]
#[path = "order_book/book.rs"]
mod book;

use std::error::Error;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use book::{BUY, Book, SELL};
use stillframe_state::{Source, State, Store, Target};

/// What a course comes to: pieces traded, the best prices, and orders that wait.
type Outcome = [u64; 4];

/// The ways to get a copy that may be changed.
const WAYS: [&str; 3] = ["branch", "clone", "fork"];

fn outcome(book: &Book, words: &impl Source) -> Outcome {
    let best = |side| book.best(words, side).map_or(0, u64::from);
    [book.traded.get(words), best(BUY), best(SELL), book.orders.len(words) as u64]
}

fn run(book: &Book, words: &mut impl Target, course: u64, steps: u64) -> Result<Outcome, String> {
    for _ in 0..steps {
        book.step(words, course).map_err(|error| error.to_string())?;
    }
    Ok(outcome(book, words))
}

fn clone(store: &Store) -> Vec<u64> {
    let mut words = vec![0; store.words()];
    store.read_run(0, &mut words);
    words
}

/// Runs a course in a forked process. Returns what it comes to and the bytes of pages that the
/// process had to copy.
fn in_fork(store: &mut Store, course: u64, steps: u64) -> Result<(Outcome, u64), Box<dyn Error>> {
    let (mut reader, writer) = std::io::pipe()?;
    let book = Book::from_source(store)?;
    // SAFETY: the child runs the course on its copy of the memory, which neither locks nor
    // allocates but in the words of the store (no image is held), writes five words, and exits
    // without running destructors.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error().into()),
        0 => {
            let before = faults();
            let outcome = run(&book, store, course, steps).unwrap_or_default();
            let copied = (faults() - before) * 4096;
            let words = [outcome[0], outcome[1], outcome[2], outcome[3], copied];
            // SAFETY: five words of 8 bytes lie there; the descriptor is open.
            unsafe { libc::write(writer.as_raw_fd(), words.as_ptr().cast(), size_of_val(&words)) };
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(0) }
        }
        child => {
            drop(writer);
            let mut bytes = [0; 40];
            let read = reader.read_exact(&mut bytes);
            let mut status = 0;
            // SAFETY: waits for our own child; the status is a local variable.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            read?;
            let words: Vec<u64> =
                (bytes.as_chunks::<8>().0.iter()).map(|bytes| u64::from_ne_bytes(*bytes)).collect();
            Ok(([words[0], words[1], words[2], words[3]], words[4]))
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
    time: Duration,
    worst: Duration,
    bytes: u64,
    courses: u64,
}

impl Tally {
    fn add(&mut self, started: Instant, bytes: u64) {
        let time = started.elapsed();
        self.time += time;
        self.worst = self.worst.max(time);
        self.bytes += bytes;
        self.courses += 1;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let mut next = |default| arguments.next().unwrap_or(Ok(default));
    let (orders, courses, steps) = (next(1_000_000)?, next(200)?, next(1000)?);
    let directory = tempfile::tempdir()?;
    let mut store: Store = Store::open(directory.path(), Book::options("what-if", 1 << 26))?;
    let book = Book::attach(&mut store)?;
    for _ in 0..orders {
        book.step(&mut store, 0)?;
        store.point();
    }
    println!("a book of {} orders, {} MB", book.orders.len(&store), store.words() * 8 / 1_000_000);

    let mut tallies: [Tally; 3] = Default::default();
    for course in 1..=courses {
        let mut expected = clone(&store);
        let replayed = run(&book, &mut expected, course, steps)?;
        for turn in 0..WAYS.len() {
            let way = (turn + course as usize) % WAYS.len();
            let started = Instant::now();
            let outcome = match way {
                0 => {
                    let mut branch = store.branch()?;
                    let outcome = run(&book, &mut branch, course, steps)?;
                    branch.check()?;
                    let written = branch.written().len() as u64;
                    // A word, its index, and a byte of the table, which is 7/8 full at most.
                    tallies[way].add(started, written * 17 * 8 / 7);
                    let found = (0..branch.words()).map(|word| branch.read(word));
                    if !found.eq(expected.iter().copied()) || branch.check().is_err() {
                        return Err(format!("branch {course} is not that of a replay").into());
                    }
                    outcome
                }
                1 => {
                    let mut words = clone(&store);
                    let outcome = run(&book, &mut words, course, steps)?;
                    tallies[way].add(started, words.len() as u64 * 8);
                    outcome
                }
                _ => {
                    let (outcome, copied) = in_fork(&mut store, course, steps)?;
                    tallies[way].add(started, copied);
                    outcome
                }
            };
            if outcome != replayed {
                return Err(format!("course {course}: {outcome:?}, not {replayed:?}").into());
            }
        }
        for _ in 0..100 {
            book.step(&mut store, 0)?;
            store.point();
        }
    }
    println!("{courses} courses of {steps} commands, each checked by a replay");
    println!(
        "{:8} {:>12} {:>12} {:>12} {:>14}",
        "", "a second", "mean, ms", "worst, ms", "KB a course"
    );
    for (name, tally) in WAYS.iter().zip(&tallies) {
        let mean = tally.time.as_secs_f64() / tally.courses.max(1) as f64;
        let worst = tally.worst.as_secs_f64() * 1e3;
        let bytes = tally.bytes as f64 / 1e3 / tally.courses.max(1) as f64;
        println!("{name:8} {:12.0} {:12.3} {worst:12.3} {bytes:14.1}", 1.0 / mean, mean * 1e3);
    }
    Ok(())
}
