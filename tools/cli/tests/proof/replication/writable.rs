//! Replicas that take writes of clients, and requests that fail at a replica.

use super::{Who, wait_for_all, wait_for_link};
use crate::support::{Kind, Setup, redis_is_here, wait_until};

const BOTH: [Who; 2] = [Who::Ours, Who::Redis];

#[test]
fn what_clients_make_at_a_replica_expires_there() {
    if !redis_is_here("what_clients_make_at_a_replica_expires_there") {
        return;
    }
    for who in BOTH {
        let (_primary, replica) = who.behind_ours();
        let mut client = replica.client();
        client.ok("CONFIG SET replica-read-only no");
        client.ok("CONFIG RESETSTAT");
        for line in [
            "SET set v PX 1",
            "SET changed v PX 100000",
            "PEXPIRE changed 1",
            "SET renamed v PX 100000",
            "RENAME renamed new",
            "COPY new copied DB 3",
            "MOVE new 4",
            "SET kept v PX 1",
            "SET kept v",
        ] {
            client.call(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        }
        // No client asks for them: the clock must find them.
        wait_until("two have expired", || client.info_int("expired_keys") >= 2);
        assert_eq!(client.ask("DBSIZE").int(), 1, "{who:?}: the kept one");
        for db in [4, 3] {
            client.ok(&format!("SELECT {db}"));
            for key in ["new", "copied"] {
                client.call(&[b"PEXPIRE", key.as_bytes(), b"1"]);
            }
            wait_until("it has expired", || client.ask("DBSIZE").int() == 0);
        }
    }
}

/// The clock of a replica leaves what its primary made alone.
#[test]
fn the_keys_of_a_primary_wait_for_its_word() {
    let primary = Who::Ours.start("");
    let mut there = primary.client();
    there.ok("SET theirs v PX 100");
    there.ok("CLIENT PAUSE 1000000 WRITE");
    let replica = Who::Ours.follow(primary.port);
    wait_for_link(&replica);
    let mut here = replica.client();
    here.ok("CONFIG SET replica-read-only no");
    here.ok("SET own v PX 1");
    assert!(here.info_int("slave_expires_tracked_keys") <= 1);
    wait_until("its own has expired", || here.info("expired_keys") == "1");
    wait_until("theirs is absent", || here.ask("EXISTS theirs").int() == 0);
    assert_eq!(here.ask("DBSIZE").int(), 1, "and nobody has deleted it");
    here.ok("SET own v PX 100000");
    assert_eq!(here.info("slave_expires_tracked_keys"), "1");
    here.ok("REPLICAOF NO ONE");
    assert_eq!(here.info("slave_expires_tracked_keys"), "0");
}

#[test]
fn a_replica_that_takes_writes_passes_over_what_fails() {
    if !redis_is_here("a_replica_that_takes_writes_passes_over_what_fails") {
        return;
    }
    for who in BOTH {
        let (primary, replica) = who.behind_ours();
        let (mut there, mut here) = (primary.client(), replica.client());
        here.ok("CONFIG SET replica-read-only no");
        here.ok("SET n text");
        assert_eq!(there.ask("INCRBY n 1").int(), 1);
        there.ok("SET next v");
        wait_for_all(&primary, &replica);
        assert_eq!(here.ask("GET n").text(), "text", "{who:?}");
        assert_eq!(here.ask("GET next").text(), "v", "{who:?}");
        assert_eq!(here.info("unexpected_error_replies"), "1", "{who:?}");
        assert_eq!(there.info("sync_full"), "1", "{who:?}: no other image");
        assert_eq!(replica.log().matches("== CRITICAL ==").count(), 1, "{}", replica.log());
    }
}

#[test]
fn a_replica_passes_over_what_fails_if_it_is_configured_to() {
    let flags = ["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"];
    let primary = Setup::new(Kind::Ours("imprint")).flags(&flags).start();
    let replica = Who::Ours.follow(primary.port);
    wait_for_link(&replica);
    let (mut there, mut here) = (primary.client(), replica.client());
    assert_eq!(here.ask("CONFIG GET propagation-error-behavior").list()[1].text(), "resync");
    assert!(here.ask("CONFIG SET propagation-error-behavior panic").text().starts_with("ERR"));
    here.ok("CONFIG SET propagation-error-behavior ignore");
    there.ok("DEBUG REPLICATE fake-command-1");
    there.ok("SET k v");
    wait_for_all(&primary, &replica);
    assert_eq!(here.ask("GET k").text(), "v");
    assert_eq!(there.info("sync_full"), "1");
    assert_eq!(replica.log().matches("fake-command-1").count(), 1, "{}", replica.log());
    here.ok("CONFIG SET propagation-error-behavior resync");
    there.ok("DEBUG REPLICATE fake-command-2");
    wait_until("it takes an image", || there.info("sync_full") == "2");
}

/// A replica that has asked for the stream hears nothing else, and is closed if it asks for more.
#[test]
fn a_replica_that_asks_for_a_reply_is_closed() {
    if !redis_is_here("a_replica_that_asks_for_a_reply_is_closed") {
        return;
    }
    for who in BOTH {
        let server = who.start("");
        for (first, line) in
            [("SYNC", "PING"), ("SYNC", "GET k"), ("PSYNC ? -1", "SLOWLOG GET"), ("SYNC", "FAKE")]
        {
            let mut replica = server.client();
            let words: Vec<&[u8]> = first.split(' ').map(str::as_bytes).collect();
            replica.send(&words);
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            replica.send(&words);
            while replica.receive_raw().is_some() {}
            let name = line.to_lowercase().replace("slowlog get", "slowlog|get");
            let name = name.split(' ').next().expect("a name");
            let said = format!("Replica generated a reply to command '{name}', disconnecting it");
            assert!(server.log().contains(&said) || name == "fake", "{who:?}: {}", server.log());
        }
        assert!(server.log().contains("Replica can't interact with the keyspace"), "{who:?}");
        assert_eq!(server.client().info("unexpected_error_replies"), "2", "{who:?}");
        let refused = server.client().ask("PSYNC replicationid offset");
        assert_eq!(refused.text(), "ERR value is not an integer or out of range");
        assert!(server.log().contains("asks for synchronization but with a wrong offset"));
    }
}

#[test]
fn a_save_for_replicas_that_have_left_is_stopped() {
    if !redis_is_here("a_save_for_replicas_that_have_left_is_stopped") {
        return;
    }
    for who in BOTH {
        let server = who.start("--repl-diskless-sync no --rdb-key-save-delay 100000000");
        let mut client = server.client();
        client.ok("MSET a 1 b 2 c 3");
        let [mut first, mut second] = [(), ()].map(|()| server.client());
        first.send(&[b"SYNC"]);
        second.send(&[b"SYNC"]);
        wait_until("it saves for them", || {
            client.info("rdb_bgsave_in_progress") == "1" && client.info("connected_slaves") == "2"
        });
        drop(first);
        wait_until("one has left", || client.info("connected_slaves") == "1");
        assert_eq!(client.info("rdb_bgsave_in_progress"), "1", "{who:?}: the other still waits");
        drop(second);
        wait_until("nobody saves", || client.info("rdb_bgsave_in_progress") == "0");
    }
}

#[test]
fn a_replica_whose_clients_are_paused_reads_and_does_not_apply() {
    if !redis_is_here("a_replica_whose_clients_are_paused_reads_and_does_not_apply") {
        return;
    }
    for who in BOTH {
        let primary = Who::Ours.start("--repl-ping-replica-period 3600");
        let replica = who.follow(primary.port);
        wait_for_link(&replica);
        let (mut there, mut here) = (primary.client(), replica.client());
        there.ok("SET k v");
        wait_for_all(&primary, &replica);
        let before = there.info("master_repl_offset");
        here.ok("CLIENT PAUSE 1000000 WRITE");
        there.ok("SET k w");
        wait_until("it has read it", || {
            here.info("slave_read_repl_offset") == there.info("master_repl_offset")
        });
        assert_eq!(here.info("slave_repl_offset"), before, "{who:?}");
        assert_eq!(here.ask("GET k").text(), "v", "{who:?}");
        here.ok("CLIENT UNPAUSE");
        wait_for_all(&primary, &replica);
        assert_eq!(here.ask("GET k").text(), "w", "{who:?}");
    }
}

#[test]
fn the_counters_of_synchronisations_are_reset_as_in_redis() {
    if !redis_is_here("the_counters_of_synchronisations_are_reset_as_in_redis") {
        return;
    }
    for who in BOTH {
        let primary = who.start("");
        let replica = Who::Ours.follow(primary.port);
        wait_for_link(&replica);
        let mut client = primary.client();
        wait_until("its image is through", || client.info("rdb_bgsave_in_progress") == "0");
        client.ok("SAVE");
        assert_eq!(client.info("sync_full"), "1");
        client.ok("CONFIG RESETSTAT");
        for name in ["sync_full", "sync_partial_ok", "sync_partial_err", "rdb_saves"] {
            assert_eq!(client.info(name), "0", "{who:?}: {name}");
        }
    }
}
