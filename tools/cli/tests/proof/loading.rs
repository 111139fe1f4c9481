//! A loading server replies as Redis does, and never takes half of the data for all.

use crate::journal::server;
use crate::support::{Client, Kind, Reply, Server, Setup, encode, redis_is_here, wait_until};
use std::fs;
use std::path::Path;

const KEYS: i64 = 2_000;
/// Makes loading last longer than any test, until it is asked to hurry.
const SLOW: &str = "key-load-delay 50000";

/// A folder with a dump file of many keys, and the bytes of that file.
fn folder() -> (tempfile::TempDir, Vec<u8>) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = Setup::new(Kind::Ours("imprint")).folder(folder.path()).start();
    let mut client = first.client();
    fill(&mut client);
    client.ok("SAVE");
    first.kill();
    let dump = fs::read(folder.path().join("dump.rdb")).expect("it was saved");
    (folder, dump)
}

/// The values are long, and not compressed: Redis looks at its clients after each kilobyte.
fn fill(client: &mut Client) {
    client.ok("CONFIG SET rdbcompression no");
    let (mut bytes, long) = (Vec::new(), "loaded".repeat(50));
    for number in 0..KEYS {
        encode(&[b"SET", format!("k{number}").as_bytes(), long.as_bytes()], &mut bytes);
    }
    assert!(client.send_raw(&bytes));
    (0..KEYS).for_each(|_| assert_eq!(client.reply().text(), "OK"));
}

fn slow(setup: Setup) -> Server {
    let server = setup.config(&format!("{SLOW}\nenable-debug-command yes\n")).loading().start();
    assert_eq!(server.client().info("loading"), "1");
    server
}

/// Loading goes on at full speed, up to its end.
fn hurry(server: &Server) {
    let mut client = server.client();
    client.ok("CONFIG SET key-load-delay 0");
    wait_until("all is loaded", || client.info("loading") == "0");
}

fn all_is_there(server: &Server) {
    let mut client = server.client();
    assert_eq!(client.ask("DBSIZE").int(), KEYS);
    assert_eq!(client.ask("GETRANGE k0 0 5").text(), "loaded");
}

/// What a client asks, one after the other.
const ASKED: &str = "PING; GET k0; SET k0 v; NOSUCH; GET; ECHO x; SELECT 1; SELECT 0; DBSIZE; KEYS *; \
    FLUSHALL; SAVE; BGSAVE; BGREWRITEAOF; REPLICAOF NO ONE; WAIT 0 0; PSYNC ? -1; \
    CONFIG GET maxmemory; CONFIG SET maxmemory 1mb; CONFIG SET maxmemory 0; \
    CLIENT SETNAME me; CLIENT GETNAME; MULTI; PING; EXEC; MULTI; GET k0; EXEC; MULTI; \
    CLIENT GETNAME; EXEC; WATCH k0; UNWATCH; MULTI; DISCARD; EXEC; ROLE; OBJECT ENCODING k0; \
    TYPE k0; PUBLISH c m; ACL WHOAMI; DEBUG SLEEP 0; FAILOVER; SWAPDB 0 1; SCAN 0; RANDOMKEY; \
    EXPIRE k0 1; BLPOP k0 0; RESET";

