//! A server whose turns the test takes.

use std::cell::Cell;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mio::net::UnixStream as Watched;
use stillframe_durability::disk::SimulatedDisk;

use super::{Contents, contents};
use crate::connections::client::{Client, Session, Wire};
use crate::connections::net::{Poller, Ready, Stream};
use crate::crash;
use crate::peers::replication::failure::Failure;
use crate::peers::replication::link::Link;
use crate::state::roles::demote;
use crate::turn::Server;
use crate::turn::accept::limits;
use stillframe_commands::Address;
use stillframe_commands::Random;
use stillframe_commands::write_request;

/// A turn's time lies so far ahead that no clock moves while the turn lasts.
const AHEAD: Duration = Duration::from_secs(10);
/// A busy machine may take long to answer, a broken server for ever.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// A time that does not come.
const NEVER: Duration = Duration::from_secs(1 << 20);

/// Unix time in milliseconds, for all servers of a test.
pub(super) type Clock = Rc<Cell<i64>>;

/// A client of a node, and the test's end of its connection.
pub(super) struct Guest {
    pub(super) place: usize,
    pub(super) id: u64,
    far: UnixStream,
}

pub(super) struct Node {
    pub(super) server: Server,
    pub(super) disk: SimulatedDisk,
    pub(super) guests: Vec<Guest>,
    clock: Clock,
}

/// Two connected sockets that nobody waits for: the server's end, and the test's.
pub(super) fn pair() -> (Stream, UnixStream) {
    let (near, far) = UnixStream::pair().expect("two sockets");
    near.set_nonblocking(true).expect("a socket that does not wait");
    far.set_nonblocking(true).expect("a socket that does not wait");
    (Stream::Unix(Watched::from_std(near)), far)
}

impl Node {
    /// A server on a disk of its own, with a log if `appendonly`.
    pub(super) fn start(clock: &Clock, seed: u64, appendonly: bool) -> Self {
        let disk = SimulatedDisk::default();
        let poller = Poller::new().expect("events");
        let started = crash::Server::start_waking(&disk, appendonly, poller.waker().into_wake());
        let crash::Server { keyspace, mut state, table, .. } = started.expect("a sound disk");
        state.ledger.random = Random::with_seed(seed);
        for (name, value) in [
            ("repl-diskless-sync-delay", "0"),
            ("enable-debug-command", "yes"),
            ("hash-max-listpack-entries", "3"),
            ("set-max-intset-entries", "3"),
        ] {
            state.config.set(name, &[value]).expect("a setting");
        }
        state.ledger.settings = state.config.of_commands();
        let server = Server::new(keyspace, state, table, poller);
        Self { server, disk, guests: Vec::new(), clock: Rc::clone(clock) }
    }

    /// A new client on one end of a connection.
    pub(super) fn admit(&mut self, stream: Stream) -> (usize, u64) {
        let state = &mut self.server.state;
        let (place, id) = (state.clients.reserve(), state.clients.next_id());
        let nowhere = Address::Unix("test".into());
        let session = Session::new(id, nowhere.clone(), nowhere, -1, true, Instant::now());
        let mut session = session;
        session.caller.place = place;
        let limits = limits(&state.config, true);
        state.clients.put(place, Box::new(Client::new(Wire::Local(stream), session, limits)));
        (place, id)
    }

    /// Adds a client.
    pub(super) fn invite(&mut self) {
        let (near, far) = pair();
        let (place, id) = self.admit(near);
        self.guests.push(Guest { place, id, far });
    }

    /// Whether a client can send: it does not wait for anything.
    pub(super) fn is_free(&self, guest: usize) -> bool {
        let client = self.server.state.clients.get(self.guests[guest].place);
        client.is_some_and(|it| !it.session.caller.waits && it.session.postponed.is_none())
    }

    /// Has a client send a request, which the next turn runs.
    pub(super) fn send(&mut self, guest: usize, args: &[&[u8]]) {
        let mut bytes = Vec::new();
        write_request(&mut bytes, args);
        let mut far = &self.guests[guest].far;
        far.write_all(&bytes).expect("room for a request");
    }

    /// Takes a turn. Replies are read, and returned for the first client.
    pub(super) fn turn(&mut self) -> Vec<u8> {
        let state = &mut self.server.state;
        state.clock.set(Instant::now() + AHEAD, self.clock.get());
        if let Some(following) = &mut state.replication.following {
            following.retry_at = state.clock.turn() + NEVER;
            if let Some(link) = following.link_mut() {
                link.on_event(Ready::Primary { readable: true, writable: true });
            }
        }
        let places: Vec<usize> = state.clients.others().map(|(place, _)| place).collect();
        let event = |place| Ready::Client { place, readable: true, writable: true, ended: false };
        let mut events: Vec<Ready> = places.into_iter().map(event).collect();
        self.server.handle_events(&mut events);
        self.server.finish_turn();
        let mut first = Vec::new();
        for (number, guest) in self.guests.iter().enumerate() {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = (&guest.far).read(&mut piece) {
                if number == 0 {
                    first.extend_from_slice(&piece[..count]);
                }
            }
        }
        first
    }

    /// Asks as the first client; the bytes of the reply, which waits for the log.
    pub(super) fn ask(&mut self, line: &str) -> String {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.send(0, &args);
        let begun = Instant::now();
        loop {
            let reply = self.turn();
            if !reply.is_empty() {
                return String::from_utf8_lossy(&reply).into_owned();
            }
            assert!(begun.elapsed() < PATIENCE, "{line} is not answered");
        }
    }

    /// Follows over a new connection, whose test's end is returned; `anew`: as REPLICAOF does.
    pub(super) fn follow(&mut self, anew: bool) -> UnixStream {
        let (near, far) = pair();
        let Server { keyspace, state, .. } = &mut self.server;
        if anew {
            demote(keyspace, state, "primary".to_owned(), 1);
        }
        let following = state.replication.following.as_mut().expect("it follows");
        if following.link.is_some() {
            following.fail(&Failure::Wished);
        }
        following.link = Some(Link::over(near));
        far
    }

    /// Whether the stream is being followed.
    pub(super) fn is_connected(&self) -> bool {
        self.server.state.replication.following.as_ref().is_some_and(|it| it.is_connected())
    }

    /// The end of the stream.
    pub(super) fn offset(&self) -> u64 {
        self.server.state.replication.stream.end()
    }

    pub(super) fn contents(&mut self) -> Contents {
        contents(&mut self.server.keyspace)
    }

    /// What another server finds on the disk if this one is killed now; `None` without a log.
    pub(super) fn replayed(&mut self) -> Option<Contents> {
        let journal = &self.server.state.storage.journal;
        if !journal.is_on() {
            return None;
        }
        while journal.awaited().is_some() {
            std::thread::sleep(Duration::from_micros(50));
        }
        let disk = SimulatedDisk::holding(&self.disk.platter().lose_power(|_| false));
        let mut again = crash::Server::start(&disk, false).expect("the log is replayed");
        Some(contents(&mut again.keyspace))
    }
}
