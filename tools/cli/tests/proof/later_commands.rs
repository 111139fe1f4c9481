//! Commands that redis-server 7.0 does not have, beside the servers that have them; and what a
//! replica that does not know them makes of their effects.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use stillframe_peers::transcript::words;
use stillframe_peers::{Peer, are_here};

use crate::introspection::{document, info};
use crate::replayed::{Contents, contents};
use crate::replication::wait_for_link;
use crate::support::{Client, Kind, Reply, Server, Setup, redis_is_here, wait_until};
use crate::transcript::{compare, differences};

/// Transcripts of commands on data, which the commands play without a server.
const ON_DATA: &str = "../../redis/commands/src/command/tests/newer";
/// Those of commands on connections.
const ON_CONNECTIONS: &str = "tests/transcripts/newer";

fn file(folder: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(name)
}

#[test]
fn clients_are_told_apart_as_by_newer_servers() {
    for name in ["redis_8.txt", "redis_8_10.txt", "valkey_9.txt"] {
        compare(Kind::subject("imprint"), &file(ON_CONNECTIONS, name));
    }
}

#[test]
fn transcripts_of_redis_8_are_those_of_redis_8() {
    if are_here("transcripts (against Redis 8)", &[Peer::Redis8]) {
        for folder in [ON_DATA, ON_CONNECTIONS] {
            compare(Kind::Newer(Peer::Redis8), &file(folder, "redis_8.txt"));
        }
        compare(Kind::Newer(Peer::Redis8), &file(ON_DATA, "redis_8_fields.txt"));
    }
}

#[test]
fn transcripts_of_valkey_are_those_of_valkey() {
    if are_here("transcripts (against Valkey)", &[Peer::Valkey]) {
        for folder in [ON_DATA, ON_CONNECTIONS] {
            compare(Kind::Newer(Peer::Valkey), &file(folder, "valkey_9.txt"));
        }
        compare(Kind::Newer(Peer::Valkey), &file(ON_DATA, "valkey_9_fields.txt"));
    }
}

#[test]
fn transcripts_of_redis_8_10_are_those_of_redis_8_10() {
    if are_here("transcripts (against Redis 8.10)", &[Peer::Redis810]) {
        let theirs = Kind::Newer(Peer::Redis810);
        compare(theirs, &file(ON_CONNECTIONS, "redis_8_10.txt"));
        let on_data = [
            "redis_8.txt",
            "redis_8_fields.txt",
            "redis_8_10_fields.txt",
            "newest.txt",
            "newest_imported.txt",
            "arrays.txt",
        ];
        on_data.iter().for_each(|name| compare(theirs, &file(ON_DATA, name)));
        // Nodes of trees are estimates here.
        let producers = file(ON_DATA, "newest_producers.txt");
        let found = differences(theirs, &producers);
        assert!(found.iter().all(|it| it.contains("radix-tree-nodes")), "{found:?}");
        assert_eq!(found.len(), 2, "{found:?}");
    }
}

/// The map in the reply to HOTKEYS GET, and the names of its keys.
fn hot_keys(client: &mut Client) -> BTreeMap<String, Reply> {
    let reply = client.ask("HOTKEYS GET");
    let [all] = reply.list() else { panic!("{reply:?}") };
    all.list().chunks(2).map(|field| (field[0].text(), field[1].clone())).collect()
}

