//! A server without sockets whose one client is a function, for a fuzzer of commands.
//!
//! - The table, the keyspace and the path of a request are those of [`serve`](crate::serve),
//!   without the event loop: a client that would block gets no reply and is unblocked at once.
//! - Commands that save, stop the server, write its files or block it are refused: a fuzzer must
//!   not harm its machine.
//! - The clock is its own, so that a program always finds the same times.

#[cfg(test)]
mod branch_tests;
#[cfg(test)]
mod cost_tests;
#[cfg(test)]
mod eviction_tests;
#[cfg(test)]
mod group_tests;
mod image;
#[cfg(test)]
mod refusal_tests;
#[cfg(test)]
mod script_tests;
#[cfg(test)]
mod transcript_tests;

use stillframe_commands::Refusal;
use stillframe_keyspace::{DATABASES, Keyspace};
use stillframe_resp::Out;
use stillframe_storage::dump::DataDirectory;
use stillframe_storage::wake;

use crate::commands::{self, Alone, Context, Lookup, Table};
use crate::connections::client::Session;
use crate::start::{Boot, Opened};
use crate::state::ServerState;
use crate::{Config, ServeError};

pub use image::ImageUnderWay;

/// Unix time of the first request after a reset, in milliseconds.
const START_MS: i64 = 1_700_000_000_000;
/// Keys of a database that are deleted one by one; more are cleared at once, which costs a sweep.
const ONE_BY_ONE_MAX: usize = 256;

/// Commands, and whole containers, that are not for a fuzzer.
const REFUSED: [&str; 15] = [
    "acl",
    "bgrewriteaof",
    "bgsave",
    "config|rewrite",
    "config|set",
    "debug",
    "failover",
    "migrate",
    "monitor",
    "psync",
    "replicaof",
    "save",
    "shutdown",
    "slaveof",
    "sync",
];

fn is_refused(name: &str) -> bool {
    let container = name.split_once('|').map_or(name, |(container, _)| container);
    REFUSED.contains(&name) || REFUSED.contains(&container)
}

/// A server in the caller's thread.
pub struct InProcess {
    keyspace: Keyspace,
    state: ServerState,
    table: Table,
    session: Session,
    output: Vec<u8>,
    now: i64,
    /// Milliseconds that a request takes.
    step_ms: i64,
}

impl InProcess {
    /// A server with no data. It locks the data directory of `config` and leaves it empty.
    ///
    /// # Errors
    /// [`ServeError`] in one sentence.
    pub fn new(config: Config) -> Result<Self, ServeError> {
        let directory = DataDirectory::open(&config.dir, &config.dbfilename)?;
        let opened = Boot::new(config)?.open(directory, wake::nobody())?;
        let Opened { keyspace, state, table } = opened;
        let (session, output) = (Session::in_process(), Vec::new());
        let (now, step_ms) = (START_MS, 1);
        Ok(Self { keyspace, state, table, session, output, now, step_ms })
    }

