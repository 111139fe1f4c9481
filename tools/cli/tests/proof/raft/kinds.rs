//! Each kind of message between members over links of a megabyte a second: the leader stays, and
//! everybody is answered.
//!
//! With `STILLFRAME_LONG` the settings are those that a user gets, and the sizes those that once
//! deposed a leader; else the sizes are small, and the time four times as long, so that a busy
//! machine decides nothing. Each case prints a line: how long it took, and how long the slowest
//! INFO.

use std::time::{Duration, Instant};

use super::load::{Counter, under_load};
use super::secure::Bound;
use super::slow::{Links, MB};
use super::{Group, leader, wait_until_equal};
use crate::support::{Client, Random, Reply, Server, Stop, rounds, wait_until};

/// Members beyond those that begin the group.
const JOINS: usize = 3;

fn is_long() -> bool {
    rounds(0, 1) > 0
}

/// A size in megabytes: in a long run, and else.
fn size(long: usize, short: usize) -> usize {
    MB * if is_long() { long } else { short }
}

struct Case {
    group: Group,
    links: Links,
    servers: Vec<Server>,
    leads: usize,
}

impl Case {
    fn begin() -> Self {
        let (group, links) = slow_group();
        let servers = group.start_founders();
        let leads = served(&servers);
        Self { group, links, servers, leads }
    }

    fn client(&self) -> Client {
        self.servers[self.leads].client()
    }

    fn follower(&self, which: usize) -> &Server {
        &self.servers[(self.leads + which) % 3]
    }

    fn observe<T>(&self, name: &str, members: &[usize], act: impl FnOnce() -> T) -> T {
        let members: Vec<&Server> = members.iter().map(|&member| &self.servers[member]).collect();
        observe(name, self.leads, &members, act)
    }
}

/// A group that has not begun, and its links.
fn slow_group() -> (Group, Links) {
    let timeout = if is_long() { "1000" } else { "4000" };
    let flags = ["--raft-election-timeout", timeout, "--raft-log-min-size", "64mb"];
    let mut group = Group::with_members(4, 3, &[&flags[..], &["--raft-forward", "yes"]].concat());
    let links = Links::start(&mut group, MB);
    (group, links)
}

/// The leader, once each has heard of it, and its connections are there.
fn served(servers: &[Server]) -> usize {
    let leads = leader(servers);
    for server in servers {
        let mut client = server.client();
        wait_until("it is served", || !matches!(client.ask("SET begun 1"), Reply::Error(_)));
    }
    leads
}

/// Does something while members are asked who leads.
fn observe<T>(name: &str, leads: usize, members: &[&Server], act: impl FnOnce() -> T) -> T {
    let (stop, leads) = (Stop::default(), leads as i64 + 1);
    std::thread::scope(|scope| {
        let _end = stop.at_the_end();
        let stop = &stop;
        let watch = |&server| scope.spawn(move || watch(server, leads, stop));
        let watches: Vec<_> = members.iter().map(watch).collect();
        let began = Instant::now();
        let done = act();
        let took = began.elapsed();
        stop.now();
        let slowest = watches.into_iter().map(|it| it.join().expect("the leader stays"));
        let slowest = slowest.max().unwrap_or_default();
        println!("| {name} | {:.1} s | {} ms |", took.as_secs_f64(), slowest.as_millis());
        done
    })
}

/// Asks a member again and again who leads, in which term; how long the slowest answer took.
fn watch(server: &Server, leads: i64, stop: &Stop) -> Duration {
    let mut client = server.client();
    let (term, mut slowest) = (client.info_int("raft_term"), Duration::ZERO);
    while !stop.is_due() {
        let asked = Instant::now();
        let now = [client.info_int("raft_term"), client.info_int("raft_leader")];
        slowest = slowest.max(asked.elapsed() / 2);
        assert_eq!(now, [term, leads], "term and leader, as member at {} sees it", server.port);
        std::thread::sleep(Duration::from_millis(20));
    }
    slowest
}

fn set(client: &mut Client, key: &str, bytes: usize) {
    assert_eq!(client.call(&[b"SET", key.as_bytes(), &vec![b'v'; bytes]]).text(), "OK");
}

const ALL: [usize; 3] = [0, 1, 2];

