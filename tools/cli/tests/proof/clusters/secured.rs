//! Over TLS: nodes, target, and the stream that the target follows.

use super::{Cluster, Migration, fill, under_load};
use crate::operations::certificates::Certificates;
use crate::replication::{Who, delete_idle_consumers};
use crate::support::{Kind, Peer, Random, Server, Setup, own_port};

/// A target that follows over TLS, and its TLS port.
fn target(made: &Certificates, replication: &str) -> (Server, u16) {
    let port = own_port();
    let mut flags = made.flags(port);
    flags.extend(["--tls-replication", replication].map(str::to_owned));
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    (Setup::new(Kind::Ours("imprint")).flags(&flags).start(), port)
}

/// This program's flags, with the certificate of `who`.
fn flags(made: &Certificates, who: &str) -> Vec<String> {
    let file = |flag: &str, name: &str| [format!("--tls-{flag}"), made.path(name)];
    let own = [("cert-file", "crt"), ("key-file", "key")];
    let own = own.map(|(flag, end)| file(flag, &format!("{who}.{end}")));
    let trusted = file("ca-cert-file", "ca.crt");
    let both = ["--tls", "--to-tls"].map(str::to_owned);
    both.into_iter().chain(trusted).chain(own.into_iter().flatten()).collect()
}

#[test]
fn a_cluster_moves_over_tls() {
    let test = "a_cluster_moves_over_tls";
    let Some(made) = Certificates::new(test, &[Peer::RedisServer]) else { return };
    let mut random = Random::new(test);
    let cluster = Cluster::start_secured(Who::Redis, 3, &made);
    fill(&cluster, &mut random);
    for replication in ["yes", "no"] {
        let (target, port) = target(&made, replication);
        let all = flags(&made, "client");
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let mut migration = None;
        under_load(&cluster, &mut random, || {
            let from = cluster.secured[1];
            let begun = migration.insert(Migration::between(from, port, &all));
            begun.wait_for("caught up", 1);
        });
        (0..3).for_each(|node| delete_idle_consumers(&mut cluster.client(node)));
        let text = migration.expect("it was begun").stop();
        assert!(text.contains("moved 3 primaries into"), "{text}");
        cluster.assert_moved(&[0, 1, 2], &target);
    }
}

#[test]
fn who_cannot_be_trusted_or_lacks_a_certificate_is_refused_by_name() {
    let test = "who_cannot_be_trusted_or_lacks_a_certificate_is_refused_by_name";
    let Some(made) = Certificates::new(test, &[Peer::RedisServer]) else { return };
    let cluster = Cluster::start_secured(Who::Redis, 1, &made);
    let (target, port) = target(&made, "yes");
    let refused = |flags: &[&str]| Migration::between(cluster.secured[0], port, flags).end(false);
    let [ca, crt, key] = ["ca.crt", "client.crt", "client.key"].map(|name| made.path(name));
    let text = refused(&["--tls", "--to-tls"]);
    assert!(text.contains("TLS needs authorities to trust"), "{text}");
    let text = refused(&["--tls", "--tls-ca-cert-file", &crt[..crt.len() - 1]]);
    assert!(text.contains("cannot read --tls-ca-cert-file"), "{text}");
    // Nodes want a certificate, and want to be trusted.
    let text = refused(&["--tls", "--to-tls", "--tls-ca-cert-file", &ca]);
    assert!(text.contains("cannot reach") || text.contains("does not answer"), "{text}");
    let strangers = made.path("stranger-ca.crt");
    let own = ["--tls-cert-file", &crt, "--tls-key-file", &key];
    let text = refused(&[&["--tls", "--tls-ca-cert-file", &strangers], &own[..]].concat());
    assert!(text.contains("cannot reach"), "{text}");
    // The target follows over TLS: this program shows it a certificate, or says so before anything
    // is changed.
    let plain = Cluster::start(Who::Redis, 1, 0, "");
    let text = Migration::start(&plain.nodes[0], &target, &[]).end(false);
    assert!(text.contains("give this program a certificate by --tls-cert-file"), "{text}");
    assert_eq!(target.client().info("role"), "master");
}
