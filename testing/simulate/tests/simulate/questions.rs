//! Everything asked of a leader that is cut off from its group, again and again: what needs no
//! majority is answered at once, and what needs one is refused in time.

use std::io::ErrorKind;

use stillframe_commands::facts::all;
use stillframe_commands::{Facts, flags};
use stillframe_peers::reply;
use stillframe_server::{Connection, request_of};

use crate::member::Member;

/// How often everything is asked.
const AGAIN: u64 = 200;
/// What is answered at once takes so many milliseconds at most: some turns.
const AT_ONCE: u64 = 10;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Questions {
    begun: Option<Begun>,
    asked: Vec<Asked>,
    /// How many were answered.
    pub(crate) answered: usize,
}

struct Begun {
    who: u64,
    /// By then the leader knows that most members do not hear it.
    known: u64,
    until: u64,
}

struct Asked {
    name: &'static str,
    is_refused: bool,
    connection: Connection,
    at: u64,
    until: u64,
}

impl Questions {
    /// A leader was cut off now, for so long. It has `patience` milliseconds to find out.
    pub(crate) fn begin(&mut self, leader: &Member, now: u64, patience: u64, ms: u64) {
        let (who, known, until) = (leader.id, now + patience, now + ms);
        self.begun = Some(Begun { who, known, until });
        // A write in flight that nobody will ever agree to.
        let set = all().iter().find(|facts| facts.name == "set");
        self.asked.extend(set.and_then(|facts| Asked::ask(facts, leader, now, known)));
    }

    /// Goes on; an error says what was answered too late, or wrongly.
    pub(crate) fn go_on(&mut self, members: &[Member], now: u64) -> Result<(), String> {
        let Some(Begun { who, known, until }) = self.begun else { return Ok(()) };
        let mut asked = Vec::new();
        for it in std::mem::take(&mut self.asked) {
            match it.look(now)? {
                true => self.answered += 1,
                false => asked.push(it),
            }
        }
        self.asked = asked;
        if now < until && now.is_multiple_of(AGAIN) {
            let leader = &members[who as usize - 1];
            // The one that would end the member.
            let commands = all().iter().filter(|it| it.flags & flags::ABSENT == 0);
            let commands = commands.filter(|it| it.name != "shutdown");
            self.asked.extend(commands.filter_map(|it| Asked::ask(it, leader, now, known)));
        }
        Ok(())
    }
}

/// Whether a reply may wait for most members.
fn may_wait(facts: &Facts) -> bool {
    // What comes later than it was asked is confirmed, too.
    let kinds = flags::READONLY | flags::WRITE | flags::BLOCKING;
    let flagged = facts.flags & kinds != 0 && facts.name != "lolwut";
    let slots = ["cluster|countkeysinslot", "cluster|getkeysinslot", "cluster|slot-stats"];
    let others = ["exec", "function|dump", "function|list", "wait"];
    flagged || slots.contains(&facts.name) || others.contains(&facts.name)
}

/// Whether it tells of keys, and nobody can confirm it.
fn is_refused(facts: &Facts, request: &[&[u8]]) -> bool {
    let of_data = facts.flags & (flags::READONLY | flags::WRITE) != 0;
    of_data && !facts.keys.in_request(request).is_empty()
}

impl Asked {
    /// Asks a member; nobody is asked if it takes no connections.
    fn ask(facts: &'static Facts, member: &Member, now: u64, known: u64) -> Option<Self> {
        let request = request_of(facts);
        let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        let mut bytes = Vec::new();
        reply::encode(&words, &mut bytes);
        let connection = member.connect()?;
        connection.try_write(&bytes).ok()?;
        let at_once = now + AT_ONCE;
        let until = if may_wait(facts) { known.max(at_once) } else { at_once };
        let is_refused = is_refused(facts, &words);
        Some(Self { name: facts.name, is_refused, connection, at: now, until })
    }

    /// Whether it is answered.
    fn look(&self, now: u64) -> Result<bool, String> {
        let mut piece = [0; 64];
        let Self { name, at, until, .. } = self;
        match self.connection.try_read(&mut piece) {
            Err(error) if error.kind() == ErrorKind::WouldBlock && now <= *until => Ok(false),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                Err(format!("{name}, asked at {at} ms, is not answered by {until} ms"))
            }
            Ok(1..) if self.is_refused && piece[0] != b'-' => {
                let reply = String::from_utf8_lossy(&piece).into_owned();
                Err(format!("{name}, asked at {at} ms, is answered {reply:?} without a majority"))
            }
            _ => Ok(true), // with a reply, or the end of the connection
        }
    }
}
