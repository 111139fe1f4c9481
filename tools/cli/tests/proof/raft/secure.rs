//! Members that speak TLS to each other, by settings; strangers are kept out.

use super::load::Counter;
use super::{Group, leader, wait_until_equal};
use crate::operations::certificates::Certificates;
use crate::support::{Reply, Server, Setup, own_port, wait_until};

/// Flags of a member with the certificate of `who`.
fn flags(made: &Certificates, who: &str, authority: &str) -> Vec<String> {
    let files = [
        ("cert", format!("{who}.crt")),
        ("key", format!("{who}.key")),
        ("ca-cert", authority.into()),
    ];
    files
        .into_iter()
        .flat_map(|(flag, file)| [format!("--raft-tls-{flag}-file"), made.path(&file)])
        .collect()
}

fn with(setup: Setup, flags: &[String]) -> Setup {
    setup.flags(&flags.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn members_of_one_authority_are_a_group_and_strangers_are_not() {
    let test = "members_of_one_authority_are_a_group_and_strangers_are_not";
    let Some(made) = Certificates::new(test, &[]) else { return };
    let group = Group::with_members(5, 3, &["--raft-election-timeout", "1000"]);
    let names = ["server", "second", "client"];
    let start =
        |member: usize| with(group.setup(member), &flags(&made, names[member], "ca.crt")).start();
    let mut servers: Vec<Server> = (0..3).map(start).collect();
    let mut counter = Counter::new("n");
    for _ in 0..3 {
        let leads = leader(&servers);
        let mut client = servers[leads].client();
        for _ in 0..20 {
            counter.count(&mut client);
        }
        servers[leads].kill();
        let rest = servers.iter().enumerate().filter(|(at, _)| *at != leads).map(|(_, it)| it);
        leader(rest.collect::<Vec<_>>());
        servers[leads] = start(leads);
    }
    let leads = leader(&servers);
    counter.check(&mut servers[leads].client());
    wait_until_equal(&servers);
    // A stranger's server, and one without TLS, are not taken in.
    let stranger = flags(&made, "stranger", "stranger-ca.crt");
    for (member, own) in [(3, stranger.clone()), (4, Vec::new())] {
        let server = with(group.setup(member), &own).start();
        let add = format!("STILLFRAME RAFT ADD {} {}", member + 1, group.addresses(member));
        let reply = servers[leads].client().ask(&add);
        let refused = matches!(&reply, Reply::Error(text) if text.contains("no TLS connection"));
        assert!(refused, "{reply:?}");
        drop(server);
    }
    // One that takes the place of a member gets no vote, and learns nothing.
    let place = (leads + 1) % 3;
    servers[place].kill();
    let term = servers[leads].client().info("raft_term");
    let folder = tempfile::tempdir().expect("a folder");
    let taker = with(group.setup(place).folder(folder.path()), &stranger).start();
    wait_until("it is told why", || taker.log().contains("no TLS connection with"));
    wait_until("it begins nothing", || taker.log().contains("a new group begins when all"));
    let mut client = servers[leads].client();
    client.ok("SET k v");
    assert_eq!(client.info("raft_term"), term, "its votes count for nothing");
    assert_eq!(taker.client().ask("DBSIZE").text(), "CLUSTERDOWN The cluster is down");
    assert_eq!(taker.client().info("raft_applied_index"), "0");
    wait_until("the others say who knocks", || {
        servers[leads].log().contains("no TLS connection with")
    });
    let told = servers[leads].log().lines().filter(|line| line.contains("no TLS")).count();
    assert!(told < 8, "it is told now and then: {}", servers[leads].log());
    drop(taker);
    servers[place] = start(place);
    wait_until_equal(&servers);
}

/// From one authority to another without a restart, file by file.
#[test]
fn certificates_are_replaced_while_members_run() {
    let Some(made) = Certificates::new("certificates_are_replaced_while_members_run", &[]) else {
        return;
    };
    let group = Group::with_members(3, 3, &["--raft-election-timeout", "1000"]);
    let place = |member: usize, file: &str| group.folder.path().join(format!("{member}.{file}"));
    let text = |name: &str| std::fs::read(made.path(name)).expect("openssl made it");
    let put = |member, file, bytes: &[u8]| {
        std::fs::write(place(member, file), bytes).expect("a file");
    };
    let start = |member: usize| {
        let flags = ["cert", "key", "ca-cert"].map(|flag| {
            let path = place(member, flag).display().to_string();
            [format!("--raft-tls-{flag}-file"), path]
        });
        with(group.setup(member), flags.as_flattened()).start()
    };
    let told = |server: &Server, words: &str| server.log().matches(words).count();
    let again = "the certificates of this node were read again";
    for member in 0..3 {
        put(member, "cert", &text("server.crt"));
        put(member, "key", &text("server.key"));
        put(member, "ca-cert", &text("ca.crt"));
    }
    let mut servers: Vec<Server> = (0..3).map(start).collect();
    let mut counter = Counter::new("n");
    counter.count(&mut servers[leader(&servers)].client());
    // All trust both authorities before the first is certified by the other.
    let both = [text("ca.crt"), text("stranger-ca.crt")].concat();
    for (member, server) in servers.iter().enumerate() {
        put(member, "ca-cert", &both);
        wait_until("it trusts both", || told(server, again) == 1);
    }
    for (member, server) in servers.iter().enumerate() {
        // A certificate without its key changes nothing.
        put(member, "cert", &text("stranger.crt"));
        wait_until("it waits", || told(server, "the certificates before stay in use") == 1);
        put(member, "key", &text("stranger.key"));
        wait_until("it is certified by the other", || told(server, again) == 2);
    }
    for (member, server) in servers.iter().enumerate() {
        put(member, "ca-cert", &text("stranger-ca.crt"));
        wait_until("it trusts the other alone", || told(server, again) == 3);
    }
    // New connections both ways, one member after the other.
    for member in 0..3 {
        servers[member].kill();
        servers[member] = start(member);
        counter.count(&mut servers[leader(&servers)].client());
        wait_until_equal(&servers);
    }
    counter.check(&mut servers[leader(&servers)].client());
}

#[test]
fn with_tls_a_member_listens_and_passes_clients_on_beyond_this_machine() {
    let test = "with_tls_a_member_listens_and_passes_clients_on_beyond_this_machine";
    let Some(made) = Certificates::new(test, &[]) else { return };
    let group =
        Group::with_members(3, 3, &["--raft-election-timeout", "5000", "--raft-forward", "yes"]);
    let names = ["server", "second", "client"];
    let start = |member: usize| {
        let [raft, client] = group.ports[member];
        // What the others are told is the TLS port; the plain one is for this test.
        let listen = format!("0.0.0.0:{raft}");
        let setup = group.setup(member).port(own_port());
        let setup = with(setup, &made.flags(client));
        let setup = with(setup, &flags(&made, names[member], "ca.crt"));
        setup.flags(&["--tls-replication", "yes", "--raft-listen", &listen]).start()
    };
    let servers: Vec<Server> = (0..3).map(start).collect();
    let leads = leader(&servers);
    let mut client = servers[(leads + 1) % 3].client();
    wait_until("it passes requests on", || {
        client = servers[(leads + 1) % 3].client();
        !matches!(client.ask("SET begun 1"), Reply::Error(_))
    });
    let large = vec![b'x'; 1 << 20];
    client.call(&[b"SET", b"large", &large]);
    assert_eq!(client.ask("GET large").bytes(), Some(&large[..]));
    assert_eq!(client.info("raft_role"), "leader");
    wait_until_equal(&servers);
}
