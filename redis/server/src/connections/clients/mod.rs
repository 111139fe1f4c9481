//! The registry of clients, and the one that is out of it while its request runs.
//!
//! Reading order: this file, `served`, `limit`.

mod limit;
mod served;

use stillframe_resp::Protocol;

use crate::connections::client::Who;
use crate::connections::client::{Client, Session};
pub(crate) use limit::outweighs;
use served::Served;

/// All clients, each at a place that its events name.
#[derive(Default)]
pub(crate) struct Clients {
    places: Vec<Option<Box<Client>>>,
    free: Vec<usize>,
    /// The one whose request is running.
    served: Served,
    /// The one whose script runs while others are served.
    aside: Served,
    /// Places of clients to be removed at the end of the turn.
    closed: Vec<usize>,
    /// Places of clients with replies to write at the end of the turn.
    flushing: Vec<usize>,
    /// Places of clients that got replies while another was served.
    woken: Vec<usize>,
    /// Bytes of all clients after the last closing by maxmemory-clients.
    spared_bytes: usize,
    last_id: u64,
    count: usize,
    /// Bytes of memory of the clients in the registry, without replicas, whose buffers are part of
    /// the stream.
    bytes: usize,
}

impl Clients {
    /// The number of clients.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The number for the next client.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// A place for one more client.
    pub(crate) fn reserve(&mut self) -> usize {
        self.count += 1;
        self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        })
    }

    /// Bytes of memory of all clients but replicas now, with the buffers of the one being served.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.served.bytes() + self.aside.bytes()
    }

    /// How many of them are replicas.
    pub(crate) fn replicas(&self) -> usize {
        self.others().filter(|(_, client)| client.is_replica()).count()
    }

    /// How many of them are passed on to the leader of the group.
    pub(crate) fn forwarded(&self) -> u64 {
        self.others().filter(|(_, client)| client.upstream.is_some()).count() as u64
    }

    /// How many of them have a request postponed by a pause.
    pub(crate) fn postponed(&self) -> usize {
        self.others().filter(|(_, client)| client.session.postponed.is_some()).count()
    }

    /// Counts the memory of a client again, whose buffers have changed.
    pub(crate) fn weigh(&mut self, place: usize) {
        if let Some(client) = self.take(place) {
            self.put(place, client);
        }
    }

    /// Counts the memory of all clients again.
    fn weigh_all(&mut self) {
        (0..self.places.len()).for_each(|place| self.weigh(place));
    }

    /// Takes a client out to serve it. [`put`](Self::put) it back.
    pub(crate) fn take(&mut self, place: usize) -> Option<Box<Client>> {
        let client = self.places.get_mut(place)?.take()?;
        self.bytes -= client.counted_bytes;
        Some(client)
    }

    /// Puts a client into the place it was taken from, or that was reserved for it.
    pub(crate) fn put(&mut self, place: usize, mut client: Box<Client>) {
        client.counted_bytes = if client.is_replica() { 0 } else { client.memory_bytes() };
        self.bytes += client.counted_bytes;
        self.places[place] = Some(client);
    }

    /// Puts a client back that was served.
    pub(crate) fn put_back(&mut self, place: usize, client: Box<Client>) {
        self.put(place, client);
        self.served.end();
    }

    /// Schedules those clients for removal that `is_one` chooses.
    pub(crate) fn close_all_later(&mut self, is_one: impl Fn(&Client) -> bool) {
        self.places_of(is_one).into_iter().for_each(|place| self.close_later(place));
    }

    /// Ends the connections at once of those clients that `is_one` chooses. Returns how many.
    pub(crate) fn cut_all(&mut self, is_one: impl Fn(&Client) -> bool) -> usize {
        let places = self.places_of(is_one);
        places.iter().for_each(|&place| self.cut(place));
        places.len()
    }

    fn places_of(&self, is_one: impl Fn(&Client) -> bool) -> Vec<usize> {
        self.others().filter(|(_, client)| is_one(client)).map(|(place, _)| place).collect()
    }

    /// The client at a place.
    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut Client> {
        self.places.get_mut(place)?.as_deref_mut()
    }

    /// The client at a place, for reading.
    pub(crate) fn get(&self, place: usize) -> Option<&Client> {
        self.places.get(place)?.as_deref()
    }

    /// Gives up a place whose client was taken out.
    pub(crate) fn release(&mut self, place: usize) {
        self.count -= 1;
        self.free.push(place);
    }

    /// Ends a client's connection at once, in the middle of a turn.
    fn cut(&mut self, place: usize) {
        if let Some(client) = self.get_mut(place) {
            client.cut();
        }
        self.close_later(place);
    }

    /// Schedules a client for removal at the end of the turn.
    pub(crate) fn close_later(&mut self, place: usize) {
        if let Some(client) = self.get_mut(place)
            && !client.dead
        {
            client.dead = true;
            self.closed.push(place);
        }
    }

    /// Drops the replies of a client that must not be written any more.
    fn drop_replies(&mut self, place: usize) {
        if let Some(client) = self.get_mut(place) {
            client.discard_output();
            self.weigh(place);
        }
    }

    /// Others are served until [`resume`](Self::resume), in the middle of the request under way.
    pub(crate) fn set_aside(&mut self) {
        self.aside = std::mem::take(&mut self.served);
    }

    /// Goes on with the request under way.
    pub(crate) fn resume(&mut self) {
        self.served = std::mem::take(&mut self.aside);
    }

    /// Schedules a client's replies for the end of the turn, if its socket takes any.
    pub(crate) fn flush_later(&mut self, place: usize) {
        if let Some(client) = self.get_mut(place)
            && client.wants_flush()
            && !client.flushing
        {
            client.flushing = true;
            self.flushing.push(place);
        }
    }

    /// Takes the places of those whose replies are to be written now.
    pub(crate) fn take_flushing(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.flushing)
    }

    /// Schedules the rest of replies that the sockets of these clients did not take whole.
    pub(crate) fn flush_on(&mut self, mut unfinished: Vec<usize>) {
        self.flushing.append(&mut unfinished);
    }

    /// The clients with a reply of this turn that tells of the data, and waits for nothing yet.
    pub(crate) fn told_of_data(&self) -> Vec<usize> {
        let mut places = [&self.woken[..], self.flushing()].concat();
        places.sort_unstable();
        places.dedup();
        places.retain(|&place| self.get(place).is_some_and(|it| it.session.shows_data));
        places
    }

    /// The places of those whose replies are to be written.
    pub(crate) fn flushing(&self) -> &[usize] {
        &self.flushing
    }

    /// Those that are to be removed.
    pub(crate) fn closed(&self) -> impl Iterator<Item = &Client> {
        self.closed.iter().filter_map(|&place| self.get(place))
    }

    /// The place of a client that is to be removed now.
    pub(crate) fn next_closed(&mut self) -> Option<usize> {
        self.closed.pop()
    }

    /// A client got a reply out of turn.
    pub(crate) fn wake(&mut self, place: usize) {
        self.woken.push(place);
    }

    /// Takes the places of those who did.
    pub(crate) fn take_woken(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.woken)
    }

    /// All clients but the one being served, with their places.
    pub(crate) fn others(&self) -> impl Iterator<Item = (usize, &Client)> {
        let clients = self.places.iter().enumerate();
        clients.filter_map(|(place, client)| Some((place, client.as_deref()?)))
    }

    /// As [`others`](Self::others), to change them.
    pub(crate) fn others_mut(&mut self) -> impl Iterator<Item = (usize, &mut Client)> {
        let clients = self.places.iter_mut().enumerate();
        clients.filter_map(|(place, client)| Some((place, client.as_deref_mut()?)))
    }
}

