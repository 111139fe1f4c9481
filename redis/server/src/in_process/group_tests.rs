//! What a member of a group answers, by what it knows of the group.

use std::collections::BTreeSet;

use stillframe_commands::facts::all;
use stillframe_commands::flags;
use stillframe_resp::Protocol;

use super::{InProcess, request_of};
use crate::Config;
use crate::connections::client::Session;
use crate::consensus::{MemberView, Peer, View};
use crate::node::config::Reads;
use crate::peers::group::{slot, tag_of};

const NO_CLUSTER: &str = "-ERR This instance has cluster support disabled\r\n";
const NOT_HERE: &str =
    "-READONLY You can't do this at a member that follows; the leader is two:7002\r\n";
const DOWN: &str = "-CLUSTERDOWN The cluster is down\r\n";

struct Member {
    server: InProcess,
    _folder: tempfile::TempDir,
}

impl Member {
    /// A server that belongs to no group, with a key.
    fn alone() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = Config { dir: folder.path().to_owned(), ..Config::default() };
        let mut server = InProcess::new(config).expect("a server");
        server.ask(&[b"SET", b"foo", b"bar"]);
        Self { server, _folder: folder }
    }

    /// Member 1 of a group of three, with a leader or without.
    fn with_leader(leader: Option<u64>) -> Self {
        let mut member = Self::alone();
        member.see(leader);
        member
    }

    fn see(&mut self, leader: Option<u64>) {
        let member = |id: u64, host: &str| MemberView {
            peer: Peer {
                id,
                raft: format!("{host}:{}", 17_000 + id),
                client: format!("{host}:{}", 7000 + id),
            },
            reachable: id != 3,
            votes: id != 2,
            matched: Some(10 * id),
        };
        let members = vec![member(1, "one"), member(2, "two"), member(3, "three")];
        let view = View { id: 1, leader, term: 4, members, ..View::default() };
        let InProcess { state, keyspace, .. } = &mut self.server;
        state.group.set_name("g");
        state.see_group(keyspace, Some(view));
    }

    fn read_locally(&mut self) {
        self.server.state.group.serve_reads(Reads::Local);
    }

    fn ask(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.run(&words)
    }

    fn run(&mut self, words: &[&[u8]]) -> String {
        String::from_utf8_lossy(self.server.run(words)).into_owned()
    }

    #[track_caller]
    fn check(&mut self, line: &str, expected: &str) {
        assert_eq!(self.ask(line), expected, "{line}");
    }

    #[track_caller]
    fn moves(&mut self, line: &str, key: &str) {
        let expected = format!("-MOVED {} two:7002\r\n", slot(key.as_bytes()));
        self.check(line, &expected);
    }
}

#[test]
fn a_server_without_a_group_is_no_node_of_a_cluster() {
    let mut server = Member::alone();
    for line in [
        "CLUSTER SLOTS",
        "CLUSTER HELP",
        "CLUSTER MEET h 1",
        "CLUSTERSCAN 0 FOO",
        "READONLY",
        "READWRITE",
        "ASKING",
    ] {
        server.check(line, NO_CLUSTER);
    }
    assert!(server.ask("INFO cluster").contains("cluster_enabled:0\r\n"));
    assert!(server.ask("INFO server").contains("redis_mode:standalone\r\n"));
    assert!(server.ask("HELLO").contains("standalone"));
    server.check("GET foo", "$3\r\nbar\r\n");
}

