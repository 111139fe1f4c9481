//! Connections that are cut, and servers that are killed: replicas go on where they were, or anew,
//! and end equal.

use super::proxy::Proxy;
use super::{
    Who, assert_equal, fill, ours, under_load, wait_for_all, wait_for_link, wait_for_stream,
};
use crate::support::{Kind, Random, Setup, redis_is_here, rounds, wait_until};

#[test]
fn a_replica_goes_on_after_each_cut() {
    let mut random = Random::new("cuts");
    let sides = [(Who::Ours, Who::Redis), (Who::Redis, Who::Ours), (Who::Ours, Who::Ours)];
    for (who, whom) in sides {
        if (who, whom) != (Who::Ours, Who::Ours) && !redis_is_here("cuts") {
            continue;
        }
        let primary = who.start("");
        fill(&primary, &mut random, 200);
        let proxy = Proxy::to(primary.port);
        let replica = whom.follow(proxy.port);
        wait_for_link(&replica);
        let mut client = primary.client();
        under_load(primary.port, &mut random, || {
            for cut in 1..=rounds(2, 30) as i64 {
                proxy.cut();
                wait_until("the replica goes on", || client.info_int("sync_partial_ok") >= cut);
                wait_for_link(&replica);
                wait_for_stream(&replica);
            }
        });
        assert_equal(&primary, &replica);
        assert_eq!(client.info("sync_full"), "1", "{who:?} {whom:?}: {}", primary.log());
    }
}

/// What is selected belongs to the stream, not to the connection.
#[test]
fn a_replica_that_follows_anew_goes_on_in_the_database_of_the_stream() {
    let sides = [(Who::Ours, Who::Ours), (Who::Redis, Who::Ours), (Who::Ours, Who::Redis)];
    for (who, whom) in sides {
        if (who, whom) != (Who::Ours, Who::Ours) && !redis_is_here("followed anew") {
            continue;
        }
        let primary = who.start("");
        // Two addresses of one server: REPLICAOF with the same one would change nothing.
        let proxies = [Proxy::to(primary.port), Proxy::to(primary.port)];
        let replica = whom.follow(proxies[0].port);
        wait_for_link(&replica);
        let mut client = primary.client();
        client.ok("SELECT 9");
        for round in 0..rounds(4, 50) {
            client.ok(&format!("SET before:{round} v"));
            wait_for_all(&primary, &replica);
            let port = proxies[(round + 1) % 2].port;
            replica.client().ok(&format!("REPLICAOF 127.0.0.1 {port}"));
            client.ok(&format!("SET behind:{round} v"));
            wait_for_all(&primary, &replica);
        }
        let mut there = replica.client();
        assert_eq!(there.ask("DBSIZE").int(), 0, "{who:?} {whom:?}");
        there.ok("SELECT 9");
        assert_eq!(there.ask("DBSIZE").int(), client.ask("DBSIZE").int());
        if whom == Who::Ours {
            assert_eq!(client.info("sync_full"), "1", "{who:?}: {}", primary.log());
        }
    }
}

#[test]
fn a_killed_replica_comes_back_equal() {
    let mut random = Random::new("killed replica");
    let primary = Who::Ours.start("");
    fill(&primary, &mut random, 300);
    let folder = tempfile::tempdir().expect("a folder");
    let port = primary.port.to_string();
    let start = || {
        let flags = ["--appendonly", "yes", "--replicaof", "127.0.0.1", &port];
        Setup::new(Kind::Ours("imprint")).folder(folder.path()).flags(&flags).start()
    };
    let replica = under_load(primary.port, &mut random, || {
        for _ in 0..rounds(2, 20) {
            let mut replica = start();
            wait_for_link(&replica);
            wait_for_stream(&replica);
            replica.kill();
        }
        start()
    });
    assert_equal(&primary, &replica);
}

#[test]
fn a_killed_primary_is_followed_again() {
    let mut random = Random::new("killed primary");
    let folder = tempfile::tempdir().expect("a folder");
    let start = || {
        let flags = ["--appendonly", "yes", "--repl-diskless-sync-delay", "0"];
        Setup::new(Kind::Ours("imprint")).folder(folder.path()).flags(&flags).start()
    };
    let mut primary = start();
    fill(&primary, &mut random, 300);
    let whom = if redis_is_here("killed primary") { Who::Redis } else { Who::Ours };
    let replica = whom.follow(primary.port);
    let port = primary.port;
    under_load(port, &mut random, || {
        wait_for_link(&replica);
        wait_for_stream(&replica);
        primary.kill();
    });
    let primary = start();
    replica.client().ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    assert_equal(&primary, &replica);
}

#[test]
fn a_killed_redis_primary_leaves_its_data_with_us() {
    if !redis_is_here("killed redis primary") {
        return;
    }
    let mut random = Random::new("killed redis primary");
    let mut primary = Who::Redis.start("");
    fill(&primary, &mut random, 300);
    let (first, second) = (Who::Ours.follow(primary.port), Who::Redis.follow(primary.port));
    under_load(primary.port, &mut random, || {
        [&first, &second].into_iter().for_each(wait_for_link);
        [&first, &second].into_iter().for_each(wait_for_stream);
        primary.kill();
    });
    // The other replica may be a little ahead or behind: it goes on or starts anew.
    first.client().ok("REPLICAOF NO ONE");
    second.client().ok(&format!("REPLICAOF 127.0.0.1 {}", first.port));
    fill(&first, &mut random, 100);
    assert_equal(&first, &second);
}

#[test]
fn images_end_with_the_replicas_that_wait_for_them() {
    // A replica that leaves in the middle of its image takes nothing with it.
    let primary = ours("imprint", "--repl-diskless-sync-delay 0 --snapshot-bandwidth 4mb");
    let mut client = primary.client();
    for number in 0..20 {
        let (key, value) = (format!("large:{number}"), vec![b'x'; 1 << 20]);
        client.call(&[b"SET", key.as_bytes(), &Random::with_seed(number).bytes(value.len())]);
    }
    let mut replica = primary.client();
    replica.ok("REPLCONF capa eof capa psync2");
    replica.send(&[b"PSYNC", b"?", b"-1"]);
    wait_until("the image is being sent", || client.info("rdb_bgsave_in_progress") == "1");
    drop(replica);
    wait_until("the image has ended", || client.info("rdb_bgsave_in_progress") == "0");
    assert_eq!(client.info("connected_slaves"), "0");
    assert_eq!(client.save_in_background(), "ok");
}
