//! A primary with its replicas, and the connections between them.

use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::node::{Clock, Node, PATIENCE, pair};
use super::{Contents, difference};
use crate::state::roles::promote;

/// Bytes passed on at once, unless a caller says otherwise: less than a socket holds.
pub(super) const ALL: usize = 32 << 10;
/// Clients of a node; the first one is its operator.
pub(super) const GUESTS: usize = 8;
/// Unix time when a test begins, in milliseconds.
pub(super) const START_MS: i64 = 1_700_000_000_000;

/// The test's ends of the connection of a replica.
struct Wire {
    to_primary: UnixStream,
    to_replica: UnixStream,
}

/// See the head of this file. Keys that begin with `w` are a replica's own.
pub(super) struct Fleet {
    pub(super) clock: Clock,
    pub(super) nodes: Vec<Node>,
    /// Which node has no primary.
    pub(super) primary: usize,
    /// The primary of each node.
    pub(super) whom: Vec<usize>,
    wires: Vec<Option<Wire>>,
}

impl Fleet {
    /// A number of nodes, with logs or without; the first is the primary, each other follows the
    /// one before it.
    pub(super) fn start(count: usize, seed: u64, logs: bool) -> Self {
        let clock: Clock = Rc::new(Cell::new(START_MS));
        let nodes = (0..count).map(|number| {
            let mut node = Node::start(&clock, seed.wrapping_add(number as u64), logs);
            (0..GUESTS).for_each(|_| node.invite());
            node
        });
        let nodes: Vec<Node> = nodes.collect();
        let whom = (0..count).map(|number| number.saturating_sub(1)).collect();
        let wires = (0..count).map(|_| None).collect();
        let mut fleet = Self { clock, nodes, primary: 0, whom, wires };
        (1..count).for_each(|who| fleet.follow(who, who - 1, true));
        fleet
    }

    /// Has a node follow another over a new connection; `anew`: as REPLICAOF does.
    pub(super) fn follow(&mut self, who: usize, whom: usize, anew: bool) {
        self.cut(who);
        let to_replica = self.nodes[who].follow(anew);
        let (near, to_primary) = pair();
        self.nodes[whom].admit(near);
        self.whom[who] = whom;
        self.wires[who] = Some(Wire { to_primary, to_replica });
    }

    /// Ends the connection of a replica.
    pub(super) fn cut(&mut self, who: usize) {
        self.wires[who] = None;
    }

    /// REPLICAOF NO ONE at a replica.
    pub(super) fn promote(&mut self, who: usize) {
        self.cut(who);
        let node = &mut self.nodes[who].server;
        promote(&mut node.keyspace, &mut node.state);
        self.primary = who;
    }

    /// The replicas.
    pub(super) fn replicas(&self) -> impl Iterator<Item = usize> + use<> {
        let primary = self.primary;
        (0..self.nodes.len()).filter(move |&who| who != primary)
    }

    /// Passes on a replica's bytes, and at most `budget` bytes of the stream for it; returns how
    /// many.
    pub(super) fn pass(&mut self, who: usize, budget: usize) -> usize {
        let Some(wire) = &mut self.wires[who] else { return 0 };
        let mut piece = vec![0; ALL];
        let mut carry = |from: &mut UnixStream, to: &mut UnixStream, most: usize| {
            let count = match from.read(&mut piece[..most]) {
                Ok(0) if most > 0 => return None,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(_) => return None,
            };
            to.write_all(&piece[..count]).ok().map(|()| count)
        };
        let up = carry(&mut wire.to_replica, &mut wire.to_primary, ALL);
        let down = carry(&mut wire.to_primary, &mut wire.to_replica, budget.min(ALL));
        if up.is_none() || down.is_none() {
            self.cut(who);
        }
        down.unwrap_or(0)
    }

    /// Connects the replicas again that have no connection.
    pub(super) fn reconnect(&mut self) {
        for who in self.replicas() {
            let following = &self.nodes[who].server.state.replication.following;
            if following.as_ref().is_some_and(|it| it.link.is_none()) && !self.is_loading(who) {
                self.follow(who, self.whom[who], false);
            }
        }
    }

    fn is_loading(&self, who: usize) -> bool {
        self.nodes[who].server.state.replication.is_loading()
    }

    /// A turn of each, in which everything is passed on.
    pub(super) fn turn(&mut self) {
        for who in 0..self.nodes.len() {
            self.nodes[who].turn();
            self.pass(who, ALL);
        }
    }

    /// Takes turns until every replica has everything, and every log counts.
    pub(super) fn converge(&mut self) {
        let begun = Instant::now();
        for turn in 0.. {
            self.reconnect();
            self.turn();
            let end = self.nodes[self.primary].offset();
            let up = |who: usize| {
                let node = &self.nodes[who];
                node.is_connected() && node.offset() == end
            };
            let quiet = |node: &Node| {
                let state = &node.server.state;
                state.ledger.effects.is_empty()
                    && state.storage.journal.is_on() == state.config.appendonly
            };
            if self.replicas().all(up) && self.nodes.iter().all(quiet) {
                return;
            }
            if turn > 100 {
                std::thread::sleep(Duration::from_micros(100)); // an image or a log takes its time
            }
            assert!(begun.elapsed() < PATIENCE, "they do not catch up: {}", self.shown());
        }
    }

    /// How far all nodes are, as text for people.
    fn shown(&self) -> String {
        let shown = |(who, node): (usize, &Node)| {
            let state = &node.server.state;
            let following = state.replication.following.as_ref();
            let (step, lost) = following.map_or(("none", false), |it| (it.state(), it.lost));
            let (offset, log) = (node.offset(), state.storage.journal.is_on());
            format!("{who}: offset {offset}, link {step}, lost {lost}, log {log}")
        };
        let nodes: Vec<String> = self.nodes.iter().enumerate().map(shown).collect();
        nodes.join("; ")
    }

    /// How a replica differs from the primary, or a log from its server, if one does.
    pub(super) fn disagreement(&mut self) -> Option<String> {
        let all: Vec<Contents> = self.nodes.iter_mut().map(Node::contents).collect();
        let shared = |contents: &Contents| -> Contents {
            let entries = contents.iter().filter(|((_, key), _)| !key.starts_with('w'));
            entries.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        let primary = shared(&all[self.primary]);
        for who in self.replicas() {
            if let Some(difference) = difference(&primary, &shared(&all[who])) {
                let primary = self.primary;
                return Some(format!("primary {primary} against replica {who}:\n{difference}"));
            }
        }
        for (who, node) in self.nodes.iter_mut().enumerate() {
            let replayed = node.replayed().unwrap_or_else(|| all[who].clone());
            if let Some(difference) = difference(&all[who], &replayed) {
                return Some(format!("memory of {who} against its log:\n{difference}"));
            }
        }
        None
    }

    /// Images that all nodes have sent to replicas.
    pub(super) fn images(&self) -> u64 {
        self.nodes.iter().map(|node| node.server.state.meter.stats().full_syncs).sum()
    }
}
