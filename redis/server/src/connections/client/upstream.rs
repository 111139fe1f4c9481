//! The way of a client to the leader of the group: bytes are passed on both ways as they are.
//!
//! - A greeting goes first, which makes the session there what it is here; the client's requests
//!   follow when the leader has agreed to it.
//! - What has gone may have been done: nothing is sent twice.
//! - Of the replies only their ends are followed, so that an error is never written into one.

use std::io;
use std::time::Duration;

use mio::net::TcpStream;
use rustix::io::Errno;
use stillframe_commands::write_request;
use stillframe_resp::{Boundary, Protocol, Reply, decode_reply};

use crate::connections::client::Session;
use crate::connections::net::{Lookup, Poller, Stream};
use crate::connections::tls::Tls;

/// Bytes that may wait for one side before the other is read no further.
pub(crate) const WAITING_BYTES_MAX: usize = 1 << 20;
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// How long the whole server waits for the address of a name.
const LOOKUP_PATIENCE: Duration = Duration::from_millis(5);

/// See the head of this file.
pub(crate) struct Upstream {
    /// The number of the leader.
    leader: u64,
    host: String,
    step: Step,
    /// The connection is made.
    is_open: bool,
    /// Bytes for the leader.
    output: Vec<u8>,
    /// The client's requests, until the leader has agreed to the greeting.
    held: Vec<u8>,
    /// Replies to the greeting.
    input: Vec<u8>,
    /// The number that are due.
    due: usize,
    replies: Boundary,
    readable: bool,
    writable: bool,
    /// The client sends no more.
    ends: bool,
}

enum Step {
    /// The address of a name is looked up.
    Looking(Lookup),
    /// There is a connection, which may not be made yet.
    Socket(Stream),
}

/// Requests that make a session at the leader what it is here.
pub(crate) struct Greeting {
    bytes: Vec<u8>,
    count: usize,
}

/// Why requests are passed on no longer.
pub(crate) enum Lost {
    /// The leader was not reached, so that nothing was done.
    NotReached(io::Error),
    /// It does not agree to the session, so that nothing was done.
    Refused(String),
    /// The connection has ended, or another member leads.
    Ended,
}

impl Greeting {
    pub(crate) fn for_session(session: &Session) -> Self {
        let mut greeting = Self { bytes: Vec::new(), count: 0 };
        greeting.add(&[b"STILLFRAME", b"FORWARDED"]);
        let is_three = session.protocol == Protocol::Resp3;
        let mut hello = vec![&b"HELLO"[..], if is_three { b"3" } else { b"2" }];
        if let Some([user, password]) = session.credentials.as_deref() {
            hello.extend([&b"AUTH"[..], user, password]);
        }
        if !session.name.is_empty() {
            hello.extend([&b"SETNAME"[..], &session.name]);
        }
        if is_three || hello.len() > 2 {
            greeting.add(&hello);
        }
        if session.caller.db != 0 {
            greeting.add(&[b"SELECT", session.caller.db.to_string().as_bytes()]);
        }
        let library = &session.library;
        for (what, value) in [(&b"LIB-NAME"[..], &library.name), (b"LIB-VER", &library.version)] {
            if !value.is_empty() {
                greeting.add(&[b"CLIENT", b"SETINFO", what, value]);
            }
        }
        for (what, is_on) in
            [(&b"NO-EVICT"[..], session.spared), (b"NO-TOUCH", session.touches_nothing)]
        {
            if is_on {
                greeting.add(&[b"CLIENT", what, b"ON"]);
            }
        }
        for (list, names) in session.caller.fieldsets.iter().flat_map(|lists| lists.iter()) {
            let words = [&b"HIMPORT"[..], b"PREPARE", list];
            greeting.add(&words.into_iter().chain(names).collect::<Vec<_>>());
        }
        greeting
    }

    fn add(&mut self, words: &[&[u8]]) {
        write_request(&mut self.bytes, words);
        self.count += 1;
    }
}

impl Lost {
    /// The error for the client.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::NotReached(error) => format!("CLUSTERDOWN The leader cannot be reached: {error}"),
            Self::Refused(why) => format!("ERR The leader does not take this connection: {why}"),
            Self::Ended => {
                "ERR The connection to the leader was lost: what was asked last may have \
                            been done, or not"
                    .to_owned()
            }
        }
    }
}

impl From<Errno> for Lost {
    fn from(_: Errno) -> Self {
        Self::Ended
    }
}

impl Upstream {
    /// Begins the way to a leader.
    pub(crate) fn begin(
        leader: u64,
        host: &str,
        port: u16,
        greeting: Greeting,
        requests: Vec<u8>,
    ) -> io::Result<Self> {
        Ok(Self {
            leader,
            host: host.to_owned(),
            step: Step::Looking(Lookup::begin(host, port)?),
            is_open: false,
            output: greeting.bytes,
            held: requests,
            input: Vec::new(),
            due: greeting.count,
            replies: Boundary::default(),
            readable: false,
            writable: false,
            ends: false,
        })
    }

    /// The number of the leader.
    pub(crate) fn leader(&self) -> u64 {
        self.leader
    }

