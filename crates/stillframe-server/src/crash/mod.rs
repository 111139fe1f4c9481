//! A server on a disk that loses power and fails calls: the proof that its dump file and its log
//! survive both. It has no sockets, and its one client runs commands between two turns.

use std::sync::Arc;
use std::time::Duration;

use stillframe_durability::disk::{Fault, Files, Place, SimulatedDisk};
use stillframe_keyspace::Keyspace;
use stillframe_resp::Out;

use crate::acl::{Catalog, Users};
use crate::client::Session;
use crate::commands::{self, Context, Table};
use crate::host::{Host, Parts};
use crate::net::Poller;
use crate::persistence::{self, DataDirectory, Loaded, Saves};
use crate::state::ServerState;
use crate::{Config, ServeError, journal};

mod logs;
mod saves;

const FAULTS: [Fault; 4] = [Fault::IO, Fault::DISK_FULL, Fault::INTERRUPTED, Fault::ShortWrite];

pub(crate) struct Server {
    pub(crate) keyspace: Keyspace,
    pub(crate) state: ServerState,
    pub(crate) table: Table,
    session: Session,
    pub(crate) poller: Poller,
}

impl Server {
    /// Starts as `serve` does: loads the dump file, recovers the log or begins one.
    pub(crate) fn start(disk: &SimulatedDisk, appendonly: bool) -> Result<Self, ServeError> {
        let mut config = Config::default();
        let appendonly = if appendonly { "yes" } else { "no" };
        let settings = [("appendonly", appendonly), ("appendfsync", "always"), ("save", "")];
        for (name, value) in settings.into_iter().chain([("rdbcompression", "no")]) {
            config.set(name, &[value]).expect("a setting");
        }
        let place = Place::on("simulated", Arc::new(disk.clone()));
        let directory = DataDirectory::at(place, &config.dbfilename)?;
        let poller = Poller::new().expect("events");
        let mut keyspace = Keyspace::create(&config.keyspace_options()).expect("memory");
        let load = directory.begin_load(0)?;
        let loaded = load.map_or(Ok(Loaded::default()), |load| load.rest(&mut keyspace))?;
        let saves = Saves::new(directory, loaded, poller.waker()).expect("memory");
        let table = commands::table();
        let users = Users::new(Catalog::new(&table), &config).expect("users");
        let state = ServerState::new(config, saves, users, 0);
        let session = Session::in_process();
        let mut server = Self { keyspace, state, table, session, poller };
        persistence::recover_log(&mut server)?;
        Ok(server)
    }

    /// Waits until what was done is durable, as a reply would: false if it never is.
    fn commit(&mut self) -> bool {
        journal::hand_on(&mut self.keyspace, &mut self.state);
        while self.state.journal.awaited().is_some() {
            if journal::has_failed(&mut self.keyspace, &mut self.state) {
                return false;
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        !journal::has_failed(&mut self.keyspace, &mut self.state)
    }

    /// Runs a command and gives its reply: none if it would be held, and then it never runs.
    fn run(&mut self, line: &str) -> String {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut reply = Vec::new();
        let mut ctx = Context {
            out: Out::new(&mut reply, self.session.protocol),
            keyspace: &mut self.keyspace,
            now: 0,
            server: &mut self.state,
            session: &mut self.session,
            table: &self.table,
        };
        commands::dispatch(&mut ctx, &args);
        self.session.postponed = None;
        let _ = self.keyspace.tend();
        String::from_utf8_lossy(&reply).into_owned()
    }

    /// How far back `stillframe recover` leads.
    fn kept(&self) -> u64 {
        self.state.journal.kept().images
    }

    /// SAVE, or BGREWRITEAOF and its end.
    fn save(&mut self) -> Result<(), String> {
        let saved = persistence::save_and_wait(&mut self.keyspace, &mut self.state);
        saved.map_err(|error| error.to_string())
    }
}

impl Host for Server {
    fn parts(&mut self) -> Parts<'_> {
        (&mut self.keyspace, &mut self.state)
    }

    fn replay(
        &mut self,
        session: &mut Session,
        replies: &mut Vec<u8>,
        args: &[&[u8]],
    ) -> Result<(), String> {
        let parts = (&mut self.keyspace, &mut self.state, &self.table);
        commands::replay_logged(parts, (session, replies), args)
    }

    fn turn(&mut self, _: Duration) -> Result<bool, ServeError> {
        std::thread::sleep(Duration::from_micros(20));
        Ok(true)
    }
}

/// Names in the root that are neither the dump's nor the directory of logs.
fn leftovers(files: &Files) -> Vec<&String> {
    let mut names: Vec<_> = files.keys().collect();
    names.retain(|name| *name != "dump.rdb" && !name.contains('/'));
    names
}
