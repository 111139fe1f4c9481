//! Incremental images through the hand-over: what the snapshotter clears and rolls forward must
//! happen before the writer's next period. 2 blocks of 2 words whose flags share a machine word;
//! three consecutive images, the first on a thread of its own. The writer learns of its end from
//! the hand-over alone, so nothing else orders the two.

use std::sync::{Arc, Mutex};

use crate::common::{AMPLE, Faults, Model, WORDS, explore, rejects};
use loom::thread;
use stillframe_loom::SinkError;
use stillframe_loom::algorithms::hourglass::{Hourglass, HourglassCopy};
use stillframe_loom::algorithms::pingpong::{IppCopy, IppMerge, NppCopy, NppMerge};
use stillframe_loom::{
    Algorithm, BLOCK_WORDS, Before, Image, Mutant, OnFull, Options, Point, Sink, Unit,
};

type Settled = Arc<Mutex<Vec<u64>>>;

/// Compares with the state at begin; knows the last settled image; may fail at the second block.
struct Known {
    expected: Vec<u64>,
    settled: Settled,
    fails: bool,
    faults: Faults,
}

impl Sink for Known {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        let expected = &self.expected[start..start + words.len()];
        self.faults.check(words == expected, || format!("{words:?} at {start}, not {expected:?}"));
        if self.fails && start >= BLOCK_WORDS {
            return Err(SinkError::new(format_args!("full")));
        }
        Ok(())
    }
    fn before(&mut self, start: usize, into: &mut [u64]) -> Result<Before, SinkError> {
        let settled = self.settled.lock().expect("never poisoned");
        into.copy_from_slice(&settled[start..start + into.len()]);
        Ok(Before::Given)
    }
}

/// Captures an image and, unless its sink fails, settles it.
fn finish(mut image: impl Image<Sink = Known>) {
    let fails = image.sink_mut().fails;
    assert_eq!(image.capture().is_err(), fails, "the sink decides");
    if !fails {
        let known = image.sink_mut();
        *known.settled.lock().expect("never poisoned") = known.expected.clone();
        image.settle();
    }
}

/// Three images with writes in between; the first one settles, or fails at its second block. With
/// units of half a word a write replaces the low half.
fn images<A: Algorithm>(first_fails: bool, unit: Unit) -> impl Fn(Faults) -> Model {
    move |faults| {
        Box::new(move || {
            let options = Options::words(WORDS).unit(unit).budget(AMPLE, OnFull::Cancel);
            let mut state = A::create(&options).expect("loom has memory");
            let mut oracle = vec![0; WORDS];
            let settled = Settled::new(Mutex::new(oracle.clone()));
            let write = |state: &mut A, oracle: &mut Vec<u64>, index: usize, value: u64| {
                if unit == Unit::Half {
                    state.write_u32(2 * index, value as u32);
                } else {
                    state.write(index, value);
                }
                oracle[index] = value;
            };
            let begin = |state: &mut A, oracle: &[u64], fails| {
                let (expected, settled) = (oracle.to_vec(), Arc::clone(&settled));
                let sink = Known { expected, settled, fails, faults: faults.clone() };
                state.begin(Point::declare(), sink).expect("idle")
            };
            write(&mut state, &mut oracle, 0, 1);
            let image = begin(&mut state, &oracle, first_fails);
            let snapshotter = thread::spawn(move || finish(image));
            write(&mut state, &mut oracle, 1, 2);
            while state.progress().running() {
                thread::yield_now();
            }
            finish(begin(&mut state, &oracle, false));
            write(&mut state, &mut oracle, 2, 3);
            finish(begin(&mut state, &oracle, false));
            let read: Vec<u64> = (0..WORDS).map(|index| state.read(index)).collect();
            assert_eq!(read, oracle, "read your latest write");
            snapshotter.join().expect("captured");
        })
    }
}

fn explored<A: Algorithm>() {
    for first_fails in [false, true] {
        explore(3, images::<A>(first_fails, Unit::Word)(Faults::default()));
        explore(2, images::<A>(first_fails, Unit::Half)(Faults::default()));
    }
}

#[test]
fn increments() {
    explored::<Hourglass>();
    explored::<NppMerge>();
    explored::<IppMerge>();
}

#[test]
fn increments_rolled_forward() {
    explored::<HourglassCopy>();
    explored::<NppCopy>();
    explored::<IppCopy>();
}

/// Without edge 2 the writer sets its flags beside some that were cleared long ago, and dumps what
/// they lead to; or the next image is built on words that were never rolled forward.
#[test]
fn increments_reject() {
    rejects(Mutant::HandoverRelaxedDone, &[(2, &images::<Hourglass>(false, Unit::Word))]);
    rejects(Mutant::HandoverRelaxedDone, &[(2, &images::<HourglassCopy>(false, Unit::Word))]);
    rejects(Mutant::HandoverRelaxedDone, &[(2, &images::<NppCopy>(false, Unit::Word))]);
    rejects(Mutant::IncrementForgetsWhileDumping, &[(2, &images::<Hourglass>(true, Unit::Word))]);
}
