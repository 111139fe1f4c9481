//! Histories of a simulated server that is linearizable: clients overlap, replies are lost, lost
//! calls take effect late or never.

use super::holds;
use crate::call::{Call, Command, Key, Reply};
use crate::find_anomaly;
use crate::history::{Operation, Outcome};
use std::collections::BTreeMap;
use stillframe_peers::{Random, rounds};

/// What a simulated history is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) clients: usize,
    pub(super) calls: usize,
    /// Replies of a thousand that are lost.
    pub(super) lost: usize,
}

/// What does one call after the other: another model than the checker's, on purpose.
#[derive(Clone, Default)]
pub(super) struct Server {
    numbers: BTreeMap<Key, i64>,
    lists: BTreeMap<Key, Vec<i64>>,
}

/// A server, and what its clients have seen.
pub(super) struct Simulated {
    server: Server,
    pub(super) history: Vec<Operation>,
    pub(super) now: u64,
    unique: i64,
}

/// What a client is at.
enum At {
    Idle,
    /// Its call waits to take effect.
    Asked(usize),
    /// Its call has taken effect; the reply is under way.
    Answered(usize, Vec<Reply>),
}

pub(super) const REGISTERS: [Key; 2] = [Key(0), Key(1)];
pub(super) const COUNTER: Key = Key(10);
pub(super) const LIST: Key = Key(20);
/// Written together, always with one value.
pub(super) const PAIR: [Key; 2] = [Key(30), Key(31)];
const ACCOUNTS: [Key; 3] = [Key(40), Key(41), Key(42)];
const JOURNAL: Key = Key(43);
const EXCHANGED: Key = Key(50);
const STREAM: Key = Key(51);
const QUEUES: [Key; 2] = [Key(60), Key(61)];
const GROWING: [Key; 3] = [Key(70), Key(71), Key(72)];

impl Server {
    pub(super) fn apply(&mut self, call: &Call) -> Vec<Reply> {
        call.commands().iter().map(|command| self.command(command)).collect()
    }

    fn command(&mut self, command: &Command) -> Reply {
        let key = command.key();
        let held = self.numbers.get(&key).copied();
        let mut set = |to: i64| {
            self.numbers.insert(key, to);
            Reply::Done
        };
        match *command {
            Command::Set(_, to) => set(to),
            Command::SetAbsent(_, to) if held.is_none() => set(to),
            Command::SetPresent(_, to) if held.is_some() => set(to),
            Command::SetAbsent(..) | Command::SetPresent(..) => Reply::Nothing,
            Command::Swap { from, to, .. } if held == Some(from) => {
                set(to);
                Reply::Number(1)
            }
            Command::Swap { .. } => Reply::Number(0),
            Command::Get(_) => held.map_or(Reply::Nothing, Reply::Number),
            Command::Large { value, .. } => set(value),
            Command::Exchange(_, to) => {
                set(to);
                held.map_or(Reply::Nothing, Reply::Number)
            }
            Command::Add(_, by) => {
                set(held.unwrap_or(0) + by);
                Reply::Number(held.unwrap_or(0) + by)
            }
            Command::Append(_, element) | Command::Log(_, element) => self.push(key, element),
            Command::List(_) => Reply::List(self.lists.get(&key).cloned().unwrap_or_default()),
            Command::Tail { after, .. } => {
                let list = self.lists.get(&key).cloned().unwrap_or_default();
                match list.get(after..) {
                    Some(elements @ [_, ..]) => Reply::List(elements.to_vec()),
                    _ => Reply::Nothing,
                }
            }
            Command::Pop { .. } => self.pop(key).map_or(Reply::Nothing, Reply::Number),
            Command::Move { to, .. } => match self.pop(key) {
                Some(element) => {
                    self.push(to, element);
                    Reply::Number(element)
                }
                None => Reply::Nothing,
            },
        }
    }
}

impl Server {
    fn push(&mut self, key: Key, element: i64) -> Reply {
        let list = self.lists.entry(key).or_default();
        list.push(element);
        Reply::Number(list.len() as i64)
    }

    fn pop(&mut self, key: Key) -> Option<i64> {
        let list = self.lists.get_mut(&key).filter(|list| !list.is_empty())?;
        Some(list.remove(0))
    }
}

impl Simulated {
    /// Runs one to its end.
    pub(super) fn run(shape: Shape, random: &mut Random) -> Self {
        let (server, history) = (Server::default(), Vec::new());
        let mut simulated = Self { server, history, now: 0, unique: 0 };
        let mut clients: Vec<_> = (0..shape.clients).map(|_| At::Idle).collect();
        let mut late: Vec<Call> = Vec::new();
        let busy = |clients: &[At]| clients.iter().any(|at| !matches!(at, At::Idle));
        while simulated.history.len() < shape.calls || busy(&clients) {
            simulated.now += 1 + random.below(3) as u64;
            if !late.is_empty() && random.below(20) == 0 {
                let call = late.swap_remove(random.below(late.len()));
                simulated.server.apply(&call);
                continue;
            }
            let client = random.below(shape.clients);
            clients[client] = match std::mem::replace(&mut clients[client], At::Idle) {
                At::Idle if simulated.history.len() >= shape.calls => At::Idle,
                At::Idle => At::Asked(simulated.invoke(client, random)),
                At::Asked(index) if random.below(1000) < shape.lost => {
                    let call = simulated.history[index].call.clone();
                    match random.below(4) {
                        0 => simulated.history[index].outcome = Outcome::Failed,
                        1 => {}
                        2 => {
                            simulated.server.apply(&call);
                        }
                        _ => late.push(call),
                    }
                    At::Idle
                }
                At::Asked(index) => {
                    let call = simulated.history[index].call.clone();
                    At::Answered(index, simulated.server.apply(&call))
                }
                At::Answered(index, replies) => {
                    let at = simulated.now;
                    simulated.history[index].outcome = Outcome::Returned { at, replies };
                    At::Idle
                }
            };
        }
        simulated
    }

