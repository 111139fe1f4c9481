//! A data directory without a server: for offline tools, and for programs that order requests
//! otherwise than clients do.
//!
//! - One client runs the commands on data; the commands of a server are unknown here, in a log as
//!   well.
//! - Nobody waits: a command that would block gives no reply.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use stillframe_commands::errors::wrong_arity;
use stillframe_commands::{
    Address, Caller, Classes, Context, Handler, Ledger, Lookup, Random, Refusal, Table, flags,
    transactions,
};
use stillframe_durability::Error;
use stillframe_keyspace::{CreateError, Keyspace, KeyspaceOptions};
use stillframe_resp::{Out, Protocol};

use crate::clock::unix_millis;
use crate::dump::{DataDirectory, SaveError};
use crate::error::StorageError;
use crate::replay::{ReplayError, Replays};
use crate::settings::Settings;
use crate::storage::{Host, Parts, Storage, load_dump, recover_log};
use crate::wake;

/// See the head of this file.
pub struct Standalone {
    /// The data.
    pub keyspace: Keyspace,
    /// What is kept beside the data.
    pub ledger: Ledger,
    /// Dumps and the log.
    pub storage: Storage,
    table: Table<Infallible>,
    client: Client,
}

/// A client without an address.
pub struct Client(Caller);

impl Default for Client {
    /// One whose requests run again.
    fn default() -> Self {
        let mut caller = Caller::new(0, Address::Net(SocketAddr::from(([127, 0, 0, 1], 0))));
        caller.internal = true;
        Self(caller)
    }
}

impl AsMut<Caller> for Client {
    fn as_mut(&mut self) -> &mut Caller {
        &mut self.0
    }
}

impl Standalone {
    /// Loads a data directory as a server does at its start: the dump, then the log behind it,
    /// which goes on, or begins, if `settings` want one.
    ///
    /// # Errors
    /// [`StorageError`]: which file, what is wrong with it, what to do.
    pub fn open(
        directory: DataDirectory,
        settings: Settings,
        options: &KeyspaceOptions,
    ) -> Result<Self, StorageError> {
        let of_commands = stillframe_commands::Settings {
            bulk_bytes_max: 512 << 20,
            notify: Classes::default(),
            compresses: settings.rdbcompression,
            expiring_version: settings.rdb_version.for_expiring_fields(),
            counts_frequency: false,
            keeps_uses: false,
        };
        let mut table = Table::empty();
        stillframe_commands::register(&mut table);
        let storage = Storage::new(directory, settings, wake::nobody());
        let mut client = Client::default();
        client.0.internal = false;
        let mut opened = Self {
            keyspace: Keyspace::create(options)?,
            ledger: Ledger::new(of_commands, Random::seeded()),
            storage: storage.map_err(CreateError::from)?,
            table,
            client,
        };
        load_dump(&mut opened, false)?;
        recover_log(&mut opened)?;
        opened.storage.end_load();
        Ok(opened)
    }

    /// Runs a request, and returns its reply as RESP2. A write is not in the log before
    /// [`attend`](Self::attend).
    ///
    /// # Errors
    /// Why the request is refused; nothing, or what it had done so far, has changed.
    pub fn run(&mut self, args: &[&[u8]]) -> Result<Vec<u8>, Refusal> {
        let mut reply = Vec::new();
        let mut client = std::mem::take(&mut self.client);
        let outcome = self.answer(&mut client.0, unix_millis(), args, &mut reply);
        if std::mem::take(&mut client.0.waits) {
            self.ledger.waiters.leave(client.0.id);
        }
        while self.ledger.waiters.next_ready().is_some() {}
        self.client = client;
        outcome.map(|()| reply)
    }

    /// The end of a turn: passes on to the log what requests did, lets the log follow the settings,
    /// begins the save that is due, and notes the end of the one under way.
    pub fn attend(&mut self) {
        let Self { keyspace, ledger, storage, .. } = self;
        storage.hand_on(keyspace, ledger, |_| {});
        storage.attend_log(keyspace, ledger, Instant::now(), true, || None);
        storage.journal.has_failed(keyspace, ledger);
        let _ = keyspace.tend();
        storage.attend(keyspace, ledger);
        if let Some(purpose) = storage.due_save(ledger) {
            // A failure is logged, and the save retried after a pause.
            let _ = storage.begin(keyspace, ledger, None, purpose);
        }
    }

