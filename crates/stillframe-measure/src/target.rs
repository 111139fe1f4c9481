//! The server that a tool is pointed at: `--target HOST:PORT`.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long to wait for a connection to one address.
const PATIENCE: Duration = Duration::from_secs(5);

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

#[cfg(test)]
mod tests {
    use super::*;
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
        // Nobody listens on a port that was given back.
        let closed = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let stream = connect([closed.expect("a free port"), here]).expect("one accepts");
        assert_eq!(stream.peer_addr().expect("connected"), here);
        assert_eq!(connect([]).expect_err("none").kind(), ErrorKind::NotFound);
    }
}
