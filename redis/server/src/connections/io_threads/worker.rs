//! An I/O thread: it reads and writes the sockets of its connections.
//!
//! A turn: do what the command thread asks, read once from each socket that has something and
//! credit to hand it over, hand over, and wait. Nothing here waits for the command thread.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use mio::{Events, Interest, Poll, Token, Waker};

use super::connection::{Connection, Ready};
use super::messages::{Arrivals, Order, Orders};
use crate::connections::belts::{Batch as _, Bell, Receiver, Sender, belt};

/// Batches on their way to one side.
const BELT_BATCHES: usize = 64;
/// Batches of orders done in one turn.
const BATCHES_PER_TURN: usize = 8;
/// Looks for more events before input is handed over: the more at once, the fewer times the command
/// thread is woken.
const LOOKS_MAX: u32 = 8;
const EVENTS_MAX: usize = 1024;
const WAKER: Token = Token(usize::MAX - 1);

/// See the head of this file.
struct Worker {
    poll: Poll,
    events: Events,
    bell: Bell,
    orders: Receiver<Orders>,
    arrivals: Sender<Arrivals>,
    connections: Vec<Option<Box<Connection>>>,
    /// Slots of connections that may be read from.
    readable: VecDeque<u32>,
    /// Looks for more events since input was handed over.
    looks: u32,
    stops: bool,
}

/// The command thread's ends of the belts, and the thread.
pub(super) struct Started {
    pub(super) orders: Sender<Orders>,
    pub(super) arrivals: Receiver<Arrivals>,
    pub(super) thread: JoinHandle<()>,
}

/// Starts the I/O thread of this number; `commands` wakes the command thread.
pub(super) fn start(number: usize, commands: &Bell) -> io::Result<Started> {
    let poll = Poll::new()?;
    let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
    let bell = Bell::new(move || {
        // Fails only if the event descriptor is gone, and with it the thread.
        let _ = waker.wake();
    });
    let (sender, orders) = belt(BELT_BATCHES, commands.clone(), bell.clone());
    let (arrivals, receiver) = belt(BELT_BATCHES, bell.clone(), commands.clone());
    let mut worker = Worker {
        poll,
        events: Events::with_capacity(EVENTS_MAX),
        bell,
        orders,
        arrivals,
        connections: Vec::new(),
        readable: VecDeque::new(),
        looks: 0,
        stops: false,
    };
    let name = format!("stillframe-io-{number}");
    let thread = Builder::new().name(name).spawn(move || worker.run())?;
    Ok(Started { orders: sender, arrivals: receiver, thread })
}

impl Worker {
    fn run(&mut self) {
        while !self.stops {
            let obeyed = self.obey();
            let reads = self.read();
            if let Err(error) = self.wait(obeyed || reads) {
                tracing::error!("an I/O thread ends: {error}");
                return; // the command thread finds its belt abandoned
            }
        }
    }

    /// Does what was asked. Returns whether there was anything.
    fn obey(&mut self) -> bool {
        for count in 0..BATCHES_PER_TURN {
            let Some(mut batch) = self.orders.take() else { return count > 0 };
            let mut rest = &batch.bytes[..];
            for (slot, order) in batch.list.drain(..) {
                let written = if let Order::Write(count) = order { count } else { 0 };
                let (bytes, behind) = rest.split_at(written);
                rest = behind;
                self.obey_one(slot, order, bytes);
            }
            self.stops |= batch.stop;
            self.orders.give_back(batch);
        }
        true
    }

    fn obey_one(&mut self, slot: u32, order: Order, bytes: &[u8]) {
        if let Order::Open(connection) = order {
            return self.open(slot, connection);
        }
        let Some(place) = self.connections.get_mut(slot as usize) else { return };
        let Some(connection) = place else { return };
        let Arrivals { inputs, returned } = self.arrivals.batch();
        match order {
            Order::Write(_) => connection.write(bytes, inputs),
            Order::WriteAll(bytes) => connection.write_all(bytes, inputs),
            Order::Read(credit) => {
                connection.allow(credit);
                enqueue(&mut self.readable, slot, connection);
            }
            Order::ReportDrained => connection.report_when_drained(inputs),
            Order::HangUp => connection.hang_up(),
            Order::Open(_) | Order::Close | Order::Return => {
                let Some(mut connection) = place.take() else { return };
                // Fails only if the connection is gone already.
                let _ = self.poll.registry().deregister(&mut connection.stream);
                if matches!(order, Order::Return) {
                    returned.push(*connection);
                } else {
                    connection.stream.close();
                }
            }
        }
    }

    fn open(&mut self, slot: u32, mut connection: Box<Connection>) {
        let place = slot as usize;
        let both = Interest::READABLE | Interest::WRITABLE;
        let watched = self.poll.registry().register(&mut connection.stream, Token(place), both);
        if let Err(error) = watched {
            tracing::warn!("cannot watch a connection: {error}");
            connection.fail(&mut self.arrivals.batch().inputs);
        }
        if self.connections.len() <= place {
            self.connections.resize_with(place + 1, || None);
        }
        // The first bytes bring an event, since it was registered after it was accepted.
        self.connections[place] = Some(connection);
    }

    /// Reads once from each socket with something to read, as long as the input finds room.
    /// Returns whether there is more.
    fn read(&mut self) -> bool {
        for _ in 0..self.readable.len() {
            if self.arrivals.batch().inputs.is_ample() && !self.hand() {
                return false; // the command thread rings when there is room
            }
            let Some(slot) = self.readable.pop_front() else { break };
            let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { continue };
            connection.queued = false;
            if connection.can_read() {
                connection.read(&mut self.arrivals.batch().inputs);
                enqueue(&mut self.readable, slot, connection);
            }
        }
        !self.readable.is_empty()
    }

    /// Hands over what has come; false if there is no room.
    fn hand(&mut self) -> bool {
        let is_handed = self.arrivals.hand();
        if is_handed {
            self.looks = 0;
        }
        is_handed
    }

    /// Waits for sockets, or for orders.
    fn wait(&mut self, is_busy: bool) -> io::Result<()> {
        let mut timeout = Some(Duration::ZERO);
        let looks = !self.arrivals.batch().is_empty() && self.looks < LOOKS_MAX;
        self.looks += u32::from(looks);
        if !looks {
            self.hand();
        }
        if !looks && !is_busy {
            self.bell.lie_down();
            // What is stuck goes out when the bell rings; then what is readable is read.
            let is_stuck = !self.hand();
            if self.orders.is_empty() && (is_stuck || self.readable.is_empty()) {
                timeout = None;
            }
        }
        let polled = self.poll.poll(&mut self.events, timeout);
        self.bell.get_up();
        match polled {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        if self.events.is_empty() {
            self.hand(); // no more comes for now
        }
        for event in &self.events {
            let Token(place) = event.token();
            let Some(Some(connection)) = self.connections.get_mut(place) else { continue };
            let ended = event.is_read_closed() || event.is_error();
            let (readable, writable) = (event.is_readable(), event.is_writable());
            let ready = Ready { readable, writable, ended };
            connection.note(ready, &mut self.arrivals.batch().inputs);
            enqueue(&mut self.readable, place as u32, connection);
        }
        Ok(())
    }
}

/// Has a connection read from, if it may be.
fn enqueue(readable: &mut VecDeque<u32>, slot: u32, connection: &mut Connection) {
    if connection.can_read() && !std::mem::replace(&mut connection.queued, true) {
        readable.push_back(slot);
    }
}
