//! Arrays, which Redis 8.8 and later know: files, logs and streams of both kinds, and what servers
//! get that know none.

use super::expiring::{first_bytes, head};
use crate::replication::{Who, wait_for_all, wait_for_link};
use crate::support::{Client, Kind, Peer, Random, Reply, Server, Setup, are_here, wait_until};

/// Arrays that the requests name.
const ARRAYS: usize = 4;

/// What each array holds, and where it goes on.
fn shown(server: &Server) -> Vec<(Reply, Reply, Reply)> {
    let mut client = server.client();
    let mut of = |name: usize| {
        let all = client.ask(&format!("ARSCAN a{name} 0 18446744073709551614"));
        (all, client.ask(&format!("ARNEXT a{name}")), client.ask(&format!("TYPE a{name}")))
    };
    (0..ARRAYS).map(&mut of).collect()
}

fn assert_equal(primary: &Server, replica: &Server, what: &str) {
    wait_for_all(primary, replica);
    assert_eq!(shown(replica), shown(primary), "{what}");
}

/// Requests of all kinds, alone, in transactions and in scripts.
fn write(client: &mut Client, random: &mut Random, requests: usize) {
    for _ in 0..requests {
        let name = random.below(ARRAYS);
        let index = match random.below(4) {
            0 => u64::MAX - 1 - random.below(5) as u64,
            1 => 1 << random.below(63),
            _ => random.below(300) as u64,
        };
        let value = match random.below(6) {
            0 => format!("{}.5", random.below(100)),
            1 => "long".repeat(random.below(40) + 1),
            2 => format!("-{}", random.next()),
            _ => random.below(1000).to_string(),
        };
        let line = match random.below(12) {
            0 | 1 => format!("ARINSERT a{name} {value} x"),
            2 => format!("ARRING a{name} {} {value} y", random.below(20) + 1),
            3 => format!("ARSEEK a{name} {}", index.min(1000)),
            4 => format!("ARDEL a{name} {index} 3 4"),
            5 => format!("ARDELRANGE a{name} {index} {}", index.saturating_sub(7)),
            6 => format!("ARMSET a{name} {index} {value} 9 z"),
            7 => {
                let lines = ["MULTI", &format!("ARSET a{name} {index} {value}"), "INCR n"];
                lines.iter().for_each(|line| _ = client.ask(line));
                "EXEC".to_owned()
            }
            8 => {
                let script = "return redis.call('ARINSERT', KEYS[1], ARGV[1])";
                let key = format!("a{name}");
                client.call(&["EVAL", script, "1", &key, &value].map(str::as_bytes));
                continue;
            }
            9 if random.below(10) == 0 => format!("RENAME a{name} a{}", random.below(ARRAYS)),
            10 if random.below(5) == 0 => format!("COPY a{name} a{} REPLACE", (name + 1) % ARRAYS),
            _ => format!("ARSET a{name} {index} {value} next"),
        };
        client.ask(&line);
    }
}

#[test]
fn arrays_go_to_a_later_redis_and_come_from_it() {
    let test = "arrays_go_to_a_later_redis_and_come_from_it";
    if !are_here(test, &[Peer::Redis810]) {
        return;
    }
    let mut random = Random::new(test);
    let theirs = Who::Newer(Peer::Redis810).start("");
    let mut client = theirs.client();
    write(&mut client, &mut random, 300);
    let ours = Who::Ours.follow(theirs.port);
    wait_for_link(&ours);
    assert_equal(&theirs, &ours, "their image");
    write(&mut client, &mut random, 600);
    assert_equal(&theirs, &ours, "their stream");
    assert_eq!(client.info_int("sync_full"), 1, "one image");
    let log = ours.log();
    assert!(!log.contains("of its stream"), "{log}");

    let mut client = ours.client();
    client.ok("REPLICAOF NO ONE");
    write(&mut client, &mut random, 100);
    let mut other = theirs.client();
    other.ok("SET own 1");
    other.ok(&format!("REPLICAOF 127.0.0.1 {}", ours.port));
    wait_for_link(&theirs);
    assert_equal(&ours, &theirs, "our image");
    assert_eq!(client.info_int("sync_full"), 1, "it reads the version");
    write(&mut client, &mut random, 600);
    assert_equal(&ours, &theirs, "our stream");
    assert!(!theirs.log().contains("CRITICAL"));

    // Payloads both ways, equal where no string is packed.
    other.ok("REPLICAOF NO ONE");
    for client in [&mut client, &mut other] {
        client.ok("CONFIG SET rdbcompression no");
    }
    for name in 0..ARRAYS {
        let key = format!("a{name}");
        let payloads = [&mut client, &mut other].map(|it| it.call(&[b"DUMP", key.as_bytes()]));
        let [own, their] = payloads.each_ref().map(|it| it.bytes().unwrap_or_default());
        if own.is_empty() {
            continue;
        }
        assert_eq!(own[..own.len() - 10], their[..their.len() - 10], "but for the version");
        let restored = |client: &mut Client, payload: &[u8]| {
            let reply = client.call(&[b"RESTORE", key.as_bytes(), b"0", payload, b"REPLACE"]);
            assert_eq!(reply.text(), "OK");
        };
        restored(&mut other, own);
        restored(&mut client, their);
    }
    assert_eq!(shown(&ours), shown(&theirs));
}

