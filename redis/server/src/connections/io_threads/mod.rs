//! I/O threads (`io-threads`): they read sockets, find requests, write replies and do what TLS
//! asks for; commands run on the one thread that runs them without I/O threads as well.
//!
//! Reading order: `inputs` and `messages` (what `belts` hand over),
//! `connection` and `worker` (an I/O thread), `remote` (a connection as the command thread sees
//! it), this file.
//!
//! - An I/O thread owns a connection's socket, its TLS session, the start of a request that is not
//!   whole, and replies that the socket has not taken. The command thread owns all else of a
//!   client; parser, limits, the log's hold on replies and the ends of clients are the same code
//!   for both kinds of [`Wire`](crate::connections::client::Wire).
//! - A replica's connection, and one whose requests go to the leader of a group, is called back to
//!   the command thread, which then has the socket as without I/O threads.

mod connection;
#[cfg(test)]
mod connection_tests;
mod inputs;
mod messages;
mod remote;
mod worker;

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use stillframe_resp::{Outline, Plain};

pub(crate) use connection::Connection;
use inputs::{Gauge, Input};
pub(crate) use inputs::{News, Note};
pub(crate) use messages::Orders;
use messages::{Arrivals, Order};
pub(crate) use remote::{LARGE_BYTES, Remote};

use crate::connections::belts::{Bell, Receiver, Sender};
use crate::connections::net::{Stream, Waker};

/// Inputs taken from the belts for one turn, about.
const INPUTS_PER_TURN: usize = 256;
/// Turns with input after which the command thread looks at its own sockets.
const TURNS_WITHOUT_POLL_MAX: u32 = 8;

/// The I/O threads, as the command thread sees them; none if it reads and writes itself.
#[derive(Default)]
pub(crate) struct IoThreads {
    threads: Vec<IoThread>,
    bell: Option<Bell>,
    /// Batches with input, each with the number of its thread.
    arrived: VecDeque<(usize, Rc<Arrivals>)>,
    /// The next input of the first one.
    next: usize,
    /// Inputs in those batches.
    inputs: usize,
    notes: Vec<Note>,
    turns_without_poll: u32,
}

struct IoThread {
    orders: Sender<Orders>,
    arrivals: Receiver<Arrivals>,
    thread: Option<JoinHandle<()>>,
    connections: usize,
    slots: u32,
    free: Vec<u32>,
}

/// The next input of a connection.
pub(crate) struct Arrived {
    batch: Rc<Arrivals>,
    input: Input,
}

impl Arrived {
    /// The place and the number of its client.
    pub(crate) fn client(&self) -> (usize, u64) {
        (self.input.place, self.input.id)
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        let (start, end) = self.input.bytes;
        &self.batch.inputs.bytes[start..end]
    }

    /// The plain requests at their start.
    pub(crate) fn outlines(&self) -> &[Outline] {
        let (start, end) = self.input.outlines;
        &self.batch.inputs.outlines[start..end]
    }

    /// How many bytes were read.
    pub(crate) fn received(&self) -> usize {
        self.input.received
    }

    /// Whether the peer sends no more, as far as is known.
    pub(crate) fn is_ended(&self) -> bool {
        self.input.ended
    }

    /// Whether nothing follows it.
    pub(crate) fn is_last(&self) -> bool {
        self.input.is_last
    }

    /// Notes in the client's end of the connection what came with the input.
    pub(crate) fn update(&self, remote: &mut Remote) {
        remote.note_input(&self.input);
    }
}

impl IoThreads {
    /// Starts so many threads, which wake the command thread by `waker`.
    pub(crate) fn start(count: usize, waker: Waker) -> io::Result<Self> {
        let bell = Bell::new(move || waker.wake());
        let mut threads = Vec::new();
        for number in 1..=count {
            let worker::Started { orders, arrivals, thread } = worker::start(number, &bell)?;
            let (connections, slots, free) = (0, 0, Vec::new());
            let thread = Some(thread);
            threads.push(IoThread { orders, arrivals, thread, connections, slots, free });
        }
        let mut started = Self::default();
        (started.threads, started.bell) = (threads, Some(bell));
        Ok(started)
    }

    /// Gives a new client's socket to the thread with the fewest; back if there is no thread.
    pub(crate) fn open(&mut self, stream: Stream, place: usize, id: u64) -> Result<Remote, Stream> {
        let threads = self.threads.iter_mut().enumerate();
        let fewest = threads.min_by_key(|(_, thread)| thread.connections);
        let Some((number, thread)) = fewest else { return Err(stream) };
        thread.connections += 1;
        let slot = thread.free.pop().unwrap_or_else(|| {
            thread.slots += 1;
            thread.slots - 1
        });
        let gauge: Arc<Gauge> = Arc::default();
        let connection = Connection::new(stream, place, id, gauge.clone());
        thread.orders.batch().push(slot, Order::Open(Box::new(connection)));
        Ok(Remote::new(number, slot, gauge))
    }

    /// Closes a connection.
    pub(crate) fn close(&mut self, remote: &Remote) {
        self.end(remote, Order::Close);
    }

    /// Ends a connection, which has yet to be [closed](Self::close).
    pub(crate) fn hang_up(&mut self, remote: &Remote) {
        self.orders(remote).push(remote.slot, Order::HangUp);
    }

