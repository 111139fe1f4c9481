//! CLUSTERSCAN beside valkey-server as a cluster of one node.

use std::collections::BTreeSet;

use crate::support::{Client, Kind, Peer, Reply, Server, Setup, are_here, own_port, wait_until};

fn valkey() -> Server {
    let bus = own_port().to_string();
    let flags = ["--cluster-enabled", "yes", "--cluster-port", &bus];
    let server = Setup::new(Kind::Newer(Peer::Valkey)).flags(&flags).start();
    let mut client = server.client();
    client.ok("CLUSTER ADDSLOTSRANGE 0 16383");
    wait_until("all is well", || client.ask("CLUSTER INFO").text().contains("cluster_state:ok"));
    server
}

/// The leader of a group of one.
fn ours() -> Server {
    let flags = ["--enable-debug-command", "yes"];
    let server = Setup::new(Kind::Ours("imprint")).flags(&flags).start();
    let port = server.port;
    server.client().ok(&format!("DEBUG GROUP-VIEW 1 1 1 linearizable 1=127.0.0.1:{port}"));
    server
}

/// All keys that a walk shows, from its beginning to its end.
fn walked(client: &mut Client, options: &str) -> BTreeSet<String> {
    let (mut cursor, mut found) = ("0".to_owned(), BTreeSet::new());
    loop {
        let reply = client.ask(&format!("CLUSTERSCAN {cursor}{options}"));
        let [next, keys] = reply.list() else { panic!("{options}: {reply:?}") };
        found.extend(keys.list().iter().map(Reply::text));
        cursor = next.text();
        if cursor == "0" {
            return found;
        }
    }
}

/// Replies that depend on no order of keys.
const LINES: [&str; 34] = [
    "0",
    "0 COUNT 5 TYPE ZSET",
    "0 SLOT 5",
    "0 SLOT 15891",
    "0 MATCH {t}*",
    "0 MATCH t",
    "0 MATCH *{t}",
    "0 MATCH {t]}x",
    "0 MATCH {t?}1",
    "0 MATCH k[1]",
    "0 MATCH \\{t}1",
    "0 MATCH {t}1 SLOT 5",
    "0-{06S}-0 MATCH {t}*",
    "0-{t}-0 MATCH k1",
    "0-{t}-0 MATCH {t}1 COUNT 9999",
    "0-t-0 MATCH {t}1 COUNT 9999",
    "0-{06S}-0 TYPE stream COUNT 9999",
    "0-{460}-0 SLOT 6",
    "x SLOT 16384",
    "0 SLOT x",
    "0 SLOT 1 SLOT 1",
    "x COUNT 0",
    "x COUNT y",
    "x TYPE nope",
    "0 MATCH",
    "0 FOO",
    "0 NOVALUES",
    "1",
    "00",
    "0-",
    "0-{06S}-",
    "0-{06S}-x",
    "0-{06S}-0-",
    "0-{06S}-18446744073709551616",
];

#[test]
fn walks_through_slots_are_those_of_valkey() {
    if !are_here("walks_through_slots_are_those_of_valkey", &[Peer::Valkey]) {
        return;
    }
    let servers = [ours(), valkey()];
    let [mut ours, mut theirs] = servers.each_ref().map(Server::client);
    for client in [&mut ours, &mut theirs] {
        (0..300).for_each(|number| client.ok(&format!("SET k{number} v")));
        (0..50).for_each(|number| client.ok(&format!("SET {{t}}{number} v")));
        client.ask("RPUSH {t}list v");
    }
    for options in [
        "",
        " COUNT 7",
        " COUNT 9999",
        " TYPE list",
        " TYPE String",
        " MATCH k1*",
        " MATCH {t}*",
        " MATCH k7",
        " SLOT 15891 COUNT 3",
        " SLOT 15891 MATCH {t}1* TYPE string",
        " SLOT 5",
        " SLOT 5 MATCH {t}1",
    ] {
        assert_eq!(walked(&mut ours, options), walked(&mut theirs, options), "{options}");
    }
    for line in LINES {
        let line = format!("CLUSTERSCAN {line}");
        assert_eq!(ours.ask(&line), theirs.ask(&line), "{line}");
    }
    let mut alone = [Kind::Ours("imprint"), Kind::Newer(Peer::Valkey)].map(Server::start);
    let [ours, theirs] = alone.each_mut().map(|server| server.client().ask("CLUSTERSCAN 0 FOO"));
    assert_eq!(ours, theirs);
}
