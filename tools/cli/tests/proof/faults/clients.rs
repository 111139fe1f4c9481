//! The clients of a round: those whose calls are recorded, and those that make work.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use stillframe_history::{
    Call, Client, Command, Connection, Key, Operation, Outcome, Recorder, Reply,
};
use stillframe_peers::reply::Reply as Raw;

use crate::support::{Random, Stop};

/// Lists that grow in transactions.
const GROWN: usize = 4;
/// Strings of any length.
const LARGE: usize = 2;
/// How long a call may take before its client gives it up.
const PATIENCE: Duration = Duration::from_millis(1_000);
/// The keys of a round.
pub(super) const KEYS: u32 = 32;
/// Clients that call without a wait; behind them come those that wait.
const PLAIN: usize = 10;
/// Clients that wait on lists and streams; behind them comes one with large values.
const WAITING: usize = 4;
/// Clients whose calls are recorded.
pub(super) const CLIENTS: usize = PLAIN + WAITING + 1;
/// Bytes of the values that make the log grow.
const FILL_BYTES: u64 = 8_000;

/// How fast members reach one another, and what follows from that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    /// Bytes a second between two members, if bounded.
    pub(super) bandwidth: Option<u64>,
    /// The bytes of the largest value.
    pub(super) largest: usize,
}

impl Speed {
    pub(super) fn from_bandwidth(bandwidth: Option<u64>) -> Self {
        let two_seconds = bandwidth.map_or(usize::MAX, |bytes| 2 * bytes as usize);
        Self { bandwidth, largest: two_seconds.min(64 << 20) }
    }

    /// How long a call may take: a large value may be on the way before it.
    fn patience(self) -> Duration {
        let large = self.bandwidth.map(|bytes| self.largest as f64 / bytes as f64);
        PATIENCE + Duration::from_secs_f64(large.unwrap_or(0.0))
    }

    /// From one byte up to the largest, by their digits; the largest are the rarest.
    fn bytes(self, random: &mut Random) -> usize {
        let most = 1 + random.below(self.largest.ilog2() as usize + 2);
        let largest = 1_usize << random.below(most);
        (1 + random.below(largest)).min(self.largest)
    }
}

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

    /// Of few values, for what depends on the one before: SET NX and XX, and a script.
    fn swapped(self) -> Key {
        Key(self.0 + 11)
    }

    /// Clients wait for elements of the first; some go from there to the second.
    fn queues(self) -> [Key; 2] {
        [Key(self.0 + 12), Key(self.0 + 13)]
    }

    fn stream(self) -> Key {
        Key(self.0 + 14)
    }

    /// Each write shows the value before.
    fn exchanged(self) -> Key {
        Key(self.0 + 15)
    }

    /// Of any length.
    fn large(self, number: usize) -> Key {
        Key(self.0 + 16 + number as u32)
    }

    /// Grow in transactions over any of them.
    fn grown(self, number: usize) -> Key {
        Key(self.0 + 20 + number as u32)
    }

    /// A transaction that appends to some lists and reads others.
    fn mix(self, random: &mut Random, value: i64) -> Call {
        let first = random.below(GROWN);
        let commands = (0..2 + random.below(GROWN - 1)).map(|next| {
            let key = self.grown((first + next) % GROWN);
            if random.below(2) == 0 { Command::Append(key, value) } else { Command::List(key) }
        });
        Call::transaction(commands.collect())
    }

    /// A call that waits for what others write; `length` is how long the stream was at least.
    fn wait(self, random: &mut Random, value: i64, length: usize) -> Call {
        let wait_ms = random.pick(&[200, 1_000, 2_500]);
        let [from, to] = self.queues();
        Call::one(match random.below(10) {
            0..3 => Command::Pop { key: from, wait_ms },
            3 => Command::Pop { key: to, wait_ms },
            4..6 => Command::Move { from, to, wait_ms },
            6..9 => Command::Tail { key: self.stream(), after: length, wait_ms },
            _ => Command::Append(from, value),
        })
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
        let [one, other] = self.pair();
        match random.below(29) {
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
            16 => Call::transaction(vec![Command::Get(one), Command::Get(other)]),
            17 | 18 => self.mix(random, value),
            19..21 => self.swap(random),
            21 => Call::transaction(vec![
                Command::Get(one),
                Command::List(self.journal()),
                Command::Get(other),
            ]),
            22..24 => Call::one(Command::Append(self.queues()[0], value)),
            24 => Call::one(Command::Log(self.stream(), value)),
            25 => Call::one(Command::Exchange(self.exchanged(), value)),
            26..28 => self.mix(random, value),
            _ => Call::one(Command::Get(self.large(random.below(LARGE)))),
        }
    }

    /// What a round ends with: everything is read.
    pub(super) fn reads(self) -> Vec<Call> {
        let [one, other] = self.pair();
        let get = |key| Call::one(Command::Get(key));
        let mut calls: Vec<Call> = (0..4).map(|number| get(self.register(number))).collect();
        calls.extend([self.counter(), self.swapped()].map(get));
        calls.push(Call::one(Command::List(self.list())));
        calls.push(get(self.exchanged()));
        calls.extend((0..LARGE).map(|number| get(self.large(number))));
        let stream = Command::Tail { key: self.stream(), after: 0, wait_ms: 0 };
        calls.push(Call::one(stream));
        let read = |key| Command::List(key);
        calls.push(Call::transaction((0..GROWN).map(|it| read(self.grown(it))).collect()));
        calls.push(Call::transaction(self.queues().map(read).to_vec()));
        let (pair, journal) = ([Command::Get(one), Command::Get(other)], self.journal());
        calls.push(Call::transaction([&pair[..], &[Command::List(journal)]].concat()));
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

/// One of the clients of a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) work: Work,
    pub(super) keys: Keys,
    pub(super) number: usize,
    pub(super) speed: Speed,
}

