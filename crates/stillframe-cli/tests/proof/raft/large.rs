//! What a request changes goes into one entry of the log. One that changes more than an entry takes
//! is refused and leaves nothing; many that come together are parted.

use super::load::{Counter, under_load};
use super::{Group, leader, wait_until_equal};
use crate::support::{Client, Reply, Server, encode, wait_until};

/// Waits until the leader serves again, and returns a client of it.
fn again(servers: &[Server]) -> Client {
    servers[leader(servers)].client()
}

#[test]
fn what_is_too_large_for_an_entry_is_refused_and_leaves_nothing() {
    let flags = ["--raft-entry-max-size", "1mb", "--raft-election-timeout", "5000"];
    let group = Group::of(3, 3, &flags);
    let ports: Vec<u16> = group.ports.iter().map(|ports| ports[1]).collect();
    let servers = group.start_founders();
    let leads = leader(&servers);
    let mut client = servers[leads].client();
    client.ok("SET before 1");
    let value = vec![b'v'; 400_000];
    // Each fits; they are more than an entry together.
    let mut bytes = Vec::new();
    (0..8).for_each(|i| encode(&[b"SET", format!("part:{i}").as_bytes(), &value], &mut bytes));
    assert!(client.send_raw(&bytes));
    (0..8).for_each(|_| assert_eq!(client.reply().text(), "OK"));
    wait_until_equal(&servers);
    let script =
        "for i=1,5 do redis.call('SET','lost:'..i,ARGV[1]) end return redis.call('INCR','n')";
    let transaction: [&[&[u8]]; 6] = [
        &[b"MULTI"],
        &[b"SET", b"before", b"2"],
        &[b"SET", b"lost:1", &value],
        &[b"SET", b"lost:2", &value],
        &[b"SET", b"lost:3", &value],
        &[b"EXEC"],
    ];
    let large = value.repeat(3);
    let requests: [&[&[&[u8]]]; 4] = [
        &[&[b"SET", b"lost:0", &large]],
        &transaction,
        &[&[b"EVAL", script.as_bytes(), b"0", &value]],
        &[&[b"MSET", b"before", b"3", b"lost:9", &large]],
    ];
    let mut counters = [Counter::new("a"), Counter::new("b")];
    under_load(&mut counters, &ports, || {
        for requests in requests {
            let mut client = again(&servers);
            let before = client.info_int("raft_proposed");
            wait_until("they count", || client.info_int("raft_proposed") > before + 20);
            let mut bytes = Vec::new();
            requests.iter().for_each(|request| encode(request, &mut bytes));
            let mut client = again(&servers);
            assert!(client.send_raw(&bytes));
            let mut last = None;
            while let Some(reply) = client.try_raw() {
                last = Some(String::from_utf8_lossy(&reply).into_owned());
            }
            let last = last.expect("an error at least");
            assert!(last.starts_with("-ERR ") && last.contains("raft-entry-max-size"), "{last}");
            let mut client = again(&servers);
            wait_until("it serves again", || client.ask("EXISTS before") == Reply::Int(1));
        }
    });
    let mut client = again(&servers);
    assert_eq!(client.ask("GET before").text(), "1");
    assert_eq!(client.ask("KEYS lost:*").list().len(), 0);
    assert_eq!(client.ask("EXISTS n").int(), 0);
    wait_until_equal(&servers);
    assert_eq!(servers[leads].client().info_int("raft_reloads"), 4);
    assert_eq!(leader(&servers), leads, "nobody has lost the lead by it");
    for counter in &mut counters {
        assert!(counter.told() > 10);
        counter.check(&mut client);
    }
}

/// Memory that is loaded anew before there was an image begins with the first entry of the log,
/// which names the members: the next image has them.
#[test]
fn memory_loaded_anew_without_an_image_has_the_members() {
    let cut = ["--raft-entry-max-size", "1mb", "--raft-log-keep-entries", "0"];
    let group = Group::of(3, 3, &[&cut[..], &["--raft-election-timeout", "5000"]].concat());
    let mut servers = group.start_founders();
    let leads = leader(&servers);
    let mut client = servers[leads].client();
    assert_eq!(client.info_int("raft_snapshot_index"), 0);
    let refused = client.try_call(&[b"SET", b"large", &vec![b'v'; 1 << 21]]);
    assert!(matches!(refused, None | Some(Reply::Error(_))), "{refused:?}");
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
