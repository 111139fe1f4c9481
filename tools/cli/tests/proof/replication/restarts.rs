//! Servers that start from the file of a stream: a replica that has as much of it needs no image.

use super::{Who, assert_equal, fill, wait_for_all, wait_for_link};
use crate::collections::debugged;
use crate::support::{Kind, Random, Server, Setup, redis_is_here, send_signal, wait_until};
use rustix::process::Signal;
use std::path::Path;
use std::time::Duration;

/// A server whose data is in `folder`.
fn start(who: Who, folder: &Path, more: &[&str]) -> Server {
    let flags = ["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"];
    let flags = [&flags, more].concat();
    match who {
        Who::Redis | Who::Newer(_) => debugged(
            who.kind(),
            Some(folder),
            &flags[..2].iter().chain(more).fold(String::new(), |line, word| {
                line + " " + if word.is_empty() { "''" } else { word }
            }),
        ),
        Who::Ours => Setup::new(Kind::Ours("imprint")).folder(folder).flags(&flags).start(),
    }
}

fn follow(replica: &Server, primary: &Server) {
    replica.client().ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    wait_for_link(replica);
}

/// Saves, and ends.
fn shut_down(server: &mut Server) {
    server.client().send(&[b"SHUTDOWN", b"SAVE", b"NOW"]);
    server.wait();
}

fn syncs(server: &Server) -> [i64; 2] {
    ["sync_full", "sync_partial_ok"].map(|name| server.client().info_int(name))
}

#[test]
fn replicas_of_a_primary_that_restarts_go_on() {
    let mut random = Random::new("a primary that restarts");
    let whom = if redis_is_here("a primary that restarts") { Who::Redis } else { Who::Ours };
    for (before, after) in [(Who::Ours, Who::Ours), (Who::Ours, whom), (whom, Who::Ours)] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut old = start(before, folder.path(), &[]);
        let replicas = [Who::Ours.follow(old.port), whom.follow(old.port)];
        replicas.iter().for_each(wait_for_link);
        let behind = Who::Ours.follow(replicas[0].port);
        wait_for_link(&behind);
        let mut client = old.client();
        client.ok("DEBUG SET-ACTIVE-EXPIRE 0");
        fill(&old, &mut random, 200);
        for number in 0..64 {
            client.ok(&format!("SELECT {}", number % 16));
            client.ok(&format!("SET short:{number} v PX 1"));
        }
        replicas.iter().chain([&behind]).for_each(|replica| wait_for_all(&old, replica));
        let [id, end] = ["master_replid", "master_repl_offset"].map(|name| client.info(name));
        shut_down(&mut old);
        std::thread::sleep(Duration::from_millis(2)); // the time of the last has come
        let new = start(after, folder.path(), &[]);
        let mut client = new.client();
        assert_ne!(client.info("master_replid"), id, "it may have lost what it said last");
        assert_eq!(client.info("master_replid2"), id, "{}", new.log());
        assert_eq!(client.info_int("second_repl_offset"), end.parse::<i64>().unwrap() + 1);
        assert!(client.info_int("rdb_last_load_keys_expired") >= 64);
        replicas.iter().for_each(|replica| follow(replica, &new));
        fill(&new, &mut random, 50);
        replicas.iter().chain([&behind]).for_each(|replica| assert_equal(&new, replica));
        assert_eq!(syncs(&new), [0, 2], "{before:?} {after:?}: {}", new.log());
        assert_eq!(syncs(&replicas[0])[0], 1, "the one behind it goes on, too");
    }
}

/// Keys that expire, and pings that are due, while the server ends are no part of its last image.
#[test]
fn nothing_is_propagated_behind_the_last_image() {
    for (log, by_signal) in [("no", true), ("no", false), ("yes", true), ("yes", false)] {
        let folder = tempfile::tempdir().expect("a folder");
        let flags = ["--save", "3600 1", "--appendonly", log];
        let mut old = start(Who::Ours, folder.path(), &flags);
        let replica = Who::Ours.follow(old.port);
        wait_for_link(&replica);
        let mut client = old.client();
        client.ok("DEBUG SET-ACTIVE-EXPIRE 0");
        for number in 0..20_000 {
            client.send(&[b"SET", format!("short:{number}").as_bytes(), b"v", b"PX", b"1"]);
        }
        (0..20_000).for_each(|_| assert_eq!(client.reply().text(), "OK"));
        wait_for_all(&old, &replica);
        // The shutdown must not wait for the replica.
        wait_until("the replica has said so", || {
            let end = client.info("master_repl_offset");
            client.info("slave0").contains(&format!(",offset={end},"))
        });
        // The clock looks for expired keys in the turn in which the server ends.
        client.send(&[b"DEBUG", b"SET-ACTIVE-EXPIRE", b"1"]);
        client.send(&[b"DEBUG", b"SLEEP", b"0.5"]);
        if by_signal {
            // Mostly in the middle of DEBUG SLEEP; what follows holds whenever it comes.
            std::thread::sleep(Duration::from_millis(100));
            send_signal(old.pid(), Signal::TERM);
        } else {
            client.send(&[b"SHUTDOWN"]);
        }
        old.wait();
        let new = start(Who::Ours, folder.path(), &flags);
        follow(&replica, &new);
        assert_equal(&new, &replica);
        assert_eq!(syncs(&new), [0, 1], "{log} {by_signal}: {}\n{}", new.log(), replica.log());
    }
}