#[test]
fn arrays_are_in_dump_and_log_through_kills() {
    let mut random = Random::new("arrays in dump and log");
    let folder = tempfile::tempdir().expect("a folder");
    let start = |flags: &[&str]| {
        Setup::new(Kind::Ours("imprint")).flags(flags).folder(folder.path()).start()
    };
    let flags = ["--appendonly", "yes", "--appendfsync", "always"];
    for round in 0..3 {
        let mut server = start(&flags);
        let mut client = server.client();
        write(&mut client, &mut random, 300);
        if round == 1 {
            client.ok("SAVE");
            write(&mut client, &mut random, 100);
        }
        let expected = shown(&server);
        server.kill();
        let server = start(&flags);
        assert_eq!(shown(&server), expected, "round {round}");
    }
}

#[test]
fn the_version_of_a_dump_with_arrays_is_that_of_redis_8_8() {
    let server = Who::Ours.start("");
    let mut client = server.client();
    client.ok("SAVE");
    assert_eq!(head(&server), "REDIS0010");
    client.ask("ARSET a 7 x");
    client.ok("SAVE");
    assert_eq!(head(&server), "REDIS0014");
    for version in ["10", "11", "12", "80"] {
        client.ok(&format!("CONFIG SET rdb-version {version}"));
        let why = format!(
            "ERR rdb-version is {version}, which cannot hold arrays, and there are some: 1; set \
             rdb-version to auto or 14"
        );
        assert_eq!(client.ask("SAVE").text(), why);
        let payload = client.ask("DUMP a");
        let payload = payload.bytes().expect("a payload");
        assert_eq!(payload[payload.len() - 10], 14, "rdb-version {version}");
    }
    client.ok("CONFIG SET rdb-version auto");
    let told = "RDB version 14 from now on, as the data needs it";
    assert_eq!(server.log().matches(told).count(), 1);
    for version in ["", "8.1.4", "9.1.2"] {
        let text = first_bytes(&server, version);
        assert!(
            text.contains("-ERR there are arrays here") && !text.contains("FULLRESYNC"),
            "{text}"
        );
    }
    client.ok("DEL a");
    client.ok("SAVE");
    assert_eq!(head(&server), "REDIS0010");
    assert!(first_bytes(&server, "").contains("REDIS0010"));
}

/// Redis before 8.8 would skip requests that it does not know.
#[test]
fn a_replica_that_knows_no_arrays_is_dropped_and_follows_again_without_them() {
    let test = "a_replica_that_knows_no_arrays_is_dropped";
    for (peer, who) in [
        (Peer::RedisServer, Who::Redis),
        (Peer::Redis86, Who::Newer(Peer::Redis86)),
        (Peer::Valkey, Who::Newer(Peer::Valkey)),
    ] {
        if !are_here(test, &[peer]) {
            continue;
        }
        let primary = Who::Ours.start("");
        let mut client = primary.client();
        client.ok("SET k v");
        let replica = who.follow(primary.port);
        wait_for_link(&replica);
        client.ask("ARSET a 7 x");
        let dropped = format!("dropping the replica 127.0.0.1:{}: a write", replica.port);
        wait_until("it is dropped", || primary.log().contains(&dropped));
        let why =
            if peer == Peer::Redis86 { "does not load its image" } else { "is refused: there are" };
        wait_until("it gets no array", || primary.log().contains(why));
        client.ok("DEL a");
        wait_until("the replica follows", || replica.client().info("master_link_status") == "up");
        client.ok("SET behind 1");
        wait_for_all(&primary, &replica);
        assert_eq!(replica.client().ask("GET behind").text(), "1", "{peer:?}");
    }
}
