//! Databases that are branches of others: they reply as copies do, and are copies in dumps, in the
//! log, and at replicas of both kinds.

use stillframe_peers::requests::ALL;

use crate::collections::redis;
use crate::mixed::{run_batch, same_digests};
use crate::replayed::contents;
use crate::replication::wait_for_all;
use crate::support::beside::Pair;
use crate::support::{
    Client, Kind, Random, Server, Setup, output_of, redis_is_here, rounds, wait_until,
};

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
            run_batch(pair, &ALL, random, history);
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
            run_batch(&mut pair, &ALL, &mut random, &mut history);
        }
        same_digests(&mut pair, &history);
        let digest = pair[1].ask("DEBUG DIGEST");
        // Of what is loaded again, large collections that share a part of their nodes are whole.
        let most = pair[1].info_int("used_memory_dataset") * 3 / 2 + (1 << 20);
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
        let bytes = pair[1].info_int("used_memory_dataset");
        assert!(bytes <= most, "{bytes} bytes of what was loaded again, at most {most}");
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

/// What a server counts of its data, in bytes.
fn dataset(server: &Server) -> i64 {
    server.client().info_int("used_memory_dataset")
}

/// Eight databases that share most keys, in two generations, so that keys have several classes.
fn fill_branches(client: &mut Client, keys: usize) {
    let value = "v".repeat(3000);
    for number in 0..keys {
        client.call(&[b"SET", format!("key:{number}").as_bytes(), value.as_bytes()]);
    }
    (1..5).for_each(|to| client.ok(&format!("STILLFRAME BRANCH 0 {to}")));
    client.ok("SELECT 0");
    for number in 0..20 {
        client.ok(&format!("SET young:{number} {number}"));
        client.ok(&format!("EXPIRE key:{number} 10000"));
    }
    (5..8).for_each(|to| client.ok(&format!("STILLFRAME BRANCH 0 {to}")));
    client.ok("SELECT 6");
    client.ok("RPUSH list a b c");
    client.ok("DEL key:100");
    client.ok("SELECT 0");
}

#[test]
fn branches_share_after_saves_and_restarts_and_at_replicas() {
    let test = "branches_share_after_saves_and_restarts_and_at_replicas";
    let keys = rounds(1500, 10_000);
    let limit = (keys * 3000 * 2).to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let log = ["--appendonly", "yes", "--enable-debug-command", "yes"];
    let limits = ["--maxmemory", &limit, "--maxmemory-policy", "allkeys-lru"];
    let setup = || Setup::new(Kind::Ours("imprint")).folder(folder.path()).flags(&log);
    let mut ours = setup().flags(&limits).start();
    let mut client = ours.client();
    client.ok("CONFIG SET repl-diskless-sync-delay 0");
    fill_branches(&mut client, keys);
    let (before, digest) = (dataset(&ours), client.ask("DEBUG DIGEST"));
    let most = before * 11 / 10;
    assert!(before < (keys * 3400 + (2 << 20)) as i64, "{before} bytes of {keys} keys");
    let more = client.info_int("mem_shared_by_databases");
    assert!(more > (keys * 3000 * 6) as i64, "{more} bytes are shared");

    let replica = Server::start(Kind::Ours("imprint"));
    replica.client().ok(&format!("REPLICAOF 127.0.0.1 {}", ours.port));
    wait_for_all(&ours, &replica);
    assert_eq!(replica.client().info_int("mem_shared_by_databases"), more);
    assert!(dataset(&replica) <= most, "{} bytes at the replica", dataset(&replica));
    assert_eq!(contents(&mut replica.client()), contents(&mut client), "a replica");

    client.ok("BGREWRITEAOF");
    client.wait_for_save();
    client.ok("SELECT 3");
    client.ok("SET key:5 changed");
    client.ok("STILLFRAME BRANCH 3 8");
    let digest = [digest, client.ask("DEBUG DIGEST")];
    drop(client);
    ours.kill();
    ours = setup().flags(&limits).start();
    let mut client = ours.client();
    assert_eq!(client.ask("DEBUG DIGEST"), digest[1], "what was logged behind the image");
    assert_eq!(client.info("evicted_keys"), "0");
    assert!(dataset(&ours) <= most, "{} bytes after a restart, {before} before", dataset(&ours));
    client.ok("DEBUG RELOAD");
    assert_eq!(client.ask("DEBUG DIGEST"), digest[1], "what was loaded again");
    assert!(dataset(&ours) <= most, "{} bytes after a reload, {before} before", dataset(&ours));
    if redis_is_here(test) {
        // For Redis, each database has all its keys, as a replica and in the file.
        let theirs = redis(None, "");
        theirs.client().ok(&format!("REPLICAOF 127.0.0.1 {}", ours.port));
        wait_for_all(&ours, &theirs);
        assert_eq!(theirs.client().ask("DEBUG DIGEST"), digest[1], "Redis as a replica");
        let copy = tempfile::tempdir().expect("a folder");
        std::fs::copy(ours.dump(), copy.path().join("dump.rdb")).expect("a copy of the dump");
        let theirs = redis(Some(copy.path()), "");
        assert_eq!(theirs.client().ask("DEBUG DIGEST"), digest[1], "the file in Redis");
    }
}

/// As in files that were made before they said what is shared.
#[test]
fn a_start_that_would_evict_what_was_shared_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = || Setup::new(Kind::Ours("imprint")).folder(folder.path());
    let ours = setup().start();
    let mut client = ours.client();
    fill_branches(&mut client, 500);
    client.ok("SAVE");
    let (dump, keys) = (ours.dump(), contents(&mut client));
    drop((client, ours));
    let mut file = std::fs::read(&dump).expect("a dump");
    let field = b"stillframe-branches";
    let at = file.windows(field.len()).position(|it| it == field).expect("the field is there");
    file[at] = b'S';
    let end = file.len() - 8;
    file[end..].fill(0);
    std::fs::write(&dump, file).expect("the dump is written");
    let limit = ["--maxmemory", "4mb", "--maxmemory-policy"];
    let command = setup().flags(&limit).flags(&["allkeys-lru"]).command(folder.path(), 0);
    let output = output_of(command);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("with maxmemory 4194304 the server would evict keys"), "{text}");
    // Without eviction it starts, and warns; what is there is whole.
    let ours = setup().flags(&limit).flags(&["noeviction"]).start();
    assert!(ours.log().contains("its databases shared keys"), "{}", ours.log());
    assert_eq!(contents(&mut ours.client()), keys);
    assert_eq!(ours.client().info("mem_shared_by_databases"), "0");
}
