//! A member that was away, and a leader that is left alone.

use super::{Group, leader, put, wait_until_equal};
use crate::support::{Client, Server, rounds, send_signal, wait_until};
use rustix::process::Signal;
use std::time::Duration;

/// Away for longer than it takes to miss a leader, it must not end the reign of one that is well.
#[test]
fn a_member_that_was_away_costs_no_election() {
    let group = Group::with_members(3, 3, &["--raft-election-timeout", "2000"]);
    let servers = group.start_founders();
    let leads = put(&servers, "before");
    let term = || servers[leads].client().info_int("raft_term");
    let before = term();
    for round in 0..rounds(3, 12) {
        let away = &servers[(leads + 1 + round % 2) % 3];
        let stood = away.client().info_int("raft_elections");
        send_signal(away.pid(), Signal::STOP);
        if round % 2 == 0 {
            servers[leads].client().ok(&format!("SET k {round}"));
        }
        std::thread::sleep(Duration::from_millis(5_000));
        send_signal(away.pid(), Signal::CONT);
        wait_until_equal(&servers);
        wait_until("it knows its leader", || {
            away.client().info_int("raft_leader") == leads as i64 + 1
        });
        assert_eq!(away.client().info_int("raft_elections"), stood, "round {round}: it stood");
        assert_eq!(term(), before, "round {round}");
    }
}

/// It does not know of its removal: it asks for votes, gets none, and is told.
#[test]
fn a_member_that_was_removed_while_it_was_away_is_told() {
    let group = Group::new();
    let mut servers = group.start_founders();
    let leads = put(&servers, "before");
    let away = (leads + 1) % 3;
    servers[away].kill();
    servers[leads].client().ok(&format!("STILLFRAME RAFT REMOVE {}", away + 1));
    let stood = |server: &Server| server.client().info_int("raft_elections");
    servers[away] = group.start(away);
    let before = stood(&servers[away]);
    let told = "does not belong to their group any more";
    wait_until("it is told", || servers[away].log().contains(told));
    assert_eq!(stood(&servers[away]), before, "it changes no term");
    assert!(servers[away].client().ask("GET k").text().starts_with("CLUSTERDOWN"));
    assert!(leader([&servers[leads], &servers[(leads + 2) % 3]]) < 2);
}

/// Passed on to a leader that says no more, it is not left waiting until another leads.
#[test]
fn a_client_of_a_leader_that_is_missed_is_told() {
    let group = Group::with_members(3, 3, &["--raft-forward", "yes"]);
    let servers = group.start_founders();
    let leads = put(&servers, "before");
    let (follows, other) = ((leads + 1) % 3, (leads + 2) % 3);
    wait_until("it knows its leader", || {
        servers[follows].client().info_int("raft_leader") == leads as i64 + 1
    });
    let mut client = servers[follows].client();
    client.ok("SET k passed-on");
    for silent in [leads, other] {
        send_signal(servers[silent].pid(), Signal::STOP);
    }
    client.send(&[b"GET", b"k"]);
    let text = client.reply().text();
    assert!(text.contains("The connection to the leader was lost"), "{text}");
    let text = servers[follows].client().ask("GET k").text();
    assert!(text.starts_with("CLUSTERDOWN"), "{text}");
    for silent in [leads, other] {
        send_signal(servers[silent].pid(), Signal::CONT);
    }
    put(&servers, "after");
    wait_until_equal(&servers);
}

/// With a write in flight and nobody to take it, whatever needs no majority is answered.
#[test]
fn a_leader_without_a_majority_is_not_mute() {
    let group = Group::new();
    let servers = group.start_founders();
    let leads = put(&servers, "before");
    let server = &servers[leads];
    let [mut writer, mut blocked, mut other] = [(); 3].map(|()| server.client());
    blocked.send(&[b"BLPOP", b"none", b"0"]);
    wait_until("it waits", || other.info("blocked_clients") == "1");
    let others = [(leads + 1) % 3, (leads + 2) % 3];
    others.iter().for_each(|&it| stop(&servers[it]));
    writer.send(&[b"SET", b"k", b"doubted"]);
    let answers = |other: &mut Client| {
        for request in ["PING", "INFO", "CLUSTER SLOTS", "STILLFRAME RAFT STATUS", "CONFIG GET hz"]
        {
            other.ask(request);
            server.client().ask(request);
        }
    };
    answers(&mut other);
    let text = writer.reply().text();
    assert!(text.contains("no longer leads its group"), "{text}");
    let text = blocked.reply().text();
    assert!(text.starts_with("CLUSTERDOWN"), "{text}");
    for request in ["GET k", "SET k more", "DBSIZE"] {
        let text = server.client().ask(request).text();
        assert!(text.starts_with("CLUSTERDOWN"), "{request}: {text}");
    }
    answers(&mut other);
    others.iter().for_each(|&it| send_signal(servers[it].pid(), Signal::CONT));
    put(&servers, "after");
    wait_until_equal(&servers);
}

/// Stops a server, and waits until none of its threads runs.
fn stop(server: &Server) {
    send_signal(server.pid(), Signal::STOP);
    let stands = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    };
    wait_until("all of its threads stand", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("its threads");
        tasks.flatten().all(stands)
    });
}
