//! The registry of clients.

use stillframe_resp::Protocol;

use crate::client::Client;

/// All clients, each at a place that its events name.
#[derive(Default)]
pub(crate) struct Clients {
    places: Vec<Option<Box<Client>>>,
    free: Vec<usize>,
    /// Places of clients to be removed at the end of the turn.
    pub(crate) doomed: Vec<usize>,
    /// Places of clients with replies to write at the end of the turn.
    pub(crate) flushing: Vec<usize>,
    /// Messages to the client whose request is running; they go out before the reply.
    pub(crate) mail: Vec<u8>,
    /// The reply to that request will be dropped: messages wait for that.
    pub(crate) silent: bool,
    /// The place of that client, its number, and its protocol.
    pub(crate) own_place: usize,
    /// See `own_place`.
    pub(crate) own_id: u64,
    /// See `own_place`.
    pub(crate) own_protocol: Protocol,
    /// Bytes of unread replies that it may have.
    pub(crate) own_most: usize,
    /// Bytes of memory that it takes, beside the reader's shared buffer.
    pub(crate) own_bytes: usize,
    /// Bytes of requests of it that are in hand.
    pub(crate) own_input: usize,
    /// Bytes of those that its own buffer takes.
    pub(crate) own_input_held: usize,
    /// Bytes that were left when clients were last closed for what they take (maxmemory-clients).
    pub(crate) spared_bytes: usize,
    /// Places of clients that were given replies while another was served.
    pub(crate) woken: Vec<usize>,
    last_id: u64,
    count: usize,
    /// Bytes of memory that the clients in the registry take, those of replicas apart: they are a
    /// part of the stream.
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

    /// Bytes of memory that all clients take, but replicas, at this moment: the buffers of the one
    /// that is served, too.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.own_bytes
    }

    /// How many of them are replicas.
    pub(crate) fn replicas(&self) -> usize {
        self.others().filter(|(_, client)| client.is_replica()).count()
    }

    /// How many of them have a request that waits for the end of a pause.
    pub(crate) fn postponed(&self) -> usize {
        self.others().filter(|(_, client)| client.session.postponed.is_some()).count()
    }

    /// Counts anew what a client takes, whose buffers have changed.
    pub(crate) fn weigh(&mut self, place: usize) {
        if let Some(client) = self.take(place) {
            self.put(place, client);
        }
    }

    /// Counts anew what all clients take.
    pub(crate) fn weigh_all(&mut self) {
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

    /// The client at a place.
    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut Client> {
        self.places.get_mut(place)?.as_deref_mut()
    }

    /// The client at a place, to be looked at.
    pub(crate) fn get(&self, place: usize) -> Option<&Client> {
        self.places.get(place)?.as_deref()
    }

    /// Gives up a place whose client was taken out.
    pub(crate) fn release(&mut self, place: usize) {
        self.count -= 1;
        self.free.push(place);
    }

    /// Ends a client's connection at once, whatever the turn does yet.
    pub(crate) fn cut(&mut self, place: usize) {
        if let Some(client) = self.get_mut(place) {
            client.stream.close();
        }
        self.doom(place);
    }

    /// Has a client removed at the end of the turn.
    pub(crate) fn doom(&mut self, place: usize) {
        if let Some(client) = self.get_mut(place)
            && !client.dead
        {
            client.dead = true;
            self.doomed.push(place);
        }
    }

    /// Drops the replies of a client that nobody is to write any more.
    pub(crate) fn drop_replies(&mut self, place: usize) {
        if let Some(client) = self.get_mut(place) {
            client.discard_output();
            self.weigh(place);
        }
    }

    /// Has a client's replies written at the end of the turn, if its socket takes any.
    pub(crate) fn flush_later(&mut self, place: usize) {
        if let Some(client) = self.get_mut(place)
            && client.wants_flush()
            && !client.flushing
        {
            client.flushing = true;
            self.flushing.push(place);
        }
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
