//! A client of the group: calls, waits, follows MOVED, and records what it knows.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;

use stillframe_history::{Answer, Call, Command, Key, Operation, Outcome, Reply, answer, requests};
use stillframe_peers::Random;
use stillframe_peers::reply::{self, Reply as Raw};
use stillframe_server::Connection;

use crate::member::Member;
use crate::network::port;
use crate::plan::Plan;

/// How long a client waits for a reply, and one that stays at a member.
const PATIENCE: u64 = 3000;
const STAYS: u64 = 500;
/// How often one call follows MOVED.
const HOPS: u32 = 4;
/// Bytes that a client sends or takes in a millisecond.
const PIECE: usize = 1 << 20;

const REGISTERS: u32 = 3;
const COUNTER: u32 = 10;
const LIST: u32 = 20;
const PAIR: [u32; 2] = [30, 31];
const STREAM: u32 = 40;
const QUEUES: [u32; 2] = [50, 51];
const LARGE: u32 = 60;
const GROWN: [u32; 3] = [70, 71, 72];

/// A key of an era.
fn key(era: u64, number: u32) -> Key {
    Key(100 * era as u32 + number)
}

/// What reads all that was written by then.
pub(crate) fn all_reads(plan: &Plan, now: u64) -> Vec<Call> {
    let reads = (0..=now / plan.era_ms).flat_map(|era| {
        let numbers = (0..REGISTERS).chain([COUNTER, LARGE]).chain(PAIR);
        let lists = [LIST].into_iter().chain(QUEUES).chain(GROWN);
        let gets = numbers.map(move |number| Command::Get(key(era, number)));
        gets.chain(lists.map(move |number| Command::List(key(era, number))))
    });
    reads.map(Call::one).collect()
}

pub(crate) struct Client {
    number: usize,
    random: Random,
    /// The member to call, and whether it calls no other.
    to: u64,
    stays: bool,
    /// A member that it does not reach until then.
    lost: Option<(u64, u64)>,
    connection: Option<Connection>,
    state: State,
    unique: i64,
    /// What it is to call next.
    next: Option<Call>,
    pub(crate) done: Vec<Operation>,
}

enum State {
    /// Until then.
    Idle(u64),
    Waiting(Box<Waiting>),
}

/// Calls on one connection, sent together.
struct Waiting {
    /// Those that are not answered yet, and how many replies each has.
    calls: VecDeque<(Call, usize)>,
    invoked: u64,
    until: u64,
    hops: u32,
    unsent: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    raw: Vec<Raw>,
    /// One of them was refused.
    is_refused: bool,
}

impl Client {
    pub(crate) fn new(number: usize, plan: &Plan) -> Self {
        let seed = plan.seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = Random::with_seed(seed);
        let stays = plan.is_apart && number % 2 == 1 && number < plan.clients;
        let to = match stays {
            true => 1 + (number as u64 / 2) % plan.members,
            false => 1 + random.below(plan.members as usize) as u64,
        };
        let state = State::Idle(500 + random.below(500) as u64);
        Self {
            number,
            random,
            to,
            stays,
            lost: None,
            connection: None,
            state,
            unique: 0,
            next: None,
            done: Vec::new(),
        }
    }

    /// Whether nothing is under way or to be called next.
    pub(crate) fn has_done_all(&self) -> bool {
        matches!(self.state, State::Idle(_)) && !self.has_next()
    }

    /// Calls that, whatever it would call, at any member.
    pub(crate) fn call_next(&mut self, call: Call) {
        (self.next, self.stays, self.lost) = (Some(call), false, None);
    }

    /// Until then those that stay at a member call this one, and the others do not reach it.
    pub(crate) fn part(&mut self, member: u64, until: u64) {
        match self.stays {
            true if self.to == member => return,
            true => self.to = member,
            false => self.lost = Some((member, until)),
        }
        if self.stays || self.to == member {
            self.connection = None;
        }
    }

    fn has_next(&self) -> bool {
        self.next.is_some()
    }

    /// What it calls at once: one thing, or some that wait for nothing.
    fn calls(&mut self, plan: &Plan, now: u64) -> Vec<Call> {
        if let Some(next) = self.next.take() {
            return vec![next];
        }
        if self.random.below(5) > 0 {
            return vec![self.call(plan, now)];
        }
        let count = 2 + self.random.below(3);
        let reads = self.stays;
        let call = |_| {
            let value = self.value();
            let register = key(now / plan.era_ms, self.random.below(REGISTERS as usize) as u32);
            Call::one(match self.random.below(2) {
                0 if !reads => Command::Set(register, value),
                _ => Command::Get(register),
            })
        };
        (0..count).map(call).collect()
    }

