//! Certificates for a test, made by openssl: an authority, a server, a client and others that it
//! vouches for, of which one names a member of a group, and a stranger.

use std::path::PathBuf;

use tempfile::TempDir;

use super::said;
use crate::support::{Peer, are_here};

/// A folder of certificates and keys.
pub(crate) struct Certificates {
    folder: TempDir,
}

impl Certificates {
    /// Makes them; `None`, and a word about it, if this machine lacks openssl or one of `peers`.
    pub(crate) fn new(test: &str, peers: &[Peer]) -> Option<Self> {
        if !are_here(test, &[&[Peer::Openssl], peers].concat()) {
            return None;
        }
        let own = Self { folder: tempfile::tempdir().expect("a folder") };
        own.authority("ca");
        own.authority("stranger-ca");
        own.issue("server", "ca");
        own.issue("second", "ca");
        own.issue("client", "ca");
        own.issue("third", "ca");
        own.issue("renewed", "ca");
        own.issue("raft-member-2", "ca");
        own.issue("stranger", "stranger-ca");
        Some(own)
    }

    /// The path of a file.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    fn authority(&self, name: &str) {
        let (key, crt) = (self.path(&format!("{name}.key")), self.path(&format!("{name}.crt")));
        let subject = format!("/CN={name}");
        let line = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
        let more = ["-nodes", "-days", "30", "-keyout", &key, "-out", &crt, "-subj", &subject];
        openssl(&[&line[..], &more].concat());
    }

    fn issue(&self, name: &str, authority: &str) {
        let file = |end: &str| self.path(&format!("{name}.{end}"));
        let (key, request, crt) = (file("key"), file("csr"), file("crt"));
        let (ca, ca_key) = (self.path(&format!("{authority}.crt")), format!("{authority}.key"));
        let ca_key = self.path(&ca_key);
        let subject = format!("/CN={name}");
        let line = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        openssl(&[&line[..], &["-keyout", &key, "-out", &request, "-subj", &subject]].concat());
        let extensions = self.path("extensions");
        let text = format!("basicConstraints=CA:FALSE\nsubjectAltName=DNS:localhost,DNS:{name}\n");
        std::fs::write(&extensions, text).expect("a file");
        let line = ["x509", "-req", "-days", "30", "-in", &request, "-out", &crt, "-CA", &ca];
        let more = ["-CAkey", &ca_key, "-CAcreateserial", "-extfile", &extensions];
        openssl(&[&line[..], &more].concat());
    }

    /// Flags of a server that serves TLS at `port`.
    pub(crate) fn flags(&self, port: u16) -> Vec<String> {
        let files =
            [("cert-file", "server.crt"), ("key-file", "server.key"), ("ca-cert-file", "ca.crt")];
        let files = files.map(|(flag, file)| [format!("--tls-{flag}"), self.path(file)]);
        let port = ["--tls-port".to_owned(), port.to_string()];
        [port].into_iter().chain(files).flatten().collect()
    }

    /// redis-cli's arguments for TLS at `port`, with the certificate of `who`.
    pub(crate) fn client(&self, port: u16, who: Option<&str>) -> Vec<String> {
        let port = port.to_string();
        let mut line = vec!["-p".to_owned(), port, "--tls".to_owned()];
        line.extend(["--cacert".to_owned(), self.path("ca.crt")]);
        if let Some(who) = who {
            line.extend(["--cert".to_owned(), self.path(&format!("{who}.crt"))]);
            line.extend(["--key".to_owned(), self.path(&format!("{who}.key"))]);
        }
        line
    }

    /// redis-cli's output for a command over TLS, and whether it succeeded.
    pub(crate) fn cli(&self, port: u16, who: Option<&str>, command: &[&str]) -> (bool, String) {
        let line = self.client(port, who);
        let line: Vec<&str> =
            line.iter().map(String::as_str).chain(command.iter().copied()).collect();
        said("redis-cli", &line)
    }

    /// The name in the certificate that a server shows.
    pub(crate) fn shown_at(&self, port: u16) -> String {
        let line = format!(
            "openssl s_client -connect 127.0.0.1:{port} -CAfile {} </dev/null 2>/dev/null \
             | openssl x509 -noout -subject",
            self.path("ca.crt")
        );
        said("sh", &["-c", &line]).1
    }
}

fn openssl(arguments: &[&str]) {
    let (fine, text) = said("openssl", arguments);
    assert!(fine, "openssl {arguments:?}: {text}");
}
