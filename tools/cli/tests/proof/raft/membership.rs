//! Members come and go while clients write: nothing acknowledged is lost, and who joins has what
//! the others have.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::load::{Counter, under_load};
use super::{Group, leader, wait_until_equal};
use crate::support::{Client, Random, Reply, Server, encode, rounds, wait_until};

/// Asks the member that leads to change the group, until it does; it may be another one by then.
pub(super) fn change<'s>(servers: impl IntoIterator<Item = &'s Server> + Clone, request: &str) {
    wait_until(request, || {
        let leads = leader(servers.clone());
        let port = servers.clone().into_iter().nth(leads).expect("it was found").port;
        let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let reply = Client::try_connect(port).and_then(|mut client| client.try_call(&words));
        println!("{request}: {reply:?}");
        reply == Some(Reply::Text(b"OK".to_vec()))
    });
}

/// On a busy machine a leader that is well may say nothing for half a second.
pub(super) const SLOW: [&str; 2] = ["--raft-election-timeout", "2000"];

/// Who belongs to the group, as a member knows: number and role.
fn members(server: &Server) -> Vec<(u64, String)> {
    let status = server.client().ask("STILLFRAME RAFT STATUS").text();
    let members = status.lines().filter_map(|line| line.strip_prefix("member:"));
    let member = |line: &str| {
        let (id, rest) = line.split_once(' ').expect("number and the rest");
        let role = rest.split_once("role=").expect("a role").1;
        let role = role.split(' ').next().unwrap_or_default().to_owned();
        (id.parse().expect("a number"), role)
    };
    members.map(member).collect()
}

/// The numbers of those who vote.
fn voters(server: &Server) -> Vec<u64> {
    let members = members(server).into_iter();
    members.filter(|(_, role)| role == "voter" || role == "leader").map(|(id, _)| id).collect()
}

/// Data of every kind, in several databases.
pub(super) fn fill(client: &mut Client) {
    const LIBRARY: &[u8] = b"#!lua name=lib\nredis.register_function('twice', function(keys) \
        return redis.call('INCRBY', keys[1], 2) end)";
    client.call(&[b"FUNCTION", b"LOAD", LIBRARY]);
    let mut bytes = Vec::new();
    let mut sent = 0;
    let mut send = |line: &str| {
        encode(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>(), &mut bytes);
        sent += 1;
    };
    for db in [0, 3, 15] {
        send(&format!("SELECT {db}"));
        for i in 0..300 {
            send(&format!("SET string:{i} {i:0500}"));
            send(&format!("SET soon:{i} {db} PX {}", 1 + i * 10));
            send(&format!("SET late:{i} {db} EX {}", 1000 + i));
            send(&format!("RPUSH list:{} {i} {i:030}", i % 7));
            send(&format!("HSET hash:{} {i} {i:030}", i % 7));
            send(&format!("SADD set:{} {i}", i % 7));
            send(&format!("ZADD sorted:{} {i} {i:030}", i % 7));
            send(&format!("XADD stream:{} {}-0 field {i}", i % 7, i + 1));
            send(&format!("SETBIT bits {i} 1"));
            send(&format!("PFADD counts {i}"));
        }
        send("XGROUP CREATE stream:1 group 0");
        send("XREADGROUP GROUP group reader COUNT 3 STREAMS stream:1 >");
        send("XACK stream:1 group 2-0");
        send("EVAL return{redis.call('SET',KEYS[1],ARGV[1])} 1 scripted by");
        send("FCALL twice 1 doubled");
        send("GEOADD places 13.3 38.1 here");
    }
    assert!(client.send_raw(&bytes));
    for _ in 0..sent {
        let reply = client.reply();
        assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
    }
}

/// Has images taken until the log begins so many entries later than it ends now.
fn cut_log(client: &mut Client, entries: i64) {
    let begun = client.info_int("raft_applied_index");
    wait_until("the log is cut", || {
        client.ask("BGSAVE"); // an error while another is under way
        client.info_int("raft_purged_index") > begun + entries
    });
}

