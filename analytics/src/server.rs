//! An image of a running server, which takes this program for a replica: the server makes it in the
//! background, as it does for any replica, and its clients go on. Redis and Valkey do it by `fork`.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use stillframe_commands::write_request;
use stillframe_server::Reception;
use stillframe_tls::{ClientConfig, Duplex};

use crate::error::QueryError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for an answer before an image is asked for.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Longest silence behind that: a server sends empty lines while it makes an image.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Longest line of an answer.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A host and a port.
    Net(String, u16),
    /// A socket of this machine.
    Unix(PathBuf),
}

/// Who asks, and how.
#[derive(Debug, Clone, Default)]
pub struct Login {
    /// A user of the access control list; `default` without it.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// What TLS needs, if the server is asked over TLS.
    pub tls: Option<Arc<ClientConfig>>,
}

impl Address {
    /// Reads `HOST:PORT`, with an IPv6 address in brackets.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().ok()?;
        (!host.is_empty() && !host.contains('/')).then(|| Self::Net(host.to_owned(), port))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<Duplex>),
}

impl Stream {
    fn connect(address: &Address, tls: Option<&Arc<ClientConfig>>) -> io::Result<Self> {
        let (host, port) = match address {
            Address::Net(host, port) => (host.as_str(), *port),
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(ANSWER_MAX))?;
                stream.set_write_timeout(Some(ANSWER_MAX))?;
                return Ok(Self::Unix(stream));
            }
        };
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for socket in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&socket, CONNECT_TIMEOUT) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(ANSWER_MAX))?;
                    stream.set_write_timeout(Some(ANSWER_MAX))?;
                    let Some(tls) = tls else { return Ok(Self::Tcp(stream)) };
                    let duplex = Duplex::connect(stream, Arc::clone(tls), host)?;
                    return Ok(Self::Tls(Box::new(duplex)));
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// From now on the server may be silent for longer.
    fn be_patient(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(Some(SILENCE_MAX)),
            Self::Unix(stream) => stream.set_read_timeout(Some(SILENCE_MAX)),
            Self::Tls(duplex) => duplex.socket().set_read_timeout(Some(SILENCE_MAX)),
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
            Self::Tls(duplex) => duplex.read(into),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes),
            Self::Unix(stream) => stream.write_all(bytes),
            Self::Tls(duplex) => duplex.write_all(bytes),
        }
    }
}

/// A conversation with a server.
struct Wire {
    stream: Stream,
    input: Vec<u8>,
    piece: Box<[u8]>,
}

impl Wire {
    fn send(&mut self, words: &[&[u8]]) -> Result<(), String> {
        let mut bytes = Vec::new();
        write_request(&mut bytes, words);
        self.stream.write_all(&bytes).map_err(|error| format!("does not listen: {error}"))
    }

    fn read(&mut self) -> Result<(), String> {
        match self.stream.read(&mut self.piece) {
            Ok(0) => Err("ended the connection".to_owned()),
            Ok(count) => {
                self.input.extend_from_slice(&self.piece[..count]);
                Ok(())
            }
            Err(error) => Err(format!("does not answer: {error}")),
        }
    }

    /// The next line that is not empty.
    fn line(&mut self) -> Result<String, String> {
        loop {
            if let Some(end) = self.input.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                if !text.is_empty() {
                    return Ok(text);
                }
                continue;
            }
            if self.input.len() > LINE_BYTES_MAX {
                return Err("does not speak Redis's protocol".to_owned());
            }
            self.read()?;
        }
    }

    fn ask(&mut self, words: &[&[u8]]) -> Result<String, String> {
        self.send(words)?;
        self.line()
    }
}

/// Receives an image into a file; returns when it was begun, by the clock of this machine.
///
/// # Errors
/// The server refuses, or the file takes no bytes.
pub(crate) fn receive(
    address: &Address,
    login: &Login,
    file: File,
) -> Result<(File, SystemTime), QueryError> {
    let outcome = converse(address, login, &file);
    let begun = outcome.map_err(|why| QueryError::Server { address: address.to_string(), why })?;
    Ok((file, begun))
}

fn converse(address: &Address, login: &Login, file: &File) -> Result<SystemTime, String> {
    let stream = Stream::connect(address, login.tls.as_ref())
        .map_err(|error| format!("cannot be reached: {error}"))?;
    let mut wire = Wire { stream, input: Vec::new(), piece: vec![0; 64 << 10].into() };
    let refused = |answer: String| {
        format!("refuses this program: {answer} (it asks for an image as a replica does: PSYNC)")
    };
    if let Some(password) = &login.password {
        let mut words: Vec<&[u8]> = vec![b"AUTH"];
        words.extend(login.user.as_ref().map(|user| user.as_bytes()));
        words.push(password.as_bytes());
        let answer = wire.ask(&words)?;
        if answer.starts_with('-') {
            return Err(refused(answer));
        }
    }
    // Valkey 9 sends fields that expire only to replicas that announce its version.
    let requests: [&[&[u8]]; 3] = [
        &[b"PING"],
        &[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"],
        &[b"REPLCONF", b"version", b"9.0.0"],
    ];
    for words in requests {
        let answer = wire.ask(words)?;
        if answer.starts_with("-NOAUTH") || answer.starts_with("-NOPERM") {
            return Err(refused(answer));
        }
    }
    let answer = wire.ask(&[b"PSYNC", b"?", b"-1"])?;
    if !answer.starts_with("+FULLRESYNC") {
        return Err(refused(answer));
    }
    wire.stream.be_patient().map_err(|error| format!("has no connection: {error}"))?;
    let answer = wire.line()?;
    let begun = SystemTime::now();
    let mut reception = Reception::announced(answer).map_err(|why| format!("fails: {why}"))?;
    loop {
        let at = reception.received();
        let (taken, ends) = reception.take(&wire.input);
        let head = reception.check_head(&wire.input[..taken]);
        head.map_err(|why| format!("sends an image of no use: {why}"))?;
        file.write_all_at(&wire.input[..taken], at)
            .map_err(|error| format!("sends an image that cannot be kept in a file: {error}"))?;
        wire.input.drain(..taken);
        if ends {
            let bytes = reception.image_bytes();
            let cut = file.set_len(bytes).map_err(|error| format!("sent an image: {error}"));
            return cut.map(|()| begun);
        }
        wire.read()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        let text = |text| Address::parse(text).map(|it| it.to_string());
        assert_eq!(text("localhost:6379").as_deref(), Some("localhost:6379"));
        assert_eq!(text("[::1]:7").as_deref(), Some("::1:7"));
        for wrong in ["data", ":1", "a:x", "a:70000", "dir/file:1"] {
            assert_eq!(text(wrong), None, "{wrong}");
        }
    }
}
