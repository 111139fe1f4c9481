//! TLS between servers: material from files, connections over sockets that block, and trust in
//! peers by the authority that signed their certificate. Certificates of replicas, primaries and
//! members of a group often lack the name by which they are reached (as in Redis). So the authority
//! must sign for nobody else.

#![forbid(unsafe_code)]

mod duplex;
mod files;
mod material;

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

pub use duplex::{Duplex, Writer};
pub use files::{FileError, Named, read_certificates, read_chain, read_key};
pub use material::{ClientAuth, Identity, Material, MaterialError};
/// The versions of TLS.
pub use rustls::version::{TLS12, TLS13};
/// The two sides of connections.
pub use rustls::{ClientConfig, ServerConfig};

/// Trusts a peer if an authority has signed its certificate, whatever its name.
#[derive(Debug)]
pub struct SignedByAuthority {
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
}

impl SignedByAuthority {
    /// Trusts the peers of these authorities.
    #[must_use]
    pub fn new(roots: RootCertStore, provider: Arc<CryptoProvider>) -> Self {
        Self { roots, provider }
    }
}

impl ServerCertVerifier for SignedByAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
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
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// What to say of a file with a certificate of [version 1](is_version_one).
pub const VERSION_ONE: &str = "holds an X.509 certificate of version 1, which no peer takes; make \
    one of version 3: 'openssl x509 -req' does with -extfile";

/// Whether a certificate is of X.509 version 1, as `openssl x509 -req` makes them by itself. TLS
/// takes none but an authority's.
#[must_use]
pub fn is_version_one(certificate: &CertificateDer<'_>) -> bool {
    let Err(Error::InvalidCertificate(CertificateError::Other(why))) =
        ParsedCertificate::try_from(certificate)
    else {
        return false;
    };
    why.0.to_string().contains("UnsupportedCertVersion")
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject;

    use super::*;

    const ONE: &[u8] = b"-----BEGIN CERTIFICATE-----\n\
    MIIBGDCBvwIUS+CDhXYgDH8JPhvyN11Uev3+wqwwCgYIKoZIzj0EAwIwDjEMMAoG\n\
    A1UEAwwDb2xkMCAXDTI2MTEyNjIxNDMxMVoYDzIxMjYxMTAyMjE0MzExWjAOMQww\n\
    CgYDVQQDDANvbGQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQCtDAICd6wwXV/\n\
    QNrMsj220wuZyLF86qhEqEae78Yd7iVF86giKI/q6sdkF2P8Xqox3nuz2fxvBT/h\n\
    BONP7RfaMAoGCCqGSM49BAMCA0gAMEUCIB/jBwTp93UW2DimuhgqqeRFqO/xSEgU\n\
    fVhCf6K82VH1AiEA5BixyzRY1uxpIbGeok6D/27sdhEoEDku/5lHSuSPtaA=\n\
    -----END CERTIFICATE-----\n\
    ";

    #[test]
    fn a_certificate_of_version_one_is_told_from_others() {
        let certificate = CertificateDer::from_pem_slice(ONE).expect("a certificate");
        assert!(is_version_one(&certificate));
        let mut other = certificate.to_vec();
        other.truncate(100);
        assert!(!is_version_one(&other.into()), "it is cut");
    }

    #[test]
    fn a_file_with_a_certificate_of_version_one_is_refused_by_name() {
        let name = format!("stillframe-version-one-{}.crt", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, ONE).expect("a file");
        let refused = read_chain(&Named::by_setting("tls-cert-file", &path));
        std::fs::remove_file(&path).expect("it was there");
        let said = refused.expect_err("no peer takes it").to_string();
        let start = format!("tls-cert-file {} holds", path.display());
        assert!(said.starts_with(&start) && said.contains("version 1"), "{said}");
    }
}
