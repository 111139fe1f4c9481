//! What TLS connections are made with: certificates, keys, who is trusted.
//!
//! - Made whole from the files that the settings name, or not at all: what is in use stays in use
//!   when new files cannot be read. Connections keep what they began with.
//! - Peers are trusted if a configured authority has signed their certificates; their names are not
//!   compared with addresses, as replicas and primaries often have neither (as in Redis).

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, ServerConfig,
    ServerConnection, SignatureScheme, SupportedProtocolVersion,
};

use super::TlsStream;
use crate::config::Config;
use crate::config::tls::{ClientAuth, TlsSettings};

/// What TLS connections are made with.
#[derive(Default)]
pub(crate) struct Tls {
    /// For those who connect, if there is a TLS port.
    server: Option<Arc<ServerConfig>>,
    /// For connecting to a primary, if replication is to use TLS.
    client: Option<Arc<ClientConfig>>,
}

impl Tls {
    /// Reads the files that the settings name, if there is any use for them.
    ///
    /// # Errors
    /// One sentence: which file, what is wrong.
    pub(crate) fn new(config: &Config) -> Result<Self, String> {
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
    let all =
        [(settings.tls12, &rustls::version::TLS12), (settings.tls13, &rustls::version::TLS13)];
    all.into_iter().filter(|(wanted, _)| *wanted).map(|(_, version)| version).collect()
}

fn server(
    settings: &TlsSettings,
    provider: &Arc<CryptoProvider>,
    versions: &Versions,
    trusted: Option<RootCertStore>,
) -> Result<ServerConfig, String> {
    let (chain, key) =
        identity(("tls-cert-file", &settings.cert_file), ("tls-key-file", &settings.key_file))?;
    let verifier: Arc<dyn ClientCertVerifier> = match (settings.auth_clients, trusted) {
        (ClientAuth::No, _) => WebPkiClientVerifier::no_client_auth(),
        (_, None) => return Err(NO_AUTHORITY.to_owned()),
        (auth, Some(roots)) => {
            let builder =
                WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(provider));
            let builder = match auth {
                ClientAuth::Optional => builder.allow_unauthenticated(),
                _ => builder,
            };
            builder.build().map_err(|error| format!("the authorities cannot be used: {error}"))?
        }
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider));
    let builder = builder.with_protocol_versions(versions).map_err(|error| error.to_string())?;
    let config = builder.with_client_cert_verifier(verifier).with_single_cert(chain, key);
    let mut config = config.map_err(|error| {
        let (chain, key) = (&settings.cert_file, &settings.key_file);
        format!("the certificate {chain} and the key {key} do not make a pair: {error}")
    })?;
    // Sessions are taken up again by tickets, which clients keep: a cache of them would be searched
    // from end to end, by the thread that runs commands.
    config.ticketer = ring::Ticketer::new().map_err(|error| error.to_string())?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

fn client(
    settings: &TlsSettings,
    provider: &Arc<CryptoProvider>,
    versions: &Versions,
    trusted: Option<RootCertStore>,
) -> Result<ClientConfig, String> {
    let roots = trusted.ok_or(NO_AUTHORITY)?;
    let authority = SignedByAuthority { roots, provider: Arc::clone(provider) };
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider));
    let builder = builder.with_protocol_versions(versions).map_err(|error| error.to_string())?;
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
    let (chain, key) = identity((names[0], files[0]), (names[1], files[1]))?;
    builder.with_client_auth_cert(chain, key).map_err(|error| {
        format!("the certificate {} and the key {} do not make a pair: {error}", files[0], files[1])
    })
}

const NO_AUTHORITY: &str = "certificates of others are to be checked, and no authority is trusted; \
     name one with tls-ca-cert-file or tls-ca-cert-dir, or set tls-auth-clients no";

type Chain = Vec<CertificateDer<'static>>;

/// The certificates and the key in two files, given with the settings that name them.
fn identity(
    (cert_setting, cert_file): (&str, &str),
    (key_setting, key_file): (&str, &str),
) -> Result<(Chain, PrivateKeyDer<'static>), String> {
    for (setting, file) in [(cert_setting, cert_file), (key_setting, key_file)] {
        if file.is_empty() {
            return Err(format!("TLS needs a certificate and its key; set {setting}"));
        }
    }
    let chain = certificates(cert_setting, Path::new(cert_file))?;
    let bytes = read(key_setting, Path::new(key_file))?;
    let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| {
        format!("{key_setting} {key_file} holds no private key in PEM form: {error}")
    })?;
    Ok((chain, key))
}

fn read(setting: &str, path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {setting} {}: {error}", path.display()))
}

fn certificates(setting: &str, path: &Path) -> Result<Chain, String> {
    let bytes = read(setting, path)?;
    let found: Result<Chain, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(format!("{setting} {} holds no certificate in PEM form", path.display())),
        Err(error) => Err(format!("{setting} {} is no PEM file: {error}", path.display())),
    }
}

/// The authorities in the configured file and directory, if there are any.
fn trusted(settings: &TlsSettings) -> Result<Option<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    if !settings.ca_cert_file.is_empty() {
        let path = Path::new(&settings.ca_cert_file);
        for certificate in certificates("tls-ca-cert-file", path)? {
            roots.add(certificate).map_err(|error| {
                format!("tls-ca-cert-file {} holds no usable authority: {error}", path.display())
            })?;
        }
    }
    if !settings.ca_cert_dir.is_empty() {
        let folder = &settings.ca_cert_dir;
        let failed = |error| format!("cannot read tls-ca-cert-dir {folder}: {error}");
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_file() {
                // Such directories hold lists of revoked certificates and readme files, too.
                let found = certificates("tls-ca-cert-dir", &path).unwrap_or_default();
                roots.add_parsable_certificates(found);
            }
        }
    }
    Ok(Some(roots).filter(|roots| !roots.is_empty()))
}

/// A primary is trusted if an authority has signed its certificate, whatever name that bears.
#[derive(Debug)]
struct SignedByAuthority {
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for SignedByAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
