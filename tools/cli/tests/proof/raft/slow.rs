//! What is large, over links that are slow: nobody loses the lead by it, and all is answered.

use std::net::SocketAddr;
use std::time::Instant;

use stillframe_raft_net::proxy::{Direction, Faults, Proxy};
use tokio::runtime::Runtime;

use super::{Group, leader, wait_until_equal};
use crate::support::{Client, Reply, Server, rounds, wait_until};

pub(super) const MB: usize = 1 << 20;

/// A link in front of each port of each member, for all that others send to it.
pub(super) struct Links {
    proxies: Vec<Proxy>,
    // The last to go: the proxies live in it.
    _runtime: Runtime,
}

impl Links {
    /// In front of the members of a group, at so many bytes a second, both ways.
    pub(super) fn start(group: &mut Group, bandwidth: usize) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().expect("a runtime");
        let proxy = |port: u16| {
            let target = SocketAddr::from(([127, 0, 0, 1], port));
            runtime.block_on(Proxy::start(target, 1)).expect("a port for a proxy")
        };
        let ports: Vec<[u16; 2]> = group.ports.clone();
        let proxies: Vec<[Proxy; 2]> = ports.into_iter().map(|ports| ports.map(proxy)).collect();
        let address = |proxy: &Proxy| proxy.address().port();
        group.reached = proxies.iter().map(|proxies| proxies.each_ref().map(address)).collect();
        let links = Self { proxies: proxies.into_iter().flatten().collect(), _runtime: runtime };
        links.set(bandwidth);
        links
    }

    /// From now on at so many bytes a second.
    pub(super) fn set(&self, bandwidth: usize) {
        let faults = Faults { bandwidth: Some(bandwidth as u64), ..Faults::default() };
        for way in [Direction::ToTarget, Direction::ToCaller] {
            self.proxies.iter().for_each(|proxy| proxy.set(way, faults.clone()));
        }
    }
}

/// With four times the timeout of the default, over links of a quarter of what the default bears:
/// so a busy machine decides nothing.
fn group(flags: &[&str]) -> Group {
    Group::with_members(3, 3, &[&["--raft-election-timeout", "4000"], flags].concat())
}

/// The reign in which a member leads.
fn term(server: &Server) -> i64 {
    server.client().info_int("raft_term")
}

#[test]
fn thirty_clients_write_a_megabyte_each() {
    let mut group = group(&[]);
    let _links = Links::start(&mut group, 34_000_000 / 4);
    let servers = group.start_founders();
    let leads = leader(&servers);
    let (before, value) = (term(&servers[leads]), vec![b'v'; MB]);
    std::thread::scope(|scope| {
        for client in 0..30 {
            let (value, server) = (&value, &servers[leads]);
            scope.spawn(move || {
                let key = format!("k{client}");
                assert_eq!(server.client().call(&[b"SET", key.as_bytes(), value]).text(), "OK");
            });
        }
    });
    assert_eq!(term(&servers[leads]), before, "nobody was elected");
    wait_until_equal(&servers);
}

/// Values, scripts and transactions at a megabyte a second, and an image for one that was away.
#[test]
fn a_leader_stays_whatever_is_written_over_a_megabyte_a_second() {
    let mut group = group(&["--raft-log-keep-entries", "0"]);
    let links = Links::start(&mut group, MB);
    let mut servers = group.start_founders();
    let leads = leader(&servers);
    let away = (leads + 1) % 3;
    servers[away].kill();
    let before = term(&servers[leads]);
    let mut client = servers[leads].client();
    let value = vec![b'v'; 3 * MB];
    assert_eq!(client.call(&[b"SET", b"value", &value]).text(), "OK");
    let script = "for i=1,20000 do redis.call('RPUSH','list',i) end return 1";
    assert_eq!(client.call(&[b"EVAL", script.as_bytes(), b"0"]).int(), 1);
    client.ok("MULTI");
    for part in 0..20 {
        let key = format!("part:{part}");
        let queued = client.call(&[b"SET", key.as_bytes(), &value[..50_000]]);
        assert_eq!(queued.text(), "QUEUED");
    }
    assert_eq!(client.ask("EXEC").list().len(), 20);
    assert_eq!(client.save_in_background(), "ok");
    wait_until("the log is cut", || client.info_int("raft_purged_index") > 50);
    servers[away] = group.start(away);
    wait_until("it gets the image", || servers[away].client().info_int("raft_snapshot_index") > 50);
    wait_until_equal(&servers);
    assert_eq!(term(&servers[leads]), before, "nobody was elected");
    links.set(30_000_000 / 4);
    assert_eq!(client.call(&[b"SET", b"value", &vec![b'w'; 20 * MB]]).text(), "OK");
    assert_eq!(term(&servers[leads]), before, "nobody was elected");
    wait_until_equal(&servers);
}

