//! Clients while data is loaded at start: they are answered what needs no data, and LOADING.
//!
//! - The command thread loads in slices, and serves clients for a turn between two of them. What
//!   they may ask for meanwhile does not touch the data.
//! - Half of the data is no state: nothing is saved, logged, expired or evicted before all is here.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use stillframe::Algorithm;

use crate::clock::unix_millis;
use crate::host::{Host, Parts};
use crate::persistence::Load;
use crate::server::Server;
use crate::session::Session;
use crate::state::ServerState;
use crate::{ServeError, cron};
use stillframe_redis::{Command, flags};

/// Loading at start, or of a primary's image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loading {
    /// When it began.
    pub(crate) started: Instant,
    /// That in unix seconds.
    pub(crate) started_s: i64,
    /// Bytes of the file, or of the log.
    pub(crate) total_bytes: u64,
    /// Those of them that are loaded.
    pub(crate) loaded_bytes: u64,
}

impl Loading {
    /// Nothing of so many bytes is loaded.
    pub(crate) fn new(total_bytes: u64) -> Self {
        let (started, started_s) = (Instant::now(), unix_millis() / 1000);
        Self { started, started_s, total_bytes, loaded_bytes: 0 }
    }

    /// The share that is loaded, from 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        self.loaded_bytes as f64 / self.total_bytes.max(1) as f64
    }

    /// Time left, if the rest takes as long per byte as what is loaded.
    pub(crate) fn left(&self) -> Duration {
        let factor = 1.0 / self.share().max(1e-6) - 1.0;
        Duration::try_from_secs_f64(self.started.elapsed().as_secs_f64() * factor)
            .unwrap_or_default()
    }
}

impl<A: Algorithm> Host for Server<A> {
    type Algorithm = A;

    fn parts(&mut self) -> Parts<'_, A> {
        (&mut self.keyspace, &mut self.state, &self.table)
    }

    fn turn(&mut self, patience: Duration) -> Result<bool, ServeError> {
        self.hear(patience)?;
        self.serve_share();
        self.state.broadcast_changes();
        self.flush();
        cron::attend_clients(self);
        self.bury();
        Ok(!self.state.stopping && !self.signalled.load(Ordering::Relaxed))
    }
}

impl<A: Algorithm> Server<A> {
    /// Loads the dump file, if there is one; false if the server is to end first.
    pub(crate) fn load(&mut self) -> Result<bool, ServeError> {
        self.load_dump().inspect_err(|error| {
            tracing::error!("{error}");
            tracing::error!("Terminating server after rdb file reading failure.");
        })
    }

    fn load_dump(&mut self) -> Result<bool, ServeError> {
        // What has expired at a replica goes when its primary says so.
        let is_replica = self.state.config.replication.primary.is_some();
        let now = if is_replica { i64::MIN } else { unix_millis() };
        let load = self.state.saves.directory().begin_load(now)?;
        self.state.loading = Some(Loading::new(load.as_ref().map_or(0, Load::bytes)));
        let Some(mut load) = load else { return Ok(true) };
        load.keep_expired();
        while !load.slice(&mut self.keyspace, self.state.config.key_load_delay_us)? {
            self.state.go_on_behind(&mut load);
            if let Some(loading) = &mut self.state.loading {
                loading.loaded_bytes = load.offset();
            }
            if !self.turn(Duration::ZERO)? {
                return Ok(false);
            }
        }
        self.state.go_on_behind(&mut load);
        self.state.saves.loaded = load.finish()?;
        Ok(true)
    }
}

impl ServerState {
    /// Whether data is being loaded, at start or from a primary.
    #[inline]
    pub(crate) fn is_loading(&self) -> bool {
        self.loading.is_some() || self.replication.is_loading()
    }

    /// How far that is.
    pub(crate) fn progress_of_loading(&self) -> Option<Loading> {
        let following = self.replication.following.as_ref();
        let load = following.and_then(|following| following.load());
        self.loading.or_else(|| load.map(|load| load.progress()))
    }

    /// Why a command, or an EXEC of it, may not run while data is loaded.
    #[inline]
    pub(crate) fn loading_refuses<A: Algorithm, S>(
        &self,
        command: &Command<A, S>,
        session: &Session,
    ) -> Option<&'static str> {
        (self.is_loading() && session.lacks(command, flags::LOADING))
            .then_some("LOADING Redis is loading the dataset in memory")
    }
}
