//! Transactions on several threads while images are taken back to back: Li et al. 2018, figure 20.
//!
//! - A transaction changes ten random accounts: it moves a random amount from each to the next, so
//!   that the sum over all accounts is that of the opening balances in every image that is a state
//!   between two transactions. It also counts itself in a record of its worker: what an image holds
//!   there must be what the journal was told of commits up to that image, so that an image that is
//!   whole but of another moment is found, too.
//! - Records are of a line, and of a page as the paper's: there CALC copies one at the first write.
//! - One thread takes the images and adds them up. With two cores and more threads than that, it
//!   takes time from the transactions, and threads wait for a core while they hold locks. So the
//!   time of the processor that one commit takes stands beside the throughput: it does not count
//!   who waits.
//! - The time of a commit is what its caller sees: all attempts.
//! - Each run is a process of its own, so that memory is its own and pages are of 4 KiB for all.
//! - What holds commits or page faults up by being measured (the processor's time of a single
//!   commit, memory) is measured in a second part of each run, from which no other number comes.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use stillframe_measure::draw::Rng;
use stillframe_measure::{environment, thread_time};
use stillframe_transactions::algorithms::{ALL, Visitor, with};
use stillframe_transactions::{
    Completeness, Concurrent, Engine, Journal, Records, Settings, Stop, Worker, Writes,
};

use super::child;
use super::data::Data;
use super::deciding::Extent;
use super::judge::Judgement;
use super::plan::Size;
use super::{Claim, Direct, Figure, without_unit};
use crate::case::FLOOR;
use crate::case::record::quantile;
use crate::machine::memory::proportional_bytes;
use crate::report::{Kind, Panel, Point, Series};

/// Accounts that a transaction changes.
const TOUCHED: usize = 10;
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];

const THROUGHPUT: &str = "commits a second [thousand]";
const CPU: &str = "processor time of a commit [us]";
const MIDDLE: &str = "commit, median [us]";
const HIGH: &str = "commit, 99th percentile [us]";
const WORST: &str = "slowest commit [us]";
const LONGEST: &str = "most processor time of one commit [us]";
const RETRIES: &str = "attempts that met a lock [% of commits]";
const IMAGE: &str = "processor time of an image [ms]";
const MEMORY: &str = "most memory at an image [x state]";

/// Records, the unit of locks and flags.
#[derive(Clone, Copy)]
struct Width {
    name: &'static str,
    words: usize,
}

const LINES: Width = Width { name: "records of 64 bytes", words: 8 };
const PAGES: Width = Width { name: "records of 4 KiB", words: 512 };

/// What a process of its own is asked for.
pub(super) const PART: &str = "bank";

pub(super) const FIGURES: &[Figure] = &[Figure {
    name: "li-20",
    source: "Li et al. 2018, figure 20",
    title: "transactions on several threads while images are taken",
    workload: "Each transaction moves money between ten random accounts under strict two-phase \
               locking and counts itself; images one after the other, each added up: every sum \
               was right and every image held exactly the commits up to it, or the figure \
               failed. 'none' takes no images. The time of a commit includes the attempts that \
               met a lock. Two cores run all threads and the images, so throughput beyond two \
               threads is that of two cores.",
    swept: "threads",
    direct: Some(Direct {
        seconds: |size| seconds(size) * 95.0 + 30.0,
        extent: |_| Extent { amount: 100.0, unit: "MB" },
        measure: |size| measure(size, |bank| child::measure(PART, bank)),
    }),
    claims: &[
        Claim {
            id: "above-calc",
            text: "vHG and vPB reach more than CALC at every number of threads above one (here: that \
                   have a core each)",
            judge: |data| match with_cores(&THREADS[1..], environment().cores) {
                threads if threads.is_empty() => too_few_cores(),
                threads => least(data, PAGES, THROUGHPUT, &["vhg", "vpb"], "calc", &threads),
            },
        },
        Claim {
            id: "flat-beyond-8",
            text: "throughput stays the same beyond 8 threads (held: within 1.3x)",
            judge: |data| {
                if environment().cores <= 8 {
                    return too_few_cores();
                }
                let at = |threads, name| value(data, PAGES, THROUGHPUT, name, threads);
                let ratios = ["calc", "vhg", "vpb"].into_iter().filter_map(|name| {
                    let ratio = at(8, name)? / at(16, name)?;
                    Some((ratio.max(1.0 / ratio), format!("{name} at 16 threads")))
                });
                judge_most(ratios, 1.3)
            },
        },
        Claim {
            id: "hg-pb-commit",
            text: "a commit of vHG and vPB takes no more of the processor than one of CALC, \
                   records of a line (not in the paper)",
            judge: |data| most(data, LINES, CPU, &["vhg", "vpb"], "calc", 1.0),
        },
        Claim {
            id: "imprint-commit",
            text: "a commit of Imprint takes at most 1.15x of the processor of one without \
                   images, at 1 and 2 threads (not in the paper)",
            judge: |data| most(data, LINES, CPU, &["imprint"], FLOOR, 1.15),
        },
        Claim {
            id: "longest-commit",
            text: "no commit takes 2 ms of the processor more with Imprint than without images, \
                   at 1 and 2 threads (not in the paper)",
            judge: |data| {
                let more = THREADS[..2].iter().filter_map(|&threads| {
                    let at = |name| value(data, LINES, LONGEST, name, threads);
                    Some((at("imprint")? - at(FLOOR)?, threads))
                });
                match more.max_by(|a, b| a.0.total_cmp(&b.0)) {
                    Some((more, threads)) => Judgement::new(
                        more <= 2e3,
                        format!("{:.2} ms more than none at {threads} threads", more / 1e3),
                    ),
                    None => Judgement::untested("it was not measured"),
                }
            },
        },
        Claim {
            id: "imprint-memory",
            text: "memory of Imprint is at most 1.15x of that without images, at 1 and 2 threads \
                   (not in the paper)",
            judge: |data| most(data, LINES, MEMORY, &["imprint"], FLOOR, 1.15),
        },
    ],
    ..Figure::BLANK
}];

