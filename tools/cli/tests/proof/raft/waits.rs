//! WAIT in a group: how many other members have a client's writes on their disks.

use super::{Group, leader};
use crate::support::{Reply, send_signal, wait_until};
use rustix::process::Signal;

#[test]
fn wait_counts_the_members_that_have_the_writes() {
    let group = Group::with_members(3, 3, &["--raft-election-timeout", "2000"]);
    let mut servers = group.start_founders();
    let leads = leader(&servers);
    let (one, two) = ((leads + 1) % 3, (leads + 2) % 3);
    let mut client = servers[leads].client();
    // Without a write all that answer have what was written; most of three are two.
    assert!(client.ask("WAIT 1 0").int() >= 1);
    for round in 0..20 {
        client.ok(&format!("SET k {round}"));
        assert_eq!(client.ask("WAIT 2 60000").int(), 2);
        let logged = client.ask("WAITAOF 1 2 60000");
        assert_eq!(logged.list().iter().map(Reply::int).collect::<Vec<_>>(), [1, 2]);
    }
    // With one of the two stopped, the other alone acknowledges.
    send_signal(servers[two].pid(), Signal::STOP);
    client.ok("SET k stopped");
    assert_eq!(client.ask("WAIT 1 0").int(), 1);
    assert_eq!(client.ask("WAIT 2 200").int(), 1);
    assert_eq!(client.ask("WAIT 9 200").int(), 1);
    let mut other = servers[leads].client();
    assert_eq!(other.ask("WAIT 2 0").int(), 2, "a client that wrote nothing waits for nothing");
    client.ok("MULTI");
    client.ok("SET k again");
    client.ok("WAIT 2 0");
    assert_eq!(client.ask("EXEC").list()[1].int(), 1, "no request of a transaction blocks");
    client.send(&[b"WAIT", b"2", b"0"]);
    wait_until("it waits", || other.info("blocked_clients") == "1");
    send_signal(servers[two].pid(), Signal::CONT);
    assert_eq!(client.reply().int(), 2);
    for (request, error) in [
        ("WAIT x 0", "ERR value is not an integer"),
        ("WAIT 1 x", "ERR timeout is not an integer"),
        ("WAIT 1 -1", "ERR timeout is negative"),
        ("WAITAOF 2 1 0", "ERR value is out of range"),
    ] {
        let reply = client.ask(request);
        assert!(matches!(reply, Reply::Error(_)) && reply.text().starts_with(error), "{reply:?}");
    }
    let reply = servers[one].client().ask("WAIT 1 0").text();
    assert!(reply.starts_with("ERR WAIT cannot be used with replica instances"), "{reply}");
    let reply = servers[one].client().ask("WAITAOF 1 1 0").text();
    assert!(reply.starts_with("ERR WAITAOF cannot be used with replica instances"), "{reply}");
    // What two others have is there without the leader, and without one of them.
    client.ok("SET k last");
    assert_eq!(client.ask("WAIT 2 0").int(), 2);
    servers.iter_mut().for_each(crate::support::Server::kill);
    for it in [one, two] {
        servers[it] = group.start(it);
    }
    let next = [one, two][leader([&servers[one], &servers[two]])];
    assert_eq!(servers[next].client().ask("GET k").text(), "last");
}
