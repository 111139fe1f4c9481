//! A target without room: the migration ends with the reason, and the cluster has lost nothing.

use super::{Cluster, Migration};
use crate::replication::Who;
use crate::support::{
    Kind, Peer, Random, Reply, Server, Setup, are_here, limit_file_size, wait_until,
};

/// A cluster of one node with 20 MB.
fn filled() -> Cluster {
    let cluster = Cluster::start(Who::Redis, 1, 0, "");
    let mut client = cluster.client(0);
    for number in 0..200 {
        let value = Random::with_seed(number).bytes(100_000);
        client.call(&[b"SET", format!("key:{number}").as_bytes(), &value]);
    }
    cluster
}

/// The migration fails and says why; the cluster keeps its data, and the target is no primary of
/// half of it.
fn assert_ends(cluster: &Cluster, target: &Server, migration: Migration, why: &str) {
    let before = cluster.contents(&[0]);
    let text = migration.end(false);
    assert!(text.contains(why), "{text}");
    assert!(text.contains("does not have all data, and stays a replica"), "{text}");
    assert!(cluster.contents(&[0]) == before, "the cluster holds what it held");
    assert_eq!(target.client().info("role"), "slave");
}

#[test]
fn a_target_with_too_little_memory_is_told_and_evicts_nothing() {
    let test = "a_target_with_too_little_memory_is_told_and_evicts_nothing";
    if !are_here(test, &[Peer::RedisServer]) {
        return;
    }
    let cluster = filled();
    for policy in ["noeviction", "allkeys-lru"] {
        let flags = ["--maxmemory", "10mb", "--maxmemory-policy", policy];
        let target = Setup::new(Kind::Ours("imprint")).flags(&flags).start();
        let migration = Migration::start(&cluster.nodes[0], &target, &[]);
        assert_ends(&cluster, &target, migration, "is full: its data take");
        // With room, and emptied as the text says, it takes all.
        let mut client = target.client();
        client.ok("CONFIG SET maxmemory 200mb");
        client.ok("REPLICAOF NO ONE");
        client.ok("FLUSHALL");
        Migration::start(&cluster.nodes[0], &target, &["--until-caught-up"]).end(true);
        assert_eq!(client.ask("DBSIZE").int(), 200);
    }
    // One that would evict while it follows, and one that is full before, are refused at once.
    let flags = ["--maxmemory", "10mb", "--replica-ignore-maxmemory", "no"];
    let target = Setup::new(Kind::Ours("imprint")).flags(&flags).start();
    let text = Migration::start(&cluster.nodes[0], &target, &[]).end(false);
    assert!(text.contains("set replica-ignore-maxmemory yes for the migration"), "{text}");
    assert_eq!(target.client().info("role"), "master");
    target.client().ok("CONFIG SET replica-ignore-maxmemory yes");
    target.client().ok("CONFIG SET maxmemory 1");
    let text = Migration::start(&cluster.nodes[0], &target, &[]).end(false);
    assert!(text.contains("is full: its data take"), "{text}");
}

/// The limit of file sizes stands for the disk.
#[test]
fn a_target_with_a_full_disk_is_told() {
    let test = "a_target_with_a_full_disk_is_told";
    if !are_here(test, &[Peer::RedisServer]) {
        return;
    }
    let cluster = filled();
    for policy in ["always", "everysec"] {
        let setup = Setup::new(Kind::Ours("imprint")).outlives_file_limits();
        let target = setup.flags(&["--appendonly", "yes", "--appendfsync", policy]).start();
        limit_file_size(target.pid(), Some(1 << 20));
        let migration = Migration::start(&cluster.nodes[0], &target, &[]);
        assert_ends(&cluster, &target, migration, "give it room on its disk");
        // With room it recovers by itself.
        limit_file_size(target.pid(), None);
        let mut client = target.client();
        client.ok("REPLICAOF NO ONE");
        wait_until("it takes writes", || !matches!(client.ask("SET k v"), Reply::Error(_)));
    }
}
