//! Transactions on several threads while images are taken back to back: Li et al. 2018, figure 20.
//!
//! - A transaction changes ten random records: it moves a random amount from each to the next, so
//!   that the sum over all records is zero in every image that is a state between two transactions.
//! - Records are of a line, and of a page as the paper's: there CALC copies one at the first write.
//! - One thread takes the images and adds them up. With two cores and more threads than that, it
//!   takes time from the transactions, and threads wait for a core while they hold locks. So the
//!   time of the processor that one commit takes stands beside the throughput: it does not count
//!   who waits.

use std::convert::Infallible;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use stillframe_measure::draw::Rng;
use stillframe_transactions::algorithms::{ALL, Visitor, with};
use stillframe_transactions::{
    CaptureError, Completeness, Concurrent, Engine, Records, Settings, Stop, Worker,
};

use super::data::Data;
use super::direct::apart;
use super::judge::{Judgement, times};
use super::plan::Size;
use super::{Claim, Direct, Figure};
use crate::case::FLOOR;
use crate::record::quantile;
use crate::report::{Kind, Panel, Point, Series};

/// Records that a transaction changes.
const TOUCHED: usize = 10;
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];

const THROUGHPUT: &str = "commits a second [thousand]";
const CPU: &str = "processor time of a commit [us]";
const MIDDLE: &str = "commit, median [us]";
const HIGH: &str = "commit, 99th percentile [us]";
const WORST: &str = "slowest commit [us]";

/// The unit of locks and flags, by name and words.
const LINES: (&str, usize) = ("records of 64 bytes", 8);
const PAGES: (&str, usize) = ("records of 4 KiB", 512);

pub(super) const FIGURES: &[Figure] = &[Figure {
    name: "li-20",
    source: "Li et al. 2018, figure 20",
    title: "transactions on several threads while images are taken",
    workload: "Each transaction moves money between ten random records under strict two-phase \
               locking; images one after the other, each added up: every sum was right, or the \
               figure failed. 'none' takes no images. Two cores run all threads and the images, \
               so throughput beyond two threads is that of two cores.",
    swept: "threads",
    facets: |_| Vec::new(),
    columns: &[],
    direct: Some(Direct { seconds: |size| seconds(size) * 70.0 + 10.0, measure }),
    tables: |_| Vec::new(),
    claims: &[
        Claim {
            text: "vHG and vPB reach more than CALC at every number of threads above one",
            judge: |data| {
                ratio(data, PAGES, THROUGHPUT, &["vhg", "vpb"], &["calc"], &THREADS[1..]).least(1.0)
            },
        },
        Claim {
            text: "throughput stays the same beyond 8 threads (held: within 1.3x)",
            judge: |data| {
                let at = |threads, name| value(data, PAGES, THROUGHPUT, name, threads);
                let worst = ["calc", "vhg", "vpb"].into_iter().filter_map(|name| {
                    let ratio = at(8, name)? / at(16, name)?;
                    Some((ratio.max(1.0 / ratio), format!("{name} at 16 threads")))
                });
                Ratio(worst.max_by(|a, b| a.0.total_cmp(&b.0))).most(1.3)
            },
        },
        Claim {
            text: "vHG and vPB take less of the processor than CALC, records of a line (not in \
                   the paper)",
            judge: |data| {
                ratio(data, LINES, CPU, &["calc"], &["vhg", "vpb"], &THREADS[..2]).least(1.0)
            },
        },
        Claim {
            text: "a commit of Imprint takes at most 1.15x of the processor of one without \
                   images, at 1 and 2 threads (not in the paper)",
            judge: |data| ratio(data, LINES, CPU, &["imprint"], &[FLOOR], &THREADS[..2]).most(1.15),
        },
        Claim {
            text: "no commit is slower than 2 ms because of an image of Imprint, at 1 thread (not \
                   in the paper)",
            judge: |data| {
                let at = |name| value(data, LINES, WORST, name, 1);
                match (at("imprint"), at(FLOOR)) {
                    (Some(with), Some(without)) => {
                        let more = (with - without).max(0.0) / 1e3;
                        Judgement::of(more <= 2.0, format!("{more:.2} ms more than none"))
                    }
                    _ => Judgement::untested("it was not measured"),
                }
            },
        },
    ],
}];

/// Seconds of one run.
fn seconds(size: Size) -> f64 {
    size.pick(0.1, 2.0, 5.0) / (size.shrink as f64).min(20.0)
}

/// A ratio, the worst of several, and where.
struct Ratio(Option<(f64, String)>);

impl Ratio {
    fn judge(self, holds: impl Fn(f64) -> bool) -> Judgement {
        match self.0 {
            Some((ratio, place)) => {
                Judgement::of(holds(ratio), format!("{place}: {}", times(ratio)))
            }
            None => Judgement::untested("it was not measured"),
        }
    }
    fn least(self, least: f64) -> Judgement {
        self.judge(|ratio| ratio >= least)
    }
    fn most(self, most: f64) -> Judgement {
        self.judge(|ratio| ratio <= most)
    }
}

