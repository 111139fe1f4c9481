//! The thread around an algorithm: it survives whatever sinks and publishers do.

use std::sync::mpsc;

use crate::{Algorithm, BLOCK_WORDS, CaptureError, CaptureReport, Engine, Point, Publication};

use super::probe::{Manner, Probe, Settled, Tally};
use super::rig::{Rig, Rng};
use super::{Verdict, ensure, rounds};
use crate::os::Shared;
use crate::sync::Backoff;

type Report = Result<CaptureReport, CaptureError>;

struct EngineRig<A: Algorithm> {
    engine: Engine<A>,
    oracle: Vec<u64>,
    settled: Settled,
    rng: Rng,
}

impl<A: Algorithm> EngineRig<A> {
    fn new(words: usize, seed: u64) -> Result<Self, String> {
        let Rig { state, oracle, settled, rng } = Rig::<A>::new(words, seed)?;
        let engine = Engine::new(state).map_err(|error| error.to_string())?;
        Ok(Self { engine, oracle, settled, rng })
    }

    fn writes(&mut self, count: usize) {
        for _ in 0..count {
            let (index, value) = (self.rng.below(self.oracle.len()), self.rng.next());
            self.engine.write(index, value);
            self.oracle[index] = value;
        }
    }

    fn probe(&self, manner: Manner) -> Result<(Probe, Shared<Tally>), String> {
        let tally = Shared::new(Tally::default()).map_err(|error| error.to_string())?;
        let (expected, settled) = (self.oracle.clone(), self.settled.clone());
        Ok((Probe { expected, settled, tally: tally.clone(), manner }, tally))
    }

    /// Starts an image; its report comes through the channel, then `after` runs.
    fn snapshot(
        &mut self,
        manner: Manner,
        after: impl FnOnce() + Send + 'static,
    ) -> Result<(mpsc::Receiver<Report>, Shared<Tally>), String> {
        let (probe, tally) = self.probe(manner)?;
        let (sender, receiver) = mpsc::channel();
        let publish = move |probe: &mut Probe, report| {
            let publication = Publication::from_result(&report);
            if publication == Publication::Durable {
                probe.settle();
            }
            let _ = sender.send(report);
            after();
            publication
        };
        let begun = self.engine.snapshot(Point::declare(), probe, publish);
        begun.map_err(|error| error.to_string())?;
        Ok((receiver, tally))
    }

    /// What the snapshotter's thread reports, while the writer's thread does its slices.
    fn receive<T>(&mut self, receiver: &mpsc::Receiver<T>) -> Result<T, String> {
        let mut backoff = Backoff::default();
        loop {
            match receiver.try_recv() {
                Ok(message) => return Ok(message),
                Err(mpsc::TryRecvError::Disconnected) => return Err("nothing was published".into()),
                Err(mpsc::TryRecvError::Empty) if self.engine.tend() => {}
                Err(mpsc::TryRecvError::Empty) => backoff.wait(),
            }
        }
    }

    fn image(&mut self) -> Verdict {
        let (receiver, tally) = self.snapshot(Manner::Plain, || ())?;
        self.writes(50);
        let report = self.receive(&receiver)?.map_err(|error| error.to_string())?;
        ensure!(report.words == self.oracle.len(), "{} words", report.words);
        self.engine.wait();
        ensure!(!self.engine.running(), "an image runs after the wait for its end");
        tally.is_whole(self.oracle.len())
    }
}

/// Image after image, each published once, each held until it is.
pub(super) fn images_in_a_row<A: Algorithm>(seed: u64) -> Verdict {
    let mut rig = EngineRig::<A>::new(5 * BLOCK_WORDS, seed)?;
    for _ in 0..rounds(50) {
        rig.image()?;
    }
    // Held while it is published.
    let (enter, entered) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    rig.snapshot(Manner::Plain, move || {
        let _ = enter.send(());
        let _ = left.recv();
    })?;
    rig.receive(&entered)?;
    ensure!(rig.engine.running(), "an image ended before it was published");
    let (probe, _) = rig.probe(Manner::Plain)?;
    let second = rig.engine.snapshot(Point::declare(), probe, |_, _| Publication::Failed);
    ensure!(second.is_err(), "a second image began while the first was published");
    drop(leave);
    rig.engine.wait();
    rig.image()
}

/// A panic whose payload panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new(()));
    }
}

/// Sinks that fail or panic, publishers that panic: the next image is right.
pub(super) fn bad_sinks_and_publishers<A: Algorithm>(seed: u64) -> Verdict {
    let mut rig = EngineRig::<A>::new(2 * BLOCK_WORDS + 1, seed)?;
    for round in 0..6 {
        let manner = [Manner::FailsAt(1), Manner::PanicsAt(BLOCK_WORDS), Manner::Plain][round % 3];
        let (receiver, _) = rig.snapshot(manner, move || {
            if round >= 3 {
                std::panic::resume_unwind(Box::new(Bomb));
            }
        })?;
        rig.writes(10);
        let report = rig.receive(&receiver)?;
        let right = match manner {
            Manner::FailsAt(_) => matches!(report, Err(CaptureError::Sink(_))),
            Manner::PanicsAt(_) => matches!(report, Err(CaptureError::Panicked)),
            _ => report.is_ok(),
        };
        ensure!(right, "{manner:?} was published as {report:?}");
        rig.engine.wait();
        rig.image()?;
    }
    Ok(())
}

/// An engine dropped while it takes an image waits for the image to end.
pub(super) fn drop_half_way<A: Algorithm>(seed: u64) -> Verdict {
    let mut rig = EngineRig::<A>::new(20 * BLOCK_WORDS, seed)?;
    rig.image()?;
    let (receiver, tally) = rig.snapshot(Manner::Slow, || ())?;
    let count = rig.rng.below(200);
    rig.writes(count);
    drop(rig);
    let report = receiver.try_recv().map_err(|_| "the engine was gone before its image")?;
    match report {
        Ok(_) | Err(CaptureError::Cancelled) => tally.is_right(),
        Err(error) => Err(error.to_string()),
    }
}
