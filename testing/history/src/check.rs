//! The verdict on a history.

use crate::groups::groups;
use crate::history::Operation;
use crate::mutant::Mutation;
use crate::search::{Budget, Found, Search};
use crate::shrink::{Violation, shrink};

/// What a check finds.
#[derive(Clone, Debug)]
#[must_use]
pub enum Verdict {
    /// An order explains all that came back.
    Linearizable,
    /// No order does.
    Violated(Box<Violation>),
    /// The budget did not suffice: why.
    Undecided(String),
}

/// Whether a history, in any order, of keys that were not there before, is linearizable.
pub fn check(history: &[Operation], budget: Budget) -> Verdict {
    let mutation = Mutation::current();
    let mut undecided = None;
    for group in groups(history, mutation) {
        match Search::run(&group, budget, mutation) {
            Found::Order => {}
            Found::NoOrder { at } => {
                return Verdict::Violated(Box::new(shrink(group, at, budget, mutation)));
            }
            Found::TooMuch(why) => undecided = undecided.or(Some(why)),
        }
    }
    undecided.map_or(Verdict::Linearizable, Verdict::Undecided)
}
