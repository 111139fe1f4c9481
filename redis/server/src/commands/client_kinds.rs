//! The types of clients, and the letters for their state.

use stillframe_commands::Address;

use crate::connections::client::{Replica, Session};

/// The type of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Normal,
    Primary,
    Replica,
    Subscriber,
}

impl Class {
    pub(super) fn parse(kind: &[u8]) -> Option<Self> {
        match kind.to_ascii_lowercase().as_slice() {
            b"normal" => Some(Self::Normal),
            b"master" | b"primary" => Some(Self::Primary),
            b"replica" | b"slave" => Some(Self::Replica),
            b"pubsub" => Some(Self::Subscriber),
            _ => None,
        }
    }

    pub(super) fn from_session(session: &Session) -> Self {
        if session.caller.internal {
            Self::Primary
        } else if session.replica.as_deref().is_some_and(Replica::is_real) {
            Self::Replica
        } else if session.subscriptions.is_some() {
            Self::Subscriber
        } else {
            Self::Normal
        }
    }
}

/// The letters of Redis and Valkey for the state of a client.
pub(super) const KNOWN_FLAGS: &[u8] = b"NOSMPxdbtRBrcuUAeTIi";

/// The state of a client in letters, in Redis's order.
pub(super) fn flags(session: &Session) -> String {
    let tracking = session.tracking.as_deref();
    let replica = session.replica.as_deref().is_some_and(Replica::is_real);
    let letters = [
        (session.monitors, 'O'),
        (replica, 'S'),
        (session.caller.internal, 'M'),
        (session.subscriptions.is_some(), 'P'),
        (session.caller.transaction.is_some(), 'x'),
        (session.postponed.is_some() || session.caller.waits, 'b'),
        (tracking.is_some(), 't'),
        (tracking.is_some_and(|mode| mode.broken), 'R'),
        (tracking.is_some_and(|mode| mode.broadcast), 'B'),
        (session.reads_locally, 'r'),
        (session.closing, 'c'),
        (matches!(session.caller.peer, Address::Unix(_)), 'U'),
        (session.spared, 'e'),
        (session.touches_nothing, 'T'),
    ];
    let flags: String = letters.into_iter().filter(|(is, _)| *is).map(|(_, c)| c).collect();
    if flags.is_empty() { "N".to_owned() } else { flags }
}