#[test]
fn clients_hear_what_redis_says_while_data_is_loaded() {
    let (folder, _) = folder();
    let ours = slow(Setup::new(Kind::Ours("imprint")).folder(folder.path()));
    // All at once: Redis looks at its clients now and then only.
    let answers = |server: &Server| {
        let mut client = server.client();
        let mut bytes = Vec::new();
        for line in ASKED.split("; ") {
            encode(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>(), &mut bytes);
        }
        assert!(client.send_raw(&bytes));
        let answer = |line| (line, client.raw().escape_ascii().to_string());
        ASKED.split("; ").map(answer).collect::<Vec<_>>()
    };
    let found = answers(&ours);
    assert_eq!(found[1].1, "-LOADING Redis is loading the dataset in memory\\r\\n");
    assert_eq!(ours.client().info("loading"), "1");
    let fields = ["loading_total_bytes", "loading_loaded_bytes", "loading_eta_seconds"];
    let [total, done, _] = fields.map(|field| ours.client().info_int(field));
    assert!(0 < done && done <= total, "{done} of {total}");
    assert!(ours.client().info_int("loading_start_time") > 1_500_000_000);
    let share: f64 = ours.client().info("loading_loaded_perc").parse().expect("a number");
    assert!((0.0..=100.0).contains(&share), "{share}");
    if redis_is_here("clients_hear_what_redis_says_while_data_is_loaded") {
        let flags = ["--loading-process-events-interval-bytes", "1024"];
        let copy = tempfile::tempdir().expect("a folder");
        fs::copy(folder.path().join("dump.rdb"), copy.path().join("dump.rdb")).expect("a copy");
        let redis = slow(Setup::new(Kind::Redis).folder(copy.path()).flags(&flags));
        assert_eq!(found, answers(&redis));
    }
    hurry(&ours);
    all_is_there(&ours);
    assert!(ours.log().contains("Ready to accept connections"));
}

/// A server that ends after it has loaded half of its data leaves all of it on the disk.
#[test]
fn a_server_that_ends_while_it_loads_keeps_its_files() {
    let (folder, dump) = folder();
    let path = folder.path().join("dump.rdb");
    let appendonly: [&[&str]; 2] = [&[], &["--appendonly", "yes"]];
    for flags in appendonly {
        for end in ["SHUTDOWN", "SHUTDOWN SAVE", "SHUTDOWN NOSAVE NOW", "TERM", "KILL"] {
            let setup = Setup::new(Kind::Ours("imprint")).folder(folder.path()).flags(flags);
            let mut server = slow(setup.flags(&["--save", "1 0"]));
            if end.starts_with("SHUTDOWN") {
                let words: Vec<&[u8]> = end.split(' ').map(str::as_bytes).collect();
                server.client().send(&words);
            } else {
                let pid = server.pid().to_string();
                let kill = std::process::Command::new("kill").args(["-s", end, &pid]).status();
                assert!(kill.expect("kill runs").success());
            }
            let status = server.wait();
            assert!(end == "KILL" || status.success(), "{end}: {status}");
            assert!(fs::read(&path).expect("it is there") == dump, "{end} changed the dump file");
        }
    }
    all_is_there(&Setup::new(Kind::Ours("imprint")).folder(folder.path()).start());
}

#[test]
fn clients_are_answered_while_the_log_is_replayed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = server("no", folder.path()).start();
    fill(&mut first.client());
    first.client().ok("CONFIG SET appendfsync always");
    first.client().ok("SET last 1");
    first.kill();
    let mut killed = slow(server("always", folder.path()));
    assert!(killed.client().ask("GET last").text().starts_with("LOADING "));
    assert_eq!(killed.client().info("aof_enabled"), "0");
    killed.kill();
    // Settings that would begin, end or save something wait for the end of loading.
    let again = slow(server("always", folder.path()));
    for line in ["appendonly no", "appendonly yes", "appendfsync always", "maxmemory 1"] {
        again.client().ok(&format!("CONFIG SET {line}"));
    }
    assert!(again.client().info_int("loading_loaded_bytes") > 0);
    again.client().ok("CONFIG SET maxmemory 0");
    hurry(&again);
    let mut client = again.client();
    assert_eq!(client.ask("DBSIZE").int(), KEYS + 1);
    client.ok("SET more 1");
    assert_eq!(client.info("aof_enabled"), "1");
}

/// MONITOR shows no request of a log, and subscribers hear nothing of it.
#[test]
fn a_listener_hears_nothing_of_a_replayed_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = server("always", folder.path()).start();
    fill(&mut first.client());
    first.kill();
    let again = slow(server("always", folder.path()));
    let mut monitor = again.client();
    monitor.ok("MONITOR");
    hurry(&again);
    again.client().ok("SET after 1");
    loop {
        let shown = monitor.reply().text();
        assert!(!shown.contains("\"loaded\""), "{shown}");
        if shown.ends_with("\"SET\" \"after\" \"1\"") {
            return;
        }
    }
}

