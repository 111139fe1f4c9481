//! Mutual TLS: each node shows a certificate of the group's authority.
//!
//! - All files are read, or none is used: when new ones cannot be read, the old material stays in
//!   use. Connections keep the one that they began with.
//! - A node is trusted if the authority has signed its certificate; its name is not compared with
//!   its address, as for clients and replicas. So the authority must be the group's own.
//! - A certificate that names members, as `raft-member-3`, is good for those alone. A member that
//!   has shown one shows no other from then on.
//! - TLS 1.3 alone: both ends are this crate.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use stillframe_tls::{
    FileError, Named, SignedByAuthority, read_certificates, read_chain, read_key,
};
use tokio::time::{MissedTickBehavior, interval};

use crate::error::Error;

/// The files of a node, in PEM form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The node's certificate, then those between it and the authority.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authorities whose certificates other nodes have.
    pub ca: PathBuf,
}

impl TlsFiles {
    /// What changes when a file is replaced.
    fn stamps(&self) -> [Option<(SystemTime, u64)>; 3] {
        [&self.cert, &self.key, &self.ca].map(|path| {
            let found = fs::metadata(path).ok()?;
            Some((found.modified().ok()?, found.len()))
        })
    }
}

/// How the DNS name of a member begins in a certificate; its number follows, then nothing or a dot.
const MEMBER: &str = "raft-member-";

/// The members that a peer's certificate names; if none, it is good for all.
#[derive(Debug, Default)]
pub(crate) struct Certified(Vec<u64>);

impl Certified {
    /// By the certificates that a peer has shown, its own first.
    pub(crate) fn by(certificates: Option<&[CertificateDer<'_>]>) -> Self {
        let own = certificates.and_then(<[_]>::first);
        let own = own.and_then(|own| webpki::EndEntityCert::try_from(own).ok());
        let number = |name: &str| {
            let name = name.to_ascii_lowercase();
            name.strip_prefix(MEMBER)?.split('.').next()?.parse().ok()
        };
        Self(own.map_or_else(Vec::new, |own| own.valid_dns_names().filter_map(number).collect()))
    }

    /// Whether they name this node.
    pub(crate) fn names(&self, node: u64) -> bool {
        self.0.contains(&node)
    }

    /// Whether the peer may be this node.
    pub(crate) fn check(&self, node: u64) -> Result<(), Error> {
        if self.0.is_empty() || self.names(node) {
            return Ok(());
        }
        let names: Vec<String> = self.0.iter().map(|member| format!("{MEMBER}{member}")).collect();
        Err(Error::OtherCertificate { node, names: names.join(", ") })
    }
}

/// Which file, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A certificate is not one of an authority.
    #[error("{} holds no usable authority: {source}", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: rustls::Error,
    },
    /// Nodes cannot be checked against the authorities.
    #[error("the authorities in {} cannot be used: {source}", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// What is wrong with them.
        source: VerifierBuilderError,
    },
    /// A key does not belong to its certificate.
    #[error("{} and {} do not make a pair: {source}", cert.display(), key.display())]
    NoPair {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// What is wrong with them.
        source: rustls::Error,
    },
}

/// Certificates in use. Clones share them.
#[derive(Clone)]
pub struct Tls {
    files: Arc<TlsFiles>,
    material: Arc<RwLock<Material>>,
}

/// Both sides of a connection.
#[derive(Clone)]
struct Material {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`]: which file, what is wrong.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let material = Arc::new(RwLock::new(Material::read(&files)?));
        Ok(Self { files: Arc::new(files), material })
    }

    /// Reads the files again, for connections to come.
    ///
    /// # Errors
    /// [`TlsError`]; then the material before stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        let material = Material::read(&self.files)?;
        *self.material.write().unwrap_or_else(PoisonError::into_inner) = material;
        Ok(())
    }

    /// Looks at the files every `pause`, and reads them again when they have changed, until it is
    /// dropped. What cannot be used is tried again: files are seldom replaced all at once.
    pub async fn follow(self, pause: Duration) {
        let mut tick = interval(pause);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut used, mut told) = (self.files.stamps(), String::new());
        loop {
            tick.tick().await;
            let now = self.files.stamps();
            if now == used {
                continue;
            }
            match self.reload() {
                Ok(()) => {
                    tracing::info!("the certificates of this node were read again");
                    (used, told) = (now, String::new());
                }
                Err(error) => {
                    let text = error.to_string();
                    if text != told {
                        tracing::warn!("the certificates before stay in use: {text}");
                        told = text;
                    }
                }
            }
        }
    }

    fn material(&self) -> Material {
        self.material.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        self.material().server
    }

    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        self.material().client
    }
}

impl Material {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        for authority in read_certificates(&Named::by_path(&files.ca))? {
            let added = roots.add(authority);
            added.map_err(|source| TlsError::Authority { path: files.ca.clone(), source })?;
        }
        let no_pair = |source| {
            let (cert, key) = (files.cert.clone(), files.key.clone());
            TlsError::NoPair { cert, key, source }
        };
        let chain = read_chain(&Named::by_path(&files.cert))?;
        let key = read_key(&Named::by_path(&files.key))?;
        let verifier =
            WebPkiClientVerifier::builder_with_provider(roots.clone().into(), provider.clone());
        let verifier = verifier.build();
        let verifier =
            verifier.map_err(|source| TlsError::Authorities { path: files.ca.clone(), source })?;
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_protocol_versions(&[&TLS13]).map_err(no_pair)?;
        let builder = builder.with_client_cert_verifier(verifier);
        let server = builder.with_single_cert(chain.clone(), key.clone_key()).map_err(no_pair)?;
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let builder = builder.with_protocol_versions(&[&TLS13]).map_err(no_pair)?;
        let authority = Arc::new(SignedByAuthority::new(roots, provider));
        let builder = builder.dangerous().with_custom_certificate_verifier(authority);
        let client = builder.with_client_auth_cert(chain, key).map_err(no_pair)?;
        Ok(Self { server: Arc::new(server), client: Arc::new(client) })
    }
}
