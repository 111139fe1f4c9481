//! Groups of servers that agree by raft: nothing acknowledged is lost when the leader is killed,
//! and members end equal.

mod backup;
mod directories;
mod forward;
mod full;
mod guards;
mod kinds;
mod large;
mod load;
mod membership;
mod messages;
mod returns;
mod scanned;
mod secure;
mod slow;
mod told;
mod upgrade;
mod waits;

use crate::support::{Client, Kind, Reply, Server, Setup, own_port, rounds, wait_until};

/// How to start the members of a group, again and again.
pub(crate) struct Group {
    folder: tempfile::TempDir,
    /// Of each member: the port for the others, and that for clients.
    ports: Vec<[u16; 2]>,
    /// Where the others and clients reach each member: as `ports`, or links before them.
    reached: Vec<[u16; 2]>,
    /// The number of them that begin the group; the others join it.
    founders: usize,
    flags: Vec<String>,
}

impl Group {
    fn new() -> Self {
        Self::with_members(3, 3, &[])
    }

    /// A group that `founders` of these members begin. They are counted from 0, and named from 1.
    fn with_members(members: usize, founders: usize, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let ports: Vec<_> = (0..members).map(|_| [(); 2].map(|()| own_port())).collect();
        let reached = ports.clone();
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        Self { folder, ports, reached, founders, flags }
    }

    /// The addresses of a member, as the others are told.
    fn addresses(&self, member: usize) -> String {
        let [raft, client] = self.reached[member];
        format!("127.0.0.1:{raft}/127.0.0.1:{client}")
    }

    fn setup(&self, member: usize) -> Setup {
        self.setup_as(member, member >= self.founders)
    }

    /// How to start a member that joins the group, or begins it with others.
    fn setup_as(&self, member: usize, joins: bool) -> Setup {
        let id = (member + 1).to_string();
        let listen = format!("127.0.0.1:{}", self.ports[member][0]);
        let peer = |index| format!("{}={}", index + 1, self.addresses(index));
        let peers = (0..self.founders).map(peer).collect::<Vec<_>>().join(",");
        let who = match joins {
            true => ["--raft-join", "yes"],
            false => ["--raft-peers", &peers],
        };
        let folder = self.folder.path().join(&id);
        std::fs::create_dir_all(&folder).expect("a folder");
        let own: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        Setup::new(Kind::Ours("imprint"))
            .port(self.ports[member][1])
            .folder(&folder)
            .flags(&["--raft-id", &id, "--raft-listen", &listen])
            .flags(&who)
            .flags(&["--raft-election-timeout", "500", "--raft-log-min-size", "1mb"])
            .flags(&["--enable-debug-command", "yes"])
            .flags(&own)
    }

    fn start(&self, member: usize) -> Server {
        self.setup(member).start()
    }

    fn start_founders(&self) -> Vec<Server> {
        let servers: Vec<Server> = (0..self.founders).map(|member| self.start(member)).collect();
        // One of them may serve before another has heard of it.
        let knows = |server: &Server| server.client().info_int("raft_leader") > 0;
        wait_until("all know who leads", || servers.iter().all(knows));
        servers
    }
}

/// The member that serves.
fn leader<'s>(servers: impl IntoIterator<Item = &'s Server> + Clone) -> usize {
    let serves = |server: &Server| {
        let client = Client::try_connect(server.port);
        // An error if the lead is lost meanwhile.
        let reply = client.and_then(|mut client| client.try_call(&[b"INFO", b"raft"]));
        reply.is_some_and(|reply| reply.text().contains("raft_serves:1"))
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
    let mut servers = group.start_founders();
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
    wait_until_equal(&servers);
}

/// Waits until all members hold the same.
fn wait_until_equal<'s>(servers: impl IntoIterator<Item = &'s Server> + Clone) {
    wait_until("members are equal", || {
        let digest = |server: &Server| {
            let client = Client::try_connect(server.port);
            client.and_then(|mut it| it.try_call(&[b"DEBUG", b"DIGEST"]))
        };
        let digests: Vec<Option<Reply>> = servers.clone().into_iter().map(digest).collect();
        digests[0].is_some() && digests.iter().all(|it| *it == digests[0])
    });
}

#[test]
fn a_member_that_was_stopped_drops_what_was_lost() {
    let group = Group::with_members(3, 3, &["--raft-election-timeout", "2000"]);
    let mut servers = group.start_founders();
    let old = put(&servers, "before");
    let signal = |server: &Server, name: &str| {
        let (mut kill, pid) = (std::process::Command::new("kill"), server.pid().to_string());
        assert!(kill.args([name, &pid]).status().expect("kill runs").success());
    };
    let [mut doubted, mut other] = [(); 2].map(|()| servers[old].client());
    let proposed = other.info_int("raft_proposed");
    let others = [(old + 1) % 3, (old + 2) % 3];
    others.iter().for_each(|&it| servers[it].kill());
    // What the leader runs now reaches nobody.
    doubted.send(&[b"SET", b"k", b"doubted"]);
    wait_until("it has run", || other.info_int("raft_proposed") > proposed);
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
