//! Help for caches in clients: which client has read which key, and who is told when it changes.
//!
//! - In the default mode the server remembers the names of keys that a client has read; a change
//!   is told once, and the name forgotten. How many names are kept is bounded: beyond
//!   `tracking-table-max-keys` the oldest is told as changed, which is always safe.
//! - In broadcasting mode nothing is remembered: changes of keys with a prefix are gathered and
//!   told at the end of the turn. Neither a change nor the end of a turn walks all prefixes.
//! - Names are told whatever the database. Clients are known by place and number, because a place
//!   is reused; a name may outlive the client that read it.
//! - What a client changes itself is told after the reply to that request.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use stillframe_resp::{Out, Protocol};

use crate::pubsub::Message;
use crate::session::Session;
use crate::state::ServerState;
use stillframe_redis::Few;
use stillframe_redis::LISTED_BYTES;

/// The channel on which RESP2 clients are told.
const CHANNEL: &str = "__redis__:invalidate";

/// How a client wants to be told of changes.
#[derive(Debug, Default, Clone)]
pub(crate) struct Mode {
    /// Of all changes of keys with one of `prefixes`, not only of keys it has read.
    pub(crate) broadcast: bool,
    /// Only keys read right after CLIENT CACHING YES are remembered.
    pub(crate) opt_in: bool,
    /// Keys read right after CLIENT CACHING NO are not remembered.
    pub(crate) opt_out: bool,
    /// Not of its own changes.
    pub(crate) no_loop: bool,
    /// CLIENT CACHING was said: it holds for the next request.
    pub(crate) caching: bool,
    /// Told in place of the client itself: another client.
    pub(crate) redirect: Option<Who>,
    /// The client to redirect to is gone.
    pub(crate) broken: bool,
    /// See `broadcast`; none is the start of another.
    pub(crate) prefixes: BTreeSet<Box<[u8]>>,
    /// Bytes of memory that they take.
    pub(crate) prefix_bytes: usize,
}

/// A client, which may be gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Who {
    place: usize,
    /// Its number.
    pub(crate) id: u64,
}

impl Who {
    /// The client of a session.
    pub(crate) fn of(session: &Session) -> Self {
        Self { place: session.caller.place, id: session.caller.id }
    }
}

/// Names that clients have read, and prefixes that they listen to.
#[derive(Default)]
pub(crate) struct Tracking {
    readers: HashMap<Arc<[u8]>, Few<Who>>,
    /// Names in the order in which they came; some are not in `readers` any more.
    order: VecDeque<Arc<[u8]>>,
    prefixes: BTreeMap<Box<[u8]>, Prefix>,
    /// Prefixes with changes that are not told yet.
    unsaid: Vec<Box<[u8]>>,
    /// Clients that want to be told.
    pub(crate) clients: usize,
    /// Pairs of a name and a client that has read it.
    items: usize,
    /// Names to be told to the client whose request is running, once it is answered, with who
    /// changed them; `None`: all.
    late: Vec<(Option<Box<[u8]>>, u64)>,
}

/// A prefix that is listened to.
#[derive(Default)]
struct Prefix {
    listeners: Few<Who>,
    /// Names that have changed, and the client that changed them last.
    changed: BTreeMap<Box<[u8]>, u64>,
}

impl Tracking {
    /// Names that are remembered.
    pub(crate) fn keys(&self) -> usize {
        self.readers.len()
    }

    /// Pairs of a name and a client that has read it.
    pub(crate) fn items(&self) -> usize {
        self.items
    }

    /// Prefixes that are listened to.
    pub(crate) fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// Begins to tell a client of changes, or goes on with other options; the prefixes it has
    /// stay.
    fn enable(&mut self, session: &mut Session, mut mode: Mode) {
        let who = Who::of(session);
        mode.prefix_bytes = session.tracking.as_ref().map_or(0, |before| before.prefix_bytes);
        for prefix in &mode.prefixes {
            mode.prefix_bytes += prefix.len() + LISTED_BYTES;
            self.prefixes.entry(prefix.clone()).or_default().listeners.insert(who);
        }
        match &mut session.tracking {
            Some(before) => {
                let mut prefixes = std::mem::take(&mut before.prefixes);
                prefixes.extend(std::mem::take(&mut mode.prefixes));
                **before = Mode { prefixes, ..mode };
            }
            none => {
                self.clients += 1;
                *none = Some(Box::new(mode));
            }
        }
    }

    /// Stops telling a client.
    fn disable(&mut self, session: &mut Session) {
        let Some(mode) = session.tracking.take() else { return };
        self.clients -= 1;
        for prefix in &mode.prefixes {
            if let Some(found) = self.prefixes.get_mut(prefix) {
                found.listeners.remove(&Who::of(session));
                if found.listeners.is_empty() {
                    self.prefixes.remove(prefix);
                }
            }
        }
    }

