//! Why the settings of TLS are refused.

#[cfg(feature = "tls")]
use std::path::PathBuf;

#[cfg(feature = "tls")]
use rustls::server::VerifierBuilderError;
#[cfg(feature = "tls")]
use stillframe_tls::FileError;

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
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
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
