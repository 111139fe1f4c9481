//! The end while a replica is behind: the same steps on both servers.

use crate::replication::wait_for_link;
use crate::support::{Client, Kind, Reply, Server, Setup, redis_is_here, send_signal, wait_until};
use rustix::process::Signal;

fn on_both(test: &str, proof: impl Fn(Kind)) {
    proof(Kind::subject("imprint"));
    if redis_is_here(test) {
        proof(Kind::Redis);
    }
}

/// A primary with a replica that stands still, and has not got the last write.
fn with_a_replica_behind(kind: Kind) -> (Server, Server, Client) {
    let primary = Server::start(kind);
    let mut client = primary.client();
    client.ok("CONFIG SET repl-diskless-sync-delay 0");
    // Longer than any machine is busy: only a step of the test ends a wait.
    client.ok("CONFIG SET shutdown-timeout 1000");
    let replica = Server::start(Kind::Ours("imprint"));
    replica.client().ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    wait_for_link(&replica);
    assert_eq!(client.ask("WAIT 1 0").int(), 1);
    send_signal(replica.pid(), Signal::STOP);
    client.ok("SET last write");
    (primary, replica, client)
}

/// Waits until the server waits for its replicas before it ends.
fn await_end(client: &mut Client) {
    wait_until("the end is awaited", || {
        client.ask("INFO server").text().contains("shutdown_in_milliseconds:")
    });
}

/// SHUTDOWN on a connection of its own, which waits.
fn shutdown(primary: &Server, client: &mut Client) -> Client {
    let mut asking = primary.client();
    asking.send(&[b"SHUTDOWN", b"NOSAVE"]);
    await_end(client);
    asking
}

#[test]
fn the_end_waits_for_replicas_and_can_be_called_off() {
    on_both("the_end_waits_for_replicas_and_can_be_called_off", |kind| {
        let (mut primary, replica, mut client) = with_a_replica_behind(kind);
        let nothing = "No shutdown in progress.";
        let reply = client.ask("SHUTDOWN ABORT").text();
        assert!(reply.contains(nothing), "{kind:?}: {reply}");
        let mut asking = shutdown(&primary, &mut client);
        // Reads are served, writes wait.
        assert_eq!(client.ask("GET last").text(), "write");
        let mut writer = primary.client();
        writer.send(&[b"SET", b"held", b"1"]);
        assert_eq!(client.ask("SHUTDOWN ABORT").text(), "OK", "{kind:?}");
        let reply = asking.reply();
        let error = "ERR Errors trying to SHUTDOWN. Check logs.";
        assert_eq!(reply, Reply::Error(error.to_owned()), "{kind:?}");
        assert_eq!(writer.reply().text(), "OK", "what was held goes on");
        let mut asking = shutdown(&primary, &mut client);
        send_signal(replica.pid(), Signal::CONT);
        assert_eq!(asking.try_raw(), None, "{kind:?}: no answer but the end");
        assert_eq!(primary.wait().code(), Some(0), "{kind:?}");
        let mut client = replica.client();
        assert_eq!(client.ask("MGET last held").list().len(), 2);
        assert_eq!(client.ask("GET held").text(), "1", "{kind:?}: the replica has everything");
    });
}

#[test]
fn a_signal_waits_for_replicas_and_the_time_is_bounded() {
    on_both("a_signal_waits_for_replicas_and_the_time_is_bounded", |kind| {
        let (mut primary, _replica, mut client) = with_a_replica_behind(kind);
        send_signal(primary.pid(), Signal::TERM);
        await_end(&mut client);
        assert_eq!(client.ask("SHUTDOWN ABORT").text(), "OK");
        client.ok("CONFIG SET shutdown-timeout 1");
        send_signal(primary.pid(), Signal::TERM);
        assert_eq!(primary.wait().code(), Some(0), "{kind:?}");
    });
}

#[test]
fn the_end_need_not_wait() {
    on_both("the_end_need_not_wait", |kind| {
        let (mut primary, _replica, mut client) = with_a_replica_behind(kind);
        client.send(&[b"SHUTDOWN", b"NOSAVE", b"NOW"]);
        assert_eq!(primary.wait().code(), Some(0), "{kind:?}");
    });
}