    /// One that nobody else writes.
    fn value(&mut self) -> i64 {
        self.unique += 1;
        self.number as i64 * 1_000_000 + self.unique
    }

    fn call(&mut self, plan: &Plan, now: u64) -> Call {
        let value = self.value();
        let random = &mut self.random;
        let era = now / plan.era_ms;
        if random.below(20) == 0 {
            let era = random.below(era as usize + 1) as u64;
            let register = key(era, random.below(REGISTERS as usize) as u32);
            let reads = [Command::Get(register), Command::List(key(era, LIST))];
            return Call::one(reads[random.below(2)].clone());
        }
        let number = |number| key(era, number);
        if !self.stays && random.below(1000) < plan.large.0 {
            let bytes = 1 + random.below(plan.large.1);
            return Call::one(Command::Large { key: number(LARGE), value, bytes });
        }
        let register = number(random.below(REGISTERS as usize) as u32);
        if plan.is_apart {
            let reads = self.stays;
            return Call::one(if reads {
                Command::Get(register)
            } else {
                Command::Set(register, value)
            });
        }
        let queue = number(QUEUES[random.below(2)]);
        let wait_ms = random.pick(&[0, 50, 400, 1500]);
        let [one, two] = PAIR.map(number);
        let key = register;
        let command = match random.below(19) {
            0 | 1 => Command::Set(key, value),
            2..=4 => Command::Get(key),
            5 => Command::Exchange(key, value),
            6 => Command::Swap { key, from: value - 1 - random.below(3) as i64, to: value },
            7 | 8 => Command::Add(number(COUNTER), 1),
            9 => Command::Append(number(LIST), value),
            10 => Command::List(number(LIST)),
            11 => Command::Append(queue, value),
            12 if random.below(3) == 0 => {
                let [from, to] = QUEUES.map(number);
                Command::Move { from, to, wait_ms }
            }
            12 => Command::Pop { key: queue, wait_ms },
            13 if random.below(2) == 0 => Command::Log(number(STREAM), value),
            13 => Command::Tail { key: number(STREAM), after: random.below(20), wait_ms },
            14 => {
                let both = vec![Command::Set(one, value), Command::Set(two, value)];
                return Call::transaction(both);
            }
            15 => return Call::transaction(vec![Command::Get(one), Command::Get(two)]),
            17 | 18 => {
                let first = random.below(GROWN.len());
                let grown = [0, 1].map(|next| number(GROWN[(first + next) % GROWN.len()]));
                let grow = |key| match random.below(2) {
                    0 => Command::Append(key, value),
                    _ => Command::List(key),
                };
                return Call::transaction(grown.map(grow).to_vec());
            }
            _ if plan.large.0 > 0 && random.below(4) == 0 => Command::Get(number(LARGE)),
            _ => Command::Get(key),
        };
        Call::one(command)
    }

    /// Goes on; what has ended is in `done`. `calls`: it may call once more.
    pub(crate) fn go_on(&mut self, plan: &Plan, members: &[Member], now: u64, calls: bool) {
        let state = std::mem::replace(&mut self.state, State::Idle(now));
        self.state = match state {
            State::Idle(until) if until > now || !(calls || self.has_next()) => State::Idle(until),
            State::Idle(_) => {
                // One that led before may not know better.
                if !self.stays && self.random.below(5) == 0 {
                    self.connection = None;
                    self.to = 1 + self.random.below(members.len()) as u64;
                }
                let calls = self.calls(plan, now);
                let bytes: usize = calls.iter().map(call_bytes).sum();
                let slow = bytes / plan.quality.bandwidth.min(4 << 10);
                let wait = calls.iter().map(|call| call.wait().as_millis() as u64).sum::<u64>();
                let patience = if self.stays { STAYS } else { PATIENCE };
                let until = now + patience + wait + 4 * slow as u64;
                let hops = if self.stays || calls.len() > 1 { 0 } else { HOPS };
                self.begin(members, calls, now, until, hops)
            }
            State::Waiting(waiting) => self.wait(plan, members, *waiting, now),
        };
    }

