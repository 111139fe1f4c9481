//! Growth while an image is captured, for every algorithm of the registry: a block, then half of
//! another, whose unit, table and flags may lie beside those of the image.

use crate::common::{AMPLE, Faults, Model, Op, explore, rejects, run_with};
use stillframe_loom::algorithms::page_table::AsyncFork;
use stillframe_loom::{Algorithm, BLOCK_WORDS, Mutant, OnFull, Options, Unit};

use Op::{Begin as B, Grow as G, Read as R, Tend as T, Write as W};

const FIRST: usize = BLOCK_WORDS + 1;
const MOST: usize = 2 * BLOCK_WORDS;

/// Into the middle of a unit, of a block and of a table.
const PROGRAMS: [&[Op]; 2] =
    [&[W(0), B, G(MOST), T, W(3), W(2), R(0)], &[W(2), B, T, G(MOST), W(2), B, W(3), R(2)]];

fn program<A: Algorithm>(ops: &'static [Op], first: usize, unit: Unit) -> impl Fn(Faults) -> Model {
    let options = Options::words(first).max_words(MOST).unit(unit);
    let options = options.budget(AMPLE, OnFull::Cancel);
    move |faults| {
        let options = options.clone();
        Box::new(move || run_with::<A>(&options, ops, None, &faults))
    }
}

fn grows<A: Algorithm>() {
    // loom models threads of one process.
    if !A::INFO.in_process {
        return;
    }
    let page = A::INFO.unit(Unit::Page);
    for ops in PROGRAMS {
        explore(1, program::<A>(ops, FIRST, page)(Faults::default()));
    }
    // A block from the start: the next one has a unit of its own, and its table has room.
    explore(2, program::<A>(&ALONE, BLOCK_WORDS, A::INFO.units[0])(Faults::default()));
}

const ALONE: [Op; 7] = [W(1), B, G(MOST), T, W(2), W(1), R(2)];

macro_rules! tests {
    ($($module:ident::$algorithm:ident { $($facts:tt)* })*) => {$(
        #[test]
        #[allow(non_snake_case, reason = "named as the type")]
        fn $algorithm() {
            grows::<stillframe_loom::algorithms::$module::$algorithm>();
        }
    )*};
}
stillframe_loom::for_each_algorithm!(tests);

#[test]
fn growth_rejects() {
    let model = program::<AsyncFork>(&ALONE, BLOCK_WORDS, Unit::Page);
    rejects(Mutant::AsyncForkAddsToSharedTable, &[(2, &model)]);
}
