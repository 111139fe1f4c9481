//! One violation planted in each right history must be found.

use super::holds;
use super::simulated::{COUNTER, LIST, PAIR, REGISTERS, Simulated, shape};
use crate::call::{Call, Command, Reply};
use crate::history::{Operation, Outcome};
use stillframe_peers::{Random, rounds};

/// What is planted at the end of a history, in the middle of another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    StaleRead,
    LostUpdate,
    TornTransaction,
    ReadThenLost,
    SplitBrain,
    Reorder,
    HappensTwice,
    FailedShows,
    FromTheFuture,
    LostAcknowledged,
    WrongRefusal,
}

pub(super) const FAULTS: [Fault; 11] = [
    Fault::StaleRead,
    Fault::LostUpdate,
    Fault::TornTransaction,
    Fault::ReadThenLost,
    Fault::SplitBrain,
    Fault::Reorder,
    Fault::HappensTwice,
    Fault::FailedShows,
    Fault::FromTheFuture,
    Fault::LostAcknowledged,
    Fault::WrongRefusal,
];

/// Adds calls that no order explains, whatever came before.
pub(super) fn plant(fault: Fault, server: &mut Simulated) {
    let register = REGISTERS[0];
    let get = || Call::one(Command::Get(register));
    let saw = |number: i64| Some(vec![Reply::Number(number)]);
    let (old, new) = (server.unique(), server.unique());
    let set = |server: &mut Simulated, value| {
        server.alone(90, Call::one(Command::Set(register, value)), None);
    };
    let append = |server: &mut Simulated, element| {
        server.alone(90, Call::one(Command::Append(LIST, element)), None);
    };
    match fault {
        Fault::StaleRead => {
            set(server, old);
            set(server, new);
            server.alone(91, get(), saw(old));
        }
        Fault::LostUpdate => {
            server.alone(90, Call::one(Command::Add(COUNTER, 1)), None);
            let sum = server.number(COUNTER);
            server.alone(91, Call::one(Command::Add(COUNTER, 1)), saw(sum));
        }
        Fault::TornTransaction => tear(server, old, new),
        Fault::ReadThenLost => {
            set(server, old);
            lose(server, Command::Set(register, new), Outcome::Unknown);
            server.alone(91, get(), saw(new));
            server.alone(91, get(), saw(old));
        }
        Fault::SplitBrain => {
            append(server, old);
            let length = server.list(LIST).len() as i64;
            server.alone(91, Call::one(Command::Append(LIST, new)), saw(length));
        }
        Fault::Reorder => {
            append(server, old);
            append(server, new);
            server.alone(91, Call::one(Command::List(LIST)), None);
            let mut list = server.list(LIST);
            let length = list.len();
            list.swap(length - 1, length - 2);
            server.alone(91, Call::one(Command::List(LIST)), Some(vec![Reply::List(list)]));
        }
        Fault::HappensTwice => {
            append(server, old);
            let list = [server.list(LIST), vec![old]].concat();
            server.alone(91, Call::one(Command::List(LIST)), Some(vec![Reply::List(list)]));
        }
        Fault::FailedShows => {
            lose(server, Command::Set(register, new), Outcome::Failed);
            server.alone(91, get(), saw(new));
        }
        Fault::FromTheFuture => {
            server.alone(91, get(), saw(new));
            set(server, new);
        }
        Fault::LostAcknowledged => {
            set(server, old);
            server.alone(91, get(), Some(vec![Reply::Nothing]));
        }
        Fault::WrongRefusal => {
            set(server, old);
            let swap = Command::Swap { key: register, from: old, to: new };
            server.alone(91, Call::one(swap), saw(0));
            // A lost write between the two would have shown.
            server.alone(91, get(), saw(old));
        }
    }
}

/// A read shows a transaction in part.
fn tear(server: &mut Simulated, old: i64, new: i64) {
    let [one, other] = PAIR;
    let both = |value| vec![Command::Set(one, value), Command::Set(other, value)];
    server.alone(90, Call::transaction(both(old)), None);
    server.alone(90, Call::transaction(both(new)), None);
    let read = Call::transaction(vec![Command::Get(one), Command::Get(other)]);
    server.alone(91, read, Some(vec![Reply::Number(new), Reply::Number(old)]));
}

fn lose(server: &mut Simulated, command: Command, outcome: Outcome) {
    let (call, invoked) = (Call::one(command), server.now + 1);
    server.now += 2;
    server.history.push(Operation { client: 92, call, invoked, outcome });
}

#[test]
fn every_planted_violation_is_found() {
    let mut random = Random::new("planted");
    for round in 0..rounds(11, 110) {
        let fault = FAULTS[round % FAULTS.len()];
        let shape = shape(&mut random);
        let mut server = Simulated::run(shape, &mut random);
        plant(fault, &mut server);
        assert!(!holds(&server.history), "{fault:?} in {shape:?}");
    }
}
