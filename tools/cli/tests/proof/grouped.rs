//! A member of a group answers as a node of a Redis cluster of one shard does, and clients for
//! clusters find the leader by it. DEBUG GROUP-VIEW gives servers the view of a group that has no
//! replication.

use crate::support::{
    Client, Kind, Peer, Reply, Server, Setup, are_here, output_of, own_port, python, redis_is_here,
    wait_until,
};
use std::process::Command;

/// A primary with all slots and its replica, or a leader and the member that follows it.
struct Pair {
    leader: Server,
    follower: Server,
}

impl Pair {
    fn ours() -> Self {
        let start = || {
            let setup = Setup::new(Kind::Ours("imprint"));
            // As redis-server beside says in HELLO.
            let version = ["--redis-version", "7.0.15"];
            setup.flags(&["--enable-debug-command", "yes"]).flags(&version).start()
        };
        let pair = Self { leader: start(), follower: start() };
        pair.lead("1", 1);
        pair
    }

    /// Gives both servers a view with this leader.
    fn lead(&self, leader: &str, term: u64) {
        let [one, two] = [&self.leader, &self.follower].map(|server| server.port);
        for (me, server) in [(1, &self.leader), (2, &self.follower)] {
            server.client().ok(&format!(
                "DEBUG GROUP-VIEW {me} {leader} {term} linearizable 1=127.0.0.1:{one}@1001 \
                 2=127.0.0.1:{two}@1002"
            ));
        }
    }

    fn redis() -> Self {
        let buses = [own_port(), own_port()].map(|port| port.to_string());
        let start = |bus: &String| {
            let flags = ["--cluster-enabled", "yes", "--cluster-port", bus];
            Setup::new(Kind::Redis).flags(&flags).start()
        };
        let pair = Self { leader: start(&buses[0]), follower: start(&buses[1]) };
        let [mut one, mut two] = pair.clients();
        one.ok("CLUSTER ADDSLOTSRANGE 0 16383");
        two.ok(&format!("CLUSTER MEET 127.0.0.1 {} {}", pair.leader.port, buses[0]));
        let primary = one.ask("CLUSTER MYID").text();
        wait_until("they know each other", || {
            !matches!(two.ask(&format!("CLUSTER REPLICATE {primary}")), Reply::Error(_))
        });
        for client in [&mut one, &mut two] {
            wait_until("all is well", || {
                let shards = String::from_utf8_lossy(&raw(client, "CLUSTER SHARDS")).into_owned();
                client.ask("CLUSTER INFO").text().contains("cluster_state:ok")
                    && client.ask("CLUSTER SLOTS").list()[0].list().len() == 4
                    && shards.matches("online").count() == 2
                    && shards.contains("master")
                    && shards.contains("replica")
            });
        }
        pair
    }

    fn clients(&self) -> [Client; 2] {
        [self.leader.client(), self.follower.client()]
    }
}

fn raw(client: &mut Client, line: &str) -> Vec<u8> {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    client.send(&words);
    client.raw()
}

/// A reply without what differs between two clusters: identifiers, ports, times, lengths.
fn shape(line: &str, reply: &[u8], names: &[(String, &str)]) -> Vec<String> {
    let mut text = String::from_utf8_lossy(reply).into_owned();
    for (value, name) in names {
        text = text.replace(value, name);
    }
    let mut before = String::new();
    let mut lines: Vec<String> = Vec::new();
    for found in text.split("\r\n").flat_map(|part| part.split('\n')) {
        let found = found.trim_start_matches("txt:");
        let mut words: Vec<&str> = found.split(' ').collect();
        let shown = match found.as_bytes().first() {
            Some(b'$' | b'=') => found[..1].to_owned(),
            Some(b':') if before == "replication-offset" || before == "id" => ":number".to_owned(),
            _ if line.contains("INFO") && found.contains(':') => {
                found.split(':').next().unwrap_or_default().to_owned()
            }
            _ if words.len() >= 8 && words[1].contains('@') => {
                let address = words[1].split('@').next().unwrap_or_default().to_owned();
                words[1] = &address;
                words[4..7].fill("number");
                words.join(" ")
            }
            _ => found.to_owned(),
        };
        before = shown.clone();
        let counts_messages = shown.starts_with("cluster_stats_messages_")
            && !["_messages_sent", "_messages_received"].iter().any(|it| shown.ends_with(it));
        if !counts_messages {
            lines.push(shown);
        }
    }
    if line.contains("NODES") || line.contains("REPLICAS") {
        lines.sort();
    }
    lines
}

