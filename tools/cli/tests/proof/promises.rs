//! CONFIG SET takes effect before its reply, and the server relies on no log before the log counts.

use crate::journal::server;
use crate::support::{
    Client, Kind, Random, Reply, Server, Setup, at_the_end, limit_file_size, rounds, wait_until,
};
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

// ---- settings

/// The clock of the server runs once a second: what waits for it is late.
fn slow_clock(flags: &[&str]) -> Server {
    Setup::new(Kind::Ours("imprint")).flags(&["--hz", "1"]).flags(flags).start()
}

#[test]
fn appendfsync_always_holds_before_its_answer() {
    for before in ["everysec", "no"] {
        let server = slow_clock(&["--appendonly", "yes", "--appendfsync", before]);
        let (mut admin, mut other) = (server.client(), server.client());
        other.ok("INCR n");
        admin.ok("CONFIG SET appendfsync always");
        for _ in 0..8 {
            other.ok("INCR n");
            let last = other.info("log_last_record");
            assert_eq!(other.info("log_durable_record"), last, "acknowledged under {before}");
        }
    }
}

/// A setting, what another client asks next, and how the answer begins.
const SETTINGS: [(&str, &str, &str); 14] = [
    ("maxmemory 1", "SET k v", "OOM "),
    ("maxmemory 0", "SET k v", "OK"),
    ("min-replicas-to-write 1", "SET k v", "NOREPLICAS "),
    ("min-replicas-to-write 0", "SET k v", "OK"),
    ("notify-keyspace-events KEA", "CONFIG GET notify-keyspace-events", ""),
    ("proto-max-bulk-len 1mb", "SETRANGE k 2000000 x", "ERR string exceeds"),
    ("proto-max-bulk-len 512mb", "SETRANGE k 2000000 x", "2000001"),
    ("appendonly yes", "SET k v", "OK"),
    ("appendonly no", "SET k v", "OK"),
    ("maxclients 100000000", "GET k", "v"),
    ("replica-serve-stale-data no", "GET k", "MASTERDOWN "),
    ("replica-serve-stale-data yes", "GET k", "v"),
    ("replica-read-only no", "SET k v", "OK"),
    ("replica-read-only yes", "SET k v", "READONLY "),
];

