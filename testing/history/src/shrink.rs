//! The few calls that show a violation.
//!
//! What came back is forgotten, as much as can be: a read is left out, a write becomes one that may
//! have happened at any time after its invocation or never. Each step only allows more orders. So
//! where still no order is found, the calls left prove the violation, whatever the others did.

use std::fmt::{self, Display, Formatter};

use crate::history::{Operation, Outcome};
use crate::mutant::Mutation;
use crate::search::{Budget, Found, Search};

/// Steps of a search for a smaller proof; a search that needs more keeps the calls.
const STEPS: u64 = 300_000;
/// Searches for a smaller proof.
const SEARCHES: usize = 600;

/// Calls that no order explains.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Calls that came back, by their invocations.
    pub calls: Vec<Operation>,
    /// The one of them, by its index, at whose return no order was left.
    pub at: usize,
    /// How many other calls of the same keys do not matter.
    pub others: usize,
}

impl Display for Violation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (calls, others) = (self.calls.len(), self.others);
        writeln!(f, "no order explains these {calls} calls, whatever became of {others} others:")?;
        for (index, operation) in self.calls.iter().enumerate() {
            let mark = if index == self.at { '>' } else { ' ' };
            writeln!(f, "{mark} {operation}")?;
        }
        Ok(())
    }
}

/// The least that shows what is wrong with `history`, in which no order was left at the return of
/// the operation `at`.
pub(crate) fn shrink(
    history: Vec<Operation>,
    at: usize,
    budget: Budget,
    mutation: Mutation,
) -> Violation {
    let total = history.len();
    let end = history[at].returned().expect("it came back");
    let mut left = up_to(&history, end);
    // A later read may be what shows it: a list that lacks what was seen.
    if !matches!(Search::run(&left, budget, mutation), Found::NoOrder { .. }) {
        left = history;
    }
    left.sort_by_key(|it| it.invoked);
    let budget = Budget { steps: budget.steps.min(STEPS), ..budget };
    let returned = |(index, it): (usize, &Operation)| it.returned().map(|_| index);
    let mut known: Vec<usize> = left.iter().enumerate().filter_map(returned).collect();
    let mut size = known.len().div_ceil(2);
    let mut searches = 0;
    while size > 0 && searches < SEARCHES {
        let mut from = 0;
        while from < known.len() && searches < SEARCHES {
            let to = (from + size).min(known.len());
            let less = forget(&left, &known[from..to]);
            searches += 1;
            match Search::run(&less, budget, mutation) {
                Found::NoOrder { .. } => {
                    left = less;
                    known.drain(from..to);
                }
                Found::Order | Found::TooMuch(_) => from = to,
            }
        }
        size /= 2;
    }
    let at = match Search::run(&left, budget, mutation) {
        Found::NoOrder { at } => at,
        // The whole history may need more than the budget here: its end is known.
        Found::Order | Found::TooMuch(_) => {
            left.iter().position(|it| it.returned() == Some(end)).expect("it is kept")
        }
    };
    let at = known.iter().position(|&index| index == at).expect("it came back");
    let calls: Vec<_> = known.iter().map(|&index| left[index].clone()).collect();
    Violation { others: total - calls.len(), calls, at }
}

/// The history as it was known at that time.
fn up_to(history: &[Operation], end: u64) -> Vec<Operation> {
    let mut known: Vec<Operation> =
        history.iter().filter(|it| it.invoked <= end).cloned().collect();
    for operation in &mut known {
        if operation.returned().is_some_and(|at| at > end) {
            operation.outcome = Outcome::Unknown;
        }
    }
    known
}

/// The history in which nobody knows what came of `these`.
fn forget(history: &[Operation], these: &[usize]) -> Vec<Operation> {
    let mut less = history.to_vec();
    for &index in these {
        less[index].outcome = Outcome::Unknown;
    }
    less
}
