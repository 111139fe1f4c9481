//! A client that shows replies as the raw bytes they came as, and as values.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use stillframe_peers::reply::{Reply, decode, encode};

/// What a connection needs of a socket.
trait Socket: Read + Write + Send {
    fn wait_at_most(&self, time: Duration) -> io::Result<()>;
}

impl Socket for TcpStream {
    fn wait_at_most(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

impl Socket for UnixStream {
    fn wait_at_most(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

/// Only a server that hangs takes this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// One connection.
pub(crate) struct Client {
    stream: Box<dyn Socket>,
    received: Vec<u8>,
    /// Where in `received` the next reply starts.
    start: usize,
}

impl Client {
    pub(crate) fn try_connect(port: u16) -> Option<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.wait_at_most(PATIENCE).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Self { stream: Box::new(stream), received: Vec::new(), start: 0 })
    }

    /// A connection to a unix socket, once a server listens there: the name of the socket is there
    /// a moment earlier.
    pub(crate) fn unix(path: &Path) -> Self {
        let mut connected = None;
        super::wait_until("a server listens at the socket", || {
            connected = UnixStream::connect(path).ok();
            connected.is_some()
        });
        let stream = connected.expect("it was waited for");
        stream.wait_at_most(PATIENCE).expect("a timeout");
        Self { stream: Box::new(stream), received: Vec::new(), start: 0 }
    }

    /// Whether the server answers and has loaded its data.
    pub(crate) fn ready(&mut self) -> bool {
        self.try_call(&[b"PING"]).is_some_and(|reply| reply == Reply::Text(b"PONG".to_vec()))
    }

    /// Sends bytes as they are; false when the server has closed the connection.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    pub(crate) fn send(&mut self, command: &[&[u8]]) {
        let mut bytes = Vec::new();
        encode(command, &mut bytes);
        assert!(self.send_raw(&bytes), "the server closed the connection");
    }

    /// The next reply as raw bytes, or nothing when the connection has ended.
    pub(crate) fn try_raw(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some((_, length)) = decode(&self.received[self.start..]) {
                let reply = self.received[self.start..self.start + length].to_vec();
                self.start += length;
                return Some(reply);
            }
            self.receive()?;
        }
    }

    fn receive(&mut self) -> Option<()> {
        self.received.drain(..self.start);
        self.start = 0;
        let mut piece = vec![0; 1 << 16];
        match self.stream.read(&mut piece) {
            Ok(0) => None,
            Ok(length) => {
                self.received.extend_from_slice(&piece[..length]);
                Some(())
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
            // A read with a time limit ends early when the process was stopped and goes on.
            Err(error) if error.kind() == ErrorKind::Interrupted => Some(()),
            Err(error) => panic!("no reply: {error}"),
        }
    }

    /// Whether nothing comes in so long.
    pub(crate) fn is_silent(&mut self, time: Duration) -> bool {
        self.stream.wait_at_most(time).expect("a timeout");
        let read = self.stream.read(&mut [0]);
        self.stream.wait_at_most(PATIENCE).expect("a timeout");
        let is_late = |kind| matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut);
        self.start == self.received.len() && read.is_err_and(|error| is_late(error.kind()))
    }

    /// Whatever bytes come next, replies or not.
    pub(crate) fn receive_raw(&mut self) -> Option<Vec<u8>> {
        if self.start == self.received.len() {
            self.receive()?;
        }
        let bytes = self.received.split_off(self.start);
        Some(bytes)
    }

    pub(crate) fn raw(&mut self) -> Vec<u8> {
        self.try_raw().expect("the server closed the connection")
    }

    pub(crate) fn reply(&mut self) -> Reply {
        decode(&self.raw()).expect("a whole reply").0
    }

    pub(crate) fn try_call(&mut self, command: &[&[u8]]) -> Option<Reply> {
        let mut bytes = Vec::new();
        encode(command, &mut bytes);
        if !self.send_raw(&bytes) {
            return None;
        }
        self.try_raw().map(|raw| decode(&raw).expect("a whole reply").0)
    }

    pub(crate) fn call(&mut self, command: &[&[u8]]) -> Reply {
        self.try_call(command).expect("the server closed the connection")
    }

    /// A command given as words, its reply taken for what it means.
    pub(crate) fn ask(&mut self, line: &str) -> Reply {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.call(&words)
    }

    /// A command that must succeed.
    pub(crate) fn ok(&mut self, line: &str) {
        let reply = self.ask(line);
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    }

    /// One field of INFO, or nothing when the connection has ended.
    pub(crate) fn try_info(&mut self, field: &str) -> Option<String> {
        let text = self.try_call(&[b"INFO", b"everything"])?.text();
        let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Some(value.unwrap_or_else(|| panic!("INFO has no field {field}: {text}")).to_owned())
    }

    pub(crate) fn info(&mut self, field: &str) -> String {
        self.try_info(field).expect("the server closed the connection")
    }

    pub(crate) fn info_int(&mut self, field: &str) -> i64 {
        let text = self.info(field);
        text.parse().unwrap_or_else(|_| panic!("INFO's {field} is no number: {text}"))
    }

    /// Whether all replicas have their image. Those that left may be listed for a while.
    pub(crate) fn has_replicas_online(&mut self) -> bool {
        let info = self.ask("INFO replication").text();
        let mut states = info.lines().filter(|line| line.contains(",state=")).peekable();
        states.peek().is_some() && states.all(|line| line.contains(",state=online"))
    }

    /// Takes one image in the background and waits for its end; INFO's status of that save.
    pub(crate) fn save_in_background(&mut self) -> String {
        self.ok("BGSAVE");
        self.wait_for_save();
        self.info("rdb_last_bgsave_status")
    }

    pub(crate) fn wait_for_save(&mut self) {
        super::wait_until("a save ends", || self.info("rdb_bgsave_in_progress") == "0");
    }
}