#[test]
fn a_setting_holds_for_the_next_request_of_another_client() {
    let server = slow_clock(&[]);
    let (mut admin, mut other) = (server.client(), server.client());
    other.ok("SET k v");
    for (setting, line, answer) in SETTINGS {
        if setting == "replica-serve-stale-data no" {
            admin.ok("REPLICAOF 127.0.0.1 1");
        }
        let reply = admin.ask(&format!("CONFIG SET {setting}"));
        let refused = setting.starts_with("maxclients");
        assert_eq!(matches!(reply, Reply::Error(_)), refused, "{setting}: {reply:?}");
        let found = match other.ask(line) {
            Reply::Int(number) => number.to_string(),
            Reply::List(_) => String::new(),
            reply => reply.text(),
        };
        assert!(found.starts_with(answer), "{setting}, {line}: {found}");
    }
    admin.ok("REPLICAOF NO ONE");
    // Limits of clients, for those that are connected.
    admin.ok("CONFIG SET proto-max-bulk-len 1mb");
    assert!(other.send_raw(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2000000\r\n"));
    let refusal = other.reply().text();
    assert!(refusal.starts_with("ERR Protocol error"), "{refusal}");
    let mut large = server.client();
    let id = large.ask("CLIENT ID").int();
    let part = format!("*2\r\n$3\r\nGET\r\n$1000000\r\n{}", "x".repeat(900_000));
    assert!(large.send_raw(part.as_bytes()));
    let find = format!("CLIENT LIST ID {id}");
    wait_until("it takes memory", || {
        let text = admin.ask(&find).text();
        let taken = text.split("qbuf=").nth(1).and_then(|rest| rest.split(' ').next());
        taken.and_then(|taken| taken.parse().ok()).unwrap_or(0) >= 800_000
    });
    admin.ok("CONFIG SET maxmemory-clients 500kb");
    assert_eq!(admin.ask(&find).text(), "", "it is closed");
    // Who may come in.
    admin.ok("CONFIG SET requirepass secret");
    let newcomer = server.client().ask("GET k").text();
    assert!(newcomer.starts_with("NOAUTH "), "{newcomer}");
    admin.ok("CONFIG SET maxclients 1");
    let newcomer = server.client().reply().text();
    assert!(newcomer.starts_with("ERR max number of clients"), "{newcomer}");
    admin.ok("CONFIG SET bind 127.0.0.2");
    assert!(Client::try_connect(server.port).is_none(), "it does not listen there any more");
}

// ---- a log that does not count yet

/// Counts up until the server is gone; publishes each count once it is acknowledged.
fn count(port: u16, key: &str, acknowledged: &AtomicI64) {
    let Some(mut client) = Client::try_connect(port) else { return };
    while let Some(reply) = client.try_call(&[b"INCR", key.as_bytes()]) {
        match reply {
            Reply::Int(number) => acknowledged.store(number, Ordering::SeqCst),
            Reply::Error(text) if text.starts_with("READONLY ") => {}
            Reply::Error(text) if text.starts_with("LOADING ") => {}
            other => panic!("{key}: {other:?}"),
        }
    }
}

fn number(client: &mut Client, key: &str) -> i64 {
    let reply = client.ask(&format!("GET {key}"));
    if reply == Reply::Null { 0 } else { reply.text().parse().expect("a number") }
}

#[test]
fn a_promoted_replica_acknowledges_nothing_that_a_kill_takes() {
    let mut random = Random::new("promoted");
    let primary = Server::start(Kind::Ours("imprint"));
    let mut client = primary.client();
    client.ok("CONFIG SET repl-diskless-sync-delay 0");
    for number in 0..3_000 {
        client.call(&[b"SET", format!("k{number}").as_bytes(), &random.bytes(1_000)]);
    }
    client.ok("SET n 1000000");
    let (mut all, mut counted) = (0, 0);
    while all < rounds(6, 200) {
        all += 1;
        let folder = tempfile::tempdir().expect("a folder");
        let mut replica = server("always", folder.path()).flags(&["--hz", "1"]).start();
        let mut admin = replica.client();
        admin.ok("SET old 1");
        let acknowledged = AtomicI64::new(0);
        std::thread::scope(|scope| {
            admin.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
            let port = replica.port;
            let acknowledged = &acknowledged;
            let _guard = at_the_end(|| kill_beside(&replica));
            scope.spawn(move || count(port, "n", acknowledged));
            wait_until("it has the data", || {
                admin.info("master_link_status") == "up" && number(&mut admin, "n") > 0
            });
            admin.ok("REPLICAOF NO ONE");
            if all % 2 == 0 {
                wait_until("it acknowledges", || acknowledged.load(Ordering::SeqCst) > 0);
            }
            std::thread::sleep(Duration::from_millis(random.below(40) as u64));
        });
        replica.wait();
        let last = acknowledged.load(Ordering::SeqCst);
        let again = server("always", folder.path()).start();
        let mut client = again.client();
        let found = number(&mut client, "n");
        assert!(found >= last, "{last} were acknowledged, {found} are there");
        if last > 1_000_000 {
            counted += 1;
            assert_eq!(client.ask("DBSIZE").int(), 3_001, "all of the state");
        }
    }
    assert!(counted >= all / 2);
    println!("{counted} of {all} rounds acknowledged something");
}

/// kill -9, while another thread talks to the server.
fn kill_beside(server: &Server) {
    let pid = server.pid().to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().expect("kill runs").success());
}

#[test]
fn what_is_acknowledged_after_appendonly_yes_survives_a_kill_under_load() {
    let mut random = Random::new("appendonly yes");
    for round in 0..rounds(10, 200) {
        let folder = tempfile::tempdir().expect("a folder");
        let flags = ["--hz", "1", "--appendfsync", "always"];
        let setup = Setup::new(Kind::Ours("imprint")).folder(folder.path());
        let mut first = setup.flags(&flags).start();
        let mut admin = first.client();
        for number in 0..500 {
            admin.call(&[b"SET", format!("k{number}").as_bytes(), &random.bytes(1_000)]);
        }
        let counts = [AtomicI64::new(0), AtomicI64::new(0)];
        let before = std::thread::scope(|scope| {
            let _guard = at_the_end(|| kill_beside(&first));
            for (name, acknowledged) in ["a", "b"].into_iter().zip(&counts) {
                let port = first.port;
                scope.spawn(move || count(port, name, acknowledged));
            }
            for _ in 0..random.below(3) {
                for value in ["yes", "no"] {
                    admin.ok(&format!("CONFIG SET appendonly {value}"));
                    std::thread::sleep(Duration::from_millis(random.below(20) as u64));
                }
            }
            admin.ok("CONFIG SET appendonly yes");
            let before = counts.each_ref().map(|count| count.load(Ordering::SeqCst));
            std::thread::sleep(Duration::from_millis(random.below(60) as u64));
            before
        });
        first.wait();
        let again = server("always", folder.path()).start();
        let mut client = again.client();
        for ((name, count), before) in ["a", "b"].into_iter().zip(&counts).zip(before) {
            let last = count.load(Ordering::SeqCst);
            // One may have been on its way when the log was asked for.
            if last > before + 1 {
                let found = number(&mut client, name);
                assert!(found >= last, "round {round}: {last} acknowledged, {found} there");
            }
        }
    }
}

/// A server whose log cannot be begun for now, because a save goes on for very long.
fn beginning(policy: &str) -> (Server, Client) {
    let server = slow_clock(&["--appendfsync", policy, "--snapshot-bandwidth", "10kb"]);
    let mut admin = server.client();
    admin.ok("CONFIG SET rdbcompression no");
    for number in 0..2_000 {
        admin.call(&[b"SET", format!("k{number}").as_bytes(), &[b'x'; 1_000]]);
    }
    admin.ok("BGSAVE");
    admin.ok("CONFIG SET appendonly yes");
    assert_eq!(admin.info("log_state"), "beginning");
    (server, admin)
}

#[test]
fn under_always_writes_wait_for_a_log_that_counts() {
    let (server, mut admin) = beginning("always");
    let mut writers = [(); 4].map(|()| server.client());
    let requests =
        ["SET k0 v", "MULTI\r\nSET k1 v\r\nEXEC", "BLPOP list 0", "FLUSHDB ASYNC\r\nPING"];
    for (writer, request) in writers.iter_mut().zip(requests) {
        assert!(writer.send_raw(format!("{request}\r\n").as_bytes()));
    }
    assert_eq!(writers[1].reply().text(), "OK", "MULTI changes nothing");
    assert_eq!(admin.info("log_writes_held"), "1");
    assert_eq!(admin.ask("STRLEN k0").int(), 1_000, "nothing has run");
    assert_eq!(admin.ask("PUBLISH channel text").int(), 0, "what changes nothing runs");
    assert_eq!(admin.ask("DBSIZE").int(), 2_000);
    assert_eq!(admin.info("aof_enabled"), "0");
    admin.ok("BGSAVE CANCEL");
    assert_eq!(writers[0].reply().text(), "OK");
    assert_eq!(writers[1].reply().text(), "QUEUED");
    assert_eq!(writers[1].reply().list().len(), 1);
    assert_eq!([writers[3].reply().text(), writers[3].reply().text()], ["OK", "PONG"]);
    assert_eq!(admin.info("log_state"), "on");
    admin.ok("RPUSH list element");
    assert_eq!(writers[2].reply().list().len(), 2);
}

/// Two servers change places while the new primary's log cannot be begun.
#[test]
fn a_failover_to_a_server_whose_log_does_not_count_holds_writes() {
    let primary = Server::start(Kind::Ours("imprint"));
    let mut replica = slow_clock(&["--appendfsync", "always", "--snapshot-bandwidth", "10kb"]);
    let (mut old, mut new) = (primary.client(), replica.client());
    for number in 0..2_000 {
        old.call(&[b"SET", format!("k{number}").as_bytes(), &[b'x'; 1_000]]);
    }
    new.ok("CONFIG SET rdbcompression no");
    old.ok("CONFIG SET repl-diskless-sync-delay 0");
    new.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    wait_until("it follows", || new.info("master_link_status") == "up");
    new.ok("BGSAVE");
    new.ok("CONFIG SET appendonly yes");
    wait_until("the replica is online", || old.info("slave0").contains("state=online"));
    old.ok("FAILOVER");
    wait_until("they have changed places", || new.info("role") == "master");
    let mut writer = replica.client();
    writer.send(&[b"INCR", b"n"]);
    assert_eq!(new.info("log_state"), "beginning");
    assert_eq!(new.info("log_writes_held"), "1");
    assert_eq!(new.ask("EXISTS n").int(), 0);
    new.ok("BGSAVE CANCEL");
    assert_eq!(writer.reply().int(), 1);
    replica.kill();
    let again = server("always", &replica.folder).start();
    assert_eq!(number(&mut again.client(), "n"), 1);
    assert_eq!(again.client().ask("DBSIZE").int(), 2_001);
}

#[test]
fn under_everysec_writes_wait_after_two_seconds_and_under_no_never() {
    let (server, mut admin) = beginning("everysec");
    wait_until("writes wait", || admin.info("log_writes_held") == "1");
    let mut writer = server.client();
    writer.send(&[b"SET", b"k0", b"v"]);
    admin.ok("CONFIG SET appendfsync no");
    assert_eq!(writer.reply().text(), "OK", "under no policy is this promised");
    assert_eq!(admin.info("log_writes_held"), "0");
    admin.ok("CONFIG SET appendfsync everysec");
    assert_eq!(admin.info("log_writes_held"), "1");
    writer.send(&[b"SET", b"k0", b"w"]);
    admin.ok("CONFIG SET appendonly no");
    assert_eq!(writer.reply().text(), "OK", "nothing is promised any more");
    assert_eq!(admin.info("log_state"), "off");
}

/// A server that ends before its log counts saves, or does not end.
#[test]
fn a_server_does_not_end_before_its_data_is_on_the_disk() {
    for end in ["SHUTDOWN", "SHUTDOWN SAVE"] {
        let (mut server, mut admin) = beginning("everysec");
        assert!(matches!(admin.ask("SHUTDOWN NOSAVE"), Reply::Error(_)));
        admin.ok("CONFIG SET snapshot-bandwidth 0");
        let words: Vec<&[u8]> = end.split(' ').map(str::as_bytes).collect();
        admin.send(&words);
        assert!(server.wait().success(), "{}", server.log());
        let again = Setup::new(Kind::Ours("imprint")).folder(&server.folder).start();
        assert_eq!(again.client().ask("DBSIZE").int(), 2_000);
    }
}

/// A log that cannot be begun: writes are refused, INFO says why, and all goes on by itself.
#[test]
fn a_log_that_cannot_be_begun_is_reported_and_refuses_writes() {
    for policy in ["always", "everysec", "no"] {
        let mut server = slow_clock(&["--appendfsync", policy]);
        let (mut admin, mut other) = (server.client(), server.client());
        admin.ok("SET k v");
        let place = server.folder.join("appendonlydir");
        fs::write(&place, "in the way").expect("a file");
        let refusal = admin.ask("CONFIG SET appendonly yes").text();
        assert!(refusal.ends_with("Unable to turn on AOF. Check server logs."), "{refusal}");
        assert_eq!(admin.info("log_state"), "off");
        other.ok("SET k w");
        // Within a transaction the log begins afterwards, and is tried again.
        admin.ok("MULTI");
        admin.ask("CONFIG SET appendonly yes");
        admin.ask("EXEC");
        let refusal = other.ask("SET k x").text();
        assert!(refusal.starts_with("MISCONF Errors writing to the AOF file: "), "{refusal}");
        assert_eq!(other.ask("GET k").text(), "w", "reads go on");
        assert_eq!(admin.info("log_state"), "failed");
        assert_eq!(admin.info("aof_last_write_status"), "err");
        assert!(admin.info("log_problem").starts_with("the log cannot be begun: "));
        fs::remove_file(&place).expect("the file is there");
        wait_until("writes are taken again", || !matches!(other.ask("INCR n"), Reply::Error(_)));
        wait_until("the log is on", || admin.info("log_state") == "on");
        admin.ok("CONFIG SET appendfsync always");
        let last = other.ask("INCR n").int();
        server.kill();
        let again = Setup::new(Kind::Ours("imprint")).folder(&server.folder).start();
        assert_eq!(number(&mut again.client(), "n"), last);
    }
}

/// A disk that is full when the log's image is written.
#[test]
fn a_disk_that_is_full_at_that_moment_is_reported() {
    let setup = Setup::new(Kind::Ours("imprint")).outlives_file_limits();
    let mut server = setup.flags(&["--hz", "1", "--appendfsync", "always"]).start();
    let (mut admin, mut other) = (server.client(), server.client());
    for number in 0..200 {
        let value = Random::with_seed(number).bytes(1_000);
        admin.call(&[b"SET", format!("k{number}").as_bytes(), &value]);
    }
    limit_file_size(server.pid(), Some(20_000));
    admin.ok("CONFIG SET appendonly yes");
    let refusal = other.ask("INCR n").text();
    assert!(refusal.starts_with("MISCONF Errors writing to the AOF file: "), "{refusal}");
    assert_eq!(admin.info("log_state"), "failed");
    wait_until("it is tried again", || server.log().matches("the save failed").count() >= 3);
    let logs = fs::read_dir(server.folder.join("appendonlydir")).expect("it is there").count();
    assert!(logs <= 2, "{logs} logs are left of attempts to begin one");
    limit_file_size(server.pid(), None);
    wait_until("writes are taken again", || !matches!(other.ask("INCR n"), Reply::Error(_)));
    let last = other.ask("INCR n").int();
    server.kill();
    let again = Setup::new(Kind::Ours("imprint")).folder(&server.folder).start();
    assert_eq!(number(&mut again.client(), "n"), last);
    assert_eq!(again.client().ask("DBSIZE").int(), 201);
}
