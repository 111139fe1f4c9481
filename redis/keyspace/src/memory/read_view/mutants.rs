//! Deliberate mistakes about views that other threads read, and the test that must find each one:
//! the random changes of `history::mutants`.

use crate::memory::limbo::Bucket;

stillframe::mutants! {
    pub(crate) when test;

    /// What limbo releases is dropped at once.
    RetiresAtOnce,
    /// What limbo released is dropped when the newest read view needs it no more.
    HoldsForNewest,
}

/// What limbo releases, as a reader finds it.
pub(crate) fn retired(mut released: Vec<Bucket>) -> Vec<Bucket> {
    if Mutant::RetiresAtOnce.is_made() {
        released.iter_mut().for_each(Bucket::poison);
    }
    released
}

#[test]
#[cfg_attr(miri, ignore = "takes many steps")]
fn every_mutant_is_found() {
    use crate::memory::history::mutants::tests::is_right;
    for &mutant in Mutant::ALL.iter().filter(|mutant| mutant.is_chosen()) {
        assert!(!with_mutant(mutant, is_right), "{mutant:?}");
    }
}
