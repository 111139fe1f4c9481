//! The primary that this server follows, and the connection to it.

use std::io;
use std::mem::Discriminant;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use rustix::io::Errno;
use stillframe_commands::Address;

use super::failure::Failure;
use super::link::{Link, Step};
use super::logged::{Logged, Mark};
use super::reception::{Load, Reception};
use crate::connections::client::Session;
use crate::connections::net::{Lookup, Stream};
use crate::connections::tls::Tls;

/// Pause before an ended connection is retried.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest such pause, when images fail for one cause again and again. As long as this the stream
/// must have been followed before causes are forgotten.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// How long one turn waits for the address of a name: one that the machine itself knows is there.
const LOOKUP_PATIENCE: Duration = Duration::from_millis(5);

/// The primary, and the state of the link.
pub(crate) struct Following {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The session of the stream's requests; taken out while they run.
    pub(crate) session: Option<Box<Session>>,
    pub(crate) link: Option<Link>,
    /// The load of an image that replaces the data, if any.
    pub(crate) load: Option<Load>,
    /// What of the stream is on the disk.
    pub(crate) logged: Logged,
    /// Whether the data is a state that no primary could continue.
    pub(crate) lost: bool,
    /// When the link went down.
    pub(crate) down_since: Option<Instant>,
    /// When the primary last sent anything.
    pub(crate) last_io: Instant,
    /// Whether a client has asked to close the link.
    pub(crate) kill: bool,
    /// Whether there is more to do at once.
    pub(crate) more: bool,
    pub(crate) retry_at: Instant,
    /// Why images failed since the stream was last followed for long, the last cause at the end.
    troubles: Vec<Trouble>,
    followed_since: Option<Instant>,
    /// The address of the primary's name, which is being looked up.
    lookup: Option<Lookup>,
}

/// A cause for which images have failed.
struct Trouble {
    kind: Discriminant<Failure>,
    times: u32,
    text: String,
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
            logged: Logged::default(),
            lost,
            down_since: Some(now),
            last_io: now,
            kill: false,
            more: false,
            retry_at: now,
            troubles: Vec::new(),
            followed_since: None,
            lookup: None,
        }
    }

    /// Notes that what was received up to here is in the log of this server.
    pub(crate) fn note_logged(&mut self, mark: Mark) {
        if self.is_connected() {
            self.logged.add(mark);
        }
    }

    /// The connection, for its events.
    pub(crate) fn link_mut(&mut self) -> Option<&mut Link> {
        self.link.as_mut()
    }

    /// Whether the server follows the stream.
    pub(crate) fn is_connected(&self) -> bool {
        self.link.as_ref().is_some_and(|link| matches!(link.step, Step::Streaming))
    }

    /// Whether an image is replacing the data.
    pub(crate) fn is_loading(&self) -> bool {
        self.load.is_some()
    }

    /// The progress of the load.
    pub(crate) fn load(&self) -> Option<&Load> {
        self.load.as_ref()
    }

    /// The image being received.
    pub(crate) fn reception(&self) -> Option<&Reception> {
        match &self.link.as_ref()?.step {
            Step::Receiving(reception) => Some(reception),
            _ => None,
        }
    }

    /// Bytes received and not applied.
    pub(crate) fn unapplied(&self) -> u64 {
        self.link.as_ref().map_or(0, |link| link.input.len() as u64)
    }

    /// The primary as a client, while its stream is followed.
    pub(crate) fn client(&self) -> Option<&Session> {
        self.session.as_deref().filter(|_| self.is_connected())
    }

    /// Redis's word for the state of the connection, for ROLE.
    pub(crate) fn state(&self) -> &'static str {
        match self.link.as_ref().map(|link| &link.step) {
            None => "connect",
            Some(Step::Connecting) => "connecting",
            Some(Step::Asked(_)) => "handshake",
            Some(Step::Streaming) => "connected",
            Some(_) => "sync",
        }
    }

    /// Closes the link, as a client wishes, and the socket at once, before this server's next look
    /// at it.
    pub(crate) fn cut(&mut self) {
        self.kill = true;
        if let Some(link) = &mut self.link {
            link.stream.close();
        }
    }

    /// Notes that the connection has ended, or must.
    pub(crate) fn fail(&mut self, failure: &Failure) {
        let now = Instant::now();
        let pause = self.pause_after(failure, now);
        let Self { host, port, .. } = self;
        tracing::warn!("the primary {host}:{port}: {failure}; next attempt in {pause:?}");
        self.link = None;
        self.down_since.get_or_insert(now);
        self.retry_at = now + pause;
        if let Some(session) = &mut self.session {
            session.caller.transaction = None;
        }
        self.lost |= failure.is_bad();
    }

    /// The pause before the next attempt: an image takes the primary's disk and network, so that
    /// one that fails again and again for the same cause is asked for less and less often.
    fn pause_after(&mut self, failure: &Failure, now: Instant) -> Duration {
        let followed = self.followed_since.take();
        if followed.is_some_and(|since| now.saturating_duration_since(since) > PAUSE_MAX) {
            self.troubles.clear();
        }
        let is_syncing = self.link.as_ref().is_some_and(|link| link.step.is_image());
        let is_wished = matches!(failure, Failure::Wished);
        if is_wished || !is_syncing && !failure.is_bad() {
            return PAUSE;
        }
        let kind = std::mem::discriminant(failure);
        let before = self.troubles.iter().position(|trouble| trouble.kind == kind);
        let before = before.map_or(0, |at| self.troubles.remove(at).times);
        let times = before.saturating_add(1);
        let text = failure.to_string().replace(['\r', '\n'], " "); // a line of INFO
        self.troubles.push(Trouble { kind, times, text });
        PAUSE.saturating_mul(1 << before.min(16)).min(PAUSE_MAX)
    }

    /// Why the last image failed, and how many did for that cause, until the stream is followed.
    pub(crate) fn sync_error(&self) -> Option<(&str, u32)> {
        let last = self.troubles.last().filter(|_| !self.is_connected())?;
        Some((&last.text, last.times))
    }

    /// Closes a link that was silent for `repl-timeout`.
    pub(crate) fn fail_silent(&mut self) {
        let doing = match self.state() {
            "connected" => "MASTER timeout: no data nor PING received",
            "sync" => "Timeout receiving bulk data from MASTER",
            _ => "Timeout connecting to the MASTER",
        };
        self.fail(&Failure::Silent { doing });
    }

    /// Begins to follow the stream, where `db` is selected.
    pub(crate) fn connected(&mut self, link: &mut Link, db: usize) {
        link.step = Step::Streaming;
        link.parsed = 0;
        if let Some(session) = &mut self.session {
            session.caller.db = db;
        }
        (self.down_since, self.lost) = (None, false);
        self.logged = Logged::default();
        self.followed_since = Some(Instant::now());
    }

    /// Begins to connect, from the address `source` unless it is empty; with TLS if `tls`. `None`
    /// while the primary's name is looked up.
    pub(crate) fn connect(&mut self, source: &str, tls: Option<&Tls>) -> io::Result<Option<Link>> {
        let (lookup, patience) = match self.lookup.take() {
            Some(lookup) => (lookup, Duration::ZERO),
            None => (Lookup::begin(&self.host, self.port)?, LOOKUP_PATIENCE),
        };
        let Some(address) = lookup.wait(patience) else {
            self.lookup = Some(lookup);
            return Ok(None);
        };
        let address = address?;
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
        Ok(Some(Link::over(stream)))
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
