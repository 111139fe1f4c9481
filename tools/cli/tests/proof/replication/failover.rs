//! FAILOVER: a primary and a replica change places, ours with ours and with Redis's own.

use super::{Who, ours, wait_for_link};
use crate::support::{
    Client, Peer, Reply, Server, are_here, output_of, redis_is_here, send_signal, wait_until,
};
use rustix::process::Signal;
use std::process::Command;
use std::time::Duration;

/// A pair of which the second follows the first, and both have everything.
fn pair(first: Who, second: Who) -> (Server, Server) {
    let primary = first.start("");
    let replica = second.follow(primary.port);
    wait_for_link(&replica);
    wait_until("the replica is online", || replicas(&mut primary.client()) == 1);
    (primary, replica)
}

/// How many replicas are online.
fn replicas(client: &mut Client) -> usize {
    client.ask("ROLE").list()[2].list().len()
}

/// Counts until the server takes no more; what it counted to, as far as replies came.
fn count_up(port: u16) -> (i64, String) {
    let mut client = Client::try_connect(port).expect("the server takes a connection");
    let mut last = 0;
    loop {
        match client.ask("INCR n") {
            Reply::Error(text) => return (last, text),
            count => last = count.int(),
        }
    }
}

#[test]
fn no_write_is_lost_when_two_change_places() {
    let redis = redis_is_here("no_write_is_lost_when_two_change_places");
    let with_redis = [(Who::Ours, Who::Redis), (Who::Redis, Who::Ours)];
    let pairs =
        [(Who::Ours, Who::Ours)].into_iter().chain(with_redis.into_iter().filter(|_| redis));
    for (first, second) in pairs {
        let (old, new) = pair(first, second);
        let counter = std::thread::spawn({
            let port = old.port;
            move || count_up(port)
        });
        wait_until("somebody counts", || old.client().ask("GET n") != Reply::Null);
        old.client().ok("FAILOVER");
        let (counted, error) = counter.join().expect("the counter ends");
        assert!(error.starts_with("READONLY"), "{error}");
        wait_for_link(&old);
        let [mut before, mut after] = [old.client(), new.client()];
        assert_eq!([before.info("role"), after.info("role")], ["slave", "master"]);
        assert_eq!(before.info("master_failover_state"), "no-failover");
        assert_eq!(after.ask("GET n").text(), counted.to_string(), "{first:?} {second:?}");
        assert_eq!(after.info("sync_partial_ok"), "1", "no image was needed");
        // And back again, by name.
        wait_until("the old one is online", || replicas(&mut after) == 1);
        after.ok(&format!("FAILOVER TO 127.0.0.1 {} TIMEOUT 60000", old.port));
        wait_until("they have changed back", || before.info("role") == "master");
        wait_for_link(&new);
        assert_eq!(before.ask("INCR n").int(), counted + 1);
    }
}

#[test]
fn a_failover_that_cannot_be_leaves_the_primary_what_it_was() {
    let (old, new) = pair(Who::Ours, Who::Ours);
    let (mut client, mut other) = (old.client(), old.client());
    // A replica that receives nothing cannot report that it has everything.
    send_signal(new.pid(), Signal::STOP);
    client.ok("SET k v");
    client.ok("FAILOVER TIMEOUT 50");
    other.send(&[b"INCR", b"n"]);
    wait_until("it gives up", || client.info("master_failover_state") == "no-failover");
    assert_eq!(other.reply().int(), 1, "what was held runs");
    client.ok("FAILOVER");
    assert_eq!(client.info("master_failover_state"), "waiting-for-sync");
    for (line, problem) in [
        ("FAILOVER", "ERR FAILOVER already in progress."),
        ("REPLICAOF NO ONE", "ERR REPLICAOF not allowed while failing over."),
        ("PSYNC ? -1", "NOMASTERLINK Can't SYNC while failing over"),
    ] {
        assert_eq!(client.ask(line).text(), problem);
    }
    other.send(&[b"INCR", b"n"]);
    client.ok("FAILOVER ABORT");
    assert_eq!(other.reply().int(), 2);
    // A replica that is forced to take over and does not answer can be given up, too.
    client.ok(&format!("FAILOVER TO 127.0.0.1 {} FORCE TIMEOUT 50", new.port));
    wait_until("it hands over", || client.info("role") == "slave");
    assert_eq!(client.info("master_failover_state"), "failover-in-progress");
    client.ok("FAILOVER ABORT");
    assert_eq!(client.ask("INCR n").int(), 3);
    send_signal(new.pid(), Signal::CONT);
    wait_for_link(&new);
    wait_until("it has all of it", || new.client().ask("GET n").text() == "3");
}