/// The client whose request runs.
impl Clients {
    /// Begins a request of a client, which may have so many bytes of unread replies.
    #[inline]
    pub(crate) fn serve(&mut self, session: &Session, output_most: usize, bytes: usize) {
        self.served.begin(session, output_most);
        self.served.weigh(bytes);
    }

    /// Begins a replayed request, of a client outside of the registry.
    pub(crate) fn begin_replay(&mut self, session: &Session) {
        self.served.begin_replay(session);
    }

    /// Restores the client of the request under way, after a replay.
    pub(crate) fn end_replay(&mut self, who: Who) {
        self.served.identify(who);
    }

    /// Notes how many bytes of its requests are in hand.
    pub(crate) fn hold_input(&mut self, bytes: usize) {
        self.served.hold_input(bytes);
    }

    /// Notes how many of those are in its own buffer.
    pub(crate) fn own_input(&mut self, bytes: usize) {
        self.served.own_input(bytes);
    }

    /// Bytes of its requests in hand, and of its memory.
    pub(crate) fn served_bytes(&self) -> (usize, usize) {
        (self.served.input(), self.served.bytes())
    }

    /// Messages to it wait from now on, or no longer. Returns whether they waited.
    pub(crate) fn silence(&mut self, silent: bool) -> bool {
        self.served.silence(silent)
    }

    /// Sends it a message, which goes out before its reply, unless it is above its limit.
    pub(crate) fn mail<'m>(&mut self, message: impl FnOnce(Protocol) -> &'m [u8]) {
        if self.served.takes_mail() {
            let message = message(self.served.protocol());
            self.served.mail.extend_from_slice(message);
        }
    }

    /// The messages that wait for it.
    pub(crate) fn waiting_mail(&mut self) -> &mut Vec<u8> {
        &mut self.served.mail
    }

    /// The messages that go out before the reply just written, if any.
    #[inline]
    pub(crate) fn due_mail(&mut self) -> Option<&mut Vec<u8>> {
        self.served.due_mail()
    }

    /// Who it is, and the protocol of messages to it.
    pub(crate) fn served(&self) -> (Who, Protocol) {
        (self.served.who(), self.served.protocol())
    }
}