/// The numbers of threads that have a core each, beside that of the images.
fn with_cores(threads: &[usize], cores: usize) -> Vec<usize> {
    threads.iter().copied().filter(|&threads| threads < cores).collect()
}

/// A latch costs where several cores ask for it at once.
fn too_few_cores() -> Judgement {
    let cores = environment().cores;
    Judgement::untested(format!("{cores} cores are too few: threads and images share them"))
}

/// Seconds of one run.
fn seconds(size: Size) -> f64 {
    size.pick(0.4, 2.0, 5.0) / (size.shrink as f64).min(20.0)
}

fn value(data: &Data<'_>, records: Width, metric: &str, name: &str, threads: usize) -> Option<f64> {
    let title = title(records, metric);
    let panel = data.direct().into_iter().find(|panel| panel.title == title)?;
    let series = panel.series.into_iter().find(|series| series.name == name)?;
    series.points.iter().find(|point| point.x == threads as f64).map(|point| point.y)
}

/// The ratios of some algorithms to another one, and where.
fn ratios(
    data: &Data<'_>,
    records: Width,
    metric: &str,
    names: &[&str],
    to: &str,
    threads: &[usize],
) -> Vec<(f64, String)> {
    let each = names.iter().flat_map(|name| threads.iter().map(move |&threads| (*name, threads)));
    each.filter_map(|(name, threads)| {
        let at = |name| value(data, records, metric, name, threads);
        Some((at(name)? / at(to)?, format!("{name} / {to} at {threads} threads")))
    })
    .collect()
}

/// Whether each ratio is at least 1.
fn least(
    data: &Data<'_>,
    records: Width,
    metric: &str,
    names: &[&str],
    to: &str,
    threads: &[usize],
) -> Judgement {
    let all = ratios(data, records, metric, names, to, threads);
    let worst = all.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    Judgement::from_ratio(worst, |ratio| ratio >= 1.0)
}

/// Whether each ratio is at most `bound`, at 1 and 2 threads.
fn most(
    data: &Data<'_>,
    records: Width,
    metric: &str,
    names: &[&str],
    to: &str,
    bound: f64,
) -> Judgement {
    judge_most(ratios(data, records, metric, names, to, &THREADS[..2]).into_iter(), bound)
}

fn judge_most(ratios: impl Iterator<Item = (f64, String)>, bound: f64) -> Judgement {
    Judgement::from_ratio(ratios.max_by(|a, b| a.0.total_cmp(&b.0)), |ratio| ratio <= bound)
}

fn title(records: Width, metric: &str) -> String {
    format!("{}: {}", records.name, without_unit(metric))
}

/// What one run of one algorithm gave.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Run {
    throughput: f64,
    cpu_us: f64,
    median_us: f64,
    high_us: f64,
    worst_us: f64,
    longest_us: f64,
    retries: f64,
    /// `None` if it takes no images.
    image_ms: Option<f64>,
    memory: f64,
}

