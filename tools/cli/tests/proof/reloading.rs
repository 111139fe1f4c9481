//! Data that is loaded again: by DEBUG RELOAD beside a log, and under limits that are meant for
//! clients and bind nobody else.

use crate::journal::server;
use crate::replication::wait_for_link;
use crate::support::{Client, Kind, Random, Reply, Server, Setup, rounds, stillframe, wait_until};
use std::fs;

fn digest(client: &mut Client) -> String {
    client.ask("DEBUG DIGEST").text()
}

const DEBUG: &str = "enable-debug-command yes\n";

/// What takes all data away, brings other data, or puts an image in the log's place.
const UPHEAVALS: [&str; 13] = [
    "DEBUG LOADAOF",
    "DEBUG RELOAD",
    "DEBUG RELOAD NOSAVE",
    "DEBUG RELOAD NOSAVE NOFLUSH",
    "DEBUG RELOAD MERGE NOFLUSH",
    "DEBUG RELOAD NOFLUSH NOSAVE MERGE",
    "FLUSHALL",
    "FLUSHDB",
    "SWAPDB 0 1",
    "SAVE",
    "BGREWRITEAOF",
    "CONFIG SET appendonly no",
    "CONFIG SET appendonly yes",
];

/// What leaves the data as it is, if a log counts.
const HARMLESS: [&str; 4] = ["DEBUG LOADAOF", "DEBUG RELOAD", "SAVE", "BGREWRITEAOF"];

fn change(client: &mut Client, random: &mut Random) {
    let key = random.below(5);
    let line = match random.below(6) {
        0 => format!("INCR n{key}"),
        1 => format!("RPUSH l{key} {key}"),
        2 => format!("SADD s{key} {}", random.below(9)),
        3 => format!("DEL n{key} l{key}"),
        4 => format!("LPOP l{key}"),
        _ => format!("SETRANGE t{key} {} x", random.below(20)),
    };
    client.ok(&line);
}

/// After each of them and some acknowledged writes, kill -9 loses nothing and a start succeeds.
#[test]
fn a_kill_after_a_reload_brings_back_what_was_there() {
    let mut random = Random::new("reload");
    let folder = tempfile::tempdir().expect("a folder");
    let start = || server("always", folder.path()).config(DEBUG).start();
    let mut running = start();
    let mut client = running.client();
    let mut history = Vec::new();
    client.ok("SET k v");
    client.ok("SAVE");
    let all = rounds(60, 1_000);
    for round in 0..all {
        for _ in 0..random.below(4) {
            change(&mut client, &mut random);
        }
        // Each of them alone first.
        let upheaval = UPHEAVALS.get(round).copied();
        let upheaval = upheaval.unwrap_or_else(|| random.pick(&UPHEAVALS));
        history.push(upheaval);
        let kept = client.info("log_state") == "on" && HARMLESS.contains(&upheaval);
        let before = kept.then(|| digest(&mut client));
        // A save under way ends by itself.
        wait_until("it is done", || {
            let reply = client.ask(upheaval);
            let busy = |text: &String| text.contains("progress") || text.contains("under way");
            match reply {
                Reply::Error(text) if busy(&text) => false,
                Reply::Error(text) if text.contains("no log is kept") => true,
                Reply::Error(text) => panic!("{upheaval}: {text}"),
                _ => true,
            }
        });
        if let Some(before) = before {
            assert_eq!(digest(&mut client), before, "after {history:?}");
        }
        for _ in 0..random.below(4) {
            change(&mut client, &mut random);
        }
        if random.below(3) == 0 {
            client.ok("CONFIG SET appendonly yes");
            client.ok("INCR n");
            let before = digest(&mut client);
            running.kill();
            running = start();
            client = running.client();
            assert_eq!(digest(&mut client), before, "after {history:?}");
            history.clear();
        }
    }
}

/// Replicas do not go on with a stream of other data.
#[test]
fn replicas_take_an_image_after_a_reload_of_older_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup::new(Kind::Ours("imprint")).folder(folder.path());
    let primary = setup.config("enable-debug-command yes\nrepl-diskless-sync-delay 0\n").start();
    let replica = Server::start(Kind::Ours("imprint"));
    let mut client = primary.client();
    client.ok("SET k old");
    client.ok("SAVE");
    replica.client().ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    wait_for_link(&replica);
    client.ok("SET k new");
    wait_until("it is there", || replica.client().ask("GET k").text() == "new");
    client.ok("DEBUG RELOAD");
    assert_eq!(client.info("connected_slaves"), "1", "the data is the same");
    client.ok("DEBUG RELOAD NOSAVE");
    assert_eq!(client.ask("GET k").text(), "new");
    fs::copy(primary.dump(), primary.folder.join("copy")).expect("a copy");
    client.ok("SET k newer");
    client.ok("DEBUG RELOAD NOSAVE");
    assert_eq!(client.ask("GET k").text(), "new", "as in the dump file");
    wait_until("it takes an image", || {
        let mut replica = replica.client();
        let reply = replica.ask("GET k");
        reply == Reply::Text(b"new".to_vec()) && replica.info("master_link_status") == "up"
    });
}