/// A replica that loads its primary's image is half of a state, too.
#[test]
fn a_replica_that_loads_refuses_transactions_and_saves_nothing() {
    let primary = Server::start(Kind::Ours("imprint"));
    fill(&mut primary.client());
    primary.client().ok("CONFIG SET repl-diskless-sync-delay 0");
    let folder = tempfile::tempdir().expect("a folder");
    let setup = || Setup::new(Kind::Ours("imprint")).folder(folder.path());
    let mut replica = setup().flags(&["--save", "1 0"]).start();
    let mut client = replica.client();
    client.ok("SET old 1");
    client.ok("SAVE");
    client.ok(&format!("CONFIG SET {SLOW}"));
    let mut early = replica.client();
    early.ok("MULTI");
    early.ok("GET old");
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    wait_until("it loads", || client.info("loading") == "1");
    let refusal = "LOADING Redis is loading the dataset in memory";
    assert_eq!(
        early.ask("EXEC"),
        Reply::Error(format!("EXECABORT Transaction discarded because of: {refusal}"))
    );
    assert_eq!(client.ask("PING"), Reply::Error(refusal.into()));
    assert!(client.info_int("loading_total_bytes") > 0);
    client.send(&[b"SHUTDOWN", b"SAVE"]);
    assert!(replica.wait().success(), "{}", replica.log());
    let again = setup().start();
    assert_eq!(again.client().ask("GET old").text(), "1");
    assert_eq!(again.client().ask("DBSIZE").int(), 1);
}

/// A failed save gives an error to the client that waits for it, and disturbs no other. After a
/// failed background save the server refuses writes and PING, as in Redis.
#[test]
fn a_save_that_fails_refuses_what_redis_refuses() {
    let redis = redis_is_here("a_save_that_fails_refuses_what_redis_refuses");
    let kinds = [Kind::Ours("imprint"), Kind::Redis];
    let lines = ["PING", "SET k v", "GET k", "DEL k", "PUBLISH c m", "EXISTS k", "PFCOUNT k"];
    let answers = kinds.into_iter().take(1 + usize::from(redis)).map(|kind| {
        let server = Server::start(kind);
        let mut client = server.client();
        client.call(&[b"CONFIG", b"SET", b"save", b"3600 1000000"]);
        let mut seen = Vec::new();
        let mut look = |client: &mut Client, when: &str| {
            seen.push(format!("{when}: {}", client.info("rdb_last_bgsave_status")));
            seen.extend(lines.map(|line| format!("{when}, {line}: {:?}", client.ask(line))));
        };
        look(&mut client, "before");
        break_saves(&server.folder);
        assert!(matches!(client.ask("SAVE"), Reply::Error(_)), "{kind:?}");
        look(&mut client, "after SAVE");
        assert!(matches!(client.ask("SHUTDOWN SAVE"), Reply::Error(_)), "{kind:?}");
        look(&mut client, "after SHUTDOWN");
        let _ = client.ask("BGSAVE"); // one of the two servers replies at once that it cannot save
        wait_until("it has failed", || client.info("rdb_last_bgsave_status") == "err");
        if kind != Kind::Redis {
            assert_eq!(client.info("rdb_saves_consecutive_failures"), "1"); // SAVE does not count
        }
        look(&mut client, "after BGSAVE");
        client.ok("CONFIG SET stop-writes-on-bgsave-error no");
        look(&mut client, "with stop-writes-on-bgsave-error no");
        seen
    });
    let answers: Vec<Vec<String>> = answers.collect();
    assert!(answers[0].iter().any(|line| line == "after SAVE, PING: Text([80, 79, 78, 71])"));
    for other in &answers[1..] {
        assert_eq!(&answers[0], other);
    }
}

/// Nothing can be renamed to the dump's name any more: not even root can replace a folder.
fn break_saves(folder: &Path) {
    let dump = folder.join("dump.rdb");
    fs::create_dir_all(dump.join("in the way")).expect("a folder");
}