/// A number of a run.
type Metric = fn(&Run) -> Option<f64>;

const METRICS: &[(&str, Metric)] = &[
    (THROUGHPUT, |run| Some(run.throughput / 1e3)),
    (CPU, |run| Some(run.cpu_us)),
    (MIDDLE, |run| Some(run.median_us)),
    (HIGH, |run| Some(run.high_us)),
    (WORST, |run| Some(run.worst_us)),
    (LONGEST, |run| Some(run.longest_us)),
    (RETRIES, |run| Some(run.retries * 100.0)),
    (IMAGE, |run| run.image_ms),
    (MEMORY, |run| Some(run.memory)),
];

fn measure(size: Size, run: impl Fn(&Bank) -> Result<Run>) -> Result<Vec<Panel>> {
    let mut panels = Vec::new();
    for records in [LINES, PAGES] {
        let mut runs = Vec::new();
        for threads in THREADS {
            for info in ALL {
                let bank = Bank {
                    algorithm: info.name.to_owned(),
                    bytes: 100_000_000 / usize::try_from(size.shrink.min(100)).unwrap_or(1),
                    words: records.words,
                    threads,
                    seconds: seconds(size),
                };
                let run = run(&bank).context(info.name)?;
                runs.push((info.name, threads, run));
            }
        }
        panels.extend(METRICS.iter().map(|(metric, of)| {
            let title = title(records, metric);
            Panel::new(&title, Kind::Lines, "threads", metric, series(&runs, *of))
        }));
    }
    Ok(panels)
}

fn series(runs: &[(&'static str, usize, Run)], of: Metric) -> Vec<Series> {
    let of_one = |(index, name): (usize, &'static str)| {
        let runs = runs.iter().filter(|run| run.0 == name);
        let point =
            |(_, threads, run): &(_, usize, _)| Some(Point::single(*threads as f64, of(run)?));
        let points: Vec<_> = runs.filter_map(point).collect();
        (!points.is_empty()).then(|| Series::numbered(index, name, points))
    };
    ALL.iter().map(|info| info.name).enumerate().filter_map(of_one).collect()
}

/// One run, in this process.
pub(super) fn run(bank: &Bank) -> Result<Run> {
    let ran = with(&bank.algorithm, bank.clone());
    ran.with_context(|| format!("there is no algorithm '{}'", bank.algorithm))?
}

/// A state of money: accounts, and behind them a record a worker, which counts its commits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Bank {
    algorithm: String,
    bytes: usize,
    /// Of a record.
    words: usize,
    threads: usize,
    /// Of the part that is timed.
    seconds: f64,
}

impl Visitor for Bank {
    type Output = Result<Run>;

    fn visit<A: Concurrent>(self) -> Self::Output {
        let Self { bytes, words, threads, seconds, .. } = self;
        let accounts = (bytes / 8 / words).max(4 * TOUCHED);
        let records = accounts + threads;
        let mut auditor = Auditor::new(accounts, threads, A::INFO.image);
        let time = Duration::from_secs_f64(seconds);
        let room = (2e6 * seconds) as usize;
        let mut desks: Vec<_> = (0..threads).map(|_| Desk::new(room)).collect();
        let without = proportional_bytes();

        let settings = Settings::new(records, words).workers(threads);
        let told = Told::new(threads);
        let bank = Engine::<A, _>::with_journal(settings, told)?;
        fill(&bank, accounts)?;
        let (start, part) = (Barrier::new(threads + 1), AtomicU8::new(TIMED));
        let (clerks, audit, elapsed) = thread::scope(|scope| {
            let clerk = |desk| {
                let (bank, start, part) = (&bank, &start, &part);
                scope.spawn(move || work(bank, accounts, desk, start, part))
            };
            let clerks: Vec<_> = desks.iter_mut().map(clerk).collect();
            start.wait();
            let started = Instant::now();
            let mut audit = auditor.until(&bank, started + time, || ());
            let elapsed = started.elapsed();
            part.store(MEASURED, Ordering::Relaxed);
            let mut most = proportional_bytes();
            if audit.is_ok() {
                let look = || most = most.max(proportional_bytes());
                let more = auditor.until(&bank, Instant::now() + time / 4, look);
                audit = audit.and_then(|audit| more.map(|_| audit));
            }
            part.store(OVER, Ordering::Relaxed);
            let clerks: Vec<_> = clerks.into_iter().map(thread::ScopedJoinHandle::join).collect();
            (clerks, audit.map(|audit| (audit, most)), elapsed)
        });
        let ((image_ms, _), most) = audit?;
        if clerks.iter().any(Result::is_err) {
            bail!("a clerk panicked");
        }
        let sum = |of: fn(&Desk) -> f64| desks.iter().map(of).sum::<f64>();
        let commits = sum(|desk| desk.latencies_us.len() as f64).max(1.0);
        let mut latencies_us: Vec<f64> = desks
            .iter()
            .flat_map(|desk| desk.latencies_us.iter().copied().map(f64::from))
            .collect();
        latencies_us.sort_by(f64::total_cmp);
        Ok(Run {
            throughput: commits / elapsed.as_secs_f64(),
            cpu_us: sum(|desk| desk.cpu_s) * 1e6 / commits,
            median_us: quantile(&latencies_us, 0.5),
            high_us: quantile(&latencies_us, 0.99),
            worst_us: quantile(&latencies_us, 1.0),
            longest_us: desks.iter().map(|desk| desk.longest_s * 1e6).fold(0.0, f64::max),
            retries: sum(|desk| desk.conflicts as f64) / commits,
            image_ms,
            memory: most.saturating_sub(without) as f64 / (records * words * 8) as f64,
        })
    }
}

/// What an account holds at first: no two the same, none zero.
fn opening(account: usize) -> u64 {
    (account as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Fills the accounts.
fn fill<A: Concurrent>(bank: &Engine<A, Told>, accounts: usize) -> Result<()> {
    let mut worker = bank.worker()?;
    for record in 0..bank.shape().records {
        let money = if record < accounts { opening(record) } else { 0 };
        let made = worker.run(|tx| Ok::<_, Stop<Infallible>>(tx.write(record, 0, money)?));
        made.unwrap_or_else(|never| match never {});
    }
    bank.journal().forget();
    Ok(())
}

/// Commits of each worker, by the first image that holds them.
struct Told(Vec<Mutex<Vec<u64>>>);

impl Told {
    fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Mutex::default()).collect())
    }
    /// Starts over: what has filled the state counts in no record.
    fn forget(&self) {
        self.0.iter().for_each(|told| told.lock().unwrap_or_else(PoisonError::into_inner).clear());
    }
    /// Commits of a worker that an image holds.
    fn up_to(&self, worker: usize, image: u64) -> u64 {
        let told = self.0[worker].lock().unwrap_or_else(PoisonError::into_inner);
        told.iter().take(image as usize + 1).sum()
    }
}

