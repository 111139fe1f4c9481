//! Members are replaced by those of another version, one after the other, while clients write.
//!
//! `STILLFRAME_OLD` names the binary of an earlier version; without it all are of this one. The
//! earliest that a group comes from is of before 26 November 2026, when groups had no id.
//! `.ci/long upgrade` builds such binaries.

use std::path::PathBuf;

use super::load::{Counter, under_load};
use super::membership::{SLOW, fill};
use super::secure::{flags, with};
use super::{Group, leader, put, wait_until_equal};
use crate::operations::certificates::Certificates;
use crate::support::{Client, Reply, Server, Setup, wait_until};

/// A group that begins with members of the earlier version.
struct Upgrade {
    group: Group,
    old: Option<String>,
    /// For TLS between members.
    made: Option<Certificates>,
    servers: Vec<Server>,
}

impl Upgrade {
    fn begin(made: Option<Certificates>) -> Self {
        let old = std::env::var("STILLFRAME_OLD").ok();
        if old.is_none() {
            println!("members of one version: STILLFRAME_OLD names no other");
        }
        let group = Group::with_members(4, 3, &SLOW);
        let mut upgrade = Self { group, old, made, servers: Vec::new() };
        let start = |member| upgrade.start_old(member).expect("it is new");
        let servers = (0..3).map(start).collect();
        upgrade.servers = servers;
        upgrade
    }

    fn setup(&self, member: usize) -> Setup {
        let setup = self.group.setup(member);
        match &self.made {
            Some(made) => {
                // The fourth is refused for its version before anybody looks whose this is.
                let own = ["server", "second", "client", "server"][member];
                with(setup, &flags(made, own, "ca.crt"))
            }
            None => setup,
        }
    }

    /// Starts a member of the earlier version, or says why it does not start.
    fn start_old(&self, member: usize) -> Result<Server, String> {
        let setup = self.setup(member);
        match &self.old {
            Some(old) => setup.wrapper(&["sh", "-c", &format!("exec {old} \"$@\"")]).try_start(),
            None => setup.try_start(),
        }
    }

    /// Starts a member again, of this version.
    fn replace(&mut self, member: usize) {
        self.servers[member].kill();
        self.servers[member] = self.setup(member).start();
        self.wait_for(member);
    }

    /// As after a change of mind: an earlier version goes on, or says what it cannot read.
    fn go_back(&mut self, member: usize, unread: &[&str]) {
        self.servers[member].kill();
        match self.start_old(member) {
            Ok(server) => {
                self.servers[member] = server;
                self.wait_for(member);
            }
            Err(why) => {
                let file = self.identity_file(member).display().to_string();
                let why = why.lines().last().unwrap_or_default();
                assert!(why.contains(&file) && unread.iter().any(|it| why.contains(it)), "{why}");
                println!("it cannot go back: {why}");
            }
        }
    }

    fn wait_for(&self, member: usize) {
        wait_until("it has what the others have", || {
            let applied = |server: &Server| {
                let text = Client::try_connect(server.port)?.try_info("raft_applied_index");
                text?.parse::<u64>().ok()
            };
            let most = self.servers.iter().filter_map(applied).max();
            applied(&self.servers[member]).zip(most).is_some_and(|(own, most)| own + 50 > most)
        });
    }

    /// Waits until clients have counted on, whichever versions the members are of now.
    fn wait_for_counts(&self) {
        let count = || {
            let leads = &self.servers[leader(&self.servers)];
            let reply = Client::try_connect(leads.port)?.try_call(&[b"GET", b"n"])?;
            matches!(reply, Reply::Text(_)).then(|| reply.text().parse::<i64>().expect("a count"))
        };
        let mut before = None;
        wait_until("clients have counted on", || {
            let now = count();
            before = before.or(now);
            now > before
        });
    }

    fn hand_on(&self, member: usize) {
        let to = ((member + 1) % 3 + 1).to_string();
        let request: [&[u8]; 4] = [b"STILLFRAME", b"RAFT", b"TRANSFER", to.as_bytes()];
        wait_until("another leads", || {
            let leads = leader(&self.servers);
            leads != member || {
                let _ = self.servers[leads].client().try_call(&request);
                false
            }
        });
    }

    fn identity_file(&self, member: usize) -> PathBuf {
        self.group.folder.path().join((member + 1).to_string()).join("raft-member")
    }

    /// Waits until the log has bound all members to their certificates, and all know it.
    fn wait_for_bindings(&self) {
        wait_until("all are bound", || {
            [0, 1, 2].iter().all(|&member| {
                let text =
                    std::fs::read_to_string(self.identity_file(member)).expect("it is there");
                [1, 2, 3].iter().all(|id| text.contains(&format!("\nbound {id} ")))
            })
        });
    }

    /// A member of the earlier version is not taken in: it would lose what is bound.
    fn refuses_old(&self) {
        let Some(_) = &self.old else { return };
        let _joins = self.start_old(3).expect("it is new");
        let add = format!("STILLFRAME RAFT ADD 4 {}", self.group.addresses(3));
        let reply = self.servers[leader(&self.servers)].client().ask(&add);
        println!("it is not taken in: {reply:?}");
        assert!(reply.text().contains("is of an older version"), "{reply:?}");
    }

    /// The id of the group, if the directory of a member has one.
    fn group_id(&self, member: usize) -> Option<String> {
        let text = std::fs::read_to_string(self.identity_file(member)).expect("it is there");
        let id = text.lines().find_map(|line| line.strip_prefix("group-id "))?;
        (id != "-").then(|| id.to_owned())
    }
}

#[test]
fn members_are_replaced_by_another_version_one_by_one() {
    for leader_first in [false, true] {
        let test = "members_are_replaced_by_another_version_one_by_one";
        let made = if leader_first { Certificates::new(test, &[]) } else { None };
        let mut upgrade = Upgrade::begin(made);
        let leads = put(&upgrade.servers, "before");
        fill(&mut upgrade.servers[leads].client());
        if leader_first {
            let _ = upgrade.servers[leads].client().try_call(&[b"BGSAVE"]); // with an image, or not
        }
        let ports: Vec<u16> = upgrade.servers.iter().map(|it| it.port).collect();
        let mut counter = Counter::new("n");
        under_load(std::slice::from_mut(&mut counter), &ports, || {
            let leads = leader(&upgrade.servers);
            let [one, two] = [(leads + 1) % 3, (leads + 2) % 3];
            let order = if leader_first { [leads, one, two] } else { [one, two, leads] };
            for member in order {
                if !leader_first {
                    upgrade.hand_on(member);
                }
                upgrade.replace(member);
                if member == one {
                    upgrade.go_back(one, &["version 1"]);
                    upgrade.replace(one);
                }
                upgrade.wait_for_counts();
            }
        });
        counter.check(&mut upgrade.servers[leader(&upgrade.servers)].client());
        assert!(counter.told() > 0);
        put(&upgrade.servers, "at the end");
        wait_until_equal(&upgrade.servers);
        // The group has an id, whether it began with one or not, and nobody was stopped for it.
        wait_until("all know the id of the group", || {
            let ids = [0, 1, 2].map(|member| upgrade.group_id(member));
            ids[0].is_some() && ids.iter().all(|id| *id == ids[0])
        });
        if upgrade.made.is_some() {
            upgrade.wait_for_bindings();
            upgrade.refuses_old();
            // From now on an earlier version would lose what is bound.
            upgrade.go_back(0, &["version 1", "is no line of it"]);
        }
    }
}
