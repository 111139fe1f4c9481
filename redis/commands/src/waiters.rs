//! Clients that wait for a key to hold what they can take: BLPOP and its kin.
//!
//! - A waiter leaves a request behind: once one of its keys is ready, `before key after` runs as if
//!   the client had sent it just then; a reader of streams runs `before keys ids after`, so that it
//!   gets what all of them have. So a command has one handler for both cases. A handler that finds
//!   nothing for the client (a stream was only trimmed) leaves it waiting.
//! - The waiters of a key are served first come, first served. A waiter that cannot be served yet
//!   (the key holds another type) keeps its place.
//! - Of readers of a stream only those are asked that may get something: readers behind an id, once
//!   there is an entry behind it; of the readers of a group that want the same the first one, and
//!   the next one once that is served.
//! - A key becomes ready by any change; serving looks at what it holds. Serving
//!   happens at the end of the command that changed the key, never within a transaction.
//! - A waiter stands in the queue of each of its keys once, in the table of clients, among the
//!   deadlines if it has one, and among those to be looked at; it leaves all four together.
//! - Time alone may bring what a waiter wants (XREADGROUP with CLAIM): its request then runs again
//!   at the time that it has named.
//! - The time of a change, or of a client's leaving, does not grow with the clients that wait for
//!   the same key or with the ready keys: hostile clients would make them many.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use stillframe_keyspace::{DATABASES, StreamId, Type};

use crate::caller::Caller;

/// A client that waits.
pub struct Waiter {
    /// Its place in the registry of clients.
    pub place: usize,
    /// The database of its keys.
    pub db: usize,
    /// Its keys, in the order of its request.
    pub keys: Vec<Wanted>,
    /// What a key has to hold for it.
    pub kind: Type,
    /// The group whose entries it waits for. Its request also runs when a key is gone or of another
    /// type, to refuse it.
    pub group: Option<GroupReader>,
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
            group: None,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The key.
    pub key: Box<[u8]>,
    /// A stream's: what to read of it.
    pub from: Option<ReadFrom>,
}

/// What a client reads of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadFrom {
    /// As the request says it.
    pub text: Box<[u8]>,
    /// Nothing concerns the client unless it is behind this id; for readers of groups that is not
    /// what decides.
    pub behind: StreamId,
}

/// What readers of a group have in common if nothing concerns one of them but all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupReader {
    /// The group.
    pub name: Box<[u8]>,
    /// For how many milliseconds entries have to be pending that are claimed, if any are.
    pub claim_ms: Option<i64>,
}

/// The clients that wait for one key: numbers of clients by their tickets, first come first.
#[derive(Default)]
struct Queue {
    /// Those that are asked one by one.
    others: BTreeMap<u64, u64>,
    /// Those that read a stream behind an id.
    readers: BTreeMap<(StreamId, u64), u64>,
    /// Those that read for groups: they need the key.
    groups: BTreeMap<GroupReader, BTreeMap<u64, u64>>,
    /// The key is among those that are ready.
    is_ready: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.others.is_empty() && self.readers.is_empty() && self.groups.is_empty()
    }

    fn add(&mut self, waiter: &Waiter, behind: Option<StreamId>, id: u64) {
        let queue = match (&waiter.group, behind) {
            (Some(group), _) => self.groups.entry(group.clone()).or_default(),
            (None, Some(behind)) => {
                self.readers.insert((behind, waiter.ticket), id);
                return;
            }
            (None, None) => &mut self.others,
        };
        queue.insert(waiter.ticket, id);
    }

    fn remove(&mut self, waiter: &Waiter, behind: Option<StreamId>) {
        match (&waiter.group, behind) {
            (Some(group), _) => {
                if let Some(queue) = self.groups.get_mut(group) {
                    queue.remove(&waiter.ticket);
                    if queue.is_empty() {
                        self.groups.remove(group);
                    }
                }
            }
            (None, Some(behind)) => drop(self.readers.remove(&(behind, waiter.ticket))),
            (None, None) => drop(self.others.remove(&waiter.ticket)),
        }
    }
}