/// Requests of a client for clusters, one after the other; `L` is the leader's identifier, `F`
/// that of the member that follows.
const REQUESTS: [&str; 45] = [
    "CLUSTER SLOTS",
    "CLUSTER SHARDS",
    "CLUSTER MYID",
    "CLUSTER NODES",
    "CLUSTER INFO",
    "CLUSTER KEYSLOT foo",
    "CLUSTER KEYSLOT {a}b",
    "CLUSTER KEYSLOT",
    "CLUSTER COUNTKEYSINSLOT 5",
    "CLUSTER COUNTKEYSINSLOT x",
    "CLUSTER COUNTKEYSINSLOT 16384",
    "CLUSTER COUNTKEYSINSLOT -1",
    "CLUSTER GETKEYSINSLOT 5 3",
    "CLUSTER GETKEYSINSLOT 5 -3",
    "CLUSTER GETKEYSINSLOT 5 x",
    "CLUSTER REPLICAS L",
    "CLUSTER REPLICAS F",
    "CLUSTER REPLICAS nobody",
    "CLUSTER SLAVES L",
    "CLUSTER COUNT-FAILURE-REPORTS F",
    "CLUSTER COUNT-FAILURE-REPORTS nobody",
    "CLUSTER NOSUCH",
    "CLUSTER",
    "ASKING",
    "READWRITE",
    "GET foo",
    "MGET {foo}a {foo}b",
    "SET foo bar EX",
    "GET",
    "OBJECT ENCODING foo",
    "EVAL return{} 1 foo",
    "EVAL return{} 0",
    "EXISTS nosuch",
    "MULTI",
    "PING",
    "GET foo",
    "EXEC",
    "WATCH foo",
    "UNWATCH",
    "REPLICAOF NO ONE",
    "INFO cluster",
    "SSUBSCRIBE channel",
    "SUNSUBSCRIBE channel",
    "READONLY",
    "RESET",
];

#[test]
fn members_answer_as_nodes_of_a_cluster() {
    if !redis_is_here("members answer as nodes") {
        return;
    }
    let [ours, redis] = [Pair::ours(), Pair::redis()].map(|pair| {
        let [mut one, mut two] = pair.clients();
        let ids = [&mut one, &mut two].map(|client| client.ask("CLUSTER MYID").text());
        let names = [
            (ids[0].clone(), "<leader>"),
            (ids[1].clone(), "<follower>"),
            (pair.leader.port.to_string(), "<port-of-leader>"),
            (pair.follower.port.to_string(), "<port-of-follower>"),
        ];
        let mut shapes = Vec::new();
        for protocol in ["HELLO 2", "HELLO 3"] {
            for (role, mut client) in ["leader", "follower"].into_iter().zip(pair.clients()) {
                for line in [protocol].into_iter().chain(REQUESTS) {
                    let sent = line.replace(" L", &format!(" {}", ids[0]));
                    let sent = sent.replace(" F", &format!(" {}", ids[1]));
                    let reply = raw(&mut client, &sent);
                    let shown = shape(line, &reply, &names);
                    shapes.push((format!("{role}, {protocol}: {line}"), shown));
                }
            }
        }
        shapes
    });
    assert_eq!(ours.len(), redis.len());
    let differ: Vec<_> = ours.iter().zip(&redis).filter(|(ours, redis)| ours != redis).collect();
    assert!(differ.is_empty(), "ours, then redis-server's: {differ:#?}");
}

/// Who waits for a key at the leader does not wait there in vain once it leads no more.
#[test]
fn who_waits_is_sent_to_the_next_leader() {
    let pair = Pair::ours();
    let (mut pops, mut reads, mut acks) =
        (pair.leader.client(), pair.leader.client(), pair.leader.client());
    pops.send(&[b"BLPOP", b"foo", b"0"]);
    reads.send(&[b"XREAD", b"BLOCK", b"0", b"STREAMS", b"foo", b"$"]);
    acks.send(&[b"WAIT", b"1", b"0"]);
    let mut client = pair.leader.client();
    wait_until("they wait", || client.info("blocked_clients") == "3");
    client.ok("MULTI");
    client.ok("PING");
    pair.lead("2", 2);
    let moved = format!("MOVED 12182 127.0.0.1:{}", pair.follower.port);
    assert_eq!(pops.reply().text(), moved);
    assert_eq!(reads.reply().text(), moved);
    assert!(acks.reply().text().starts_with("UNBLOCKED "));
    assert!(client.ask("EXEC").text().starts_with("EXECABORT "));
    pops.ask("BLPOP foo 0");
    let mut pops = pair.follower.client();
    pops.send(&[b"BLPOP", b"foo", b"0"]);
    let mut client = pair.follower.client();
    wait_until("it waits", || client.info("blocked_clients") == "1");
    pair.lead("none", 3);
    assert_eq!(pops.reply().text(), "CLUSTERDOWN The cluster is down");
    assert_eq!(client.ask("GET foo").text(), "CLUSTERDOWN The cluster is down");
    client.ok("DEBUG GROUP-VIEW NONE");
    assert_eq!(client.ask("GET foo"), Reply::Null);
    assert!(client.ask("CLUSTER INFO").text().contains("cluster support disabled"));
    for wrong in
        ["", " 1", " 1 1 1 local", " 1 1 1 x 1=h:1", " 1 1 1 local 1=h", " 1 1 1 local 2=h:1"]
    {
        let reply = client.ask(&format!("DEBUG GROUP-VIEW{wrong}"));
        assert!(reply.text().starts_with("ERR GROUP-VIEW takes "), "{wrong}: {reply:?}");
    }
}