fn value(
    data: &Data<'_>,
    records: (&str, usize),
    metric: &str,
    name: &str,
    threads: usize,
) -> Option<f64> {
    let title = title(records, metric);
    let panel = data.direct().into_iter().find(|panel| panel.title == title)?;
    let series = panel.series.into_iter().find(|series| series.name == name)?;
    series.points.iter().find(|point| point.x == threads as f64).map(|point| point.y)
}

/// The ratio of `a` to `b` farthest from what a claim of either direction wants: the least for one
/// that is to be large. Callers that want it small name one of each.
fn ratio(
    data: &Data<'_>,
    records: (&str, usize),
    metric: &str,
    a: &[&str],
    b: &[&str],
    threads: &[usize],
) -> Ratio {
    let is_single = a.len() == 1 && b.len() == 1;
    let all = threads.iter().flat_map(|&threads| {
        a.iter().flat_map(move |a| {
            b.iter().filter_map(move |b| {
                let at = |name| value(data, records, metric, name, threads);
                Some((at(a)? / at(b)?, format!("{a} / {b} at {threads} threads")))
            })
        })
    });
    Ratio(match is_single {
        true => all.max_by(|a, b| a.0.total_cmp(&b.0)),
        false => all.min_by(|a, b| a.0.total_cmp(&b.0)),
    })
}

fn title((records, _): (&str, usize), metric: &str) -> String {
    format!("{records}: {}", metric.split(" [").next().unwrap_or(metric))
}

/// What one run of one algorithm gave.
#[derive(Debug)]
struct Run {
    name: &'static str,
    threads: usize,
    throughput: f64,
    cpu_us: f64,
    /// Of each commit, rising.
    latencies_us: Vec<f64>,
}

/// A number of a run.
type Metric = fn(&Run) -> f64;

fn measure(size: Size) -> Result<Vec<Panel>, String> {
    let mut panels = Vec::new();
    for records in [LINES, PAGES] {
        let mut runs = Vec::new();
        for threads in THREADS {
            for info in ALL {
                let run = apart(move || {
                    with(info.name, Bank { size, words: records.1, threads })
                        .unwrap_or_else(|| Err("it is not in the registry".into()))
                });
                runs.push(run.map_err(|error| format!("{}: {error}", info.name))?);
            }
        }
        let metrics: [(&str, Metric); 5] = [
            (THROUGHPUT, |run| run.throughput / 1e3),
            (CPU, |run| run.cpu_us),
            (MIDDLE, |run| quantile(&run.latencies_us, 0.5)),
            (HIGH, |run| quantile(&run.latencies_us, 0.99)),
            (WORST, |run| quantile(&run.latencies_us, 1.0)),
        ];
        panels.extend(metrics.map(|(metric, of)| Panel {
            title: title(records, metric),
            kind: Kind::Lines,
            x: "threads".to_owned(),
            y: metric.to_owned(),
            series: series(&runs, of),
            ..Panel::default()
        }));
    }
    Ok(panels)
}

fn series(runs: &[Run], of: Metric) -> Vec<Series> {
    let of_one = |(index, name): (usize, &'static str)| {
        let runs = runs.iter().filter(|run| run.name == name);
        let points = runs.map(|run| Point::single(run.threads as f64, of(run)));
        Series::numbered(index, name, points.collect())
    };
    ALL.iter().map(|info| info.name).enumerate().map(of_one).collect()
}

/// A state of money, which sums up to nothing.
struct Bank {
    size: Size,
    words: usize,
    threads: usize,
}

impl Visitor for Bank {
    type Output = Result<Run, String>;

