//! What one program shows and trusts in TLS connections, from files with the names that Redis gives
//! them.
//!
//! A peer is trusted if a given authority has signed its certificate; its name is not compared with
//! its address, since replicas and primaries often lack both (as in Redis).

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{ClientConfig, Error, RootCertStore, ServerConfig, SupportedProtocolVersion};

use crate::{FileError, Named, SignedByAuthority, read_certificates, read_chain, read_key};

/// Which file, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MaterialError {
    /// Peers are checked, and no authority is trusted.
    #[error(
        "the server must check certificates, and trusts no authority; name one with \
         tls-ca-cert-file or tls-ca-cert-dir, or set tls-auth-clients no"
    )]
    NoAuthority,
    /// A required file is not named.
    #[error("TLS needs a certificate and its key; set {setting}")]
    Missing {
        /// What names it.
        setting: &'static str,
    },
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A certificate is not one of an authority.
    #[error("tls-ca-cert-file {} holds no usable authority: {source}", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Error,
    },
    /// Clients cannot be checked against the authorities.
    #[error("the authorities cannot be used: {0}")]
    Authorities(#[from] VerifierBuilderError),
    /// A key does not belong to its certificate.
    #[error("the certificate {} and the key {} do not make a pair: {source}",
        chain.display(), key.display())]
    NoPair {
        /// The file of the certificate.
        chain: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// What is wrong with them.
        source: Error,
    },
    /// The versions or the tickets cannot be used.
    #[error(transparent)]
    Unusable(#[from] Error),
}

/// The files of a certificate, with those that vouch for it behind it, and of its key.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificates.
    pub chain: Named,
    /// The key.
    pub key: Named,
}

impl Identity {
    /// Whether neither file is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chain.is_empty() && self.key.is_empty()
    }

    fn read(
        &self,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), MaterialError> {
        for file in [&self.chain, &self.key] {
            if file.is_empty() {
                let setting = file.setting().unwrap_or("the file");
                return Err(MaterialError::Missing { setting });
            }
        }
        Ok((read_chain(&self.chain)?, read_key(&self.key)?))
    }

    /// For `map_err`: the files do not belong together.
    fn no_pair(&self) -> impl FnOnce(Error) -> MaterialError {
        let [chain, key] = [&self.chain, &self.key].map(|file| file.path().to_owned());
        move |source| MaterialError::NoPair { chain, key, source }
    }
}

/// Whether clients must present a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    /// They are not asked for one.
    No,
    /// A presented one must be good.
    Optional,
    /// They must present one.
    Yes,
}

/// Authorities and versions, which both sides of connections share.
pub struct Material {
    provider: Arc<CryptoProvider>,
    versions: Vec<&'static SupportedProtocolVersion>,
    trusted: Option<RootCertStore>,
}

impl Material {
    /// Reads the authorities in a file and in a directory; either may have an empty name.
    ///
    /// # Errors
    /// [`MaterialError`]: which file, what is wrong.
    pub fn read(
        versions: Vec<&'static SupportedProtocolVersion>,
        file: &Named,
        folder: &Named,
    ) -> Result<Self, MaterialError> {
        let provider = Arc::new(ring::default_provider());
        Ok(Self { provider, versions, trusted: trusted(file, folder)? })
    }

    /// The server's side of connections.
    ///
    /// # Errors
    /// [`MaterialError`]: which file, what is wrong.
    pub fn server(&self, own: &Identity, auth: ClientAuth) -> Result<ServerConfig, MaterialError> {
        let (chain, key) = own.read()?;
        let verifier: Arc<dyn ClientCertVerifier> = match (auth, self.trusted.clone()) {
            (ClientAuth::No, _) => WebPkiClientVerifier::no_client_auth(),
            (_, None) => return Err(MaterialError::NoAuthority),
            (auth, Some(roots)) => {
                let provider = Arc::clone(&self.provider);
                let builder = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                let builder = match auth {
                    ClientAuth::Optional => builder.allow_unauthenticated(),
                    _ => builder,
                };
                builder.build()?
            }
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider));
        let builder = builder.with_protocol_versions(&self.versions)?;
        let config = builder.with_client_cert_verifier(verifier).with_single_cert(chain, key);
        let mut config = config.map_err(own.no_pair())?;
        // Sessions resume by tickets, which clients keep: the command thread would search a cache
        // of them from end to end.
        config.ticketer = ring::Ticketer::new()?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(config)
    }

    /// The client's side of connections, which shows a certificate if one is named.
    ///
    /// # Errors
    /// [`MaterialError`]: which file, what is wrong.
    pub fn client(&self, own: &Identity) -> Result<ClientConfig, MaterialError> {
        let roots = self.trusted.clone().ok_or(MaterialError::NoAuthority)?;
        let authority = SignedByAuthority::new(roots, Arc::clone(&self.provider));
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider));
        let builder = builder.with_protocol_versions(&self.versions)?;
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(authority));
        if own.is_empty() {
            return Ok(builder.with_no_client_auth());
        }
        let (chain, key) = own.read()?;
        builder.with_client_auth_cert(chain, key).map_err(own.no_pair())
    }
}

/// The authorities in a file and a directory, if there are any.
fn trusted(file: &Named, folder: &Named) -> Result<Option<RootCertStore>, MaterialError> {
    let mut roots = RootCertStore::empty();
    if !file.is_empty() {
        for certificate in read_certificates(file)? {
            let added = roots.add(certificate);
            added
                .map_err(|source| MaterialError::Authority { path: file.path().into(), source })?;
        }
    }
    if !folder.is_empty() {
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
