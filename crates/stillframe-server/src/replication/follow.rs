//! This server as a replica: the connection to its primary, from the first attempt on.
//!
//! - The connection is tried anew until it stands, with growing pauses when what comes over it
//!   cannot be used. It asks to go on where the data is, and takes a whole image otherwise.
//! - The image is received beside the data; only once it is whole does it take the data's place,
//!   a slice at each turn, so that clients hear that it is being loaded.
//! - The offset of the data is the end of the stream: what is applied is added to it, byte for
//!   byte.

use std::io;
use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use rustix::io::Errno;
use stillframe::Algorithm;
use stillframe_resp::{Limits, Parser};

use super::apply::apply;
use super::handshake::Question;
use super::receive::{Load, Receiving};
use crate::poll::Ready;
use crate::server::Server;
use crate::session::Session;
use crate::state::ServerState;
use crate::stream::Stream;
use crate::tls::Tls;

/// Pause before a connection that has ended is tried anew.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest such pause, when what the primary sends cannot be used.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// Reads of one turn.
const READS_PER_TURN: usize = 16;
/// How often the primary is told how far this server is.
const ACK_PERIOD: Duration = Duration::from_secs(1);

/// The primary that is followed, and how that goes.
pub(crate) struct Following {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Whose requests the stream's are; taken out while they run.
    pub(super) session: Option<Box<Session>>,
    pub(super) link: Option<Link>,
    /// An image is taking the place of the data.
    pub(super) load: Option<Load>,
    /// The data is no state that a primary could continue.
    pub(super) lost: bool,
    /// Since when the primary is out of reach.
    pub(crate) down_since: Option<Instant>,
    /// When it last sent anything.
    pub(crate) last_io: Instant,
    /// The link is to be ended, as somebody wishes.
    pub(crate) kill: bool,
    /// There is more to do at once.
    pub(crate) more: bool,
    retry_at: Instant,
    pause: Duration,
}

/// The connection to the primary.
pub(crate) struct Link {
    pub(super) stream: Stream,
    pub(super) step: Step,
    pub(super) input: Vec<u8>,
    pub(super) output: Vec<u8>,
    pub(super) parser: Parser,
    /// Bytes of `input` whose requests have run, or wait for their EXEC.
    pub(super) parsed: usize,
    readable: bool,
    writable: bool,
    pub(super) next_ack: Instant,
}

/// How far the conversation is.
pub(super) enum Step {
    /// The connection is being made.
    Connecting,
    /// A question was asked.
    Asked(Question),
    /// An image is announced next.
    Announced,
    /// An image is coming.
    Receiving(Receiving),
    /// It is being loaded.
    Loading,
    /// The stream is coming.
    Streaming,
}

impl Drop for Link {
    fn drop(&mut self) {
        // A forked child may hold the socket, too.
        self.stream.close();
    }
}

impl Following {
    /// Not connected yet. `id`: the number of the primary as a client; `lost`: see there.
    pub(crate) fn new(host: String, port: u16, id: u64, lost: bool) -> Self {
        let now = Instant::now();
        let session = Session { id, ..Session::internal() };
        Self {
            host,
            port,
            session: Some(Box::new(session)),
            link: None,
            load: None,
            lost,
            down_since: Some(now),
            last_io: now,
            kill: false,
            more: false,
            retry_at: now,
            pause: PAUSE,
        }
    }

    /// The connection, for its events.
    pub(crate) fn link_mut(&mut self) -> Option<&mut Link> {
        self.link.as_mut()
    }

    /// Whether the stream is being followed.
    pub(crate) fn is_connected(&self) -> bool {
        self.link.as_ref().is_some_and(|link| matches!(link.step, Step::Streaming))
    }

    /// Whether an image takes the place of the data.
    pub(crate) fn is_loading(&self) -> bool {
        self.load.is_some()
    }

    /// How far the load is.
    pub(crate) fn load(&self) -> Option<&Load> {
        self.load.as_ref()
    }

