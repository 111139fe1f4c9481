//! Later servers of Redis and Valkey: their files, logs, payloads and streams come in, and ours go
//! back.

mod arrays;
mod expiring;
mod messages;
mod released;
mod templates;

use std::fs;
use std::path::Path;
use std::time::Duration;

use stillframe_rdb::Crc64;

use crate::collections::debugged;
use crate::replayed::{Contents, assert_same_contents, contents_by};
use crate::replication::{
    Who, assert_same, delete_idle_consumers, fill, wait_for_all, wait_for_link, wait_for_stream,
};
use crate::support::{
    Client, Kind, Peer, Random, Reply, Server, Setup, are_here, encode, rounds, stillframe,
    wait_until,
};
use expiring::under_load;

/// All of them.
const ALL: [Peer; 8] = [
    Peer::Redis72,
    Peer::Redis74,
    Peer::Redis8,
    Peer::Redis82,
    Peer::Redis86,
    Peer::Redis810,
    Peer::Valkey8,
    Peer::Valkey,
];

/// Those that are here.
fn peers(test: &str) -> Vec<Peer> {
    ALL.into_iter().filter(|&peer| are_here(test, &[peer])).collect()
}

/// Whether fields of hashes may expire there.
fn knows_fields(peer: Peer) -> bool {
    !matches!(peer, Peer::Redis72 | Peer::Valkey8)
}

/// Whether it may be of a later version by what it announces, and is not: a first image is lost on
/// it.
fn is_tried(peer: Peer) -> bool {
    matches!(peer, Peer::Redis8 | Peer::Redis82 | Peer::Redis86)
}

fn is_valkey(peer: Peer) -> bool {
    matches!(peer, Peer::Valkey8 | Peer::Valkey)
}

/// All that a server holds, the times of fields included. Scores as numbers: from 7.2 on Redis
/// shows them in the shortest form.
pub(crate) fn contents(client: &mut Client) -> Contents {
    let shortest = |score: &Reply| {
        let number: f64 = score.text().parse().expect("a score");
        Reply::Text(number.to_string().into_bytes())
    };
    let mut found = contents_by(client, |client, words| {
        let reply = client.call(words);
        match words {
            [b"ZRANGE", ..] => {
                let pairs = reply.list().chunks(2);
                Reply::List(pairs.flat_map(|pair| [pair[0].clone(), shortest(&pair[1])]).collect())
            }
            [b"HGETALL", key] => expiring::with_times(client, key, &reply),
            [b"XINFO", b"STREAM", ..] => without_unused_facts(&reply),
            _ => reply,
        }
    });
    // A hash whose last field has expired is there until its server deletes it.
    found.retain(|_, value| !value.ends_with(" hash "));
    found
}

/// What Redis from 8.6 on tells of producers on every stream, and this server on those with such.
const UNUSED: [(&str, i64); 6] = [
    ("idmp-duration", 100),
    ("idmp-maxsize", 100),
    ("pids-tracked", 0),
    ("iids-tracked", 0),
    ("iids-added", 0),
    ("iids-duplicates", 0),
];

/// The facts of a stream, but for those of producers where it never had one.
fn without_unused_facts(reply: &Reply) -> Reply {
    let is_unused = |fact: &&[Reply]| {
        UNUSED.iter().any(|&(name, value)| fact[0].text() == name && fact[1] == Reply::Int(value))
    };
    let facts: Vec<&[Reply]> = reply.list().chunks(2).collect();
    let never = facts.iter().filter(|fact| is_unused(fact)).count() == UNUSED.len();
    let kept = facts.into_iter().filter(|fact| !never || !is_unused(fact));
    Reply::List(kept.flatten().cloned().collect())
}

/// Both hold the same.
fn assert_equal(primary: &Server, replica: &Server) {
    assert_same(primary, replica, contents);
}

