//! The checker against known histories, random ones, and every order of tiny ones.

mod brute;
mod circles;
mod clients;
mod known;
mod mutants;
mod planted;
mod simulated;

use crate::call::{Call, Command, Reply};
use crate::history::{Operation, Outcome};
use crate::{Budget, Verdict, check};

/// An operation that came back.
fn back(client: usize, times: [u64; 2], calls: &[(Command, Reply)]) -> Operation {
    let replies = calls.iter().map(|(_, reply)| reply.clone()).collect();
    let mut operation =
        lost(client, times[0], &calls.iter().map(|it| it.0.clone()).collect::<Vec<_>>());
    operation.outcome = Outcome::Returned { at: times[1], replies };
    operation
}

/// An operation whose reply was lost.
fn lost(client: usize, invoked: u64, commands: &[Command]) -> Operation {
    let call = match commands {
        [one] => Call::one(one.clone()),
        several => Call::transaction(several.to_vec()),
    };
    Operation { client, call, invoked, outcome: Outcome::Unknown }
}

/// Whether `history` is linearizable, which must be decided.
fn holds(history: &[Operation]) -> bool {
    match check(history, Budget::default()) {
        Verdict::Linearizable => true,
        Verdict::Violated(_) => false,
        Verdict::Undecided(why) => panic!("undecided: {why}"),
    }
}
