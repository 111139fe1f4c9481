//! The material of TLS connections: certificates, keys, trusted authorities.
//!
//! - The server reads all files that the settings name, or uses none of them: when new files cannot
//!   be read, the old material stays in use. Connections keep the one that they began with.
//! - A peer is trusted if a configured authority has signed its certificate; its name is not
//!   compared with its address, since replicas and primaries often lack both (as in Redis).

use std::io;
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use stillframe_tls::{ClientAuth, Identity, Material, Named, TLS12, TLS13};

use super::{TlsError, TlsStream};
use crate::node::config::Config;
use crate::node::config::tls::{ClientAuth as Wanted, TlsSettings};

/// The material of TLS connections.
#[derive(Default)]
pub(crate) struct Tls {
    /// For incoming connections, if there is a TLS port.
    server: Option<Arc<ServerConfig>>,
    /// For the connection to a primary, if replication uses TLS.
    client: Option<Arc<ClientConfig>>,
}

impl Tls {
    /// Reads the files that the settings name, if they are needed.
    ///
    /// # Errors
    /// One sentence: which file, what is wrong.
    pub(crate) fn new(config: &Config) -> Result<Self, TlsError> {
        let settings = &config.tls;
        let (serves, follows) = (settings.port > 0, settings.replication);
        if !serves && !follows {
            return Ok(Self::default());
        }
        let material = material(settings)?;
        let server = serves.then(|| material.server(&own(settings), auth(settings)));
        let client = follows.then(|| material.client(&to_primary(settings)));
        let (server, client) = (server.transpose()?, client.transpose()?);
        Ok(Self { server: server.map(Arc::new), client: client.map(Arc::new) })
    }

    /// The server's side of a connection.
    pub(crate) fn accept(&self, socket: TcpStream) -> Option<TlsStream> {
        let connection = ServerConnection::new(Arc::clone(self.server.as_ref()?)).ok()?;
        Some(TlsStream::new(socket, connection.into()))
    }

    /// The client's side of a connection to `host`.
    pub(crate) fn connect(&self, socket: TcpStream, host: &str) -> io::Result<TlsStream> {
        let config = self.client.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(Arc::clone(config), name);
        Ok(TlsStream::new(socket, connection.map_err(io::Error::other)?.into()))
    }
}

fn material(settings: &TlsSettings) -> Result<Material, TlsError> {
    let versions = [(settings.protocols.tls12, &TLS12), (settings.protocols.tls13, &TLS13)];
    let versions = versions.into_iter().filter(|(wanted, _)| *wanted).map(|(_, version)| version);
    let file = Named::by_setting("tls-ca-cert-file", &settings.ca_cert_file);
    let folder = Named::by_setting("tls-ca-cert-dir", &settings.ca_cert_dir);
    Material::read(versions.collect(), &file, &folder)
}

fn auth(settings: &TlsSettings) -> ClientAuth {
    match settings.auth_clients {
        Wanted::No => ClientAuth::No,
        Wanted::Optional => ClientAuth::Optional,
        Wanted::Yes => ClientAuth::Yes,
    }
}

fn own(settings: &TlsSettings) -> Identity {
    Identity {
        chain: Named::by_setting("tls-cert-file", &settings.cert_file),
        key: Named::by_setting("tls-key-file", &settings.key_file),
    }
}

/// What the primary is shown.
fn to_primary(settings: &TlsSettings) -> Identity {
    let identity = Identity {
        chain: Named::by_setting("tls-client-cert-file", &settings.client_cert_file),
        key: Named::by_setting("tls-client-key-file", &settings.client_key_file),
    };
    if identity.is_empty() { own(settings) } else { identity }
}