/// Clients that one key may have something for, each to be asked in its turn.
#[derive(Default)]
pub struct Turns {
    /// From this ticket on among those that are asked one by one.
    others: u64,
    /// Tickets and numbers of readers, the first one last.
    readers: Vec<(u64, u64)>,
    /// Groups that are still to be asked, the first one last.
    groups: Vec<GroupReader>,
    /// The reader of a group that was asked, by its ticket.
    asked: Option<(GroupReader, u64)>,
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
    /// The request to run for a key; of a reader of streams, for all of them.
    pub fn request<'a>(&'a self, key: &'a [u8]) -> Vec<&'a [u8]> {
        let before = self.before.iter().map(AsRef::as_ref);
        let after = self.after.iter().map(AsRef::as_ref);
        if self.kind != Type::Stream {
            return before.chain([key]).chain(after).collect();
        }
        let keys = self.keys.iter().map(|wanted| &*wanted.key);
        let texts = self.keys.iter().filter_map(|wanted| Some(&*wanted.from.as_ref()?.text));
        before.chain(keys).chain(texts).chain(after).collect()
    }

    /// Its keys, each once, and behind which id it reads there, at least.
    fn places(&self) -> BTreeMap<&[u8], Option<StreamId>> {
        let mut places = BTreeMap::new();
        for Wanted { key, from } in &self.keys {
            let behind = from.as_ref().map(|from| from.behind);
            let place = places.entry(&**key).or_insert(behind);
            *place = (*place).min(behind);
        }
        places
    }
}

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A stream, with the id of its last entry.
    Stream {
        /// Of the last entry, if there is one.
        last: Option<StreamId>,
    },
    /// A value of another type.
    Other(Type),
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
    /// Clients that read for [groups](Waiter::group), which need their keys.
    needing: usize,
    /// Keys that the reader of a group needs.
    needed_keys: usize,
    /// Tickets given so far.
    tickets: u64,
}

impl Waiters {
    /// Makes a client wait.
    pub fn park(&mut self, id: u64, mut waiter: Waiter) {
        self.tickets += 1;
        waiter.ticket = self.tickets;
        self.put_back(id, waiter);
    }

    /// Puts a client back that has left and waits on, in its old place.
    pub fn put_back(&mut self, id: u64, waiter: Waiter) {
        for (key, behind) in waiter.places() {
            let queue = self.queues[waiter.db].entry(key.into()).or_default();
            self.needed_keys += usize::from(waiter.group.is_some() && queue.groups.is_empty());
            queue.add(&waiter, behind, id);
        }
        self.deadlines.extend(waiter.deadline.map(|deadline| (deadline, id)));
        self.again.extend(waiter.again.map(|again| (again, id)));
        self.needing += usize::from(waiter.group.is_some());
        self.clients.insert(id, waiter);
    }