#[test]
fn members_join_and_leave_under_load() {
    let group = Group::with_members(5, 3, &["--raft-log-keep-entries", "5", SLOW[0], SLOW[1]]);
    let ports: Vec<u16> = group.ports.iter().map(|ports| ports[1]).collect();
    let mut servers = group.start_founders();
    let first = leader(&servers);
    fill(&mut servers[first].client());
    let mut counters = [Counter::new("a"), Counter::new("b")];
    // The log of the beginning is gone, so that who joins gets an image.
    under_load(&mut counters, &ports, || cut_log(&mut servers[first].client(), 1000));
    for joins in [3, 4] {
        servers.push(group.start(joins));
        let (new, mut client) = (&servers[joins], servers[joins].client());
        assert_eq!(client.ask("GET a").text(), "CLUSTERDOWN The cluster is down");
        under_load(&mut counters, &ports, || {
            change(
                &servers,
                &format!("STILLFRAME RAFT ADD {} {}", joins + 1, group.addresses(joins)),
            );
        });
        assert!(client.info_int("raft_snapshot_index") > 0, "it has an image");
        assert!(new.log().contains("loaded the dump of another member"), "{}", new.log());
        wait_until_equal(&servers);
        let library = |server: &Server| server.client().ask("FUNCTION LIST WITHCODE");
        assert_eq!(library(new), library(&servers[first]));
        assert_eq!(voters(new).len(), joins + 1);
    }
    // Five members do with three.
    let lost = [0, 1];
    under_load(&mut counters, &ports, || {
        lost.iter().for_each(|&it| servers[it].kill());
        let rest = &servers[2..];
        let told = servers[2 + leader(rest)].client().info_int("raft_applied_index");
        wait_until("the rest goes on", || {
            servers[2 + leader(rest)].client().info_int("raft_applied_index") > told + 20
        });
    });
    lost.iter().for_each(|&it| servers[it] = group.start(it));
    // Down to three again: one that follows goes, then the leader.
    under_load(&mut counters, &ports, || {
        let follows = (leader(&servers) + 1) % servers.len();
        change(&servers, &format!("STILLFRAME RAFT REMOVE {}", follows + 1));
        let leads = leader(&servers);
        change(&servers, &format!("STILLFRAME RAFT REMOVE {}", leads + 1));
        let mut next = leads;
        wait_until("another leads", || {
            next = leader(&servers);
            next != leads
        });
        assert_ne!(next, follows);
        assert_eq!(voters(&servers[next]).len(), 3);
        for gone in [follows, leads] {
            wait_until("it hears that it is gone", || servers[gone].log().contains("was removed"));
            let reply = servers[gone].client().ask("INCR a");
            assert!(matches!(reply, Reply::Error(_)), "{reply:?}");
        }
    });
    let leads = leader(&servers);
    let left: Vec<u64> = voters(&servers[leads]);
    let left = || left.iter().map(|&id| &servers[id as usize - 1]);
    wait_until_equal(left());
    for counter in &mut counters {
        assert!(counter.told() > 100, "they wrote");
        counter.check(&mut servers[leads].client());
    }
}

