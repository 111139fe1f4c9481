//! Clients that wait for a key to hold what they can take: BLPOP and its kin.
//!
//! - A waiter leaves a request behind: once one of its keys is ready, `before key own after` runs
//!   as if the client had sent it just then. So a command has one handler for both cases. A handler
//!   that finds nothing for the client (a stream was only trimmed) leaves it waiting.
//! - The waiters of a key are served first come, first served. A waiter that cannot be served yet
//!   (the key holds another type) keeps its place.
//! - A key becomes ready by any change; serving looks at what it holds. Serving
//!   happens at the end of the command that changed the key, never within a transaction.
//! - A waiter stands in the queue of each of its keys once, in the table of clients, among the
//!   deadlines if it has one, and among those to be looked at; it leaves all four together.
//! - Time alone may bring what a waiter wants (XREADGROUP with CLAIM): its request then runs again
//!   at the time that it has named.
//! - The time of a change, or of a client's leaving, does not grow with the clients that wait for
//!   the same key or with the ready keys: hostile clients would make them many.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use stillframe_keyspace::{DATABASES, Type};

use crate::caller::Caller;

/// A client that waits.
pub struct Waiter {
    /// Its place in the registry of clients.
    pub place: usize,
    /// The database of its keys.
    pub db: usize,
    /// Its keys; which one comes first does not matter once it waits.
    pub keys: Vec<Wanted>,
    /// What a key has to hold for it.
    pub kind: Type,
    /// Its request also runs when a key is gone or of another type, to refuse it.
    pub needs_keys: bool,
    /// When it gives up.
    pub deadline: Option<Instant>,
    /// Index of its command in the table.
    pub command: usize,
    /// Arguments of the request to run, before the key that became ready.
    pub before: Vec<Box<[u8]>>,
    /// Arguments after it.
    pub after: Vec<Box<[u8]>>,
    /// It waits for replicas, not for keys.
    pub acks: Option<Acks>,
    /// When its request is to be run again although no key has changed.
    pub again: Option<Instant>,
    /// When it came: its place in the queues of its keys. Given to it by [`Waiters::park`].
    pub ticket: u64,
}

impl Waiter {
    /// A client that waits for something else than keys.
    pub fn without_keys(caller: &Caller) -> Self {
        Self {
            place: caller.place,
            db: caller.db,
            keys: Vec::new(),
            kind: Type::String, // of no key
            needs_keys: false,
            deadline: None,
            command: caller.last_command,
            before: Vec::new(),
            after: Vec::new(),
            acks: None,
            again: None,
            ticket: 0,
        }
    }
}

/// A key that a client waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    /// The key.
    pub key: Box<[u8]>,
    /// The argument behind the key in the request to run, if each key has one of its own.
    pub own: Option<Box<[u8]>>,
}

/// The clients that wait for one key.
#[derive(Default)]
struct Queue {
    /// Numbers of clients by their tickets: first come first.
    waiters: BTreeMap<u64, u64>,
    /// How many of them [need](Waiter::needs_keys) the key.
    needing: usize,
    /// The key is among those that are ready.
    is_ready: bool,
}

/// What WAIT and WAITAOF wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acks {
    /// Replicas must have applied the stream up to this offset.
    pub offset: u64,
    /// This many of them.
    pub wanted: usize,
    /// WAITAOF: what is on disks counts, and the log of this server.
    pub log: Option<LogAck>,
}

/// What WAITAOF wants of the log of this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogAck {
    /// Records up to this one are to be on the disk.
    pub record: u64,
    /// It waits for them.
    pub wanted: bool,
}

impl Waiter {
    /// The request to run for a key.
    pub fn request<'a>(&'a self, key: &'a [u8]) -> Vec<&'a [u8]> {
        let own = self.keys.iter().find(|wanted| *wanted.key == *key);
        let own = own.and_then(|wanted| wanted.own.as_deref());
        let before = self.before.iter().map(AsRef::as_ref);
        let after = self.after.iter().map(AsRef::as_ref);
        before.chain([key]).chain(own).chain(after).collect()
    }
}

