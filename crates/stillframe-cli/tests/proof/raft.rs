//! Groups of servers that agree by raft: nothing acknowledged is lost when the leader is killed,
//! and members end equal.

use crate::support::{Client, Kind, Reply, Server, Setup, rounds, wait_until};
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};

/// How to start a member, again and again.
struct Group {
    folder: tempfile::TempDir,
    ports: [u16; 3],
}

impl Group {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, ports: [(); 3].map(|()| port_of_a_member()) }
    }

    fn start(&self, member: usize) -> Server {
        let peer = |(index, port): (usize, &u16)| {
            format!("{}=127.0.0.1:{port}/127.0.0.1:{}", index + 1, 1 + index)
        };
        let peers: Vec<String> = self.ports.iter().enumerate().map(peer).collect();
        let (id, listen) = ((member + 1).to_string(), format!("127.0.0.1:{}", self.ports[member]));
        let flags = ["--raft-id", &id, "--raft-listen", &listen, "--raft-peers", &peers.join(",")];
        let more = ["--raft-election-timeout", "500", "--raft-log-min-size", "1mb"];
        let debug = ["--enable-debug-command", "yes"];
        let folder: &Path = &self.folder.path().join(&id);
        std::fs::create_dir_all(folder).expect("a folder");
        let flags = [&flags[..], &more, &debug].concat();
        Setup::new(Kind::Ours("imprint")).folder(folder).flags(&flags).start()
    }
}

/// A port that nobody else gets while a member is down: below those that the system hands out.
pub(crate) fn port_of_a_member() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 12_000 + (std::process::id() % 10_000) as u16;
    loop {
        let port = start + NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The member that serves.
fn leader<'s>(servers: impl IntoIterator<Item = &'s Server> + Clone) -> usize {
    let serves = |server: &Server| {
        let client = Client::try_connect(server.port);
        client.and_then(|mut it| it.try_info("raft_serves")).is_some_and(|serves| serves == "1")
    };
    let mut found = None;
    wait_until("a member serves", || {
        found = servers.clone().into_iter().position(serves);
        found.is_some()
    });
    found.expect("it was awaited")
}

/// Writes `k` at the member that serves, whichever that is in the end; returns it.
fn put<'s>(servers: impl IntoIterator<Item = &'s Server> + Clone, value: &str) -> usize {
    loop {
        let leads = leader(servers.clone());
        let server = servers.clone().into_iter().nth(leads).expect("it was found");
        let client = Client::try_connect(server.port);
        let reply = client.and_then(|mut it| it.try_call(&[b"SET", b"k", value.as_bytes()]));
        if reply == Some(Reply::Text(b"OK".to_vec())) {
            return leads;
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_with_the_leader() {
    let group = Group::new();
    let mut servers: Vec<Server> = (0..3).map(|member| group.start(member)).collect();
    // Behind an error a request may have been done, or not.
    let (mut least, mut doubted, kills) = (0, 0, rounds(3, 30));
    for round in 0..kills {
        let leads = leader(&servers);
        let mut client = servers[leads].client();
        for _ in 0..100 {
            match client.try_call(&[b"INCR", b"n"]) {
                Some(Reply::Int(count)) => {
                    assert!((least + 1..=least + 1 + doubted).contains(&count), "round {round}");
                    (least, doubted) = (count, 0);
                }
                other => {
                    println!("round {round}: {other:?}");
                    doubted += 1;
                    break;
                }
            }
        }
        if round % 2 == 0 {
            let _ = client.try_call(&[b"BGSAVE"]);
        }
        servers[leads].kill();
        let next = leader(servers[..leads].iter().chain(&servers[leads + 1..]));
        let next = if next < leads { next } else { next + 1 };
        if let Some(Reply::Text(text)) = servers[next].client().try_call(&[b"GET", b"n"]) {
            let found: i64 = String::from_utf8_lossy(&text).parse().expect("a count");
            assert!((least..=least + doubted).contains(&found), "round {round}: {found}");
            (least, doubted) = (found, 0);
        }
        servers[leads] = group.start(leads);
    }
    wait_until("members are equal", || {
        let digest = |server: &Server| {
            let client = Client::try_connect(server.port);
            client.and_then(|mut it| it.try_call(&[b"DEBUG", b"DIGEST"]))
        };
        let digests: Vec<Option<Reply>> = servers.iter().map(digest).collect();
        digests[0].is_some() && digests.iter().all(|it| *it == digests[0])
    });
}

#[test]
fn a_member_that_was_stopped_drops_what_was_lost() {
    let group = Group::new();
    let mut servers: Vec<Server> = (0..3).map(|member| group.start(member)).collect();
    let old = put(&servers, "before");
    let signal = |server: &Server, name: &str| {
        let (mut kill, pid) = (std::process::Command::new("kill"), server.pid().to_string());
        assert!(kill.args([name, &pid]).status().expect("kill runs").success());
    };
    let mut doubted = servers[old].client();
    let others = [(old + 1) % 3, (old + 2) % 3];
    others.iter().for_each(|&it| servers[it].kill());
    // What the leader runs now reaches nobody.
    doubted.send(&[b"SET", b"k", b"doubted"]);
    std::thread::sleep(std::time::Duration::from_millis(50));
    signal(&servers[old], "-STOP");
    others.iter().for_each(|&it| servers[it] = group.start(it));
    let next = others[put(others.iter().map(|&it| &servers[it]), "after")];
    signal(&servers[old], "-CONT");
    let digest = servers[next].client().ask("DEBUG DIGEST");
    // Its connections may end once more: those with requests from before.
    let ask = |words: &[&[u8]]| {
        Client::try_connect(servers[old].port).and_then(|mut it| it.try_call(words))
    };
    wait_until("it is as the others", || {
        ask(&[b"DEBUG", b"DIGEST"]).is_some_and(|found| found == digest)
    });
    let reloads = servers[old].client().info_int("raft_reloads");
    assert_eq!(reloads, 1, "what it had proposed was lost");
    let refused = doubted.try_raw();
    let refused = refused.map(|it| String::from_utf8_lossy(&it).into_owned());
    assert!(refused.as_ref().is_none_or(|it| it.contains("no longer leads")), "{refused:?}");
}
