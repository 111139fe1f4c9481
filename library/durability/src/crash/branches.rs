//! Branches of a view that is given up: each word that was asked for and is lost is told, by the
//! branch and by its clones.

use std::path::Path;
use std::sync::Arc;

use stillframe::OnFull;
use stillframe::algorithms::imprint::Imprint;

use super::must_find;
use crate::disk::SimulatedDisk;
use crate::mutant::Mutant;
use crate::options::Options;
use crate::store::Store;
use crate::store::view::{Branch, View, ViewLost};

const WORDS: usize = 9;
/// What a branch has written itself.
const WRITTEN: usize = 4;

/// A view that is given up, since the budget is used up, and a branch from it that read a word
/// before.
fn lost() -> (Store<Imprint>, Arc<View>, Branch) {
    let memory = stillframe::Options::words(WORDS + 4096).budget(4096, OnFull::Cancel);
    let options = Options::memory(memory).disk(Arc::new(SimulatedDisk::default()));
    let mut store = Store::open(Path::new("simulated"), options).expect("a sound disk");
    (0..WORDS).for_each(|index| store.write(index, 10 + index as u64));
    let view = Arc::new(store.view().expect("none is kept"));
    let mut branch = Branch::from_view(Arc::clone(&view), WORDS + 4096);
    assert_eq!(branch.try_read(0), Ok(10));
    branch.write(WRITTEN, 7);
    let mut round = 0;
    while view.read(0).is_ok() {
        round += 1;
        (0..WORDS + 4096).for_each(|index| store.write(index, round));
    }
    (store, view, branch)
}

fn each_loss_is_told() -> Result<u64, String> {
    let (_store, view, whole) = lost();
    assert_eq!(whole.check(), Ok(()), "it was asked for nothing that is lost");
    for index in (0..WORDS).filter(|index| *index != WRITTEN) {
        let by_window = whole.clone();
        let window = by_window.window(index, 1).expect("it is in bounds");
        assert_eq!(window(0), 0);
        drop(window);
        for branch in [whole.clone(), Branch::from_view(Arc::clone(&view), WORDS + 4096)] {
            if (branch.try_read(index), branch.read(index)) != (Err(ViewLost), 0) {
                return Err(format!("word {index} is there"));
            }
            let all = [branch.check(), branch.clone().check(), branch.clone().clone().check()];
            if all != [Err(ViewLost); 3] {
                return Err(format!("the loss of word {index} is told by {all:?} alone"));
            }
        }
        if by_window.check() != Err(ViewLost) {
            return Err(format!("the loss of word {index} of a window is not told"));
        }
        let by_run = whole.clone();
        if (by_run.read_run(index, &mut [0]), by_run.check()) != (Err(ViewLost), Err(ViewLost)) {
            return Err(format!("the loss of word {index} of a run is not told"));
        }
    }
    let mut run = [0];
    if (whole.read_run(WRITTEN, &mut run), run) != (Ok(()), [7]) {
        return Err("a run that was written here is lost".into());
    }
    if (whole.try_read(WRITTEN), whole.check()) != (Ok(7), Ok(())) {
        return Err("a word that was written here is lost".into());
    }
    Ok(WORDS as u64)
}

#[test]
fn each_word_that_a_branch_lost_is_told() {
    each_loss_is_told().expect("it is told");
}

#[test]
fn each_mistake_with_lost_branches_is_found() {
    for mutant in [Mutant::LossIsEven, Mutant::CloneForgetsLoss, Mutant::BranchReadsBelow] {
        must_find(mutant, each_loss_is_told);
    }
}
