//! Images that begin as soon as the hand-over says that the one before has ended, while its thread
//! may still be at work: for every algorithm of the registry. Elsewhere the thread is joined first,
//! which orders more than the hand-over does.

use crate::common::{AMPLE, Faults, Model, Op, WORDS, explore, rejects, run_with};
use stillframe_loom::algorithms::imprint::Imprint;
use stillframe_loom::{Algorithm, Mutant, OnFull, Options, Unit};

use Op::{Begin as B, Half as H, Next as N, Tend as T, Write as W};

/// What one image leaves is looked at by the next, or by the one after that: Imprint's marks.
const TWO: &[Op] = &[W(0), B, W(0), T, N, W(0)];
const THREE: &[Op] = &[B, B, N, W(0)];

/// Either half of a word, where each has a flag of its own.
const HALVES: &[Op] = &[H(0), B, H(1), N, H(0)];

fn program<A: Algorithm>(ops: &'static [Op], unit: Unit) -> impl Fn(Faults) -> Model {
    let options = Options::words(WORDS).unit(unit).budget(AMPLE, OnFull::Cancel);
    move |faults| {
        let options = options.clone();
        Box::new(move || run_with::<A>(&options, ops, None, &faults))
    }
}

fn back_to_back<A: Algorithm>() {
    // loom models threads of one process.
    if !A::INFO.in_process {
        return;
    }
    explore(1, program::<A>(TWO, A::INFO.unit(Unit::Page))(Faults::default()));
    explore(1, program::<A>(TWO, A::INFO.units[0])(Faults::default()));
    if A::INFO.units.contains(&Unit::Half) {
        explore(1, program::<A>(HALVES, Unit::Half)(Faults::default()));
    }
}

macro_rules! tests {
    ($($module:ident::$algorithm:ident { $($facts:tt)* })*) => {$(
        #[test]
        #[allow(non_snake_case, reason = "named as the type")]
        fn $algorithm() {
            back_to_back::<stillframe_loom::algorithms::$module::$algorithm>();
        }
    )*};
}
stillframe_loom::for_each_algorithm!(tests);

#[test]
fn imprint_marks() {
    explore(1, program::<Imprint>(THREE, Unit::Word)(Faults::default()));
}

#[test]
fn back_to_back_rejects() {
    let model = program::<Imprint>(THREE, Unit::Word);
    rejects(Mutant::ImprintEndsBeforeClear, &[(1, &model)]);
}