/// What the servers of a peer call images over a connection of their own.
fn channel(peer: Peer) -> &'static str {
    match peer {
        Peer::Redis8 | Peer::Redis82 | Peer::Redis86 | Peer::Redis810 => "--repl-rdb-channel yes",
        Peer::Valkey8 | Peer::Valkey => "--dual-channel-replication-enabled yes",
        _ => "",
    }
}

/// Has no key and no field expire while a test compares.
fn keep_all(client: &mut Client) {
    let is_near = |reply: &Reply| (0..3_600_000).contains(&reply.int());
    for db in 0..16 {
        client.ok(&format!("SELECT {db}"));
        let keys = client.ask("KEYS *");
        for key in keys.list().iter().filter_map(Reply::bytes) {
            if is_near(&client.call(&[b"PTTL", key])) {
                client.call(&[b"PERSIST", key]);
            }
            if client.call(&[b"TYPE", key]).text() != "hash" {
                continue;
            }
            let fields = client.call(&[b"HKEYS", key]);
            for field in fields.list().iter().filter_map(Reply::bytes) {
                let left = client.call(&[b"HPTTL", key, b"FIELDS", b"1", field]);
                let is_timed = matches!(left, Reply::List(_)); // others have no such command
                if is_timed && left.list().first().is_some_and(is_near) {
                    client.call(&[b"HPERSIST", key, b"FIELDS", b"1", field]);
                }
            }
        }
    }
    client.ok("SELECT 0");
}

/// Hashes with a field that expires, and that once had one, in both forms; and a set of words.
fn add_new_forms(client: &mut Client) {
    for line in [
        "HSET persisted f v g w",
        "HEXPIRE persisted 1000 FIELDS 1 f",
        "HPERSIST persisted FIELDS 1 f",
        "HSET timed f v g w h 7",
        "HPEXPIREAT timed 4000000000000 FIELDS 1 g",
        "HPEXPIREAT timed 3000000000000 FIELDS 1 h",
        "CONFIG SET hash-max-listpack-entries 1",
        "HSET persisted-table f v g w",
        "HEXPIRE persisted-table 1000 FIELDS 1 f",
        "HPERSIST persisted-table FIELDS 1 f",
        "HSET timed-table f v g w h 7",
        "HPEXPIREAT timed-table 4000000000000 FIELDS 2 g h",
        "CONFIG SET hash-max-listpack-entries 128",
        "SADD words a b 7",
        "XADD entries 5-1 f v",
        "XGROUP CREATE entries group 0",
        "XREADGROUP GROUP group consumer STREAMS entries >",
    ] {
        client.ask(line);
    }
}

#[test]
fn files_of_newer_servers_are_served_and_ours_by_them() {
    for peer in peers("files_of_newer_servers_are_served_and_ours_by_them") {
        let mut random = Random::new("files of newer servers");
        let source = Who::Newer(peer).start("");
        fill(&source, &mut random, 300);
        let mut client = source.client();
        expiring::fill(&source, &mut random, 300);
        keep_all(&mut client);
        add_new_forms(&mut client);
        client.ok("SAVE");
        let expected = contents(&mut client);
        let has = |name: &str| expected.keys().any(|(_, key)| key == name);
        assert!(has("persisted-table") && has("timed-table"), "{peer:?}");
        let checked = stillframe(&["check", &source.dump().display().to_string()]);
        assert!(checked.status.success(), "{peer:?}: {checked:?}");
        let data = tempfile::tempdir().expect("a folder");
        fs::copy(source.dump(), data.path().join("dump.rdb")).expect("the dump was written");
        let ours = Setup::new(Kind::Ours("imprint")).folder(data.path()).start();
        let mut client = ours.client();
        let served = contents(&mut client);
        assert_same_contents(&expected, &served, &format!("{peer:?}: what we serve"));
        if peer == Peer::Valkey {
            client.ok("CONFIG SET rdb-version 80");
        }
        client.ok("SAVE");
        let folder = tempfile::tempdir().expect("a folder");
        fs::copy(ours.dump(), folder.path().join("dump.rdb")).expect("the dump was written");
        let back = debugged(Kind::Newer(peer), Some(folder.path()), "");
        let served = contents(&mut back.client());
        assert_same_contents(&expected, &served, &format!("{peer:?}: what it serves"));
    }
}

