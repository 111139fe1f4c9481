//! Databases that are branches of others: they reply as copies do, and are copies in dumps, in the
//! log, and at replicas of both kinds.

use crate::collections::redis;
use crate::mixed::{run_batch, same_digests};
use crate::replayed::contents;
use crate::replication::wait_for_all;
use crate::support::beside::Pair;
use crate::support::{Client, Kind, Random, Server, Setup, redis_is_here, rounds, wait_until};

/// Databases that requests go to.
const DBS: usize = 3;

fn both(pair: &mut Pair, line: &str) {
    let [theirs, ours] = pair.each_mut().map(|client| client.ask(line));
    assert_eq!(theirs, ours, "{line}");
}

/// A branch here, and a copy of all keys there.
fn branch([theirs, ours]: &mut Pair, from: usize, to: usize) {
    ours.ok(&format!("STILLFRAME BRANCH {from} {to} REPLACE"));
    theirs.ok(&format!("SELECT {to}"));
    theirs.ok("FLUSHDB");
    theirs.ok(&format!("SELECT {from}"));
    let keys = theirs.ask("KEYS *");
    for key in keys.list() {
        let key = key.bytes().expect("a key").to_vec();
        let copied = theirs.call(&[b"COPY", &key, &key, b"DB", to.to_string().as_bytes()]);
        assert_eq!(copied.int(), 1);
    }
    ours.ok(&format!("SELECT {from}"));
}

/// Random requests on several databases, some of which are made branches of others.
fn go_on(pair: &mut Pair, random: &mut Random, history: &mut Vec<Vec<Vec<u8>>>) {
    match random.below(9) {
        0 | 1 => {
            let (from, to) = (random.below(DBS), random.below(DBS));
            if from != to {
                branch(pair, from, to);
                history.clear();
            }
        }
        2 => both(pair, &format!("SWAPDB {} {}", random.below(DBS), random.below(DBS))),
        3 if random.below(3) == 0 => both(pair, "FLUSHDB"),
        4 => {
            for db in 0..DBS {
                both(pair, &format!("SELECT {db}"));
                both(pair, "DBSIZE");
            }
        }
        _ => {
            both(pair, &format!("SELECT {}", random.below(DBS)));
            run_batch(pair, random, history);
        }
    }
}

#[test]
fn branches_are_as_copies_in_memory_log_dumps_and_replicas() {
    let test = "branches_are_as_copies_in_memory_log_dumps_and_replicas";
    if !redis_is_here(test) {
        return;
    }
    let mut random = Random::new(test);
    let folder = tempfile::tempdir().expect("a folder");
    let flags = [
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--enable-debug-command",
        "yes",
        "--repl-diskless-sync-delay",
        "0",
    ];
    let setup = || Setup::new(Kind::Ours("imprint")).folder(folder.path()).flags(&flags);
    let theirs = redis(None, "");
    let mut ours = setup().start();
    for round in 0..rounds(2, 20) {
        let replicas = [Server::start(Kind::Ours("imprint")), redis(None, "")];
        for replica in &replicas {
            replica.client().ok(&format!("REPLICAOF 127.0.0.1 {}", ours.port));
        }
        let mut history = Vec::new();
        let mut pair = [theirs.client(), ours.client()];
        for _ in 0..rounds(40, 100) {
            go_on(&mut pair, &mut random, &mut history);
            match random.below(10) {
                0 => _ = ours.client().ask("BGSAVE"),
                1 => same_digests(&mut pair, &history),
                _ => {}
            }
        }
        branch(&mut pair, 0, 1);
        for _ in 0..4 {
            both(&mut pair, &format!("SELECT {}", random.below(2)));
            run_batch(&mut pair, &mut random, &mut history);
        }
        same_digests(&mut pair, &history);
        let digest = pair[1].ask("DEBUG DIGEST");
        for replica in &replicas {
            wait_for_all(&ours, replica);
            assert_eq!(contents(&mut replica.client()), contents(&mut pair[1]), "a replica");
        }
        assert_eq!(replicas[0].client().info("master_link_status"), "up");
        // A dump holds the branch as any other database; so does the log.
        pair[1].wait_for_save();
        pair[1].ok(if round % 2 == 0 { "DEBUG RELOAD" } else { "BGREWRITEAOF" });
        pair[1].wait_for_save();
        assert_eq!(pair[1].ask("DEBUG DIGEST"), digest, "what was loaded again");
        drop(pair);
        ours.kill();
        ours = setup().start();
        assert_eq!(ours.client().ask("DEBUG DIGEST"), digest, "what was logged");
    }
}

