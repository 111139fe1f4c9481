//! Listening sockets and the connections that arrive there.
//!
//! - A refused connection gets one line with the reason.
//! - When descriptors run out, connections wait in the kernel's queue until the clock tries again:
//!   no busy loop, and no refusal for a shortage that may pass.

use std::fs;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::{Duration, Instant};

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener};
use rustix::fs::Mode;
use rustix::net::sockopt;
use rustix::process::umask;

use crate::connections::net::memory::MemoryStream;
use crate::connections::net::{Door, Poller, Porch, Stream};
use crate::connections::tls::Tls;
use crate::{Config, ServeError};
use stillframe_commands::Address;

/// The sockets the server listens on.
#[derive(Default)]
pub(crate) struct Listeners {
    sockets: Vec<Listener>,
    /// The handle that watches them, if any.
    door: Option<Door>,
    /// An `accept` failed for lack of descriptors or memory: try again.
    retry: bool,
    last_complaint: Option<Instant>,
}

struct Listener {
    socket: Socket,
    address: Address,
}

enum Socket {
    Tcp(TcpListener),
    Tls(TcpListener),
    /// With device and inode of its file, which is removed at the end.
    Unix(UnixListener, (u64, u64)),
    /// Connections within the process.
    Memory(Porch),
}

impl Listeners {
    /// Binds every configured address and the unix socket. This machine may lack an address with a
    /// `-` before it.
    pub(crate) fn bind(config: &Config, poller: &Poller) -> Result<Self, ServeError> {
        let door = Some(poller.door().map_err(ServeError::Events)?);
        let sockets = Vec::new();
        let mut listeners = Self { sockets, door, retry: false, last_complaint: None };
        listeners.bind_ports(config)?;
        let path = &*config.process.unixsocket;
        if !path.is_empty() {
            let failed = |error| ServeError::UnixSocket { path: path.into(), error };
            let socket = open_unix(path, config.process.unixsocketperm).map_err(failed)?;
            listeners.sockets.push(Listener { socket, address: Address::Unix(path.into()) });
        }
        if let Some(porch) = poller.porch() {
            let socket = Socket::Memory(porch);
            listeners.sockets.push(Listener { socket, address: Address::Memory });
        }
        listeners.watch()?;
        Ok(listeners)
    }

    fn bind_ports(&mut self, config: &Config) -> Result<(), ServeError> {
        if let Some(port) = config.plain_port() {
            self.bind_port(config, port, Socket::Tcp)?;
        }
        if config.tls.port > 0 {
            self.bind_port(config, config.tls.port, Socket::Tls)?;
        }
        Ok(())
    }

    fn watch(&mut self) -> Result<(), ServeError> {
        let Some(door) = &self.door else { return Ok(()) };
        for (number, listener) in self.sockets.iter_mut().enumerate() {
            let address = listener.address.to_string();
            let failed = |error| ServeError::Bind { address, error };
            let source: &mut dyn Source = match &mut listener.socket {
                Socket::Tcp(socket) | Socket::Tls(socket) => socket,
                Socket::Unix(socket, _) => socket,
                Socket::Memory(porch) => porch,
            };
            door.watch(source, number).map_err(failed)?;
        }
        Ok(())
    }

    /// Listens at new ports and addresses; the unix socket and open connections stay. It closes the
    /// old sockets first: an address and "any" cannot share a port.
    ///
    /// # Errors
    /// [`ServeError`] when that fails; then it listens as `before` says, if possible.
    pub(super) fn change(&mut self, config: &Config, before: &Config) -> Result<(), ServeError> {
        let mut bind = |config: &Config| {
            self.sockets
                .retain(|listener| matches!(listener.socket, Socket::Unix(..) | Socket::Memory(_)));
            self.bind_ports(config).and_then(|()| self.watch())
        };
        let changed = bind(config);
        if changed.is_err()
            && let Err(error) = bind(before)
        {
            tracing::error!("cannot listen at the former addresses again: {error}");
        }
        self.announce();
        self.retry = true; // somebody may have connected to a socket before it was watched
        changed
    }