    /// A call by itself, from now on.
    pub(super) fn alone(&mut self, client: usize, call: Call, replies: Option<Vec<Reply>>) {
        let right = self.server.apply(&call);
        let (invoked, at) = (self.now + 1, self.now + 2);
        self.now += 3;
        let outcome = Outcome::Returned { at, replies: replies.unwrap_or(right) };
        self.history.push(Operation { client, call, invoked, outcome });
    }

    pub(super) fn unique(&mut self) -> i64 {
        self.unique += 1;
        self.unique
    }

    pub(super) fn number(&self, key: Key) -> i64 {
        self.server.numbers.get(&key).copied().unwrap_or(0)
    }

    pub(super) fn list(&self, key: Key) -> Vec<i64> {
        self.server.lists.get(&key).cloned().unwrap_or_default()
    }

    fn invoke(&mut self, client: usize, random: &mut Random) -> usize {
        let call = self.call(random);
        let invoked = self.now;
        self.history.push(Operation { client, call, invoked, outcome: Outcome::Unknown });
        self.history.len() - 1
    }

    fn call(&mut self, random: &mut Random) -> Call {
        let value = self.unique();
        let register = random.pick(&REGISTERS);
        let [one, other] = PAIR;
        match random.below(20) {
            14 => Call::one(Command::Exchange(EXCHANGED, value)),
            15 => Call::one(match random.below(2) {
                0 => Command::Get(EXCHANGED),
                _ => Command::Large { key: EXCHANGED, value, bytes: 100 },
            }),
            16 => Call::one(match random.below(2) {
                0 => Command::Log(STREAM, value),
                _ => Command::Tail { key: STREAM, after: random.below(20), wait_ms: 1 },
            }),
            17 => {
                let (from, to) = (QUEUES[0], QUEUES[1]);
                Call::one(match random.below(4) {
                    0 | 1 => Command::Append(from, value),
                    2 => Command::Move { from, to, wait_ms: 1 },
                    _ => Command::Pop { key: random.pick(&QUEUES), wait_ms: 1 },
                })
            }
            18 | 19 => {
                let mut command = |key| match random.below(2) {
                    0 => Command::Append(key, value),
                    _ => Command::List(key),
                };
                Call::transaction(GROWING.map(&mut command).to_vec())
            }
            0 | 1 => Call::one(Command::Set(register, value)),
            2 => Call::one(Command::SetPresent(register, value)),
            3 => Call::one(Command::SetAbsent(REGISTERS[1], value)),
            4 => {
                let from = self.number(register) - random.below(2) as i64;
                Call::one(Command::Swap { key: register, from, to: value })
            }
            5 | 6 => Call::one(Command::Get(register)),
            7 => Call::one(Command::Add(COUNTER, 1)),
            8 => Call::one(Command::Get(COUNTER)),
            9 => Call::one(Command::Append(LIST, value)),
            10 => Call::one(Command::List(LIST)),
            11 => Call::transaction(vec![Command::Set(one, value), Command::Set(other, value)]),
            12 => Call::transaction(vec![Command::Get(other), Command::Get(one)]),
            _ if random.below(2) == 0 => {
                let amount = 1 + random.below(100) as i64;
                let from = random.pick(&ACCOUNTS);
                let mut commands = vec![Command::Add(from, -amount)];
                commands.push(Command::Add(random.pick(&ACCOUNTS), amount));
                commands.push(Command::Append(JOURNAL, value));
                Call::transaction(commands)
            }
            _ => {
                let reads = ACCOUNTS.map(Command::Get).into_iter();
                Call::transaction(reads.chain([Command::List(JOURNAL)]).collect())
            }
        }
    }
}

/// Shapes by chance: few clients or many, few lost replies or many.
pub(super) fn shape(random: &mut Random) -> Shape {
    let calls = 100 + random.below(300);
    Shape { clients: 1 + random.below(10), calls, lost: random.below(120) }
}

#[test]
fn histories_of_a_linearizable_server_pass() {
    let mut random = Random::new("simulated");
    for _ in 0..rounds(60, 300) {
        let shape = shape(&mut random);
        let history = Simulated::run(shape, &mut random).history;
        assert!(holds(&history), "{shape:?}");
        let anomaly = find_anomaly(&history);
        assert!(anomaly.is_none(), "{shape:?}: {}", anomaly.expect("there is one"));
    }
}

#[test]
fn thousands_of_calls_are_checked_within_the_budget() {
    let mut random = Random::new("thousands");
    let shape = Shape { clients: 8, calls: 8_000, lost: 10 };
    let history = Simulated::run(shape, &mut random).history;
    assert!(holds(&history) && find_anomaly(&history).is_none());
}
