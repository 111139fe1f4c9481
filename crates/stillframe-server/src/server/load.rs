//! The loop's part in loading: slices of the dump file, with turns of the loop between them.

use std::time::Duration;

use super::{Server, cron};
use crate::ServeError;
use crate::clock::unix_millis;
use crate::hub::Terms;
use crate::loading::Loading;
use crate::persistence::Load;
use crate::replay::{Host, Parts};
use crate::state::ServerState;

impl Host for Server {
    fn parts(&mut self) -> Parts<'_> {
        (&mut self.keyspace, &mut self.state, &self.table)
    }

    fn turn(&mut self, patience: Duration) -> Result<bool, ServeError> {
        self.hear(patience)?;
        self.serve_share();
        self.state.hub.broadcast_changes(Terms::new(&self.state.config, &self.state.clock));
        self.flush();
        cron::attend_clients(self);
        self.bury();
        Ok(!self.state.process.stops() && !self.state.process.signals.is_asked())
    }
}

impl Server {
    /// Loads the dump file, if there is one; false if the server is to end first.
    pub(crate) fn load(&mut self) -> Result<bool, ServeError> {
        self.load_dump().inspect_err(|error| {
            tracing::error!("{error}");
            tracing::error!("Terminating server after rdb file reading failure.");
        })
    }

    fn go_on_behind(&mut self, load: &mut Load) {
        let ServerState { replication, config, .. } = &mut self.state;
        replication.go_on_behind(load, config.replication.backlog_bytes);
    }

    fn load_dump(&mut self) -> Result<bool, ServeError> {
        // What has expired at a replica goes when its primary says so.
        let is_replica = self.state.config.replication.primary.is_some();
        let now = if is_replica { i64::MIN } else { unix_millis() };
        let load = self.state.storage.saves.directory().begin_load(now)?;
        self.state.storage.loading = Some(Loading::new(load.as_ref().map_or(0, Load::bytes)));
        let Some(mut load) = load else { return Ok(true) };
        load.keep_expired();
        while !load.slice(&mut self.keyspace, self.state.config.key_load_delay_us)? {
            self.go_on_behind(&mut load);
            if let Some(loading) = &mut self.state.storage.loading {
                loading.loaded_bytes = load.offset();
            }
            if !self.turn(Duration::ZERO)? {
                return Ok(false);
            }
        }
        self.go_on_behind(&mut load);
        self.state.storage.saves.loaded = load.finish()?;
        Ok(true)
    }
}
