//! The primary that this server follows, and the connection to it.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use rustix::io::Errno;
use stillframe_redis::Address;

use super::link::{Link, Step};
use super::reception::{Load, Reception};
use crate::client::Session;
use crate::net::Stream;
use crate::tls::Tls;

/// Pause before a connection that has ended is tried anew.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest such pause, when what the primary sends cannot be used.
const PAUSE_MAX: Duration = Duration::from_secs(60);

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
    pub(super) retry_at: Instant,
    pause: Duration,
}

impl Following {
    /// Not connected yet. `id`: the number of the primary as a client; `lost`: see there.
    pub(crate) fn new(host: String, port: u16, id: u64, lost: bool) -> Self {
        let now = Instant::now();
        let mut session = Session::internal();
        session.caller.id = id;
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
    pub(crate) fn reception(&self) -> Option<&Reception> {
        match &self.link.as_ref()?.step {
            Step::Receiving(reception) => Some(reception),
            _ => None,
        }
    }

    /// Bytes that have come and are not applied.
    pub(crate) fn unapplied(&self) -> u64 {
        self.link.as_ref().map_or(0, |link| link.input.len() as u64)
    }

    /// The primary as a client, while its stream is followed.
    pub(crate) fn client(&self) -> Option<&Session> {
        self.session.as_deref().filter(|_| self.is_connected())
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

    /// Ends the link, as a client wishes. The primary hears of it at once, whatever this server
    /// does before it looks again.
    pub(crate) fn cut(&mut self) {
        self.kill = true;
        if let Some(link) = &mut self.link {
            link.stream.close();
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

    /// Nothing has come for `repl-timeout`.
    pub(super) fn fail_silent(&mut self) {
        self.fail(match self.state() {
            "connected" => "MASTER timeout: no data nor PING received (repl-timeout)",
            "sync" => "Timeout receiving bulk data from MASTER (repl-timeout)",
            _ => "Timeout connecting to the MASTER (repl-timeout)",
        });
    }

    /// What the primary sent cannot be used: only an image can help, and perhaps not soon.
    pub(super) fn fail_badly(&mut self, problem: &str) {
        self.fail(problem);
        self.lost = true;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// The stream is being followed from now on, from where `db` is selected.
    pub(super) fn connected(&mut self, link: &mut Link, db: usize) {
        link.step = Step::Streaming;
        link.parsed = 0;
        if let Some(session) = &mut self.session {
            session.caller.db = db;
        }
        (self.down_since, self.lost, self.pause) = (None, false, PAUSE);
    }

    /// Begins to connect, from the address `source` unless it is empty; `tls` if the connection is
    /// to be secured.
    pub(super) fn connect(&mut self, source: &str, tls: Option<&Tls>) -> io::Result<Link> {
        let mut addresses = (&*self.host, self.port).to_socket_addrs()?;
        let address = addresses.next().ok_or(io::ErrorKind::NotFound)?;
        let stream = match source {
            "" => TcpStream::connect(address)?,
            source => connect_from(source, address).or_else(|error| {
                tracing::warn!("cannot connect from {source} (bind-source-addr): {error}");
                TcpStream::connect(address) // as Redis does
            })?,
        };
        let _ = stream.set_nodelay(true);
        if let Some(session) = &mut self.session {
            session.caller.peer = Address::Net(address);
            session.local = Address::Net(stream.local_addr()?);
            (session.fd, session.connected) = (stream.as_raw_fd(), Instant::now());
        }
        let stream = match tls {
            Some(tls) => Stream::Tls(Box::new(tls.connect(stream, &self.host)?)),
            None => Stream::Tcp(stream),
        };
        Ok(Link::over(stream))
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

/// Begins to connect from one of this machine's addresses.
fn connect_from(source: &str, address: SocketAddr) -> io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
    let mut own = (source, 0).to_socket_addrs()?;
    let own = own.find(|own| own.is_ipv4() == address.is_ipv4());
    let own = own.ok_or(io::ErrorKind::AddrNotAvailable)?;
    let family = if own.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    bind(&socket, &own)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from_std(socket.into())),
        Err(error) => Err(error.into()),
    }
}