impl Journal for Told {
    fn commit(&self, worker: usize, image: u64, _: &Writes<'_>, _: impl Iterator<Item = usize>) {
        let mut told = self.0[worker].lock().unwrap_or_else(PoisonError::into_inner);
        let image = image as usize;
        if told.len() <= image {
            told.resize(image + 1, 0);
        }
        told[image] += 1;
    }
}

/// Parts of a run: one from which times come, one from which what disturbs them comes, the end.
const TIMED: u8 = 0;
const MEASURED: u8 = 1;
const OVER: u8 = 2;

/// What a clerk has seen.
struct Desk {
    /// Of each commit of the timed part.
    latencies_us: Vec<f32>,
    /// Of all of them.
    cpu_s: f64,
    conflicts: u64,
    /// The most that one commit of the second part took of the processor.
    longest_s: f64,
}

impl Desk {
    /// With room that counts as memory from the start.
    fn new(room: usize) -> Self {
        let mut latencies_us = vec![1.0; room];
        latencies_us.clear();
        Self { latencies_us, cpu_s: 0.0, conflicts: 0, longest_s: 0.0 }
    }
}

/// Commits until the run is over.
fn work<A: Concurrent>(
    bank: &Engine<A, Told>,
    accounts: usize,
    desk: &mut Desk,
    start: &Barrier,
    part: &AtomicU8,
) {
    let mut worker = bank.worker().unwrap_or_else(|error| unreachable!("{error}"));
    let mut random = Rng(worker.number() as u64 + 1);
    start.wait();
    let before = thread_time();
    while part.load(Ordering::Relaxed) == TIMED {
        let started = Instant::now();
        transfer(&mut worker, &mut random, accounts);
        desk.latencies_us.push((started.elapsed().as_secs_f64() * 1e6) as f32);
    }
    desk.cpu_s = (thread_time() - before).as_secs_f64();
    desk.conflicts = worker.conflicts();
    while part.load(Ordering::Relaxed) == MEASURED {
        let before = thread_time();
        transfer(&mut worker, &mut random, accounts);
        desk.longest_s = desk.longest_s.max((thread_time() - before).as_secs_f64());
    }
}