    /// The image that is coming.
    pub(crate) fn receiving(&self) -> Option<&Receiving> {
        match &self.link.as_ref()?.step {
            Step::Receiving(receiving) => Some(receiving),
            _ => None,
        }
    }

    /// The database that the stream has selected.
    pub(crate) fn db(&self) -> usize {
        self.session.as_ref().map_or(0, |session| session.db)
    }

    /// Bytes that have come and are not applied.
    pub(crate) fn unapplied(&self) -> u64 {
        self.link.as_ref().map_or(0, |link| link.input.len() as u64)
    }

    /// The primary as a client, while there is a connection.
    pub(crate) fn client(&self) -> Option<&Session> {
        self.link.as_ref().and(self.session.as_deref())
    }

    /// Redis's word for how far the connection is, for ROLE.
    pub(crate) fn state(&self) -> &'static str {
        match self.link.as_ref().map(|link| &link.step) {
            None => "connect",
            Some(Step::Connecting) => "connecting",
            Some(Step::Asked(_)) => "handshake",
            Some(Step::Announced | Step::Receiving(_) | Step::Loading) => "sync",
            Some(Step::Streaming) => "connected",
        }
    }

    /// The connection has ended, or has to.
    pub(super) fn fail(&mut self, problem: &str) {
        tracing::warn!("the primary {}:{}: {problem}", self.host, self.port);
        self.link = None;
        let now = Instant::now();
        self.down_since.get_or_insert(now);
        self.retry_at = now + self.pause;
        if let Some(session) = &mut self.session {
            session.transaction = None;
        }
    }

    /// What the primary sent cannot be used: only an image can help, and perhaps not soon.
    pub(super) fn fail_badly(&mut self, problem: &str) {
        self.fail(problem);
        self.lost = true;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// The stream is being followed from now on.
    pub(super) fn connected(&mut self, link: &mut Link) {
        link.step = Step::Streaming;
        link.parsed = 0;
        (self.down_since, self.lost, self.pause) = (None, false, PAUSE);
    }

    /// Begins to connect; `tls` if the connection is to be secured.
    fn connect(&self, tls: Option<&Tls>) -> io::Result<Link> {
        let mut addresses = (&*self.host, self.port).to_socket_addrs()?;
        let address = addresses.next().ok_or(io::ErrorKind::NotFound)?;
        let stream = TcpStream::connect(address)?;
        let _ = stream.set_nodelay(true);
        let stream = match tls {
            Some(tls) => Stream::Tls(Box::new(tls.connect(stream, &self.host)?)),
            None => Stream::Tcp(stream),
        };
        let limits = Limits { bulk_bytes_max: u32::MAX as usize, ..Limits::OPEN };
        Ok(Link {
            stream,
            step: Step::Connecting,
            input: Vec::new(),
            output: Vec::new(),
            parser: Parser::new(limits),
            parsed: 0,
            readable: false,
            writable: false,
            next_ack: Instant::now(),
        })
    }
}

impl Link {
    /// Notes an event.
    pub(crate) fn on_event(&mut self, event: Ready) {
        if let Ready::Primary { readable, writable } = event {
            self.readable |= readable;
            self.writable |= writable;
        }
    }