#[test]
fn a_reload_without_a_dump_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Setup::new(Kind::Ours("imprint")).folder(folder.path()).config(DEBUG).start();
    let mut client = server.client();
    client.ok("SET k v");
    assert!(matches!(client.ask("DEBUG RELOAD NOSAVE"), Reply::Error(_)));
    assert!(matches!(client.ask("DEBUG RELOAD NOSUCH"), Reply::Error(_)));
    assert_eq!(client.ask("GET k").text(), "v");
}

// ---- limits

/// Limits that refuse nearly everything to clients.
const NARROW: &str = "enable-debug-command yes
proto-max-bulk-len 1mb
client-query-buffer-limit 1mb
maxmemory 1mb
maxmemory-policy noeviction
maxmemory-clients 200kb
client-output-buffer-limit normal 1000 1000 1
min-replicas-to-write 3
hash-max-listpack-entries 1
zset-max-listpack-entries 1
set-max-intset-entries 1
tracking-table-max-keys 1
slowlog-log-slower-than 0
rename-command APPEND \"\"
rename-command HSET set_in_hash
rename-command MULTI \"\"
rename-command EXEC execute
";

/// Values beyond what `NARROW` lets clients make, by every command that makes strings longer.
fn grow(client: &mut Client) {
    let long = vec![b'l'; 1_500_000];
    client.ok("SETRANGE range 3000000 x");
    client.ok("SETBIT bit 30000000 1");
    client.ok("BITFIELD field SET u8 30000000 7");
    client.call(&[b"SET", b"set", &long]);
    client.call(&[b"APPEND", b"append", &long]);
    client.call(&[b"APPEND", b"append", &long]);
    client.call(&[b"LPUSH", b"list", &long, b"short"]);
    client.ask("PUSH renamed element");
    client.call(&[b"HSET", b"hash", b"field", &long]);
    client.ok("BITOP NOT inverse range");
    client.call(&[b"MSET", b"first", &long, b"second", &long]);
    let payload = client.call(&[b"DUMP", b"inverse"]);
    let payload = payload.bytes().expect("it is there");
    client.call(&[b"RESTORE", b"restored", b"0", payload]);
    client.ok("LPUSH numbers 3 1 2");
    client.ok("SORT numbers BY weight_* GET # STORE sorted");
    client.ok("MULTI");
    client.ok("SORT numbers BY weight_* GET # STORE again");
    client.ok("SETRANGE range 4000000 y");
    client.ok("SETBIT bit 32000000 1");
    client.ok("EXEC");
    client.ok("GETSET range short");
    client.ok("SETRANGE range 4000000 z");
}

#[test]
fn a_log_is_replayed_whatever_clients_may_ask_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = server("always", folder.path())
        .config("proto-max-bulk-len 10mb\nrename-command RPUSH push\n")
        .start();
    grow(&mut first.client());
    let before = digest(&mut first.client());
    first.kill();
    // The users may do nothing, either.
    let acl = folder.path().join("users.acl");
    fs::write(&acl, "user default on nopass +@connection +info +debug -@write ~none\n")
        .expect("it");
    let acl = acl.display().to_string();
    let narrow =
        server("always", folder.path()).config(&format!("{NARROW}aclfile {acl}\n")).start();
    let mut client = narrow.client();
    assert_eq!(digest(&mut client), before);
    drop(narrow);
    let narrow = server("always", folder.path()).config(NARROW).start();
    let mut client = narrow.client();
    for (line, refusal) in [
        ("SETRANGE range 5000000 x", "OOM"),
        ("SETBIT bit 30000000 0", "OOM"),
        ("GETBIT bit 30000000", "ERR bit offset"),
    ] {
        let text = client.ask(line).text();
        assert!(text.starts_with(refusal), "{line}: {text}");
    }
    // The dump file, too, and a copy that another command makes.
    client.ok("SAVE");
    drop(narrow);
    let again = server("always", folder.path()).config(NARROW).start();
    assert_eq!(digest(&mut again.client()), before);
    drop(again);
    let to = tempfile::tempdir().expect("a folder");
    let to = to.path().join("restored").display().to_string();
    let from = folder.path().display().to_string();
    let restored = stillframe(&["rewind", &from, "--out", &to]);
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
}

#[test]
fn a_replica_with_narrow_limits_follows() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let [primary, narrow] =
        folders.each_ref().map(|folder| Setup::new(Kind::Ours("imprint")).folder(folder.path()));
    let primary = primary.config("repl-diskless-sync-delay 0\n").start();
    let mut client = primary.client();
    // By the image, and by the stream.
    client.ok("SETRANGE before 3000000 x");
    let replica = narrow.config(NARROW).start();
    replica.client().ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    wait_for_link(&replica);
    grow(&mut client);
    wait_until("it has everything", || {
        client.info("master_repl_offset") == replica.client().info("slave_repl_offset")
    });
    assert_eq!(digest(&mut replica.client()), digest(&mut client));
    assert_eq!(client.info("sync_full"), "1", "{}", replica.log());
}
