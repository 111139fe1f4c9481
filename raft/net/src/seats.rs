//! Places for the connections of a listener.
//!
//! Connections that have not said who they are, those of one node, and all of them are limited; of
//! the first two the oldest makes room, so that neither strangers nor connections whose other end
//! is gone keep a node out.

use std::collections::BTreeMap;
use std::mem::{Discriminant, discriminant};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::error::Error;
use crate::settings::Settings;

/// A fault of the same kind at the same address is told once in so long.
const TOLD_AGAIN: Duration = Duration::from_secs(60);

/// The connections of a listener.
pub(crate) struct Connections {
    inner: Mutex<Inner>,
    total_max: usize,
    per_node_max: usize,
    handshakes_max: usize,
}

/// Told when a connection has to make room.
pub(crate) type Leave = Arc<Notify>;

#[derive(Default)]
struct Inner {
    last: u64,
    total: usize,
    /// The last fault that was told.
    told: Option<(IpAddr, Discriminant<Error>, Instant)>,
    /// By age: those that have not said who they are, under `None`; those of each node.
    seats: BTreeMap<Option<u64>, BTreeMap<u64, Leave>>,
}

/// The place of a connection among the others, until dropped.
pub(crate) struct Seat {
    connections: Arc<Connections>,
    number: u64,
    node: Option<u64>,
    leave: Leave,
}

impl Connections {
    pub(crate) fn new(settings: &Settings) -> Self {
        let limits = &settings.limits;
        Self {
            inner: Mutex::default(),
            total_max: limits.connections_max,
            per_node_max: limits.connections_per_node_max,
            handshakes_max: limits.handshakes_max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Taken though poisoned: it is whole between statements.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this fault is another than the last one, or that one was long ago: then it is to be
    /// told.
    pub(crate) fn is_new(&self, address: IpAddr, error: &Error) -> bool {
        let (kind, now) = (discriminant(error), Instant::now());
        let mut inner = self.lock();
        let known = inner.told.is_some_and(|(last, its_kind, at)| {
            (last, its_kind) == (address, kind) && now.duration_since(at) < TOLD_AGAIN
        });
        if !known {
            inner.told = Some((address, kind, now));
        }
        !known
    }

    /// A place for a connection that has just come.
    pub(crate) fn admit(self: &Arc<Self>) -> Seat {
        let mut inner = self.lock();
        inner.last += 1;
        let number = inner.last;
        let leave = inner.sit(None, number, Leave::default(), self.handshakes_max);
        Seat { connections: Arc::clone(self), number, node: None, leave }
    }
}

impl Inner {
    /// Gives a connection a place; the oldest of the same kind makes room if there are too many.
    fn sit(&mut self, node: Option<u64>, number: u64, leave: Leave, most: usize) -> Leave {
        let seats = self.seats.entry(node).or_default();
        seats.insert(number, Arc::clone(&leave));
        if seats.len() > most.max(1)
            && let Some((_, oldest)) = seats.pop_first()
        {
            oldest.notify_one();
        }
        leave
    }

    fn rise(&mut self, node: Option<u64>, number: u64) {
        if let Some(seats) = self.seats.get_mut(&node) {
            seats.remove(&number);
            if seats.is_empty() {
                self.seats.remove(&node);
            }
        }
    }
}

impl Seat {
    /// The connection is of this node. False if there are too many connections.
    pub(crate) fn belongs_to(&mut self, node: u64) -> bool {
        let mut inner = self.connections.lock();
        if inner.total >= self.connections.total_max {
            return false;
        }
        inner.total += 1;
        inner.rise(None, self.number);
        let most = self.connections.per_node_max;
        inner.sit(Some(node), self.number, Arc::clone(&self.leave), most);
        self.node = Some(node);
        true
    }

    /// Ends when another connection takes the place.
    pub(crate) async fn left(leave: Leave) {
        leave.notified().await;
    }

    pub(crate) fn leave(&self) -> Leave {
        Arc::clone(&self.leave)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut inner = self.connections.lock();
        inner.rise(self.node, self.number);
        if self.node.is_some() {
            inner.total -= 1;
        }
    }
}