    /// Saves all data, and waits until that is on the disk.
    ///
    /// # Errors
    /// One sentence; the old dump is untouched.
    pub fn save(&mut self) -> Result<(), SaveError> {
        let Self { keyspace, ledger, storage, .. } = self;
        storage.hand_on(keyspace, ledger, |_| {});
        storage.wait(keyspace, ledger);
        storage.save_and_wait(keyspace, ledger, None)
    }

    /// Ends the save under way, and the log when all that is in it is durable.
    ///
    /// # Errors
    /// Why records of the log never will be durable.
    pub fn close(mut self) -> Result<(), Error> {
        let Self { keyspace, ledger, storage, .. } = &mut self;
        storage.hand_on(keyspace, ledger, |_| {});
        storage.wait(keyspace, ledger);
        storage.end_log(keyspace, ledger)
    }

    /// The index of a command.
    fn find(&self, args: &[&[u8]]) -> Option<usize> {
        match self.table.lookup(args) {
            Lookup::Found(index) => Some(index),
            Lookup::Unknown | Lookup::UnknownSubcommand => None,
        }
    }

    /// Looks a request up, and runs or queues it.
    fn answer(
        &mut self,
        caller: &mut Caller,
        now: i64,
        args: &[&[u8]],
        reply: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let found = self.find(args).ok_or_else(|| "ERR unknown command".into());
        let checked = found.and_then(|index| self.check(index, caller, args).map(|()| index));
        let index = checked.inspect_err(|_| {
            if let Some(transaction) = &mut caller.transaction {
                transaction.failed = true;
            }
        })?;
        let command = self.table.get(index);
        match &mut caller.transaction {
            Some(transaction) if !command.has(flags::NOT_QUEUED) => {
                transaction.requests.push(index, command.flags, args);
                Out::new(reply, Protocol::Resp2).simple("QUEUED");
                Ok(())
            }
            _ => self.perform(index, caller, now, args, reply),
        }
    }

    /// Whether a request may run.
    fn check(&self, index: usize, caller: &Caller, args: &[&[u8]]) -> Result<(), Refusal> {
        let command = self.table.get(index);
        if !command.accepts(args.len()) {
            return Err(wrong_arity(command.name));
        }
        match self.storage.writes_refused() {
            Some(refusal) if command.has(flags::WRITE) && !caller.internal => {
                Err(refusal.as_bytes().to_vec().into())
            }
            _ => Ok(()),
        }
    }

    /// Runs a command, and notes what it did.
    fn perform(
        &mut self,
        index: usize,
        caller: &mut Caller,
        now: i64,
        args: &[&[u8]],
        reply: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let (start, dirty) = (reply.len(), self.ledger.dirty);
        self.ledger.begin(&self.keyspace, caller.db);
        let outcome = match self.table.get(index).handler {
            Handler::Data(handler) => handler(&mut self.context(caller, now, reply), args),
            Handler::Server(none) => match none {},
            Handler::Exec => self.exec(caller, now, reply),
        };
        if outcome.is_err() {
            reply.truncate(start);
        }
        let (keyspace, ledger) = (&mut self.keyspace, &mut self.ledger);
        ledger.note_expired(keyspace);
        if ledger.effects.wanted() {
            let stated = ledger.effects.take_stated();
            if ledger.dirty > dirty && !stated {
                ledger.effects.add(caller.db, args);
            }
            if !ledger.in_exec {
                ledger.effects.seal();
            }
        }
        let _ = keyspace.tend();
        outcome
    }

    fn context<'a>(
        &'a mut self,
        caller: &'a mut Caller,
        now: i64,
        reply: &'a mut Vec<u8>,
    ) -> Context<'a> {
        let (keyspace, ledger) = (&mut self.keyspace, &mut self.ledger);
        Context { keyspace, ledger, caller, out: Out::new(reply, Protocol::Resp2), now }
    }

    /// `EXEC`. In a replay the first refusal of a request is that of all.
    fn exec(&mut self, caller: &mut Caller, now: i64, reply: &mut Vec<u8>) -> Result<(), Refusal> {
        let begun = transactions::begin(&mut self.context(caller, now, reply))?;
        let Some(requests) = begun else { return Ok(()) };
        let mut refused = None;
        requests.for_each(|index, args| {
            if let Err(refusal) = self.perform(index, caller, now, args, reply) {
                Out::new(reply, Protocol::Resp2).error(&refusal);
                refused.get_or_insert(refusal);
            }
        });
        transactions::end(&mut self.context(caller, now, reply));
        refused.filter(|_| caller.internal).map_or(Ok(()), Err)
    }
}

