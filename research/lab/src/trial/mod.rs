//! One round of one case, in this process.
//!
//! ```text
//!   make the state | base image | timed ticks ................ | memory image | verify
//!                    untimed      begin | capture | begin | ..   untimed        state freed
//! ```
//! A tick: [stage: begin if one is due, then the updates] then, outside the stage: reads are
//! probed, the updates of the next tick are made, idle until the tick is over. `begin` opens the
//! stage: the state is that at the end of the tick before, and the first updates meet the fresh
//! image.
//!
//! The base image makes incremental algorithms start alike: each later image is an increment. A
//! case that times the first image has none.

pub(crate) mod alone;
pub(crate) mod capture;
pub(crate) mod digest;
pub(crate) mod oracle;
mod reads;
pub(crate) mod subject;

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::case::record::{BeginUs, Latency, Record, quantile};
use crate::case::workload::{Tick, Ticks, value};
use crate::case::{Case, Verify};
use crate::machine::cores::Cores;
use crate::machine::memory;
use crate::trial::capture::Depot;
use crate::trial::digest::digests_of;
use crate::trial::oracle::Taken;
use crate::trial::reads::Reads;
use crate::trial::subject::{State, Subject};

use stillframe::{BLOCK_WORDS, Info, Unit};

/// Updates between two slices for an algorithm that needs the writer's thread.
const UPDATES_PER_SLICE: usize = 256;

/// Runs a case and verifies its images.
pub(crate) fn run<S: Subject>(case: &Case) -> Result<Record> {
    let mut trial = Trial::<S>::start(case)?;
    if !case.first {
        trial.base_image()?;
    }
    trial.timed_ticks()?;
    let memory_peak_bytes = trial.memory_image()?;
    trial.finish(memory_peak_bytes)
}

struct Trial<'a, S> {
    case: &'a Case,
    cores: Cores,
    subject: S,
    ticks: Ticks,
    depot: Depot,
    reads: Reads,
    /// When the next tick is due.
    due: Instant,
    /// The image under way: its tick, and when it was begun.
    held: Option<(u64, Instant)>,
    taken: Vec<Taken>,
    log: Log,
    memory_before: u64,
    memory_base: u64,
}

/// The figures of the timed ticks.
#[derive(Default)]
struct Log {
    timed: bool,
    /// Global number of the first timed tick.
    first_tick: u64,
    stages_ms: Vec<f64>,
    captures_ms: Vec<f64>,
    begins_us: Vec<f64>,
    images_s: Vec<f64>,
    image_ticks: Vec<(u32, u32)>,
    last_begin: Option<Instant>,
    held_up: HeldUp,
}

/// How often the writer was held up.
#[derive(Debug, Clone, Copy, Default)]
struct HeldUp {
    waits: u64,
    interruptions: u64,
}

impl HeldUp {
    fn since(self, before: Self) -> Self {
        Self {
            waits: self.waits - before.waits,
            interruptions: self.interruptions - before.interruptions,
        }
    }
}

impl<'a, S: Subject> Trial<'a, S> {
    fn start(case: &'a Case) -> Result<Self> {
        let cores = Cores::choose(case.threads, case.cores);
        cores.share();
        let ticks = Ticks::new(case);
        let depot = Depot::new(case, S::INFO, cores)?;
        let reads = Reads::new(case);
        let memory_before = memory::proportional_bytes();
        // Before this thread is pinned: threads that the algorithm starts run where they can.
        let mut subject = S::create(case)?;
        cores.enter_writer();
        let mut block = [0; BLOCK_WORDS];
        for start in (0..case.words()).step_by(BLOCK_WORDS) {
            let length = BLOCK_WORDS.min(case.words() - start);
            for (offset, word) in block[..length].iter_mut().enumerate() {
                *word = ticks.initial((start + offset) as u64);
            }
            subject.state_mut().write_run(start, &block[..length]);
        }
        let memory_base = memory::proportional_bytes().saturating_sub(memory_before);
        Ok(Self {
            case,
            cores,
            subject,
            ticks,
            depot,
            reads,
            due: Instant::now(),
            held: None,
            taken: Vec::new(),
            log: Log::default(),
            memory_before,
            memory_base,
        })
    }

    /// The image that every later one builds on, at full speed.
    fn base_image(&mut self) -> Result<()> {
        self.tick(S::INFO.map(|_| Begin { paced: false }))?;
        self.until_idle()
    }

    fn timed_ticks(&mut self) -> Result<()> {
        self.log.timed = true;
        self.log.first_tick = self.ticks.number();
        let before = self.held_up();
        let lead = (self.case.ticks / 10).min(20);
        let interval = Duration::from_millis(self.case.interval_ms);
        for number in 0..self.case.ticks {
            let wanted = match self.case.checkpoints {
                0 => true,
                most => self.log.begins_us.len() < most as usize,
            };
            let rested = self.log.last_begin.is_none_or(|last| last.elapsed() >= interval);
            let due = S::INFO.is_some() && number >= lead && wanted && rested;
            self.tick(due.then_some(Begin { paced: true }))?;
        }
        self.log.timed = false;
        let after = self.held_up();
        self.log.held_up = after.since(before);
        self.until_idle()
    }

