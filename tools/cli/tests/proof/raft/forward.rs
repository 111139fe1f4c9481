//! `raft-forward`: plain clients work at every member, and learn what is not known when the lead
//! moves.

use super::load::{Counter, under_load};
use super::{Group, leader, wait_until_equal};
use crate::support::{Client, Reply, Server, encode, wait_until};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

/// How long a leader may be silent in a group whose leader is to stay, on a busy machine.
const STEADY: &str = "5000";

/// A group whose members pass requests on; its leader, and those that follow.
fn start(election_timeout: &str) -> (Group, Vec<Server>, [usize; 3]) {
    let flags = ["--raft-forward", "yes", "--raft-election-timeout", election_timeout];
    let renamed = ["--rename-command", "APPEND", "add-to"];
    let group = Group::with_members(3, 3, &[&flags[..], &renamed].concat());
    let servers = group.start_founders();
    let leads = leader(&servers);
    let others = [(leads + 1) % 3, (leads + 2) % 3];
    for other in others {
        wait_until("it passes requests on", || {
            let mut client = servers[other].client();
            !matches!(client.ask("SET begun 1"), Reply::Error(_)) && leader(&servers) == leads
        });
    }
    (group, servers, [leads, others[0], others[1]])
}

fn int(count: i64) -> Reply {
    Reply::Int(count)
}

