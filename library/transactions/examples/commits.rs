//! What images cost a commit: none, one that reads the state without being told of writes (no
//! image, but what any capture takes of the caches and the memory), and Imprint.
//!
//! `cargo run --release -p stillframe-transactions --example commits`
//!
//! A transaction changes a word in each of ten random records of 100 MB; images follow one another.
//! Microseconds of the processor for a commit in rounds that take turns, and their ratios to no
//! images round by round; medians and all of them.
//!
//! `... --example commits -- count NAME WORDS COMMITS` runs so many commits on one thread, within
//! one image, for a counter of instructions (`valgrind --tool=callgrind`): the difference of two
//! runs is what a commit executes.

use std::convert::Infallible;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stillframe_measure::draw::Rng;
use stillframe_measure::{spread, thread_time};
use stillframe_transactions::algorithms::bare::Bare;
use stillframe_transactions::algorithms::{Visitor, with};
use stillframe_transactions::{
    CaptureError, Completeness, Concurrent, CreateError, Engine, Epochs, Imprint, Info, Records,
    Settings, Stop, Table, Worker, Writes,
};

const BYTES: usize = 100_000_000;
const TOUCHED: usize = 10;
const ROUNDS: usize = 7;
const TIME: Duration = Duration::from_millis(500);
/// Before that, which is not counted: the first images touch new memory.
const WARM: Duration = Duration::from_millis(300);

/// No images, but a thread that reads the whole state as a capture does.
struct Seen(Bare, Settings);

impl Concurrent for Seen {
    const INFO: Info = Bare::INFO;
    fn create(settings: &Settings) -> Result<Self, CreateError> {
        Bare::create(settings).map(|it| Self(it, *settings))
    }
    fn epochs(&self) -> &Epochs {
        self.0.epochs()
    }
    fn newest(&self, record: usize) -> &Table {
        self.0.newest(record)
    }
    fn install(&self, worker: usize, epoch: u64, writes: &Writes<'_>, ordered: impl FnOnce(u64)) {
        self.0.install(worker, epoch, writes, ordered);
    }
    fn begin(&self) -> u64 {
        self.0.begin()
    }
    fn capture<S: Records>(&self, _: u64, sink: &mut S) -> Result<(), CaptureError<S::Error>> {
        let mut words = vec![0; self.1.shape.words];
        for record in 0..self.1.shape.records {
            self.newest(record).load(record, &mut words);
            sink.record(record, Some(&words))?;
        }
        Ok(())
    }
    fn settle(&self, _: u64, _: bool) {}
}

/// Adds everything up.
struct Sum(u64);

impl Records for Sum {
    type Error = Infallible;
    fn record(&mut self, _: usize, words: Option<&[u64]>) -> Result<(), Infallible> {
        let words = words.unwrap_or_default();
        self.0 = words.iter().fold(self.0, |sum, word| sum.wrapping_add(*word));
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [count, name, words, commits] = arguments.as_slice() {
        assert_eq!(count, "count", "count NAME WORDS COMMITS");
        let count = Count { words: words.parse()?, commits: commits.parse()? };
        return Ok(with(name, count).ok_or("no such algorithm")?);
    }
    println!("| words | threads | none | seen | Imprint | seen / none | Imprint / none |");
    println!("|---|---|---|---|---|---|---|");
    for words in [8, 512] {
        for threads in [1, 2] {
            let mut rounds = Vec::new();
            for _ in 0..ROUNDS {
                rounds.push([
                    run::<Bare>(words, threads, false)?,
                    run::<Seen>(words, threads, true)?,
                    run::<Imprint>(words, threads, true)?,
                ]);
            }
            let [none, seen, imprint] =
                [0, 1, 2].map(|at| spread(rounds.iter().map(|round| round[at])));
            let [of_seen, of_imprint] =
                [1, 2].map(|at| spread(rounds.iter().map(|round| round[at] / round[0])));
            println!(
                "| {words} | {threads} | {none} | {seen} | {imprint} | {of_seen} | {of_imprint} |"
            );
        }
    }
    Ok(())
}

/// Microseconds of the processor for a commit.
fn run<A: Concurrent>(
    words: usize,
    threads: usize,
    images: bool,
) -> Result<f64, Box<dyn std::error::Error>> {
    let records = BYTES / 8 / words;
    let bank: Engine<A> = Engine::create(Settings::new(records, words).workers(threads))?;
    fill(&bank, records);
    let start = Barrier::new(threads + 1);
    let (counted, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let clerks = std::thread::scope(|scope| {
        let clerk = |seed| {
            let (bank, start, counted, over) = (&bank, &start, &counted, &over);
            scope.spawn(move || {
                let (mut worker, mut random) = (bank.worker().expect("one each"), Rng(seed));
                let mut commit_until = |flag: &AtomicBool| {
                    let (before, mut commits) = (thread_time(), 0.0);
                    while !flag.load(Ordering::Relaxed) {
                        transfer(&mut worker, &mut random, records);
                        commits += 1.0;
                    }
                    [commits, (thread_time() - before).as_secs_f64() * 1e6]
                };
                start.wait();
                commit_until(counted);
                commit_until(over)
            })
        };
        let clerks: Vec<_> = (1..=threads as u64).map(clerk).collect();
        start.wait();
        for (time, ended) in [(WARM, &counted), (TIME, &over)] {
            let started = std::time::Instant::now();
            while started.elapsed() < time {
                match images {
                    true => drop(bank.begin().map(|image| image.capture(&mut Sum(0)))),
                    false => std::thread::sleep(time / 10),
                }
            }
            ended.store(true, Ordering::Relaxed);
        }
        clerks.into_iter().map(|it| it.join().expect("it ends")).collect::<Vec<_>>()
    });
    let sum = |at: usize| clerks.iter().map(|clerk| clerk[at]).sum::<f64>();
    Ok(sum(1) / sum(0))
}

fn fill<A: Concurrent>(bank: &Engine<A>, records: usize) {
    let mut worker = bank.worker().expect("there is one");
    for record in 0..records {
        let made = worker.run(|tx| Ok::<_, Stop<Infallible>>(tx.write(record, 0, 1)?));
        made.unwrap_or_else(|never| match never {});
    }
}

fn transfer<A: Concurrent>(worker: &mut Worker<'_, A>, random: &mut Rng, records: usize) {
    let mut below = |bound: usize| random.below(bound as u64) as usize;
    let (first, step) = (below(records), 1 + below(records / TOUCHED - 1));
    let moved = worker.run(|tx| {
        for place in 0..TOUCHED {
            let sign = if place % 2 == 0 { 1 } else { u64::MAX };
            tx.update((first + place * step) % records, 0, |have| have.wrapping_add(sign))?;
        }
        Ok::<_, Stop<Infallible>>(())
    });
    moved.unwrap_or_else(|never| match never {});
}

/// Commits on one thread, within one image that nobody captures.
struct Count {
    words: usize,
    commits: usize,
}

impl Visitor for Count {
    type Output = ();
    fn visit<A: Concurrent>(self) {
        // Small enough to be filled soon, large enough that nearly all touches are first ones.
        let records = 1 << 17;
        let bank: Engine<A> = Engine::create(Settings::new(records, self.words)).expect("memory");
        fill(&bank, records);
        let _image = (A::INFO.image != Completeness::Nothing).then(|| bank.begin());
        let (mut worker, mut random) = (bank.worker().expect("there is one"), Rng(1));
        (0..self.commits).for_each(|_| transfer(&mut worker, &mut random, records));
    }
}