/// Redis 7.2.4 and 7.4.1 merge a sketch with bytes behind its last register; earlier and later
/// servers refuse it, this one, too.
fn is_of_a_long_sketch(peer: Peer, line: &str) -> bool {
    let merges = matches!(peer, Peer::Redis72 | Peer::Redis74);
    merges && line.contains("PFMERGE") && line.contains("INVALIDOBJ Corrupted HLL")
}

#[test]
fn we_follow_newer_servers_under_load_and_end_equal() {
    for peer in peers("we_follow_newer_servers_under_load_and_end_equal") {
        let mut random = Random::new("we follow newer servers");
        let ways = ["--repl-diskless-sync yes", "--repl-diskless-sync no", channel(peer)];
        for flags in ways {
            let primary = Who::Newer(peer).start(flags);
            fill(&primary, &mut random, 300);
            let replica = under_load(&primary, peer, &mut random, || {
                let replica = Who::Ours.follow(primary.port);
                wait_for_link(&replica);
                (0..rounds(5, 150)).for_each(|_| wait_for_stream(&replica));
                replica
            });
            println!("{peer:?} {flags}");
            primary.client().ask("HINCRBYFLOAT float f 0.5");
            assert_equal(&primary, &replica);
            // Not by another image after a command that was unknown.
            let log = replica.log();
            let mut refused = log.lines().filter(|line| line.contains("of its stream"));
            assert!(refused.all(|line| is_of_a_long_sketch(peer, line)), "{log}");
            // And back: the old primary follows ours.
            replica.client().ok("REPLICAOF NO ONE");
            under_load(&replica, peer, &mut random, || {
                primary.client().ok(&format!("REPLICAOF 127.0.0.1 {}", replica.port));
                wait_for_link(&primary);
            });
            assert_equal(&replica, &primary);
        }
    }
}

#[test]
fn newer_servers_follow_us_under_load_and_end_equal() {
    for peer in peers("newer_servers_follow_us_under_load_and_end_equal") {
        let mut random = Random::new("newer servers follow us");
        for flags in ["", channel(peer)] {
            let primary = Who::Ours.start("");
            fill(&primary, &mut random, 300);
            let replica = Who::Newer(peer).start(flags);
            under_load(&primary, peer, &mut random, || {
                replica.client().ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
                wait_for_link(&replica);
            });
            println!("{peer:?} {flags}");
            assert_equal(&primary, &replica);
            // A failover back and forth loses no write and needs no image.
            primary.client().ok(&format!("FAILOVER TO 127.0.0.1 {}", replica.port));
            wait_until("the newer server is the primary", || {
                replica.client().info("role") == "master"
            });
            wait_for_all(&replica, &primary);
            replica.client().ok("SET written-there 1");
            assert_equal(&replica, &primary);
        }
    }
}