/// A replica of another kind gets an image for each branch, one of ours the request.
#[test]
fn a_replica_that_knows_no_branches_gets_images() {
    if !redis_is_here("a_replica_that_knows_no_branches_gets_images") {
        return;
    }
    let ours = Server::start(Kind::Ours("imprint"));
    let mut client = ours.client();
    client.ok("CONFIG SET repl-diskless-sync-delay 0");
    client.ok("MSET a 1 b 2");
    let replicas = [Server::start(Kind::Ours("imprint")), redis(None, "")];
    for replica in &replicas {
        replica.client().ok(&format!("REPLICAOF 127.0.0.1 {}", ours.port));
        wait_for_all(&ours, replica);
    }
    // Our replica has one of the other kind itself.
    let behind = redis(None, "");
    replicas[0].client().ok("CONFIG SET repl-diskless-sync-delay 0");
    behind.client().ok(&format!("REPLICAOF 127.0.0.1 {}", replicas[0].port));
    wait_for_all(&replicas[0], &behind);
    let fulls =
        |server: &Server| server.client().info("sync_full").parse::<u64>().expect("a count");
    let before = [&ours, &replicas[0]].map(fulls);
    client.ok("STILLFRAME BRANCH 0 1");
    client.ok("SET a changed");
    for (primary, replica) in
        [(&ours, &replicas[0]), (&ours, &replicas[1]), (&replicas[0], &behind)]
    {
        let has_it = |client: &mut Client| {
            client.ok("SELECT 1");
            let branched = client.ask("MGET a b");
            client.ok("SELECT 0");
            format!("{branched:?} {:?}", client.ask("MGET a b"))
        };
        let there = has_it(&mut client);
        wait_until("a replica has the branch", || has_it(&mut replica.client()) == there);
        wait_for_all(primary, replica);
    }
    let after = [&ours, &replicas[0]].map(fulls);
    assert_eq!(after, before.map(|count| count + 1), "one image each, for the other kind");
}

#[test]
fn wrong_requests_for_a_branch_change_nothing() {
    let server = Server::start(Kind::Ours("imprint"));
    let mut client = server.client();
    client.ok("SET a 1");
    client.ok("SELECT 2");
    client.ok("SET b 2");
    for (request, why) in [
        ("0", "ERR wrong number of arguments for 'stillframe|branchdb'"),
        ("0 0", "ERR source and destination objects are the same"),
        ("0 16", "ERR DB index is out of range"),
        ("-1 3", "ERR DB index is out of range"),
        ("0 x", "ERR value is not an integer"),
        ("0 2", "ERR database 2 is not empty; REPLACE deletes its 1 keys"),
        ("0 3 NOW", "ERR syntax error"),
        ("0 3 REPLACE REPLACE", "ERR syntax error"),
        ("0 99999999999999999999", "ERR value is not an integer"),
    ] {
        let reply = client.ask(&format!("STILLFRAME BRANCH {request}")).text();
        assert!(reply.starts_with(why), "{request}: {reply}");
    }
    assert_eq!(client.info("db2"), "keys=1,expires=0,avg_ttl=0");
    client.ok("STILLFRAME BRANCH 0 2 REPLACE");
    assert_eq!(client.info("db2"), "keys=1,expires=0,avg_ttl=0,shared=1");
    // On a branch of a connection, and on a view, it does not run.
    let id = client.ask("STILLFRAME BRANCH OPEN").int();
    client.ok(&format!("STILLFRAME BRANCH USE {id}"));
    let reply = client.ask("STILLFRAME BRANCH 0 3").text();
    assert!(reply.contains("does not run on a branch"), "{reply}");
    client.ok("STILLFRAME BRANCH USE OFF");
    // Who watches a key that comes into being, or waits for it, sees it.
    let (mut watcher, mut waiter) = (server.client(), server.client());
    for other in [&mut watcher, &mut waiter] {
        other.ok("SELECT 5");
    }
    watcher.ok("WATCH a");
    watcher.ok("MULTI");
    watcher.ask("PING");
    client.ok("SELECT 0");
    client.ask("RPUSH list x y");
    waiter.send(&[b"BLPOP", b"list", b"0"]);
    wait_until("it waits", || client.info("blocked_clients") == "1");
    client.ok("STILLFRAME BRANCH 0 5");
    assert_eq!(waiter.reply().list()[1].text(), "x");
    assert_eq!(client.ask("LLEN list").int(), 2, "of the branch alone");
    assert_eq!(watcher.ask("EXEC"), crate::support::Reply::Null);
}