/// All waiters.
#[derive(Default)]
pub struct Waiters {
    /// The waiting clients, by database and key.
    queues: [HashMap<Box<[u8]>, Queue>; DATABASES],
    clients: HashMap<u64, Waiter>,
    deadlines: BTreeSet<(Instant, u64)>,
    /// Clients to be looked at although no key has changed, by the time of that.
    again: BTreeSet<(Instant, u64)>,
    /// Keys changed since they were last served, in that order, each once.
    ready: VecDeque<(usize, Box<[u8]>)>,
    /// Clients that [need](Waiter::needs_keys) their keys.
    needing: usize,
    /// Keys that a client needs.
    needed_keys: usize,
    /// Tickets given so far.
    tickets: u64,
}

impl Waiters {
    /// Makes a client wait.
    pub fn park(&mut self, id: u64, mut waiter: Waiter) {
        // Of a key that is named twice, the first counts.
        waiter.keys.sort_by(|a, b| a.key.cmp(&b.key));
        waiter.keys.dedup_by(|later, first| later.key == first.key);
        self.tickets += 1;
        waiter.ticket = self.tickets;
        self.put_back(id, waiter);
    }

    /// Puts a client back that has left and waits on, in its old place.
    pub fn put_back(&mut self, id: u64, waiter: Waiter) {
        for Wanted { key, .. } in &waiter.keys {
            let queue = self.queues[waiter.db].entry(key.clone()).or_default();
            queue.waiters.insert(waiter.ticket, id);
            self.needed_keys += usize::from(waiter.needs_keys && queue.needing == 0);
            queue.needing += usize::from(waiter.needs_keys);
        }
        self.deadlines.extend(waiter.deadline.map(|deadline| (deadline, id)));
        self.again.extend(waiter.again.map(|again| (again, id)));
        self.needing += usize::from(waiter.needs_keys);
        self.clients.insert(id, waiter);
    }

    /// Takes a client out of all queues: it is served, gives up, or is gone.
    pub fn leave(&mut self, id: u64) -> Option<Waiter> {
        let waiter = self.clients.remove(&id)?;
        self.needing -= usize::from(waiter.needs_keys);
        let queues = &mut self.queues[waiter.db];
        for Wanted { key, .. } in &waiter.keys {
            if let Some(queue) = queues.get_mut(key) {
                queue.waiters.remove(&waiter.ticket);
                queue.needing -= usize::from(waiter.needs_keys);
                self.needed_keys -= usize::from(waiter.needs_keys && queue.needing == 0);
                if queue.waiters.is_empty() {
                    queues.remove(key);
                }
            }
        }
        if let Some(deadline) = waiter.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        if let Some(again) = waiter.again {
            self.again.remove(&(again, id));
        }
        Some(waiter)
    }

    /// A key was changed: clients that wait for it are served at the end of the command.
    #[inline]
    pub fn touch(&mut self, db: usize, key: &[u8]) {
        if !self.queues[db].is_empty() {
            self.note(db, key);
        }
    }

    fn note(&mut self, db: usize, key: &[u8]) {
        if let Some(queue) = self.queues[db].get_mut(key)
            && !std::mem::replace(&mut queue.is_ready, true)
        {
            self.ready.push_back((db, key.into()));
        }
    }

    /// The database holds other keys than before: clients that wait for one of these are served, or
    /// refused as they need it.
    pub fn touch_all(&mut self, db: usize, mut exists: impl FnMut(&[u8]) -> bool) {
        let mut found: Vec<_> = self.queues[db].keys().filter(|key| exists(key)).cloned().collect();
        found.sort_unstable();
        found.iter().for_each(|key| self.note(db, key));
    }