    /// The names of all commands that are not refused; a sub-command's is `container|name`.
    #[must_use]
    pub fn commands(&self) -> Vec<&'static str> {
        let names = self.table.all().iter().map(|command| command.name);
        names.filter(|name| !is_refused(name)).collect()
    }

    /// Runs a request and returns the bytes of its reply: empty if it is refused or would block.
    pub fn ask(&mut self, args: &[&[u8]]) -> &[u8] {
        if let Lookup::Found(index) = self.table.lookup(args)
            && is_refused(self.table.get(index).name)
        {
            return &[];
        }
        self.run(args)
    }

    /// As [`ask`](Self::ask), whatever it is.
    fn run(&mut self, args: &[&[u8]]) -> &[u8] {
        self.output.clear();
        self.now += self.step_ms;
        let Self { keyspace, state, table, session, output, now, .. } = self;
        let _ = run_alone(&mut Alone { keyspace, state, table }, session, output, *now, args);
        self.let_go();
        &self.output
    }

    /// Ends every wait of the client.
    fn let_go(&mut self) {
        if std::mem::take(&mut self.session.caller.waits) {
            self.state.ledger.waiters.leave(self.session.caller.id);
        }
        while self.state.ledger.waiters.next_ready().is_some() {}
        self.state.unpause(&mut self.keyspace);
        self.session.postponed = None;
        self.session.closing = false;
    }

    /// Replaces the client by a new one; its views go with it.
    pub fn reconnect(&mut self) {
        self.state.views.forget(self.session.branch, self.session.caller.id);
        self.state.ledger.watches.forget(self.session.caller.id);
        self.state.hub.forget(&mut self.session, &mut self.state.ledger.events);
        let ServerState { views, config, clients, clock, .. } = &mut self.state;
        views.attend(&mut self.keyspace, config, clients, clock.turn());
        self.session = Session::in_process();
    }

    /// A new client and only the keys that `kept` wants, as before any request.
    pub fn reset(&mut self, kept: impl Fn(usize, &[u8]) -> bool) {
        self.reconnect();
        (self.now, self.step_ms) = (START_MS, 1);
        for db in 0..DATABASES {
            if self.keyspace.len(db) > ONE_BY_ONE_MAX {
                self.keyspace.clear(db);
            }
            let mut keys = Vec::new();
            self.keyspace.for_each(db, i64::MIN, |entry| {
                if !kept(db, entry.key()) {
                    keys.push(entry.key().to_vec());
                }
            });
            for key in &keys {
                self.keyspace.remove(db, key);
            }
        }
    }

    /// Stops the clock until the next reset, and deletes the keys whose time has come.
    pub fn stop_clock(&mut self) {
        self.step_ms = 0;
        while self.keyspace.expire_cycle(self.now, usize::MAX) > 0 {}
    }

    /// Keys of each database, expired ones included.
    #[must_use]
    pub fn keys(&self) -> [usize; DATABASES] {
        std::array::from_fn(|db| self.keyspace.len(db))
    }

    /// A digest of all data: that of DEBUG DIGEST, whatever state the client is in.
    pub fn digest(&mut self) -> String {
        stillframe_commands::digest::of_all(&mut self.keyspace)
    }

    /// Bytes of the data.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.keyspace.stats().entry_bytes
    }
}

/// Runs a request of the one client of a server without sockets, and leaves to the next request
/// what can wait.
///
/// # Errors
/// Why the request was refused, which is in the reply, too.
pub(crate) fn run_alone(
    alone: &mut Alone<'_>,
    session: &mut Session,
    output: &mut Vec<u8>,
    now: i64,
    args: &[&[u8]],
) -> Result<(), Refusal> {
    let Alone { keyspace, state: server, table } = alone;
    server.clients.serve(session, usize::MAX, 0);
    let out = Out::new(output, session.protocol);
    let (refused, meanwhile, branch) = (None, None, None);
    let mut ctx =
        Context { keyspace, server, session, out, now, table, refused, meanwhile, branch };
    commands::dispatch(&mut ctx, args);
    let outcome = ctx.refused.map_or(Ok(()), Err);
    let _ = keyspace.tend();
    outcome
}

/// A request of a command with a key `K` in each place that a key must be; the other words are
/// numbers.
#[must_use]
pub fn request_of(facts: &'static stillframe_commands::Facts) -> Vec<Vec<u8>> {
    use stillframe_commands::facts::More;
    let mut words: Vec<Vec<u8>> =
        facts.name.split('|').map(|word| word.as_bytes().into()).collect();
    let keys = facts.keys;
    let least = usize::from(facts.arity.unsigned_abs()).max(keys.first as usize + 1);
    while words.len() < least {
        words.push(b"1".to_vec());
    }
    if keys.first > 0 {
        words[keys.first as usize] = b"K".to_vec();
    }
    match keys.more {
        More::Counted { at, .. } => {
            let at = usize::from(at);
            words.resize(words.len().max(at + 2), b"1".to_vec());
            (words[at], words[at + 1]) = (b"1".to_vec(), b"K".to_vec());
        }
        More::Streams(_) => {
            words.truncate(1);
            if facts.name == "xreadgroup" {
                words.extend([&b"GROUP"[..], b"g", b"c"].map(<[u8]>::to_vec));
            }
            words.extend([&b"STREAMS"[..], b"K", b"0"].map(<[u8]>::to_vec));
        }
        More::None | More::Stored(_) | More::Migrated => {}
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While clients are paused nothing expires: a pause that outlived its request would let
    /// `stop_clock` find the same expired keys for ever.
    #[test]
    fn a_pause_ends_with_its_request() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = Config { dir: folder.path().to_owned(), ..Config::default() };
        let mut server = InProcess::new(config).expect("a server");
        server.ask(&[b"SET", b"k", b"v", b"PX", b"1"]);
        server.ask(&[b"CLIENT", b"PAUSE", b"100000"]);
        server.ask(&[b"PING"]);
        server.stop_clock();
        assert_eq!(server.keys()[0], 0);
    }
}
