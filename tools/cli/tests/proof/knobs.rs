//! The knobs that Redis's own tests turn: DEBUG, settings for tests, what is measured.

use crate::support::{Client, Kind, Reply, Server, Setup, redis_is_here, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

fn server(kind: Kind, folder: &Path, config: &str) -> Server {
    let config = format!("enable-debug-command yes\n{config}");
    Setup::new(kind).folder(folder).config(&config).start()
}

fn digest(client: &mut Client) -> String {
    client.ask("DEBUG DIGEST").text()
}

#[test]
fn populated_keys_reach_the_log_and_replicas() {
    let (folder, other) = (tempfile::tempdir().expect("a"), tempfile::tempdir().expect("a folder"));
    let config = "appendonly yes\nappendfsync always\nrepl-diskless-sync-delay 0\n";
    let mut primary = server(Kind::Ours("imprint"), folder.path(), config);
    let replica = server(Kind::Ours("imprint"), other.path(), "");
    let (mut client, mut follower) = (primary.client(), replica.client());
    follower.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    wait_until("the replica follows", || follower.info("master_link_status") == "up");
    client.ok("SET p:1 mine");
    client.ok("DEBUG POPULATE 100 p 50");
    client.ok("SELECT 3");
    client.ok("DEBUG POPULATE 10");
    let expected = digest(&mut client);
    assert_eq!(client.ask("DBSIZE").int(), 10);
    wait_until("the replica has them", || digest(&mut follower) == expected);
    primary.kill();
    let again = server(Kind::Ours("imprint"), folder.path(), config);
    assert_eq!(digest(&mut again.client()), expected);
}

#[test]
fn a_log_that_is_loaded_anew_goes_on_for_the_disk_and_replicas() {
    let (folder, other) = (tempfile::tempdir().expect("a"), tempfile::tempdir().expect("a folder"));
    let config = "appendonly yes\nappendfsync always\nrepl-diskless-sync-delay 0\n";
    let mut primary = server(Kind::Ours("imprint"), folder.path(), config);
    let replica = server(Kind::Ours("imprint"), other.path(), "");
    let (mut client, mut follower) = (primary.client(), replica.client());
    // Where no log is kept, the data is saved and loaded anew.
    follower.ok("SET unsaved 1");
    follower.ok("DEBUG LOADAOF");
    assert_eq!(follower.ask("GET unsaved").text(), "1");
    follower.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    wait_until("the replica follows", || follower.info("master_link_status") == "up");
    for line in ["SET k v EX 1000", "SELECT 3", "RPUSH l a b c", "SADD s 1 2", "SPOP s"] {
        client.ok(line);
        let expected = digest(&mut client);
        client.ok("DEBUG LOADAOF");
        assert_eq!(digest(&mut client), expected, "after {line}");
    }
    client.ok("SET last 1");
    let expected = digest(&mut client);
    wait_until("the replica has it", || digest(&mut follower) == expected);
    assert_eq!(follower.info("master_link_status"), "up");
    primary.kill();
    let again = server(Kind::Ours("imprint"), folder.path(), config);
    assert_eq!(digest(&mut again.client()), expected);
}

#[test]
fn a_pause_after_each_key_ends_when_the_save_is_not_wanted() {
    for algorithm in ["imprint", "fork"] {
        let folder = tempfile::tempdir().expect("a folder");
        let config = "repl-diskless-sync-delay 0\nrdb-key-save-delay 100000000\n";
        let mut server = server(Kind::Ours(algorithm), folder.path(), config);
        let mut client = server.client();
        client.ok("DEBUG POPULATE 20");
        let started = "Background saving started";
        assert_eq!(client.ask("BGSAVE").text(), started);
        wait_until("a key is saved", || client.info_int("current_save_keys_processed") == 1);
        assert_eq!(client.info("rdb_bgsave_in_progress"), "1");
        client.ask("BGSAVE CANCEL");
        wait_until("it ends", || client.info("rdb_bgsave_in_progress") == "0");
        // A replica comes, and leaves while its image is under way.
        let mut replica = server.client();
        replica.ok("REPLCONF capa eof");
        replica.send(&[b"PSYNC", b"?", b"-1"]);
        wait_until("the image begins", || {
            matches!(client.ask("BGSAVE"), Reply::Error(_)) || {
                client.ask("BGSAVE CANCEL");
                false
            }
        });
        drop(replica);
        wait_until("there is room for a save", || client.ask("BGSAVE").text() == started);
        client.send(&[b"SHUTDOWN", b"NOSAVE"]);
        assert!(server.wait().success(), "{algorithm}");
    }
}

#[test]
fn a_clock_that_stands_deletes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server(Kind::subject("imprint"), folder.path(), "hz 100\n");
    let mut client = server.client();
    client.ok("DEBUG PAUSE-CRON 1");
    client.ok("SET k v PX 1");
    client.ok("SET clock v PX 100");
    wait_until("its time has come", || client.ask("GET clock").bytes().is_none());
    assert_eq!(client.ask("DBSIZE").int(), 1);
    client.ok("DEBUG PAUSE-CRON 0");
    wait_until("the clock finds it", || client.ask("DBSIZE").int() == 0);
}

