//! A server on a disk that loses power and fails calls: the proof that its dump file and its log
//! survive both. It has no sockets, and its one client runs commands between two turns.
//!
//! Outcomes are texts here: a proof prints what it finds at a crash point, and no caller goes on
//! behind a failure.

use std::sync::Arc;
use std::time::Duration;

use stillframe_durability::disk::{Fault, Files, Location, SimulatedDisk};
use stillframe_keyspace::Keyspace;
use stillframe_storage::dump::DataDirectory;
use stillframe_storage::recover_log;
use stillframe_storage::wake::{self, Wake};

use crate::commands::{Alone, Table};
use crate::connections::client::Session;
use crate::start::{Boot, Opened};
use crate::state::ServerState;
use crate::state::persistence;
use crate::{Config, ServeError, in_process};

mod logs;
mod saves;

const FAULTS: [Fault; 4] = [Fault::IO, Fault::DISK_FULL, Fault::INTERRUPTED, Fault::ShortWrite];

pub(crate) struct Server {
    pub(crate) keyspace: Keyspace,
    pub(crate) state: ServerState,
    pub(crate) table: Table,
    session: Session,
}

impl Server {
    /// Starts as `serve` does: loads the dump file, recovers the log or begins one.
    pub(crate) fn start(disk: &SimulatedDisk, appendonly: bool) -> Result<Self, ServeError> {
        Self::start_waking(disk, appendonly, wake::nobody())
    }

    /// As [`start`](Self::start); `wake` wakes the waiter for the end of saves.
    pub(crate) fn start_waking(
        disk: &SimulatedDisk,
        appendonly: bool,
        wake: Wake,
    ) -> Result<Self, ServeError> {
        let mut config = Config::default();
        let appendonly = if appendonly { "yes" } else { "no" };
        let settings = [("appendonly", appendonly), ("appendfsync", "always"), ("save", "")];
        for (name, value) in settings.into_iter().chain([("rdbcompression", "no")]) {
            config.set(name, &[value]).expect("a setting");
        }
        let location = Location::on("simulated", Arc::new(disk.clone()));
        let directory = DataDirectory::at(location, &config.dbfilename)?;
        let mut opened = Boot::new(config)?.open(directory, wake)?;
        if let Some(load) = opened.state.storage.saves.directory().begin_load(0)? {
            opened.state.storage.saves.loaded = load.rest(&mut opened.keyspace)?;
        }
        recover_log(&mut opened.alone())?;
        let Opened { keyspace, state, table } = opened;
        Ok(Self { keyspace, state, table, session: Session::in_process() })
    }

    /// Waits until what was done is durable, as a reply would: false if it never is.
    pub(crate) fn commit(&mut self) -> bool {
        persistence::hand_on(&mut self.keyspace, &mut self.state);
        while self.state.storage.journal.awaited().is_some() {
            if self.has_failed() {
                return false;
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        !self.has_failed()
    }

    fn has_failed(&mut self) -> bool {
        self.state.storage.journal.has_failed(&mut self.keyspace, &mut self.state.ledger)
    }

    /// Runs a command and gives its reply: none if it would be postponed, and then it never runs.
    pub(crate) fn run(&mut self, line: &str) -> String {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut reply = Vec::new();
        let Self { keyspace, state, table, session, .. } = self;
        let mut alone = Alone { keyspace, state, table };
        let _ = in_process::run_alone(&mut alone, session, &mut reply, 0, &args);
        self.session.postponed = None;
        String::from_utf8_lossy(&reply).into_owned()
    }

    /// How far back `stillframe rewind` leads.
    fn kept(&self) -> u64 {
        self.state.storage.journal.kept().images
    }

    /// SAVE, or BGREWRITEAOF and its end.
    pub(crate) fn save(&mut self) -> Result<(), String> {
        let saved = persistence::save_and_wait(&mut self.keyspace, &mut self.state);
        saved.map_err(|error| error.to_string())
    }
}

/// Names in the root that are neither the dump's nor the directory of logs.
fn leftovers(files: &Files) -> Vec<&String> {
    let mut names: Vec<_> = files.keys().collect();
    names.retain(|name| *name != "dump.rdb" && !name.contains('/'));
    names
}