impl Replays for Standalone {
    type Client = Client;

    fn replay(&mut self, client: &mut Client, now: i64, args: &[&[u8]]) -> Result<(), ReplayError> {
        let index = self.find(args).ok_or(ReplayError::Unknown)?;
        let command = self.table.get(index);
        if !command.has(flags::WRITE | flags::MAY_REPLICATE)
            && !matches!(command.name, "select" | "multi" | "exec")
        {
            return Err(ReplayError::ChangesNothing);
        }
        let answered = self.answer(&mut client.0, now, args, &mut Vec::new());
        answered.map_err(ReplayError::Fails)
    }
}

impl Host for Standalone {
    type Error = StorageError;

    fn parts(&mut self) -> Parts<'_> {
        let Self { keyspace, ledger, storage, .. } = self;
        Parts { keyspace, ledger, storage }
    }

    fn turn(&mut self, patience: Duration) -> Result<bool, StorageError> {
        std::thread::sleep(patience.min(Duration::from_millis(1)));
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stillframe_durability::disk::{Location, SimulatedDisk};

    use super::*;

    fn open(disk: &SimulatedDisk, appendonly: bool) -> Result<Standalone, StorageError> {
        let location = Location::on("simulated", Arc::new(disk.clone()));
        let settings = Settings { appendonly, save: Vec::new(), ..Settings::default() };
        let directory = DataDirectory::at(location, &settings.dbfilename)?;
        Standalone::open(directory, settings, &KeyspaceOptions::default())
    }

    fn run(data: &mut Standalone, line: &str) -> String {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        match data.run(&args) {
            Ok(reply) => String::from_utf8_lossy(&reply).replace("\r\n", " ").trim_end().to_owned(),
            Err(refusal) => format!("-{refusal}"),
        }
    }

    /// The log goes on from one opening to the next, transactions and other databases included.
    #[test]
    fn what_is_logged_is_there_when_the_directory_is_opened_again() {
        let disk = SimulatedDisk::default();
        let mut data = open(&disk, true).expect("a sound disk");
        assert_eq!(run(&mut data, "SET k v"), "+OK");
        data.attend();
        data.save().expect("a sound disk");
        for line in ["SELECT 3", "MULTI", "RPUSH list a b", "INCR k"] {
            assert!(run(&mut data, line).starts_with('+'), "{line}");
        }
        assert_eq!(run(&mut data, "EXEC"), "*2 :2 :1");
        data.attend();
        data.close().expect("a sound disk");
        for appendonly in [true, false] {
            let mut data = open(&disk, appendonly).expect("a sound disk");
            assert_eq!(run(&mut data, "GET k"), "$1 v");
            assert_eq!(run(&mut data, "SELECT 3"), "+OK");
            assert_eq!(run(&mut data, "LRANGE list 0 -1"), "*2 $1 a $1 b");
            assert_eq!(data.storage.journal.is_on(), appendonly);
            data.close().expect("a sound disk");
        }
    }

    #[test]
    fn a_request_is_refused_as_by_a_server() {
        let mut data = open(&SimulatedDisk::default(), false).expect("a sound disk");
        assert_eq!(run(&mut data, "SET k"), "-ERR wrong number of arguments for 'set' command");
        assert_eq!(run(&mut data, "CONFIG GET dir"), "-ERR unknown command");
        assert_eq!(run(&mut data, "MULTI"), "+OK");
        assert_eq!(run(&mut data, "NOPE"), "-ERR unknown command");
        assert!(run(&mut data, "EXEC").starts_with("-EXECABORT"));
        assert_eq!(run(&mut data, "BLPOP k 0"), "", "nobody waits");
        assert_eq!(run(&mut data, "RPUSH k 1"), ":1");
        let mut client = Client::default();
        let unknown = data.replay(&mut client, 0, &[b"CONFIG", b"SET", b"dir", b"/"]);
        assert!(matches!(unknown, Err(ReplayError::Unknown)));
        assert!(matches!(
            data.replay(&mut client, 0, &[b"GET", b"k"]),
            Err(ReplayError::ChangesNothing)
        ));
        assert!(matches!(
            data.replay(&mut client, 0, &[b"INCR", b"k"]),
            Err(ReplayError::Fails(_))
        ));
    }
}
