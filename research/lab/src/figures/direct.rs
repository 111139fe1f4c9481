//! Measurements apart from cases: single writes after a fork, interruptions of models of page
//! tables, and the bandwidth of memory.
//!
//! Each runs on a thread of its own, so that its pins and forks do not touch the caller.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use stillframe::algorithms::fork::Fork;
use stillframe::algorithms::fork_huge::ForkHuge;
use stillframe::algorithms::page_table::{AsyncFork, OnDemandFork};
use stillframe::{
    Algorithm, BLOCK_WORDS, Engine, Options, Point as Consistency, Publication, Sink, SinkError,
};

use stillframe_measure::draw::Rng;
use stillframe_measure::environment::allowed_cores;

use super::plan::Size;
use crate::case::record::quantile;
use crate::machine::cores::Cores;
use crate::report::{self, Kind, Panel, Point, Series};

/// The first write to a page of 4 KiB.
pub(super) const FIRST_SMALL: &str = "first write to 4 KiB";
/// The first write to a page of 2 MiB.
pub(super) const FIRST_HUGE: &str = "first write to 2 MiB";
const NEXT_HUGE: &str = "next 4 KiB of the 2 MiB";
const SECOND: &str = "second write, no fault";

const PAGES_OF_HUGE: usize = 512;

/// Times of the first writes to pages after a fork, for pages of 4 KiB and 2 MiB.
pub(super) fn first_writes(size: Size) -> Result<Vec<Panel>> {
    let huge_pages = size.pick(128, 1024, 1024) / usize::try_from(size.shrink.min(32)).unwrap_or(1);
    let small = apart(move || first_writes_of::<Fork>(huge_pages))?;
    let huge = match ForkHuge::available() {
        Ok(()) => apart(move || first_writes_of::<ForkHuge>(huge_pages)).ok(),
        Err(_) => None,
    };
    let mut rows = vec![(SECOND, small.again), (FIRST_SMALL, small.first)];
    if let Some(huge) = huge {
        rows.extend([(FIRST_HUGE, huge.first), (NEXT_HUGE, huge.next)]);
    }
    let row = |(index, (name, times)): (usize, (&str, Vec<f64>))| {
        Series::numbered(index, name, vec![middle(times)])
    };
    let series = rows.into_iter().enumerate().map(row).collect();
    Ok(vec![Panel::new("one write", Kind::Rows, "", "time of a write [us]", series)])
}

/// Median, and the middle 90 %.
fn middle(mut times: Vec<f64>) -> Point {
    times.sort_by(f64::total_cmp);
    let [low, y, high] = [0.05, 0.5, 0.95].map(|share| quantile(&times, share));
    Point { x: 0.0, y, low, high }
}

/// Times in microseconds.
struct Writes {
    /// First writes to a page of 2 MiB since the fork.
    first: Vec<f64>,
    /// Writes to the next 4 KiB of that page.
    next: Vec<f64>,
    /// Writes to the same word again.
    again: Vec<f64>,
}

fn first_writes_of<A: Algorithm>(huge_pages: usize) -> Result<Writes> {
    let words = huge_pages * PAGES_OF_HUGE * BLOCK_WORDS;
    let options = Options::words(words).prefault(true);
    let mut state = A::create(&options)?;
    for word in (0..words).step_by(BLOCK_WORDS) {
        state.write(word, 1);
    }
    let point = Consistency::declare();
    let image = state.begin(point, Slow)?;
    let mut writes = Writes { first: Vec::new(), next: Vec::new(), again: Vec::new() };
    for huge in 0..huge_pages {
        let word = huge * PAGES_OF_HUGE * BLOCK_WORDS;
        writes.first.push(timed_us(|| state.write(word, 2)));
        writes.again.push(timed_us(|| state.write(word, 3)));
        writes.next.push(timed_us(|| state.write(word + BLOCK_WORDS, 2)));
    }
    state.progress().cancel();
    drop(image);
    Ok(writes)
}

fn timed_us(action: impl FnOnce()) -> f64 {
    let started = Instant::now();
    action();
    started.elapsed().as_secs_f64() * 1e6
}

