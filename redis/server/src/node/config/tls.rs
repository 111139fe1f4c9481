//! Settings of TLS.

use super::Effect;
use super::error::ValueError;
use super::kinds::{one_of, text, whole, words, yes_or_no};
use super::setting::settings;

/// Whether clients must present a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientAuth {
    /// They are not asked for one.
    No,
    /// A presented one must be good.
    Optional,
    /// They must present one.
    Yes,
}

/// Versions of the protocol that are spoken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Protocols {
    pub(crate) tls12: bool,
    pub(crate) tls13: bool,
}

settings! {
    /// How connections are secured, with Redis's names and defaults.
    pub(crate) struct TlsSettings, entries TLS of config[.tls];

    /// The port that speaks TLS, or 0.
    port: u16 = 0,
        "tls-port": whole(0, 65535) .effects(&[Effect::Listen, Effect::Tls]);
    /// Certificates in PEM form, the server's own first.
    cert_file: String = String::new(),
        "tls-cert-file": text() .effects(&[Effect::Tls]);
    /// Its key.
    key_file: String = String::new(),
        "tls-key-file": text() .effects(&[Effect::Tls]);
    /// The certificate for its primary, if another one.
    client_cert_file: String = String::new(),
        "tls-client-cert-file": text() .effects(&[Effect::Tls]);
    /// Its key.
    client_key_file: String = String::new(),
        "tls-client-key-file": text() .effects(&[Effect::Tls]);
    /// Authorities that are trusted.
    ca_cert_file: String = String::new(),
        "tls-ca-cert-file": text() .effects(&[Effect::Tls]);
    /// A directory with more of them.
    ca_cert_dir: String = String::new(),
        "tls-ca-cert-dir": text() .effects(&[Effect::Tls]);
    auth_clients: ClientAuth = ClientAuth::Yes,
        "tls-auth-clients": one_of([
            ("no", ClientAuth::No),
            ("yes", ClientAuth::Yes),
            ("optional", ClientAuth::Optional),
        ])
        .effects(&[Effect::Tls]);
    protocols: Protocols = Protocols { tls12: true, tls13: true },
        "tls-protocols": words(Protocols::parse, Protocols::show) .effects(&[Effect::Tls]);
    /// Whether this server follows its primary over TLS.
    replication: bool = false,
        "tls-replication": yes_or_no() .effects(&[Effect::Tls]);
}

impl Protocols {
    /// Empty while both are allowed, as in Redis.
    fn show(&self) -> String {
        match (self.tls12, self.tls13) {
            (true, false) => "TLSv1.2",
            (false, true) => "TLSv1.3",
            _ => "",
        }
        .to_owned()
    }

    fn parse(value: &str) -> Result<Self, ValueError> {
        let is_any = value.trim().is_empty();
        let mut protocols = Self { tls12: is_any, tls13: is_any };
        for word in value.split_whitespace() {
            match word.to_ascii_lowercase().as_str() {
                "tlsv1.2" => protocols.tls12 = true,
                "tlsv1.3" => protocols.tls13 = true,
                _ => return Err(ValueError::TlsVersion),
            }
        }
        Ok(protocols)
    }
}