#[test]
fn who_heard_more_than_a_primary_knows_after_a_crash_takes_an_image() {
    let mut random = Random::new("a primary that forgets");
    let folder = tempfile::tempdir().expect("a folder");
    let mut old = start(Who::Ours, folder.path(), &[]);
    let replica = Who::Ours.follow(old.port);
    wait_for_link(&replica);
    fill(&old, &mut random, 50);
    old.client().ok("SAVE");
    old.client().ok("SET forgotten v");
    wait_for_all(&old, &replica);
    old.kill();
    let new = start(Who::Ours, folder.path(), &[]);
    follow(&replica, &new);
    assert_equal(&new, &replica);
    assert_eq!(replica.client().ask("EXISTS forgotten").int(), 0);
    assert_eq!(syncs(&new), [1, 0]);
}

#[test]
fn a_primary_whose_log_goes_on_behind_the_file_sends_an_image() {
    for (last, expected) in [("NOSAVE", [1, 0]), ("SAVE", [0, 1])] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut old = start(Who::Ours, folder.path(), &["--appendonly", "yes"]);
        let replica = Who::Ours.follow(old.port);
        wait_for_link(&replica);
        old.client().ok("SET k v");
        old.client().ok("SAVE");
        old.client().ok("SET k w");
        wait_for_all(&old, &replica);
        old.client().send(&[b"SHUTDOWN", last.as_bytes()]);
        old.wait();
        let new = start(Who::Ours, folder.path(), &["--appendonly", "yes"]);
        follow(&replica, &new);
        assert_equal(&new, &replica);
        assert_eq!(replica.client().ask("GET k").text(), "w");
        assert_eq!(syncs(&new), expected, "{last}: {}", new.log());
    }
}

#[test]
fn a_replica_that_restarts_goes_on() {
    let mut random = Random::new("a replica that restarts");
    let whom = if redis_is_here("a replica that restarts") { Who::Redis } else { Who::Ours };
    for (who, before, after) in [
        (Who::Ours, Who::Ours, Who::Ours),
        (whom, Who::Ours, Who::Ours),
        (Who::Ours, Who::Ours, whom),
        (Who::Ours, whom, Who::Ours),
    ] {
        let primary = who.start("");
        let folder = tempfile::tempdir().expect("a folder");
        let port = primary.port.to_string();
        let flags = ["--replicaof", "127.0.0.1", &port];
        let mut old = start(before, folder.path(), &flags);
        wait_for_link(&old);
        fill(&primary, &mut random, 100);
        // The primary's DEL deletes what has expired meanwhile.
        primary.client().ok("SET short v PX 1");
        primary.client().ok("SELECT 7");
        wait_for_all(&primary, &old);
        shut_down(&mut old);
        fill(&primary, &mut random, 100);
        let new = start(after, folder.path(), &flags);
        wait_for_link(&new);
        assert_equal(&primary, &new);
        assert_eq!(syncs(&primary), [1, 1], "{who:?} {before:?} {after:?}: {}", new.log());
    }
}

/// The stream of a replica is its primary's, whose SELECT counts for the stream alone.
#[test]
fn a_file_for_the_replica_of_a_replica_tells_the_selected_database() {
    let primary = Who::Ours.start("");
    let mut client = primary.client();
    client.ok("SELECT 5");
    client.ok("SET before v");
    let replica = Who::Ours.follow(primary.port);
    wait_for_link(&replica);
    client.ok("SET first v");
    wait_for_all(&primary, &replica);
    replica.client().ok("CONFIG SET repl-diskless-sync no");
    let last = Who::Ours.follow(replica.port);
    wait_for_link(&last);
    client.ok("SET second v");
    assert_equal(&primary, &last);
    assert_eq!(last.client().info("db5"), primary.client().info("db5"));
}

#[test]
fn a_stream_is_pinged_when_its_period_is_over_and_not_before() {
    let primary = Who::Ours.start("--repl-ping-replica-period 3600");
    let replica = Who::Ours.follow(primary.port);
    wait_for_link(&replica);
    let mut client = primary.client();
    let first = client.info_int("uptime_in_seconds");
    wait_until("the clock has looked", || client.info_int("uptime_in_seconds") > first + 2);
    assert_eq!(client.info_int("master_repl_offset"), 0);
    client.ok("CONFIG SET repl-ping-replica-period 1");
    wait_until("it is pinged", || client.info_int("master_repl_offset") > 0);
}

#[test]
fn a_primary_hears_at_once_that_its_link_was_killed() {
    let primary = Who::Ours.start("");
    let folder = tempfile::tempdir().expect("a folder");
    let replica = start(Who::Ours, folder.path(), &[]);
    follow(&replica, &primary);
    let mut client = replica.client();
    client.ok("MULTI");
    client.ok("CLIENT KILL TYPE master");
    let mut killed = replica.client();
    killed.ok("CLIENT SETNAME killed");
    client.ok("CLIENT KILL TYPE normal");
    client.ok("DEBUG SLEEP 10000"); // it is killed before
    client.send(&[b"EXEC"]);
    assert_eq!(killed.receive_raw(), None, "a client hears of it at once, too");
    wait_until("the link is gone", || primary.client().info("connected_slaves") == "0");
}
