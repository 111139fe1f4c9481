//! The material of TLS connections: certificates, keys, trusted authorities.
//!
//! - The server reads all files that the settings name, or uses none of them: when new files cannot
//!   be read, the old material stays in use. Connections keep the one that they began with.
//! - A peer is trusted if a configured authority has signed its certificate; its name is not
//!   compared with its address, since replicas and primaries often lack both (as in Redis).

use std::sync::Arc;
use std::{fs, io};

use mio::net::TcpStream;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    ClientConfig, ClientConnection, Error, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
};
use stillframe_tls::{
    FileError, Named, SignedByAuthority, read_certificates, read_chain, read_key,
};

use super::{TlsError, TlsStream};
use crate::node::config::Config;
use crate::node::config::tls::{ClientAuth, TlsSettings};

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
        let provider = Arc::new(ring::default_provider());
        let versions = versions(settings);
        let trusted = trusted(settings)?;
        let server = serves.then(|| server(settings, &provider, &versions, trusted.clone()));
        let client = follows.then(|| client(settings, &provider, &versions, trusted));
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

type Versions = Vec<&'static SupportedProtocolVersion>;

fn versions(settings: &TlsSettings) -> Versions {
    let all = [
        (settings.protocols.tls12, &rustls::version::TLS12),
        (settings.protocols.tls13, &rustls::version::TLS13),
    ];
    all.into_iter().filter(|(wanted, _)| *wanted).map(|(_, version)| version).collect()
}

fn server(
    settings: &TlsSettings,
    provider: &Arc<CryptoProvider>,
    versions: &Versions,
    trusted: Option<RootCertStore>,
) -> Result<ServerConfig, TlsError> {
    let (chain, key) =
        identity(["tls-cert-file", "tls-key-file"], [&settings.cert_file, &settings.key_file])?;
    let verifier: Arc<dyn ClientCertVerifier> = match (settings.auth_clients, trusted) {
        (ClientAuth::No, _) => WebPkiClientVerifier::no_client_auth(),
        (_, None) => return Err(TlsError::NoAuthority),
        (auth, Some(roots)) => {
            let builder =
                WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(provider));
            let builder = match auth {
                ClientAuth::Optional => builder.allow_unauthenticated(),
                _ => builder,
            };
            builder.build()?
        }
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider));
    let builder = builder.with_protocol_versions(versions)?;
    let config = builder.with_client_cert_verifier(verifier).with_single_cert(chain, key);
    let mut config = config.map_err(no_pair(&settings.cert_file, &settings.key_file))?;
    // Sessions resume by tickets, which clients keep: the command thread would search a cache of
    // them from end to end.
    config.ticketer = ring::Ticketer::new()?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

fn client(
    settings: &TlsSettings,
    provider: &Arc<CryptoProvider>,
    versions: &Versions,
    trusted: Option<RootCertStore>,
) -> Result<ClientConfig, TlsError> {
    let roots = trusted.ok_or(TlsError::NoAuthority)?;
    let authority = SignedByAuthority::new(roots, Arc::clone(provider));
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider));
    let builder = builder.with_protocol_versions(versions)?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(authority));
    let own = [&settings.client_cert_file, &settings.client_key_file];
    let (names, files) = if own.iter().all(|file| file.is_empty()) {
        (["tls-cert-file", "tls-key-file"], [&settings.cert_file, &settings.key_file])
    } else {
        (["tls-client-cert-file", "tls-client-key-file"], own)
    };
    if files.iter().all(|file| file.is_empty()) {
        return Ok(builder.with_no_client_auth());
    }
    let (chain, key) = identity([names[0], names[1]], [files[0], files[1]])?;
    builder.with_client_auth_cert(chain, key).map_err(no_pair(files[0], files[1]))
}

/// For `map_err`: the files do not belong together.
fn no_pair(chain: &str, key: &str) -> impl FnOnce(Error) -> TlsError {
    move |source| TlsError::NoPair { chain: chain.to_owned(), key: key.to_owned(), source }
}

type Chain = Vec<CertificateDer<'static>>;

/// The certificates and the key in two files, given with the settings that name them.
fn identity(
    settings: [&'static str; 2],
    files: [&str; 2],
) -> Result<(Chain, PrivateKeyDer<'static>), TlsError> {
    if let Some(at) = files.iter().position(|file| file.is_empty()) {
        return Err(TlsError::Missing { setting: settings[at] });
    }
    let chain = read_chain(&Named::by_setting(settings[0], files[0]))?;
    Ok((chain, read_key(&Named::by_setting(settings[1], files[1]))?))
}

/// The authorities in the configured file and directory, if there are any.
fn trusted(settings: &TlsSettings) -> Result<Option<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    if !settings.ca_cert_file.is_empty() {
        let file = Named::by_setting("tls-ca-cert-file", &settings.ca_cert_file);
        for certificate in read_certificates(&file)? {
            let added = roots.add(certificate);
            added.map_err(|source| TlsError::Authority { path: file.path().into(), source })?;
        }
    }
    if !settings.ca_cert_dir.is_empty() {
        let folder = Named::by_setting("tls-ca-cert-dir", &settings.ca_cert_dir);
        let failed = |error| FileError::Unreadable(folder.clone(), error);
        for entry in fs::read_dir(folder.path()).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_file() {
                // Such directories have lists of revoked certificates and readme files, too.
                let found = read_certificates(&Named::by_path(path)).unwrap_or_default();
                roots.add_parsable_certificates(found);
            }
        }
    }
    Ok(Some(roots).filter(|roots| !roots.is_empty()))
}
