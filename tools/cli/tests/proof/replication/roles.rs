//! Replies of replicas and primaries, and how one becomes the other.

use super::{Who, assert_equal, fill, wait_for_all, wait_for_link};
use crate::support::{Client, Random, Reply, redis_is_here, wait_until};

/// The start of an error, or the whole of another reply.
fn word(client: &mut Client, line: &str) -> String {
    match client.ask(line) {
        Reply::Error(text) => text.split(' ').next().unwrap_or_default().to_owned(),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_promoted_replica_is_followed_by_the_others_without_an_image() {
    let mut random = Random::new("promotion");
    let whom = if redis_is_here("promotion") { Who::Redis } else { Who::Ours };
    for (who, new) in [(Who::Ours, Who::Ours), (Who::Ours, whom), (whom, Who::Ours)] {
        let old = who.start("");
        fill(&old, &mut random, 200);
        let (promoted, other) = (new.follow(old.port), whom.follow(old.port));
        [&promoted, &other].into_iter().for_each(wait_for_link);
        fill(&old, &mut random, 100);
        wait_for_all(&old, &promoted);
        wait_for_all(&old, &other);
        let mut client = promoted.client();
        // What asked the other one for its offset is part of the stream, too, and so would be the
        // end of a key that expires now.
        old.client().ok("CLIENT PAUSE 100000 WRITE");
        wait_until("the promoted one has the whole stream", || {
            client.info("slave_repl_offset") == old.client().info("master_repl_offset")
        });
        client.ok("REPLICAOF NO ONE");
        assert_eq!(client.info("role"), "master");
        // Both the other replica and the old primary can go on.
        for server in [&other, &old] {
            server.client().ok(&format!("REPLICAOF 127.0.0.1 {}", promoted.port));
            server.client().ok("CLIENT UNPAUSE");
            wait_for_link(server);
        }
        fill(&promoted, &mut random, 100);
        [&other, &old].into_iter().for_each(|server| assert_equal(&promoted, server));
        let [full, partial] = ["sync_full", "sync_partial_ok"].map(|name| client.info(name));
        assert_eq!([&*full, &*partial], ["0", "2"], "{who:?} {new:?}: {}", promoted.log());
    }
}

#[test]
fn clients_of_a_replica_read_and_do_not_write() {
    let primary = Who::Ours.start("");
    primary.client().ok("SET k v");
    let replica = Who::Ours.follow(primary.port);
    wait_for_link(&replica);
    let mut client = replica.client();
    assert_eq!(client.ask("GET k").text(), "v");
    for line in ["SET k w", "DEL k", "LPUSH l x", "BLPOP l 1"] {
        assert_eq!(word(&mut client, line), "READONLY", "{line}");
    }
    client.ok("MULTI");
    assert_eq!(word(&mut client, "SET k w"), "READONLY");
    assert!(client.ask("EXEC").text().starts_with("EXECABORT"));
    assert!(client.ask("WAIT 0 0").text().starts_with("ERR WAIT cannot be used"));
    assert_eq!(client.ask("ROLE").list()[3].text(), "connected");
    assert!(client.ask("CLIENT LIST").text().contains(" flags=M "));
    assert!(primary.client().ask("CLIENT LIST").text().contains(" flags=S "));
    assert_eq!(primary.client().ask("CLIENT KILL TYPE replica").int(), 1);
    wait_until("the replica goes on", || primary.client().info("sync_partial_ok") == "1");
    wait_for_link(&replica);
    assert_eq!(client.ask("CLIENT KILL TYPE master").int(), 1);
    wait_until("the replica goes on", || primary.client().info("sync_partial_ok") == "2");
    client.ok("CONFIG SET replica-read-only no");
    client.ok("SET own v");
}

#[test]
fn a_key_expires_at_a_replica_when_its_primary_says_so() {
    let (primary, replica) = Who::Ours.behind_ours();
    let (mut there, mut here) = (primary.client(), replica.client());
    there.ok("SET long v PX 100000");
    // The primary is stopped before the time comes, so that it cannot send the DEL.
    for life_ms in [500, 5_000, 50_000] {
        there.ok(&format!("SET short v PX {life_ms}"));
        there.ok("WAIT 1 10000");
        there.ok("CLIENT PAUSE 100000 WRITE");
        if there.ask("EXISTS short").int() == 1 {
            break;
        }
        there.ok("CLIENT UNPAUSE");
    }
    wait_until("its time has come", || here.ask("GET short") == Reply::Null);
    assert_eq!(here.ask("EXISTS short long").int(), 1);
    assert_eq!(here.ask("DBSIZE").int(), 2, "nobody has deleted it");
    there.ok("CLIENT UNPAUSE");
    wait_until("the primary deletes it", || here.ask("DBSIZE").int() == 1);
}

#[test]
fn wait_and_min_replicas_count_those_who_have_it() {
    let primary = Who::Ours.start("");
    let mut client = primary.client();
    assert_eq!(client.ask("WAIT 0 0").int(), 0);
    client.ok("SET k v");
    assert_eq!(client.ask("WAIT 1 50").int(), 0);
    client.ok("CONFIG SET min-replicas-to-write 1");
    assert_eq!(word(&mut client, "SET k v"), "NOREPLICAS");
    let whom = if redis_is_here("wait") { Who::Redis } else { Who::Ours };
    let replicas = [whom.follow(primary.port), Who::Ours.follow(primary.port)];
    replicas.iter().for_each(wait_for_link);
    wait_until("a replica is at hand", || word(&mut client, "SET k w") != "NOREPLICAS");
    for number in 0..20 {
        client.ok(&format!("SET k {number}"));
        assert_eq!(client.ask("WAIT 2 60000").int(), 2);
        for replica in &replicas {
            assert_eq!(replica.client().ask("GET k").text(), number.to_string());
        }
    }
    assert_eq!(client.ask("ROLE").list()[2].list().len(), 2);
}

#[test]
fn a_primary_with_a_password_lets_its_replica_in() {
    for (who, whom) in [(Who::Ours, Who::Redis), (Who::Redis, Who::Ours)] {
        if !redis_is_here("passwords") {
            return;
        }
        let primary = who.start("");
        let mut client = primary.client();
        client.ok("SET k v");
        client.ok("CONFIG SET requirepass secret");
        let replica = whom.start("--masterauth wrong");
        let mut there = replica.client();
        there.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
        wait_until("it was refused", || {
            there.info("master_link_status") == "down" && client.info_int("total_error_replies") > 0
        });
        there.ok("CONFIG SET masterauth secret");
        wait_for_link(&replica);
        assert_eq!(there.ask("GET k").text(), "v");
    }
}

#[test]
fn messages_reach_subscribers_of_a_replica() {
    let (primary, replica) = Who::Ours.behind_ours();
    let mut listener = replica.client();
    listener.ok("SUBSCRIBE channel");
    primary.client().ok("PUBLISH channel hello");
    assert_eq!(listener.reply().list()[2].text(), "hello");
}
