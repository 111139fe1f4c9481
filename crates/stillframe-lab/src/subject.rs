//! What is measured: an algorithm in its engine, or plain memory.

use std::time::Duration;

use stillframe::{Algorithm, Engine, Info, OnFull, Options, Point, Progress, Words};

use crate::capture::{Depot, LabSink};
use crate::case::Case;

/// Words that a run reads and writes, and takes images of if it can.
pub(crate) trait Subject: Sized {
    /// The registry's line; none for plain memory.
    const INFO: Option<Info>;
    fn create(case: &Case) -> Result<Self, String>;
    fn read(&self, index: usize) -> u64;
    fn write(&mut self, index: usize, value: u64);
    fn read_u32(&self, index: usize) -> u32;
    fn write_u32(&mut self, index: usize, value: u32);
    fn write_run(&mut self, start: usize, values: &[u64]);
    /// Word `index` will be written soon.
    fn approach(&self, index: usize);
    fn tend(&mut self) -> bool;
    /// Begins an image and returns how long that took.
    fn begin(&mut self, sink: LabSink, depot: &Depot) -> Result<Duration, String>;
    /// Of the image under way.
    fn progress(&self) -> Option<Progress>;

    /// Whether an image is held.
    fn running(&self) -> bool {
        self.progress().is_some_and(|progress| progress.running())
    }
    /// Whether it needs slices of the writer's time.
    #[inline]
    fn is_tended() -> bool {
        Self::INFO.is_some_and(|info| info.tended)
    }
}

pub(crate) fn options(case: &Case) -> Options {
    Options::words(case.words())
        .huge_pages(case.huge_pages)
        .prefault(true)
        .unit(case.unit)
        .threads(case.threads)
        .budget(case.budget(), OnFull::Slow)
}

/// Plain memory: the floor. Half words are replaced as an algorithm without a unit does it.
#[derive(Debug)]
pub(crate) struct Floor(Words);

impl Subject for Floor {
    const INFO: Option<Info> = None;

    fn create(case: &Case) -> Result<Self, String> {
        Words::create(&options(case)).map(Self).map_err(|error| error.to_string())
    }
    #[inline]
    fn read(&self, index: usize) -> u64 {
        self.0.load(index)
    }
    #[inline]
    fn write(&mut self, index: usize, value: u64) {
        self.0.store(index, value);
    }
    #[inline]
    fn read_u32(&self, index: usize) -> u32 {
        (self.0.load(index / 2) >> (32 * (index % 2))) as u32
    }
    #[inline]
    fn write_u32(&mut self, index: usize, value: u32) {
        let shift = 32 * (index % 2);
        let kept = self.0.load(index / 2) & !(u64::from(u32::MAX) << shift);
        self.0.store(index / 2, kept | u64::from(value) << shift);
    }
    fn write_run(&mut self, start: usize, values: &[u64]) {
        values.iter().enumerate().for_each(|(offset, &value)| self.0.store(start + offset, value));
    }
    #[inline]
    fn approach(&self, index: usize) {
        self.0.prefetch(index);
    }
    fn tend(&mut self) -> bool {
        false
    }
    fn begin(&mut self, _sink: LabSink, _depot: &Depot) -> Result<Duration, String> {
        Err("plain memory has no images".to_owned())
    }
    fn progress(&self) -> Option<Progress> {
        None
    }
}

/// An algorithm with its snapshotter thread.
#[derive(Debug)]
pub(crate) struct Snapshotted<A: Algorithm>(Engine<A>);

impl<A: Algorithm> Subject for Snapshotted<A> {
    const INFO: Option<Info> = Some(A::INFO);

    fn create(case: &Case) -> Result<Self, String> {
        let algorithm = A::create(&options(case)).map_err(|error| error.to_string())?;
        let engine = Engine::new(algorithm);
        engine.map(Self).map_err(|error| format!("starting the snapshotter failed: {error}"))
    }
    #[inline]
    fn read(&self, index: usize) -> u64 {
        self.0.read(index)
    }
    #[inline]
    fn write(&mut self, index: usize, value: u64) {
        self.0.write(index, value);
    }
    #[inline]
    fn read_u32(&self, index: usize) -> u32 {
        self.0.algorithm().read_u32(index)
    }
    #[inline]
    fn write_u32(&mut self, index: usize, value: u32) {
        self.0.algorithm_mut().write_u32(index, value);
    }
    fn write_run(&mut self, start: usize, values: &[u64]) {
        self.0.write_run(start, values);
    }
    #[inline]
    fn approach(&self, index: usize) {
        self.0.algorithm().approach(index);
    }
    #[inline]
    fn tend(&mut self) -> bool {
        self.0.tend()
    }
    fn begin(&mut self, sink: LabSink, depot: &Depot) -> Result<Duration, String> {
        let begun = self.0.snapshot(Point::declare(), sink, depot.publisher());
        begun.map(|begun| begun.begin).map_err(|error| error.to_string())
    }
    fn progress(&self) -> Option<Progress> {
        Some(self.0.progress())
    }
}