#[test]
fn a_leader_stays_whatever_is_written() {
    let case = Case::begin();
    let mut client = case.client();
    case.observe("30 clients set 1 MB each", &ALL, || {
        std::thread::scope(|scope| {
            for number in 0..rounds(6, 30) {
                let mut client = case.client();
                scope.spawn(move || set(&mut client, &format!("k{number}"), MB));
            }
        });
    });
    case.observe("SET of 20 MB", &ALL, || set(&mut client, "large", size(20, 3)));
    if is_long() {
        case.observe("SET of 64 MB", &ALL, || set(&mut client, "large", 64 * MB));
    }
    case.observe("a script of 300,000 RPUSHes", &ALL, || {
        let count = if is_long() { 300_000 } else { 30_000 };
        let script = format!("for i=1,{count} do redis.call('RPUSH','list',i) end return 1");
        assert_eq!(client.call(&[b"EVAL", script.as_bytes(), b"0"]).int(), 1);
    });
    case.observe("EXEC of 40 SETs of 500 KB", &ALL, || {
        client.ok("MULTI");
        for part in 0..rounds(8, 40) {
            let key = format!("part:{part}");
            let queued = client.call(&[b"SET", key.as_bytes(), &vec![b'v'; MB / 2]]);
            assert_eq!(queued.text(), "QUEUED");
        }
        assert_eq!(client.ask("EXEC").list().len(), rounds(8, 40));
    });
    case.observe("reads beside a SET of 10 MB", &ALL, || {
        client.send(&[b"SET", b"large", &vec![b'w'; size(10, 3)]]);
        let mut other = case.client();
        for _ in 0..3 {
            assert_eq!(other.ask("GET begun").text(), "1");
        }
        assert_eq!(client.reply().text(), "OK");
        assert_eq!(other.ask("STRLEN large").int(), size(10, 3) as i64);
    });
    wait_until_equal(&case.servers);
}

#[test]
fn a_leader_stays_whatever_is_passed_on() {
    let case = Case::begin();
    let mut client = case.follower(1).client();
    case.observe("forwarded SET of 20 MB", &ALL, || set(&mut client, "large", size(20, 3)));
    let reply = case.observe("forwarded GET of 20 MB", &ALL, || client.ask("GET large"));
    assert_eq!(reply.bytes().map(<[u8]>::len), Some(size(20, 3)));
    let mut listeners: Vec<Client> = case.servers.iter().map(|it| it.client()).collect();
    for listener in &mut listeners {
        listener.ok("SUBSCRIBE news");
    }
    let heard = |listeners: &mut [Client], bytes| {
        for listener in listeners {
            let message = listener.reply();
            assert_eq!(message.list()[2].bytes().map(<[u8]>::len), Some(bytes));
        }
    };
    let message = vec![b'm'; size(8, 3)];
    for (name, server) in [
        ("8 MB published at the leader", &case.servers[case.leads]),
        ("8 MB published at a follower", case.follower(1)),
    ] {
        case.observe(name, &ALL, || {
            assert_eq!(server.client().call(&[b"PUBLISH", b"news", &message]).int(), 1);
            heard(&mut listeners, message.len());
        });
    }
    case.observe("all at once", &ALL, || {
        let mut clients = [case.client(), case.client(), case.follower(1).client()];
        clients[0].send(&[b"SET", b"other", &message]);
        clients[1].send(&[b"PUBLISH", b"news", &message]);
        clients[2].send(&[b"GET", b"large"]);
        let mut small = case.client();
        assert_eq!(small.ask("GET begun").text(), "1");
        assert_eq!(clients[2].reply().bytes().map(<[u8]>::len), Some(size(20, 3)));
        assert_eq!(clients[0].reply().text(), "OK");
        assert_eq!(clients[1].reply().int(), 1);
        heard(&mut listeners, message.len());
    });
    wait_until_equal(&case.servers);
}

#[test]
fn members_come_back_and_join_while_clients_write() {
    let mut case = Case::begin();
    let away = (case.leads + 1) % 3;
    let rest = [case.leads, (case.leads + 2) % 3];
    case.servers[away].kill();
    let mut client = case.client();
    case.links.set(100 * MB);
    let mut random = Random::with_seed(1); // what does not compress
    for part in 0..rounds(4, 30) {
        let key = format!("part:{part}");
        assert_eq!(client.call(&[b"SET", key.as_bytes(), &random.bytes(MB)]).text(), "OK");
    }
    // An image is of use to one that lacks more than 1,000 entries.
    for _ in 0..1_200 {
        client.ok("INCR count");
    }
    assert_eq!(client.save_in_background(), "ok");
    wait_until("the log is cut", || client.info_int("raft_purged_index") > 50);
    let image = client.info_int("raft_snapshot_index");
    case.links.set(MB);
    let mut counters = [Counter::new("a"), Counter::new("b")];
    let ports = [case.servers[case.leads].port];
    let back = case.observe("an image of 30 MB to one that was away", &rest, || {
        under_load(&mut counters, &ports, || {
            let server = case.group.start(away);
            wait_until("it has the image", || {
                server.client().info_int("raft_snapshot_index") >= image
            });
            server
        })
    });
    case.servers[away] = back;
    wait_until_equal(&case.servers);
    case.servers.push(case.group.start(JOINS));
    let add = format!("STILLFRAME RAFT ADD 4 {}", case.group.addresses(JOINS));
    case.observe("a member joins", &ALL, || {
        under_load(&mut counters, &ports, || case.client().ok(&add));
    });
    wait_until_equal(&case.servers);
    for counter in &mut counters {
        assert!(counter.told() > 10);
        counter.check(&mut client);
    }
}

