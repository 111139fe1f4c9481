//! The clients of a round: those whose calls are recorded, and those that make work.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use stillframe_history::{Call, Client, Command, Connection, Key, Operation, Outcome, Recorder};
use stillframe_peers::reply::Reply as Raw;

use crate::support::{Random, Stop};

/// How long a call may take before its client gives it up.
const PATIENCE: Duration = Duration::from_millis(1_000);
/// The keys of a round.
pub(super) const KEYS: u32 = 16;

/// The keys of a round, which no other round has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys(pub(super) u32);

impl Keys {
    fn register(self, number: usize) -> Key {
        Key(self.0 + number as u32)
    }

    fn counter(self) -> Key {
        Key(self.0 + 4)
    }

    fn list(self) -> Key {
        Key(self.0 + 5)
    }

    /// Written together, always with one value, which the journal has.
    fn pair(self) -> [Key; 2] {
        [Key(self.0 + 6), Key(self.0 + 7)]
    }

    fn journal(self) -> Key {
        Key(self.0 + 8)
    }

    /// Grow together.
    fn twins(self) -> [Key; 2] {
        [Key(self.0 + 9), Key(self.0 + 10)]
    }

    /// Of few values, for what depends on the one before: SET NX and XX, and a script.
    fn swapped(self) -> Key {
        Key(self.0 + 11)
    }

    fn swap(self, random: &mut Random) -> Call {
        let (key, from, to) = (self.swapped(), random.below(4) as i64, random.below(4) as i64);
        Call::one(match random.below(6) {
            0 => Command::Get(key),
            1 => Command::SetAbsent(key, to),
            2 => Command::SetPresent(key, to),
            _ => Command::Swap { key, from, to },
        })
    }

    /// A call that any client may make; `value` was never written before.
    fn call(self, random: &mut Random, value: i64) -> Call {
        let register = self.register(random.below(4));
        let ([one, other], [left, right]) = (self.pair(), self.twins());
        let both = |first: Command, second: Command| Call::transaction(vec![first, second]);
        match random.below(22) {
            0..4 => Call::one(Command::Set(register, value)),
            4..8 => Call::one(Command::Get(register)),
            8..10 => Call::one(Command::Add(self.counter(), 1)),
            10 => Call::one(Command::Get(self.counter())),
            11..13 => Call::one(Command::Append(self.list(), value)),
            13 => Call::one(Command::List(self.list())),
            14..16 => Call::transaction(vec![
                Command::Set(one, value),
                Command::Append(self.journal(), value),
                Command::Set(other, value),
            ]),
            16 => both(Command::Get(one), Command::Get(other)),
            17 => both(Command::Append(left, value), Command::Append(right, value)),
            18 => both(Command::List(left), Command::List(right)),
            19..21 => self.swap(random),
            _ => Call::transaction(vec![
                Command::Get(one),
                Command::List(self.journal()),
                Command::Get(other),
            ]),
        }
    }

    /// What a round ends with: everything is read.
    pub(super) fn reads(self) -> Vec<Call> {
        let ([one, other], [left, right]) = (self.pair(), self.twins());
        let get = |key| Call::one(Command::Get(key));
        let mut calls: Vec<Call> = (0..4).map(|number| get(self.register(number))).collect();
        calls.extend([self.counter(), self.swapped()].map(get));
        calls.push(Call::one(Command::List(self.list())));
        let (pair, journal) = ([Command::Get(one), Command::Get(other)], self.journal());
        calls.push(Call::transaction([&pair[..], &[Command::List(journal)]].concat()));
        calls.push(Call::transaction(vec![Command::List(left), Command::List(right)]));
        calls
    }
}

/// What the clients of a round do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Everything, half of them wherever they are sent, half of them at one member.
    Mixed,
    /// Some read at one member each, and some write, at all members but that one: who led when
    /// the round began answers reads alone, which wait for no write.
    Apart(usize),
}

impl Work {
    fn client(self, number: usize, servers: &[SocketAddr]) -> Client {
        let own = number / 2 % servers.len();
        match (self, number % 2) {
            (Self::Apart(place), 1) if own == place => {
                Client::of_one(servers[(own + 1) % servers.len()], PATIENCE)
            }
            (Self::Mixed, 1) => Client::new(servers.to_vec(), own, PATIENCE),
            _ => Client::of_one(servers[own], PATIENCE),
        }
    }