impl Caller {
    fn client(self, servers: &[SocketAddr]) -> Client {
        let own = self.number / 2 % servers.len();
        let patience = self.speed.patience();
        let client = match (self.work, self.number % 2) {
            (Work::Apart(place), 1) if own == place => {
                Client::of_one(servers[(own + 1) % servers.len()], patience)
            }
            (Work::Mixed, 1) => Client::new(servers.to_vec(), own, patience),
            _ if self.number >= PLAIN => Client::new(servers.to_vec(), own, patience),
            _ => Client::of_one(servers[own], patience),
        };
        // Two others get what the leader takes.
        client.at_rate(self.speed.bandwidth.unwrap_or(u64::MAX) / 2)
    }

    /// `length` is how long the stream was at least.
    fn call(self, random: &mut Random, value: i64, length: usize) -> Call {
        let register = self.keys.register(random.below(4));
        match (self.work, self.number) {
            (Work::Mixed, ..PLAIN) => self.keys.call(random, value),
            (Work::Mixed, number) if number < PLAIN + WAITING => {
                self.keys.wait(random, value, length)
            }
            (Work::Mixed, _) => {
                let (key, bytes) = (self.keys.large(random.below(LARGE)), self.speed.bytes(random));
                Call::one(match random.below(3) {
                    0 => Command::Get(key),
                    _ => Command::Large { key, value, bytes },
                })
            }
            (Work::Apart(_), number) if number % 2 == 0 => Call::one(Command::Get(register)),
            (Work::Apart(_), _) => Call::one(Command::Set(register, value)),
        }
    }
}

/// Calls at random until the end; returns what was recorded.
pub(super) fn call_at_random(
    mut recorder: Recorder,
    servers: &[SocketAddr],
    caller: Caller,
    seed: u64,
    stop: &Stop,
) -> Vec<Operation> {
    let mut random = Random::with_seed(seed);
    let mut own = caller.client(servers);
    let mut value = 1_000_000 * (caller.number as i64 + 1);
    let mut length = 0;
    while !stop.is_due() {
        value += 1;
        let call = caller.call(&mut random, value, length);
        let outcome = recorder.record(call.clone(), |call| own.perform(call));
        length = length.max(length_of_stream(&call, outcome));
        let pause = if *outcome == Outcome::Failed { 4 } else { random.below(8) as u64 };
        std::thread::sleep(Duration::from_millis(pause));
    }
    recorder.into_operations()
}

/// The length of the stream, if that is what a call has shown.
fn length_of_stream(call: &Call, outcome: &Outcome) -> usize {
    let Outcome::Returned { replies, .. } = outcome else { return 0 };
    match (call.commands(), &replies[..]) {
        ([Command::Tail { after, .. }], [Reply::List(elements)]) => after + elements.len(),
        _ => 0,
    }
}

/// Reads everything until each read has come back.
///
/// # Errors
/// One does not come back.
pub(super) fn read_all(
    mut recorder: Recorder,
    servers: &[SocketAddr],
    keys: Keys,
    speed: Speed,
    patience: Duration,
) -> Result<Vec<Operation>, String> {
    let mut client = Client::new(servers.to_vec(), 0, speed.patience() * 5);
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
pub(super) fn fill(servers: &[SocketAddr], speed: Speed, seed: u64, stop: &Stop) {
    let mut random = Random::with_seed(seed);
    let mut seeker = Seeker::new(servers, 0);
    // A fifth of what the network takes, at most.
    let pause = speed.bandwidth.map_or(5, |bytes| 5 + 5_000 * FILL_BYTES / bytes);
    while !stop.is_due() {
        let value: String =
            (0..FILL_BYTES / 16).map(|_| format!("{:016x}", random.next())).collect();
        seeker.ask(&["SET", &format!("fill:{}", random.below(40)), &value]);
        std::thread::sleep(Duration::from_millis(pause));
    }
}

/// Asks one server for something, once.
pub(super) fn ask(server: SocketAddr, words: &[&str]) -> Option<Raw> {
    ask_at_most(server, words, PATIENCE)
}

/// As [`ask`], for what may take this long: asked again too soon, a server would be busy with what
/// nobody waits for any more.
pub(super) fn ask_at_most(server: SocketAddr, words: &[&str], patience: Duration) -> Option<Raw> {
    let words = words.iter().map(|&word| word.to_owned()).collect();
    let mut connection = Connection::open(server, patience).ok()?;
    connection.ask(&[words]).ok()?.pop()
}
