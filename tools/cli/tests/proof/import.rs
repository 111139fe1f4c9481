//! Append-only directories that the real Redis wrote, imported and compared with the real server.

use crate::journal;
use crate::support::dataset::{self, Dataset};
use crate::support::{
    Client, Kind, Random, Reply, Server, Setup, redis_is_here, rounds, send_signal, stillframe,
    wait_until,
};
use rustix::process::Signal;
use std::fs;
use std::path::Path;

/// Redis with an append-only file, of which every write is on the disk when it is answered.
fn redis(preamble: &str) -> Server {
    let line = format!(
        "exec \"$@\" --appendonly yes --appendfsync always --aof-use-rdb-preamble {preamble} \
         --aof-timestamp-enabled yes --enable-debug-command yes"
    );
    Setup::new(Kind::Redis).wrapper(&["sh", "-c", &line, "sh"]).start()
}

fn run(client: &mut Client, commands: &[&str]) {
    for command in commands {
        let reply = client.ask(command);
        assert!(!matches!(reply, Reply::Error(_)), "{command}: {reply:?}");
    }
}

/// One of each command that changes strings, keys and expiries.
const CHANGES: [&str; 36] = [
    "SELECT 2",
    "SET n 10",
    "INCR n",
    "INCRBY n 5",
    "DECRBY n 3",
    "INCRBYFLOAT f 1.5",
    "APPEND text abc",
    "SETRANGE text 5 xyz",
    "MSET m1 a m2 b m3 c",
    "SETNX once 1",
    "GETSET m1 z",
    "GETDEL m2",
    "SET ttl v EX 100000",
    "SETEX ttl2 100000 v",
    "PSETEX ttl3 100000000 v",
    "EXPIRE m3 100000",
    "PEXPIRE m1 100000000",
    "GETEX once EX 100000",
    "PERSIST m1",
    "SET short v PX 1",
    "SET kept v EX 100000",
    "SET kept w KEEPTTL",
    "RENAME kept renamed",
    "COPY renamed copied",
    "MOVE copied 7",
    "MULTI",
    "SET t1 1",
    "INCR t1",
    "SELECT 9",
    "SET t2 2",
    "EXEC",
    "UNLINK t2",
    "SET flushed 1",
    "FLUSHDB",
    "SET t3 3",
    "SELECT 0",
];

/// Makes a rewrite fail half-way, so that the manifest names one more incremental file.
fn fail_a_rewrite(server: &Server, client: &mut Client) {
    run(client, &["CONFIG SET rdb-key-save-delay 1000000", "BGREWRITEAOF"]);
    let children = format!("/proc/{0}/task/{0}/children", server.pid());
    let mut child = String::new();
    wait_until("the rewrite has begun", || {
        child = fs::read_to_string(&children).unwrap_or_default().trim().to_owned();
        !child.is_empty()
    });
    run(client, &["SELECT 0", "SET written-meanwhile 1", "INCR written-meanwhile"]);
    send_signal(child.parse().expect("a process"), Signal::KILL);
    wait_until("the rewrite has failed", || {
        client.ask("INFO persistence").text().contains("aof_rewrite_in_progress:0")
    });
    run(client, &["CONFIG SET rdb-key-save-delay 0"]);
}

fn rewrite(client: &mut Client) {
    run(client, &["BGREWRITEAOF"]);
    wait_until("the rewrite has ended", || {
        let info = client.ask("INFO persistence").text();
        info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
    });
}

/// Imports what is in `folder` and reads it from our server.
fn imported(folder: &Path) -> (Dataset, String) {
    let data = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.display().to_string(), data.path().display().to_string());
    let output = stillframe(&["import", &from, "--dir", &to]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let ours = Setup::new(Kind::Ours("imprint")).folder(data.path()).start();
    (dataset::read(&mut ours.client()), text)
}

#[test]
fn an_append_only_directory_of_redis_is_imported_with_equal_content() {
    if !redis_is_here("an_append_only_directory_of_redis_is_imported_with_equal_content") {
        return;
    }
    for preamble in ["yes", "no"] {
        let mut random = Random::new("import");
        let mut redis = redis(preamble);
        let mut client = redis.client();
        dataset::load(&mut client, &dataset::random(&mut random, rounds(300, 20_000)));
        run(&mut client, &CHANGES);
        rewrite(&mut client);
        run(&mut client, &CHANGES);
        run(&mut client, &["DEL n:1", "SET before-failure 1"]);
        for _ in 0..2 {
            fail_a_rewrite(&redis, &mut client);
            run(&mut client, &["INCR before-failure", "SET in-the-next-file 1 EX 100000"]);
        }
        let below = redis.folder.join("appendonlydir");
        let manifest = fs::read_to_string(below.join("appendonly.aof.manifest"));
        let manifest = manifest.expect("Redis wrote one");
        assert!(manifest.matches("type i").count() >= 3, "{manifest}");
        let expected = dataset::read(&mut client);
        redis.kill();

        let (found, _) = imported(&redis.folder);
        dataset::assert_same(&expected, &found, 0);

        // The last file cut within its last command: that one is left out, with a notice.
        let last = manifest.lines().rev().find(|line| line.ends_with("type i"));
        let name = last.and_then(|line| line.split(' ').nth(1)).expect("a name");
        let path = below.join(name);
        let length = fs::metadata(&path).expect("it is there").len();
        let file = fs::File::options().write(true).open(&path).expect("it is there");
        file.set_len(length - 3).expect("a file may be cut");
        let (found, text) = imported(&redis.folder);
        assert!(text.contains("ends with an unfinished command, which is left out"), "{text}");
        assert!(found.len() + 1 >= expected.len(), "{} of {}", found.len(), expected.len());
    }
}

