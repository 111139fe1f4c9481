//! Mutual TLS: each node shows a certificate of the group's authority.
//!
//! - All files are read, or none is used: when new ones cannot be read, the old material stays in
//!   use. Connections keep the one that they began with.
//! - A node is trusted if the authority has signed its certificate; its name is not compared with
//!   its address, as for clients and replicas. So the authority must be the group's own.
//! - A certificate that names members, as `raft-member-3`, is good for those alone.
//! - TLS 1.3 alone: both ends are this crate.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use stillframe_tls::{SignedByAuthority, VERSION_ONE, is_version_one};
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

    /// Whether the peer may be this node.
    pub(crate) fn check(&self, node: u64) -> Result<(), Error> {
        if self.0.is_empty() || self.0.contains(&node) {
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
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A file holds no key.
    #[error("{} holds no private key in PEM form: {source}", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// A file holds no certificate.
    #[error("{} holds no certificate in PEM form", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// A certificate is of X.509 version 1.
    #[error("{} {}", path.display(), VERSION_ONE)]
    VersionOne {
        /// The file.
        path: PathBuf,
    },
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
        for authority in certificates(&files.ca)? {
            let added = roots.add(authority);
            added.map_err(|source| TlsError::Authority { path: files.ca.clone(), source })?;
        }
        let no_pair = |source| {
            let (cert, key) = (files.cert.clone(), files.key.clone());
            TlsError::NoPair { cert, key, source }
        };
        let (chain, key) = (certificates(&files.cert)?, key(&files.key)?);
        if chain.iter().any(is_version_one) {
            return Err(TlsError::VersionOne { path: files.cert.clone() });
        }
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

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.ok().filter(|found| !found.is_empty());
    found.ok_or_else(|| TlsError::NoCertificate { path: path.to_owned() })
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let bytes = read(path)?;
    let key = PrivateKeyDer::from_pem_slice(&bytes);
    key.map_err(|source| TlsError::NoKey { path: path.to_owned(), source })
}
