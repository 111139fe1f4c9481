//! Settings of TLS.

use super::Config;
use super::parameter::{Parameter, always, fixed, several_words, text};
use super::values::{number, switch, yes_no};

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

/// How connections are secured.
#[derive(Debug, Clone)]
pub(crate) struct TlsSettings {
    /// The port that speaks TLS, or 0.
    pub(crate) port: u16,
    /// Certificates in PEM form, the server's own first.
    pub(crate) cert_file: String,
    /// Its key.
    pub(crate) key_file: String,
    /// The certificate for its primary, if another one.
    pub(crate) client_cert_file: String,
    /// Its key.
    pub(crate) client_key_file: String,
    /// Authorities that are trusted.
    pub(crate) ca_cert_file: String,
    /// A directory with more of them.
    pub(crate) ca_cert_dir: String,
    pub(crate) auth_clients: ClientAuth,
    pub(crate) tls12: bool,
    pub(crate) tls13: bool,
    /// Whether this server follows its primary over TLS.
    pub(crate) replication: bool,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            port: 0,
            cert_file: String::new(),
            key_file: String::new(),
            client_cert_file: String::new(),
            client_key_file: String::new(),
            ca_cert_file: String::new(),
            ca_cert_dir: String::new(),
            auth_clients: ClientAuth::Yes,
            tls12: true,
            tls13: true,
            replication: false,
        }
    }
}

/// A setting that names a file.
macro_rules! file {
    ($name:literal, $field:ident) => {
        text(always(
            $name,
            |c| c.tls.$field.clone(),
            |c, value| {
                c.tls.$field = value.to_owned();
                Ok(())
            },
        ))
    };
}

/// The settings, with Redis's names and defaults.
pub(super) static TLS: &[Parameter] = &[
    always(
        "tls-port",
        |c| c.tls.port.to_string(),
        |c, value| {
            c.tls.port = number(value, 0, 65535)?;
            Ok(())
        },
    ),
    file!("tls-cert-file", cert_file),
    file!("tls-key-file", key_file),
    file!("tls-client-cert-file", client_cert_file),
    file!("tls-client-key-file", client_key_file),
    file!("tls-ca-cert-file", ca_cert_file),
    file!("tls-ca-cert-dir", ca_cert_dir),
    always(
        "tls-auth-clients",
        |c| {
            let auth = c.tls.auth_clients;
            AUTH.iter().find(|(_, it)| *it == auth).map_or("", |(name, _)| name).to_owned()
        },
        |c, value| {
            let found = AUTH.iter().find(|(name, _)| name.eq_ignore_ascii_case(value));
            let unknown = || "argument(s) must be one of the following: no, yes, optional";
            c.tls.auth_clients = found.ok_or_else(unknown)?.1;
            Ok(())
        },
    ),
    several_words(always("tls-protocols", show_protocols, protocols)),
    always(
        "tls-replication",
        |c| yes_no(c.tls.replication),
        |c, value| {
            c.tls.replication = switch(value)?;
            Ok(())
        },
    ),
    fixed!(always, "tls-session-caching", "yes"),
    fixed!(always, "tls-prefer-server-ciphers", "no"),
    text(fixed!(always, "tls-ciphers", "")),
    text(fixed!(always, "tls-ciphersuites", "")),
    text(fixed!(always, "tls-key-file-pass", "")),
    text(fixed!(always, "tls-client-key-file-pass", "")),
    text(fixed!(always, "tls-dh-params-file", "")),
    fixed!(always, "tls-cluster", "no"),
];

const AUTH: [(&str, ClientAuth); 3] =
    [("no", ClientAuth::No), ("yes", ClientAuth::Yes), ("optional", ClientAuth::Optional)];

/// Empty while both are allowed, as in Redis.
fn show_protocols(config: &Config) -> String {
    match (config.tls.tls12, config.tls.tls13) {
        (true, false) => "TLSv1.2",
        (false, true) => "TLSv1.3",
        _ => "",
    }
    .to_owned()
}

fn protocols(config: &mut Config, value: &str) -> Result<(), String> {
    let (mut tls12, mut tls13) = (value.trim().is_empty(), value.trim().is_empty());
    for word in value.split_whitespace() {
        match word.to_ascii_lowercase().as_str() {
            "tlsv1.2" => tls12 = true,
            "tlsv1.3" => tls13 = true,
            _ => return Err("this server only speaks TLSv1.2 and TLSv1.3".to_owned()),
        }
    }
    (config.tls.tls12, config.tls.tls13) = (tls12, tls13);
    Ok(())
}