    fn visit<A: Concurrent>(self) -> Self::Output {
        let Self { size, words, threads } = self;
        let bytes = 100_000_000 / usize::try_from(size.shrink.min(100)).unwrap_or(1);
        let records = (bytes / 8 / words).max(4 * TOUCHED);
        let mut held = vec![0; records];
        let settings = Settings::new(records, words).workers(threads);
        let bank = Engine::<A>::create(settings).map_err(|error| error.to_string())?;
        fill(&bank)?;
        let time = Duration::from_secs_f64(seconds(size));
        let (start, over) = (Barrier::new(threads + 1), AtomicBool::new(false));
        let (clerks, wrong, elapsed) = thread::scope(|scope| {
            let clerk = |seed| {
                let (bank, start, over) = (&bank, &start, &over);
                scope.spawn(move || work(bank, seed, start, over))
            };
            let clerks: Vec<_> = (1..=threads as u64).map(clerk).collect();
            start.wait();
            let started = Instant::now();
            let mut wrong = Ok(());
            while wrong.is_ok() && started.elapsed() < time {
                match A::INFO.image {
                    Completeness::Nothing => thread::sleep(time),
                    _ => wrong = add_up(&bank, &mut held),
                }
            }
            over.store(true, Ordering::Relaxed);
            let elapsed = started.elapsed();
            let clerks: Vec<_> = clerks.into_iter().map(thread::ScopedJoinHandle::join).collect();
            (clerks, wrong, elapsed)
        });
        wrong?;
        let mut run = Run {
            name: A::INFO.name,
            threads,
            throughput: 0.0,
            cpu_us: 0.0,
            latencies_us: Vec::new(),
        };
        for clerk in clerks {
            let (latencies, cpu_s) = clerk.map_err(|_| "a clerk panicked".to_owned())?;
            run.latencies_us.extend(latencies);
            run.cpu_us += cpu_s * 1e6;
        }
        let commits = run.latencies_us.len().max(1) as f64;
        (run.throughput, run.cpu_us) = (commits / elapsed.as_secs_f64(), run.cpu_us / commits);
        run.latencies_us.sort_by(f64::total_cmp);
        Ok(run)
    }
}

/// Makes each record present, without money.
fn fill<A: Concurrent>(bank: &Engine<A>) -> Result<(), String> {
    let mut worker = bank.worker().map_err(|error| error.to_string())?;
    for record in 0..bank.shape().records {
        let made = worker.run(|tx| Ok::<_, Stop<Infallible>>(tx.write(record, 0, 0)?));
        made.unwrap_or_else(|never| match never {});
    }
    Ok(())
}

/// Commits until `over`: how long each took, in microseconds, and the time of the processor in
/// seconds.
fn work<A: Concurrent>(
    bank: &Engine<A>,
    seed: u64,
    start: &Barrier,
    over: &AtomicBool,
) -> (Vec<f64>, f64) {
    let mut worker = bank.worker().unwrap_or_else(|error| unreachable!("{error}"));
    let mut random = Rng(seed);
    let mut latencies = Vec::with_capacity(1 << 16);
    start.wait();
    let before = cpu_s();
    while !over.load(Ordering::Relaxed) {
        let started = Instant::now();
        transfer(&mut worker, &mut random, bank.shape().records);
        latencies.push(started.elapsed().as_secs_f64() * 1e6);
    }
    (latencies, cpu_s() - before)
}

/// Moves money between records.
fn transfer<A: Concurrent>(worker: &mut Worker<'_, A>, random: &mut Rng, records: usize) {
    let (first, amount) = (random.below(records as u64) as usize, random.below(1 << 20));
    let step = 1 + random.below(records as u64 / TOUCHED as u64 - 1) as usize;
    let moved = worker.run(|tx| {
        // Each once, so that no transaction waits for itself.
        for place in 0..TOUCHED {
            let record = (first + place * step) % records;
            let sign = if place % 2 == 0 { amount } else { amount.wrapping_neg() };
            tx.update(record, 0, |have| have.wrapping_add(sign))?;
        }
        Ok::<_, Stop<Infallible>>(())
    });
    moved.unwrap_or_else(|never| match never {});
}

/// Time that the processor has given to this thread.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Takes an image, lays it over the one before, and adds up what all records hold.
fn add_up<A: Concurrent>(bank: &Engine<A>, held: &mut [u64]) -> Result<(), String> {
    let image = bank.begin().map_err(|error| error.to_string())?;
    match image.capture(&mut Sheet(held)) {
        Ok(()) => {}
        Err(CaptureError::Memory) => return Err("no memory for before-images".into()),
        Err(_) => return Err("an image was refused".into()),
    }
    match held.iter().fold(0_u64, |sum, money| sum.wrapping_add(*money)) {
        0 => Ok(()),
        sum => Err(format!("an image has the sum {sum}")),
    }
}

/// What each record holds.
struct Sheet<'h>(&'h mut [u64]);

impl Records for Sheet<'_> {
    type Error = Infallible;
    fn record(&mut self, record: usize, words: Option<&[u64]>) -> Result<(), Infallible> {
        let words = words.unwrap_or_default();
        // The words behind the first are zero; a sink reads them all.
        self.0[record] = words.iter().fold(0, |sum, word| sum.wrapping_add(*word));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_commits_at_every_number_of_threads() {
        let panels = measure(Size { shrink: 1000, ..Size::QUICK }).expect("no image is wrong");
        assert_eq!(panels.len(), 10);
        for panel in &panels {
            assert_eq!(panel.series.len(), ALL.len());
            for series in &panel.series {
                assert_eq!(series.points.len(), THREADS.len(), "{}", series.name);
                assert!(series.points.iter().all(|point| point.y > 0.0), "{}", series.name);
            }
        }
    }
}