    /// How often the writer was held up so far.
    fn held_up(&self) -> HeldUp {
        self.subject.progress().map_or_else(HeldUp::default, |progress| HeldUp {
            waits: progress.writer_waits(),
            interruptions: progress.interruptions(),
        })
    }

    /// One more image, during which memory is measured. Returns the most that was seen.
    fn memory_image(&mut self) -> Result<u64> {
        let Some(progress) = self.subject.progress().filter(|_| self.case.memory) else {
            return Ok(self.memory_base);
        };
        let stop = AtomicBool::new(false);
        let cores = self.cores;
        let peak = thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                cores.enter_snapshotter();
                memory::watch(&progress, &stop)
            });
            let outcome = self.tick(Some(Begin { paced: true })).and_then(|()| self.until_idle());
            stop.store(true, Ordering::Release);
            let peak = watcher.join().unwrap_or_default();
            outcome.map(|()| peak.max(memory::proportional_bytes()))
        })?;
        let kept: usize = self.taken.iter().map(|image| image.digests.len() * 8).sum();
        Ok(peak.saturating_sub(self.memory_before + kept as u64).max(self.memory_base))
    }

    fn until_idle(&mut self) -> Result<()> {
        while self.held.is_some() {
            self.tick(None)?;
        }
        Ok(())
    }

    /// One tick; begins an image if one is due and the last one has ended.
    fn tick(&mut self, begin: Option<Begin>) -> Result<()> {
        if self.held.is_some() && !self.subject.running() {
            self.collect()?;
        }
        let is_held = self.held.is_some();
        let begin = begin.filter(|_| !is_held);
        let sink = begin.map(|begin| self.depot.sink(begin.paced)).transpose()?;
        let started = Instant::now();
        if let Some(sink) = sink {
            let took = self.subject.begin_image(sink, &self.depot)?;
            self.held = Some((self.ticks.number(), started));
            self.log.begun(started, took);
        }
        black_box(stage(self.subject.state_mut(), self.case, self.ticks.tick()));
        let stage = started.elapsed();
        self.log.stage(stage, is_held || begin.is_some() || S::INFO.is_none());
        if self.log.timed {
            self.reads.probe(self.subject.state(), self.subject.running() || S::INFO.is_none());
        }
        let state = self.subject.state_mut();
        self.ticks.advance(|| {
            if S::State::IS_TENDED {
                state.tend();
            }
        });
        self.idle();
        Ok(())
    }

    /// Until the tick is over. A tick that was late moves those after it.
    fn idle(&mut self) {
        self.due += Duration::from_millis(self.case.tick_ms);
        let now = Instant::now();
        self.due = self.due.max(now);
        if !S::State::IS_TENDED {
            return thread::sleep(self.due - now);
        }
        while let Some(rest) = self.due.checked_duration_since(Instant::now()) {
            if !self.subject.state_mut().tend() {
                thread::sleep(rest.min(Duration::from_micros(100)));
            }
        }
    }

    /// Keeps the outcome of the image that has just ended.
    fn collect(&mut self) -> Result<()> {
        let Some((tick, begun)) = self.held.take() else { return Ok(()) };
        let ended = self.depot.collect();
        let (outcome, digests) = ended.context("an image ended without its publication")?;
        outcome.result.context("an image failed")?;
        let timed = self.log.last_begin == Some(begun);
        if timed {
            self.log.images_s.push((outcome.done - begun).as_secs_f64());
            let tick_of = |tick: u64| u32::try_from(tick - self.log.first_tick).unwrap_or(u32::MAX);
            let ticks = (tick_of(tick), tick_of(self.ticks.number()));
            self.log.image_ticks.push(ticks);
        }
        self.taken.push(Taken { tick, timed, digests });
        Ok(())
    }

    /// Frees the algorithm and verifies.
    fn finish(self, memory_peak_bytes: u64) -> Result<Record> {
        let Self { case, cores, subject, ticks, depot, reads, taken, log, memory_base, .. } = self;
        let unit = S::INFO.map_or(Unit::Word, |info: Info| info.unit(case.unit));
        let live =
            (case.verify != Verify::Off).then(|| live_state(case, subject.state(), ticks.number()));
        drop(subject);
        drop(depot);
        let findings = oracle::verify(case, unit, &taken, live);
        let total_s = log.stages_ms.iter().sum::<f64>() / 1e3;
        let updates = case.updates_per_tick.saturating_mul(case.ticks);
        let mut record = Record {
            throughput_updates_per_s: updates as f64 / total_s.max(1e-9),
            read_ns: median(reads.held_ns),
            read_idle_ns: median(reads.idle_ns),
            memory_base_bytes: memory_base,
            memory_peak_bytes,
            verified_images: findings.verified_images,
            mismatched_words: findings.mismatched_words,
            unit: unit.name().to_owned(),
            units_per_period: findings.units_per_period,
            pages_per_period: findings.pages_per_period,
            pinned: cores.are_pinned(),
            ticks_run: ticks.number(),
            ..Record::new(case)
        };
        log.note_in(&mut record);
        Ok(record)
    }
}

