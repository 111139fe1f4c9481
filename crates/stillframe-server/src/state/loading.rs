//! What the server refuses, and tells, while data is loaded.

use stillframe_redis::{Command, flags};

use super::ServerState;
use crate::client::Session;
use crate::loading::Loading;

impl ServerState {
    /// Whether data is being loaded, at start or from a primary.
    #[inline]
    pub(crate) fn is_loading(&self) -> bool {
        self.storage.loading.is_some() || self.replication.is_loading()
    }

    /// How far that is.
    pub(crate) fn progress_of_loading(&self) -> Option<Loading> {
        let following = self.replication.following.as_ref();
        let load = following.and_then(|following| following.load());
        self.storage.loading.or_else(|| load.map(|load| load.progress()))
    }

    /// Why a command, or an EXEC of it, may not run while data is loaded.
    #[inline]
    pub(crate) fn loading_refuses<S>(
        &self,
        command: &Command<S>,
        session: &Session,
    ) -> Option<&'static str> {
        (self.is_loading() && session.lacks(command, flags::LOADING))
            .then_some("LOADING Redis is loading the dataset in memory")
    }
}