/// Takes its time, so that the image is held while the writer writes.
struct Slow;

impl Sink for Slow {
    fn push(&mut self, _: usize, words: &[u64]) -> Result<(), SinkError> {
        black_box(words);
        thread::sleep(Duration::from_millis(20));
        Ok(())
    }
}

/// 50,000 writes a second, evenly: writes that come 50 at once would meet 50 tables before the
/// snapshotter's thread has copied one.
const BETWEEN_WRITES: Duration = Duration::from_micros(20);
const VALUE_WORDS: usize = 128;
const IMAGE_BYTES_PER_S: f64 = 250e6;

/// How often and for how long the models of page tables hold a writer up during one image.
pub(super) fn interruptions(size: Size) -> Result<Vec<Panel>> {
    let mb = size.pick(400, 4000, 4000) / usize::try_from(size.shrink).unwrap_or(1).clamp(1, 100);
    let words = mb.max(4) * 1_000_000 / 8;
    let models = [
        ("odf", apart(move || interruptions_of::<OnDemandFork>(words))?),
        ("async-fork", apart(move || interruptions_of::<AsyncFork>(words))?),
    ];
    let panel = |title: &str, kind, x: &str, y: &str, points: fn(&[f64]) -> Vec<Point>| {
        let series = models.iter().map(|(name, times)| report::series(name, points(times)));
        Panel::new(title, kind, x, y, series.collect())
    };
    let count = |times: &[f64]| vec![Point::single(0.0, times.len() as f64)];
    let length = "length [us], up to";
    Ok(vec![
        panel("how many", Kind::Rows, "", "interruptions during one image", count),
        panel("how long", Kind::Lines, length, "interruptions", histogram),
    ])
}

/// How many times are up to each power of two.
fn histogram(times: &[f64]) -> Vec<Point> {
    let bucket = |limit: f64| {
        let within = times.iter().filter(|&&time| time <= limit && time > limit / 2.0);
        Point::single(limit, within.count() as f64)
    };
    let powers = (-3..=12).map(|power| bucket(f64::from(power).exp2()));
    let used = |point: &Point| point.y > 0.0;
    let points: Vec<Point> = powers.collect();
    let first = points.iter().position(used).unwrap_or(0);
    let last = points.iter().rposition(used).unwrap_or(0);
    if times.is_empty() { Vec::new() } else { points[first..=last].to_vec() }
}

fn interruptions_of<A: Algorithm>(words: usize) -> Result<Vec<f64>> {
    let options = Options::words(words).prefault(true);
    let state = A::create(&options)?;
    let mut engine = Engine::new(state)?;
    Cores::choose(1, 0).enter_writer();
    let sink = Paced { started: Instant::now() };
    let begun = engine
        .snapshot(Consistency::declare(), sink, |_, report| Publication::from_result(&report));
    begun?;
    let progress = engine.progress();
    let (mut rng, mut seen, mut times) = (Rng(1), 0, Vec::new());
    let value = [7; VALUE_WORDS];
    let mut due = Instant::now();
    while engine.running() {
        let slot = rng.below((words / VALUE_WORDS) as u64) as usize;
        let took = timed_us(|| engine.write_run(slot * VALUE_WORDS, &value));
        let count = progress.interruptions();
        if count != seen {
            times.push(took);
            seen = count;
        }
        // A sleep would take longer. A late writer does not catch up: that would be a burst.
        due = (due + BETWEEN_WRITES).max(Instant::now());
        while Instant::now() < due {
            std::hint::spin_loop();
        }
    }
    engine.wait();
    Ok(times)
}

/// Looks at words no faster than a disk would take them.
struct Paced {
    started: Instant,
}

impl Sink for Paced {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        black_box(words);
        let due = Duration::from_secs_f64((start * 8) as f64 / IMAGE_BYTES_PER_S);
        let early = due.saturating_sub(self.started.elapsed());
        if early > Duration::from_millis(1) {
            thread::sleep(early);
        }
        Ok(())
    }
}

/// Titles of the panels of [`bandwidth`].
pub(super) const READING: &str = "memory bandwidth, reading";
pub(super) const MEMCPY: &str = "copied by memcpy";

