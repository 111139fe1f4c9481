//! Why the settings of TLS are refused.

use crate::node::error::ServeError;

/// Why the settings of TLS are refused.
#[derive(Debug, thiserror::Error)]
#[error("this stillframe was built without TLS (feature 'tls')")]
#[cfg(not(feature = "tls"))]
pub struct TlsError;

/// Which file, and what is wrong with it.
#[cfg(feature = "tls")]
pub(crate) type TlsError = stillframe_tls::MaterialError;

impl From<TlsError> for ServeError {
    fn from(error: TlsError) -> Self {
        Self::Tls(Box::new(error))
    }
}
