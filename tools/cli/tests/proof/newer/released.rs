//! Entries of streams that are pending for nobody, behind which replicas follow that know no such:
//! there a consumer without a name has them.

use super::{ALL, is_tried};
use crate::replication::{Who, wait_for_all, wait_for_link};
use crate::support::{Client, Peer, Random, Reply, Server, are_here, wait_until};

/// Streams that the requests name.
const STREAMS: u64 = 3;

/// What is pending: the id, the consumer and the number of deliveries of each entry. What cannot be
/// processed has the largest number at servers that know XNACK, and a very large one at others,
/// which count on from it.
fn pending(server: &Server) -> Vec<Vec<String>> {
    let mut client = server.client();
    let mut all = Vec::new();
    for stream in 0..STREAMS {
        let found = client.ask(&format!("XPENDING s{stream} g - + 1000"));
        all.extend(found.list().iter().map(|entry| {
            let [id, consumer, _, count] = entry.list() else { panic!("{entry:?}") };
            let text = Reply::text;
            let count = match count.int() {
                count if count >= 1 << 62 => "hopeless".to_owned(),
                count => count.to_string(),
            };
            vec![stream.to_string(), text(id), text(consumer), count]
        }));
    }
    all
}

fn assert_equal(primary: &Server, replica: &Server, what: &str) {
    wait_for_all(primary, replica);
    assert_eq!(pending(replica), pending(primary), "{what}");
}

fn make(client: &mut Client) {
    for stream in 0..STREAMS {
        client.ok(&format!("XGROUP CREATE s{stream} g $ MKSTREAM"));
    }
}

/// Entries that are delivered, released, claimed and acknowledged, alone and in transactions and
/// scripts. `from` is the first id.
fn write(client: &mut Client, random: &mut Random, from: &mut u64, requests: usize) {
    for _ in 0..requests {
        let [stream, which] = [STREAMS, 4].map(|below| random.below(below as usize));
        let newest = *from;
        let id = |back: u64| format!("{}-1", newest.saturating_sub(back));
        let ids: Vec<String> = (0..=which as u64).map(|it| id(it + which as u64)).collect();
        let (number, ids) = (ids.len(), ids.join(" "));
        let mode = random.pick(&["SILENT", "FAIL", "FATAL"]);
        let nack = format!("XNACK s{stream} g {mode} IDS {number} {ids}");
        let line = match random.below(9) {
            0 => format!("{nack} RETRYCOUNT {which}"),
            1 => format!("{nack} FORCE"),
            2 => format!("XACK s{stream} g {ids}"),
            3 => format!("XCLAIM s{stream} g b 0 {ids}"),
            4 => format!("XREADGROUP GROUP g a COUNT 2 STREAMS s{stream} >"),
            5 => {
                ["MULTI", &*nack, "INCR n"].iter().for_each(|line| _ = client.ask(line));
                "EXEC".to_owned()
            }
            6 => {
                let script = "return redis.call('XNACK', KEYS[1], 'g', 'FAIL', 'IDS', 1, ARGV[1])";
                let [key, id] = [format!("s{stream}"), id(1)];
                client.call(&["EVAL", script, "1", &key, &id].map(str::as_bytes));
                continue;
            }
            _ => {
                *from += 1;
                format!("XADD s{stream} {}-1 f v", *from)
            }
        };
        client.ask(&line);
        if random.below(3) == 0 {
            client.ask(&nack);
        }
    }
    // So that there is one at the end.
    *from += 1;
    for line in [
        format!("XADD s0 {from}-1 f v"),
        "XREADGROUP GROUP g a STREAMS s0 >".to_owned(),
        format!("XNACK s0 g FAIL IDS 1 {from}-1"),
    ] {
        client.ask(&line);
    }
}

