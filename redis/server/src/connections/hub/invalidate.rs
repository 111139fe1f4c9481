//! Invalidations: clients learn that keys in their caches have changed.

use stillframe_commands::Events;
use stillframe_resp::{Out, Protocol};

use super::deliver::Message;
use super::{Delivery, Hub, Tracking};
use crate::connections::client::{Session, TrackingMode, Who};
use crate::connections::clients::Clients;

/// The channel of invalidations for RESP2 clients.
const CHANNEL: &str = "__redis__:invalidate";

impl Hub {
    /// Keys in the caches of clients.
    pub(crate) fn tracking(&self) -> &Tracking {
        &self.tracking
    }

    /// Whether any client receives invalidations.
    #[inline]
    pub(crate) fn tracks(&self) -> bool {
        self.tracking.clients > 0
    }

    /// As [`Tracking::enable`]; commands then report which keys change.
    pub(crate) fn enable_tracking(
        &mut self,
        session: &mut Session,
        mode: TrackingMode,
        events: &mut Events,
    ) {
        let who = session.who();
        self.tracking.enable(&mut session.tracking, who, mode);
        events.cached = true;
    }

    /// As [`Tracking::disable`]; after the last client, commands stop reporting which keys change.
    pub(crate) fn disable_tracking(&mut self, session: &mut Session, events: &mut Events) {
        let who = session.who();
        self.tracking.disable(&mut session.tracking, who);
        events.cached = self.tracks();
    }

    /// Remembers that a client has read keys, if it tracks them.
    pub(crate) fn remember_read(&mut self, session: &Session, keys: &[&[u8]]) {
        if let Some(mode) = &session.tracking {
            self.tracking.remember(mode, session.who(), keys);
        }
    }

    /// Invalidates a key for the clients that have read it. `by`: the client that changed it.
    pub(super) fn invalidate(&mut self, to: &mut Delivery<'_>, key: &[u8], by: u64) {
        if let Some(readers) = self.tracking.take_readers(key, by) {
            self.send_readers(to, readers.as_slice(), key, by);
        }
    }

    fn send_readers(&mut self, to: &mut Delivery<'_>, readers: &[Who], key: &[u8], by: u64) {
        for &who in readers {
            let wanted = wanted_by(to.clients, who, |mode| {
                !(mode.broadcast || mode.no_loop && who.id == by)
            });
            match wanted {
                Some(true) => self.send_names(to, who, Some(&[key])),
                Some(false) => {}
                // The client whose request is running is out of the registry.
                None if who.place == to.clients.served().0.place => {
                    self.tracking.invalidate_later(Some(key), by);
                }
                None => {}
            }
        }
    }

    /// Invalidates all keys for every client: a database was emptied.
    pub(crate) fn invalidate_all(&mut self, to: &mut Delivery<'_>) {
        if !self.tracks() {
            return;
        }
        let others = to.clients.others().filter(|(_, client)| client.session.tracking.is_some());
        let others: Vec<Who> = others.map(|(_, client)| client.session.who()).collect();
        self.tracking.forget_names();
        others.into_iter().for_each(|who| self.send_names(to, who, None));
        self.tracking.invalidate_later(None, 0);
    }

    /// Forgets names above the limit, at the end of a request.
    pub(crate) fn limit_tracking(&mut self, to: &mut Delivery<'_>) {
        let most = to.config.tracking_table_max_keys;
        if most == 0 {
            return;
        }
        while let Some((name, readers)) = self.tracking.take_excess(most) {
            self.send_readers(to, readers.as_slice(), &name, 0);
        }
    }

    /// Sends the client whose request has just run the invalidations of its own changes.
    pub(crate) fn send_late(
        &mut self,
        to: &mut Delivery<'_>,
        session: &mut Session,
        out: &mut Out<'_>,
    ) {
        for (key, by) in self.tracking.take_late() {
            let Some(mode) = session.tracking.as_deref() else { continue };
            let own = mode.no_loop && by == session.caller.id;
            if key.is_some() && (mode.broadcast || own) {
                continue;
            }
            let names = key.as_deref().map(|key| [key]);
            let names = names.as_ref().map(|names| &names[..]);
            match mode.redirect {
                Some(other) if self.redirected(to, other, names) => {}
                Some(other) => break_redirection(session, other.id, out),
                None if session.protocol == Protocol::Resp3 => write_push(out, names),
                None => {}
            }
        }
    }