#[test]
fn failover_refuses_what_redis_refuses() {
    if !redis_is_here("failover_refuses_what_redis_refuses") {
        return;
    }
    let answers = [Who::Ours, Who::Redis].map(|who| {
        let (primary, replica) = pair(who, Who::Ours);
        let here = format!("127.0.0.1 {}", replica.port);
        let mut client = primary.client();
        let lines = [
            "FAILOVER ABORT",
            "FAILOVER FORCE",
            "FAILOVER TO 127.0.0.1 1",
            "FAILOVER TO 127.0.0.1 x",
            "FAILOVER TO 127.0.0.1",
            "FAILOVER TIMEOUT 0",
            "FAILOVER TIMEOUT x",
            "FAILOVER TIMEOUT 5 TIMEOUT 6",
            "FAILOVER ABORT NOW",
            "PSYNC ? -1 FAILOVER",
        ];
        let mut answers: Vec<Reply> = lines.iter().map(|line| client.ask(line)).collect();
        answers.push(client.ask(&format!("FAILOVER TO {here} FORCE")));
        let mut there = replica.client();
        answers.extend(["FAILOVER", "PSYNC ? -1 FAILOVER"].map(|line| there.ask(line)));
        answers
    });
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn redis_cli_fetches_an_image() {
    if !are_here("redis_cli_fetches_an_image", &[Peer::RedisCli, Peer::RedisCheckRdb]) {
        return;
    }
    let server = ours("imprint", "--repl-diskless-sync-delay 0");
    let mut client = server.client();
    (0..100).for_each(|number| client.ok(&format!("SET key:{number} v")));
    let folder = tempfile::tempdir().expect("a folder");
    for (how, keys) in [("--rdb", "100 keys read"), ("--functions-rdb", " 0 expires")] {
        let file = folder.path().join("image.rdb").display().to_string();
        let mut cli = Command::new("redis-cli");
        cli.args(["-p", &server.port.to_string(), how, &file]);
        let output = output_of(cli);
        assert!(output.status.success(), "{how}: {}", String::from_utf8_lossy(&output.stderr));
        let mut check = Command::new("redis-check-rdb");
        check.arg(&file);
        let text = String::from_utf8_lossy(&output_of(check).stdout).into_owned();
        assert!(text.contains("Checksum OK") && text.contains(keys), "{how}: {text}");
    }
    // A replica that asks with SYNC gets no name of the stream, and the stream only after its first
    // message.
    let mut old = server.client();
    old.ok("REPLCONF capa eof rdb-filter-only ");
    old.send(&[b"SYNC"]);
    let mut image = Vec::new();
    while !image.ends_with(image.get(5..45).unwrap_or(b"?")) || image.len() < 90 {
        image.extend(old.receive_raw().expect("an image"));
    }
    assert!(image.trim_ascii_start().starts_with(b"$EOF:"));
    client.ok("SET more v");
    wait_until("the server knows that its image is through", || client.has_replicas_online());
    assert!(old.is_silent(Duration::from_millis(20)));
    old.send(&[b"REPLCONF", b"ACK", b"0"]);
    assert_eq!(old.reply().list()[0].text(), "SELECT");
    assert_eq!(old.reply().list()[1].text(), "more");
    for (words, problem) in [
        ("rdb-only 2", "ERR value is out of range, value must between 0 and 1"),
        ("rdb-only x", "ERR value is not an integer or out of range"),
        ("rdb-filter-only scripts", "ERR Unsupported rdb-filter-only option: scripts"),
    ] {
        assert_eq!(client.ask(&format!("REPLCONF {words}")).text(), problem);
    }
    assert_eq!(client.ask("REPLCONF rdb-filter-only functions").text(), "OK");
    assert_eq!(client.ask("SYNC").text(), "ERR Filtered replica requires EOF capability");
}
