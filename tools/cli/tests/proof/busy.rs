//! Scripts that do not end: other clients are told so, and end them, as at redis-server.
//!
//! A step is taken only once the server says BUSY, so that no reply depends on timing.

use crate::replication::{Who, assert_equal, wait_for_link};
use crate::support::{Client, Kind, Reply, Server, Setup, redis_is_here, wait_until};

const ENDLESS: &[u8] = b"while true do end";
const WRITES: &[u8] = b"redis.call('rpush', KEYS[1], 'x') while true do end";

/// A server that tells of a busy script soon.
fn start(kind: Kind, flags: &[&str]) -> Server {
    Setup::new(kind).flags(&["--busy-reply-threshold", "1"]).flags(flags).start()
}

/// Waits until the server says that a script is busy.
fn await_busy(client: &mut Client) {
    wait_until("a script is busy", || match client.ask("PING") {
        Reply::Error(text) => text.starts_with("BUSY"),
        _ => false,
    });
}

/// The replies to requests, a line each.
fn say(client: &mut Client, lines: &[&str], said: &mut Vec<String>) {
    for line in lines {
        client.send(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        said.push(format!("{line}: {}", client.raw().escape_ascii()));
    }
}

/// What ours says must be what redis-server says.
fn both(test: &str, script: impl Fn(Kind) -> Vec<String>) {
    let said = script(Kind::subject("imprint"));
    if redis_is_here(test) {
        assert_eq!(script(Kind::Redis), said, "redis-server's (left) and ours");
    }
}

#[test]
fn a_busy_script_leaves_a_few_commands_and_is_killed() {
    both("a_busy_script_leaves_a_few_commands_and_is_killed", |kind| {
        let server = start(kind, &[]);
        let [mut first, mut other, mut open] = [(); 3].map(|()| server.client());
        let mut said = Vec::new();
        say(&mut open, &["MULTI", "SET k v"], &mut said);
        for script in [ENDLESS, &b"while true do pcall(redis.call, 'get', 'k') end"[..]] {
            first.send(&[b"EVAL", script, b"0"]);
            first.send(&[b"PING"]); // waits behind the script
            await_busy(&mut other);
            let refused =
                ["GET k", "CONFIG GET x", "INFO", "EVAL x 0", "SHUTDOWN", "FUNCTION STATS"];
            say(&mut other, &refused, &mut said);
            let served = ["MULTI", "SET k v", "EXEC", "DISCARD", "WATCH k", "UNWATCH", "AUTH x"];
            say(&mut other, &served, &mut said);
            say(&mut open, &["EXEC"], &mut said);
            say(&mut server.client(), &["GET new", "RESET", "QUIT"], &mut said);
            say(&mut other, &["FUNCTION KILL", "SCRIPT KILL"], &mut said);
            said.extend([first.raw(), first.raw()].map(|raw| raw.escape_ascii().to_string()));
            say(&mut other, &["PING", "SCRIPT KILL"], &mut said);
        }
        first.send(&[b"MULTI"]);
        first.send(&[b"SET", b"before", b"1"]);
        first.send(&[b"EVAL", ENDLESS, b"0"]);
        first.send(&[b"SET", b"after", b"1"]);
        first.send(&[b"EXEC"]);
        await_busy(&mut other);
        say(&mut other, &["SCRIPT KILL"], &mut said);
        said.extend((0..5).map(|_| first.raw().escape_ascii().to_string()));
        say(&mut other, &["MGET before after"], &mut said);
        let source =
            b"#!lua name=l\nredis.register_function('f', function() while true do end end)";
        other.call(&[b"FUNCTION", b"LOAD", source]);
        first.send(&[b"FCALL", b"f", b"0"]);
        await_busy(&mut other);
        say(&mut other, &["GET k", "SCRIPT KILL", "FUNCTION KILL"], &mut said);
        said.push(first.raw().escape_ascii().to_string());
        said
    });
}

#[test]
fn the_client_of_a_busy_script_may_leave() {
    let server = start(Kind::subject("imprint"), &[]);
    let (mut first, mut other) = (server.client(), server.client());
    first.send(&[b"EVAL", ENDLESS, b"0"]);
    await_busy(&mut other);
    drop(first);
    await_busy(&mut other);
    other.ok("SCRIPT KILL");
    wait_until("the client is gone", || other.info_int("connected_clients") == 1);
}

#[test]
fn a_script_that_wrote_ends_with_the_server_and_leaves_nothing() {
    for policy in ["always", "everysec"] {
        let folder = tempfile::tempdir().expect("a folder");
        let setup = |kind| {
            let flags = ["--appendonly", "yes", "--appendfsync", policy];
            let flags: Vec<_> = ["--busy-reply-threshold", "1"].into_iter().chain(flags).collect();
            Setup::new(kind).folder(folder.path()).flags(&flags).start()
        };
        let mut server = setup(Kind::subject("imprint"));
        let [mut first, mut other, mut waiter] = [(); 3].map(|()| server.client());
        other.ok("SET k v");
        waiter.send(&[b"BLPOP", b"list", b"0"]);
        wait_until("a client waits", || other.info_int("blocked_clients") == 1);
        // The script's unit is open: what went before it in the transaction goes with it.
        first.ok("MULTI");
        first.ok("SET before 1");
        first.call(&[b"EVAL", WRITES, b"1", b"list"]);
        first.ok("SET after 1");
        first.send(&[b"EXEC"]);
        await_busy(&mut other);
        let Reply::Error(text) = other.ask("SCRIPT KILL") else { panic!("it was killed") };
        assert!(text.starts_with("UNKILLABLE"), "{text}");
        let Reply::Error(text) = other.ask("SHUTDOWN SAVE") else { panic!("it saved") };
        assert!(text.starts_with("BUSY"), "{text}");
        other.send(&[b"SHUTDOWN", b"NOSAVE"]);
        assert!(server.wait().success());
        assert!(waiter.try_raw().is_none(), "the client that waits was served half a script");
        assert!(first.try_raw().is_none(), "half a transaction has a reply");
        drop(server);
        let server = setup(Kind::subject("imprint"));
        let mut client = server.client();
        assert_eq!(client.ask("GET k"), Reply::Text(b"v".to_vec()), "{policy}");
        assert_eq!(client.ask("EXISTS before list after"), Reply::Int(0), "{policy}");
    }
}

/// A script that does not end meets a save and replicas: the save and the first image for a replica
/// end, and all that was written is there.
#[test]
fn a_save_and_replicas_outlast_a_busy_script() {
    let server = start(Kind::Ours("imprint"), &["--repl-diskless-sync-delay", "0"]);
    let [mut first, mut other] = [(); 2].map(|()| server.client());
    let replica = Who::Ours.follow(server.port);
    wait_for_link(&replica);
    for round in 0..2 {
        let writes =
            format!("for n = 1, 2000 do redis.call('SET', 'k' .. {round} .. n, n) end return 1");
        assert_eq!(first.call(&[b"EVAL", writes.as_bytes(), b"0"]), Reply::Int(1));
        other.ok("BGSAVE");
        first.send(&[b"EVAL", ENDLESS, b"0"]);
        await_busy(&mut other);
        let late = Server::start(Kind::Ours("imprint"));
        late.client().ok(&format!("REPLICAOF 127.0.0.1 {}", server.port));
        wait_until("the script has met it", || late.log().contains("the primary"));
        other.ok("SCRIPT KILL");
        assert!(matches!(first.reply(), Reply::Error(_)));
        other.wait_for_save();
        assert_eq!(other.info("rdb_last_bgsave_status"), "ok");
        other.ok(&format!("SET after {round}"));
        for follower in [&replica, &late] {
            assert_equal(&server, follower);
        }
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::copy(server.dump(), folder.path().join("dump.rdb")).expect("the dump is there");
        let saved = Setup::new(Kind::Ours("imprint")).folder(folder.path()).start();
        let keys = saved.client().ask("KEYS k*").list().len();
        assert_eq!(keys, 2_000 * (round + 1), "the state before the script that did not end");
    }
}
