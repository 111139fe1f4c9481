//! The state: a keyspace, its time, and the notes.
//!
//! - Every member does the same. Time comes with the commands and never goes back; keys expire by
//!   it alone. Randomness comes with the commands, too, and what it chooses does not depend on
//!   where elements lie in memory: a member that was loaded from an image has them elsewhere.
//! - A key that has expired is absent for every request, whether it still takes memory or not. When
//!   it is deleted differs from member to member, and nothing shows that.
//! - Requests that would wait, and those on a server, are refused, by every member alike.

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::SocketAddr;

use stillframe_commands::errors::wrong_arity;
use stillframe_commands::{
    Address, Caller, Classes, Command as Known, Context, Handler, Ledger, Lookup, Random, Refusal,
    Settings, Table, digest, flags,
};
use stillframe_durability::disk::Location;
use stillframe_keyspace::{DATABASES, Keyspace};
use stillframe_openraft::{Error, ImageSource, Note, State, Told};
use stillframe_rdb::Version;
use stillframe_resp::{Out, Protocol};

use crate::command::Command;
use crate::image::{Images, Notes};
use crate::mutant::{Mutant, Mutation};
use crate::options::Options;

/// Keys with a deadline that are looked at after a command: those that have expired take memory no
/// longer.
const EXPIRE_BUDGET: usize = 20;

/// A keyspace that commands are applied to. See the README.
pub struct KeyspaceState {
    inner: RefCell<Inner>,
    images: Images,
    mutation: Mutation,
}

struct Inner {
    keyspace: Keyspace,
    ledger: Ledger,
    caller: Caller,
    table: Table<Infallible>,
    notes: Notes,
}

impl std::fmt::Debug for KeyspaceState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyspaceState").field("images", &self.images).finish_non_exhaustive()
    }
}

impl KeyspaceState {
    /// Answers a request that changes nothing, as of the last command that was applied. Who needs
    /// the newest asks the leader for `ensure_linearizable` before.
    #[must_use]
    pub fn query(&self, request: &[&[u8]], db: usize, resp3: bool) -> Vec<u8> {
        let inner = &mut *self.inner.borrow_mut();
        let protocol = if resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        let mut reply = Vec::new();
        let answered = inner.select(db).and_then(|()| {
            let index = inner.check(request)?;
            if !inner.table.get(index).has(flags::READONLY) {
                return Err("ERR only what changes nothing is answered without the log".into());
            }
            inner.perform(index, inner.notes.clock_ms, request, protocol, &mut reply)
        });
        refuse(&mut reply, protocol, answered);
        reply
    }

    /// One number for all that the keyspace holds now: the DEBUG DIGEST of Redis. Members that have
    /// applied the same have the same one.
    #[must_use]
    pub fn digest(&self) -> String {
        let Inner { keyspace, notes, .. } = &mut *self.inner.borrow_mut();
        keyspace.expire_cycle(notes.clock_ms, usize::MAX);
        digest::of_all(keyspace)
    }

    /// How many keys a database has, those that have expired and not yet gone included.
    #[must_use]
    pub fn keys(&self, db: usize) -> usize {
        if db < DATABASES { self.inner.borrow().keyspace.len(db) } else { 0 }
    }
}

fn refuse(reply: &mut Vec<u8>, protocol: Protocol, answered: Result<(), Refusal>) {
    if let Err(refusal) = answered {
        reply.clear();
        Out::new(reply, protocol).error(&refusal);
    }
}

impl Inner {
    fn new(keyspace: Keyspace, notes: Notes, compresses: bool, mutation: Mutation) -> Self {
        let mut table = Table::empty();
        stillframe_commands::register(&mut table);
        let settings = Settings {
            bulk_bytes_max: 512 << 20,
            notify: Classes::default(),
            compresses,
            expiring_version: Version::Redis12,
            counts_frequency: false,
            keeps_uses: false,
        };
        let mut ledger = Ledger::new(settings, Random::with_seed(0));
        ledger.agrees = !mutation.is(Mutant::ChoosesByPlace);
        let caller = Caller::new(1, Address::Net(SocketAddr::from(([127, 0, 0, 1], 0))));
        Self { keyspace, ledger, caller, table, notes }
    }

    fn select(&mut self, db: usize) -> Result<(), Refusal> {
        if db >= DATABASES {
            return Err("ERR DB index is out of range".into());
        }
        self.caller.db = db;
        Ok(())
    }

    /// The index of a command that may run.
    fn check<T: AsRef<[u8]>>(&self, request: &[T]) -> Result<usize, Refusal> {
        let request: Vec<&[u8]> = request.iter().map(AsRef::as_ref).collect();
        let Lookup::Found(index) = self.table.lookup(&request) else {
            return Err("ERR unknown command for a replicated state".into());
        };
        let command = self.table.get(index);
        if !command.accepts(request.len()) {
            return Err(wrong_arity(command.name));
        }
        if !matches!(command.handler, Handler::Data(_)) || is_of_a_client(command.name) {
            return Err("ERR a transaction is one command with several requests here".into());
        }
        if waits(command, &request) {
            return Err("ERR a replicated state does not wait: ask again later".into());
        }
        Ok(index)
    }