    /// Reads once; false if there is nothing.
    fn read(&mut self) -> io::Result<bool> {
        if !self.readable {
            return Ok(false);
        }
        self.input.reserve(READ_BYTES);
        match self.stream.read_behind(&mut self.input) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => {
                self.readable = false;
                Ok(false)
            }
            Err(Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes what waits.
    fn write(&mut self) -> io::Result<()> {
        if !self.writable || self.output.is_empty() && !self.stream.holds_output() {
            return Ok(());
        }
        match self.stream.write(&self.output) {
            Ok(count) => {
                self.output.drain(..count);
                self.writable = !self.stream.holds_output();
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                self.writable = false;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Tells the primary how far the data is.
    pub(super) fn acknowledge(&mut self, offset: u64, now: Instant) {
        let offset = offset.to_string();
        let words: [&[u8]; 3] = [b"REPLCONF", b"ACK", offset.as_bytes()];
        crate::effects::write_request(&mut self.output, &words);
        self.next_ack = now + ACK_PERIOD;
    }
}

impl<A: Algorithm> Server<A> {
    /// Does what there is to do with the primary. Called every turn.
    pub(crate) fn follow(&mut self) {
        let now = self.state.loop_time;
        let ServerState { replication, config, tls, .. } = &mut self.state;
        let Some(following) = &mut replication.following else { return };
        following.more = false;
        if std::mem::take(&mut following.kill) && following.link.is_some() {
            following.fail("the connection is ended, as a client wishes");
        }
        if following.load.is_some() {
            return self.load_slice();
        }
        if following.link.is_none() {
            if now < following.retry_at {
                return;
            }
            let tls = config.tls.replication.then_some(&*tls);
            let connected = following.connect(tls).and_then(|mut link| {
                self.poller.add_primary(&mut link.stream)?;
                Ok(link)
            });
            following.last_io = now;
            match connected {
                Ok(link) => following.link = Some(link),
                Err(error) => following.fail(&format!("cannot connect: {error}")),
            }
            return;
        }
        if let Some(mut link) = following.link.take() {
            let outcome = self.converse(&mut link);
            let timeout = Duration::from_secs(self.state.config.replication.timeout_s.into());
            let Some(following) = &mut self.state.replication.following else { return };
            let silent = now.saturating_duration_since(following.last_io) > timeout;
            following.link = Some(link);
            match outcome {
                Err(Failure::Ended(problem)) => following.fail(&problem),
                Err(Failure::Unusable(problem)) => following.fail_badly(&problem),
                Ok(()) if silent => following.fail("it is silent (repl-timeout)"),
                Ok(()) => {}
            }
        }
    }

    fn converse(&mut self, link: &mut Link) -> Result<(), Failure> {
        let now = self.state.loop_time;
        if matches!(link.step, Step::Connecting) {
            if !link.writable {
                return Ok(());
            }
            if let Some(error) = link.stream.take_error()? {
                return Err(error.into());
            }
            if link.stream.shake_hands()? {
                return Ok(());
            }
            Question::Ping.ask(link, &self.state);
        }
        for round in 0..READS_PER_TURN {
            if !link.read()? {
                break;
            }
            if let Some(following) = &mut self.state.replication.following {
                following.last_io = now;
                following.more = round + 1 == READS_PER_TURN;
            }
            self.advance(link)?;
            if matches!(link.step, Step::Loading) {
                break;
            }
        }
        if now >= link.next_ack && matches!(link.step, Step::Streaming) {
            link.acknowledge(self.state.replication.stream.end(), now);
        }
        Ok(link.write()?)
    }

    /// Works on what has come.
    pub(super) fn advance(&mut self, link: &mut Link) -> Result<(), Failure> {
        loop {
            let left = link.input.len();
            match &mut link.step {
                Step::Connecting | Step::Loading => return Ok(()),
                Step::Asked(_) => self.answered(link)?,
                Step::Announced => super::receive::announced(link)?,
                Step::Receiving(_) => self.receive(link)?,
                Step::Streaming => {
                    return apply(&mut self.keyspace, &mut self.state, &self.table, link)
                        .map_err(Failure::Unusable);
                }
            }
            if link.input.len() == left {
                return Ok(());
            }
        }
    }
}

/// Why the connection cannot go on.
pub(super) enum Failure {
    /// It has ended, or the primary cannot serve now.
    Ended(String),
    /// What came cannot be used.
    Unusable(String),
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Self {
        io::Error::from(error).into()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Ended(match error.kind() {
            io::ErrorKind::UnexpectedEof => "it has closed the connection".to_owned(),
            _ => format!("the connection failed: {error}"),
        })
    }
}