#[test]
fn a_session_at_a_follower_is_one_at_the_leader() {
    let (_group, servers, [leads, one, two]) = start(STEADY);
    let mut client = servers[one].client();
    // What concerns this server is answered by it.
    assert_eq!(client.info("raft_role"), "follower");
    client.ok("SELECT 3");
    client.ok("CLIENT SETNAME here");
    client.ok("CLIENT SETINFO LIB-NAME library");
    client.ok("CLIENT SETINFO LIB-VER 1.2");
    client.ok("CLIENT NO-EVICT ON");
    client.ok("CLIENT NO-TOUCH ON");
    client.ok("SET k v");
    assert_eq!(client.ask("GET k").text(), "v");
    let told = client.ask("CLIENT INFO").text();
    for part in [" flags=eT ", " lib-name=library ", " lib-ver=1.2"] {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!(client.ask("CLIENT GETNAME").text(), "here");
    assert_eq!(client.info("raft_role"), "leader", "the connection is the leader's from now on");
    assert_eq!(servers[one].client().info_int("raft_forwarded_clients"), 1);
    let mut direct = servers[leads].client();
    direct.ok("SELECT 3");
    assert_eq!(direct.ask("GET k").text(), "v");
    // A transaction, and one that another client's write fails.
    let mut other = servers[two].client();
    other.ok("SELECT 3");
    for (write, outcome) in [("GET k", false), ("SET k w", true)] {
        client.ok("WATCH k");
        client.ok("MULTI");
        client.ok("INCR n");
        client.ok("GET k");
        other.ok(write);
        let reply = client.ask("EXEC");
        assert_eq!(matches!(reply, Reply::Null), outcome, "{reply:?}");
    }
    // A blocking request, and what wakes it.
    client.send(&[b"BLPOP", b"list", b"0"]);
    wait_until("it waits", || direct.info("blocked_clients") == "1");
    assert_eq!(other.ask("RPUSH list x"), int(1));
    assert_eq!(client.reply().list()[1].text(), "x");
    // Scripts by name, and replies that are not wanted.
    let name = client.ask("SCRIPT LOAD return{KEYS[1],ARGV[1]}").text();
    assert_eq!(client.ask(&format!("EVALSHA {name} 1 a b")).list()[1].text(), "b");
    client.send(&[b"CLIENT", b"REPLY", b"SKIP"]);
    client.send(&[b"SET", b"k", b"silent"]);
    assert_eq!(client.ask("GET k").text(), "silent");
    assert_eq!(
        client.ask("NOSUCH").text(),
        "ERR unknown command 'NOSUCH', with args beginning with: "
    );
    // A command goes by the name that the client gave it.
    let mut renames = servers[two].client();
    assert_eq!(renames.ask("ADD-TO appended abc"), int(3));
    // One that is passed on already is not again.
    let mut marked = servers[two].client();
    marked.ok("STILLFRAME FORWARDED");
    assert!(marked.ask("GET k").text().starts_with("MOVED "));
    client.ok("QUIT");
}

#[test]
fn a_session_of_resp3_begins_with_its_greeting() {
    let (_group, servers, [_, one, two]) = start(STEADY);
    let mut client = servers[one].client();
    client.ok("HELLO 3 SETNAME three");
    client.ok("HSET h f v");
    client.send(&[b"HGETALL", b"h"]);
    assert_eq!(client.raw(), b"%1\r\n$1\r\nf\r\n$1\r\nv\r\n");
    assert_eq!(client.ask("CLIENT GETNAME").text(), "three");
    client.ok("CLIENT TRACKING ON");
    client.ok("GET k");
    servers[two].client().ok("SET k v");
    assert_eq!(client.raw(), b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
    // Subscriptions of RESP3 are beside other requests.
    let mut listens = servers[two].client();
    listens.ok("HELLO 3");
    listens.ok("SUBSCRIBE channel");
    listens.ok("SET k w");
    assert_eq!(client.ask("PUBLISH channel hello"), int(1));
    assert_eq!(listens.raw(), b">3\r\n$7\r\nmessage\r\n$7\r\nchannel\r\n$5\r\nhello\r\n");
}

/// HIMPORT of many fields, which a client of a follower begins there.
fn import_many(client: &mut Client, count: usize) {
    let names: Vec<String> = (0..count).map(|number| format!("field:{number}")).collect();
    for begin in [&["HIMPORT", "PREPARE", "many"][..], &["HIMPORT", "SET", "large", "many"]] {
        let words = begin.iter().copied().chain(names.iter().map(String::as_str));
        let words: Vec<&[u8]> = words.map(str::as_bytes).collect();
        assert_eq!(client.call(&words).text(), "OK");
    }
}

#[test]
fn lists_of_fields_go_with_their_client() {
    let (_group, servers, [leads, one, two]) = start(STEADY);
    let mut client = servers[one].client();
    client.ok("HIMPORT PREPARE person name age");
    client.ok("HIMPORT PREPARE other x");
    client.ok("HIMPORT SET ann person Ann 31");
    assert_eq!(client.info("raft_role"), "leader", "the connection is the leader's from now on");
    // A transaction knows the lists of its client, and so does what comes after it.
    client.ok("MULTI");
    for line in ["HIMPORT PREPARE city name", "HIMPORT SET rome city Rome", "HIMPORT DISCARD city"]
    {
        assert_eq!(client.ask(line).text(), "QUEUED");
    }
    let ok = || Reply::Text(b"OK".to_vec());
    assert_eq!(client.ask("EXEC"), Reply::List(vec![ok(), ok(), int(1)]));
    client.ok("HIMPORT SET bob person Bob 7");
    assert_eq!(client.ask("HIMPORT DISCARDALL"), int(2));
    // Without a list a follower's words are those of the leader.
    for line in ["HIMPORT DISCARD person", "HIMPORT SET eve person Eve 5", "HIMPORT SET ann"] {
        let replies = [leads, two].map(|at| servers[at].client().ask(line));
        assert_eq!(replies[0], replies[1], "{line}");
    }
    import_many(&mut servers[two].client(), 100_000);
    wait_until_equal(&servers);
    let mut direct = servers[leads].client();
    assert_eq!(direct.ask("HLEN large"), int(100_000));
    assert_eq!(direct.ask("HMGET bob name age").list()[1].text(), "7");
    assert_eq!(direct.ask("HGET rome name").text(), "Rome");
}

/// What a client has said to a leader that leads no more goes along with it, or ends with its
/// connection: a client that keeps it is not refused for good.
#[test]
fn who_was_at_the_leader_gets_to_the_next_one() {
    let (_group, servers, [leads, next, _]) = start(STEADY);
    let mut importing = servers[leads].client();
    importing.ok("HIMPORT PREPARE person name age");
    let mut tracking = servers[leads].client();
    tracking.ok("HELLO 3");
    tracking.ok("CLIENT TRACKING ON");
    let mut watching = servers[leads].client();
    watching.ok("WATCH k");
    let mut silent = servers[leads].client();
    silent.send(&[b"CLIENT", b"REPLY", b"OFF"]);
    servers[leads].client().ask(&format!("STILLFRAME RAFT TRANSFER {}", next + 1));
    wait_until("another member leads", || {
        servers[next].client().info("raft_serves") == "1"
            && servers[leads].client().info("raft_leader") == (next + 1).to_string()
    });
    importing.ok("HIMPORT SET ann person Ann 31");
    assert_eq!(importing.info("raft_role"), "leader");
    assert!(tracking.ask("GET k").text().starts_with("MOVED "));
    assert!(tracking.try_raw().is_none(), "the connection has ended");
    silent.send(&[b"SET", b"k", b"v"]);
    assert!(silent.try_raw().is_none(), "the connection has ended");
    watching.ok("UNWATCH");
    watching.ok("SET k v");
    assert_eq!(servers[next].client().ask("HGET ann age").text(), "31");
}

/// Nothing else comes that would have the member look again.
#[test]
fn each_large_request_arrives_by_itself() {
    let (_group, servers, [_, one, _]) = start(STEADY);
    let mut client = servers[one].client();
    for round in 0..12 {
        let value = vec![b'x'; (1 << 20) + round * 50_000];
        assert_eq!(client.call(&[b"SET", b"large", &value]).text(), "OK");
        assert_eq!(client.ask("STRLEN large"), int(value.len() as i64));
    }
}

#[test]
fn much_goes_both_ways_at_once() {
    let (_group, servers, [_, one, _]) = start(STEADY);
    let value = vec![b'x'; 3 << 20];
    let mut stream = TcpStream::connect(("127.0.0.1", servers[one].port)).expect("a connection");
    let mut reader = stream.try_clone().expect("a second handle");
    let mut sent = Vec::new();
    encode(&[b"SET", b"large", &value], &mut sent);
    for i in 0..20_000 {
        encode(&[b"INCR", b"n"], &mut sent);
        if i % 1000 == 0 {
            encode(&[b"GET", b"large"], &mut sent);
        }
    }
    let writes = std::thread::spawn(move || {
        stream.write_all(&sent).expect("it is taken");
        // Who says no more still gets all replies.
        stream.shutdown(Shutdown::Write).expect("it was open");
    });
    let mut found = Vec::new();
    reader.read_to_end(&mut found).expect("the replies");
    writes.join().expect("they were sent");
    let mut expected = b"+OK\r\n".to_vec();
    for i in 0..20_000 {
        expected.extend_from_slice(format!(":{}\r\n", i + 1).as_bytes());
        if i % 1000 == 0 {
            expected.extend_from_slice(format!("${}\r\n", value.len()).as_bytes());
            expected.extend_from_slice(&value);
            expected.extend_from_slice(b"\r\n");
        }
    }
    assert!(found == expected, "{} bytes in place of {}", found.len(), expected.len());
}

#[test]
fn the_leader_decides_who_a_client_is() {
    let (_group, servers, [leads, one, _]) = start(STEADY);
    for server in &servers {
        server.client().ok("ACL SETUSER alice on >secret ~a:* +@all");
    }
    let at = |user: &str| {
        let mut client = servers[one].client();
        client.ok(&format!("AUTH {user} secret"));
        client
    };
    let mut client = at("alice");
    client.ok("SET a:1 v");
    assert_eq!(client.ask("ACL WHOAMI").text(), "alice");
    assert!(client.ask("SET b:1 v").text().starts_with("NOPERM"));
    // Rules here and there hold.
    servers[leads].client().ok("ACL SETUSER alice -set");
    assert!(at("alice").ask("SET a:1 v").text().starts_with("NOPERM"));
    servers[leads].client().ok("ACL SETUSER alice +set");
    servers[one].client().ok("ACL SETUSER alice -set");
    assert!(at("alice").ask("SET a:1 v").text().starts_with("NOPERM"));
    servers[one].client().ok("ACL SETUSER bob on >secret ~* +@all");
    let mut client = at("bob");
    let reply = client.ask("SET a:1 w").text();
    assert!(
        reply.starts_with("ERR The leader does not take this connection: WRONGPASS"),
        "{reply}"
    );
    assert!(client.try_raw().is_none(), "the connection has ended");
    assert_eq!(servers[leads].client().ask("GET a:1").text(), "v");
}

#[test]
fn who_is_passed_on_learns_that_the_lead_moved() {
    let (group, mut servers, _) = start("500");
    let ports: Vec<u16> = group.ports.iter().map(|ports| ports[1]).collect();
    let mut counters = [Counter::new("a"), Counter::new("b")];
    under_load(&mut counters, &ports, || {
        for round in 0..6 {
            let leads = leader(&servers);
            let mut idle = servers[(leads + 1) % 3].client();
            wait_until("it is passed on", || idle.ask("SET idle 1").text() == "OK");
            let told = servers[leads].client().info_int("raft_applied_index");
            wait_until("they count", || {
                servers[leads].client().info_int("raft_applied_index") > told + 50
            });
            if round % 2 == 0 {
                servers[leads].kill();
                servers[leads] = group.start(leads);
            } else {
                let next = (leads + 2) % 3 + 1;
                let mut client = servers[leads].client();
                client.ask(&format!("STILLFRAME RAFT TRANSFER {next}"));
            }
            let reply = idle.reply().text();
            let known = ["lost", "no longer leads"].iter().any(|it| reply.contains(it));
            assert!(known, "round {round}: {reply}");
            while idle.try_raw().is_some() {}
            leader(&servers);
        }
    });
    wait_until_equal(&servers);
    let mut any = None;
    wait_until("a member answers", || {
        any = Client::try_connect(ports[0]).filter(|_| true);
        any.as_mut()
            .is_some_and(|it| it.try_call(&[b"GET", b"a"]).is_some_and(|it| it.bytes().is_some()))
    });
    for counter in &mut counters {
        assert!(counter.told() > 50, "it counted");
        counter.check(any.as_mut().expect("it was awaited"));
    }
}