/// What applications do with redis-py's client for clusters, while the group changes its leader.
const REDIS_PY: &str = r#"
import sys, threading, redis
from redis.cluster import RedisCluster, ClusterNode
ports = one, two = [int(port) for port in sys.argv[1:3]]
direct = {port: redis.Redis(port=port, decode_responses=True) for port in ports}
def lead(leader, term, reads="linearizable"):
    for me, port in enumerate(ports, 1):
        members = [f"{id}=127.0.0.1:{port}" for id, port in enumerate(ports, 1)]
        direct[port].execute_command("DEBUG", "GROUP-VIEW", me, leader, term, reads, *members)
def connect(**options):
    node = ClusterNode("127.0.0.1", two)
    return RedisCluster(startup_nodes=[node], decode_responses=True, **options)
for port in ports:
    direct[port].execute_command("DEBUG", "GROUP-VIEW", "NONE")
    direct[port].set("here", port)
lead(1, 1)
r = connect()
assert [node.port for node in r.get_primaries()] == [one]
assert [node.port for node in r.get_replicas()] == [two]
for i in range(200):
    assert r.set(f"key:{i}", i)
assert r.dbsize() == 201 and direct[one].get("key:7") == "7"
assert r.mset_nonatomic({"a": 1, "b": 2}) and r.mget_nonatomic("a", "b") == ["1", "2"]
assert len(list(r.scan_iter("key:*"))) == 200
with r.pipeline() as p:
    for i in range(200):
        p.get(f"key:{i}")
    assert p.execute() == [str(i) for i in range(200)]
assert r.eval("return redis.call('GET', KEYS[1])", 1, "key:3") == "3"
assert r.cluster_keyslot("foo") == 12182 and r.cluster_info()["cluster_state"] == "ok"
assert len(r.cluster_nodes()) == 2
# The leader moves: the client follows, and so does one that waits.
got = []
waiting = threading.Thread(target=lambda: got.append(r.blpop("list", 0)))
waiting.start()
while direct[one].info("clients")["blocked_clients"] == 0:
    pass
lead(2, 2)
assert r.get("here") == str(two)
while direct[two].info("clients")["blocked_clients"] == 0:
    pass
assert r.rpush("list", "x") == 1
waiting.join()
assert got == [("list", "x")]
# Nobody leads for a while.
lead("none", 3)
try:
    r.set("k", "v")
    raise SystemExit("a group without a leader must not acknowledge")
except (redis.exceptions.ClusterDownError, redis.exceptions.ClusterError):
    pass
lead(1, 4)
assert r.set("k", "v") and direct[one].get("k") == "v"
# Reads at those who follow, if the group allows them.
r = connect(read_from_replicas=True)
assert {r.get("here") for _ in range(20)} == {str(one)}
lead(1, 5, "local")
r = connect(read_from_replicas=True) # the other one has learnt to ask the leader alone
assert {r.get("here") for _ in range(20)} == {str(one), str(two)}
assert r.set("k", "w") and direct[one].get("k") == "w"
print("fine")
"#;

#[test]
fn redis_py_follows_the_leader() {
    if !are_here("redis_py_follows_the_leader", &[Peer::RedisPy]) {
        return;
    }
    let pair = Pair::ours();
    let [one, two] = [&pair.leader, &pair.follower].map(|server| server.port.to_string());
    let mut command = Command::new(python());
    command.args(["-c", REDIS_PY, &one, &two]);
    let output = output_of(command);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "fine\n", "{errors}");
}
