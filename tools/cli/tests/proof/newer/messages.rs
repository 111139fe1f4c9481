//! Messages of producers, behind which replicas follow that know none: they get the entries alone.

use super::{ALL, is_tried};
use crate::replayed::{Contents, contents_by};
use crate::replication::{Who, assert_same, wait_for_all, wait_for_link};
use crate::support::{Client, Peer, Random, Reply, Server, are_here, wait_until};

/// All that a server holds but what it knows of producers.
fn contents(client: &mut Client) -> Contents {
    let is_of_producers = |fact: &[Reply]| {
        ["idmp-", "iids-", "pids-"].iter().any(|start| fact[0].text().starts_with(start))
    };
    contents_by(client, |client, words| {
        let reply = client.call(words);
        match words {
            [b"XINFO", b"STREAM", ..] => {
                let facts = reply.list().chunks(2).filter(|fact| !is_of_producers(fact));
                Reply::List(facts.flatten().cloned().collect())
            }
            _ => reply,
        }
    })
}

fn assert_equal(primary: &Server, replica: &Server) {
    assert_same(primary, replica, contents);
}

/// Messages, of which some come again, alone and in transactions and scripts.
fn write(client: &mut Client, random: &mut Random, requests: usize) {
    for _ in 0..requests {
        let [stream, message, number] = [3, 20, 1000].map(|below| random.below(below));
        let add = format!("XADD s{stream} IDMP p i{message} * f {number}");
        let line = match random.below(9) {
            0 => format!("XADD s{stream} * f {number}"),
            1 => format!("XADD s{stream} IDMPAUTO p MAXLEN ~ 20 * f {message}"),
            2 => format!("XADD s{stream} NOMKSTREAM IDMP p i{message} MAXLEN = 9 * f {number}"),
            3 => format!("XCFGSET s{stream} IDMP-DURATION {}", 1 + number),
            4 => {
                client.ok("MULTI");
                client.ok(&add);
                client.ok(&format!("SET k {number}"));
                client.ok(&add);
                client.ask("EXEC");
                continue;
            }
            5 => {
                let script = "redis.call('XADD', KEYS[1], 'IDMP', 'p', ARGV[1], '*', 'f', 'v') \
                              return redis.call('INCR', 'n')";
                let [key, message] = [format!("s{stream}"), format!("i{message}")];
                let words = ["EVAL", script, "1", &key, &message].map(str::as_bytes);
                client.call(&words);
                continue;
            }
            6 if number < 200 => format!("DEL s{stream}"),
            _ => add,
        };
        client.ask(&line);
    }
}

#[test]
fn replicas_that_know_no_messages_get_their_entries() {
    let test = "replicas_that_know_no_messages_get_their_entries";
    let mut random = Random::new(test);
    let knows = [Peer::Redis86, Peer::Redis810];
    let newer = ALL.into_iter().filter(|it| !knows.contains(it)).map(Who::Newer);
    for who in [Who::Redis].into_iter().chain(newer) {
        let peer = match who {
            Who::Newer(peer) => peer,
            _ => Peer::RedisServer,
        };
        if !are_here(test, &[peer]) {
            continue;
        }
        println!("{peer:?}");
        let primary = Who::Ours.start("--stream-idmp-maxsize 9");
        let mut client = primary.client();
        client.ok("SET k 0");
        let ours = Who::Ours.follow(primary.port);
        let replica = who.follow(primary.port);
        // A server of ours that gets what the other one passes on.
        let behind = Who::Ours.follow(replica.port);
        [&ours, &replica, &behind].into_iter().for_each(wait_for_link);
        let images = |client: &mut Client| client.info_int("sync_full");
        let before = images(&mut client);
        write(&mut client, &mut random, 400);
        assert_equal(&primary, &replica);
        assert_equal(&primary, &behind);
        assert_same(&primary, &ours, crate::replayed::contents);
        assert_eq!(images(&mut client), before, "{peer:?} needs no image");

        // Redis from 8.0 on tries an image in the version that holds messages of producers, once.
        client.ask("XADD s0 IDMP p last * f v");
        for tried in [u64::from(is_tried(peer)), 0] {
            let before = images(&mut client) as u64;
            // What it wrote itself has it need an image.
            let mut own = replica.client();
            own.ok("REPLICAOF NO ONE");
            own.ok("SET own 1");
            own.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
            wait_for_link(&replica);
            write(&mut client, &mut random, 20);
            client.ask("XADD s0 IDMP p last * f v");
            wait_for_all(&primary, &replica);
            assert_equal(&primary, &replica);
            assert_eq!(images(&mut client) as u64, before + 1 + tried, "{peer:?}");
        }
        assert!(!client.ask("INFO replication").text().contains("repl_replica_sync_error"));
        assert!(!primary.log().contains("dropping the replica"));
        let log = replica.log();
        assert!(!log.contains("CRITICAL"), "{log}");
        wait_until("ours behind it follows again", || {
            behind.client().info("master_link_status") == "up"
        });
        assert_equal(&primary, &behind);
    }
}
