//! Copy-on-Update's latch: units of one word, two of them in a block, and of a whole block, so that
//! torn units show; two consecutive images, each racing with the writer.

use crate::common::{Faults, Model, Op, Seen, WORDS, explore, rejects, run_with};
use stillframe_loom::algorithms::cou::{Bacou, Cou, CouReset};
use stillframe_loom::{Algorithm, Image, Mutant, Options, Unit};

use Op::{Begin as B, Write as W};

type Make = fn(Unit, &'static [Op], Faults) -> Model;

/// The program, after a look at word 0 of each image where the program is to race with that.
fn program<A: Algorithm>(unit: Unit, ops: &'static [Op], faults: Faults) -> Model {
    Box::new(move || run_with::<A>(&Options::words(WORDS).unit(unit), ops, None, &faults))
}

fn random_access<A: Algorithm>(unit: Unit, ops: &'static [Op], faults: Faults) -> Model {
    fn look<A: Algorithm>(image: &A::Image<Seen>, expected: &[u64], faults: &Faults) {
        let found = image.get(0);
        faults.check(found == Some(expected[0]), || {
            format!("word 0 is {found:?}, at begin {expected:?}")
        });
    }
    let look = look::<A>;
    Box::new(move || run_with::<A>(&Options::words(WORDS).unit(unit), ops, Some(look), &faults))
}

/// First touches of both words of a unit and of both blocks, twice the same word, and what the
/// first image leaves behind for the second.
const PROGRAMS: [&[Op]; 4] = [
    &[W(0), B, W(0), W(1), B, W(0)],
    &[W(1), B, W(1), W(1), B, W(1), W(0)],
    &[B, W(2), W(0), B, W(2)],
    &[B, W(3), B, W(2), W(3)],
];

const MAKES: [Make; 3] = [program::<Cou>, program::<Bacou>, program::<CouReset>];
const LOOKS: [Make; 3] = [random_access::<Cou>, random_access::<Bacou>, random_access::<CouReset>];

#[test]
fn cou_images() {
    for make in MAKES {
        for unit in [Unit::Word, Unit::Page] {
            for ops in PROGRAMS {
                explore(2, make(unit, ops, Faults::default()));
            }
        }
    }
}

#[test]
fn cou_random_access() {
    for make in LOOKS {
        explore(2, make(Unit::Word, &[W(0), B, W(0), B, W(0)], Faults::default()));
        explore(2, make(Unit::Page, &[W(0), B, W(1), W(0)], Faults::default()));
    }
}

#[test]
fn cou_images_reject() {
    for mutant in [
        Mutant::CouSavesNewValue,
        Mutant::CouSkipsLatch,
        Mutant::CouKeepsOldBits,
        Mutant::CouRelaxedRelease,
    ] {
        for make in MAKES {
            let model = |faults| make(Unit::Page, PROGRAMS[1], faults);
            rejects(mutant, &[(2, &model)]);
        }
    }
}