/// Questions do not wait behind messages of clients, nor votes behind anything.
#[test]
fn the_lead_moves_though_data_is_on_its_way() {
    let mut case = Case::begin();
    let mut listener = case.follower(1).client();
    listener.ok("SUBSCRIBE news");
    let mut client = case.client();
    let large = vec![b'v'; size(16, 10)];
    // It is refused in time, or done.
    let to = (case.leads + 1) % 3 + 1;
    let transfer = format!("STILLFRAME RAFT TRANSFER {to}");
    let mut other = case.client();
    let before = other.info_int("raft_proposed");
    client.send(&[b"SET", b"large", &large]);
    wait_until("it is on its way", || other.info_int("raft_proposed") > before);
    // All but what is on its way from the queue to the log.
    let counted = other.info_int("mem_raft_log");
    assert!(counted > large.len() as i64 / 2, "{counted}: what waits for the log counts");
    let refused = case.observe("TRANSFER beside a SET of 16 MB", &ALL, || other.ask(&transfer));
    let Reply::Error(why) = &refused else { panic!("{refused:?}") };
    assert!(why.contains("what was written before"), "{why}");
    assert_eq!(client.reply().text(), "OK");
    let began = Instant::now();
    assert_eq!(client.call(&[b"PUBLISH", b"news", &large]).int(), 0);
    other.ok(&transfer);
    println!("| TRANSFER beside a message of 16 MB | {:.1?} |", began.elapsed());
    assert_eq!(leader(&case.servers), to - 1);
    assert_eq!(listener.reply().list()[2].bytes().map(<[u8]>::len), Some(large.len()));
    // The leader is lost in the middle of a write.
    case.leads = leader(&case.servers);
    let (mut client, mut other) = (case.client(), case.client());
    let committed = other.info_int("raft_applied_index");
    client.send(&[b"SET", b"large", &large]);
    // Of some 160 parts.
    wait_until("it has come some way", || other.info_int("raft_applied_index") > committed + 10);
    let began = Instant::now();
    let leads = case.leads;
    case.servers[leads].kill();
    let rest = [(leads + 1) % 3, (leads + 2) % 3];
    let next = rest[leader(rest.iter().map(|&it| &case.servers[it]))];
    case.servers[next].client().ok("SET after 1");
    println!("| another leader, in the middle of a SET | {:.1?} |", began.elapsed());
    case.servers[leads] = case.group.start(leads);
    wait_until_equal(&case.servers);
}

/// A member has another key, and one is let go, while data is on its way.
#[test]
fn members_have_new_keys_and_go_while_data_is_on_its_way() {
    let test = "members_have_new_keys_and_go_while_data_is_on_its_way";
    let (group, _links) = slow_group();
    let Some(own) = Bound::in_group(test, group) else { return };
    let leads = served(&own.servers);
    let [renewed, gone] = [1, 2].map(|behind| (leads + behind) % 3);
    let (mut client, mut other) = (own.servers[leads].client(), own.servers[leads].client());
    let large = vec![b'v'; size(40, 20)];
    // Before the first of it has come.
    client.send(&[b"SET", b"large", &large]);
    wait_until("it waits", || other.info_int("mem_raft_log") > large.len() as i64 / 2);
    let all: Vec<&Server> = own.servers.iter().collect();
    let id = renewed as u64 + 1;
    let before = own.bound(renewed, id);
    observe("a new key", leads, &all, || {
        own.certify(renewed, "renewed");
        wait_until("it is used, as the leader knows", || {
            let log = own.servers[renewed].log();
            log.contains("the certificates of this node were read again")
                && own.bound(leads, id) != before
        });
    });
    assert!(other.info_int("mem_raft_log") > MB as i64, "data is still on its way");
    let rest = [&own.servers[leads], &own.servers[renewed]];
    observe("REMOVE", leads, &rest, || {
        other.ok(&format!("STILLFRAME RAFT REMOVE {}", gone + 1));
    });
    assert!(other.info_int("mem_raft_log") > MB as i64, "data is still on its way");
    wait_until("it hears that it was let go", || {
        own.servers[gone].log().contains("this member was removed from its group")
    });
    assert_eq!(client.reply().text(), "OK");
    wait_until_equal(rest);
}
