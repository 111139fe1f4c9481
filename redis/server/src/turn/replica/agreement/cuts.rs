//! A connection is cut after any byte. The replica then holds what the primary held between two
//! requests, never a part of a transaction or of a script, and nothing of the stream's state is
//! lost with the connection.

use super::Contents;
use super::fleet::Fleet;
use crate::peers::replication::stream::{Abilities, Stream};

/// Requests whose stream selects databases, inside and outside of transactions and scripts. The
/// last one leaves another database selected than a connection begins with.
const PROGRAM: [&str; 32] = [
    "FLUSHALL",
    "SELECT 9",
    "SET a 1",
    "MULTI",
    "RPUSH l 1 2 3",
    "SELECT 3",
    "LPOP l",
    "SET b 2",
    "EXEC",
    "EVAL redis.call('SET','a',2)redis.call('SELECT',4)redis.call('SET','e',2) 0",
    "EVAL redis.call('INCR','a')redis.call('RPUSH','e','x')redis.call('LPUSH','b',1)--fails 0",
    "EVAL redis.call('INCR','a')redis.call('INCR','b')redis.call('LPUSH','b',1)--fails 0",
    "MULTI",
    "EVAL redis.call('INCR','a')redis.call('INCR','b')redis.call('LPUSH','b',1) 0",
    "EVAL redis.call('INCR','a')redis.call('INCR','b') 0",
    "EXEC",
    "XGROUP CREATE s g 0 MKSTREAM",
    "MULTI",
    "XADD s 1-1 f 1",
    "XADD s 1-2 f 2",
    "XREADGROUP GROUP g c STREAMS s >",
    "XADD s MAXLEN 2 1-3 f 3",
    "XACK s g 1-1",
    "EXEC",
    "EVAL redis.call('XADD','s','1-4','f',4)redis.call('XREADGROUP','GROUP','g','d','STREAMS',\
     's','>')redis.call('XTRIM','s','MAXLEN',1)error('--fails') 0",
    "XAUTOCLAIM s g d 0 0",
    "INCR b",
    "SELECT 0",
    "SET c 3",
    "SELECT 9",
    "APPEND a 4",
    "RPUSH l 5",
];

/// How the replica goes on after a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// By itself.
    Again,
    /// By REPLICAOF with another address of the same primary.
    Anew,
    /// As the replica of another replica, which has everything.
    Elsewhere,
    /// As the primary, whose place it takes and which goes on as its replica.
    Promoted,
}

fn ask(fleet: &mut Fleet, line: &str) {
    let reply = fleet.nodes[fleet.primary].ask(line);
    assert_eq!(reply.starts_with('-'), line.contains("--fails"), "{line}: {reply}");
}

/// Runs the program, lets `bytes` of its stream reach a replica, and goes on; false if the stream
/// was shorter.
fn cut_after(fleet: &mut Fleet, bytes: usize, after: After) -> bool {
    let primary = fleet.primary;
    let [who, other] = [1, 2].map(|step| (primary + step) % 3);
    for replica in [who, other] {
        if fleet.whom[replica] != primary {
            fleet.follow(replica, primary, true);
        }
    }
    fleet.converge();
    let mut states: Vec<Contents> = vec![fleet.nodes[primary].contents()];
    for line in PROGRAM {
        ask(fleet, line);
        states.push(fleet.nodes[primary].contents());
    }
    let mut passed = 0;
    while passed < bytes {
        let count = fleet.pass(who, bytes - passed);
        if count == 0 {
            break;
        }
        passed += count;
        fleet.nodes[who].turn();
    }
    fleet.cut(who);
    fleet.nodes[who].turn();
    let found = fleet.nodes[who].contents();
    assert!(states.contains(&found), "cut after {bytes} bytes: a state that never was: {found:?}");
    let (images, mut needed) = (fleet.images(), 0);
    match after {
        After::Again => {}
        After::Anew => fleet.follow(who, primary, true),
        After::Elsewhere => {
            while fleet.nodes[other].offset() < fleet.nodes[primary].offset() {
                fleet.nodes[primary].turn();
                fleet.pass(other, usize::MAX);
                fleet.nodes[other].turn();
            }
            fleet.follow(who, other, true);
        }
        After::Promoted => {
            let end = fleet.nodes[who].offset();
            let ahead = [primary, other].into_iter().filter(|&it| fleet.nodes[it].offset() > end);
            needed = ahead.count() as u64;
            fleet.promote(who);
            [primary, other].into_iter().for_each(|it| fleet.follow(it, who, true));
        }
    }
    ask(fleet, "APPEND a 6");
    fleet.converge();
    let case = format!("cut after {bytes} bytes, {after:?}");
    assert_eq!(fleet.disagreement(), None, "{case}");
    assert_eq!(fleet.images() - images, needed, "{case}: images");
    passed == bytes
}

