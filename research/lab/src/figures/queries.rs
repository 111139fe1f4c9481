//! Query threads on an image while updates go on: what they do to creating the next image, to the
//! updates, and what they reach themselves.
//!
//! - A query reads one word at a random place of the image. Words hold the number of the image that
//!   was the newest when they were written, so a query recognises a word that is too new.
//! - Virtual: the child of a fork has all of the process's memory, so its threads query the state
//!   where it lies. The next image is created while the children of the one before still query it.
//!   Two owners of one block each take turns in forking; the state lies beside them.
//! - Physical: threads of this process query the copy. It has one place, so the next one is created
//!   when they are through.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result, bail};
use stillframe::algorithms::fork::Fork;
use stillframe::algorithms::fork_huge::ForkHuge;
use stillframe::algorithms::naive_parallel::NaiveParallel;
use stillframe::os::lower_priority;
use stillframe::{
    Algorithm, Image, MemoryError, Options, Point as Consistency, Shared, Sink, SinkError, Words,
};

use stillframe_measure::draw::Rng;
use stillframe_measure::environment::allowed_cores;

use super::direct::apart;
use super::plan::Size;
use crate::case::FLOOR;
use crate::report::{self, Kind, Panel, Point};

/// Queries, and updates, between two looks at the clock or at a wish to stop.
const BATCH: usize = 256;

/// The size of a run.
#[derive(Debug, Clone, Copy)]
struct Extent {
    words: usize,
    images: u64,
    /// How long each image is queried.
    each: Duration,
}

/// The figures of some images with the same number of query threads.
#[derive(Debug, Clone, Default)]
struct Found {
    begins_ms: Vec<f64>,
    updates_per_us: Vec<f64>,
    queries_per_us: Vec<f64>,
}

/// Begin, updates and queries by number of query threads.
pub(super) fn on_images(size: Size) -> Result<Vec<Panel>> {
    let mb = size.pick(256, 1024, 2048) / usize::try_from(size.shrink).unwrap_or(1).clamp(1, 64);
    let (images, each_ms) = size.pick((6, 50), (6, 200), (10, 400));
    let each = Duration::from_millis(if size.shrink > 1 { 5 } else { each_ms });
    let extent = Extent { words: mb << 17, images, each };
    let cores = allowed_cores().len().max(2);
    let threads: Vec<usize> = [0, 1, 2, 4, 8, 16].into_iter().filter(|&q| q <= 2 * cores).collect();
    let floor = apart(move || without_images(extent))?;
    let mut found = vec![(FLOOR, threads.iter().map(|_| floor.clone()).collect::<Vec<_>>())];
    let swept = |name, measure: fn(Extent, usize) -> Result<Found>| {
        let at = |&queries: &usize| apart(move || measure(extent, queries));
        let all: Result<Vec<Found>> = threads.iter().map(at).collect();
        Ok::<_, Error>((name, all?))
    };
    found.push(swept("naive-parallel", physical)?);
    found.push(swept("fork", |extent, queries| virtual_images(extent, queries, false))?);
    if ForkHuge::available().is_ok() {
        found.push(swept("fork-huge", |extent, queries| virtual_images(extent, queries, true))?);
    }
    let panel = |title: &str, y: &str, of: fn(&Found) -> &[f64]| {
        let point = |(&q, found)| Point::from_values(q as f64, of(found));
        let series = found.iter().map(|(name, all)| {
            report::series(name, threads.iter().zip(all).filter_map(point).collect())
        });
        let series = series.filter(|series| !series.points.is_empty());
        Panel::new(title, Kind::Lines, "query threads", y, series.collect())
    };
    Ok(vec![
        panel("creating an image", "begin [ms]", |it| &it.begins_ms),
        panel("updates meanwhile", "updates [M/s]", |it| &it.updates_per_us),
        panel("queries meanwhile", "queries [M/s]", |it| &it.queries_per_us),
    ])
}

/// What the query threads of one image, which may be in a forked child, share with the writer.
#[derive(Debug, Clone)]
struct QueryCounts {
    stopped: Shared<AtomicBool>,
    queries: Shared<AtomicU64>,
    /// Queries that saw words newer than their image.
    wrong: Shared<AtomicU64>,
}

impl QueryCounts {
    fn new() -> Result<Self, MemoryError> {
        let count = || Shared::new(AtomicU64::new(0));
        let stopped = Shared::new(AtomicBool::new(false))?;
        Ok(Self { stopped, queries: count()?, wrong: count()? })
    }
    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
    /// Queries until `stop` is set; no word may be newer than image `newest`.
    fn query(&self, seed: usize, words: usize, newest: u64, read: impl Fn(usize) -> u64) {
        let mut rng = Rng(newest << 8 | seed as u64);
        while !self.is_stopped() {
            let mut too_new = || read(rng.below(words as u64) as usize) > newest;
            let wrong = (0..BATCH).filter(|_| too_new()).count();
            self.queries.fetch_add(BATCH as u64, Ordering::Relaxed);
            self.wrong.fetch_add(wrong as u64, Ordering::Relaxed);
        }
    }
    /// Queries made, once all have stopped.
    fn queries(&self) -> Result<f64> {
        match self.wrong.load(Ordering::Relaxed) {
            0 => Ok(self.queries.load(Ordering::Relaxed) as f64),
            wrong => bail!("{wrong} queries saw words newer than their image"),
        }
    }
}

/// Writes `value` to random words for some time. Returns writes a microsecond.
fn update(rng: &mut Rng, extent: Extent, value: u64, mut write: impl FnMut(usize, u64)) -> f64 {
    let (started, mut count) = (Instant::now(), 0);
    while started.elapsed() < extent.each {
        for _ in 0..BATCH {
            write(rng.below(extent.words as u64) as usize, value);
        }
        count += BATCH;
    }
    count as f64 / started.elapsed().as_secs_f64() / 1e6
}

