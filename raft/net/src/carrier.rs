//! What carries bytes between nodes: sockets, or what a test puts in their place.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, lookup_host};

/// Bytes both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection.
pub type Stream = Box<dyn Duplex>;

/// What comes of a call that takes its time.
pub type Soon<'c, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'c>>;

/// What carries bytes between nodes.
pub trait Carrier: Debug + Send + Sync {
    /// The addresses of a host.
    ///
    /// # Errors
    /// The operating system's.
    fn look_up<'c>(&'c self, host: &'c str, port: u16) -> Soon<'c, Vec<SocketAddr>>;

    /// A connection to a node.
    ///
    /// # Errors
    /// The operating system's.
    fn connect(&self, to: SocketAddr) -> Soon<'_, Stream>;

    /// Takes connections at one of these addresses.
    ///
    /// # Errors
    /// The operating system's.
    fn listen<'c>(&'c self, at: &'c [SocketAddr]) -> Soon<'c, Box<dyn Door>>;
}

/// Where connections come in.
pub trait Door: Debug + Send {
    /// Where it is.
    ///
    /// # Errors
    /// The operating system's.
    fn address(&self) -> io::Result<SocketAddr>;

    /// The next connection, and where it comes from. Nothing is lost if this is dropped.
    ///
    /// # Errors
    /// The operating system's.
    fn accept(&mut self) -> Soon<'_, (Stream, SocketAddr)>;
}

/// TCP of the machine.
#[derive(Debug)]
pub(crate) struct Sockets;

impl Carrier for Sockets {
    fn look_up<'c>(&'c self, host: &'c str, port: u16) -> Soon<'c, Vec<SocketAddr>> {
        Box::pin(async move { Ok(lookup_host((host, port)).await?.collect()) })
    }

    fn connect(&self, to: SocketAddr) -> Soon<'_, Stream> {
        Box::pin(async move { TcpStream::connect(to).await.map(hurried) })
    }

    fn listen<'c>(&'c self, at: &'c [SocketAddr]) -> Soon<'c, Box<dyn Door>> {
        Box::pin(async move { Ok(Box::new(TcpListener::bind(at).await?) as Box<dyn Door>) })
    }
}

impl Door for TcpListener {
    fn address(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }

    fn accept(&mut self) -> Soon<'_, (Stream, SocketAddr)> {
        Box::pin(async {
            let (socket, from) = TcpListener::accept(self).await?;
            Ok((hurried(socket), from))
        })
    }
}

/// Without waits for more bytes to send.
fn hurried(socket: TcpStream) -> Stream {
    let _ = socket.set_nodelay(true); // not worth failing for
    Box::new(socket)
}