    /// Whether a key with waiting clients was changed.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The key that was changed first, as database and name.
    pub fn next_ready(&mut self) -> Option<(usize, Box<[u8]>)> {
        let (db, key) = self.ready.pop_front()?;
        if let Some(queue) = self.queues[db].get_mut(&key) {
            queue.is_ready = false;
        }
        Some((db, key))
    }

    /// The first client, from the given ticket in the queue of a key on, that waits for a value of
    /// type `kind` (`None`: the key is gone), or is to be refused as it needs another; and its
    /// ticket.
    pub fn first(
        &self,
        (db, key): (usize, &[u8]),
        from: u64,
        kind: Option<Type>,
    ) -> Option<(u64, u64)> {
        let queue = self.queues[db].get(key)?;
        if kind.is_none() && queue.needing == 0 {
            return None;
        }
        let fits = |waiter: &Waiter| waiter.needs_keys || Some(waiter.kind) == kind;
        let fits = |id: &u64| self.clients.get(id).is_some_and(fits);
        let found = queue.waiters.range(from..).find(|(_, id)| fits(id));
        found.map(|(&ticket, &id)| (ticket, id))
    }

    /// Whether a client waits that needs its keys.
    pub fn need_keys(&self) -> bool {
        self.needing > 0
    }

    /// The condition of a client that waits for replicas.
    pub fn acks(&self, id: u64) -> Option<Acks> {
        self.clients.get(&id)?.acks
    }

    /// One of the keys that a client waits for.
    pub fn key(&self, id: u64) -> Option<&[u8]> {
        self.clients.get(&id)?.keys.first().map(|wanted| &*wanted.key)
    }

    /// All waiting clients, by number.
    pub fn all(&self) -> Vec<u64> {
        self.clients.keys().copied().collect()
    }

    /// How many clients wait.
    pub fn count(&self) -> usize {
        self.clients.len()
    }

    /// How many keys clients wait for.
    pub fn keys(&self) -> usize {
        self.queues.iter().map(HashMap::len).sum()
    }

    /// How many of these a client [needs](Waiter::needs_keys).
    pub fn needed_keys(&self) -> usize {
        self.needed_keys
    }

    /// How many clients have a deadline.
    pub fn with_deadline(&self) -> usize {
        self.deadlines.len()
    }

    /// When the next one gives up.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// When the next one is to be looked at.
    pub fn next_look(&self) -> Option<Instant> {
        self.again.first().map(|(again, _)| *again)
    }

    /// A client to be looked at by `now`.
    pub fn to_look_at(&self, now: Instant) -> Option<u64> {
        self.again.first().filter(|(again, _)| *again <= now).map(|(_, id)| *id)
    }

