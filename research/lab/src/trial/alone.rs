//! The writer of a case, alone: it begins an image of which nothing is read, runs its ticks, and
//! ends. Nothing waits and nothing depends on chance, so two runs that differ in their ticks differ
//! in what these execute, to the instruction.

use std::mem::ManuallyDrop;

use anyhow::Result;
use stillframe::algorithms::Visitor;
use stillframe::{Algorithm, Engine, Point, Sink, SinkError};

use crate::case::Case;
use crate::case::check::dispatch;
use crate::case::workload::Ticks;
use crate::trial::stage;
use crate::trial::subject::{Floor, State, Subject, options};

/// Runs a case so.
pub(crate) fn run(case: &Case) -> Result<()> {
    if case.is_floor() {
        return write(&mut Floor::create(case)?, case);
    }
    dispatch(&case.algorithm, Writer { case })
}

struct Writer<'a> {
    case: &'a Case,
}

impl Visitor for Writer<'_> {
    type Output = Result<()>;

    fn visit<A: Algorithm>(self) -> Self::Output {
        let algorithm = A::create(&options(self.case))?;
        let mut state = Engine::new(algorithm)?;
        let image = state.begin(Point::declare(), Nowhere)?;
        // Held to the end of the process: dropping the image would copy all remaining blocks.
        let _held = ManuallyDrop::new(image);
        write(&mut state, self.case)
    }
}

fn write(state: &mut impl State, case: &Case) -> Result<()> {
    let mut ticks = Ticks::new(case);
    for _ in 0..case.ticks {
        stage(state, case, ticks.tick());
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
