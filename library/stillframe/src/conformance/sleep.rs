//! Units that are written in one image and then not for many: a stamp that carries the number of
//! its image must not meet the same number again.

use crate::algorithms::{cou, imprint::Imprint, page_table, userfault::UserFault, valkey::Valkey};
use crate::{Algorithm, BLOCK_WORDS, Point};

use super::probe::Manner;
use super::rig::{Rig, capture_and_settle, complete};
use super::{Verdict, ensure, prove};

const WORDS: usize = 3 * BLOCK_WORDS;
/// Images from one write to the next, if numbers have a byte, and if they have two.
const BYTE: usize = 1 << 8;
const TWO_BYTES: usize = 1 << 16;

/// Units that sleep for 255 images, one more and one less.
pub(super) fn units_that_sleep<A: Algorithm>(seed: u64) -> Verdict {
    let (step, images) = if cfg!(miri) { (BYTE / 2, 1) } else { (1, 3) };
    (0..images).try_for_each(|image| sleeping::<A>(seed, BYTE - step + image))
}

/// Units that sleep for 65,535 images, one more and one less.
pub(super) fn units_that_sleep_long<A: Algorithm>(seed: u64) -> Verdict {
    (0..3).try_for_each(|image| sleeping::<A>(seed, TWO_BYTES - 1 + image))
}

/// Writes every word during an image, and again `period` images later.
fn sleeping<A: Algorithm>(seed: u64, period: usize) -> Verdict {
    let mut rig = Rig::<A>::new(WORDS, seed)?;
    touched(&mut rig)?;
    // Those in between end at once. A child for each takes its time: where there is one, there is
    // no stamp.
    let between = if A::INFO.in_process { period - 1 } else { 0 };
    for _ in 0..between {
        let begun = rig.state.begin(Point::declare(), Vec::new());
        drop(begun.map_err(|error| error.to_string())?);
    }
    touched(&mut rig).map_err(|what| format!("{period} images later: {what}"))?;
    touched(&mut rig)?;
    rig.check_reads()
}

/// An image during which every word is written before the capture comes.
fn touched<A: Algorithm>(rig: &mut Rig<A>) -> Verdict {
    let (mut image, tally) = rig.begin(Manner::Plain).map_err(|error| error.to_string())?;
    for index in 0..WORDS {
        let value = rig.rng.next();
        rig.write(index, value)?;
    }
    let result = capture_and_settle(&mut image);
    ensure!(result.is_ok(), "ended with {result:?}");
    complete(result, &tally, WORDS)
}

/// For algorithms that carry numbers of images from one image to another.
#[test]
#[cfg_attr(miri, ignore = "hundreds of thousands of images")]
fn stamps_do_not_wrap() {
    prove(units_that_sleep_long::<cou::Cou>, 1);
    prove(units_that_sleep_long::<Valkey>, 1);
    prove(units_that_sleep_long::<page_table::AsyncFork>, 1);
    prove(units_that_sleep_long::<Imprint>, 1);
    if !super::is_missing::<UserFault>() {
        prove(units_that_sleep_long::<UserFault>, 1);
    }
}