/// No request that reads or changes data is served by a member that follows.
#[test]
fn every_command_on_data_is_redirected_or_refused() {
    for leader in [Some(2), None] {
        let mut member = Member::with_leader(leader);
        let (digest, mut moved, mut refused) = (member.server.digest(), 0, 0);
        let is_data = |it: &&stillframe_commands::Facts| {
            it.flags & (flags::ABSENT | flags::PUBSUB) == 0 && it.name != "exec"
        };
        for facts in all().iter().filter(is_data) {
            let mut words = request_of(facts);
            if facts.name == "stillframe|branch" {
                words[2] = b"LIST".to_vec(); // with a number it is another command
            }
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let cursor = || words.get(1).filter(|_| facts.name == "clusterscan");
            if let Some(key) = facts.keys.in_request(&words).first().or_else(cursor) {
                let expected = match leader {
                    Some(_) => format!("-MOVED {} two:7002\r\n", slot(key)),
                    None => DOWN.to_owned(),
                };
                assert_eq!(member.run(&words), expected, "{}", facts.name);
                moved += 1;
            } else if facts.flags & flags::WRITE != 0
                || ["dbsize", "keys", "randomkey", "scan"].contains(&facts.name)
                || ["stillframe|branch", "stillframe|view"].contains(&facts.name)
            {
                let expected = if leader.is_some() { NOT_HERE } else { DOWN };
                assert_eq!(member.run(&words), expected, "{}", facts.name);
                refused += 1;
            } else {
                let is_of_data = facts.flags & (flags::READONLY | flags::WRITE) != 0;
                assert!(!is_of_data || facts.name == "lolwut", "{}", facts.name);
            }
        }
        assert!(moved > 180 && refused > 8, "{moved} {refused}");
        assert_eq!(member.server.digest(), digest);
    }
}

/// A client whose branch is out of reach is not sent to data that it did not ask for.
#[test]
fn requests_on_a_branch_are_not_sent_elsewhere() {
    let mut member = Member::with_leader(Some(1));
    let id = member.ask("STILLFRAME BRANCH OPEN");
    let id = id.trim_matches([':', '\r', '\n']);
    member.check(&format!("STILLFRAME BRANCH USE {id}"), "+OK\r\n");
    member.check("SET foo else", "+OK\r\n");
    member.see(Some(2));
    for forwards in [false, true] {
        member.server.state.group.forward(forwards);
        member.check("GET foo", NOT_HERE);
        member.check("EVAL return{redis.call('get','foo')} 0", NOT_HERE);
        assert!(!member.server.session.to_forward);
    }
    member.see(Some(1));
    member.check("GET foo", "$4\r\nelse\r\n");
    member.check("STILLFRAME BRANCH USE OFF", "+OK\r\n");
    member.check("GET foo", "$3\r\nbar\r\n");
}

#[test]
fn the_leader_serves_all_slots_at_once() {
    let mut leader = Member::with_leader(Some(1));
    leader.check("MSET a 1 b 2 {c}d 3", "+OK\r\n");
    leader.check("DBSIZE", ":4\r\n");
    leader.check("SELECT 3", "+OK\r\n");
    leader.check("PUBLISH c m", ":0\r\n");
    assert!(leader.ask("HELLO").contains("$7\r\ncluster\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"));
    assert!(leader.ask("INFO replication").contains("role:master\r\n"));
}

#[test]
fn a_member_that_follows_sends_clients_to_the_leader() {
    let mut member = Member::with_leader(Some(2));
    member.check("GET foo", "-MOVED 12182 two:7002\r\n");
    member.moves("MSET b 1 a 2", "b");
    member.moves("XREAD COUNT 1 STREAMS s t 0 0", "s");
    member.moves("SORT {x}k BY w* STORE d", "x");
    member.moves("EVAL return{} 2 k l", "k");
    member.moves("OBJECT ENCODING k", "k");
    member.moves("MIGRATE h 1  0 1 KEYS k l", "k");
    member.check("SPUBLISH c m", ":0\r\n");
    member.check("PUBLISH c m", ":0\r\n");
    member.moves("WATCH k", "k");
    for line in ["FLUSHALL", "SWAPDB 0 1", "FUNCTION FLUSH", "DBSIZE", "SCAN 0"] {
        member.check(line, NOT_HERE);
    }
    member.check("PING", "+PONG\r\n");
    member.check("SELECT 1", "+OK\r\n");
    member.check("SCRIPT EXISTS x", "*1\r\n:0\r\n");
    assert!(member.ask("SCRIPT LOAD return").starts_with('$'), "clients load scripts everywhere");
    assert!(member.ask("SSUBSCRIBE c").starts_with("*3\r\n"));
    member.server.reconnect();
    assert!(member.ask("INFO replication").contains("role:slave\r\nmaster_host:two\r\n"));
    member.check("ROLE", "*5\r\n$5\r\nslave\r\n$3\r\ntwo\r\n:7002\r\n$9\r\nconnected\r\n:10\r\n");
    member.check("REPLICAOF NO ONE", "-ERR REPLICAOF not allowed in cluster mode.\r\n");
    assert!(member.ask("WAIT 1 1").starts_with("-ERR WAIT cannot be used"));
    assert!(member.ask("HELLO").contains("$7\r\nreplica\r\n"));
}