/// The log behind an image that is sent stays, however many images are taken meanwhile: who gets
/// it needs no other.
#[test]
fn a_member_joins_while_image_follows_image() {
    let flags = ["--raft-log-keep-entries", "0", "--raft-image-rate", "1mb", SLOW[0], SLOW[1]];
    let group = Group::with_members(4, 3, &flags);
    let mut servers = group.start_founders();
    let ports: Vec<u16> = group.ports.iter().map(|ports| ports[1]).collect();
    let leads = leader(&servers);
    let (mut client, mut random) = (servers[leads].client(), Random::new("image follows image"));
    // Two pieces of an image, the second of which goes three seconds after the first.
    for number in 0..4 {
        let value = random.bytes(1 << 20);
        assert_eq!(
            client.call(&[b"SET", format!("large:{number}").as_bytes(), &value]).text(),
            "OK"
        );
    }
    client.ask("BGSAVE");
    wait_until("an image is taken", || client.info_int("raft_snapshot_index") >= 4);
    servers.push(group.start(3));
    let (mut counters, is_in) = ([Counter::new("a"), Counter::new("b")], AtomicBool::new(false));
    let taken = client.info_int("raft_snapshots");
    under_load(&mut counters, &ports, || {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_in.load(Ordering::Relaxed) {
                    client.ask("BGSAVE"); // an error while another is under way
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
            change(&servers, &format!("STILLFRAME RAFT ADD 4 {}", group.addresses(3)));
            is_in.store(true, Ordering::Relaxed);
        });
    });
    let taken = client.info_int("raft_snapshots") - taken;
    assert!(taken >= 1, "no image was taken meanwhile");
    let installed = servers[3].log().matches("loaded the dump of another member").count();
    assert_eq!(installed, 1, "with {taken} images taken meanwhile");
    wait_until_equal(&servers);
    for counter in &mut counters {
        counter.check(&mut servers[leader(&servers)].client());
    }
    // What nobody needs any more goes.
    let (mut client, mut purged) = (servers[leader(&servers)].client(), 0);
    client.ask("BGSAVE");
    let image = client.info_int("raft_snapshot_index");
    wait_until("the log is cut", || {
        purged = client.info_int("raft_purged_index");
        purged >= image
    });
}

#[test]
fn the_lead_goes_where_it_is_sent() {
    let group = Group::new();
    let ports: Vec<u16> = group.ports.iter().map(|ports| ports[1]).collect();
    let servers = group.start_founders();
    let mut counters = [Counter::new("a"), Counter::new("b")];
    under_load(&mut counters, &ports, || {
        for round in 0..4 {
            let leads = leader(&servers);
            let next = (leads + 1 + round % 2) % 3;
            let mut client = servers[leads].client();
            let reply = client.ask(&format!("STILLFRAME RAFT TRANSFER {}", next + 1));
            assert_eq!(reply.text(), "OK", "round {round}");
            wait_until("it serves", || leader(&servers) == next);
        }
    });
    wait_until_equal(&servers);
    for counter in &mut counters {
        counter.check(&mut servers[leader(&servers)].client());
    }
}

#[test]
fn a_change_that_makes_no_sense_is_refused() {
    let group = Group::with_members(4, 3, &[]);
    let mut servers = group.start_founders();
    let leads = leader(&servers);
    let (one, two) = ((leads + 1) % 3, (leads + 2) % 3);
    let mut client = servers[leads].client();
    let nobody = "127.0.0.1:1/127.0.0.1:2";
    let other = Group::with_members(2, 1, &[]);
    let foreign = other.start(0);
    leader([&foreign]);
    let foreign_address = other.addresses(0);
    let namesake = group.addresses(3);
    for (request, error) in [
        ("ADD".to_owned(), "syntax error"),
        ("NOSUCH".to_owned(), "syntax error"),
        ("STATUS 1".to_owned(), "syntax error"),
        ("ADD 0 h:1/h:2".to_owned(), "a whole number above 0"),
        ("ADD x h:1/h:2".to_owned(), "a whole number above 0"),
        ("ADD 4 h:1".to_owned(), "Addresses are"),
        ("ADD 4 h:1/h:0".to_owned(), "Addresses are"),
        (format!("ADD 4 {nobody}"), "member 4 at 127.0.0.1:1 does not answer"),
        (format!("ADD 4 {namesake}"), "does not answer"),
        (format!("ADD {} {}", one + 1, group.addresses(one)), "belongs to the group already"),
        (format!("ADD {} {nobody}", one + 1), "already, at 127.0.0.1:"),
        (format!("ADD 4 {}", group.addresses(one)), "has one of these addresses already"),
        (format!("ADD 4 {foreign_address}"), "the peer is node 1, not node 4"),
        ("REMOVE 9".to_owned(), "there is no member 9"),
        ("REMOVE -1".to_owned(), "a whole number above 0"),
        ("TRANSFER 9".to_owned(), "there is no member 9"),
        (format!("TRANSFER {}", leads + 1), "it leads already"),
    ] {
        let reply = client.ask(&format!("STILLFRAME RAFT {request}"));
        assert!(
            matches!(reply, Reply::Error(_)) && reply.text().contains(error),
            "{request}: {reply:?}"
        );
    }
    let reply = servers[one].client().ask("STILLFRAME RAFT REMOVE 1").text();
    assert!(reply.contains(&format!("the leader is 127.0.0.1:{}", servers[leads].port)), "{reply}");
    client.ok("MULTI");
    client.ok("STILLFRAME RAFT REMOVE 1");
    let reply = client.ask("EXEC");
    assert!(reply.list()[0].text().contains("not allowed in transactions"), "{reply:?}");
    assert!(foreign.client().ask("STILLFRAME RAFT STATUS").text().contains("leader:1"));
    // Two that answer are most of three, but not of what would be left.
    servers[one].kill();
    let reply = client.ask(&format!("STILLFRAME RAFT REMOVE {}", two + 1)).text();
    assert!(reply.contains("of which 1 answer: no majority"), "{reply}");
    let reply = client.ask(&format!("STILLFRAME RAFT TRANSFER {}", one + 1)).text();
    assert!(reply.contains("does not answer"), "{reply}");
    client.ok("SET k v");
    // A member that is gone for good is replaced.
    client.ok(&format!("STILLFRAME RAFT REMOVE {}", one + 1));
    let new = group.start(3);
    client.ok(&format!("STILLFRAME RAFT ADD 4 {}", group.addresses(3)));
    wait_until_equal([&servers[leads], &new]);
    assert_eq!(voters(&servers[leads]).len(), 3);
}

