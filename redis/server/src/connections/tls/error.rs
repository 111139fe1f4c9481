//! Why the settings of TLS are refused.

#[cfg(feature = "tls")]
use std::io;
#[cfg(feature = "tls")]
use std::path::PathBuf;

#[cfg(feature = "tls")]
use rustls::pki_types::pem;
#[cfg(feature = "tls")]
use rustls::server::VerifierBuilderError;
#[cfg(feature = "tls")]
use stillframe_tls::VERSION_ONE;

use crate::node::error::ServeError;

/// Why the settings of TLS are refused.
#[derive(Debug, thiserror::Error)]
#[error("this stillframe was built without TLS (feature 'tls')")]
#[cfg(not(feature = "tls"))]
pub struct TlsError;

/// Which file, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[cfg(feature = "tls")]
pub enum TlsError {
    /// The settings demand trusted authorities, and name none.
    #[error(
        "the server must check certificates, and trusts no authority; name one with \
         tls-ca-cert-file or tls-ca-cert-dir, or set tls-auth-clients no"
    )]
    NoAuthority,
    /// A required setting names no file.
    #[error("TLS needs a certificate and its key; set {setting}")]
    Missing {
        /// The setting.
        setting: &'static str,
    },
    /// A file or directory cannot be read.
    #[error("cannot read {setting} {}: {source}", path.display())]
    Unreadable {
        /// The setting that names it.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A file holds no key.
    #[error("{setting} {} holds no private key in PEM form: {source}", path.display())]
    NoKey {
        /// The setting that names it.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// A file holds no certificate.
    #[error("{setting} {} holds no certificate in PEM form", path.display())]
    NoCertificate {
        /// The setting that names it.
        setting: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// A certificate is of X.509 version 1.
    #[error("{setting} {} {}", path.display(), VERSION_ONE)]
    VersionOne {
        /// The setting that names it.
        setting: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// A file is no PEM file.
    #[error("{setting} {} is no PEM file: {source}", path.display())]
    NoPem {
        /// The setting that names it.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// A certificate is not one of an authority.
    #[error("tls-ca-cert-file {} holds no usable authority: {source}", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: rustls::Error,
    },
    /// Clients cannot be checked against the authorities.
    #[error("the authorities cannot be used: {0}")]
    Authorities(#[from] VerifierBuilderError),
    /// A key does not belong to its certificate.
    #[error("the certificate {chain} and the key {key} do not make a pair: {source}")]
    NoPair {
        /// The file of the certificate.
        chain: String,
        /// The file of the key.
        key: String,
        /// What is wrong with them.
        source: rustls::Error,
    },
    /// The versions or the tickets cannot be used.
    #[error(transparent)]
    Unusable(#[from] rustls::Error),
}

impl From<TlsError> for ServeError {
    fn from(error: TlsError) -> Self {
        Self::Tls(Box::new(error))
    }
}