    /// Sends the invalidations gathered for prefixes, at the end of the turn.
    pub(crate) fn broadcast_changes(&mut self, to: &mut Delivery<'_>) {
        for (listeners, changed) in self.tracking.take_gathered() {
            for &who in listeners.as_slice() {
                let no_loop = wanted_by(to.clients, who, |mode| mode.no_loop).unwrap_or(false);
                let foreign = changed.iter().filter(|(_, by)| !no_loop || **by != who.id);
                let names: Vec<&[u8]> = foreign.map(|(name, _)| &**name).collect();
                if !names.is_empty() {
                    self.send_names(to, who, Some(&names));
                }
            }
        }
    }

    /// Sends a client of the registry the invalidation of these keys, or of all.
    fn send_names(&mut self, to: &mut Delivery<'_>, who: Who, names: Option<&[&[u8]]>) {
        let Some(client) = to.clients.get_mut(who.place) else { return };
        let protocol = client.session.protocol;
        let Some(mode) = client.session.tracking.as_deref() else { return };
        let redirect = mode.redirect;
        if client.session.caller.id != who.id {
            return;
        }
        match redirect {
            Some(other) if self.redirected(to, other, names) => {}
            Some(other) => {
                if let Some(client) = to.clients.get_mut(who.place) {
                    let mut out = Out::new(&mut client.output, protocol);
                    break_redirection(&mut client.session, other.id, &mut out);
                }
                to.clients.flush_later(who.place);
            }
            None if protocol == Protocol::Resp3 => {
                to.send(who.place, &mut Message::new(|out: &mut Out<'_>| write_push(out, names)));
            }
            None => {}
        }
    }

    /// Sends an invalidation to the client that another redirects to; false if it is gone.
    fn redirected(&mut self, to: &mut Delivery<'_>, who: Who, names: Option<&[&[u8]]>) -> bool {
        if to.clients.served().0.id == who.id {
            let place = to.clients.served().0.place;
            if to.clients.served().1 == Protocol::Resp3 {
                to.send(place, &mut Message::new(|out: &mut Out<'_>| write_push(out, names)));
            }
            return true;
        }
        let client = to.clients.get(who.place).filter(|client| client.session.caller.id == who.id);
        let Some(client) = client else { return false };
        let place = who.place;
        let listens = client.session.subscriptions.is_some();
        if client.session.protocol == Protocol::Resp3 {
            to.send(place, &mut Message::new(|out: &mut Out<'_>| write_push(out, names)));
        } else if listens {
            to.send(place, &mut Message::new(|out: &mut Out<'_>| write_message(out, names)));
        }
        true
    }
}

/// What `wants` returns for a client's mode; `None` if the client is not in the registry.
fn wanted_by(clients: &Clients, who: Who, wants: impl Fn(&TrackingMode) -> bool) -> Option<bool> {
    let session = &clients.get(who.place)?.session;
    Some(session.caller.id == who.id && session.tracking.as_deref().is_some_and(wants))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_collected_while_a_client_is_told_of_them() {
        let (mut hub, mut events) = (Hub::default(), Events::default());
        let mut sessions = [Session::in_process(), Session::in_process()];
        sessions[1].caller.place = 1;
        for session in &mut sessions {
            hub.enable_tracking(session, TrackingMode::default(), &mut events);
            hub.remember_read(session, &[b"key"]);
        }
        assert_eq!((hub.tracking().keys(), hub.tracking().items()), (1, 2));
        assert!(hub.tracks() && events.cached);
        for (session, tracks) in sessions.iter_mut().zip([true, false]) {
            hub.forget(session, &mut events);
            assert_eq!((hub.tracks(), events.cached), (tracks, tracks));
        }
        assert_eq!(hub.tracking().keys(), 0, "no client gets messages any more");
    }
}