#[test]
fn a_leader_that_is_killed_within_a_change_leaves_one_group() {
    let group = Group::with_members(4, 3, &[]);
    let ports: Vec<u16> = group.ports.iter().map(|ports| ports[1]).collect();
    let mut random = Random::new("a leader is killed within a change");
    let mut counters = [Counter::new("a")];
    let mut servers = group.start_founders();
    leader(&servers);
    servers.push(group.start(3));
    let mut is_in = false;
    under_load(&mut counters, &ports, || {
        for round in 0..rounds(4, 40) {
            // Member 4 comes and goes; a member that has gone comes back empty.
            let request = match is_in {
                true => "STILLFRAME RAFT REMOVE 4".to_owned(),
                false => {
                    servers[3].kill();
                    std::fs::remove_dir_all(group.folder.path().join("4")).expect("it was there");
                    servers[3] = group.start(3);
                    format!("STILLFRAME RAFT ADD 4 {}", group.addresses(3))
                }
            };
            let leads = leader(&servers);
            let mut client = servers[leads].client();
            client.send(&request.split(' ').map(str::as_bytes).collect::<Vec<_>>());
            std::thread::sleep(std::time::Duration::from_micros(random.below(60_000) as u64));
            servers[leads].kill();
            servers[leads] = group.start(leads);
            let mut voting = Vec::new();
            wait_until("one group is left", || {
                let next = leader(&servers);
                let status = servers[next].client().ask("STILLFRAME RAFT STATUS").text();
                voting = voters(&servers[next]);
                status.contains("role:leader") && !status.contains("change:under way")
            });
            assert!([&[1, 2, 3][..], &[1, 2, 3, 4]].contains(&&voting[..]), "{voting:?}");
            println!("round {round}: {request}: {voting:?}");
            // Whatever has become of it, asked again it is done.
            let goal = if is_in { 3 } else { 4 };
            wait_until("it is done", || {
                let next = leader(&servers);
                let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
                let reply =
                    Client::try_connect(servers[next].port).and_then(|mut it| it.try_call(&words));
                println!("{reply:?}");
                voters(&servers[next]).len() == goal
            });
            is_in = !is_in;
        }
    });
    let leads = leader(&servers);
    wait_until_equal(&servers[..3]);
    counters[0].check(&mut servers[leads].client());
}
