//! This server while it follows a primary.

use stillframe_keyspace::Keyspace;

use crate::commands::Table;
use crate::connections::net::Poller;
use crate::state::ServerState;

/// The server as the target of a primary's bytes, during a turn.
pub(crate) struct Follower<'a> {
    pub(crate) keyspace: &'a mut Keyspace,
    pub(crate) state: &'a mut ServerState,
    pub(crate) table: &'a Table,
    pub(crate) poller: &'a Poller,
}
