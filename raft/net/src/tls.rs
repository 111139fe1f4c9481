//! Mutual TLS: each node shows a certificate of the group's authority.
//!
//! - All files are read, or none is used: when new ones cannot be read, the old material stays in
//!   use. Connections keep the one that they began with.
//! - A node is trusted if the authority has signed its certificate; its name is not compared with
//!   its address, as for clients and replicas. So the authority must be the group's own.
//! - A certificate that names members, as `raft-member-3`, is good for those alone.
//! - A member is bound to its certificate: by the name if it has one, else by the public key that
//!   it showed first. The log of its group keeps that ([`Bindings`]), so that a node that has never
//!   met the member knows it, too. A name is the authority's word, so it is always good, also for a
//!   member that is bound to a key.
//! - TLS 1.3 alone: both ends are this crate.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
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

/// What of its certificate a member is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Bound {
    /// The name of the member in it: any certificate with that name is good.
    Name,
    /// The SHA-256 of its public key (`SubjectPublicKeyInfo`): it does not name the member.
    Key([u8; 32]),
}

impl Bound {
    /// Whether a member that is bound to this may show that.
    pub(crate) fn fits(self, shown: Self) -> bool {
        shown == Self::Name || shown == self
    }
}

/// The certificates to which the members of a group are bound, by its log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bindings {
    /// The index up to which the log has said so.
    pub at: u64,
    /// Of each member.
    pub of: BTreeMap<u64, Bound>,
}

/// What a peer's certificate says of it.
#[derive(Debug, Clone)]
pub(crate) struct Certified {
    /// The members that it names; if none, it is good for all that are not bound to another.
    members: Vec<u64>,
    key: [u8; 32],
}

impl Certified {
    /// By the certificates that a peer has shown, its own first.
    pub(crate) fn by(certificates: Option<&[CertificateDer<'_>]>) -> Self {
        let own = certificates.and_then(<[_]>::first);
        let own = own.and_then(|own| webpki::EndEntityCert::try_from(own).ok());
        let number = |name: &str| {
            let name = name.to_ascii_lowercase();
            name.strip_prefix(MEMBER)?.split('.').next()?.parse().ok()
        };
        // The handshake has read it, so it can be read.
        let key = own.as_ref().map(|own| own.subject_public_key_info());
        let key = Sha256::digest(key.as_deref().unwrap_or_default()).into();
        let members =
            own.map_or_else(Vec::new, |own| own.valid_dns_names().filter_map(number).collect());
        Self { members, key }
    }

    /// To what of it this node can be bound.
    pub(crate) fn bound(&self, node: u64) -> Bound {
        if self.members.contains(&node) { Bound::Name } else { Bound::Key(self.key) }
    }

    /// Whether the peer may be this node.
    pub(crate) fn check(&self, node: u64) -> Result<(), Error> {
        if self.members.is_empty() || self.members.contains(&node) {
            return Ok(());
        }
        let names = self.members.iter().map(|member| format!("{MEMBER}{member}"));
        let names: Vec<String> = names.collect();
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
    certified: Arc<Certified>,
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
        self.put(Material::read(&self.files)?);
        Ok(())
    }

    fn put(&self, material: Material) {
        *self.material.write().unwrap_or_else(PoisonError::into_inner) = material;
    }

    /// To what of its own certificate node `node` can be bound.
    #[must_use]
    pub fn bound(&self, node: u64) -> Bound {
        self.material().certified.bound(node)
    }

    /// Looks at the files every `pause`, and reads them again when they have changed, until it is
    /// dropped. What cannot be used is tried again: files are seldom replaced all at once. So is
    /// what `permit` refuses, which hears to what node `node` can be bound by the new certificate:
    /// others may have to know of that before they see it.
    pub async fn follow<F>(self, node: u64, pause: Duration, permit: impl Fn(Bound) -> F)
    where
        F: Future<Output = Result<(), String>>,
    {
        let mut tick = interval(pause);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut used, mut told) = (self.files.stamps(), String::new());
        loop {
            tick.tick().await;
            let now = self.files.stamps();
            if now == used {
                continue;
            }
            let read = match Material::read(&self.files) {
                Ok(read) => permit(read.certified.bound(node)).await.map(|()| read),
                Err(error) => Err(error.to_string()),
            };
            match read {
                Ok(read) => {
                    self.put(read);
                    tracing::info!("the certificates of this node were read again");
                    (used, told) = (now, String::new());
                }
                Err(text) => {
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
        let certified = Arc::new(Certified::by(Some(&chain)));
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
        Ok(Self { server: Arc::new(server), client: Arc::new(client), certified })
    }
}
