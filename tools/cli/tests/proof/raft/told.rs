//! What a person is told of a group: each event once in the log; figures in INFO and for metrics.

use super::{Group, leader};
use crate::support::{Kind, Server, Setup, own_port, wait_until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// Lines of a member's log that have this in them.
fn lines(server: &Server, text: &str) -> usize {
    server.log().lines().filter(|line| line.contains(text)).count()
}

/// Attempts to reach a member that is away, of which each could write a line.
const ATTEMPTS: usize = 40;

/// In the place of a member that was killed: takes connections and ends them, until so many came.
/// Others are refused before and afterwards, so that both kinds of absence are tried.
fn wait_for_attempts(group: &Group, member: usize) {
    let place = TcpListener::bind(("127.0.0.1", group.ports[member][0])).expect("it was killed");
    for _ in 0..ATTEMPTS {
        drop(place.accept().expect("somebody calls"));
    }
}

#[test]
fn the_log_tells_each_event_once() {
    let group = Group::new();
    let mut servers = group.start_founders();
    let leads = leader(&servers);
    let (one, two) = ((leads + 1) % 3, (leads + 2) % 3);
    let lost = format!("no connection to node {}", one + 1);
    let before = lines(&servers[leads], &lost);
    assert!(before <= 1, "until it had started");
    servers[one].kill();
    wait_until("the leader misses it", || lines(&servers[leads], &lost) == before + 1);
    wait_for_attempts(&group, one);
    assert_eq!(lines(&servers[leads], &lost), before + 1);
    let status = servers[leads].client().ask("STILLFRAME RAFT STATUS").text();
    let line = status.lines().find(|line| line.starts_with(&format!("member:{} ", one + 1)));
    assert!(line.is_some_and(|line| line.ends_with(" lost")), "{status}");
    servers[one] = group.start(one);
    let back = format!("connected to node {}", one + 1);
    wait_until("it is back", || lines(&servers[leads], &back) == before + 1);
    servers[leads].kill();
    let next = [one, two][leader([&servers[one], &servers[two]])];
    let term = servers[next].client().info("raft_term");
    let elected = format!("this member, {}, leads the group in term {term}", next + 1);
    wait_until("it is told", || lines(&servers[next], &elected) == 1);
    let missed = format!("member {} is not heard of as leader", leads + 1);
    assert_eq!(lines(&servers[next], &missed), 1);
    let other = if next == one { two } else { one };
    let elected = format!("member {} leads the group in term {term}", next + 1);
    wait_until("the other one knows", || lines(&servers[other], &elected) == 1);
    servers[other].kill();
    let alone = "does not hear of most others";
    wait_until("it misses the others", || lines(&servers[next], alone) == 1);
    wait_for_attempts(&group, other);
    let log = servers[next].log();
    assert!(log.lines().count() < 60, "{log}");
    assert!(!log.contains("openraft"), "{log}");
}

/// Users are not replicated: a member says so, once, whichever command is the first.
#[test]
fn users_of_one_member_alone_are_told_of_once() {
    let changes = ["ACL SETUSER someone on", "ACL DELUSER someone", "ACL SETUSER someone off"];
    for first in 0..2 {
        let group = Group::with_members(1, 1, &[]);
        let member = group.start(0);
        leader([&member]);
        let alone = Setup::new(Kind::Ours("imprint")).start();
        for (server, told) in [(&member, 1), (&alone, 0)] {
            let mut client = server.client();
            for change in &changes[first..] {
                client.ask(change);
                assert_eq!(lines(server, "users of this member alone"), told, "{change}");
            }
        }
    }
}

#[test]
fn figures_of_a_member_are_in_info_and_for_metrics() {
    let port = own_port();
    let group = Group::new();
    let first = group.setup(0).flags(&["--metrics-port", &port.to_string()]).start();
    let servers = [first, group.start(1), group.start(2)];
    let leads = leader(&servers);
    let mut client = servers[leads].client();
    client.ok("SET k v");
    client.ok("GET k");
    client.ok("BGSAVE");
    wait_until("an image is there", || client.info_int("raft_snapshot_index") > 0);
    assert_eq!(client.info("raft_role"), "leader");
    assert_eq!(client.info_int("raft_leader"), leads as i64 + 1);
    assert!(client.info_int("raft_term") > 0 && client.info_int("raft_elections") > 0);
    assert!(client.info_int("raft_snapshots") > 0 && client.info_int("raft_confirmed") > 0);
    for server in &servers {
        let mut client = server.client();
        wait_until("it has all", || {
            client.info("raft_lag") == "0" && client.info_int("raft_applied_index") >= 2
        });
        assert_eq!(client.info("raft_members"), "3");
    }
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the metrics port");
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("a request");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("the page");
    let leads = format!("raft_leader {}", leads + 1);
    let role = format!("raft_role{{role=\"{}\"}} 1", servers[0].client().info("raft_role"));
    for figure in [
        &leads,
        &role,
        "raft_term ",
        "raft_applied_index ",
        "raft_lag_entries ",
        "raft_members 3",
        "raft_elections_total ",
        "raft_snapshots_total ",
        "raft_snapshot_index ",
        "raft_purged_index ",
        "raft_serves ",
        "raft_reloads_total 0",
        "raft_lost_members 0",
    ] {
        assert!(page.contains(&format!("\nstillframe_{figure}")), "{figure} in {page}");
    }
}
