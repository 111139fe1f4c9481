//! The writer of a case, alone: it begins an image of which nothing is read, runs its ticks, and
//! ends. Nothing waits and nothing depends on chance, so two runs that differ in their ticks differ
//! in what these execute, to the instruction.

use std::mem::ManuallyDrop;
use std::time::Duration;

use stillframe::algorithms::{Visitor, dispatch};
use stillframe::{Algorithm, Info, Point, Progress, Sink, SinkError};

use crate::capture::{Depot, LabSink};
use crate::case::Case;
use crate::subject::{Floor, Subject, options};
use crate::trial::stage;
use crate::workload::Ticks;

/// Runs a case so.
pub(crate) fn run(case: &Case) -> Result<(), String> {
    if case.is_floor() {
        return write(&mut Floor::create(case)?, case);
    }
    dispatch(&case.algorithm, Writer { case })
        .unwrap_or_else(|| Err(format!("there is no algorithm '{}'", case.algorithm)))
}

struct Writer<'a> {
    case: &'a Case,
}

impl Visitor for Writer<'_> {
    type Output = Result<(), String>;

    fn visit<A: Algorithm>(self) -> Self::Output {
        let mut alone = Alone::<A>::create(self.case)?;
        let image = alone.0.begin(Point::declare(), Nowhere).map_err(|error| error.to_string())?;
        // Held to the end of the process: dropping it would copy what the writer has not.
        let _held = ManuallyDrop::new(image);
        write(&mut alone, self.case)
    }
}

fn write<S: Subject>(subject: &mut S, case: &Case) -> Result<(), String> {
    let mut ticks = Ticks::new(case);
    for _ in 0..case.ticks {
        stage(subject, case, ticks.tick());
        ticks.advance(|| ());
    }
    Ok(())
}

/// Takes nothing.
struct Nowhere;

impl Sink for Nowhere {
    fn push(&mut self, _: usize, _: &[u64]) -> Result<(), SinkError> {
        Ok(())
    }
}

/// An algorithm without a snapshotter.
struct Alone<A: Algorithm>(A);

impl<A: Algorithm> Subject for Alone<A> {
    const INFO: Option<Info> = None;

    fn create(case: &Case) -> Result<Self, String> {
        A::create(&options(case)).map(Self).map_err(|error| error.to_string())
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
        self.0.read_u32(index)
    }
    #[inline]
    fn write_u32(&mut self, index: usize, value: u32) {
        self.0.write_u32(index, value);
    }
    fn write_run(&mut self, start: usize, values: &[u64]) {
        values.iter().enumerate().for_each(|(offset, &value)| self.0.write(start + offset, value));
    }
    #[inline]
    fn approach(&self, index: usize) {
        self.0.approach(index);
    }
    fn tend(&mut self) -> bool {
        false
    }
    fn begin(&mut self, _: LabSink, _: &Depot) -> Result<Duration, String> {
        Err("the image of a writer alone is begun once".to_owned())
    }
    fn progress(&self) -> Option<Progress> {
        None
    }
}
