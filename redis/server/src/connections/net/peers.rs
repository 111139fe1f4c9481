//! Connections to the servers that MIGRATE moves keys to.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::Lookup;

/// The server closes a connection after so long without use.
const KEPT_FOR: Duration = Duration::from_secs(10);
/// Most kept connections.
const KEPT_MAX: usize = 64;
/// Longest line of a reply.
const LINE_BYTES_MAX: u64 = 16 << 10;

/// The kept connections, by host and port.
#[derive(Default)]
pub(crate) struct Peers(HashMap<(Vec<u8>, Vec<u8>), Peer>);

impl Peers {
    /// Their number.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Closes those that were unused for a while.
    pub(crate) fn tend(&mut self, now: Instant) {
        self.0.retain(|_, peer| now.saturating_duration_since(peer.used) < KEPT_FOR);
    }

    pub(crate) fn take(&mut self, host: &[u8], port: &[u8]) -> Option<Peer> {
        self.0.remove(&(host.to_vec(), port.to_vec()))
    }

    pub(crate) fn keep(&mut self, host: &[u8], port: &[u8], peer: Peer) {
        if self.0.len() >= KEPT_MAX {
            let oldest = self.0.iter().min_by_key(|(_, peer)| peer.used);
            let oldest = oldest.map(|(name, _)| name.clone());
            oldest.and_then(|name| self.0.remove(&name));
        }
        self.0.insert((host.to_vec(), port.to_vec()), peer);
    }
}

/// A connection to another server.
pub(crate) struct Peer {
    stream: BufReader<TcpStream>,
    /// The database selected there, if known.
    pub(crate) db: Option<i64>,
    used: Instant,
}

/// A reply of the other server.
pub(crate) enum PeerReply {
    Ok,
    /// An error, without the mark before it.
    Error(String),
}

/// The connection has failed.
pub(crate) struct Failure {
    /// `reading`, or `writing`.
    pub(crate) doing: &'static str,
    pub(crate) timed_out: bool,
}

impl Peer {
    pub(crate) fn connect(host: &[u8], port: &[u8], timeout: Duration) -> io::Result<Self> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let port: u16 = text(port).parse().map_err(|_| ErrorKind::InvalidInput)?;
        let address = Lookup::begin(&text(host), port)?.wait(timeout);
        let address = address.unwrap_or_else(|| Err(ErrorKind::TimedOut.into()))?;
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        let _ = stream.set_nodelay(true); // slower without, and right
        let (stream, used) = (BufReader::new(stream), Instant::now());
        Ok(Self { stream, db: None, used })
    }

    /// Whether the connection is out of step, so that it is not kept.
    pub(crate) fn is_doubted(&self) -> bool {
        self.db.is_none() || !self.stream.buffer().is_empty()
    }

    /// How long each step may take.
    pub(crate) fn set_timeout(&mut self, timeout: Duration) -> Result<(), Failure> {
        self.used = Instant::now();
        let stream = self.stream.get_ref();
        let set = stream.set_read_timeout(Some(timeout));
        let set = set.and_then(|()| stream.set_write_timeout(Some(timeout)));
        set.map_err(|error| Failure::new("writing", &error))
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.stream.get_mut().write_all(bytes);
        written.map_err(|error| Failure::new("writing", &error))
    }

    /// The next reply, which is a line.
    pub(crate) fn read(&mut self) -> Result<PeerReply, Failure> {
        let mut line = Vec::new();
        let read = self.stream.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        read.map_err(|error| Failure::new("reading", &error))?;
        let Some(line) = line.strip_suffix(b"\r\n") else {
            return Err(Failure::new("reading", &ErrorKind::UnexpectedEof.into()));
        };
        Ok(match line {
            [b'-', error @ ..] => PeerReply::Error(String::from_utf8_lossy(error).into_owned()),
            _ => PeerReply::Ok,
        })
    }
}

impl Failure {
    fn new(doing: &'static str, error: &io::Error) -> Self {
        tracing::warn!("MIGRATE: {doing} failed: {error}");
        let timed_out = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        Self { doing, timed_out }
    }
}