    fn perform<T: AsRef<[u8]>>(
        &mut self,
        index: usize,
        now: i64,
        request: &[T],
        protocol: Protocol,
        reply: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let Handler::Data(handler) = self.table.get(index).handler else { return Ok(()) };
        let args: Vec<&[u8]> = request.iter().map(AsRef::as_ref).collect();
        let Self { keyspace, ledger, caller, .. } = self;
        ledger.begin(keyspace, caller.db);
        let start = reply.len();
        let out = Out::new(reply, protocol);
        let outcome = handler(&mut Context { keyspace, ledger, caller, out, now }, &args);
        if outcome.is_err() {
            reply.truncate(start);
        }
        self.ledger.note_expired(&mut self.keyspace);
        outcome
    }

    /// Runs the requests of a command at its time.
    fn run(&mut self, command: &Command, now: i64, reply: &mut Vec<u8>) -> Result<(), Refusal> {
        let protocol = if command.resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        self.select(command.db)?;
        let checked: Result<Vec<usize>, Refusal> =
            command.requests.iter().map(|request| self.check(request)).collect();
        let indices = checked?;
        if !command.is_transaction {
            return match (&indices[..], &command.requests[..]) {
                ([index], [request]) => self.perform(*index, now, request, protocol, reply),
                _ => Err("ERR several requests are a transaction".into()),
            };
        }
        Out::new(reply, protocol).array(indices.len());
        self.ledger.in_exec = true;
        let mut seeds = self.ledger.random.split();
        for (index, request) in indices.into_iter().zip(&command.requests) {
            // How much a request draws may differ from member to member: RANDOMKEY tries again.
            self.ledger.random = seeds.split();
            if let Err(refusal) = self.perform(index, now, request, protocol, reply) {
                Out::new(reply, protocol).error(&refusal);
            }
        }
        self.ledger.in_exec = false;
        Ok(())
    }
}

/// Whether a command is about the state of a client, which there is none of.
fn is_of_a_client(name: &str) -> bool {
    matches!(name, "multi" | "exec" | "discard" | "watch" | "unwatch")
}

/// Whether a request would wait for a key.
fn waits(command: &Known<Infallible>, request: &[&[u8]]) -> bool {
    match command.name {
        "xread" | "xreadgroup" => {
            let options = request.iter().take_while(|arg| !arg.eq_ignore_ascii_case(b"streams"));
            options.skip(1).any(|arg| arg.eq_ignore_ascii_case(b"block"))
        }
        _ => command.has(flags::BLOCKING),
    }
}

impl State for KeyspaceState {
    type Command = Command;
    /// RESP, of the version that the command says.
    type Reply = Vec<u8>;
    type Options = Options;

    fn open(location: Location, options: &Options, told: Told) -> Result<Self, Error> {
        let mutation = Mutation::current();
        let mut keyspace = Keyspace::create(&options.keyspace).map_err(Error::state)?;
        let (images, notes) = Images::open(location, options, told, &mut keyspace)?;
        let inner = Inner::new(keyspace, notes, options.compresses, mutation);
        Ok(Self { inner: RefCell::new(inner), images, mutation })
    }

    fn apply(&mut self, command: Command) -> Vec<u8> {
        let inner = self.inner.get_mut();
        let protocol = if command.resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        let clock_ms = &mut inner.notes.clock_ms;
        *clock_ms = match self.mutation.is(Mutant::TimeGoesBack) {
            true => command.now_ms,
            false => command.now_ms.max(*clock_ms),
        };
        let mut now = *clock_ms;
        if self.mutation.is(Mutant::ExpiresByOwnClock) {
            now = stillframe_storage::unix_millis();
        }
        inner.keyspace.set_clock(u64::try_from(now).unwrap_or(0));
        inner.ledger.random = match self.mutation.is(Mutant::OwnRandomness) {
            true => Random::seeded(),
            false => Random::with_seed(command.seed),
        };
        let mut reply = Vec::new();
        let answered = inner.run(&command, now, &mut reply);
        let answered = answered.map_err(|refusal| match command.is_transaction {
            true => format!("EXECABORT Transaction discarded because of: {refusal}").into(),
            false => refusal,
        });
        refuse(&mut reply, protocol, answered);
        inner.keyspace.expire_cycle(now, EXPIRE_BUDGET);
        inner.ledger.note_expired(&mut inner.keyspace);
        let _ = inner.keyspace.tend();
        reply
    }

    fn note(&self, note: Note) -> Result<Vec<u8>, Error> {
        Ok(self.inner.borrow().notes.get(note).to_vec())
    }

    fn set_note(&mut self, note: Note, bytes: &[u8]) -> Result<(), Error> {
        self.inner.get_mut().notes.set(note, bytes);
        Ok(())
    }

    fn begin(&mut self) {
        let Inner { keyspace, notes, .. } = self.inner.get_mut();
        self.images.begin(keyspace, notes);
    }

    fn images(&self) -> ImageSource {
        self.images.source()
    }

    fn is_image_file(name: &str) -> bool {
        crate::image::number(name).is_some()
    }
}
