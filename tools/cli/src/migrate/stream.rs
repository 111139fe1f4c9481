//! Connections with TLS or without, and what they need.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use stillframe_tls::{
    ClientAuth, ClientConfig, Duplex, Identity, Material, Named, ServerConfig, TLS12, TLS13, Writer,
};

use super::topology::Address;

/// Longest wait for a connection, and for each step of shaking hands.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Args, Default)]
pub(super) struct TlsArguments {
    /// Connect to the cluster's nodes over TLS
    #[arg(long)]
    pub(super) tls: bool,
    /// Connect to the target over TLS; with its 'tls-replication yes' it also follows over TLS
    #[arg(long)]
    pub(super) to_tls: bool,
    /// Authorities that nodes and target must have their certificates from, in PEM form
    #[arg(long, value_name = "FILE")]
    tls_ca_cert_file: Option<PathBuf>,
    /// Directory of more such files
    #[arg(long, value_name = "DIR")]
    tls_ca_cert_dir: Option<PathBuf>,
    /// Certificate that this program shows
    #[arg(long, value_name = "FILE", requires = "tls_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_key_file: Option<PathBuf>,
}

/// What TLS connections of each kind need.
#[derive(Default)]
pub(super) struct Tls {
    /// To the cluster's nodes.
    pub(super) cluster: Option<Arc<ClientConfig>>,
    /// To the target.
    pub(super) target: Option<Arc<ClientConfig>>,
    /// From the target, which follows.
    pub(super) follower: Option<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files that are needed.
    pub(super) fn read(arguments: &TlsArguments) -> Result<Self, String> {
        let named = |setting, path: &Option<PathBuf>| {
            Named::by_setting(setting, path.clone().unwrap_or_default())
        };
        let file = named("--tls-ca-cert-file", &arguments.tls_ca_cert_file);
        let folder = named("--tls-ca-cert-dir", &arguments.tls_ca_cert_dir);
        let own = Identity {
            chain: named("--tls-cert-file", &arguments.tls_cert_file),
            key: named("--tls-key-file", &arguments.tls_key_file),
        };
        let is_wanted = arguments.tls || arguments.to_tls || !own.is_empty();
        if !is_wanted {
            return Ok(Self::default());
        }
        if file.is_empty() && folder.is_empty() {
            return Err("TLS needs authorities to trust: give --tls-ca-cert-file or \
                        --tls-ca-cert-dir"
                .to_owned());
        }
        let material = Material::read(vec![&TLS12, &TLS13], &file, &folder);
        let material = material.map_err(|error| error.to_string())?;
        let client = material.client(&own).map_err(|error| error.to_string())?;
        let client = Some(Arc::new(client));
        let follower = match own.is_empty() {
            true => None,
            false => Some(material.server(&own, ClientAuth::Yes)),
        };
        let follower = follower.transpose().map_err(|error| error.to_string())?;
        Ok(Self {
            cluster: client.clone().filter(|_| arguments.tls),
            target: client.filter(|_| arguments.to_tls),
            follower: follower.map(Arc::new),
        })
    }
}

/// A connection.
pub(super) enum Stream {
    Tcp(TcpStream),
    Tls(Box<Duplex>),
}

/// Its way out, for another thread.
pub(super) enum Output {
    Tcp(TcpStream),
    Tls(Writer),
}

/// Connects to a server.
pub(super) fn connect(address: &Address, tls: Option<&Arc<ClientConfig>>) -> io::Result<Stream> {
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for socket in (address.host.as_str(), address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&socket, CONNECT_TIMEOUT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                let Some(tls) = tls else { return Ok(Stream::Tcp(stream)) };
                stream.set_read_timeout(Some(CONNECT_TIMEOUT))?;
                stream.set_write_timeout(Some(CONNECT_TIMEOUT))?;
                let duplex = Duplex::connect(stream, Arc::clone(tls), &address.host)?;
                return Ok(Stream::Tls(Box::new(duplex)));
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

impl Stream {
    /// Takes a connection that somebody has made.
    pub(super) fn accept(socket: TcpStream, tls: Option<&Arc<ServerConfig>>) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        let Some(tls) = tls else { return Ok(Self::Tcp(socket)) };
        socket.set_read_timeout(Some(CONNECT_TIMEOUT))?;
        socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
        Ok(Self::Tls(Box::new(Duplex::accept(socket, Arc::clone(tls))?)))
    }

    /// Its socket, to set time-outs and to ask for addresses.
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Self::Tcp(socket) => socket,
            Self::Tls(duplex) => duplex.socket(),
        }
    }

    pub(super) fn output(&self) -> io::Result<Output> {
        Ok(match self {
            Self::Tcp(socket) => Output::Tcp(socket.try_clone()?),
            Self::Tls(duplex) => Output::Tls(duplex.writer()?),
        })
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.read(into),
            Self::Tls(duplex) => duplex.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write(bytes),
            Self::Tls(duplex) => duplex.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output {
    /// Ends the connection in both directions.
    pub(super) fn shutdown(&mut self) {
        match self {
            Self::Tcp(socket) => _ = socket.shutdown(Shutdown::Both),
            Self::Tls(writer) => writer.shutdown(),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write(bytes),
            Self::Tls(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