    fn call(self, keys: Keys, number: usize, random: &mut Random, value: i64) -> Call {
        let register = keys.register(random.below(4));
        match (self, number % 2) {
            (Self::Mixed, _) => keys.call(random, value),
            (Self::Apart(_), 0) => Call::one(Command::Get(register)),
            (Self::Apart(_), _) => Call::one(Command::Set(register, value)),
        }
    }
}

/// Calls at random until the end; returns what was recorded.
pub(super) fn call_at_random(
    mut recorder: Recorder,
    servers: &[SocketAddr],
    (work, keys, number): (Work, Keys, usize),
    seed: u64,
    stop: &Stop,
) -> Vec<Operation> {
    let mut random = Random::with_seed(seed);
    let mut own = work.client(number, servers);
    let mut value = 1_000_000 * (number as i64 + 1);
    while !stop.is_due() {
        value += 1;
        let call = work.call(keys, number, &mut random, value);
        let outcome = recorder.record(call, |call| own.perform(call));
        let pause = if *outcome == Outcome::Failed { 4 } else { random.below(8) as u64 };
        std::thread::sleep(Duration::from_millis(pause));
    }
    recorder.into_operations()
}

/// Reads everything until each read has come back.
///
/// # Errors
/// One does not come back.
pub(super) fn read_all(
    mut recorder: Recorder,
    servers: &[SocketAddr],
    keys: Keys,
    patience: Duration,
) -> Result<Vec<Operation>, String> {
    let mut client = Client::new(servers.to_vec(), 0, PATIENCE * 5);
    let deadline = Instant::now() + patience;
    for call in keys.reads() {
        loop {
            let outcome = recorder.record(call.clone(), |call| client.perform(call));
            if matches!(outcome, Outcome::Returned { .. }) {
                break;
            }
            if Instant::now() > deadline {
                return Err(format!("{call} is not answered although all is well again"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(recorder.into_operations())
}

/// A client that goes wherever it is sent, and records nothing.
pub(super) struct Seeker {
    servers: Vec<SocketAddr>,
    at: SocketAddr,
    connection: Option<Connection>,
}

impl Seeker {
    pub(super) fn new(servers: &[SocketAddr], first: usize) -> Self {
        Self { servers: servers.to_vec(), at: servers[first], connection: None }
    }

    /// Whom it asks next: who has answered last, if anybody has.
    pub(super) fn at(&self) -> SocketAddr {
        self.at
    }

    /// A reply that is no error; otherwise the next call goes elsewhere.
    pub(super) fn ask(&mut self, words: &[&str]) -> Option<Raw> {
        if self.connection.is_none() {
            self.connection = Connection::open(self.at, PATIENCE).ok();
        }
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let asked = self.connection.as_mut().and_then(|it| it.ask(&[words]).ok());
        let moved = match asked.and_then(|mut replies| replies.pop()) {
            Some(Raw::Error(text)) => {
                let is_moved = text.starts_with("MOVED ");
                text.rsplit(' ').next().filter(|_| is_moved).and_then(|it| it.parse().ok())
            }
            Some(reply) => return Some(reply),
            None => None,
        };
        let index = self.servers.iter().position(|&it| it == self.at).unwrap_or(0);
        self.at = moved.unwrap_or(self.servers[(index + 1) % self.servers.len()]);
        self.connection = None;
        if moved.is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }
}

/// Makes the log grow, so that images are taken and members that lag get them.
pub(super) fn fill(servers: &[SocketAddr], seed: u64, stop: &Stop) {
    let mut random = Random::with_seed(seed);
    let mut seeker = Seeker::new(servers, 0);
    while !stop.is_due() {
        let value: String = (0..500).map(|_| format!("{:016x}", random.next())).collect();
        seeker.ask(&["SET", &format!("fill:{}", random.below(40)), &value]);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks one server for something, once.
pub(super) fn ask(server: SocketAddr, words: &[&str]) -> Option<Raw> {
    let words = words.iter().map(|&word| word.to_owned()).collect();
    let mut connection = Connection::open(server, PATIENCE).ok()?;
    connection.ask(&[words]).ok()?.pop()
}
