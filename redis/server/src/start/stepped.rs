//! A server whose turns its caller takes, on a disk of the caller's, without a port or a thread:
//! for simulations.

use std::io;
use std::sync::mpsc::channel;
use std::time::Duration;

use stillframe_durability::disk::Location;
use stillframe_storage::dump::DataDirectory;
use stillframe_storage::load_dump;

use super::{Boot, Opened, check_member};
use crate::connections::net::{Connection, Listeners, Network, Poller, Porch};
use crate::connections::tls::Tls;
use crate::consensus::{Start, View};
use crate::node::process::Signals;
use crate::turn::Server;
use crate::{Config, ServeError};

/// See the head of this file.
pub struct Stepped {
    server: Server,
    porch: Porch,
}

impl Stepped {
    /// Starts a member of a group: loads its dump, and takes part.
    ///
    /// # Errors
    /// [`ServeError`], as of a server of its own.
    pub fn start(config: Config, location: Location, start: Start) -> Result<Self, ServeError> {
        check_member(&config)?;
        let directory = DataDirectory::at(location, &config.dbfilename)?;
        let mut poller = Poller::new().map_err(ServeError::Events)?;
        let porch = poller.open_porch();
        let network = Network::new(Listeners::bind(&config, &poller)?, Tls::new(&config)?);
        let opened = Boot::new(config)?.open(directory, poller.waker().into_wake())?;
        let Opened { keyspace, mut state, table } = opened;
        state.net = network;
        state.process.heed(Signals::asked_by(channel().0).0);
        let mut server = Server::new(keyspace, state, table, poller);
        if !load_dump(&mut server, true)? {
            return Err(ServeError::Died);
        }
        server.state.storage.end_load();
        server.join(start)?;
        Ok(Self { server, porch })
    }

    /// A new connection of a client.
    ///
    /// # Errors
    /// The server accepts nobody any more.
    pub fn connect(&self) -> io::Result<Connection> {
        self.porch.connect().map(Connection::new)
    }

    /// Takes a turn without a wait.
    ///
    /// # Errors
    /// [`ServeError`]: the server ends.
    pub fn turn(&mut self) -> Result<(), ServeError> {
        self.server.take_turn(Duration::ZERO)
    }

    /// What this member knows of its group.
    #[must_use]
    pub fn view(&self) -> Option<&View> {
        Some(self.server.state.group.member()?.view())
    }

    /// The term in which this member leads and serves, if it does.
    #[must_use]
    pub fn leads(&self) -> Option<u64> {
        let member = self.server.state.group.member()?;
        member.serves().then_some(member.view().term)
    }

    /// A digest of all data: that of DEBUG DIGEST.
    pub fn digest(&mut self) -> String {
        stillframe_commands::digest::of_all(&mut self.server.keyspace)
    }
}
