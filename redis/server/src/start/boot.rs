//! The start of every program of this crate: the data, the commands, the state beside them.
//!
//! - Nothing here opens a socket or waits for events: this is all that tools, tests and the
//!   fuzzer's server need. [`serve`](crate::serve) puts listeners, TLS and the loop around it.
//! - [`Boot::new`] reads only the settings; [`Boot::open`] takes the data directory.

use std::path::PathBuf;

use stillframe_keyspace::{CreateError, Keyspace, KeyspaceOptions};
use stillframe_storage::dump::DataDirectory;
use stillframe_storage::wake::{self, Wake};
use stillframe_storage::{Storage, StorageError};

use crate::commands::{self, Alone, Table};
use crate::node::acl::{Catalog, Users};
use crate::state::ServerState;
use crate::state::persistence;
use crate::{Config, ServeError};

/// The parts that the settings describe, before any file is touched.
pub(crate) struct Boot {
    pub(crate) config: Config,
    /// The empty keyspace; data may be loaded before the data directory is opened.
    pub(crate) keyspace: Keyspace,
    table: Table,
    users: Users,
}

/// The parts of a server that has no sockets.
pub(crate) struct Opened {
    pub(crate) keyspace: Keyspace,
    pub(crate) state: ServerState,
    pub(crate) table: Table,
}

impl Boot {
    /// Makes commands, users and an empty keyspace as the settings say.
    ///
    /// # Errors
    /// [`ServeError`]: which settings cannot be met.
    pub(crate) fn new(config: Config) -> Result<Self, ServeError> {
        let options = config.keyspace_options();
        Self::with(config, &options)
    }

    /// As [`new`](Self::new), for a tool that takes no image while its data changes.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub(crate) fn offline(config: Config) -> Result<Self, ServeError> {
        let options = config.offline_keyspace_options();
        Self::with(config, &options)
    }

    fn with(config: Config, options: &KeyspaceOptions) -> Result<Self, ServeError> {
        let mut table = commands::table();
        table.rename_all(&config.renames).map_err(ServeError::Commands)?;
        let users = Users::new(Catalog::new(&table), &config).map_err(ServeError::Users)?;
        let mut keyspace = Keyspace::create(options).map_err(StorageError::from)?;
        *keyspace.limits_mut() = config.limits;
        keyspace.count_uses(config.counting());
        Ok(Self { config, keyspace, table, users })
    }

    /// Puts the parts together around a data directory. `wake` wakes the waiter for the end
    /// of saves.
    ///
    /// # Errors
    /// [`StorageError::Keyspace`]: there is no memory.
    pub(crate) fn open(self, directory: DataDirectory, wake: Wake) -> Result<Opened, StorageError> {
        let Self { config, mut keyspace, table, users } = self;
        let storage = Storage::new(directory, config.of_storage(), wake);
        let state = ServerState::new(config, storage.map_err(CreateError::from)?, users);
        keyspace.keep_expired(state.ledger.wants_expired());
        Ok(Opened { keyspace, state, table })
    }

    /// As [`open`](Self::open), for a tool that makes the first dump of a data directory.
    ///
    /// # Errors
    /// [`StorageError::Occupied`] if there is a dump file.
    pub(crate) fn open_empty(self, directory: DataDirectory) -> Result<Opened, StorageError> {
        if directory.has_dump().unwrap_or(true) {
            return Err(StorageError::Occupied { path: directory.dump().to_owned() });
        }
        self.open(directory, wake::nobody())
    }
}

impl Opened {
    /// The target of replayed requests.
    pub(crate) fn alone(&mut self) -> Alone<'_> {
        let Self { keyspace, state, table } = self;
        Alone { keyspace, state, table }
    }

    /// Saves all data; returns the number of keys and the dump file.
    ///
    /// # Errors
    /// [`StorageError::Save`].
    pub(crate) fn save(&mut self) -> Result<(u64, PathBuf), StorageError> {
        let Self { keyspace, state, .. } = self;
        if let Some(label) = state.config.dump_label.take() {
            state.storage.label_next(Box::new(|| Some(label)));
        }
        let (keys, dump) = (keyspace.stats().keys as u64, state.storage.saves.dump().to_owned());
        match persistence::save_and_wait(keyspace, state) {
            Ok(()) => Ok((keys, dump)),
            Err(problem) => Err(StorageError::Save { path: dump, problem: problem.into() }),
        }
    }
}