    /// Notes an event of the socket.
    pub(crate) fn note(&mut self, readable: bool, writable: bool) {
        self.readable |= readable;
        self.writable |= writable;
    }

    /// Whether the socket may hold more bytes.
    pub(crate) fn is_readable(&self) -> bool {
        self.readable
    }

    /// Whether the address is being looked up.
    pub(crate) fn looks(&self) -> bool {
        matches!(self.step, Step::Looking(_))
    }

    /// Whether the bytes from the leader so far end with a whole reply.
    pub(crate) fn is_between_replies(&self) -> bool {
        self.replies.is_whole()
    }

    /// Bytes of memory of its buffers.
    pub(crate) fn memory(&self) -> usize {
        self.output.len() + self.held.len() + self.input.len() + size_of::<Self>()
    }

    /// Whether it takes more requests now.
    pub(crate) fn takes_requests(&self) -> bool {
        !self.ends && self.output.len() + self.held.len() < WAITING_BYTES_MAX
    }

    /// Takes requests of the client.
    pub(crate) fn take_requests(&mut self, bytes: &[u8]) {
        if self.due > 0 { &mut self.held } else { &mut self.output }.extend_from_slice(bytes);
    }

    /// The client sends no more.
    pub(crate) fn end_requests(&mut self) {
        self.ends = true;
    }

    /// Whether the client sends no more.
    pub(crate) fn has_all(&self) -> bool {
        self.ends
    }

    /// Goes on to connect; returns whether it is connected.
    pub(crate) fn connect(
        &mut self,
        place: usize,
        poller: &Poller,
        tls: Option<&Tls>,
    ) -> Result<bool, Lost> {
        if let Step::Looking(lookup) = &self.step {
            let Some(address) = lookup.wait(LOOKUP_PATIENCE) else { return Ok(false) };
            let stream = address.and_then(TcpStream::connect).and_then(|stream| {
                let _ = stream.set_nodelay(true); // slower without, and right
                let mut stream = match tls {
                    Some(tls) => Stream::Tls(Box::new(tls.connect(stream, &self.host)?)),
                    None => Stream::Tcp(stream),
                };
                poller.add_upstream(&mut stream, place)?;
                Ok(stream)
            });
            self.step = Step::Socket(stream.map_err(Lost::NotReached)?);
            return Ok(false); // an event follows
        }
        if let Step::Socket(stream) = &mut self.step
            && !self.is_open
        {
            if !self.writable {
                return Ok(false);
            }
            let failed = stream.take_error().and_then(|error| error.map_or(Ok(()), Err));
            failed.map_err(Lost::NotReached)?;
            if stream.shake_hands().map_err(|error| Lost::NotReached(error.into()))? {
                return Ok(false);
            }
            self.is_open = true;
        }
        Ok(self.is_open)
    }

    /// Reads replies once and passes them on; false if there are none now.
    pub(crate) fn read(&mut self, into: &mut Vec<u8>) -> Result<bool, Lost> {
        let Step::Socket(stream) = &mut self.step else { return Ok(false) };
        if !self.readable || !self.is_open {
            return Ok(false);
        }
        let to = if self.due > 0 { &mut self.input } else { &mut *into };
        to.reserve(READ_BYTES);
        let start = to.len();
        match stream.read_behind(to) {
            Ok(0) => return Err(Lost::Ended),
            Ok(_) => {}
            Err(Errno::AGAIN) => {
                self.readable = false;
                return Ok(false);
            }
            Err(Errno::INTR) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
        if self.due > 0 {
            self.read_greeting(into)?;
        } else {
            self.replies.pass(&into[start..]);
        }
        Ok(true)
    }

    /// Takes replies to the greeting; what follows is the client's.
    fn read_greeting(&mut self, into: &mut Vec<u8>) -> Result<(), Lost> {
        while self.due > 0 {
            let refused = |what: String| Err(Lost::Refused(what));
            let used = match decode_reply(&self.input) {
                Ok(None) => return Ok(()),
                Ok(Some((Reply::Error(text), _))) => {
                    return refused(String::from_utf8_lossy(text).into_owned());
                }
                Ok(Some((_, used))) => used,
                Err(error) => return refused(error.to_string()),
            };
            self.input.drain(..used);
            self.due -= 1;
        }
        self.output.append(&mut self.held);
        let rest = std::mem::take(&mut self.input);
        self.replies.pass(&rest);
        into.extend_from_slice(&rest);
        Ok(())
    }

    /// Writes requests, as many as the socket takes.
    pub(crate) fn write(&mut self) -> Result<(), Lost> {
        let Step::Socket(stream) = &mut self.step else { return Ok(()) };
        while self.writable && (!self.output.is_empty() || stream.holds_output()) {
            match stream.write(&self.output) {
                Ok(count) => {
                    let left = self.output.len() - count;
                    self.output.drain(..count);
                    self.writable = !stream.is_full(left);
                }
                Err(Errno::AGAIN) => self.writable = false,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if self.ends && self.output.is_empty() && self.held.is_empty() {
            stream.end_output();
        }
        Ok(())
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        if let Step::Socket(stream) = &mut self.step {
            stream.close(); // a forked child may hold the socket, too
        }
    }
}
