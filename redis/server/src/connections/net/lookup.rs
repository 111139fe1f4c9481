//! Addresses of other servers. The system may take seconds to find the one of a name; a thread
//! waits for it, so that clients do not.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// The address of a name, when it has been found.
pub(crate) struct Lookup(Receiver<io::Result<SocketAddr>>);

impl Lookup {
    /// Looks a name up. An address in figures is there at once.
    pub(crate) fn begin(host: &str, port: u16) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(1);
        let find = {
            let host = host.to_owned();
            move || (&*host, port).to_socket_addrs()?.next().ok_or(ErrorKind::NotFound.into())
        };
        // The one that asked may not wait any more.
        match host.parse::<IpAddr>() {
            Ok(address) => _ = sender.send(Ok(SocketAddr::new(address, port))),
            Err(_) => {
                let look = move || _ = sender.send(find());
                thread::Builder::new().name("lookup".to_owned()).spawn(look)?;
            }
        }
        Ok(Self(receiver))
    }

    /// The address, unless it takes longer than that.
    pub(crate) fn wait(&self, patience: Duration) -> Option<io::Result<SocketAddr>> {
        match self.0.recv_timeout(patience) {
            Ok(found) => Some(found),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(ErrorKind::NotFound.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_there_at_once_and_names_when_they_are_found() {
        let found = |host, patience| Lookup::begin(host, 7).expect("a thread").wait(patience);
        let four = found("127.0.0.1", Duration::ZERO).expect("at once").expect("an address");
        assert_eq!(four.to_string(), "127.0.0.1:7");
        let six = found("::1", Duration::ZERO).expect("at once").expect("an address");
        assert_eq!(six.to_string(), "[::1]:7");
        let name = found("localhost", Duration::from_secs(60)).expect("found").expect("a name");
        assert!(name.ip().is_loopback() && name.port() == 7);
        let (_sender, receiver) = sync_channel(1);
        assert!(Lookup(receiver).wait(Duration::ZERO).is_none(), "it is still looked up");
    }
}