/// HOTKEYS GET shows the same: names in order, slots, and the bytes of each key.
#[test]
fn hot_keys_are_those_of_redis_8_10() {
    if !are_here("hot keys", &[Peer::Redis810]) {
        return;
    }
    let theirs = Kind::Newer(Peer::Redis810);
    let servers = [Kind::subject("imprint"), theirs].map(Server::start);
    let [ours, theirs] = servers.each_ref().map(|server| {
        let client = &mut server.client();
        client.ok("HOTKEYS START METRICS 2 CPU NET COUNT 4");
        for line in [
            "SET k v",
            "GET k",
            "GET none",
            "MGET k l m",
            "LPUSH l 1 2 3",
            "LRANGE l 0 -1",
            "GET l",
            "EVAL 'redis.call(\"SET\", \"inner\", 1) return 1' 1 k",
            "SORT l",
            "PING",
            "GET",
        ] {
            client.ask(line);
        }
        let running = hot_keys(client);
        client.ok("HOTKEYS STOP");
        client.ask("GET after");
        let stopped = hot_keys(client);
        let names = |keys: &Reply| -> Vec<String> {
            let mut names: Vec<String> = keys.list().chunks(2).map(|it| it[0].text()).collect();
            names.sort();
            names
        };
        let shown = |it: &BTreeMap<String, Reply>| {
            let fields: Vec<&String> = it.keys().collect();
            let (slots, active) = (&it["selected-slots"], it["tracking-active"].int());
            // Redis counts microseconds, and shows no key that took less than one.
            let (by_time, by_bytes) = (names(&it["by-cpu-time-us"]), &it["by-net-bytes"]);
            let all = names(by_bytes);
            assert!(by_time.iter().all(|name| all.contains(name)), "{by_time:?} {all:?}");
            assert!(server.kind == theirs || by_time == all, "{by_time:?} {all:?}");
            format!("{active} {fields:?} {slots:?} {by_bytes:?}")
        };
        assert_eq!(running["sample-ratio"].int(), 1);
        [shown(&running), shown(&stopped)]
    });
    assert_eq!(ours, theirs);
}

/// What Redis 7.0 does not have and 8.10 describes is described here in the same way.
#[test]
fn later_sub_commands_are_described_as_by_redis_8_10() {
    if !are_here("later sub-commands", &[Peer::Redis810]) {
        return;
    }
    let servers = [Kind::subject("imprint"), Kind::Newer(Peer::Redis810)].map(Server::start);
    let [ours, theirs] = servers.each_ref().map(|server| {
        let names = "hotkeys|get hotkeys|help hotkeys|reset hotkeys|start hotkeys|stop \
                     himport|discard himport|discardall himport|prepare himport|set \
                     cluster|migration cluster|myshardid cluster|slot-stats cluster|syncslots";
        let client = &mut server.client();
        let told = names.split(' ').map(|name| {
            let told = info(&client.ask(&format!("COMMAND INFO {name}")).list()[0]);
            // What follows SYNCSLOTS is the servers' own matter.
            let documents = client.ask(&format!("COMMAND DOCS {name}"));
            let document = (name != "cluster|syncslots").then(|| document(&documents.list()[1]));
            format!("{told:?} {document:?}")
        });
        told.collect::<Vec<_>>()
    });
    assert_eq!(ours, theirs);
}

/// What Redis 7.0 does not have and 8.10 has: flags, categories and keys are the same.
#[test]
fn later_commands_are_those_of_redis_8_10() {
    if !are_here("later commands", &[Peer::Redis810]) {
        return;
    }
    let servers = [Kind::subject("imprint"), Kind::Newer(Peer::Redis810)].map(Server::start);
    let [ours, theirs] = &mut servers.each_ref().map(Server::client);
    let theirs_since = since(theirs);
    let later = since(ours).into_iter().filter(|(_, since)| number(since) > vec![7, 0, 99]);
    let both: Vec<String> =
        later.map(|(name, _)| name).filter(|name| theirs_since.contains_key(name)).collect();
    assert!(both.len() > 20, "{both:?}");
    for name in both {
        let [here, there] = [&mut *ours, &mut *theirs]
            .map(|client| info(&client.ask(&format!("COMMAND INFO {name}")).list()[0]));
        if name != "hotkeys" {
            assert_eq!(here, there, "{name}");
        }
    }
}

/// INFO says what is paused, and why.
#[test]
fn pauses_are_shown_as_by_valkey() {
    if !are_here("pauses", &[Peer::Valkey]) {
        return;
    }
    let shown = [Kind::subject("imprint"), Kind::Newer(Peer::Valkey)].map(|kind| {
        let server = Server::start(kind);
        let mut client = server.client();
        let mut seen = Vec::new();
        for line in ["PING", "CLIENT PAUSE 1000000 WRITE", "CLIENT UNPAUSE"] {
            client.ask(line);
            let left = client.info("paused_timeout_milliseconds") != "0";
            seen.push((client.info("paused_reason"), client.info("paused_actions"), left));
        }
        seen
    });
    assert_eq!(shown[0], shown[1]);
}

