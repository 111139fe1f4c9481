//! CLUSTERSCAN through a group of three, as a client of a cluster walks.

use std::collections::BTreeSet;

use super::{Group, leader, put, wait_until_equal};
use crate::support::{Client, Reply, Server, wait_until};

const KEYS: usize = 2_000;

/// Keys of all kinds, some of which share a slot.
fn keys() -> BTreeSet<String> {
    (0..KEYS).map(|i| if i % 10 == 0 { format!("{{t}}{i}") } else { format!("k{i}") }).collect()
}

fn fill(server: &Server) {
    let mut client = server.client();
    for key in keys() {
        client.ok(&format!("SET {key} v"));
    }
}

/// A walk of one client, which goes where it is redirected to.
struct Walk<'g> {
    servers: &'g [Server],
    at: usize,
    readonly: bool,
    cursor: String,
    found: BTreeSet<String>,
    redirects: usize,
}

impl<'g> Walk<'g> {
    fn new(servers: &'g [Server], at: usize, readonly: bool) -> Self {
        let (cursor, found) = ("0".to_owned(), BTreeSet::new());
        Self { servers, at, readonly, cursor, found, redirects: 0 }
    }

    /// Asks for one page, or is sent elsewhere; whether the walk has ended.
    fn step(&mut self, options: &str) -> bool {
        let line = format!("CLUSTERSCAN {}{options}", self.cursor);
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let client = Client::try_connect(self.servers[self.at].port);
        let reply = client.and_then(|mut client| {
            if self.readonly {
                client.try_call(&[b"READONLY"])?;
            }
            client.try_call(&words)
        });
        match reply {
            Some(Reply::List(page)) => {
                self.found.extend(page[1].list().iter().map(Reply::text));
                self.cursor = page[0].text();
                return self.cursor == "0";
            }
            Some(Reply::Error(text)) if text.starts_with("MOVED ") => {
                let port = text.rsplit(':').next().and_then(|port| port.parse().ok());
                let to = self.servers.iter().position(|server| Some(server.port) == port);
                self.at = to.unwrap_or_else(|| panic!("{text}"));
                self.redirects += 1;
            }
            // Between two leaders, or at one that is gone: anybody may know the next.
            Some(Reply::Error(text)) if !text.starts_with("CLUSTERDOWN") => panic!("{text}"),
            _ => self.at = (self.at + 1) % self.servers.len(),
        }
        false
    }

    fn finish(&mut self, options: &str) {
        let name = format!("the walk{options} ends");
        wait_until(&name, || self.step(options));
    }
}

#[test]
fn walks_go_through_the_keys_of_a_group() {
    let group = Group::with_members(3, 3, &["--raft-read", "local"]);
    let servers = group.start_founders();
    let leads = put(&servers, "v");
    fill(&servers[leads]);
    wait_until_equal(&servers);
    let mut all = keys();
    all.insert("k".to_owned());
    let of_t: BTreeSet<String> = all.iter().filter(|key| key.starts_with("{t}")).cloned().collect();
    for at in [leads, (leads + 1) % 3] {
        for (options, expected) in
            [("", &all), (" COUNT 100", &all), (" MATCH {t}* COUNT 100", &of_t)]
        {
            for readonly in [false, true] {
                let mut walk = Walk::new(&servers, at, readonly);
                walk.finish(options);
                assert_eq!(&walk.found, expected, "{options} at {at}, {leads} leads");
                let serves = if readonly { at } else { leads };
                assert_eq!(walk.at, serves, "{options}: who serves it");
                assert_eq!(walk.redirects, usize::from(serves != at), "{options}");
            }
        }
    }
}

/// It begins anew at the next leader, so it shows keys twice, and misses none.
#[test]
fn a_walk_goes_on_while_the_leader_changes() {
    let group = Group::new();
    let mut servers = group.start_founders();
    let first = put(&servers, "v");
    fill(&servers[first]);
    for _ in 0..2 {
        let leads = leader(&servers);
        let mut walk = Walk::new(&servers, (leads + 1) % 3, false);
        wait_until("it is half done", || {
            assert!(!walk.step(" COUNT 20"));
            walk.found.len() > KEYS / 2
        });
        assert_eq!(walk.at, leads);
        let (cursor, found) = (walk.cursor, walk.found);
        servers[leads].kill();
        let mut walk = Walk { cursor, found, ..Walk::new(&servers, leads, false) };
        walk.finish(" COUNT 20");
        assert_ne!(walk.at, leads, "another one leads");
        assert!(keys().is_subset(&walk.found), "{} keys", walk.found.len());
        servers[leads] = group.start(leads);
    }
}