/// Without slow links: what is very large is one write. In a long run with the timeout that a user
/// gets, and the sizes that once deposed a leader.
#[test]
fn a_write_of_many_entries_is_done() {
    let timeout = if rounds(0, 1) > 0 { "1000" } else { "4000" };
    let group = Group::with_members(3, 3, &["--raft-election-timeout", timeout]);
    let servers = group.start_founders();
    let leads = leader(&servers);
    let (before, mut client) = (term(&servers[leads]), servers[leads].client());
    let value = vec![b'v'; rounds(16, 100) * MB];
    assert_eq!(client.call(&[b"SET", b"value", &value]).text(), "OK");
    let script = format!(
        "for i=1,{} do redis.call('RPUSH','list',i) end return redis.call('LLEN','list')",
        rounds(100_000, 3_000_000)
    );
    let pushed = client.call(&[b"EVAL", script.as_bytes(), b"0"]).int();
    assert_eq!(pushed, rounds(100_000, 3_000_000) as i64);
    assert_eq!(term(&servers[leads]), before, "nobody was elected");
    wait_until_equal(&servers);
}

/// Waits until some parts of a large write have come to a member.
fn wait_for_parts(client: &mut Client) {
    let before = client.info_int("raft_applied_index");
    wait_until("parts come", || client.info_int("raft_applied_index") > before + 20);
}

/// An image of a member that has the first parts of a write, and the log behind it, hold all of it.
#[test]
fn an_image_in_the_middle_of_a_write_loses_no_part() {
    let mut group = group(&["--raft-log-keep-entries", "0"]);
    let _links = Links::start(&mut group, MB);
    let mut servers = group.start_founders();
    let leads = leader(&servers);
    let follows = (leads + 1) % 3;
    let mut client = servers[leads].client();
    client.ok("SET before 1");
    let began = Instant::now();
    client.send(&[b"SET", b"value", &vec![b'v'; 12 * MB]]);
    let mut other = servers[follows].client();
    wait_for_parts(&mut other);
    // An image that the size of the log asks for may be under way.
    wait_until("an image begins", || other.ask("BGSAVE").text().starts_with("Background"));
    wait_until("an image ends", || other.info_int("raft_snapshot_index") > 0);
    let (image, applied) =
        (other.info_int("raft_snapshot_index"), other.info_int("raft_applied_index"));
    assert!(image + 10 <= applied, "the image of {image} names what is whole, not {applied}");
    assert_eq!(other.info_int("raft_reloads"), 0);
    println!("an image after {:?}", began.elapsed());
    assert_eq!(client.reply().text(), "OK");
    wait_until_equal(&servers);
    servers[follows].kill();
    servers[follows] = group.start(follows);
    wait_until_equal(&servers);
}

/// The leader goes in the middle of a write: it counts as a whole, or not at all.
#[test]
fn parts_whose_last_does_not_come_count_for_nothing() {
    let mut group = group(&[]);
    let links = Links::start(&mut group, MB);
    let mut servers = group.start_founders();
    let leads = leader(&servers);
    let mut client = servers[leads].client();
    client.ok("SET value before");
    client.send(&[b"SET", b"value", &vec![b'v'; 12 * MB]]);
    wait_for_parts(&mut servers[(leads + 1) % 3].client());
    servers[leads].kill();
    links.set(100 * MB);
    let others = [(leads + 1) % 3, (leads + 2) % 3];
    let next = others[leader(others.iter().map(|&it| &servers[it]))];
    let mut client = servers[next].client();
    assert_eq!(client.ask("GET value"), Reply::Text(b"before".to_vec()));
    client.ok("SET value after");
    assert_eq!(client.call(&[b"SET", b"large", &vec![b'w'; 2 * MB]]).text(), "OK");
    servers[leads] = group.start(leads);
    wait_until_equal(&servers);
    assert_eq!(servers[leader(&servers)].client().ask("GET value").text(), "after");
}