fn cut_everywhere(after: After) {
    let mut fleet = Fleet::start(3, 7, false);
    let cut = |bytes: &usize| !cut_after(&mut fleet, *bytes, after);
    let bytes = (0..).find(cut).unwrap_or_default();
    assert!(bytes > 300, "a stream of {bytes} bytes");
}

#[test]
fn a_replica_goes_on_after_a_cut_at_any_byte() {
    cut_everywhere(After::Again);
}

#[test]
fn a_replica_that_follows_anew_goes_on_after_a_cut_at_any_byte() {
    cut_everywhere(After::Anew);
}

#[test]
fn a_replica_goes_on_as_the_replica_of_another_after_a_cut_at_any_byte() {
    cut_everywhere(After::Elsewhere);
}

#[test]
fn a_replica_that_was_cut_off_at_any_byte_can_be_promoted() {
    cut_everywhere(After::Promoted);
}

/// A ping that was not sent when its server became a replica is no part of the new primary's
/// stream.
#[test]
fn what_an_old_primary_has_not_said_yet_costs_no_image() {
    let mut fleet = Fleet::start(2, 7, false);
    fleet.converge();
    let images = fleet.images();
    for (old, new) in [(0, 1), (1, 0)] {
        let replication = &mut fleet.nodes[old].server.state.replication;
        replication.propagate(None, &[b"PING"]);
        replication.ask();
        fleet.promote(new);
        fleet.follow(old, new, true);
        ask(&mut fleet, "APPEND a 6");
        fleet.converge();
        assert_eq!(fleet.disagreement(), None);
    }
    assert_eq!(fleet.images(), images);
}

/// What a server knows that is older than Redis 7.4.
const OLD: Abilities =
    Abilities { branches: true, fields: false, messages: false, released: false, arrays: false };

/// The stream from an offset, as a server gets it that knows no messages of producers and no
/// releases.
fn plain_from(stream: &Stream, mut offset: u64) -> String {
    let mut bytes = Vec::new();
    while let Some(piece @ [_, ..]) = stream.bytes_for(offset, OLD) {
        bytes.extend_from_slice(piece);
        offset += piece.len() as u64;
    }
    String::from_utf8(bytes).expect("it is text")
}

/// A transaction that comes to a replica in two parts needs of that one's replicas what it needs
/// in one.
#[test]
fn what_a_transaction_needs_is_known_wherever_it_was_cut() {
    let mut fleet = Fleet::start(2, 7, false);
    ask(&mut fleet, "XGROUP CREATE s g 0 MKSTREAM");
    fleet.converge();
    for number in 1.. {
        ask(&mut fleet, &format!("XADD s {number}-1 f v"));
        ask(&mut fleet, "XREADGROUP GROUP g c STREAMS s >");
        fleet.converge();
        let mut ends = Vec::new();
        for line in [
            format!("XADD t IDMP p {number} * f v"),
            format!("HSETEX h PX {number}000 FIELDS 1 f v"),
            format!("XNACK s g FAIL IDS 1 {number}-1"),
        ] {
            let offset = fleet.nodes[1].offset();
            ["MULTI", &line, "INCR a", "EXEC"].into_iter().for_each(|it| ask(&mut fleet, it));
            ends.push(fleet.pass(1, number) == number);
            fleet.nodes[1].turn();
            fleet.converge();
            let streams = [0, 1].map(|who| &fleet.nodes[who].server.state.replication.stream);
            let [said, passed_on] = streams.map(|it| plain_from(it, offset));
            assert_eq!(passed_on, said, "{line} after {number} bytes");
            assert!(!said.contains("IDMP") && !said.contains("XNACK"), "{said}");
            let [said, passed_on] = streams.map(|it| it.suits(offset, OLD));
            assert_eq!((passed_on, said), (!line.contains("HSETEX"), passed_on), "{line}");
        }
        if !ends.contains(&true) {
            assert!(number > 100, "a transaction of {number} bytes");
            return;
        }
    }
}
