//! TLS over TCP, by rustls; without the feature `tls` the server refuses the settings.

#[cfg(not(feature = "tls"))]
mod absent;
mod error;
#[cfg(feature = "tls")]
mod settings;
#[cfg(feature = "tls")]
mod stream;

#[cfg(not(feature = "tls"))]
pub(crate) use absent::{Tls, TlsStream};
pub(crate) use error::TlsError;
#[cfg(feature = "tls")]
pub(crate) use settings::Tls;
#[cfg(feature = "tls")]
pub(crate) use stream::TlsStream;