/// Since when a server has each of its commands, as COMMAND DOCS says it.
fn since(client: &mut Client) -> BTreeMap<String, String> {
    let documents = client.ask("COMMAND DOCS");
    let documents = documents.list().chunks(2);
    let since = |document: &Reply| {
        let fields = document.list().chunks(2);
        fields.filter(|it| it[0].text() == "since").map(|it| it[1].text()).next()
    };
    documents.filter_map(|it| Some((it[0].text(), since(&it[1])?))).collect()
}

fn number(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().expect("a number")).collect()
}

/// The table of commands says what these servers have, and since when; COMMAND DOCS here says the
/// same. Versions are those of Redis; Valkey may have a command later than that.
#[test]
fn lists_of_commands_are_those_of_the_servers() {
    let facts = "../../redis/commands/src/facts";
    let ours = since(&mut Setup::new(Kind::subject("imprint")).start().client());
    for (peer, name) in [(Peer::Redis8, "redis_8.txt"), (Peer::Valkey, "valkey_9.txt")] {
        if are_here("a list of commands", &[peer]) {
            let text = fs::read_to_string(file(facts, name)).expect("a list");
            let listed = text.lines().filter(|line| !line.starts_with('#'));
            let listed = listed.map(|line| line.split_once(' ').unwrap_or((line, "")));
            let server = Setup::new(Kind::Newer(peer)).start();
            let reply = server.client().ask("COMMAND LIST");
            let mut names: Vec<String> = reply.list().iter().map(Reply::text).collect();
            names.retain(|name| !name.contains('|'));
            names.sort();
            assert_eq!(listed.clone().map(|(name, _)| name).collect::<Vec<_>>(), names, "{name}");
            let theirs = since(&mut server.client());
            for (command, own) in listed {
                let shown = ours.get(command).map_or(own, String::as_str);
                let told = theirs.get(command).filter(|_| !shown.is_empty());
                let Some(told) = told else { continue };
                let is_later = peer == Peer::Valkey && number(told) > number(shown);
                assert!(shown == told || own.is_empty() && is_later, "{command}: {shown}, {told}");
            }
        }
    }
}

/// Logs and replicas receive requests that Redis 7.0 knows.
#[test]
fn replicas_of_redis_7_0_follow_newer_commands() {
    if redis_is_here("a replica of newer commands") {
        follow(
            Kind::Redis,
            &["redis_8.txt", "valkey_9.txt", "newest.txt", "newest_imported.txt"],
            200,
            contents,
        );
    }
}

/// What no other server knows yet: messages of producers, and entries that are released.
#[test]
fn replicas_of_this_kind_follow_what_only_they_know() {
    follow(Kind::Ours("imprint"), &["newest_producers.txt", "arrays.txt"], 300, contents);
}

/// A command of Redis 8.10 or Valkey 9.1 is here, or its error says that it is known and absent. A
/// rule of either server's ACL file is taken, and allows nothing that is not here.
#[test]
fn commands_of_later_servers_are_here_or_absent_by_name() {
    for peer in [Peer::Redis810, Peer::Valkey] {
        if !are_here("commands of later servers", &[peer]) {
            continue;
        }
        let servers = [Kind::Newer(peer), Kind::subject("imprint")].map(Server::start);
        let [theirs, ours] = &mut servers.each_ref().map(Server::client);
        let [listed, own] = [&mut *theirs, &mut *ours].map(|client| client.ask("COMMAND LIST"));
        let [listed, own] = [listed, own]
            .map(|names| names.list().iter().map(Reply::text).collect::<Vec<String>>());
        let absent = || listed.iter().filter(|name| !own.contains(name));
        for name in absent().filter(|name| !name.contains('|')) {
            let why = ours.ask(name).text();
            let is_named = ["not supported", "cluster"].iter().any(|word| why.contains(word));
            assert!(is_named, "{name}: {why}");
        }
        ours.ok("ACL SETUSER later");
        for name in absent() {
            ours.ok(&format!("ACL SETUSER later +{name} -{name}"));
            if name != "restore-asking" {
                ours.ok(&format!("ACL SETUSER later +{name}"));
            }
        }
        for category in theirs.ask("ACL CAT").list().iter().map(Reply::text) {
            ours.ok(&format!("ACL SETUSER all +@{category} -@{category}"));
        }
        assert_eq!(ours.ask("ACL GETUSER later").list()[5].text(), "-@all");
    }
}