    /// A client that gives up at `now`.
    pub fn overdue(&self, now: Instant) -> Option<u64> {
        self.deadlines.first().filter(|(deadline, _)| *deadline <= now).map(|(_, id)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn waiter(db: usize, keys: &[&[u8]], kind: Type, deadline: Option<Instant>) -> Waiter {
        let keys = keys.iter().map(|&key| Wanted { key: key.into(), own: None }).collect();
        let (before, after) = (Vec::new(), Vec::new());
        let (acks, again, ticket) = (None, None, 0);
        let needs_keys = kind == Type::Stream;
        let command = 0;
        Waiter {
            place: 0,
            db,
            keys,
            kind,
            needs_keys,
            deadline,
            command,
            before,
            after,
            acks,
            again,
            ticket,
        }
    }

    #[test]
    fn a_key_is_served_in_the_order_of_arrival_past_those_who_want_another_type() {
        let mut blocked = Waiters::default();
        blocked.park(7, waiter(0, &[b"k"], Type::Sorted, None));
        blocked.park(3, waiter(0, &[b"x", b"k", b"k"], Type::List, None));
        blocked.park(5, waiter(0, &[b"k"], Type::List, None));
        blocked.touch(1, b"k");
        assert!(!blocked.has_ready(), "another database");
        blocked.touch(0, b"x");
        blocked.touch(0, b"k");
        blocked.touch(0, b"x");
        assert_eq!(blocked.next_ready(), Some((0, (*b"x").into())));
        assert_eq!(blocked.next_ready(), Some((0, (*b"k").into())));
        assert_eq!(blocked.next_ready(), None);
        assert_eq!(blocked.first((0, b"k"), 0, Some(Type::List)), Some((2, 3)));
        blocked.leave(3);
        assert_eq!(blocked.first((0, b"x"), 0, Some(Type::List)), None);
        assert_eq!(blocked.first((0, b"k"), 2, Some(Type::List)), Some((3, 5)));
        assert_eq!(blocked.first((0, b"k"), 0, Some(Type::Sorted)), Some((1, 7)));
    }

    #[test]
    fn who_needs_a_key_is_found_whatever_becomes_of_it_and_keeps_its_place() {
        let mut blocked = Waiters::default();
        blocked.park(1, waiter(0, &[b"k"], Type::List, None));
        assert_eq!(blocked.first((0, b"k"), 0, None), None);
        blocked.park(2, waiter(0, &[b"k", b"l"], Type::Stream, None));
        blocked.park(3, waiter(0, &[b"k"], Type::Stream, None));
        assert_eq!(blocked.first((0, b"k"), 0, None), Some((2, 2)));
        assert_eq!((blocked.keys(), blocked.needed_keys()), (2, 2));
        assert_eq!(blocked.first((0, b"k"), 0, Some(Type::Set)), Some((2, 2)));
        let left = blocked.leave(2).expect("it waits");
        assert!(blocked.need_keys());
        assert_eq!(blocked.first((0, b"k"), 0, None), Some((3, 3)));
        blocked.put_back(2, left);
        assert_eq!(blocked.first((0, b"k"), 0, None), Some((2, 2)));
        blocked.leave(2);
        blocked.leave(3);
        assert_eq!(blocked.first((0, b"k"), 0, None), None);
        assert!(!blocked.need_keys());
        assert_eq!((blocked.keys(), blocked.needed_keys()), (1, 0));
        assert!(!blocked.queues[0].contains_key(&b"l"[..]));
    }

    #[test]
    fn a_key_is_ready_once_until_it_is_served() {
        let mut blocked = Waiters::default();
        blocked.park(1, waiter(0, &[b"k"], Type::List, None));
        for _ in 0..2 {
            blocked.touch(0, b"k");
            blocked.touch(0, b"k");
            assert!(blocked.next_ready().is_some());
            assert!(!blocked.has_ready());
        }
        // A client that waits anew, for a key that was ready when the last one left, is served too.
        blocked.touch(0, b"k");
        blocked.leave(1);
        blocked.park(2, waiter(0, &[b"k"], Type::List, None));
        assert!(blocked.next_ready().is_some());
        blocked.touch(0, b"k");
        assert!(blocked.has_ready());
    }

    #[test]
    fn nothing_is_left_of_those_who_leave() {
        let now = Instant::now();
        let mut blocked = Waiters::default();
        blocked.park(1, waiter(0, &[b"a", b"b"], Type::List, Some(now)));
        let mut late = waiter(0, &[b"a"], Type::List, Some(now + Duration::from_secs(1)));
        late.again = Some(now);
        blocked.park(2, late);
        assert_eq!((blocked.next_look(), blocked.to_look_at(now)), (Some(now), Some(2)));
        assert_eq!((blocked.overdue(now), blocked.with_deadline()), (Some(1), 2));
        blocked.leave(1);
        assert_eq!(blocked.overdue(now), None);
        assert_eq!(blocked.next_deadline(), Some(now + Duration::from_secs(1)));
        blocked.leave(2);
        assert!(blocked.leave(2).is_none() && blocked.next_look().is_none());
        assert!(blocked.queues.iter().all(HashMap::is_empty) && blocked.deadlines.is_empty());
        assert_eq!(blocked.count(), 0);
    }
}