/// Moves money between accounts, and counts that.
fn transfer<A: Concurrent>(worker: &mut Worker<'_, A, Told>, random: &mut Rng, accounts: usize) {
    let (first, amount) = (random.below(accounts as u64) as usize, random.below(1 << 20));
    let step = 1 + random.below(accounts as u64 / TOUCHED as u64 - 1) as usize;
    let own = accounts + worker.number();
    let moved = worker.run(|tx| {
        // Each once, so that no transaction waits for itself.
        for place in 0..TOUCHED {
            let record = (first + place * step) % accounts;
            let sign = if place % 2 == 0 { amount } else { amount.wrapping_neg() };
            tx.update(record, 0, |have| have.wrapping_add(sign))?;
        }
        Ok::<_, Stop<Infallible>>(tx.update(own, 0, |count| count + 1)?)
    });
    moved.unwrap_or_else(|never| match never {});
}

/// Takes images and judges them.
struct Auditor {
    /// What each record holds in the newest image; nothing that it could hold, before the first.
    held: Vec<u64>,
    accounts: usize,
    image: Completeness,
}

impl Auditor {
    fn new(accounts: usize, workers: usize, image: Completeness) -> Self {
        Self { held: vec![u64::MAX / 3; accounts + workers], accounts, image }
    }

    /// Takes images until that moment, at least one, and calls `look` within each: milliseconds
    /// that the processor spent on one, and how many there were.
    fn until<A: Concurrent>(
        &mut self,
        bank: &Engine<A, Told>,
        end: Instant,
        mut look: impl FnMut(),
    ) -> Result<(Option<f64>, u32)> {
        if self.image == Completeness::Nothing {
            thread::sleep(end.saturating_duration_since(Instant::now()));
            look();
            return Ok((None, 0));
        }
        let (before, mut images) = (thread_time(), 0);
        while images == 0 || Instant::now() < end {
            self.audit(bank, &mut look)?;
            images += 1;
        }
        Ok((Some((thread_time() - before).as_secs_f64() * 1e3 / f64::from(images)), images))
    }

    /// Takes an image, lays it over the one before, and judges it.
    fn audit<A: Concurrent>(
        &mut self,
        bank: &Engine<A, Told>,
        look: &mut impl FnMut(),
    ) -> Result<()> {
        let image = bank.begin()?;
        let number = image.number();
        let mut sheet = Sheet { held: &mut self.held, pushed: 0, look };
        image.capture(&mut sheet)?;
        let (pushed, all) = (sheet.pushed, self.held.len());
        if self.image == Completeness::Full && pushed != all {
            bail!("image {number} has {pushed} of {all} records");
        }
        self.judge(number, bank.journal())
    }

    /// Adds up what all accounts hold, and compares the counts with what the journal was told.
    fn judge(&self, number: u64, told: &Told) -> Result<()> {
        let (money, counts) = self.held.split_at(self.accounts);
        let sum = |all: &mut dyn Iterator<Item = u64>| all.fold(0_u64, u64::wrapping_add);
        let (have, due) =
            (sum(&mut money.iter().copied()), sum(&mut (0..self.accounts).map(opening)));
        ensure!(have == due, "image {number} has the sum {have} in place of {due}");
        for (worker, &count) in counts.iter().enumerate() {
            let due = told.up_to(worker, number);
            ensure!(count == due, "image {number}: worker {worker}: {count} commits of {due}");
        }
        Ok(())
    }
}

/// What each record holds.
struct Sheet<'h, L> {
    held: &'h mut [u64],
    pushed: usize,
    look: &'h mut L,
}