    fn bind_port(
        &mut self,
        config: &Config,
        port: u16,
        kind: fn(TcpListener) -> Socket,
    ) -> Result<(), ServeError> {
        for name in &config.bind {
            let optional = name.starts_with('-');
            let name = name.trim_start_matches('-');
            let failed = |error| ServeError::Bind { address: format!("{name}:{port}"), error };
            match open(name, port, config.tcp_backlog) {
                Ok(opened) => self.sockets.extend(opened.into_iter().map(|(socket, address)| {
                    Listener { socket: kind(socket), address: Address::Net(address) }
                })),
                Err(error) if optional && absent(&error) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    /// Logs where the server listens.
    pub(super) fn announce(&self) {
        for Listener { socket, address } in &self.sockets {
            match (socket, address) {
                (Socket::Tls(_), address) => {
                    tracing::info!("Ready to accept connections on {address} (TLS)");
                }
                (_, Address::Net(address)) => {
                    tracing::info!("Ready to accept connections on {address}");
                }
                (_, Address::Memory) => {
                    tracing::info!("Ready to accept connections within the process");
                }
                (_, Address::Unix(path)) => {
                    tracing::info!("Ready to accept connections on {path}");
                }
            }
        }
    }

    /// The ports for plain TCP and for TLS, 0 where there is none.
    pub(super) fn ports(&self) -> (u16, u16) {
        let (mut plain, mut tls) = (0, 0);
        for listener in self.sockets.iter().rev() {
            match (&listener.socket, &listener.address) {
                (Socket::Tcp(_), Address::Net(address)) => plain = address.port(),
                (Socket::Tls(_), Address::Net(address)) => tls = address.port(),
                _ => {}
            }
        }
        (plain, tls)
    }

    /// The next connection at a socket, or `None` if none waits.
    pub(super) fn next(
        &mut self,
        number: usize,
        keepalive_seconds: u32,
        tls: &Tls,
        now: Instant,
    ) -> Option<Accepted> {
        loop {
            let listener = self.sockets.get(number)?;
            match listener.accept(keepalive_seconds, tls) {
                Ok(Some(accepted)) => return Some(accepted),
                Ok(None) => continue,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return None,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => continue,
                    _ => {
                        self.complain(&error, now);
                        return None;
                    }
                },
            }
        }
    }

    fn complain(&mut self, error: &io::Error, now: Instant) {
        self.retry = true;
        let quiet = Duration::from_secs(1);
        if self.last_complaint.is_none_or(|last| now.duration_since(last) >= quiet) {
            self.last_complaint = Some(now);
            tracing::warn!("cannot accept connections for now: {error}");
        }
    }

    /// Whether an `accept` must be tried without an event, once.
    pub(super) fn take_retry(&mut self) -> bool {
        std::mem::take(&mut self.retry)
    }

    /// The number of sockets.
    pub(super) fn count(&self) -> usize {
        self.sockets.len()
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.close();
    }
}

impl Listeners {
    /// Accepts nobody any more. Removes the file of the unix socket, unless another server has
    /// replaced it.
    pub(super) fn close(&mut self) {
        for listener in self.sockets.drain(..) {
            if let Socket::Memory(porch) = &listener.socket {
                porch.close();
            }
            if let (Socket::Unix(_, own), Address::Unix(path)) =
                (&listener.socket, &listener.address)
                && identity(path).is_ok_and(|found| found == *own)
            {
                let _ = fs::remove_file(&**path); // the next start replaces it
            }
        }
    }
}

/// A connection with the addresses of the peer and of this end.
pub(crate) type Accepted = (Stream, Address, Address);

impl Listener {
    /// The next connection; `None` if it must be dropped.
    fn accept(&self, keepalive_seconds: u32, tls: &Tls) -> io::Result<Option<Accepted>> {
        let (stream, peer) = match &self.socket {
            Socket::Tcp(socket) | Socket::Tls(socket) => socket.accept()?,
            Socket::Unix(socket, _) => {
                let (stream, _) = socket.accept()?;
                let (peer, local) = (self.address.clone(), self.address.clone());
                return Ok(Some((Stream::Unix(stream), peer, local)));
            }
            Socket::Memory(porch) => {
                let stream = Stream::Memory(MemoryStream::new(porch.accept()?));
                return Ok(Some((stream, Address::Memory, Address::Memory)));
            }
        };
        configure(&stream, keepalive_seconds);
        let local = stream.local_addr().unwrap_or(peer);
        let stream = match &self.socket {
            Socket::Tls(_) => match tls.accept(stream) {
                Some(stream) => Stream::Tls(Box::new(stream)),
                None => return Ok(None),
            },
            _ => Stream::Tcp(stream),
        };
        Ok(Some((stream, Address::Net(peer), Address::Net(local))))
    }
}

/// Device and inode of a file.
fn identity(path: &str) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Listens at `path`, and replaces a socket that a server has left there, but no other file.
fn open_unix(path: &str, permissions: u32) -> io::Result<Socket> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        fs::remove_file(path)?;
    }
    // The file is created with its mode, so that it never admits a process that the mode shuts out.
    let kept = (permissions > 0).then(|| umask(Mode::from_raw_mode(0o777 & !permissions)));
    let bound = UnixListener::bind(path);
    kept.map(umask);
    Ok(Socket::Unix(bound?, identity(path)?))
}

fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
}

/// A socket at an address. An IPv6 socket leaves IPv4 alone, as in Redis: `*` and `::*` can share a
/// port.
fn bound(address: SocketAddr) -> io::Result<TcpListener> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
    if address.is_ipv4() {
        return TcpListener::bind(address);
    }
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET6, SocketType::STREAM, flags, None)?;
    sockopt::set_ipv6_v6only(&socket, true)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, 1)?;
    Ok(TcpListener::from_std(socket.into()))
}

fn open(name: &str, port: u16, backlog: u32) -> io::Result<Vec<(TcpListener, SocketAddr)>> {
    let name = match name {
        "*" => "0.0.0.0",
        "::*" => "::",
        name => name,
    };
    let mut sockets = Vec::new();
    for address in (name, port).to_socket_addrs()? {
        let socket = bound(address)?;
        rustix::net::listen(&socket, i32::try_from(backlog).unwrap_or(i32::MAX))?;
        let address = socket.local_addr()?;
        sockets.push((socket, address));
    }
    Ok(sockets)
}

/// Has small replies leave at once, and finds dead peers in the end. Neither is worth failing for.
fn configure(stream: &TcpStream, keepalive_seconds: u32) {
    let _ = stream.set_nodelay(true);
    if keepalive_seconds > 0 {
        let idle = Duration::from_secs(keepalive_seconds.into());
        let between = Duration::from_secs((keepalive_seconds / 3).max(1).into());
        let _ = sockopt::set_socket_keepalive(stream, true);
        let _ = sockopt::set_tcp_keepidle(stream, idle);
        let _ = sockopt::set_tcp_keepintvl(stream, between);
        let _ = sockopt::set_tcp_keepcnt(stream, 3);
    }
}