    /// Remembers that a client has read keys.
    pub(crate) fn remember(&mut self, session: &mut Session, keys: &[&[u8]]) {
        let Some(mode) = &mut session.tracking else { return };
        if mode.broadcast || (mode.opt_in && !mode.caching) || (mode.opt_out && mode.caching) {
            return;
        }
        let who = Who::of(session);
        for &key in keys {
            if let Some(readers) = self.readers.get_mut(key) {
                self.items += usize::from(readers.insert(who));
                continue;
            }
            self.items += 1;
            let name: Arc<[u8]> = key.into();
            self.order.push_back(name.clone());
            self.readers.entry(name).or_default().insert(who);
        }
        if self.order.len() > 2 * self.readers.len() + 1024 {
            let readers = &self.readers;
            self.order.retain(|name| {
                readers.get_key_value(name).is_some_and(|(known, _)| Arc::ptr_eq(known, name))
            });
        }
    }

    /// Takes the oldest name if there are more than `most`.
    fn take_excess(&mut self, most: usize) -> Option<(Arc<[u8]>, Few<Who>)> {
        while self.readers.len() > most {
            let name = self.order.pop_front()?;
            let known = self.readers.get_key_value(&name);
            if known.is_some_and(|(known, _)| Arc::ptr_eq(known, &name)) {
                return self.readers.remove_entry(&name);
            }
        }
        None
    }

    /// Notes the change of a key for each prefix of it that is listened to.
    ///
    /// The last prefix that is not above the key is one of it, or all that are come before what
    /// both have in common: each step goes on there.
    fn note(&mut self, key: &[u8], by: u64) {
        let mut end = Bound::Included(key);
        while let Some((prefix, found)) =
            self.prefixes.range_mut::<[u8], _>((Bound::Unbounded, end)).next_back()
        {
            let common = prefix.iter().zip(key).take_while(|(a, b)| a == b).count();
            if common < prefix.len() {
                end = Bound::Included(&key[..common]);
                continue;
            }
            if found.changed.is_empty() {
                self.unsaid.push(prefix.clone());
            }
            found.changed.insert(key.into(), by);
            end = Bound::Excluded(&key[..common]);
        }
    }
}

impl ServerState {
    /// As [`Tracking::enable`]; from now on commands say which keys change.
    pub(crate) fn enable_tracking(&mut self, session: &mut Session, mode: Mode) {
        self.tracking.enable(session, mode);
        self.ledger.events.cached = true;
    }

    /// As [`Tracking::disable`]; with the last client commands stop saying which keys change.
    pub(crate) fn disable_tracking(&mut self, session: &mut Session) {
        self.tracking.disable(session);
        self.ledger.events.cached = self.tracking.clients > 0;
    }

    /// Tells clients that have read a key that it has changed. `by`: the client that changed it.
    pub(crate) fn invalidate(&mut self, key: &[u8], by: u64) {
        self.tracking.note(key, by);
        if let Some(readers) = self.tracking.readers.remove(key) {
            self.tell_readers(readers.as_slice(), key, by);
        }
    }

    fn tell_readers(&mut self, readers: &[Who], key: &[u8], by: u64) {
        self.tracking.items -= readers.len();
        for &who in readers {
            let told =
                self.wanted_by(who, |mode| !(mode.broadcast || mode.no_loop && who.id == by));
            match told {
                Some(true) => self.tell(who, Some(&[key])),
                Some(false) => {}
                // The client whose request is running is out of the registry.
                None if who.place == self.clients.own_place => {
                    self.tracking.late.push((Some(key.into()), by));
                }
                None => {}
            }
        }
    }

    /// What `wants` says of a client's mode; `None` if the client is not in the registry.
    fn wanted_by(&mut self, who: Who, wants: impl Fn(&Mode) -> bool) -> Option<bool> {
        let client = self.clients.get_mut(who.place)?;
        let session = &client.session;
        Some(session.caller.id == who.id && session.tracking.as_deref().is_some_and(wants))
    }

    /// Tells every client that all keys have changed: a database was emptied.
    pub(crate) fn invalidate_all(&mut self) {
        if self.tracking.clients == 0 {
            return;
        }
        let others = self.clients.others().filter(|(_, client)| client.session.tracking.is_some());
        let others: Vec<Who> = others.map(|(_, client)| Who::of(&client.session)).collect();
        self.tracking.readers.clear();
        self.tracking.items = 0;
        self.tracking.order.clear();
        others.into_iter().for_each(|who| self.tell(who, None));
        self.tracking.late.push((None, 0));
    }

    /// Forgets names above the limit, at the end of a request.
    pub(crate) fn limit_tracking(&mut self) {
        let most = self.config.tracking_table_max_keys;
        if most == 0 {
            return;
        }
        while let Some((name, readers)) = self.tracking.take_excess(most) {
            self.tell_readers(readers.as_slice(), &name, 0);
        }
    }