impl<L: FnMut()> Records for Sheet<'_, L> {
    type Error = Infallible;
    fn record(&mut self, record: usize, words: Option<&[u64]>) -> Result<(), Infallible> {
        let words = words.unwrap_or_default();
        // The words behind the first are zero; a sink reads them all.
        self.held[record] = words.iter().fold(0, |sum, word| sum.wrapping_add(*word));
        self.pushed += 1;
        // Halfway, and near the end, where most before-images are held.
        let (done, all) = (record + 1, self.held.len());
        if done == all / 2 || done == all - all / 100 {
            (self.look)();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use stillframe_transactions::{CaptureError, CreateError, Epochs, Imprint, Info, Table};

    use super::*;

    const SMALL: Size = Size { shrink: 1000, ..Size::QUICK };

    #[test]
    fn threads_are_compared_as_far_as_there_are_cores() {
        assert_eq!(with_cores(&THREADS[1..], 2), [0; 0]);
        assert_eq!(with_cores(&THREADS[1..], 4), [2]);
        assert_eq!(with_cores(&THREADS[1..], 17), [2, 4, 8, 16]);
    }

    #[test]
    fn every_algorithm_commits_at_every_number_of_threads() {
        let panels = measure(SMALL, super::run).expect("no image is wrong");
        assert_eq!(panels.len(), 2 * METRICS.len());
        for panel in &panels {
            let with_images = usize::from(panel.y == IMAGE);
            assert_eq!(panel.series.len(), ALL.len() - with_images, "{}", panel.title);
            for series in &panel.series {
                assert_eq!(series.points.len(), THREADS.len(), "{}", series.name);
                // Of so short a run, these may be nothing.
                let may_be_none = [RETRIES, MEMORY, LONGEST].contains(&&*panel.y);
                let is_number = |y: f64| y > 0.0 || may_be_none && y == 0.0;
                assert!(series.points.iter().all(|it| is_number(it.y)), "{}", panel.title);
            }
        }
    }

    /// Mistakes of an image that a sum of nothing over nothing would let pass.
    #[derive(Clone, Copy)]
    enum Mistake {
        /// Nothing is captured.
        Empty,
        /// The state before the image is captured: what was there before anybody wrote.
        Stale,
        /// The newest state is captured, while others commit.
        Late,
    }

    struct Wrong<const MISTAKE: u8>(Imprint);

    impl<const MISTAKE: u8> Wrong<MISTAKE> {
        const MISTAKE: Mistake = match MISTAKE {
            0 => Mistake::Empty,
            1 => Mistake::Stale,
            _ => Mistake::Late,
        };
    }

    impl<const MISTAKE: u8> Concurrent for Wrong<MISTAKE> {
        const INFO: Info = Imprint::INFO;
        fn create(settings: &Settings) -> Result<Self, CreateError> {
            Imprint::create(settings).map(Self)
        }
        fn epochs(&self) -> &Epochs {
            self.0.epochs()
        }
        fn newest(&self, record: usize) -> &Table {
            self.0.newest(record)
        }
        fn install(&self, worker: usize, epoch: u64, writes: &Writes<'_>, told: impl FnOnce(u64)) {
            self.0.install(worker, epoch, writes, told);
        }
        fn begin(&self) -> u64 {
            self.0.begin()
        }
        fn capture<S: Records>(&self, _: u64, sink: &mut S) -> Result<(), CaptureError<S::Error>> {
            match Self::MISTAKE {
                Mistake::Empty => Ok(()),
                Mistake::Stale => (0..RECORDS).try_for_each(|record| {
                    let money = if record < ACCOUNTS { opening(record) } else { 0 };
                    Ok(sink.record(record, Some(&[money]))?)
                }),
                Mistake::Late => {
                    let before = self.0.newest(0).word(ACCOUNTS, 0);
                    while self.0.newest(0).word(ACCOUNTS, 0) < before + 10 {
                        thread::yield_now();
                    }
                    (0..RECORDS).try_for_each(|record| {
                        let word = self.0.newest(record).word(record, 0);
                        Ok(sink.record(record, Some(&[word]))?)
                    })
                }
            }
        }
        fn settle(&self, image: u64, kept: bool) {
            self.0.settle(image, kept);
        }
    }

    const BYTES: usize = 1_000_000;
    const ACCOUNTS: usize = BYTES / 8 / LINES.words;
    const RECORDS: usize = ACCOUNTS + 1;

    #[test]
    fn an_image_of_nothing_of_before_or_of_later_is_found() {
        let bank = || Bank {
            algorithm: String::new(),
            bytes: BYTES,
            words: LINES.words,
            threads: 1,
            seconds: 0.02,
        };
        let empty = bank().visit::<Wrong<0>>().expect_err("an image of nothing").to_string();
        assert!(empty.contains("0 of"), "{empty}");
        let stale = bank().visit::<Wrong<1>>().expect_err("an image of before").to_string();
        assert!(stale.contains("commits of"), "{stale}");
        let late = bank().visit::<Wrong<2>>().expect_err("an image of later").to_string();
        assert!(late.contains("the sum") || late.contains("commits of"), "{late}");
        bank().visit::<Imprint>().expect("a right image");
    }
}