/// What reading memory reaches, and how much memcpy copies, by number of threads.
pub(super) fn bandwidth(size: Size) -> Result<Vec<Panel>> {
    let bytes =
        size.pick(512 << 20, 2048 << 20, 2048 << 20) / usize::try_from(size.shrink).unwrap_or(1);
    let memory: Vec<u64> = vec![1; bytes / 8];
    let cores = allowed_cores().len().max(1);
    let counts = [1, 2, 4, 8, 16].into_iter().filter(|&threads| threads <= cores);
    let counts: Vec<usize> = counts.collect();
    let panel = |title: &str, rate: &mut dyn FnMut(usize) -> f64| {
        let series = counts.iter().enumerate().map(|(index, &threads)| {
            let rates: Vec<f64> = (0..3).map(|_| rate(threads)).collect();
            let name =
                if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
            let points = Point::from_values(threads as f64, &rates).into_iter().collect();
            Series::numbered(index, &name, points)
        });
        Panel::new(title, Kind::Rows, "", &format!("{title} [GB/s]"), series.collect())
    };
    let mut copy: Vec<u64> = vec![2; bytes / 8];
    Ok(vec![
        panel(READING, &mut |threads| read_gb_per_s(&memory, threads)),
        panel(MEMCPY, &mut |threads| copied_gb_per_s(&memory, &mut copy, threads)),
    ])
}

/// By the C library's memcpy, which a copy of plain slices is.
fn copied_gb_per_s(from: &[u64], to: &mut [u64], threads: usize) -> f64 {
    let part = from.len().div_ceil(threads).max(1);
    let started = Instant::now();
    thread::scope(|scope| {
        for (from, to) in from.chunks(part).zip(to.chunks_mut(part)) {
            scope.spawn(move || black_box(to).copy_from_slice(black_box(from)));
        }
    });
    size_of_val(from) as f64 / 1e9 / started.elapsed().as_secs_f64()
}

fn read_gb_per_s(memory: &[u64], threads: usize) -> f64 {
    let started = Instant::now();
    thread::scope(|scope| {
        for part in memory.chunks(memory.len().div_ceil(threads).max(1)) {
            scope.spawn(move || black_box(part.iter().fold(0, |sum, &word| sum ^ word)));
        }
    });
    std::mem::size_of_val(memory) as f64 / 1e9 / started.elapsed().as_secs_f64()
}

/// Runs on a thread of its own.
pub(super) fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    thread::spawn(work).join().unwrap_or_else(|_| bail!("a measurement panicked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: Size = Size { shrink: 100, ..Size::QUICK };

    #[test]
    fn first_writes_are_timed_for_each_kind_of_page() {
        let panels = first_writes(TINY).expect("fork works here");
        let names: Vec<_> = panels[0].series.iter().map(|series| &*series.name).collect();
        assert!(names.contains(&FIRST_SMALL) && names.contains(&SECOND));
        assert!(panels[0].series.iter().all(|series| series.points[0].y > 0.0));
    }

    #[test]
    fn the_writer_of_a_model_is_interrupted() {
        let panels = interruptions(TINY).expect("the models run anywhere");
        assert_eq!(panels[0].series[0].name, "odf");
        assert!(panels[0].series[0].points[0].y >= 1.0, "no table was copied");
    }

    #[test]
    fn a_histogram_counts_every_time() {
        let points = histogram(&[0.9, 1.0, 3.0, 40.0]);
        assert_eq!(points.iter().map(|point| point.y).sum::<f64>(), 4.0);
        assert_eq!((points[0].x, points[points.len() - 1].x), (1.0, 64.0));
    }

    #[test]
    fn memory_is_read_and_copied() {
        let panels = bandwidth(TINY).expect("it cannot fail");
        assert_eq!(panels.iter().map(|panel| &*panel.title).collect::<Vec<_>>(), [READING, MEMCPY]);
        assert!(panels.iter().all(|panel| panel.series[0].points[0].y > 0.0));
        let (from, mut to) = ([1; 9], [0; 9]);
        assert!(copied_gb_per_s(&from, &mut to, 2) > 0.0);
        assert_eq!(to, from);
    }
}
