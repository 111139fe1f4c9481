//! Replication over TLS, beside Redis's own server: either follows the other, and both end equal.

use super::certificates::Certificates;
use crate::replication::{assert_equal, fill, under_load, wait_for_link, wait_for_stream};
use crate::support::{Kind, Peer, Random, Server, Setup, own_port};

/// A server that speaks TLS to clients and to its primary.
fn start(certificates: &Certificates, kind: Kind) -> (Server, u16) {
    let port = own_port();
    let flags = certificates.flags(port);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let more = ["--tls-replication", "yes", "--repl-diskless-sync-delay", "0"];
    (Setup::new(kind).flags(&flags).flags(&more).start(), port)
}

fn follows(certificates: &Certificates, primary: Kind, replica: Kind) {
    println!("{replica:?} follows {primary:?}");
    let mut random = Random::new("followers over TLS");
    let (primary, port) = start(certificates, primary);
    fill(&primary, &mut random, 300);
    let mut client = primary.client();
    for number in 0..4 {
        client.call(&[b"SET", format!("large:{number}").as_bytes(), &random.bytes(1 << 20)]);
    }
    let (replica, own_port) = start(certificates, replica);
    under_load(primary.port, &mut random, || {
        replica.client().ok(&format!("REPLICAOF 127.0.0.1 {port}"));
        wait_for_link(&replica);
        wait_for_stream(&replica);
    });
    client.call(&[b"DISCARD"]);
    assert_equal(&primary, &replica);
    assert!(client.info("slave0").contains(&format!("port={own_port},state=online")));
    // The link is cut and taken up again where it was.
    let full = client.info("sync_full");
    client.ok("CLIENT KILL TYPE replica");
    client.ok("SET after cut");
    assert_equal(&primary, &replica);
    assert_eq!(client.info("sync_full"), full, "a partial synchronisation");
}

#[test]
fn either_server_follows_the_other_over_tls() {
    let Some(certificates) =
        Certificates::new("either_server_follows_the_other_over_tls", &[Peer::RedisServer])
    else {
        return;
    };
    follows(&certificates, Kind::Ours("imprint"), Kind::Redis);
    follows(&certificates, Kind::Redis, Kind::Ours("imprint"));
    follows(&certificates, Kind::Ours("imprint"), Kind::Ours("imprint"));
    // The image is written by another process.
    follows(&certificates, Kind::Ours("fork"), Kind::Ours("imprint"));
}

#[test]
fn an_image_through_a_file_goes_over_tls_too() {
    let Some(certificates) =
        Certificates::new("an_image_through_a_file_goes_over_tls_too", &[Peer::RedisServer])
    else {
        return;
    };
    let (primary, port) = start(&certificates, Kind::Ours("imprint"));
    let mut client = primary.client();
    client.ok("CONFIG SET repl-diskless-sync no");
    let value = Random::new("an image through a file").bytes(8 << 20);
    client.call(&[b"SET", b"large", &value]);
    let (replica, _) = start(&certificates, Kind::Redis);
    replica.client().ok(&format!("REPLICAOF 127.0.0.1 {port}"));
    wait_for_link(&replica);
    assert_equal(&primary, &replica);
}

#[test]
fn a_primary_of_strangers_is_not_followed() {
    let Some(certificates) = Certificates::new("a_primary_of_strangers_is_not_followed", &[])
    else {
        return;
    };
    let (primary, port) = start(&certificates, Kind::Ours("imprint"));
    let (replica, _) = start(&certificates, Kind::Ours("imprint"));
    let mut client = replica.client();
    let ca = certificates.path("stranger-ca.crt");
    client.call(&[b"CONFIG", b"SET", b"tls-ca-cert-file", ca.as_bytes()]);
    client.ok(&format!("REPLICAOF 127.0.0.1 {port}"));
    crate::support::wait_until("it is refused", || replica.log().contains("UnknownIssuer"));
    assert_eq!(client.info("master_link_status"), "down");
    let ca = certificates.path("ca.crt");
    client.call(&[b"CONFIG", b"SET", b"tls-ca-cert-file", ca.as_bytes()]);
    assert_equal(&primary, &replica);
}