/// Those of fields that expire know Redis from 7.4 on and Valkey from 9 on.
#[test]
fn replicas_of_later_servers_follow_fields_that_expire() {
    let redis = [Peer::Redis74, Peer::Redis8, Peer::Redis82, Peer::Redis86, Peer::Redis810];
    for peer in redis.into_iter().chain([Peer::Valkey]) {
        if are_here("a replica with fields that expire", &[peer]) {
            let files = ["redis_8_fields.txt", "redis_8_10_fields.txt", "valkey_9_fields.txt"];
            follow(Kind::Newer(peer), &files, 150, contents_and_deadlines);
        }
    }
}

/// All that a server holds, and when fields expire.
pub(crate) fn contents_and_deadlines(client: &mut Client) -> Contents {
    let mut all = contents(client);
    for db in 0..2 {
        client.ok(&format!("SELECT {db}"));
        let keys = client.ask("KEYS *");
        for key in keys.list().iter().filter_map(Reply::bytes) {
            let fields = client.call(&[b"HKEYS", key]);
            if matches!(fields, Reply::Error(_)) {
                continue;
            }
            let mut fields: Vec<&[u8]> = fields.list().iter().filter_map(Reply::bytes).collect();
            fields.sort();
            let count = fields.len().to_string();
            let head: [&[u8]; 4] = [b"HPEXPIRETIME", key, b"FIELDS", count.as_bytes()];
            let deadlines = client.call(&[&head[..], &fields].concat());
            all.insert(
                (db, format!("{} (deadlines)", key.escape_ascii())),
                format!("{deadlines:?}"),
            );
        }
    }
    client.ok("SELECT 0");
    all
}

/// After each request of these transcripts a server of another kind that follows holds the same,
/// and so does a server that replays the log.
fn follow(kind: Kind, files: &[&str], at_least: usize, contents: fn(&mut Client) -> Contents) {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = || Setup::new(Kind::Ours("imprint")).folder(folder.path());
    let flags = ["--appendonly", "yes", "--repl-diskless-sync-delay", "0"];
    let mut primary = setup().flags(&flags).start();
    let replica = Setup::new(kind).start();
    let (mut ours, mut theirs) = (primary.client(), replica.client());
    theirs.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    wait_until("the replica follows", || theirs.info("master_link_status") == "up");
    let mut compared = 0;
    for name in files {
        ours.ok("FLUSHALL");
        let text = fs::read_to_string(file(ON_DATA, name)).expect("a transcript");
        for line in text.lines().filter_map(|line| line.strip_prefix("a> ")) {
            let words = words(line);
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            ours.call(&words);
            ours.call(&[b"SET", b"mark", compared.to_string().as_bytes()]);
            assert_eq!(ours.ask("WAIT 1 0").int(), 1);
            let [here, there] = [&mut ours, &mut theirs].map(contents);
            assert_eq!(here, there, "{name}: {line}: ours, then the replica's ({kind:?})");
            ours.ok("SELECT 0");
            compared += 1;
        }
    }
    assert!(compared > at_least, "{compared}");
    let before = contents(&mut ours);
    assert_eq!(ours.ask("WAITAOF 1 0 0").list()[0].int(), 1);
    primary.kill();
    let again = setup().flags(&flags).start();
    assert_eq!(contents(&mut again.client()), before, "after a replay of the log");
}

/// What WAITAOF has answered for outlives a kill, whatever the policy of the log.
#[test]
fn what_waitaof_answers_for_outlives_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = || {
        let setup = Setup::new(Kind::Ours("imprint")).folder(folder.path());
        setup.flags(&["--appendonly", "yes", "--appendfsync", "everysec"]).start()
    };
    let numbers = |reply: Reply| reply.list().iter().map(Reply::int).collect::<Vec<i64>>();
    let mut server = setup();
    for round in 0..3 {
        let mut client = server.client();
        client.ok(&format!("CONFIG SET appendfsync {}", ["no", "everysec", "always"][round]));
        for key in 0..20 {
            client.ok(&format!("SET {round}:{key} v"));
            assert_eq!(numbers(client.ask("WAITAOF 1 0 0")), [1, 0]);
        }
        assert_eq!(numbers(client.ask("WAITAOF 1 1 20")), [1, 0], "there is no replica");
        client.ok("MULTI");
        client.ask("SET last v");
        client.ask("WAITAOF 1 0 0");
        let replies = client.ask("EXEC");
        assert_eq!(numbers(replies.list()[1].clone()), [0, 0], "a transaction does not wait");
        assert_eq!(numbers(client.ask("WAITAOF 1 0 0")), [1, 0]);
        server.kill();
        server = setup();
        assert_eq!(server.client().ask("DBSIZE").int(), 20 * (round as i64 + 1) + 1);
    }
}