#[test]
fn reads_stay_where_they_are_if_client_and_group_want_it() {
    let mut member = Member::with_leader(Some(2));
    member.check("READONLY", "+OK\r\n");
    member.moves("GET foo", "foo");
    member.read_locally();
    member.check("GET foo", "$3\r\nbar\r\n");
    assert!(member.ask("CLIENT INFO").contains(" flags=r "));
    member.moves("SET foo x", "foo");
    member.moves("PFCOUNT h", "h");
    member.check("SPUBLISH c m", ":0\r\n");
    member.check("PUBLISH c m", ":0\r\n");
    member.run(&[b"EVAL", b"return redis.call('GET', KEYS[1])", b"1", b"foo"]);
    let read = member.run(&[b"EVAL", b"return redis.call('GET', KEYS[1])", b"1", b"foo"]);
    assert_eq!(read, "$3\r\nbar\r\n");
    let wrote = member.run(&[b"EVAL", b"return redis.call('SET', KEYS[1], 1)", b"1", b"foo"]);
    assert!(wrote.starts_with("-READONLY ") && wrote.contains("two:7002"), "{wrote}");
    member.see(None);
    member.check("GET foo", "$3\r\nbar\r\n");
    member.check("SET foo x", DOWN);
    member.check("READWRITE", "+OK\r\n");
    member.check("GET foo", DOWN);
    member.check("READONLY", "+OK\r\n");
    member.check("RESET", "+RESET\r\n");
    member.check("GET foo", DOWN);
}

#[test]
fn scripts_reach_nothing_that_their_client_does_not() {
    let mut member = Member::with_leader(Some(2));
    let mut run = |source: &str| member.run(&[b"EVAL", source.as_bytes(), b"0"]);
    let foreign = "-ERR Script attempted to access a non local key in a cluster node";
    assert_eq!(run("return 1"), ":1\r\n");
    assert!(run("return redis.call('GET', 'foo')").starts_with(foreign));
    assert!(run("return redis.call('SET', 'foo', 1)").starts_with("-READONLY "));
    assert!(run("return redis.call('FLUSHALL')").starts_with("-READONLY "));
    assert!(run("return redis.call('KEYS', '*')").starts_with("-READONLY "));
    assert_eq!(run("return redis.call('PUBLISH', 'c', 'm')"), ":0\r\n");
    let not_here = "#!lua flags=no-cluster,no-writes\nreturn 1";
    assert!(run(not_here).starts_with("-ERR Can not run script on cluster"), "{}", run(not_here));
    member.see(None);
    let down = "-ERR Script attempted to execute a command while the cluster is down";
    let reply = member.run(&[b"EVAL", b"return redis.call('GET', 'foo')", b"0"]);
    assert!(reply.starts_with(down), "{reply}");
}

#[test]
fn a_transaction_ends_with_leadership() {
    let mut member = Member::with_leader(Some(2));
    member.check("MULTI", "+OK\r\n");
    member.moves("GET foo", "foo");
    member.check("PING", "+QUEUED\r\n");
    let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
    member.check("EXEC", aborted);
    member.see(Some(1));
    member.check("MULTI", "+OK\r\n");
    member.check("PING", "+QUEUED\r\n");
    member.check("SET foo x", "+QUEUED\r\n");
    member.see(Some(2));
    member.moves("EXEC", "foo");
    member.check("EXEC", "-ERR EXEC without MULTI\r\n");
    member.see(Some(1));
    member.check("GET foo", "$3\r\nbar\r\n");
    // What a client saw before counts no more, also if the server leads again.
    member.check("WATCH foo", "+OK\r\n");
    member.see(None);
    member.see(Some(1));
    member.check("MULTI", "+OK\r\n");
    member.check("SET foo x", "+QUEUED\r\n");
    member.check("EXEC", "*-1\r\n");
    member.check("MULTI", "+OK\r\n");
    member.check("SET foo x", "+QUEUED\r\n");
    member.check("EXEC", "*1\r\n+OK\r\n");
}