    /// Whether the client whose request is running is to be told of changes after its reply.
    #[inline]
    pub(crate) fn has_late_invalidations(&self) -> bool {
        !self.tracking.late.is_empty()
    }

    /// Tells the client whose request has just been answered what it changed of what it had read.
    pub(crate) fn tell_late(&mut self, session: &mut Session, out: &mut Out<'_>) {
        for (key, by) in std::mem::take(&mut self.tracking.late) {
            let Some(mode) = session.tracking.as_deref() else { continue };
            let own = mode.no_loop && by == session.caller.id;
            if key.is_some() && (mode.broadcast || own) {
                continue;
            }
            let names = key.as_deref().map(|key| [key]);
            let names = names.as_ref().map(|names| &names[..]);
            match mode.redirect {
                Some(other) if self.redirected(other, names) => {}
                Some(other) => break_redirection(session, other.id, out),
                None if session.protocol == Protocol::Resp3 => write_push(out, names),
                None => {}
            }
        }
    }

    /// Tells of the changes that were gathered for prefixes, at the end of the turn.
    pub(crate) fn broadcast_changes(&mut self) {
        let mut gathered = Vec::new();
        let tracking = &mut self.tracking;
        tracking.unsaid.sort_unstable();
        for prefix in std::mem::take(&mut tracking.unsaid) {
            let Some(found) = tracking.prefixes.get_mut(&prefix) else { continue };
            gathered.push((found.listeners.clone(), std::mem::take(&mut found.changed)));
        }
        for (listeners, changed) in gathered {
            for &who in listeners.as_slice() {
                let no_loop = self.wanted_by(who, |mode| mode.no_loop).unwrap_or(false);
                let foreign = changed.iter().filter(|(_, by)| !no_loop || **by != who.id);
                let names: Vec<&[u8]> = foreign.map(|(name, _)| &**name).collect();
                if !names.is_empty() {
                    self.tell(who, Some(&names));
                }
            }
        }
    }

    /// Tells a client of the registry that these keys, or all, have changed.
    fn tell(&mut self, who: Who, names: Option<&[&[u8]]>) {
        let Some(client) = self.clients.get_mut(who.place) else { return };
        let protocol = client.session.protocol;
        let Some(mode) = client.session.tracking.as_deref() else { return };
        let redirect = mode.redirect;
        if client.session.caller.id != who.id {
            return;
        }
        match redirect {
            Some(other) if self.redirected(other, names) => {}
            Some(other) => {
                if let Some(client) = self.clients.get_mut(who.place) {
                    let mut out = Out::new(&mut client.output, protocol);
                    break_redirection(&mut client.session, other.id, &mut out);
                }
                self.clients.flush_later(who.place);
            }
            None if protocol == Protocol::Resp3 => {
                self.deliver(
                    who.place,
                    &mut Message::new(|out: &mut Out<'_>| write_push(out, names)),
                );
            }
            None => {}
        }
    }

    /// Tells a client in place of another; false if it is gone.
    fn redirected(&mut self, who: Who, names: Option<&[&[u8]]>) -> bool {
        if self.clients.own_id == who.id {
            let place = self.clients.own_place;
            if self.clients.own_protocol == Protocol::Resp3 {
                self.deliver(place, &mut Message::new(|out: &mut Out<'_>| write_push(out, names)));
            }
            return true;
        }
        let client =
            self.clients.get(who.place).filter(|client| client.session.caller.id == who.id);
        let Some(client) = client else { return false };
        let place = who.place;
        let listens = client.session.subscriptions.is_some();
        if client.session.protocol == Protocol::Resp3 {
            self.deliver(place, &mut Message::new(|out: &mut Out<'_>| write_push(out, names)));
        } else if listens {
            self.deliver(place, &mut Message::new(|out: &mut Out<'_>| write_message(out, names)));
        }
        true
    }
}

fn break_redirection(session: &mut Session, id: u64, out: &mut Out<'_>) {
    if let Some(mode) = &mut session.tracking {
        mode.broken = true;
    }
    if session.protocol == Protocol::Resp3 {
        out.push(2);
        out.bulk("tracking-redir-broken");
        out.integer(id.cast_signed());
    }
}

fn write_push(out: &mut Out<'_>, names: Option<&[&[u8]]>) {
    out.push(2);
    out.bulk("invalidate");
    write_names(out, names);
}

fn write_message(out: &mut Out<'_>, names: Option<&[&[u8]]>) {
    out.push(3);
    out.bulk("message");
    out.bulk(CHANNEL);
    write_names(out, names);
}

fn write_names(out: &mut Out<'_>, names: Option<&[&[u8]]>) {
    match names {
        None => out.null(),
        Some(names) => {
            out.array(names.len());
            names.iter().for_each(|name| out.bulk(name));
        }
    }
}