    /// Takes a client out of all queues: it is served, gives up, or is gone.
    pub fn leave(&mut self, id: u64) -> Option<Waiter> {
        let waiter = self.clients.remove(&id)?;
        self.needing -= usize::from(waiter.group.is_some());
        let queues = &mut self.queues[waiter.db];
        for (key, behind) in waiter.places() {
            if let Some(queue) = queues.get_mut(key) {
                queue.remove(&waiter, behind);
                self.needed_keys -= usize::from(waiter.group.is_some() && queue.groups.is_empty());
                if queue.is_empty() {
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

    /// The turns of clients that a key may have something for.
    pub fn turns(&self, db: usize, key: &[u8], found: Found) -> Turns {
        let Some(queue) = self.queues[db].get(key) else { return Turns::default() };
        let mut turns = Turns::default();
        if let Found::Stream { last: Some(last) } = found {
            let behind = queue.readers.range(..(last, 0));
            turns.readers = behind.map(|(&(_, ticket), &id)| (ticket, id)).collect();
            turns.readers.sort_unstable_by_key(|&(ticket, _)| Reverse(ticket));
        }
        turns.groups = queue.groups.keys().rev().cloned().collect();
        turns
    }

    /// The next client to ask, and no more; those that were asked before are served, or wait on.
    pub fn next_turn(&self, db: usize, key: &[u8], turns: &mut Turns, found: Found) -> Option<u64> {
        let queue = self.queues[db].get(key)?;
        if let Found::Other(kind) = found {
            let fits = |id: &u64| self.clients.get(id).is_some_and(|waiter| waiter.kind == kind);
            let next = queue.others.range(turns.others..).find(|(_, id)| fits(id));
            if let Some((&ticket, &id)) = next {
                turns.others = ticket + 1;
                return Some(id);
            }
        }
        if let Some((_, id)) = turns.readers.pop() {
            return Some(id);
        }
        loop {
            // The next one of a group is asked once the one before is served.
            if let Some((group, before)) = turns.asked.take()
                && let Some(queue) = queue.groups.get(&group)
                && !queue.contains_key(&before)
                && let Some((&ticket, &id)) = queue.first_key_value()
            {
                turns.asked = Some((group, ticket));
                return Some(id);
            }
            let group = turns.groups.pop()?;
            turns.asked = Some((group, u64::MAX));
        }
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

    /// How many of these the reader of a group needs.
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
        let keys = keys.iter().map(|&key| Wanted { key: key.into(), from: None }).collect();
        let (before, after) = (Vec::new(), Vec::new());
        let (acks, again, ticket, command, group) = (None, None, 0, 0, None);
        Waiter {
            place: 0,
            db,
            keys,
            kind,
            group,
            deadline,
            command,
            before,
            after,
            acks,
            again,
            ticket,
        }
    }

    fn behind(ms: u64) -> ReadFrom {
        ReadFrom { text: ms.to_string().as_bytes().into(), behind: StreamId { ms, seq: 0 } }
    }

    fn reader(keys: &[(&[u8], u64)]) -> Waiter {
        let names: Vec<&[u8]> = keys.iter().map(|(key, _)| *key).collect();
        let mut reader = waiter(0, &names, Type::Stream, None);
        reader.keys.iter_mut().zip(keys).for_each(|(it, (_, ms))| it.from = Some(behind(*ms)));
        reader
    }

    fn group_reader(keys: &[&[u8]], name: &[u8], claim_ms: Option<i64>) -> Waiter {
        let group = Some(GroupReader { name: name.into(), claim_ms });
        Waiter { group, ..waiter(0, keys, Type::Stream, None) }
    }

    const STREAM: Found = Found::Stream { last: Some(StreamId { ms: 5, seq: 0 }) };

    /// Asks all that a key may have something for; `serve` says of whom it has.
    fn asked(
        blocked: &mut Waiters,
        key: &[u8],
        found: Found,
        serve: impl Fn(u64) -> bool,
    ) -> Vec<u64> {
        let (mut turns, mut asked) = (blocked.turns(0, key, found), Vec::new());
        while let Some(id) = blocked.next_turn(0, key, &mut turns, found) {
            let waiter = blocked.leave(id).expect("it waits");
            if !serve(id) {
                blocked.put_back(id, waiter);
            }
            asked.push(id);
        }
        asked
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
        let list = Found::Other(Type::List);
        assert_eq!(asked(&mut blocked, b"k", list, |_| false), [3, 5]);
        blocked.leave(3);
        assert_eq!(asked(&mut blocked, b"x", list, |_| true), []);
        assert_eq!(asked(&mut blocked, b"k", list, |_| true), [5]);
        assert_eq!(asked(&mut blocked, b"k", Found::Other(Type::Sorted), |_| true), [7]);
        assert_eq!(blocked.count(), 0);
    }

    #[test]
    fn readers_of_groups_are_refused_whatever_becomes_of_the_key() {
        let mut blocked = Waiters::default();
        blocked.park(1, waiter(0, &[b"k"], Type::List, None));
        assert_eq!(asked(&mut blocked, b"k", Found::Nothing, |_| true), []);
        blocked.park(2, group_reader(&[b"k", b"l"], b"g", None));
        blocked.park(3, group_reader(&[b"k"], b"g", None));
        assert_eq!((blocked.keys(), blocked.needed_keys()), (2, 2));
        assert!(blocked.need_keys());
        assert_eq!(asked(&mut blocked, b"k", Found::Other(Type::List), |_| true), [1, 2, 3]);
        assert!(!blocked.need_keys());
        assert_eq!((blocked.keys(), blocked.needed_keys()), (0, 0));
        blocked.park(2, group_reader(&[b"k"], b"g", None));
        assert_eq!(asked(&mut blocked, b"k", Found::Nothing, |_| true), [2]);
    }

    /// What is counted here is requests that run: each takes microseconds.
    #[test]
    fn a_change_of_a_stream_asks_one_reader_of_each_group_and_those_behind_whom_entries_are() {
        let mut blocked = Waiters::default();
        for id in 0..1000 {
            blocked.park(id, group_reader(&[b"k"], b"g", None));
            blocked.park(1000 + id, group_reader(&[b"k"], b"claims", Some(10)));
            blocked.park(2000 + id, reader(&[(b"k", 5), (b"l", 9)]));
        }
        blocked.park(3000, group_reader(&[b"k"], b"claims", Some(20)));
        blocked.park(3001, reader(&[(b"k", 4)]));
        blocked.park(3002, reader(&[(b"l", 4), (b"k", 9), (b"k", 3)]));
        assert_eq!(asked(&mut blocked, b"k", STREAM, |id| id > 3000), [3001, 3002, 1000, 3000, 0]);
        assert_eq!(asked(&mut blocked, b"k", STREAM, |_| false), [1000, 3000, 0]);
        // A served one makes room for the next.
        assert_eq!(asked(&mut blocked, b"k", STREAM, |id| id < 2), [1000, 3000, 0, 1, 2]);
        let empty = Found::Stream { last: None };
        assert_eq!(asked(&mut blocked, b"k", empty, |_| false), [1000, 3000, 2]);
        let l = Found::Stream { last: Some(StreamId { ms: 9, seq: 1 }) };
        assert_eq!(asked(&mut blocked, b"l", l, |_| true).len(), 1000);
        assert_eq!((blocked.count(), blocked.keys()), (1999, 1));
    }

    #[test]
    fn a_reader_asks_for_all_its_streams_in_their_order() {
        let mut reader = reader(&[(b"k", 7), (b"a", 3), (b"k", 1)]);
        reader.before = [&b"XREAD"[..], b"STREAMS"].map(Into::into).to_vec();
        let words: Vec<&[u8]> = vec![b"XREAD", b"STREAMS", b"k", b"a", b"k", b"7", b"3", b"1"];
        assert_eq!(reader.request(b"a"), words);
        let mut pop = waiter(0, &[b"a", b"b"], Type::List, None);
        (pop.before, pop.after) = (vec![(*b"BLPOP").into()], vec![(*b"0").into()]);
        assert_eq!(pop.request(b"b"), [&b"BLPOP"[..], b"b", b"0"]);
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
        blocked.park(3, reader(&[(b"a", 1), (b"a", 2)]));
        blocked.park(4, group_reader(&[b"a", b"a"], b"g", None));
        assert_eq!((blocked.next_look(), blocked.to_look_at(now)), (Some(now), Some(2)));
        assert_eq!((blocked.overdue(now), blocked.with_deadline()), (Some(1), 2));
        blocked.leave(1);
        assert_eq!(blocked.overdue(now), None);
        assert_eq!(blocked.next_deadline(), Some(now + Duration::from_secs(1)));
        (2..5).for_each(|id| drop(blocked.leave(id)));
        assert!(blocked.leave(2).is_none() && blocked.next_look().is_none());
        assert!(blocked.queues.iter().all(HashMap::is_empty) && blocked.deadlines.is_empty());
        assert_eq!((blocked.count(), blocked.needed_keys()), (0, 0));
    }
}