    fn begin(
        &mut self,
        members: &[Member],
        calls: Vec<Call>,
        now: u64,
        until: u64,
        hops: u32,
    ) -> State {
        let is_lost = self.lost.is_some_and(|(member, until)| member == self.to && now < until);
        if self.connection.is_none() && !is_lost {
            self.connection = members[self.to as usize - 1].connect();
        }
        if self.connection.is_none() {
            calls.into_iter().for_each(|call| self.note(call, now, now, Err(Outcome::Failed)));
            return self.leave(now, members.len());
        }
        let mut unsent = Vec::new();
        let calls = calls.into_iter().map(|call| {
            let replies = encode(&call, &mut unsent);
            (call, replies)
        });
        let (calls, received, raw) = (calls.collect(), Vec::new(), Vec::new());
        let (invoked, sent, is_refused) = (now, 0, false);
        let waiting =
            Waiting { calls, invoked, until, hops, unsent, sent, received, raw, is_refused };
        State::Waiting(Box::new(waiting))
    }

    fn wait(&mut self, plan: &Plan, members: &[Member], mut at: Waiting, now: u64) -> State {
        let is_over = match &self.connection {
            Some(connection) => at.exchange(connection).is_err() || now >= at.until,
            None => true,
        };
        if is_over {
            for (call, _) in at.calls {
                self.note(call, at.invoked, now, Err(Outcome::Unknown));
            }
            return self.leave(now, members.len());
        }
        while let Some((call, replies)) = at.next_answered() {
            let result = match answer(&call, replies) {
                Answer::Replies(replies) => Ok(replies),
                Answer::Moved(address) if at.hops > 0 => {
                    self.connection = None;
                    self.to = member_of(address);
                    let mut state = self.begin(members, vec![call], now, at.until, at.hops - 1);
                    if let State::Waiting(waiting) = &mut state {
                        waiting.invoked = at.invoked;
                    }
                    return state;
                }
                Answer::Moved(_) => Err(Outcome::Failed),
                Answer::Refused(outcome) => Err(outcome),
            };
            at.is_refused |= result.is_err();
            self.note(call, at.invoked, now, result);
        }
        match (at.calls.is_empty(), at.is_refused) {
            (false, _) => State::Waiting(Box::new(at)),
            (true, true) => self.leave(now, members.len()),
            (true, false) => State::Idle(now + self.random.below(plan.pause_ms) as u64),
        }
    }

    /// A call has ended.
    fn note(&mut self, call: Call, invoked: u64, now: u64, result: Result<Vec<Reply>, Outcome>) {
        let (from, to) = (invoked * 1_000_000, now * 1_000_000);
        self.done.push(Operation::ended(self.number, call, from, to, result));
    }

    /// The next call goes elsewhere, unless this client stays.
    fn leave(&mut self, now: u64, members: usize) -> State {
        self.connection = None;
        if !self.stays {
            self.to = 1 + self.to % members as u64;
        }
        State::Idle(now + 20 + self.random.below(100) as u64)
    }
}

fn call_bytes(call: &Call) -> usize {
    let bytes = |command: &Command| match command {
        Command::Large { bytes, .. } => *bytes,
        _ => 0,
    };
    call.commands().iter().map(bytes).sum()
}

/// Adds the requests of a call; how many they are.
fn encode(call: &Call, bytes: &mut Vec<u8>) -> usize {
    let requests = requests(call);
    for words in &requests {
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        reply::encode(&words, bytes);
    }
    requests.len()
}

/// The member that serves clients at an address.
pub(crate) fn member_of(address: SocketAddr) -> u64 {
    u64::from(address.port() + 1000 - port(0))
}

impl Waiting {
    /// Sends and takes what there is room for.
    fn exchange(&mut self, connection: &Connection) -> Result<(), ()> {
        if self.sent < self.unsent.len() {
            let end = self.unsent.len().min(self.sent + PIECE);
            match connection.try_write(&self.unsent[self.sent..end]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return Err(()),
            }
        }
        let mut piece = [0; 16 << 10];
        for _ in 0..PIECE / piece.len() {
            match connection.try_read(&mut piece) {
                Ok(0) => return Err(()),
                Ok(count) => self.received.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return Err(()),
            }
        }
        while let Some((raw, length)) = reply::decode(&self.received) {
            self.raw.push(raw);
            self.received.drain(..length);
        }
        Ok(())
    }

    /// The next call, if all its replies have come.
    fn next_answered(&mut self) -> Option<(Call, Vec<Raw>)> {
        let (call, count) = self.calls.pop_front_if(|(_, count)| *count <= self.raw.len())?;
        Some((call, self.raw.drain(..count).collect()))
    }
}
