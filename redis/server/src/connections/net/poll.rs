//! The seam to the operating system's readiness events; another back end replaces this file.
//!
//! - Events are edge-triggered: an event reports a change since the last short read or write. Its
//!   receiver works until the socket is drained, or remembers to go on.
//! - A socket is registered once, for reading and writing, until it is closed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mio::event::{Event, Source};
use mio::{Events, Interest, Poll, Registry, Token};
use stillframe_storage::wake::Wake;

use crate::connections::net::Stream;
use crate::connections::net::memory::{Doorstep, Porch, Readiness};

/// The subject of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    /// The numbered listening socket has connections to accept.
    Listener(usize),
    /// The client at this place of the registry can be read from or written to.
    Client {
        /// Its place in the registry.
        place: usize,
        /// Bytes, or the end of the stream, can be read.
        readable: bool,
        /// Output that was blocked can go on.
        writable: bool,
        /// The peer sends no more: read until the end of the stream is seen.
        ended: bool,
    },
    /// The connection to the primary can be read from or written to.
    Primary {
        /// Bytes, or the end of the stream, can be read.
        readable: bool,
        /// The connection is made, or output can go on.
        writable: bool,
    },
    /// The connection to the leader of the client at this place can be read from or written to.
    Upstream {
        /// The client's place in the registry.
        place: usize,
        /// Bytes, or the end of the stream, can be read.
        readable: bool,
        /// The connection is made, or output can go on.
        writable: bool,
    },
    /// [`Waker::wake`] was called, or an image can be passed on.
    Woken,
}

const WAKER: Token = Token(usize::MAX - 1);
const PRIMARY: Token = Token(usize::MAX - 2);
const FIRST_LISTENER: usize = usize::MAX / 2;
const FIRST_UPSTREAM: usize = usize::MAX / 8 * 3;
const FIRST_RELAY: usize = usize::MAX / 4;
const EVENTS_MAX: usize = 1024;

/// Waits for sockets.
pub(crate) struct Poller {
    poll: Poll,
    events: Events,
    waker: Waker,
    /// Where news of connections within the process come in.
    doorstep: Option<Doorstep>,
}

/// Wakes a [`Poller`] from another thread.
#[derive(Clone)]
pub(crate) struct Waker(Arc<mio::Waker>);

impl Waker {
    /// Makes the wait under way, or the next one, return at once.
    pub(crate) fn wake(&self) {
        // Fails only if the event descriptor is gone, and with it the poller.
        let _ = self.0.wake();
    }

    /// The waker for those who know no sockets.
    pub(crate) fn into_wake(self) -> Wake {
        Arc::new(move || self.wake())
    }
}

/// The part of a poller that watches listening sockets.
pub(crate) struct Door(Registry);

impl Door {
    /// Watches a listening socket under a number, in place of any number before.
    pub(crate) fn watch(&self, source: &mut dyn Source, number: usize) -> io::Result<()> {
        // A new socket is not registered yet.
        let _ = self.0.deregister(source);
        self.0.register(source, Token(FIRST_LISTENER + number), Interest::READABLE)
    }
}

impl Poller {
    /// A poller that waits for nothing yet.
    pub(crate) fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker(Arc::new(mio::Waker::new(poll.registry(), WAKER)?));
        Ok(Self { poll, events: Events::with_capacity(EVENTS_MAX), waker, doorstep: None })
    }

    /// From now on there are connections within the process, too.
    pub(crate) fn open_porch(&mut self) -> Porch {
        let porch = Porch::new(self.waker().into_wake());
        self.doorstep = Some(Doorstep::new(porch.clone()));
        porch
    }

    /// Where connections within the process arrive, if there are any.
    pub(crate) fn porch(&self) -> Option<Porch> {
        self.doorstep.as_ref().map(Doorstep::porch)
    }

    /// A handle that wakes this poller.
    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// A handle that watches listening sockets.
    pub(crate) fn door(&self) -> io::Result<Door> {
        self.poll.registry().try_clone().map(Door)
    }

    /// Watches a client's socket.
    pub(crate) fn add_client(&self, source: &mut impl Source, place: usize) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(source, Token(place), both)
    }

    /// Watches the connection to the primary.
    pub(crate) fn add_primary(&self, source: &mut impl Source) -> io::Result<()> {
        self.poll.registry().register(source, PRIMARY, Interest::READABLE | Interest::WRITABLE)
    }

    /// Watches the connection to the leader of the client at `place`.
    pub(crate) fn add_upstream(&self, source: &mut impl Source, place: usize) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(source, Token(FIRST_UPSTREAM + place), both)
    }

    /// Watches `source`, which has the image for the replica at `place`.
    pub(crate) fn add_relay(&self, source: &mut dyn Source, place: usize) -> io::Result<()> {
        self.poll.registry().register(source, Token(FIRST_RELAY + place), Interest::READABLE)
    }

    /// Forgets `source`.
    pub(crate) fn remove_relay(&self, source: &mut dyn Source) {
        let _ = self.poll.registry().deregister(source); // gone already
    }

    /// Forgets a client's socket and closes the connection.
    pub(crate) fn remove_client(&self, mut stream: Stream) {
        // Fails only if the connection is gone already.
        let _ = self.poll.registry().deregister(&mut stream);
        stream.close();
    }

    /// Waits until something is ready or the time is over, and appends the events.
    pub(crate) fn wait(&mut self, timeout: Duration, ready: &mut Vec<Ready>) -> io::Result<()> {
        let Some(doorstep) = &mut self.doorstep else { return self.poll(timeout, ready) };
        let polled = match doorstep.lie_down(timeout) {
            Some(timeout) => self.poll(timeout, ready),
            None => Ok(()),
        };
        if let Some(doorstep) = &mut self.doorstep {
            doorstep.get_up(|token, news| ready.push(subject(token, News::of_memory(news))));
        }
        polled
    }

    fn poll(&mut self, timeout: Duration, ready: &mut Vec<Ready>) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        let events = self.events.iter();
        ready.extend(events.map(|event| subject(event.token(), News::of_socket(event))));
        Ok(())
    }
}

/// What has become possible.
struct News {
    readable: bool,
    writable: bool,
    /// The peer sends no more, or the connection has failed.
    ended: bool,
    failed: bool,
}

impl News {
    fn of_socket(event: &Event) -> Self {
        let failed = event.is_error();
        let (readable, writable) = (event.is_readable(), event.is_writable());
        Self { readable, writable, ended: event.is_read_closed() || failed, failed }
    }

    fn of_memory(news: Readiness) -> Self {
        let (ended, writable) = (news.has(Readiness::ENDED), news.has(Readiness::WRITABLE));
        // The end is read, as that of a socket is.
        Self { readable: ended || news.has(Readiness::READABLE), writable, ended, failed: false }
    }
}

fn subject(token: Token, News { readable, writable, ended, failed }: News) -> Ready {
    match token {
        WAKER => Ready::Woken,
        PRIMARY => Ready::Primary { readable: readable || ended, writable: writable || failed },
        Token(token) if token >= FIRST_LISTENER => Ready::Listener(token - FIRST_LISTENER),
        Token(token) if token >= FIRST_UPSTREAM => Ready::Upstream {
            place: token - FIRST_UPSTREAM,
            readable: readable || ended,
            writable: writable || failed,
        },
        Token(token) if token >= FIRST_RELAY => Ready::Woken,
        Token(place) => Ready::Client { place, readable, writable, ended },
    }
}