#[test]
fn restore_takes_a_wrong_checksum_only_where_a_test_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server(Kind::subject("imprint"), folder.path(), "");
    let mut client = server.client();
    client.ok("SET k value");
    let mut payload = client.ask("DUMP k").bytes().expect("a payload").to_vec();
    let last = payload.len() - 1;
    payload[last] ^= 1;
    let restore =
        |client: &mut Client| client.call(&[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]);
    let wrong = "ERR DUMP payload version or checksum are wrong";
    assert_eq!(restore(&mut client), Reply::Error(wrong.into()));
    client.ok("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1");
    assert_eq!(restore(&mut client).text(), "OK");
    assert_eq!(client.ask("GET k").text(), "value");
    let bad = client.call(&[b"RESTORE", b"l", b"0", b"\x0e\x01\x02\x00\x0a\x00........"]);
    assert_eq!(bad, Reply::Error("ERR Bad data format".into()));
    assert!(server.log().contains("integrity check failed"), "the log reports it");
    client.ok("DEBUG SET-SKIP-CHECKSUM-VALIDATION 0");
    assert_eq!(restore(&mut client), Reply::Error(wrong.into()));
}

#[test]
fn attributes_and_pushes_are_those_of_redis() {
    let mut heard = Vec::new();
    for kind in [Kind::subject("imprint"), Kind::Redis] {
        if kind == Kind::Redis && !redis_is_here("attributes and pushes") {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let server = server(kind, folder.path(), "");
        let lines = "DEBUG PROTOCOL attrib\r\nDEBUG PROTOCOL push\r\n";
        let mut socket = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
        let sent = format!("{lines}HELLO 3\r\n{lines}PING\r\n");
        socket.write_all(sent.as_bytes()).expect("a request is sent");
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
        while !bytes.ends_with(b"+PONG\r\n") {
            let count = socket.read(&mut buffer).expect("replies come");
            assert!(count > 0, "the connection has ended");
            bytes.extend_from_slice(&buffer[..count]);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (before, after) = text.split_once("%7").expect("a map with what HELLO replies");
        let (_, after) = after.split_once("modules").expect("its last field");
        heard.push((before.to_owned(), after.to_owned()));
    }
    assert!(heard[0].1.contains("|1\r\n$14\r\nkey-popularity\r\n*2\r\n"), "{heard:?}");
    assert!(heard.iter().all(|one| *one == heard[0]), "{heard:?}");
}

/// What INFO says of SET, without the figures.
fn percentiles(client: &mut Client) -> Vec<String> {
    let text = client.ask("INFO latencystats").text();
    let name = "latency_percentiles_usec_set:";
    let found = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let names = found.split(',').filter_map(|part| Some(part.split_once('=')?.0.to_owned()));
    names.collect()
}

#[test]
fn percentiles_of_latency_are_those_that_are_asked_for() {
    let setting = "CONFIG SET latency-tracking-info-percentiles";
    for kind in [Kind::subject("imprint"), Kind::Redis] {
        if kind == Kind::Redis && !redis_is_here("percentiles of latency") {
            continue;
        }
        let server = Server::start(kind);
        let mut client = server.client();
        client.ok("SET a b");
        assert_eq!(percentiles(&mut client), ["p50", "p99", "p99.9"]);
        let some = client.call(
            &[&setting.split(' ').map(str::as_bytes).collect::<Vec<_>>()[..], &[b"0.0 12.5 100.0"]]
                .concat(),
        );
        assert_eq!(some.text(), "OK");
        assert_eq!(percentiles(&mut client), ["p0", "p12.5", "p100"]);
        let shown = client.ask("CONFIG GET latency-tracking-info-percentiles");
        assert_eq!(shown.list()[1].text(), "0 12.5 100");
        for wrong in ["x", "101", "-1"] {
            let reply = client.ask(&format!("{setting} {wrong}"));
            assert!(matches!(&reply, Reply::Error(text) if text.contains("failed")), "{reply:?}");
        }
        client.ok("CONFIG SET latency-tracking no");
        assert_eq!(percentiles(&mut client), [""; 0]);
        client.ok("CONFIG RESETSTAT");
        client.ok("SET a b");
        client.ok("CONFIG SET latency-tracking yes");
        assert_eq!(percentiles(&mut client), [""; 0], "nothing was counted meanwhile");
    }
}

/// A knob of Redis's lets scripts run what is not meant for them: replies of every type.
#[test]
fn scripts_that_may_run_more_read_replies_of_every_type_as_in_redis() {
    const TYPES: [&str; 12] = [
        "string", "integer", "double", "bignum", "null", "array", "attrib", "push", "verbatim",
        "true", "false", "none",
    ];
    let script = |kind| {
        let folder = tempfile::tempdir().expect("a folder");
        let server = server(kind, folder.path(), "");
        let mut client = server.client();
        let mut said = Vec::new();
        let mut run = |client: &mut Client, script: &str| {
            client.send(&[b"EVAL", script.as_bytes(), b"0"]);
            said.push(format!("{script}: {}", client.raw().escape_ascii()));
        };
        run(&mut client, "return redis.call('debug', 'protocol', 'string')");
        client.ok("DEBUG SET-DISABLE-DENY-SCRIPTS 1");
        for (client_speaks, script_speaks) in [(2, 2), (2, 3), (3, 2), (3, 3)] {
            client.call(&[b"HELLO", format!("{client_speaks}").as_bytes()]);
            for name in TYPES {
                // redis-server takes a push from its script for the end of the reply.
                if name != "push" || script_speaks == 2 {
                    let call = format!("redis.call('debug', 'protocol', '{name}')");
                    run(&mut client, &format!("redis.setresp({script_speaks}) return {call}"));
                }
            }
        }
        run(&mut client, "return redis.call('blpop', 'none', 0)");
        client.ok("DEBUG SET-DISABLE-DENY-SCRIPTS 0");
        run(&mut client, "return redis.call('debug', 'protocol', 'string')");
        said
    };
    let said = script(Kind::subject("imprint"));
    if redis_is_here("scripts_that_may_run_more_read_replies_of_every_type_as_in_redis") {
        assert_eq!(script(Kind::Redis), said, "redis-server's (left) and ours");
    }
}

/// An error that a script returns counts by its code, once, and as a failed call of the script.
#[test]
fn errors_that_scripts_return_are_counted_as_in_redis() {
    const SCRIPTS: [&str; 9] = [
        "return redis.error_reply('MY_ERR_CODE custom msg')",
        "return redis.error_reply('')",
        "return {err = 'A_WORD_OF_MORE_THAN_THIRTY_BYTES is no code'}",
        "return {err = 'OF:A#ROW msg'}",
        "return {1, {redis.error_reply('DEEP msg')}, redis.error_reply('DEEP msg')}",
        "return redis.pcall('select', 99)",
        "return redis.call('select', 99)",
        "redis.pcall('select', 99) return 1",
        "local e = redis.pcall('select', 99) return {err = e.err}",
    ];
    let script = |kind| {
        let folder = tempfile::tempdir().expect("a folder");
        let server = server(kind, folder.path(), "");
        let mut client = server.client();
        let mut said = Vec::new();
        for script in SCRIPTS {
            client.ok("CONFIG RESETSTAT");
            client.call(&[b"EVAL", script.as_bytes(), b"0"]);
            said.push(script.to_owned());
            let info = ["errorstats", "commandstats", "stats"]
                .map(|section| client.ask(&format!("INFO {section}")).text());
            let counts = info.iter().flat_map(|section| section.lines()).filter_map(|line| {
                let (name, figures) = line.split_once(':')?;
                let failed = figures.split(',').filter(|it| it.starts_with("failed_calls"));
                match name {
                    "total_error_replies" => Some(line.to_owned()),
                    "cmdstat_eval" | "cmdstat_select" => {
                        Some(format!("{name} {}", failed.collect::<String>()))
                    }
                    _ => name.starts_with("errorstat_").then(|| line.to_owned()),
                }
            });
            let mut counts: Vec<String> = counts.collect();
            counts.sort(); // redis-server's order is random
            said.extend(counts);
        }
        said
    };
    let said = script(Kind::subject("imprint"));
    if redis_is_here("errors_that_scripts_return_are_counted_as_in_redis") {
        assert_eq!(script(Kind::Redis), said, "redis-server's (left) and ours");
    }
}
