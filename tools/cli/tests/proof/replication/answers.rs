//! Replies of a replica and its primary in corner cases, beside redis-server in the same role.

use super::proxy::Proxy;
use super::{Who, ours, wait_for_all, wait_for_link};
use crate::support::{Client, Reply, redis_is_here, wait_until};

const BOTH: [Who; 2] = [Who::Ours, Who::Redis];

/// One field of a line of CLIENT LIST.
fn field(line: &str, name: &str) -> String {
    let found = line.split(' ').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no {name} in {line}")).to_owned()
}

#[test]
fn a_stale_replica_answers_as_redis() {
    if !redis_is_here("a_stale_replica_answers_as_redis") {
        return;
    }
    let answers = BOTH.map(|who| {
        let primary = Who::Ours.start("");
        primary.client().ok("SET k v");
        let proxy = Proxy::to(primary.port);
        let replica = who.follow(proxy.port);
        wait_for_link(&replica);
        let mut client = replica.client();
        client.ok("CONFIG SET replica-serve-stale-data no");
        let queues = [&["GET k"][..], &["INFO server", "GET k"], &["CONFIG GET port"], &[]];
        let mut others = queues.map(|lines| {
            let mut other = replica.client();
            other.ok("MULTI");
            lines.iter().for_each(|line| other.ok(line));
            other
        });
        proxy.close();
        wait_until("the link is down", || client.info("master_link_status") == "down");
        let mut answers = others.each_mut().map(|other| match other.ask("EXEC") {
            // The port differs.
            Reply::List(parts) => Reply::Int(parts.len() as i64),
            other => other,
        });
        assert!(answers[0].text().contains("EXECABORT"), "{who:?}: {answers:?}");
        let lines = ["GET k", "SET k w", "MULTI", "GET k", "EXEC", "PING", "EXISTS k", "WATCH k"];
        let more = lines.map(|line| client.ask(line));
        answers.reverse();
        (answers, more)
    });
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn the_link_of_the_primary_is_killed_as_in_redis() {
    if !redis_is_here("the_link_of_the_primary_is_killed_as_in_redis") {
        return;
    }
    for who in BOTH {
        let (primary, replica) = who.behind_ours();
        let (mut client, mut there) = (replica.client(), primary.client());
        let mut kills = 0;
        let mut kill = |client: &mut Client, line: &str, answer: Reply| {
            assert_eq!(client.ask(line), answer, "{who:?}: {line}");
            kills += 1;
            wait_until("the replica goes on", || there.info_int("sync_partial_ok") == kills);
            wait_for_link(&replica);
        };
        let shown = |client: &mut Client| client.ask("CLIENT LIST TYPE master").text();
        let line = shown(&mut client);
        assert_eq!(field(&line, "addr"), format!("127.0.0.1:{}", primary.port), "{who:?}");
        assert_eq!([field(&line, "flags"), field(&line, "user")], ["M", "(superuser)"]);
        assert_ne!(field(&line, "laddr"), "127.0.0.1:0");
        let by_user = client.ask("CLIENT KILL USER default TYPE master");
        assert_eq!(by_user.int(), 0, "{who:?}: the primary is no user");
        kill(&mut client, "CLIENT KILL TYPE master", Reply::Int(1));
        let id = field(&shown(&mut client), "id");
        kill(&mut client, &format!("CLIENT KILL ID {id}"), Reply::Int(1));
        let addr = field(&shown(&mut client), "addr");
        kill(&mut client, &format!("CLIENT KILL ADDR {addr}"), Reply::Int(1));
        kill(&mut client, &format!("CLIENT KILL {addr}"), Reply::Text(b"OK".to_vec()));
        let laddr = field(&shown(&mut client), "laddr");
        kill(&mut client, &format!("CLIENT KILL LADDR {laddr} TYPE master"), Reply::Int(1));
        primary.client().ok("SET k v");
        wait_for_all(&primary, &replica);
    }
}

#[test]
fn a_pause_of_clients_holds_the_stream_as_in_redis() {
    if !redis_is_here("a_pause_of_clients_holds_the_stream_as_in_redis") {
        return;
    }
    for who in BOTH {
        let (primary, replica) = who.behind_ours();
        let (mut there, mut here) = (primary.client(), replica.client());
        there.ok("SET k before");
        assert_eq!(there.ask("WAIT 1 60000").int(), 1);
        here.ok("CLIENT PAUSE 1000000 WRITE");
        there.ok("SET k behind");
        assert_eq!(there.ask("WAIT 1 1500").int(), 0, "{who:?} goes on within a pause");
        assert_eq!(here.ask("GET k").text(), "before", "{who:?}");
        here.ok("CLIENT UNPAUSE");
        assert_eq!(there.ask("WAIT 1 60000").int(), 1, "{who:?}");
        assert_eq!(here.ask("GET k").text(), "behind", "{who:?}");
        // What expires within the pause is absent, and there again for nobody.
        there.ok("SET short v PX 300");
        assert_eq!(there.ask("WAIT 1 60000").int(), 1);
        here.ok("CLIENT PAUSE 1000000 WRITE");
        wait_until("its time has come", || here.ask("GET short") == Reply::Null);
        wait_until("the primary has deleted it", || there.ask("EXISTS short").int() == 0);
        assert_eq!(here.ask("DBSIZE").int(), 2, "{who:?}: nobody has deleted it there");
        here.ok("CLIENT UNPAUSE");
        wait_until("the primary's word has come", || here.ask("DBSIZE").int() == 1);
    }
}

#[test]
fn psync_with_what_is_no_number_is_refused_as_in_redis() {
    if !redis_is_here("psync_with_what_is_no_number_is_refused_as_in_redis") {
        return;
    }
    let id = "a".repeat(40);
    let answers = BOTH.map(|who| {
        let server = who.start("");
        let mut client = server.client();
        let lines = ["PSYNC ? x".to_owned(), format!("PSYNC {id} 1.5"), format!("PSYNC {id} ")];
        let answers = lines.map(|line| client.ask(&line));
        (answers, client.ask("PING"), client.info("connected_slaves"))
    });
    assert_eq!(answers[0], answers[1]);
}

/// A primary that has nothing to send pings as often as its newest setting says.
#[test]
fn a_shorter_period_of_pings_counts_at_once() {
    let primary = ours("imprint", "--repl-diskless-sync-delay 0 --repl-ping-replica-period 100000");
    let replica = Who::Ours.follow(primary.port);
    wait_for_link(&replica);
    let mut client = primary.client();
    client.ok("CONFIG SET repl-ping-replica-period 1");
    for _ in 0..2 {
        let before = client.info_int("master_repl_offset");
        wait_until("another ping", || client.info_int("master_repl_offset") > before);
    }
}

/// Replicas and the log need no old value.
#[test]
fn getset_reaches_replicas_as_set() {
    for who in [Who::Ours, Who::Redis] {
        if matches!(who, Who::Redis) && !redis_is_here("getset_reaches_replicas_as_set") {
            continue;
        }
        let primary = who.start("");
        let replica = who.follow(primary.port);
        wait_for_link(&replica);
        let mut client = primary.client();
        client.ok("SET k a");
        assert_eq!(client.ask("GETSET k b").text(), "a");
        wait_for_all(&primary, &replica);
        let mut reader = replica.client();
        assert_eq!(reader.ask("GET k").text(), "b");
        let stats = reader.ask("INFO commandstats").text();
        assert!(stats.contains("cmdstat_set:calls=2,"), "{stats}");
        assert!(!stats.contains("cmdstat_getset"), "{stats}");
    }
}

/// A replica that has got an image may still load it, or never do: WAIT counts it from its first
/// report on. (redis-server shows it as online from then on only.)
#[test]
fn wait_counts_no_replica_that_has_not_reported() {
    let primary = Who::Ours.start("");
    let mut client = primary.client();
    // The first one makes the primary count what it sends.
    let mut replicas = [1, 2].map(|count| {
        client.ok("SET k v");
        let mut replica = primary.client();
        assert!(replica.send_raw(b"REPLCONF capa eof\r\nPSYNC ? -1\r\n"));
        wait_until("it has the image", || {
            client.ask("INFO replication").text().matches("state=online").count() == count
        });
        replica
    });
    let offset = client.info("master_repl_offset");
    assert_ne!(offset, "0");
    assert_eq!(client.ask("WAIT 1 50").int(), 0);
    assert!(replicas[1].send_raw(format!("REPLCONF ACK {offset}\r\n").as_bytes()));
    assert_eq!(client.ask("WAIT 1 0").int(), 1);
}
