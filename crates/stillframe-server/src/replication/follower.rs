//! This server while it follows a primary.

use stillframe_keyspace::Keyspace;

use crate::commands::Table;
use crate::net::Poller;
use crate::state::ServerState;

/// What the words of a primary are for, during a turn.
pub(crate) struct Follower<'a> {
    pub(crate) keyspace: &'a mut Keyspace,
    pub(crate) state: &'a mut ServerState,
    pub(crate) table: &'a Table,
    pub(crate) poller: &'a Poller,
}
