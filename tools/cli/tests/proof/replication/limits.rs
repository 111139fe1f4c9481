//! Replicas that are slow, or read nothing: memory stays bounded, and others go on.

use super::proxy::Proxy;
use super::{Who, ours, wait_for_link};
use crate::support::{Client, Random, redis_is_here, wait_until};

/// A client that asks for everything and reads none of it.
fn silent_replica(port: u16) -> Client {
    let mut replica = Client::try_connect(port).expect("the server takes a connection");
    replica.ok("REPLCONF capa eof capa psync2");
    replica.send(&[b"PSYNC", b"?", b"-1"]);
    replica
}

fn fill(client: &mut Client, mebibytes: u64) {
    for number in 0..mebibytes {
        let (key, value) = (format!("large:{number}"), Random::with_seed(number).bytes(1 << 20));
        client.call(&[b"SET", key.as_bytes(), &value]);
    }
}

#[test]
fn a_replica_that_reads_nothing_is_dropped_and_others_go_on() {
    let flags = "--repl-diskless-sync-delay 0 --repl-sync-backpressure no \
                 --client-output-buffer-limit replica 8mb 0 0";
    let primary = ours("imprint", flags);
    let mut client = primary.client();
    fill(&mut client, 32);
    let replica = silent_replica(primary.port);
    wait_until("its image is being sent", || client.info("rdb_bgsave_in_progress") == "1");
    let mut most = 0;
    let value = vec![b'y'; 1 << 16];
    for _ in 0..400 {
        client.call(&[b"SET", b"k", &value]);
        most = most.max(client.info_int("repl_stream_memory_bytes"));
    }
    assert!(most < 12 << 20, "the stream took {most} bytes");
    wait_until("the replica is dropped", || client.info("connected_slaves") == "0");
    wait_until("its image has ended", || client.info("rdb_bgsave_in_progress") == "0");
    drop(replica);
    assert_eq!(client.save_in_background(), "ok");
}

#[test]
fn writes_wait_for_a_replica_that_is_being_synchronised() {
    // Far more is written during the image than the replica's limit holds: Redis would drop it, and
    // begin anew when it comes back, for ever.
    let flags = "--repl-diskless-sync-delay 0 --client-output-buffer-limit replica 2mb 0 0 \
                 --snapshot-bandwidth 5mb";
    let primary = ours("imprint", flags);
    let mut client = primary.client();
    fill(&mut client, 16);
    let whom = if redis_is_here("back-pressure") { Who::Redis } else { Who::Ours };
    let replica = whom.follow(primary.port);
    wait_until("its image is being sent", || {
        client.info("connected_slaves") == "1" && client.info("rdb_bgsave_in_progress") == "1"
    });
    let value = vec![b'y'; 1 << 14];
    // No longer than that: a replica that is slow with the stream is dropped, as by Redis.
    let mut written = 0;
    while client.info("rdb_bgsave_in_progress") == "1" {
        client.call(&[b"SET", format!("k:{}", written % 600).as_bytes(), &value]);
        written += 1;
    }
    wait_for_link(&replica);
    super::wait_for_all(&primary, &replica);
    assert_eq!(client.info("sync_full"), "1", "{}", primary.log());
    assert!(client.info_int("repl_sync_writes_held_ms") > 0, "{}", primary.log());
    assert_eq!(client.ask("DBSIZE"), replica.client().ask("DBSIZE"));
}

/// The backlog holds what the replica lacks, which is more than its limit: as in Redis it is taken
/// back once, and not dropped again for what it was just granted.
#[test]
fn a_replica_further_behind_than_its_limit_goes_on_from_the_backlog() {
    let redis = redis_is_here("further behind than its limit");
    for whom in [Who::Ours, Who::Redis] {
        if whom == Who::Redis && !redis {
            continue;
        }
        let flags = "--repl-diskless-sync-delay 0 --repl-backlog-size 64mb \
                     --client-output-buffer-limit replica 1mb 512kb 60";
        let primary = ours("imprint", flags);
        let mut client = primary.client();
        client.ok("SET k v");
        let proxy = Proxy::to(primary.port);
        let replica = whom.follow(proxy.port);
        wait_for_link(&replica);
        for round in 1..=3 {
            proxy.close();
            wait_until("the replica is gone", || client.info("connected_slaves") == "0");
            fill(&mut client, 16);
            proxy.open();
            super::wait_for_all(&primary, &replica);
            let [full, partial] = ["sync_full", "sync_partial_ok"].map(|it| client.info_int(it));
            assert_eq!([full, partial], [1, round], "{whom:?}: {}", primary.log());
        }
        assert_eq!(client.ask("DEBUG DIGEST"), replica.client().ask("DEBUG DIGEST"));
    }
}

/// A replica receives the announcement of its image as soon as the image has begun, however long
/// the first bytes take.
#[test]
fn an_image_is_announced_before_its_first_bytes() {
    for who in [Who::Ours, Who::Redis] {
        if matches!(who, Who::Redis) && !redis_is_here("an image is announced") {
            continue;
        }
        let primary = who.start("--repl-diskless-sync yes");
        let mut client = primary.client();
        for number in 0..30 {
            client.ok(&format!("SET key:{number} v"));
        }
        // It takes 30 seconds.
        client.ok("CONFIG SET rdb-key-save-delay 1000000");
        let mut replica = silent_replica(primary.port);
        let line = replica.reply().text();
        assert!(line.starts_with("FULLRESYNC "), "{line}");
        assert_eq!(client.info("rdb_bgsave_in_progress"), "1");
    }
}