#[test]
fn waitaof_ends_when_the_log_is_switched_off() {
    let server = Setup::new(Kind::Ours("imprint")).flags(&["--appendonly", "yes"]).start();
    let [mut client, mut waiting] = [server.client(), server.client()];
    let huge = client.ask(&format!("WAITAOF 0 1 {}", i64::MAX));
    assert_eq!(huge.text(), "ERR timeout is out of range");
    assert!(waiting.send_raw(b"WAITAOF 1 1 0\r\n"));
    wait_until("it waits", || client.info("blocked_clients") == "1");
    client.ok("CONFIG SET appendonly no");
    let reply = waiting.raw();
    let wanted =
        b"-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.\r\n";
    assert_eq!(reply.escape_ascii().to_string(), wanted.escape_ascii().to_string());
}

/// Replicas of both kinds report what is on their disks.
#[test]
fn waitaof_counts_the_disks_of_replicas() {
    let mut kinds = vec![Kind::Ours("imprint")];
    let peers = [Peer::Redis8, Peer::Valkey];
    let here = peers.into_iter().filter(|&peer| are_here("WAITAOF with a replica", &[peer]));
    kinds.extend(here.map(Kind::Newer));
    for kind in kinds {
        let flags = ["--repl-diskless-sync-delay", "0"];
        let primary = Setup::new(Kind::Ours("imprint")).flags(&flags).start();
        let replica = Setup::new(kind).flags(&["--appendonly", "yes"]).start();
        let (mut ours, mut theirs) = (primary.client(), replica.client());
        theirs.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
        wait_until("the replica follows", || theirs.info("master_link_status") == "up");
        for key in 0..3 {
            ours.ok(&format!("SET {key} v"));
            let reply = ours.ask("WAITAOF 0 1 0");
            assert_eq!(reply.list().iter().map(Reply::int).collect::<Vec<_>>(), [0, 1], "{kind:?}");
        }
        assert_eq!(theirs.ask("DBSIZE").int(), 3);
        // What has no log is on no disk.
        theirs.ok("CONFIG SET appendonly no");
        ours.ok("SET 3 v");
        assert_eq!(ours.ask("WAIT 1 0").int(), 1);
        let reply = ours.ask("WAITAOF 0 1 50");
        assert_eq!(reply.list().iter().map(Reply::int).collect::<Vec<_>>(), [0, 0], "{kind:?}");
    }
}

/// What a replica of ours has reported to be on its disk is there after a kill.
#[test]
fn what_a_replica_has_reported_outlives_a_kill() {
    let mut kinds = vec![Kind::Ours("imprint")];
    if are_here("WAITAOF of Redis 8 with a replica", &[Peer::Redis8]) {
        kinds.push(Kind::Newer(Peer::Redis8));
    }
    for kind in kinds {
        let folder = tempfile::tempdir().expect("a folder");
        let ours = || Setup::new(Kind::Ours("imprint")).folder(folder.path());
        let flags = ["--appendonly", "yes", "--appendfsync", "everysec"];
        let primary = Setup::new(kind).flags(&["--repl-diskless-sync-delay", "0"]).start();
        let mut replica = ours().flags(&flags).start();
        let follow = format!("REPLICAOF 127.0.0.1 {}", primary.port);
        replica.client().ok(&follow);
        if kind != Kind::Ours("imprint") {
            // Redis counts a replica that still loads for writes from before its stream began.
            wait_for_link(&replica);
        }
        let mut client = primary.client();
        for round in 0..3 {
            for key in 0..20 {
                client.ok(&format!("SET {round}:{key} v"));
            }
            let reply = client.ask("WAITAOF 0 1 0");
            assert_eq!(reply.list().iter().map(Reply::int).collect::<Vec<_>>(), [0, 1], "{kind:?}");
            replica.kill();
            replica = ours().flags(&flags).start();
            assert_eq!(replica.client().ask("DBSIZE").int(), 20 * (round + 1), "{kind:?}");
            replica.client().ok(&follow);
        }
    }
}
