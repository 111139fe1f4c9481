//! Who changes the group: one request after the other, to the member that leads.

use std::collections::VecDeque;

use stillframe_peers::reply::{self, Reply};
use stillframe_server::Connection;

use crate::member::Member;
use crate::network::port;

/// How long an answer may take.
const PATIENCE: u64 = 70_000;

/// A change of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Add(u64),
    Remove(u64),
    Transfer(u64),
}

#[derive(Default)]
pub(crate) struct Operator {
    wanted: VecDeque<Change>,
    asked: Option<Asked>,
}

struct Asked {
    change: Change,
    connection: Connection,
    received: Vec<u8>,
    until: u64,
}

impl Operator {
    pub(crate) fn want(&mut self, change: Change) {
        self.wanted.push_back(change);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.wanted.is_empty() && self.asked.is_none()
    }

    /// Asks for what is wanted next. Returns what was asked before and has its answer: nothing if
    /// it is done, or why not.
    pub(crate) fn go_on(
        &mut self,
        leader: Option<&Member>,
        now: u64,
    ) -> Option<(Change, Option<String>)> {
        let Some(asked) = &mut self.asked else {
            let (leader, &change) = (leader?, self.wanted.front()?);
            let connection = leader.connect()?;
            connection.try_write(&encoded(change)).ok()?;
            self.wanted.pop_front();
            let received = Vec::new();
            self.asked = Some(Asked { change, connection, received, until: now + PATIENCE });
            return None;
        };
        let mut piece = [0; 512];
        let answer = match asked.connection.try_read(&mut piece) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                (now > asked.until).then(|| Some("no answer".to_owned()))
            }
            Ok(0) | Err(_) => Some(Some("the connection is gone".to_owned())),
            Ok(count) => {
                asked.received.extend_from_slice(&piece[..count]);
                reply::decode(&asked.received).map(|(reply, _)| match reply {
                    Reply::Error(why) => Some(why),
                    _ => None,
                })
            }
        };
        let done = (asked.change, answer?);
        self.asked = None;
        Some(done)
    }
}

fn encoded(change: Change) -> Vec<u8> {
    let (what, id) = match change {
        Change::Add(id) => ("ADD", id),
        Change::Remove(id) => ("REMOVE", id),
        Change::Transfer(id) => ("TRANSFER", id),
    };
    let mut line = format!("STILLFRAME RAFT {what} {id}");
    if what == "ADD" {
        line += &format!(" 127.0.0.1:{}/127.0.0.1:{}", port(id), port(id) - 1000);
    }
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let mut bytes = Vec::new();
    reply::encode(&words, &mut bytes);
    bytes
}