fn memory(extent: Extent, huge_pages: bool) -> Result<Words> {
    let options = Options::words(extent.words).huge_pages(huge_pages).prefault(true);
    Ok(Words::create(&options)?)
}

fn without_images(extent: Extent) -> Result<Found> {
    let words = memory(extent, false)?;
    let mut rng = Rng(1);
    let slice = |number| update(&mut rng, extent, number, |index, value| words.store(index, value));
    Ok(Found { updates_per_us: (0..extent.images).map(slice).collect(), ..Found::default() })
}

fn virtual_images(extent: Extent, threads: usize, huge_pages: bool) -> Result<Found> {
    let state = memory(extent, huge_pages)?;
    let owner = || Fork::create(&Options::words(1));
    let mut owners = [owner()?, owner()?];
    let (mut rng, mut found, mut before) = (Rng(1), Found::default(), None);
    for number in 1..=extent.images {
        let counts = QueryCounts::new()?;
        let sink =
            Child { state: state.view(), threads, newest: number - 1, counts: counts.clone() };
        let started = Instant::now();
        let image = owners[(number % 2) as usize].begin(Consistency::declare(), sink);
        let took = started.elapsed();
        let image = image?;
        if let Some(before) = before.replace(Queried { image, counts, started }) {
            found.begins_ms.push(took.as_secs_f64() * 1e3); // the first met no queries
            found.queries_per_us.push(before.end()?);
        }
        let write = |index, value| state.store(index, value);
        found.updates_per_us.push(update(&mut rng, extent, number, write));
    }
    let last = before.context("there was no image")?;
    found.queries_per_us.push(last.end()?);
    found.queries_per_us.retain(|_| threads > 0);
    Ok(found)
}

/// An image with the threads that query it.
struct Queried<I> {
    image: I,
    counts: QueryCounts,
    started: Instant,
}

impl<I: Image> Queried<I> {
    /// Ends the image. Returns queries a microsecond.
    fn end(mut self) -> Result<f64> {
        self.counts.stop();
        let lasted = self.started.elapsed();
        self.image.capture()?;
        Ok(self.counts.queries()? / lasted.as_secs_f64() / 1e6)
    }
}

/// The work of the forked child.
struct Child {
    state: Words,
    threads: usize,
    newest: u64,
    counts: QueryCounts,
}

impl Sink for Child {
    /// Of an image of one word, so it is called once. It may start threads, which allocates: the
    /// thread that forked was the only one of the process that was not asleep, so no other held a
    /// lock.
    fn push(&mut self, _: usize, _: &[u64]) -> Result<(), SinkError> {
        let Self { state, threads, newest, counts } = self;
        let query = |seed| counts.query(seed, state.len(), *newest, |index| state.load(index));
        if *threads == 0 {
            while !counts.is_stopped() {
                thread::sleep(Duration::from_millis(1));
            }
            return Ok(());
        }
        thread::scope(|scope| {
            (1..*threads).for_each(|seed| drop(scope.spawn(move || query(seed))));
            query(0);
        });
        Ok(())
    }
}

fn physical(extent: Extent, threads: usize) -> Result<Found> {
    let cores = allowed_cores().len().max(1);
    let options = Options::words(extent.words).prefault(true).threads(cores);
    let mut state = NaiveParallel::create(&options)?;
    let (mut rng, mut found) = (Rng(1), Found::default());
    for number in 1..=extent.images {
        let counts = QueryCounts::new()?;
        let started = Instant::now();
        let image = state.begin(Consistency::declare(), Nothing);
        found.begins_ms.push(started.elapsed().as_secs_f64() * 1e3);
        let image = image?;
        let started = Instant::now();
        let read = |index| image.get(index).unwrap_or(u64::MAX);
        let lasted = thread::scope(|scope| {
            for seed in 0..threads {
                let (counts, read) = (&counts, &read);
                scope.spawn(move || {
                    lower_priority(); // as a snapshotter has, and a forked child
                    counts.query(seed, extent.words, number - 1, read);
                });
            }
            let write = |index, value| state.write(index, value);
            found.updates_per_us.push(update(&mut rng, extent, number, write));
            counts.stop();
            started.elapsed()
        });
        if threads > 0 {
            found.queries_per_us.push(counts.queries()? / lasted.as_secs_f64() / 1e6);
        }
    }
    Ok(found)
}

/// Takes no image: it is queried where it lies.
struct Nothing;

impl Sink for Nothing {
    fn push(&mut self, _: usize, words: &[u64]) -> Result<(), SinkError> {
        black_box(words);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: Extent = Extent { words: 1 << 12, images: 3, each: Duration::from_millis(2) };

    #[test]
    fn queries_see_no_word_that_is_newer_than_their_image() {
        for threads in [0, 1, 2] {
            for found in [virtual_images(TINY, threads, false), physical(TINY, threads)] {
                let found = found.expect("no query was wrong");
                assert_eq!(found.updates_per_us.len(), 3);
                assert_eq!(found.queries_per_us.is_empty(), threads == 0);
            }
        }
    }

    #[test]
    fn a_word_that_is_too_new_is_told() {
        let counts = QueryCounts::new().expect("a page");
        thread::scope(|scope| {
            scope.spawn(|| counts.query(0, 8, 1, |index| u64::from(index == 3) * 2));
            let started = Instant::now();
            while counts.queries().is_ok() && started.elapsed() < Duration::from_secs(60) {
                thread::yield_now();
            }
            counts.stop();
        });
        assert!(
            counts.queries().is_err_and(|why| why.to_string().contains("newer than their image"))
        );
    }
}