#[test]
fn a_signal_asks_for_what_the_settings_say() {
    on_both("a_signal_asks_for_what_the_settings_say", |kind| {
        for (setting, signal) in
            [("shutdown-on-sigint", Signal::INT), ("shutdown-on-sigterm", Signal::TERM)]
        {
            for (wish, saves) in [("nosave", false), ("save now", true), ("default", true)] {
                let mut server = Server::start(kind);
                let mut client = server.client();
                client.call(&[b"CONFIG", b"SET", b"save", b"3600 1"]);
                client.call(&[b"CONFIG", b"SET", setting.as_bytes(), wish.as_bytes()]);
                client.ok("SET k v");
                send_signal(server.pid(), signal);
                assert_eq!(server.wait().code(), Some(0), "{kind:?} {setting} {wish}");
                assert_eq!(server.dump().exists(), saves, "{kind:?} {setting} {wish}");
            }
        }
    });
}

/// `timeout` and supervisors of process groups send SIGTERM twice.
#[test]
fn a_second_signal_ends_at_once_if_it_is_an_interrupt() {
    on_both("a_second_signal_ends_at_once_if_it_is_an_interrupt", |kind| {
        let (mut primary, replica, mut client) = with_a_replica_behind(kind);
        client.call(&[b"CONFIG", b"SET", b"save", b"3600 1"]);
        for _ in 0..2 {
            send_signal(primary.pid(), Signal::TERM);
            await_end(&mut client);
        }
        send_signal(replica.pid(), Signal::CONT);
        assert_eq!(primary.wait().code(), Some(0), "{kind:?}");
        assert!(primary.dump().exists(), "{kind:?}: it was saved");

        let (mut primary, _replica, mut client) = with_a_replica_behind(kind);
        send_signal(primary.pid(), Signal::TERM);
        await_end(&mut client);
        send_signal(primary.pid(), Signal::INT);
        assert_eq!(primary.wait().code(), Some(1), "{kind:?}");
    });
}

#[test]
fn a_signal_that_is_not_attended_to_yet_is_called_off() {
    on_both("a_signal_that_is_not_attended_to_yet_is_called_off", |kind| {
        let server = Setup::new(kind).flags(&["--enable-debug-command", "yes"]).start();
        let mut client = server.client();
        client.ok("DEBUG PAUSE-CRON 1");
        send_signal(server.pid(), Signal::TERM);
        wait_until("the signal has come", || client.ask("SHUTDOWN ABORT").text() == "OK");
        client.ok("DEBUG PAUSE-CRON 0");
        assert!(client.ask("SHUTDOWN ABORT").text().contains("No shutdown in progress"));
        client.ok("SET still there");
    });
}

/// The score is that of the role, and what it was before once it is nobody's business any more.
#[test]
fn the_score_for_the_killer_of_processes_is_that_of_the_role() {
    on_both("the_score_for_the_killer_of_processes_is_that_of_the_role", |kind| {
        let server = Server::start(kind);
        let mut client = server.client();
        let path = format!("/proc/{}/oom_score_adj", server.pid());
        let score = || -> i32 {
            let text = std::fs::read_to_string(&path).expect("it is there");
            text.trim().parse().expect("a number")
        };
        let before = score();
        let mut set = |pairs: &[&[u8]]| {
            let reply = client.call(&[&[&b"CONFIG"[..], b"SET"], pairs].concat());
            assert_eq!(reply.text(), "OK", "{kind:?}");
        };
        set(&[b"oom-score-adj-values", b"10 20 30"]);
        assert_eq!(score(), before, "{kind:?}: nothing is asked for");
        set(&[b"oom-score-adj", b"relative"]);
        assert_eq!(score(), before + 10, "{kind:?}");
        set(&[b"oom-score-adj-values", b"15 20 30"]);
        assert_eq!(score(), before + 15, "{kind:?}");
        set(&[b"oom-score-adj", b"absolute"]);
        assert_eq!(score(), 15, "{kind:?}");
        set(&[b"oom-score-adj", b"yes", b"oom-score-adj-values", b"2000 20 30"]);
        assert_eq!(score(), 1000, "{kind:?}: the most that the system takes");
        let mut other = server.client();
        other.ok("REPLICAOF 127.0.0.1 1");
        assert_eq!(score(), before + 20, "{kind:?}");
        other.ok("REPLICAOF NO ONE");
        assert_eq!(score(), 1000, "{kind:?}");
        set(&[b"oom-score-adj", b"no"]);
        assert_eq!(score(), before, "{kind:?}");
    });
}