#[test]
fn nothing_expires_or_is_evicted_by_a_member_that_follows() {
    let mut member = Member::with_leader(Some(1));
    member.check("SET brief v PX 1", "+OK\r\n");
    member.see(Some(2));
    member.server.now += 1000;
    member.read_locally();
    member.check("READONLY", "+OK\r\n");
    member.check("GET brief", "$-1\r\n");
    assert_eq!(member.server.keys()[0], 2, "it waits for the leader's word");
    member.see(Some(1));
    member.check("GET brief", "$-1\r\n");
    assert_eq!(member.server.keys()[0], 1);
}

#[test]
fn the_group_is_described() {
    let mut member = Member::with_leader(Some(2));
    let [one, two, three] = [1, 2, 3].map(|id| member.server.state.group.node(id));
    member.check("CLUSTER MYID", &format!("$40\r\n{one}\r\n"));
    let text = member.ask("CLUSTER NODES");
    let (_, lines) = text.split_once("\r\n").expect("a bulk string");
    let expected = format!(
        "{one} one:7001@17001 myself,slave {two} 0 0 4 connected\n\
         {two} two:7002@17002 master,nofailover - 0 0 4 connected 0-16383\n\
         {three} three:7003@17003 slave,fail {two} 0 0 4 disconnected\n\r\n"
    );
    assert_eq!(lines, expected);
    // A member out of reach is not among those that serve.
    let slots = format!(
        "*1\r\n*4\r\n:0\r\n:16383\r\n\
         *4\r\n$3\r\ntwo\r\n:7002\r\n$40\r\n{two}\r\n*0\r\n\
         *4\r\n$3\r\none\r\n:7001\r\n$40\r\n{one}\r\n*0\r\n"
    );
    member.check("CLUSTER SLOTS", &slots);
    assert!(member.ask("CLUSTER SHARDS").ends_with("$6\r\nhealth\r\n$4\r\nfail\r\n"));
    assert!(member.ask("CLUSTER INFO").contains("cluster_state:ok\r\n"));
    member.check(&format!("CLUSTER COUNT-FAILURE-REPORTS {three}"), ":1\r\n");
    member.check(&format!("CLUSTER REPLICAS {one}"), "-ERR The specified node is not a master\r\n");
    assert!(member.ask(&format!("CLUSTER REPLICAS {two}")).starts_with("*2\r\n"));
    member.check("CLUSTER KEYSLOT foo", ":12182\r\n");
    member.check("CLUSTER COUNTKEYSINSLOT 12182", ":1\r\n");
    member.check("CLUSTER GETKEYSINSLOT 12182 5", "*1\r\n$3\r\nfoo\r\n");
    member.check("CLUSTER GETKEYSINSLOT 12182 0", "*0\r\n");
    for line in ["MEET h 1", "MIGRATION IMPORT 0 1", "SYNCSLOTS SYNC x 0 1"] {
        assert!(member.ask(&format!("CLUSTER {line}")).contains("STILLFRAME RAFT"), "{line}");
    }
    // While nobody leads the last leader stands for the slots, and no request reaches it.
    member.see(None);
    member.check("CLUSTER SLOTS", &slots);
    assert!(member.ask("CLUSTER INFO").contains("cluster_state:fail\r\n"));
    member.server.session.protocol = Protocol::Resp3;
    assert!(member.ask("CLUSTER SLOTS").contains("%0\r\n"));
    let mut young = Member::with_leader(None);
    young.check("CLUSTER SLOTS", "*0\r\n");
    assert!(young.ask("CLUSTER NODES").contains(" myself,slave - 0 0 4 connected\n"));
    assert!(young.ask("CLUSTER INFO").contains("cluster_slots_assigned:0\r\n"));
}