/// Valkey from 8 on, and Redis where it frees in the background, say UNLINK for keys that end by
/// themselves, where this server says DEL.
#[test]
fn keys_that_end_by_themselves_end_at_replicas_both_ways() {
    let test = "keys_that_end_by_themselves_end_at_replicas_both_ways";
    let lazily = ["expire", "eviction", "server-del", "user-del"]
        .map(|what| format!("--lazyfree-lazy-{what} yes"))
        .join(" ");
    for peer in peers(test) {
        for [leader, follower] in [[Who::Newer(peer), Who::Ours], [Who::Ours, Who::Newer(peer)]] {
            let [primary, replica] = [leader, follower].map(|who| who.start(&lazily));
            replica.client().ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
            wait_for_link(&replica);
            let mut client = primary.client();
            for line in [
                "MSET text 1 looked 1 past 1 ended 1 renamed 1 target 1",
                "RPUSH list a b c",
                "SADD set a b c",
                "HSET hash f v",
                "ZADD sorted 1 a",
                "XADD stream 1-1 f v",
                "PEXPIRE looked 1",
                "PEXPIRE list 1",
                "PEXPIRE stream 1",
                "PEXPIREAT past 1",
                "GETEX ended PXAT 1",
                "RENAME renamed target",
                "SINTERSTORE set none other",
                "SPOP set 9",
                "ZREMRANGEBYRANK sorted 0 -1",
                "SET text 1 PXAT 1",
                "UNLINK hash none",
                "DEL target",
            ] {
                client.ask(line);
            }
            std::thread::sleep(Duration::from_millis(5));
            client.ask("GET looked");
            wait_until("all have ended", || client.ask("DBSIZE").int() == 0);
            assert_equal(&primary, &replica);
            // What must go for want of memory.
            (0..50).for_each(|n| client.ok(&format!("SET {n} {n}")));
            client.ok("CONFIG SET maxmemory-policy allkeys-random");
            client.ok("CONFIG SET maxmemory 1");
            client.ask("SET more 1");
            client.ok("CONFIG SET maxmemory 0");
            assert!(client.ask("DBSIZE").int() < 50, "some were evicted");
            assert_equal(&primary, &replica);
            let said = primary.client().ask("INFO commandstats").text();
            let got = replica.client().ask("INFO commandstats").text();
            let unlinks = leader != Who::Ours;
            assert!(said.contains("cmdstat_unlink:calls=1,") && got.contains("cmdstat_unlink"));
            assert_eq!(got.contains("cmdstat_unlink:calls=1,"), !unlinks, "{peer:?}: {got}");
        }
    }
}

#[test]
fn keys_migrate_both_ways() {
    for peer in peers("keys_migrate_both_ways") {
        let [theirs, ours] = [Who::Newer(peer), Who::Ours].map(|who| who.start(""));
        add_new_forms(&mut theirs.client());
        for line in ["SET text v", "RPUSH list a b", "ZADD zset 1 a", "SET passing v EX 9999"] {
            theirs.client().ask(line);
        }
        let all =
            "persisted persisted-table timed timed-table words entries text list zset passing";
        let expected = contents(&mut theirs.client());
        assert_eq!(expected.len(), 10, "{peer:?}: {expected:?}");
        for (from, to) in [(&theirs, &ours), (&ours, &theirs)] {
            let line = format!("MIGRATE 127.0.0.1 {} EMPTY 0 5000 KEYS {all}", to.port);
            let words: Vec<&[u8]> =
                line.split(' ').map(|it| if it == "EMPTY" { b"" } else { it.as_bytes() }).collect();
            assert_eq!(from.client().call(&words).text(), "OK", "{peer:?}");
            assert_eq!(from.client().ask("DBSIZE").int(), 0, "{peer:?}");
            assert_eq!(contents(&mut to.client()).len(), 10, "{peer:?}");
        }
        let found = contents(&mut theirs.client());
        for (key, value) in &expected {
            assert!(key.1 == "passing" || found.get(key) == Some(value), "{peer:?}: {key:?}");
        }
    }
}

#[test]
fn append_only_directories_of_newer_servers_are_imported() {
    for peer in peers("append_only_directories_of_newer_servers_are_imported") {
        for preamble in ["yes", "no"] {
            let mut random = Random::new("append-only directories of newer servers");
            let flags = format!(
                "--appendonly yes --appendfsync always --aof-use-rdb-preamble {preamble} \
                 --aof-timestamp-enabled yes"
            );
            let mut source = Who::Newer(peer).start(&flags);
            let mut client = source.client();
            fill(&source, &mut random, 200);
            expiring::fill(&source, &mut random, 200);
            client.ok("BGREWRITEAOF");
            wait_until("the rewrite has ended", || {
                client.info("aof_rewrite_in_progress") == "0"
                    && client.info("aof_rewrite_scheduled") == "0"
            });
            fill(&source, &mut random, 200);
            expiring::fill(&source, &mut random, 200);
            keep_all(&mut client);
            delete_idle_consumers(&mut client); // their log does not tell of all of them
            let expected = contents(&mut client);
            source.kill();
            let folder = tempfile::tempdir().expect("a folder");
            let to = folder.path().display().to_string();
            let output =
                stillframe(&["import", &source.folder.display().to_string(), "--dir", &to]);
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{peer:?}, preamble {preamble}: {text}");
            let ours = Setup::new(Kind::Ours("imprint")).folder(folder.path()).start();
            let found = contents(&mut ours.client());
            let differs = expected.iter().find(|(key, value)| found.get(*key) != Some(value));
            let theirs = differs.map(|(key, _)| found.get(key));
            assert!(
                found == expected,
                "{peer:?}, preamble {preamble}: {differs:?}, not {theirs:?}"
            );
        }
    }
}

