//! The subject of a measurement: an algorithm in its engine, or plain memory.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use stillframe::{Algorithm, Engine, Info, OnFull, Options, PlainWords, Point, Progress};

use crate::case::Case;
use crate::trial::capture::{Depot, LabSink};

/// Memory that a run reads and writes: all that a stage needs.
pub(crate) trait State {
    /// Whether the algorithm needs slices of the writer's time.
    const IS_TENDED: bool;
    fn read(&self, index: usize) -> u64;
    fn write(&mut self, index: usize, value: u64);
    fn read_u32(&self, index: usize) -> u32;
    fn write_u32(&mut self, index: usize, value: u32);
    fn write_run(&mut self, start: usize, values: &[u64]);
    fn write_many(&mut self, writes: &[(usize, u64)]);
    /// Word `index` will be written soon.
    fn approach(&self, index: usize);
    fn tend(&mut self) -> bool;
}

/// A state with its images, if it can have any.
pub(crate) trait Subject: Sized {
    /// The registry's line; none for plain memory.
    const INFO: Option<Info>;
    type State: State;
    fn create(case: &Case) -> Result<Self>;
    fn state(&self) -> &Self::State;
    fn state_mut(&mut self) -> &mut Self::State;
    /// Begins an image and returns how long that took.
    fn begin_image(&mut self, sink: LabSink, depot: &Depot) -> Result<Duration>;
    /// The progress of the image under way.
    fn progress(&self) -> Option<Progress>;

    /// Whether an image is held.
    fn running(&self) -> bool {
        self.progress().is_some_and(|progress| progress.running())
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

impl<A: Algorithm> State for Engine<A> {
    const IS_TENDED: bool = A::INFO.tended;

    #[inline]
    fn read(&self, index: usize) -> u64 {
        Engine::read(self, index)
    }
    #[inline]
    fn write(&mut self, index: usize, value: u64) {
        Engine::write(self, index, value);
    }
    #[inline]
    fn read_u32(&self, index: usize) -> u32 {
        self.algorithm().read_u32(index)
    }
    #[inline]
    fn write_u32(&mut self, index: usize, value: u32) {
        Engine::write_u32(self, index, value);
    }
    fn write_run(&mut self, start: usize, values: &[u64]) {
        Engine::write_run(self, start, values);
    }
    fn write_many(&mut self, writes: &[(usize, u64)]) {
        Engine::write_many(self, writes);
    }
    #[inline]
    fn approach(&self, index: usize) {
        self.algorithm().approach(index);
    }
    #[inline]
    fn tend(&mut self) -> bool {
        Engine::tend(self)
    }
}

/// Writes of a batch whose words are asked for before the first of them is stored.
const GROUP: usize = 256;

/// Plain memory: the floor. Items of four bytes are stored as such.
#[derive(Debug)]
pub(crate) struct Floor(PlainWords);

impl State for Floor {
    const IS_TENDED: bool = false;

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
        self.0.load_u32(index)
    }
    #[inline]
    fn write_u32(&mut self, index: usize, value: u32) {
        self.0.store_u32(index, value);
    }
    fn write_run(&mut self, start: usize, values: &[u64]) {
        self.0.store_run(start, values);
    }
    /// The quickest that was found: all words of a group are asked for first, as by algorithms.
    fn write_many(&mut self, writes: &[(usize, u64)]) {
        for group in writes.chunks(GROUP) {
            group.iter().for_each(|(index, _)| self.0.prefetch(*index));
            group.iter().for_each(|&(index, value)| self.0.store(index, value));
        }
    }
    #[inline]
    fn approach(&self, index: usize) {
        self.0.prefetch(index);
    }
    fn tend(&mut self) -> bool {
        false
    }
}

impl Subject for Floor {
    const INFO: Option<Info> = None;
    type State = Self;

    fn create(case: &Case) -> Result<Self> {
        Ok(Self(PlainWords::create(&options(case))?))
    }
    #[inline]
    fn state(&self) -> &Self {
        self
    }
    #[inline]
    fn state_mut(&mut self) -> &mut Self {
        self
    }
    fn begin_image(&mut self, _sink: LabSink, _depot: &Depot) -> Result<Duration> {
        bail!("plain memory has no images")
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
    type State = Engine<A>;

    fn create(case: &Case) -> Result<Self> {
        let algorithm = A::create(&options(case))?;
        Engine::new(algorithm).map(Self).context("starting the snapshotter failed")
    }
    #[inline]
    fn state(&self) -> &Engine<A> {
        &self.0
    }
    #[inline]
    fn state_mut(&mut self) -> &mut Engine<A> {
        &mut self.0
    }
    fn begin_image(&mut self, sink: LabSink, depot: &Depot) -> Result<Duration> {
        Ok(self.0.snapshot(Point::declare(), sink, depot.publisher())?.begin)
    }
    fn progress(&self) -> Option<Progress> {
        Some(self.0.progress())
    }
}