#[test]
fn commands_that_are_not_known_are_refused_by_name_and_key() {
    if !redis_is_here("commands_that_are_not_known_are_refused_by_name_and_key") {
        return;
    }
    let mut redis = redis("yes");
    run(&mut redis.client(), &["SET a 1", "XADD stream 1-1 f v"]);
    redis.kill();
    let below = redis.folder.join("appendonlydir");
    let log = below.join("appendonly.aof.1.incr.aof");
    let mut log = fs::File::options().append(true).open(log).expect("Redis wrote it");
    // What the module of documents logs.
    let command = b"*4\r\n$8\r\nJSON.SET\r\n$7\r\nthe-doc\r\n$1\r\n$\r\n$1\r\n1\r\n";
    std::io::Write::write_all(&mut log, command).expect("there is room");
    let data = tempfile::tempdir().expect("a folder");
    let (from, to) = (redis.folder.display().to_string(), data.path().display().to_string());
    let output = stillframe(&["import", &from, "--dir", &to]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("JSON.SET of key \"the-doc\"") && text.contains("incr.aof"), "{text}");
    assert!(!data.path().join("dump.rdb").exists());
}

/// Changes of collections, several of which Redis logs as other commands than these.
const COLLECTIONS: [&str; 34] = [
    "ZADD zset 1 a 2 b 3.5 c inf d",
    "ZADD zset GT CH 5 a",
    "ZINCRBY zset 1.5 b",
    "ZREM zset d",
    "ZPOPMIN zset",
    "ZADD other-zset 1 x 2 y",
    "ZUNIONSTORE all-zset 2 zset other-zset",
    "ZREMRANGEBYSCORE all-zset 1 1",
    "EXPIRE zset 100000",
    "RPUSH list a b c d e",
    "LPUSH list 1 2 3",
    "LPOP list",
    "RPOP list 2",
    "LSET list 0 first",
    "LINSERT list BEFORE a between",
    "LREM list 1 b",
    "LMOVE list other LEFT RIGHT",
    "LTRIM list 0 5",
    "BLPOP list 0",
    "SADD set a b c d e 1 2 3",
    "SREM set a",
    "SPOP set 2",
    "SADD numbers 1 2 3 -70000",
    "SUNIONSTORE union set numbers",
    "SMOVE set numbers d",
    "HSET hash f v g w n 1",
    "HDEL hash g",
    "HINCRBY hash n 41",
    "HINCRBYFLOAT hash x 1.25",
    "HSETNX hash once 1",
    "RENAME union renamed",
    "COPY hash copied",
    "PEXPIRE list 100000000",
    "PERSIST list",
];

#[test]
fn collections_of_an_append_only_directory_are_imported_with_an_equal_digest() {
    if !redis_is_here("collections_of_an_append_only_directory_are_imported") {
        return;
    }
    for preamble in ["yes", "no"] {
        let mut redis = redis(preamble);
        let mut client = redis.client();
        run(&mut client, &COLLECTIONS);
        let many: Vec<String> = (0..300).map(|n| format!("{n} member:{n}")).collect();
        for command in ["RPUSH many", "SADD large", "HSET wide", "ZADD ranked"] {
            run(&mut client, &[&format!("{command} {}", many.join(" "))]);
        }
        rewrite(&mut client);
        run(&mut client, &COLLECTIONS);
        let expected = client.ask("DEBUG DIGEST").text();
        redis.kill();

        let data = tempfile::tempdir().expect("a folder");
        let (from, to) = (redis.folder.display().to_string(), data.path().display().to_string());
        let output = stillframe(&["import", &from, "--dir", &to]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}");
        let ours = Setup::new(Kind::Ours("imprint")).folder(data.path()).start();
        assert_eq!(ours.client().ask("DEBUG DIGEST").text(), expected, "preamble {preamble}");
    }
}

#[test]
fn what_was_imported_is_taken_and_logged_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let old = folder.path().join("old.aof");
    fs::write(&old, "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n").expect("a file");
    let data = folder.path().join("data");
    let (from, to) = (old.display().to_string(), data.display().to_string());
    assert!(stillframe(&["import", &from, "--dir", &to]).status.success());
    let mut first = journal::server("always", &data).start();
    first.client().ok("INCR a");
    first.kill();
    let again = journal::server("always", &data).start();
    assert_eq!(again.client().ask("GET a").text(), "2");
}