#[test]
fn keys_of_slots_are_counted() {
    let mut member = Member::with_leader(Some(1));
    member.ask("FLUSHALL");
    for key in ["{foo}1", "{foo}2", "{bar}1"] {
        member.check(&format!("SET {key} v"), "+OK\r\n");
    }
    let slot =
        |slot: u16, keys: u8| format!("*2\r\n:{slot}\r\n*2\r\n$9\r\nkey-count\r\n:{keys}\r\n");
    let (foo, bar) = (slot(12182, 2), slot(5061, 1));
    let ask = |member: &mut Member, line: &str| member.ask(&format!("CLUSTER SLOT-STATS {line}"));
    let two = format!("*2\r\n{foo}{bar}");
    assert_eq!(ask(&mut member, "ORDERBY KEY-COUNT LIMIT 2"), two);
    assert_eq!(ask(&mut member, "orderby key-count desc limit 2"), two);
    let none = format!("*1\r\n{}", slot(0, 0));
    assert_eq!(ask(&mut member, "ORDERBY KEY-COUNT ASC LIMIT 1"), none);
    let range = format!("*3\r\n{}{bar}{}", slot(5060, 0), slot(5062, 0));
    assert_eq!(ask(&mut member, "SLOTSRANGE 5060 5062"), range);
    assert!(ask(&mut member, "ORDERBY KEY-COUNT").starts_with(&format!("*16384\r\n{foo}")));
    for (line, error) in [
        ("SLOTSRANGE 2 1", "Start slot number 2 is greater than end slot number 1"),
        ("SLOTSRANGE 0 16384", "Invalid or out of range slot"),
        ("SLOTSRANGE x 1", "Invalid or out of range slot"),
        (
            "ORDERBY KEY-COUNT LIMIT 0",
            "Limit has to lie in between 1 and 16384 (maximum number of slots).",
        ),
        ("ORDERBY CPU-USEC LIMIT 1", "Unrecognized sort metric for ORDERBY."),
        ("ORDERBY KEY-COUNT DESC DESC", "Multiple filters of the same type are disallowed."),
        ("ORDERBY KEY-COUNT FOO", "syntax error"),
    ] {
        assert_eq!(ask(&mut member, line), format!("-ERR {error}\r\n"), "{line}");
    }
    let ids: Vec<String> =
        [1, 2].map(|leader| Member::with_leader(Some(leader)).ask("CLUSTER MYSHARDID")).to_vec();
    assert!(ids[0].starts_with("$40\r\n") && ids[0] == ids[1]);
}

/// Replies as valkey-server 9.1.2 gives them, but for what stands in cursors.
#[test]
fn keys_of_slots_are_walked_through() {
    let mut member = Member::with_leader(Some(1));
    member.ask("FLUSHALL");
    let keys: BTreeSet<String> = (0..300).map(|number| format!("k{number}")).collect();
    keys.iter().for_each(|key| drop(member.ask(&format!("SET {key} v"))));
    let tagged: BTreeSet<String> = (0..50).map(|number| format!("{{t}}{number}")).collect();
    tagged.iter().for_each(|key| drop(member.ask(&format!("SET {key} v"))));
    member.ask("RPUSH {t}list v");
    let all: BTreeSet<String> = keys.union(&tagged).cloned().collect();
    let with_list = |mut keys: BTreeSet<String>| {
        keys.insert("{t}list".to_owned());
        keys
    };
    let of_t = with_list(tagged.clone());
    for (options, tag, expected) in [
        ("", tag_of(0), with_list(all.clone())),
        (" COUNT 7", tag_of(0), with_list(all.clone())),
        (" TYPE string", tag_of(0), all),
        (" MATCH k*", tag_of(0), keys),
        (" SLOT 15891", "t".to_owned(), of_t.clone()),
        (" MATCH {t}*", "t".to_owned(), of_t),
        (" MATCH {t}* SLOT 15891 TYPE LIST", "t".to_owned(), with_list(BTreeSet::new())),
        (" SLOT 5", tag_of(5), BTreeSet::new()),
    ] {
        member.check(&format!("CLUSTERSCAN 0{options}"), &page(&format!("0-{{{tag}}}-0"), &[]));
        let (mut cursor, mut found) = (format!("0-{{{tag}}}-0"), BTreeSet::new());
        while cursor != "0" {
            let reply = member.ask(&format!("CLUSTERSCAN {cursor}{options}"));
            let mut words = reply.split("\r\n").filter(|it| !it.starts_with(['*', '$']));
            cursor = words.next().expect("a cursor").to_owned();
            found.extend(words.filter(|it| !it.is_empty()).map(str::to_owned));
            assert!(cursor == "0" || cursor.contains(&format!("-{{{tag}}}-")), "{cursor}");
        }
        assert_eq!(found, expected, "{options}");
    }
    // From a slot on; a number of another process begins anew.
    let late = member.ask("CLUSTERSCAN other-{t}-77 COUNT 1000");
    assert!(late.starts_with("*2\r\n$1\r\n0\r\n") && !late.contains("\r\nk1\r\n"), "{late}");
    assert!(tagged.iter().all(|key| late.contains(&format!("\r\n{key}\r\n"))), "{late}");
    for (line, reply) in [
        ("0 SLOT 5 MATCH {t}1", page("0", &[])),
        ("0-{06S}-0 MATCH {t}*", page("0-{t}-0", &[])),
        ("0-{t}-0 MATCH k1", page("0", &[])),
        ("0-{t}-0 MATCH {t}1 COUNT 1000", page("0", &["{t}1"])),
        ("0-t-0 MATCH {t}1 COUNT 1000", page("0", &["{t}1"])),
        ("0-{460}-0 SLOT 6", "-ERR Cursor slot mismatch with SLOT argument\r\n".to_owned()),
    ] {
        member.check(&format!("CLUSTERSCAN {line}"), &reply);
    }
}

