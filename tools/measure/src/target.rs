//! The server that a tool is pointed at: `--target HOST:PORT`, for some also `--target unix:PATH`.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// How long to wait for a connection to one address.
const PATIENCE: Duration = Duration::from_secs(5);
/// What the target of a unix socket begins with.
const UNIX: &str = "unix:";

/// The host of `HOST:PORT`.
///
/// # Errors
/// One sentence that names the flag and what to give.
pub fn host(target: &str) -> Result<&str, String> {
    let parts = target
        .rsplit_once(':')
        .filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0));
    parts
        .map(|(host, _)| host)
        .ok_or_else(|| format!("--target {target}: give HOST:PORT, such as 127.0.0.1:6379"))
}

/// Where a server listens.
#[derive(Debug, Clone)]
pub enum Place {
    /// One of these addresses.
    Net(Vec<SocketAddr>),
    /// A unix socket.
    Unix(PathBuf),
}

impl Place {
    /// Whether a target is a place, as far as one sees.
    ///
    /// # Errors
    /// One sentence that names the flag and what to give.
    pub fn check(target: &str) -> Result<(), String> {
        match target.strip_prefix(UNIX) {
            Some("") => Err(format!("--target {target}: give the path of a unix socket behind it")),
            Some(_) => Ok(()),
            None => host(target).map(drop),
        }
    }

    /// The place of a target.
    ///
    /// # Errors
    /// Names are not resolved.
    pub fn from_target(target: &str) -> io::Result<Self> {
        match target.strip_prefix(UNIX) {
            Some(path) => Ok(Self::Unix(path.into())),
            None => Ok(Self::Net(target.to_socket_addrs()?.collect())),
        }
    }

    /// Connects to it. What works on any stream works on a unix socket under this type, too.
    ///
    /// # Errors
    /// What the last of the addresses said.
    pub fn connect(&self) -> io::Result<TcpStream> {
        match self {
            Self::Net(addresses) => connect(addresses.iter().copied()),
            Self::Unix(path) => Ok(OwnedFd::from(UnixStream::connect(path)?).into()),
        }
    }
}

/// Connects to the first of the addresses that accepts.
///
/// # Errors
/// What the last of them said.
pub fn connect(addresses: impl IntoIterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// A server's text on one line, printable and short: an error may repeat the request.
#[must_use]
pub fn readable(text: &[u8]) -> String {
    const BYTES_MAX: usize = 120;
    let more = if text.len() > BYTES_MAX { "..." } else { "" };
    let shown = String::from_utf8_lossy(&text[..text.len().min(BYTES_MAX)]);
    let shown: String = shown.chars().map(|c| if c.is_control() { '·' } else { c }).collect();
    format!("{shown}{more}")
}

/// What to do about an error reply, with `; ` before it.
#[must_use]
pub fn hint(answer: &str) -> &'static str {
    match answer.split(' ').next().unwrap_or_default() {
        "NOAUTH" => "; give --password (and --user)",
        "WRONGPASS" => "; check --password and --user",
        "LOADING" => "; wait until INFO persistence shows loading:0",
        "MISCONF" => "; its last save failed: see its log",
        "NOPERM" => "; this user may not run it: give another --user",
        "DENIED" => "; it takes clients from its own machine only",
        "OOM" => "; its maxmemory is used up: take fewer keys or smaller values",
        "WRONGTYPE" => "; the key holds another type: empty the database first",
        "READONLY" => "; it is a replica: point --target at its primary",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn a_target_is_a_host_and_a_port() {
        assert_eq!(host("db:6379"), Ok("db"));
        assert_eq!(host("[::1]:6379"), Ok("[::1]"));
        for wrong in ["", "db", "db:", ":6379", "db:0", "db:65536", "db:x"] {
            let error = host(wrong).expect_err(wrong);
            assert!(error.contains("--target") && error.contains("HOST:PORT"), "{error}");
        }
    }

    #[test]
    fn the_first_address_that_accepts_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let here = listener.local_addr().expect("it listens");
        let closed = SocketAddr::from(([127, 0, 0, 1], crate::own_port()));
        let stream = connect([closed, here]).expect("one accepts");
        assert_eq!(stream.peer_addr().expect("connected"), here);
        assert_eq!(connect([]).expect_err("none").kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_place_may_be_a_unix_socket() {
        let path = std::env::temp_dir().join(format!("stillframe-place-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("it is free");
        let target = format!("unix:{}", path.display());
        assert_eq!(Place::check(&target), Ok(()));
        let mut here =
            Place::from_target(&target).and_then(|place| place.connect()).expect("it listens");
        let (mut there, _) = listener.accept().expect("somebody came");
        let mut byte = [0];
        there.write_all(b"x").expect("it is open");
        here.read_exact(&mut byte).expect("it is open");
        assert_eq!(&byte, b"x");
        std::fs::remove_file(&path).expect("it is there");
        assert!(Place::from_target(&target).and_then(|place| place.connect()).is_err());
        for wrong in ["unix:", "unix", "db"] {
            Place::check(wrong).expect_err(wrong);
        }
    }

    #[test]
    fn a_servers_text_is_one_short_printable_line() {
        assert_eq!(readable(b"ERR it's \x01\r\n\xff"), "ERR it's ···\u{fffd}");
        assert!(readable(&[b'x'; 1000]).len() < 170);
        assert_eq!(hint("NOAUTH Authentication required."), "; give --password (and --user)");
        assert_eq!(hint(""), "");
    }
}
