//! Certificates for a test, made by openssl.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use stillframe_peers::{Peer, are_here};
use tempfile::TempDir;

use crate::{Tls, TlsFiles};

/// A folder of certificates and keys.
pub(super) struct Certificates {
    folder: TempDir,
}

impl Certificates {
    /// Makes them: `node` by the authority `ca`, `expired` by the same and long over, `stranger` by
    /// another one. `None`, and a word about it, if this machine lacks openssl.
    pub(super) fn new(test: &str) -> Option<Self> {
        if !are_here(test, &[Peer::Openssl]) {
            return None;
        }
        let own = Self { folder: tempfile::tempdir().expect("a folder") };
        own.authority("ca");
        own.authority("stranger-ca");
        own.issue("node", "ca", &["-days", "30"]);
        own.issue("second", "ca", &["-days", "30"]);
        own.issue("raft-member-1", "ca", &["-days", "30"]);
        own.issue("raft-member-3.some.group", "ca", &["-days", "30"]);
        own.issue("stranger", "stranger-ca", &["-days", "30"]);
        // Good for this second; older versions of openssl take no other time in the past.
        own.issue("expired", "ca", &["-days", "0"]);
        std::thread::sleep(std::time::Duration::from_millis(2_100));
        Some(own)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The files of `who`, who trusts `authority`.
    pub(super) fn files(&self, who: &str, authority: &str) -> TlsFiles {
        let file = |end: &str| self.path(&format!("{who}.{end}"));
        let ca = self.path(&format!("{authority}.crt"));
        TlsFiles { cert: file("crt"), key: file("key"), ca }
    }

    pub(super) fn tls(&self, who: &str, authority: &str) -> Tls {
        Tls::load(self.files(who, authority)).expect("openssl made them")
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn authority(&self, name: &str) {
        let (key, crt) = (self.text(&format!("{name}.key")), self.text(&format!("{name}.crt")));
        let subject = format!("/CN={name}");
        let line = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
        let more = ["-nodes", "-days", "30", "-keyout", &key, "-out", &crt, "-subj", &subject];
        openssl(&[&line[..], &more].concat());
    }

    fn issue(&self, name: &str, authority: &str, time: &[&str]) {
        let file = |end: &str| self.text(&format!("{name}.{end}"));
        let (key, request, crt) = (file("key"), file("csr"), file("crt"));
        let ca = self.text(&format!("{authority}.crt"));
        let ca_key = self.text(&format!("{authority}.key"));
        let subject = format!("/CN={name}");
        let line = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        openssl(&[&line[..], &["-keyout", &key, "-out", &request, "-subj", &subject]].concat());
        let extensions = self.text("extensions");
        let text = format!("basicConstraints=CA:FALSE\nsubjectAltName=DNS:localhost,DNS:{name}\n");
        std::fs::write(&extensions, text).expect("a file");
        let line = ["x509", "-req", "-in", &request, "-out", &crt, "-CA", &ca];
        let more = ["-CAkey", &ca_key, "-CAcreateserial", "-extfile", &extensions];
        openssl(&[&line[..], time, &more].concat());
    }
}

fn openssl(arguments: &[&str]) {
    let mut command = Command::new("openssl");
    let output = command.args(arguments).stdin(Stdio::null()).output().expect("it is here");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {arguments:?}: {said}");
}