#[test]
fn walks_through_slots_are_refused_as_by_valkey() {
    let mut member = Member::with_leader(Some(1));
    for (line, error) in [
        ("x SLOT 16384", "Invalid or out of range slot"),
        ("0 SLOT -1", "Invalid or out of range slot"),
        ("0 SLOT 1 SLOT 1", "SLOT option can only be specified once"),
        ("x COUNT 0", "syntax error"),
        ("x COUNT y", "value is not an integer or out of range"),
        ("0 MATCH", "syntax error"),
        ("0 FOO 1", "syntax error"),
        ("x TYPE nope", "unknown type name 'nope'"),
        ("0 NOVALUES", "NOVALUES option can only be used in HSCAN"),
        ("1", "Invalid cursor"),
        ("00", "Invalid cursor"),
        ("0-{06S}", "Invalid cursor"),
        ("0-{06S}-", "Invalid cursor"),
        ("0-{06S}-x", "Invalid cursor"),
        ("0-{06S}-0-", "Invalid cursor"),
        ("0-{06S}--1", "Invalid cursor"),
        ("0-{06S}-18446744073709551616", "Invalid cursor"),
    ] {
        member.check(&format!("CLUSTERSCAN {line}"), &format!("-ERR {error}\r\n"));
    }
}

/// A reply to CLUSTERSCAN.
fn page(cursor: &str, keys: &[&str]) -> String {
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let keys: Vec<String> = keys.iter().map(|key| bulk(key)).collect();
    format!("*2\r\n{}*{}\r\n{}", bulk(cursor), keys.len(), keys.concat())
}

/// HOTKEYS of a member: slots of a group are there.
#[test]
fn hot_keys_of_some_slots_are_shown() {
    let mut member = Member::with_leader(Some(1));
    member.check("HOTKEYS START METRICS 1 NET SLOTS 4 5062 5061 7 5063 COUNT 3", "+OK\r\n");
    for line in ["SET {foo}1 v", "SET {bar}1 v", "MGET {bar}1 {bar}2"] {
        member.ask(line);
    }
    let reply = member.ask("HOTKEYS GET");
    let slots = "selected-slots\r\n*2\r\n*1\r\n:7\r\n*2\r\n:5061\r\n:5063\r\n";
    assert!(reply.contains(slots), "{reply}");
    let keys = "by-net-bytes\r\n*4\r\n$6\r\n{bar}1\r\n:64\r\n$6\r\n{bar}2\r\n:27\r\n";
    assert!(reply.ends_with(keys), "{reply}");
    for (line, error) in [
        ("0", "SLOTS count must be between 1 and 16384"),
        ("2 0", "not enough slot numbers provided"),
        ("2 0 0", "duplicate slot number"),
        ("2 0 16384", "Invalid or out of range slot"),
        ("1 0 SLOTS 1 1", "SLOTS parameter already specified"),
    ] {
        member.ask("HOTKEYS STOP");
        let line = format!("HOTKEYS START METRICS 1 CPU SLOTS {line}");
        member.check(&line, &format!("-ERR {error}\r\n"));
    }
}

/// The log and the primary's stream are above all this.
#[test]
fn what_is_replayed_is_not_redirected() {
    let mut member = Member::with_leader(Some(2));
    member.server.session = Session::internal();
    member.check("SET foo replayed", "+OK\r\n");
    member.check("FLUSHALL", "+OK\r\n");
}