#[test]
fn replicas_that_know_no_released_entries_have_them_for_nobody() {
    let test = "replicas_that_know_no_released_entries_have_them_for_nobody";
    let mut random = Random::new(test);
    let newer = ALL.into_iter().filter(|&it| it != Peer::Redis810).map(Who::Newer);
    for who in [Who::Redis].into_iter().chain(newer) {
        let peer = match who {
            Who::Newer(peer) => peer,
            _ => Peer::RedisServer,
        };
        if !are_here(test, &[peer]) {
            continue;
        }
        println!("{peer:?}");
        let primary = Who::Ours.start("");
        let (mut client, mut from) = (primary.client(), 5);
        make(&mut client);
        let replica = who.follow(primary.port);
        wait_for_link(&replica);
        let images = |client: &mut Client| client.info_int("sync_full") as u64;
        let before = images(&mut client);
        write(&mut client, &mut random, &mut from, 400);
        assert!(pending(&primary).iter().any(|entry| entry[2].is_empty()), "{peer:?}");
        assert_equal(&primary, &replica, &format!("{peer:?}: the stream"));
        assert_eq!(images(&mut client), before, "{peer:?} needs no image");

        // Redis from 8.0 on tries an image in the version that holds them, once.
        for tried in [u64::from(is_tried(peer)), 0] {
            let before = images(&mut client);
            let mut own = replica.client();
            own.ok("REPLICAOF NO ONE");
            own.ok("SET own 1");
            own.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
            wait_for_link(&replica);
            assert_equal(&primary, &replica, &format!("{peer:?}: the image"));
            assert_eq!(images(&mut client), before + 1 + tried, "{peer:?}");
            write(&mut client, &mut random, &mut from, 50);
            assert_equal(&primary, &replica, &format!("{peer:?}: behind the image"));
        }
        let log = replica.log();
        assert!(!log.contains("CRITICAL"), "{log}");
        assert!(!primary.log().contains("dropping the replica"));

        // What was pending for nobody is so at the replica that leads, and comes back.
        replica.client().ok("REPLICAOF NO ONE");
        client.ok(&format!("REPLICAOF 127.0.0.1 {}", replica.port));
        wait_until("ours follows", || client.info("master_link_status") == "up");
        replica.client().ask("XAUTOCLAIM s0 g b 9999 0");
        assert_equal(&replica, &primary, &format!("{peer:?}: claimed there"));
    }
}

/// Redis 8.10 knows them: its files and its stream have them, and it takes ours.
#[test]
fn released_entries_go_to_a_later_redis_and_come_from_it() {
    let test = "released_entries_go_to_a_later_redis_and_come_from_it";
    if !are_here(test, &[Peer::Redis810]) {
        return;
    }
    let mut random = Random::new(test);
    let mut from = 5;
    let theirs = Who::Newer(Peer::Redis810).start("");
    let mut client = theirs.client();
    make(&mut client);
    write(&mut client, &mut random, &mut from, 200);
    let ours = Who::Ours.follow(theirs.port);
    wait_for_link(&ours);
    assert_equal(&theirs, &ours, "their image");
    write(&mut client, &mut random, &mut from, 400);
    assert_equal(&theirs, &ours, "their stream");
    assert_eq!(client.info_int("sync_full"), 1, "one image");
    let log = ours.log();
    assert!(!log.contains("of its stream"), "{log}");

    let mut client = ours.client();
    client.ok("REPLICAOF NO ONE");
    write(&mut client, &mut random, &mut from, 50);
    let mut other = theirs.client();
    other.ok("SET own 1");
    other.ok(&format!("REPLICAOF 127.0.0.1 {}", ours.port));
    wait_for_link(&theirs);
    assert_equal(&ours, &theirs, "our image");
    assert_eq!(client.info_int("sync_full"), 1, "it reads the version");
    write(&mut client, &mut random, &mut from, 200);
    assert_equal(&ours, &theirs, "our stream");
    assert!(!theirs.log().contains("CRITICAL"));
    let groups = other.ask("XINFO CONSUMERS s0 g");
    let names = groups.list().iter().map(|facts| facts.list()[1].text());
    assert!(names.into_iter().all(|name| !name.is_empty()), "nobody is no consumer there");
}