/// How an image is begun.
#[derive(Clone, Copy)]
struct Begin {
    /// Held to the disk rate.
    paced: bool,
}

impl Log {
    fn begun(&mut self, started: Instant, took: Duration) {
        if self.timed {
            self.begins_us.push(took.as_secs_f64() * 1e6);
            self.last_begin = Some(started);
        }
    }
    fn stage(&mut self, stage: Duration, captured: bool) {
        if self.timed {
            let stage_ms = stage.as_secs_f64() * 1e3;
            self.stages_ms.push(stage_ms);
            if captured {
                self.captures_ms.push(stage_ms);
            }
        }
    }
    fn note_in(self, record: &mut Record) {
        record.tick_latency_ms = Latency::from_values(&self.stages_ms);
        record.tick_latency_capture_ms = Latency::from_values(&self.captures_ms);
        record.capture_ticks = self.captures_ms.len() as u64;
        record.begin_us = (!self.begins_us.is_empty()).then(|| {
            let max = self.begins_us.iter().copied().fold(0.0, f64::max);
            BeginUs { p50: median(self.begins_us), max }
        });
        record.images = u32::try_from(self.images_s.len()).unwrap_or(u32::MAX);
        record.images_s = self.images_s.iter().map(|&seconds| seconds as f32).collect();
        record.image_s = (!self.images_s.is_empty()).then(|| median(self.images_s));
        record.image_ticks = self.image_ticks;
        record.writer_waits = self.held_up.waits;
        record.interruptions = self.held_up.interruptions;
        let trace = || self.stages_ms.iter().map(|&stage_ms| stage_ms as f32).collect();
        record.trace_ms = record.case.trace.then(trace);
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

/// The state as reads give it at the end, as an image.
fn live_state<S: State>(case: &Case, state: &S, tick: u64) -> Taken {
    let digests = digests_of(case.words(), |index| state.read(index));
    Taken { tick, timed: false, digests }
}

/// The updates of one tick, with the reads between them or announced ahead: what is timed.
pub(crate) fn stage<S: State>(state: &mut S, case: &Case, tick: &Tick) -> u64 {
    if case.batch > 0 {
        apply_batches(state, tick, case.batch as usize)
    } else if case.item_bytes == 4 {
        let write = |state: &mut S, item, value: u64| state.write_u32(item, (value >> 32) as u32);
        apply(state, tick, case, write, |state, item| u64::from(state.read_u32(item)))
    } else {
        apply(state, tick, case, S::write, S::read)
    }
}

/// The updates in batches; making up the batches is timed with them.
fn apply_batches<S: State>(state: &mut S, tick: &Tick, length: usize) -> u64 {
    let mut writes = Vec::with_capacity(length);
    let mut number = 0;
    for batch in tick.updates.chunks(length) {
        writes.clear();
        writes.extend(
            batch
                .iter()
                .zip(number..)
                .map(|(&item, number)| (item as usize, value(tick.key, number))),
        );
        number += batch.len() as u64;
        state.write_many(&writes);
        if S::IS_TENDED {
            state.tend();
        }
    }
    0
}

#[inline]
fn apply<S: State>(
    state: &mut S,
    tick: &Tick,
    case: &Case,
    write: impl Fn(&mut S, usize, u64),
    read: impl Fn(&S, usize) -> u64,
) -> u64 {
    let (mut number, mut seen, mut owed) = (0, 0, 0.0);
    let mut reads = tick.reads.iter();
    let (ahead, to_word) = (case.ahead as usize, u32::from(case.item_bytes == 4));
    for (slice, updates) in tick.updates.chunks(UPDATES_PER_SLICE).enumerate() {
        if ahead > 0 {
            let rest = &tick.updates[slice * UPDATES_PER_SLICE..];
            for (place, &item) in updates.iter().enumerate() {
                if let Some(&next) = rest.get(place + ahead) {
                    state.approach(next as usize >> to_word);
                }
                write(state, item as usize, value(tick.key, number));
                number += 1;
            }
        } else if tick.reads.is_empty() {
            for &item in updates {
                write(state, item as usize, value(tick.key, number));
                number += 1;
            }
        } else {
            for &item in updates {
                write(state, item as usize, value(tick.key, number));
                number += 1;
                owed += case.reads_per_update;
                while owed >= 1.0 {
                    owed -= 1.0;
                    seen ^= reads.next().map_or(0, |&item| read(state, item as usize));
                }
            }
        }
        if S::IS_TENDED {
            state.tend();
        }
    }
    seen
}