/// Redis 8 logs and replicates HINCRBYFLOAT so.
#[test]
fn what_redis_8_writes_for_hincrbyfloat_is_replayed() {
    let folder = tempfile::tempdir().expect("a folder");
    let [from, to] = ["their.aof", "data"].map(|name| folder.path().join(name));
    let mut bytes = Vec::new();
    for request in [
        "HSET h f 1 g 2",
        "HPEXPIREAT h 4000000000000 FIELDS 2 f g",
        "HSETEX h KEEPTTL FIELDS 1 f 1.5",
        "HSETEX h PXAT 4000000000001 FIELDS 1 g 3",
    ] {
        let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        encode(&words, &mut bytes);
    }
    fs::write(&from, bytes).expect("a file");
    let [from, to] = [&from, &to].map(|path| path.display().to_string());
    let output = stillframe(&["import", &from, "--dir", &to]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let ours = Setup::new(Kind::Ours("imprint")).folder(Path::new(&to)).start();
    let mut client = ours.client();
    assert_eq!(
        client.ask("HMGET h f g").list().iter().map(Reply::text).collect::<Vec<_>>(),
        ["1.5", "3"]
    );
    let times = client.ask("HPEXPIRETIME h FIELDS 2 f g");
    assert_eq!(
        times,
        Reply::List(vec![Reply::Int(4_000_000_000_000), Reply::Int(4_000_000_000_001)])
    );
}

/// A file of Redis 8.8 by hand: data of a module, a string, a value of a module, a set.
fn file_with_modules() -> Vec<u8> {
    let parts: [&[u8]; 4] = [
        b"REDIS0014\xf7\x01\x02\x01\x02\x01\x00",
        b"\x00\x04text\x01v",
        b"\x07\x06module\x81\x00\x00\x00\x00\x00\x00\x00\x01\x02\x06\x05\x01s\x00",
        b"\x02\x03set\x01\x01x\xff",
    ];
    let mut file = parts.concat();
    let mut checksum = Crc64::new();
    checksum.update(&file);
    file.extend_from_slice(&checksum.value().to_le_bytes());
    file
}

#[test]
fn values_of_modules_are_refused_by_key_or_left_out_with_a_count() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = folder.path().join("theirs.rdb");
    fs::write(&from, file_with_modules()).expect("a file");
    let [from, to] = [from, folder.path().join("data")].map(|path| path.display().to_string());
    let import = |more: &[&str]| {
        let output = stillframe(&[&["import", &from, "--dir", &to], more].concat());
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (_, refused) = import(&[]);
    assert!(refused.contains("data of module type \"AAAAAAAAA\""), "{refused}");
    let (done, text) = import(&["--skip-modules"]);
    let value =
        "values left out: 1; the first is a value of a module, key \"module\" of database 0";
    assert!(done && text.contains(value), "{text}");
    assert!(text.contains("sections with data of modules left out: 1"), "{text}");
    let ours = Setup::new(Kind::Ours("imprint")).folder(Path::new(&to)).start();
    let keys: Vec<_> = contents(&mut ours.client()).into_keys().collect();
    assert_eq!(keys, [(0, "set".to_owned()), (0, "text".to_owned())]);
}