    fn end(&mut self, remote: &Remote, order: Order) {
        let thread = &mut self.threads[remote.thread];
        thread.orders.batch().push(remote.slot, order);
        thread.free.push(remote.slot);
        thread.connections -= 1;
    }

    /// Takes a connection back, as it is, and waits for it: an I/O thread waits for nobody.
    pub(crate) fn call_back(&mut self, remote: &Remote) -> Option<Connection> {
        self.end(remote, Order::Return);
        loop {
            let thread = &mut self.threads[remote.thread];
            thread.orders.hand();
            if let Some(mut batch) = thread.arrivals.take() {
                let returned = batch.returned.pop();
                self.note(remote.thread, batch);
                if returned.is_some() {
                    return returned;
                }
            } else if thread.orders.is_abandoned() {
                return None;
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// Where orders for a connection go.
    pub(crate) fn orders(&mut self, remote: &Remote) -> &mut Orders {
        self.threads[remote.thread].orders.batch()
    }

    /// Hands over what was ordered.
    pub(crate) fn hand(&mut self) {
        for thread in &mut self.threads {
            thread.orders.hand();
        }
    }

    /// Takes what has arrived, as much as a turn may take. Returns whether anything waits.
    pub(crate) fn collect(&mut self) -> bool {
        let mut more = true;
        while more && self.inputs < INPUTS_PER_TURN {
            more = false;
            for number in 0..self.threads.len() {
                if let Some(batch) = self.threads[number].arrivals.take() {
                    self.note(number, batch);
                    more = true;
                }
            }
        }
        self.has_arrived()
    }

    fn note(&mut self, number: usize, mut batch: Arrivals) {
        self.notes.append(&mut batch.inputs.notes);
        if batch.inputs.list.is_empty() {
            self.threads[number].arrivals.give_back(batch);
        } else {
            self.inputs += batch.inputs.list.len();
            self.arrived.push_back((number, Rc::new(batch)));
        }
    }

    /// Whether input or news wait.
    pub(crate) fn has_arrived(&self) -> bool {
        !self.arrived.is_empty() || !self.notes.is_empty()
    }

    /// Says that this thread is about to wait. Returns whether it need not.
    pub(crate) fn lie_down(&mut self) -> bool {
        let Some(bell) = &self.bell else { return false };
        bell.lie_down();
        self.hand();
        self.collect()
    }

    /// Says that this thread waits no more.
    pub(crate) fn get_up(&self) {
        if let Some(bell) = &self.bell {
            bell.get_up();
        }
    }

    /// Whether a turn that has input may do without a look at this thread's own sockets.
    pub(crate) fn spares_poll(&mut self) -> bool {
        self.turns_without_poll = (self.turns_without_poll + 1) % TURNS_WITHOUT_POLL_MAX;
        self.turns_without_poll != 0
    }

    /// The news of connections.
    pub(crate) fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// The lone requests of the next inputs, each with the place of its client, before every so
    /// many inputs.
    pub(crate) fn ahead(&self, inputs: usize) -> impl Iterator<Item = (usize, Plain<'_>)> {
        let batch = self.arrived.front().map(|(_, batch)| &**batch);
        let next = batch.filter(|_| self.next.is_multiple_of(inputs)).into_iter();
        next.flat_map(move |batch| {
            batch.inputs.list.iter().skip(self.next).take(inputs).filter_map(|input| {
                let [outline] = &batch.inputs.outlines[input.outlines.0..input.outlines.1] else {
                    return None;
                };
                let bytes = &batch.inputs.bytes[input.bytes.0..input.bytes.1];
                Some((input.place, outline.on(bytes)?))
            })
        })
    }

    /// The next input.
    pub(crate) fn next(&mut self) -> Option<Arrived> {
        loop {
            let (number, batch) = self.arrived.front()?;
            if let Some(&input) = batch.inputs.list.get(self.next) {
                self.next += 1;
                return Some(Arrived { batch: batch.clone(), input });
            }
            let number = *number;
            let (_, batch) = self.arrived.pop_front()?;
            self.inputs -= batch.inputs.list.len();
            self.next = 0;
            // One that a script has in hand is dropped later.
            if let Ok(batch) = Rc::try_unwrap(batch) {
                self.threads[number].arrivals.give_back(batch);
            }
        }
    }

    /// Fails if a thread has ended by itself.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self.threads.iter().any(|thread| thread.orders.is_abandoned()) {
            false => Ok(()),
            true => Err(io::Error::other("an I/O thread has ended")),
        }
    }

    /// Has all replies written that can be, and ends the threads.
    pub(crate) fn finish(&mut self) {
        for thread in &mut self.threads {
            thread.orders.batch().stop = true;
            while !thread.orders.hand() && !thread.orders.is_abandoned() {
                while let Some(batch) = thread.arrivals.take() {
                    thread.arrivals.give_back(batch);
                }
                std::thread::yield_now();
            }
        }
        for thread in &mut self.threads {
            // One that panicked has said so.
            let _ = thread.thread.take().map(JoinHandle::join);
        }
        self.threads.clear();
    }
}

impl Drop for IoThreads {
    fn drop(&mut self) {
        self.finish();
    }
}
