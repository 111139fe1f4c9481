//! What one request, transaction or script may change is bounded. What is above it by its own size
//! is refused before it runs; a script ends where it would pass it; what turns out to be above it
//! is undone.

use super::load::{Counter, under_load};
use super::{Group, leader, wait_until_equal};
use crate::support::{Client, Reply, Server, encode, wait_until};

/// Waits until the leader serves again, and returns a client of it.
fn again(servers: &[Server]) -> Client {
    servers[leader(servers)].client()
}

fn small() -> Group {
    Group::with_members(3, 3, &["--raft-write-max-size", "1mb", "--raft-election-timeout", "5000"])
}

/// A refusal that names the setting.
fn refused(reply: &Reply, end: &str) {
    let Reply::Error(text) = reply else { panic!("{reply:?}") };
    assert!(text.contains("raft-write-max-size") && text.contains(end), "{text}");
}

#[test]
fn what_is_too_large_is_refused_before_it_runs() {
    let group = small();
    let servers = group.start_founders();
    let mut client = again(&servers);
    let value = vec![b'v'; 400_000];
    // Each fits; they are more together.
    let mut bytes = Vec::new();
    (0..8).for_each(|i| encode(&[b"SET", format!("part:{i}").as_bytes(), &value], &mut bytes));
    assert!(client.send_raw(&bytes));
    (0..8).for_each(|_| assert_eq!(client.reply().text(), "OK"));
    let large = value.repeat(3);
    refused(&client.call(&[b"SET", b"lost", &large]), "nothing was done");
    refused(&client.call(&[b"MSET", b"lost", b"3", b"lost:9", &large]), "nothing was done");
    client.ok("MULTI");
    for key in [b"lost:1", b"lost:2"] {
        assert_eq!(client.call(&[b"SET", key, &value]).text(), "QUEUED");
    }
    refused(&client.call(&[b"SET", b"lost:3", &value]), "nothing was done");
    let aborted = client.ask("EXEC");
    assert!(matches!(&aborted, Reply::Error(text) if text.starts_with("EXECABORT")), "{aborted:?}");
    assert_eq!(client.ask("KEYS lost*").list().len(), 0);
    let script =
        "for i=1,5 do redis.call('SET','kept:'..i,ARGV[1]) end return redis.call('INCR','n')";
    let reply = client.call(&[b"EVAL", script.as_bytes(), b"0", &value]);
    refused(&reply, "what it did before counts");
    client.ok("MULTI");
    client.send(&[b"EVAL", script.as_bytes(), b"0", &value]);
    client.send(&[b"SET", b"within", &value]);
    client.send(&[b"INCR", b"m"]);
    client.send(&[b"EXEC"]);
    (0..3).for_each(|_| assert_eq!(client.reply().text(), "QUEUED"));
    let Reply::List(replies) = client.reply() else { panic!("a list") };
    refused(&replies[0], "what it did before counts");
    refused(&replies[1], "what it did before counts");
    assert_eq!(replies[2], Reply::Int(1), "it fits");
    assert_eq!(client.ask("EXISTS kept:1 kept:2 kept:3 n within m").int(), 3);
    wait_until_equal(&servers);
    assert_eq!(client.info_int("raft_reloads"), 0);
}

/// A set of 30,000 members, of which all but one are popped: the request is small.
const MEMBERS: i64 = 30_000;

fn fill_set(client: &mut Client) {
    for part in 0..10 {
        let member = |i: i64| format!("member:{:060}", part * MEMBERS / 10 + i).into_bytes();
        let members: Vec<Vec<u8>> = (0..MEMBERS / 10).map(member).collect();
        let words = [&b"SADD"[..], b"set"].into_iter();
        let words: Vec<&[u8]> = words.chain(members.iter().map(Vec::as_slice)).collect();
        assert_eq!(client.call(&words).int(), MEMBERS / 10);
    }
}

fn counted(client: &mut Client, key: &str) -> i64 {
    let reply = client.call(&[b"GET", key.as_bytes()]);
    reply.bytes().map_or(0, |text| String::from_utf8_lossy(text).parse().expect("a number"))
}

#[test]
fn what_turns_out_to_be_too_large_is_undone() {
    let group = small();
    let servers = group.start_founders();
    let ports: Vec<u16> = group.ports.iter().map(|ports| ports[1]).collect();
    let leads = leader(&servers);
    fill_set(&mut servers[leads].client());
    let mut counters = [Counter::new("a"), Counter::new("b")];
    under_load(&mut counters, &ports, || {
        for _ in 0..2 {
            let mut client = again(&servers);
            let before = client.info_int("raft_proposed");
            wait_until("they count", || client.info_int("raft_proposed") > before + 20);
            // One whose count is 12 was told of 11 at least.
            for key in ["a", "b"] {
                wait_until("each counts", || counted(&mut client, key) >= 12);
            }
            let count = (MEMBERS - 1).to_string();
            let reply = again(&servers).try_call(&[b"SPOP", b"set", count.as_bytes()]);
            refused(&reply.expect("an error at least"), "it was not done");
            let mut client = again(&servers);
            wait_until("it serves again", || client.ask("SCARD set") == Reply::Int(MEMBERS));
        }
    });
    wait_until_equal(&servers);
    assert_eq!(servers[leads].client().info_int("raft_reloads"), 2);
    assert_eq!(leader(&servers), leads, "nobody has lost the lead by it");
    let mut client = again(&servers);
    for counter in &mut counters {
        assert!(counter.told() > 10);
        counter.check(&mut client);
    }
}

/// Memory that is loaded anew before there was an image begins with the first entry of the log,
/// which names the members: the next image has them.
#[test]
fn memory_loaded_anew_without_an_image_has_the_members() {
    let flags = ["--raft-log-min-size", "100mb", "--raft-log-keep-entries", "0"];
    let small = ["--raft-write-max-size", "1mb", "--raft-election-timeout", "5000"];
    let group = Group::with_members(3, 3, &[&small[..], &flags].concat());
    let mut servers = group.start_founders();
    let leads = leader(&servers);
    let mut client = servers[leads].client();
    fill_set(&mut client);
    assert_eq!(client.info_int("raft_snapshot_index"), 0);
    let popped = client.try_call(&[b"SPOP", b"set", (MEMBERS - 1).to_string().as_bytes()]);
    refused(&popped.expect("an error at least"), "it was not done");
    let mut client = again(&servers);
    assert_eq!(client.info_int("raft_reloads"), 1);
    client.ok("SET k v");
    wait_until_equal(&servers);
    assert_eq!(client.save_in_background(), "ok");
    wait_until("the log is cut", || client.info_int("raft_purged_index") > 0);
    servers[leads].kill();
    servers[leads] = group.start(leads);
    let mut client = servers[leads].client();
    wait_until("it knows the members", || client.info_int("raft_members") == 3);
    assert_eq!(again(&servers).ask("GET k").text(), "v");
}
