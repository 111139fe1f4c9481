//! `stillframe migrate-cluster`: a cluster of redis-servers, or of later ones, moves into ours.

mod full;
mod secured;

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use stillframe_server::slot;

use crate::operations::certificates::Certificates;
use crate::replayed::{Contents, contents};
use crate::replication::{Who, delete_idle_consumers};
use crate::support::{
    Client, Kind, Peer, Random, Reply, Server, Setup, Stop, are_here, own_port, rounds,
    send_signal, stillframe, wait_until,
};

/// Requests on keys of one primary, whose hash tag stands for `T`; `?` is a digit, and so a time
/// to live of a few milliseconds. A line with `;` is a transaction.
const REQUESTS: [&str; 34] = [
    "SET T:s? value?",
    "SET T:s? soon PX ?",
    "PEXPIRE T:s? 1?",
    "INCR T:n?",
    "APPEND T:s? more",
    "SETRANGE T:s? 20 far",
    "GETDEL T:s?",
    "RENAME T:s? T:s?",
    "RPUSH T:l? a b ?",
    "PEXPIRE T:l? 1?",
    "LPOP T:l?",
    "LMOVE T:l? T:l? LEFT RIGHT",
    "COPY T:l? T:l? REPLACE",
    "SORT T:l? ALPHA STORE T:l?",
    "SADD T:u? ? ?? word?",
    "SPOP T:u?",
    "PEXPIRE T:u? ?",
    "SUNIONSTORE T:u? T:u? T:u?",
    "ZADD T:z? ?.5 m?",
    "ZINCRBY T:z? 2 m?",
    "ZUNIONSTORE T:z? 2 T:z? T:u?",
    "HSET T:h? f? v? g? w?",
    "HINCRBY T:h? n? 3",
    "HDEL T:h? f?",
    "XADD T:x? * f v? g w",
    "XADD T:x? MAXLEN 20 * f v?",
    "XGROUP CREATE T:x? group? 0 MKSTREAM",
    "XREADGROUP GROUP group? c? COUNT 2 STREAMS T:x? >",
    "PFADD T:p? ? ?? ???",
    "BITOP OR T:s? T:s? T:n?",
    "GEOADD T:z? 1?.5 2? place?",
    "EVAL return{redis.call('incr',KEYS[1]),redis.call('rpush',KEYS[2],ARGV[1])} 2 T:n? T:l? ?",
    "INCR T:n?;RPUSH T:l? in;SET T:s? in",
    "DEL T:l? T:s? T:h?",
];

/// What only later servers have.
const LATER_REQUESTS: [&str; 4] = [
    "HPEXPIRE T:h? 1? FIELDS 1 f?",
    "HPEXPIREAT T:h? 400000000000? FIELDS 1 g?",
    "HPERSIST T:h? FIELDS 1 g?",
    "HEXPIRE T:h? 5000 FIELDS 1 n?",
];

struct Cluster {
    nodes: Vec<Server>,
    /// Where they speak TLS, if they do.
    secured: Vec<u16>,
    who: Who,
}

impl Cluster {
    /// Primaries that share the slots evenly, and replicas of the first ones.
    fn start(who: Who, primaries: usize, replicas: usize, flags: &str) -> Self {
        Self::start_with(who, [primaries, replicas], flags, None)
    }

    /// Primaries that speak TLS to each other and, at ports of their own, to clients.
    fn start_secured(who: Who, primaries: usize, made: &Certificates) -> Self {
        Self::start_with(who, [primaries, 0], "", Some(made))
    }

    fn start_with(
        who: Who,
        [primaries, replicas]: [usize; 2],
        flags: &str,
        made: Option<&Certificates>,
    ) -> Self {
        let secured: Vec<u16> =
            (0..primaries).filter(|_| made.is_some()).map(|_| own_port()).collect();
        let node = |number: usize| {
            let port = own_port().to_string();
            let secure = made.map_or_else(String::new, |made| {
                let own = "--tls-cluster yes --tls-replication yes";
                format!("{} {own}", made.flags(secured[number]).join(" "))
            });
            let all = format!(
                "--cluster-enabled yes --cluster-port {port} --cluster-node-timeout 2000 \
                 --repl-diskless-sync-delay 0 --enable-debug-command yes {flags} {secure}"
            );
            let flags: Vec<&str> = all.split_whitespace().collect();
            let mut setup = Setup::new(who.kind()).flags(&flags);
            if let Some(at) = flags.iter().position(|flag| *flag == "--requirepass") {
                setup = setup.password(flags[at + 1]);
            }
            (setup.start(), port)
        };
        let nodes: Vec<(Server, String)> = (0..primaries + replicas).map(node).collect();
        let ends: Vec<usize> = (0..=primaries).map(|n| 16_384 * n / primaries).collect();
        let first_port = secured.first().copied().unwrap_or(nodes[0].0.port);
        let first_bus = nodes[0].1.clone();
        for (n, (server, _)) in nodes.iter().enumerate() {
            let mut client = Self::client_of(server, flags);
            client.ok(&format!("CLUSTER SET-CONFIG-EPOCH {}", n + 1));
            if n < primaries {
                client.ok(&format!("CLUSTER ADDSLOTSRANGE {} {}", ends[n], ends[n + 1] - 1));
            }
            if n > 0 {
                client.ok(&format!("CLUSTER MEET 127.0.0.1 {first_port} {first_bus}"));
            }
        }
        let nodes = nodes.into_iter().map(|(server, _)| server).collect();
        let cluster = Self { nodes, secured, who };
        cluster.wait(flags);
        for n in 0..replicas {
            let id = cluster.client(n).ask("CLUSTER MYID").text();
            cluster.client(primaries + n).ok(&format!("CLUSTER REPLICATE {id}"));
        }
        cluster
    }

    fn client_of(server: &Server, flags: &str) -> Client {
        let mut client = server.client();
        if let Some((_, rest)) = flags.split_once("--requirepass ") {
            client.ok(&format!("AUTH {}", rest.split(' ').next().expect("a password")));
        }
        client
    }

    /// Waits until all nodes know all.
    fn wait(&self, flags: &str) {
        for server in &self.nodes {
            let mut client = Self::client_of(server, flags);
            wait_until("the node knows all", || {
                let info = client.ask("CLUSTER INFO").text();
                let known = format!("cluster_known_nodes:{}\r", self.nodes.len());
                info.contains("cluster_state:ok") && info.contains(&known)
            });
        }
    }

    fn client(&self, node: usize) -> Client {
        self.nodes[node].client()
    }

    /// A hash tag whose slot a node has; nodes share the slots evenly.
    fn tag(node: usize, primaries: usize) -> String {
        let first = 16_384 * node / primaries..16_384 * (node + 1) / primaries;
        let tags = (0..).map(|n: u32| format!("{{{n}}}"));
        let mut own = tags.filter(|tag| first.contains(&usize::from(slot(tag.as_bytes()))));
        own.next().expect("each node has some")
    }

    /// What some nodes hold together.
    fn contents(&self, nodes: &[usize]) -> Contents {
        let mut all = Contents::new();
        for &node in nodes {
            all.extend(self.read(&mut self.client(node)));
        }
        all
    }

    fn read(&self, client: &mut Client) -> Contents {
        let mut all = match self.who {
            Who::Newer(_) => crate::newer::contents(client),
            Who::Ours | Who::Redis => contents(client),
        };
        all.values_mut().for_each(drop_counts);
        all
    }

    /// The target holds what these nodes hold.
    fn assert_moved(&self, nodes: &[usize], target: &Server) {
        let (theirs, ours) = (self.contents(nodes), self.read(&mut target.client()));
        for (key, value) in theirs.iter().filter(|(key, value)| ours.get(*key) != Some(*value)) {
            println!("{key:?}: {value}, at the target {:?}", ours.get(key));
        }
        for key in ours.keys().filter(|key| !theirs.contains_key(*key)) {
            println!("{key:?}: only at the target");
        }
        assert!(
            theirs == ours,
            "{:?}: {} keys against {}",
            self.who.kind(),
            theirs.len(),
            ours.len()
        );
        assert_eq!(target.client().info("role"), "master");
    }
}

/// Drops how many entries groups have read from the text of a stream: Redis tells no replica what
/// XREADGROUP without NOACK adds to that.
fn drop_counts(text: &mut String) {
    let reads = format!("{:?}", Reply::Text("entries-read".into()));
    while let Some(at) = text.find(&reads) {
        let behind = at + reads.len();
        let end = text[behind..].find(']').expect("it is the last fact of a group");
        text.replace_range(at..behind + end, "");
    }
}

/// One random request, or a transaction.
fn write(client: &mut Client, tag: &str, is_later: bool, random: &mut Random) -> Option<()> {
    let line = match random.below(if is_later { 5 } else { 4 }) {
        4 => random.pick(&LATER_REQUESTS),
        _ => random.pick(&REQUESTS),
    };
    let line: String = line
        .chars()
        .map(|it| if it == '?' { char::from(b'0' + random.below(9) as u8) } else { it })
        .collect();
    let line = line.replace("T:", &format!("{tag}:"));
    let lines: Vec<&str> = line.split(';').collect();
    if let [line] = lines[..] {
        return try_ask(client, line);
    }
    try_ask(client, "MULTI")?;
    lines.into_iter().try_for_each(|line| try_ask(client, line))?;
    try_ask(client, "EXEC")
}

/// Whatever the reply is; `None`: the server has gone.
fn try_ask(client: &mut Client, line: &str) -> Option<()> {
    client.try_call(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()).map(drop)
}

/// A migration under way.
struct Migration {
    child: Child,
    log: tempfile::NamedTempFile,
}

impl Migration {
    fn start(from: &Server, to: &Server, flags: &[&str]) -> Self {
        Self::between(from.port, to.port, flags)
    }

    fn between(from: u16, to: u16, flags: &[&str]) -> Self {
        let log = tempfile::NamedTempFile::new().expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_stillframe"));
        let [from, to] = [from, to].map(|port| format!("127.0.0.1:{port}"));
        command.args(["migrate-cluster", &from, "--to", &to]).args(flags).stdin(Stdio::null());
        let output = |log: &File| log.try_clone().expect("a second handle");
        command.stdout(output(log.as_file())).stderr(output(log.as_file()));
        Self { child: command.spawn().expect("the program starts"), log }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.log.path()).expect("its log")
    }

    /// Waits until its log tells something so many times.
    fn wait_for(&mut self, what: &str, times: usize) {
        wait_until(what, || {
            let ended = self.child.try_wait().expect("a child's state");
            let text = self.text();
            assert!(ended.is_none(), "it has ended: {text}");
            text.matches(what).count() >= times
        });
    }

    /// Waits for its end by itself.
    fn end(mut self, succeeds: bool) -> String {
        wait_until("the migration ends", || {
            self.child.try_wait().expect("a child's state").is_some()
        });
        let status = self.child.wait().expect("it has ended");
        let text = self.text();
        assert_eq!(status.success(), succeeds, "{text}");
        text
    }

    /// Ends it as the operator does.
    fn stop(self) -> String {
        send_signal(self.child.id(), Signal::INT);
        self.end(true)
    }
}

impl Drop for Migration {
    fn drop(&mut self) {
        // It may have ended before; the kill is only there to leave nothing behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("the migration:\n{}", self.text());
        }
    }
}

/// Writes to all three primaries while `body` runs.
fn under_load(cluster: &Cluster, random: &mut Random, body: impl FnOnce()) {
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let _guard = stop.at_the_end();
        for node in 0..3 {
            let mut random = Random::with_seed(random.next());
            let (mut client, stop) = (cluster.client(node), &stop);
            let is_later = matches!(cluster.who, Who::Newer(_));
            scope.spawn(move || {
                let tag = Cluster::tag(node, 3);
                while !stop.is_due() {
                    if write(&mut client, &tag, is_later, &mut random).is_none() {
                        return; // the server was killed
                    }
                }
            });
        }
        body();
    });
}

/// Random data to begin with, and values of many elements.
fn fill(cluster: &Cluster, random: &mut Random) {
    for node in 0..3 {
        let (mut client, tag) = (cluster.client(node), Cluster::tag(node, 3));
        let is_later = matches!(cluster.who, Who::Newer(_));
        for _ in 0..300 {
            write(&mut client, &tag, is_later, random).expect("the server lives");
        }
        for n in 0..1000 {
            client.ok(&format!("HSET {tag}:large field{n} {}", n * n));
            client.ok(&format!("ZADD {tag}:many {n}.25 member{n}"));
        }
        client.ok(&format!("SET {tag}:text {}", "word".repeat(10_000)));
        client.ok(&format!("SET {tag}:kept v EX 100000"));
    }
}

#[test]
fn three_primaries_move_under_load_and_end_equal() {
    let all = [
        (Who::Redis, Peer::RedisServer),
        (Who::Newer(Peer::Redis8), Peer::Redis8),
        (Who::Newer(Peer::Valkey), Peer::Valkey),
    ];
    for (who, peer) in all {
        if !are_here("three_primaries_move_under_load_and_end_equal", &[peer]) {
            continue;
        }
        let mut random = Random::new("three primaries move");
        let cluster = Cluster::start(who, 3, 0, "");
        fill(&cluster, &mut random);
        if peer == Peer::RedisServer {
            let library =
                "#!lua name=mine\nredis.register_function('mine', function() return 7 end)";
            for node in 0..3 {
                cluster.client(node).call(&[b"FUNCTION", b"LOAD", library.as_bytes()]);
            }
        }
        let target = Server::start(Kind::Ours("imprint"));
        let mut migration = None;
        under_load(&cluster, &mut random, || {
            let begun = migration.insert(Migration::start(&cluster.nodes[1], &target, &[]));
            begun.wait_for("caught up", 1);
            std::thread::sleep(Duration::from_millis(rounds(500, 10_000) as u64));
        });
        (0..3).for_each(|node| delete_idle_consumers(&mut cluster.client(node)));
        let text = migration.expect("it was begun").stop();
        assert!(text.contains("moved 3 primaries into 127.0.0.1:"), "{text}");
        assert!(!text.contains("starting anew"), "{text}");
        cluster.assert_moved(&[0, 1, 2], &target);
        if peer == Peer::RedisServer {
            assert_eq!(target.client().ask("FCALL mine 0"), Reply::Int(7));
        }
    }
}

/// The commands of docs/run/replication.md that end a migration, as they stand there: no write that
/// an old primary has acknowledged is missing.
#[test]
fn the_commands_for_a_cluster_lose_no_acknowledged_write() {
    let peers = [Peer::RedisServer, Peer::RedisCli];
    if !are_here("the_commands_for_a_cluster_lose_no_acknowledged_write", &peers) {
        return;
    }
    let cluster = Cluster::start(Who::Redis, 3, 0, "");
    let target = Server::start(Kind::Ours("imprint"));
    let page = include_str!("../../../../../docs/run/replication.md");
    let typed = |step: &str| {
        let line =
            page.lines().find(|it| it.starts_with("redis-cli --cluster") && it.contains(step));
        let line = line.expect("a step of the page").replace("60000", "4000");
        let line = line.replace("10.0.0.1:7000", &format!("127.0.0.1:{}", cluster.nodes[0].port));
        let done = Command::new("sh").args(["-c", &line]).output().expect("a shell");
        assert!(done.status.success(), "{done:?}");
    };
    let mut migration = Migration::start(&cluster.nodes[0], &target, &[]);
    migration.wait_for("caught up", 1);
    let script = "return redis.call('incr', KEYS[1])";
    let told: Vec<(String, i64)> = std::thread::scope(|scope| {
        let counter = |number: usize| {
            let (mut client, key) = (cluster.client(number / 2), Cluster::tag(number / 2, 3));
            let key = format!("{key}:{number}");
            scope.spawn(move || {
                let mut told = 0;
                let name = key.as_bytes();
                let request: &[&[u8]] = match number % 2 {
                    0 => &[b"INCR", name],
                    _ => &[b"EVAL", script.as_bytes(), b"1", name],
                };
                while let Reply::Int(count) = client.call(request) {
                    told = count;
                }
                (key, told)
            })
        };
        let counters: Vec<_> = (0..6).map(counter).collect();
        wait_until("all count", || {
            (0..6).all(|n| {
                let key = format!("{}:{n}", Cluster::tag(n / 2, 3));
                cluster.client(n / 2).ask(&format!("EXISTS {key}")) == Reply::Int(1)
            })
        });
        typed("# 3.");
        let text = migration.stop();
        assert!(text.contains("moved 3 primaries"), "{text}");
        typed("# 4.");
        counters.into_iter().map(|it| it.join().expect("it ends")).collect()
    });
    let mut client = target.client();
    for (key, told) in told {
        let has = client.ask(&format!("GET {key}")).text();
        assert!(told > 0 && has.parse::<i64>().is_ok_and(|has| has >= told), "{key}: {has} {told}");
    }
}

/// A link that is cut goes on. After a primary has dropped its keys, or its stream cannot be
/// resumed, all start anew.
#[test]
fn a_link_that_breaks_goes_on_or_starts_anew() {
    if !are_here("a_link_that_breaks_goes_on_or_starts_anew", &[Peer::RedisServer]) {
        return;
    }
    let mut random = Random::new("a link that breaks");
    let cluster = Cluster::start(Who::Redis, 3, 0, "--repl-backlog-size 16kb");
    fill(&cluster, &mut random);
    let target = Server::start(Kind::Ours("imprint"));
    let mut migration = Migration::start(&cluster.nodes[0], &target, &[]);
    migration.wait_for("caught up", 1);
    cluster.client(0).ok("CLIENT KILL TYPE replica");
    migration.wait_for("goes on from offset", 1);
    under_load(&cluster, &mut random, || {
        let mut client = cluster.client(1);
        client.ok("FLUSHALL");
        client.ok(&format!("SET {}:after the-flush", Cluster::tag(1, 3)));
        migration.wait_for("has dropped all its keys: starting anew", 1);
        migration.wait_for("keys of its image are on their way", 6);
        cluster.client(2).ok("DEBUG CHANGE-REPL-ID");
        cluster.client(2).ok("CLIENT KILL TYPE replica");
        migration.wait_for("cannot go on: starting anew", 1);
        migration.wait_for("keys of its image are on their way", 9);
    });
    (0..3).for_each(|node| delete_idle_consumers(&mut cluster.client(node)));
    let text = migration.stop();
    assert!(text.contains("moved 3 primaries"), "{text}");
    cluster.assert_moved(&[0, 1, 2], &target);
}

/// Moves all keys of a slot from the first node to the second, as `redis-cli --cluster reshard`.
fn move_slot(cluster: &Cluster, moved: u16) {
    let [mut from, mut to] = [0, 1].map(|node| cluster.client(node));
    let ids = [from.ask("CLUSTER MYID").text(), to.ask("CLUSTER MYID").text()];
    to.ok(&format!("CLUSTER SETSLOT {moved} IMPORTING {}", ids[0]));
    from.ok(&format!("CLUSTER SETSLOT {moved} MIGRATING {}", ids[1]));
    loop {
        let keys = from.ask(&format!("CLUSTER GETKEYSINSLOT {moved} 10"));
        let keys: Vec<&[u8]> = keys.list().iter().filter_map(Reply::bytes).collect();
        if keys.is_empty() {
            break;
        }
        let port = cluster.nodes[1].port.to_string();
        let mut words: Vec<&[u8]> =
            vec![b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"", b"0", b"5000", b"KEYS"];
        words.extend(keys);
        from.call(&words);
    }
    for node in [1, 0, 2] {
        cluster.client(node).ok(&format!("CLUSTER SETSLOT {moved} NODE {}", ids[1]));
    }
}

/// The same in one step, as Valkey 9 does.
fn move_slot_at_once(cluster: &Cluster, moved: u16) {
    let to = cluster.client(1).ask("CLUSTER MYID").text();
    cluster.client(0).ok(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE {moved} {moved} NODE {to}"));
}

#[test]
fn slots_that_move_are_taken_from_where_they_end() {
    type Move = fn(&Cluster, u16);
    let all: [(Who, Peer, Move); 2] = [
        (Who::Redis, Peer::RedisServer, move_slot),
        (Who::Newer(Peer::Valkey), Peer::Valkey, move_slot_at_once),
    ];
    for (who, peer, moves) in all {
        if !are_here("slots_that_move_are_taken_from_where_they_end", &[peer]) {
            continue;
        }
        let mut random = Random::new("slots that move");
        let cluster = Cluster::start(who, 3, 0, "");
        fill(&cluster, &mut random);
        let target = Server::start(Kind::Ours("imprint"));
        let mut migration = Migration::start(&cluster.nodes[0], &target, &[]);
        migration.wait_for("caught up", 1);
        under_load(&cluster, &mut random, || {
            moves(&cluster, slot(Cluster::tag(0, 3).as_bytes()));
            migration.wait_for("no longer has the slots", 2);
            migration.wait_for("keys of its image are on their way", 6);
        });
        cluster.client(1).ok(&format!("SET {}:late 1", Cluster::tag(0, 3)));
        (0..3).for_each(|node| delete_idle_consumers(&mut cluster.client(node)));
        migration.stop();
        cluster.assert_moved(&[0, 1, 2], &target);
    }
}

#[test]
fn a_replica_that_takes_over_is_followed_without_an_image() {
    let test = "a_replica_that_takes_over_is_followed_without_an_image";
    if !are_here(test, &[Peer::RedisServer]) {
        return;
    }
    let mut random = Random::new("a replica that takes over");
    let mut cluster = Cluster::start(Who::Redis, 3, 1, "");
    fill(&cluster, &mut random);
    let target = Server::start(Kind::Ours("imprint"));
    let mut migration = Migration::start(&cluster.nodes[2], &target, &[]);
    migration.wait_for("caught up", 1);
    let mut replica = cluster.client(3);
    wait_until("the replica follows", || replica.info("master_link_status") == "up");
    wait_until("the replica has all", || {
        replica.info("slave_repl_offset") == cluster.client(0).info("master_repl_offset")
    });
    cluster.nodes[0].kill();
    migration.wait_for("has taken over the slots 0-5460", 1);
    migration.wait_for("goes on from offset", 1);
    replica.ok(&format!("SET {}:after the-failover", Cluster::tag(0, 3)));
    (1..4).for_each(|node| delete_idle_consumers(&mut cluster.client(node)));
    let text = migration.stop();
    assert_eq!(text.matches("sends an image").count(), 3, "{text}");
    cluster.assert_moved(&[1, 2, 3], &target);
}

#[test]
fn what_cannot_be_moved_is_refused_by_name() {
    if !are_here("what_cannot_be_moved_is_refused_by_name", &[Peer::RedisServer]) {
        return;
    }
    let run = |from: &Server, to: &Server, more: &[&str]| {
        let [from, to] = [from, to].map(|server| format!("127.0.0.1:{}", server.port));
        let line = ["migrate-cluster", &from, "--to", &to, "--until-caught-up"];
        let output = stillframe(&[&line[..], more].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), text)
    };
    let cluster = Cluster::start(Who::Redis, 1, 0, "--requirepass secret --masterauth secret");
    let target = Server::start(Kind::Ours("imprint"));
    let alone = Server::start(Kind::Redis);
    let (_, text) = run(&alone, &target, &[]);
    assert!(text.contains("is no node of a cluster: follow it by REPLICAOF"), "{text}");
    let (_, text) = run(&cluster.nodes[0], &target, &[]);
    assert!(text.contains("refuses CLUSTER NODES: NOAUTH"), "{text}");
    let (_, text) = run(&cluster.nodes[0], &target, &["--password", "wrong"]);
    assert!(text.contains("refuses AUTH: WRONGPASS"), "{text}");
    target.client().ok("SET k v");
    let (_, text) = run(&cluster.nodes[0], &target, &["--password", "secret"]);
    assert!(text.contains("holds 1 keys, which would be lost: empty it first"), "{text}");
    target.client().ok("FLUSHALL");
    target.client().ok(&format!("REPLICAOF 127.0.0.1 {}", alone.port));
    let (_, text) = run(&cluster.nodes[0], &target, &["--password", "secret"]);
    assert!(text.contains("is a replica: send it REPLICAOF NO ONE first"), "{text}");
    target.client().ok("REPLICAOF NO ONE");
    let mut client = Cluster::client_of(&cluster.nodes[0], "--requirepass secret");
    client.ok("SET k v");
    target.client().ok("CONFIG SET requirepass other");
    let (_, text) = run(&cluster.nodes[0], &target, &["--password", "secret"]);
    assert!(text.contains("refuses INFO all: NOAUTH"), "{text}");
    let passwords = ["--password", "secret", "--to-password", "other"];
    let (moved, text) = run(&cluster.nodes[0], &target, &passwords);
    assert!(moved, "{text}");
    let mut client = target.client();
    client.ok("AUTH other");
    assert_eq!(client.ask("GET k").text(), "v");
}

/// Vector sets, which no module adds but Redis 8 itself.
#[test]
fn a_value_or_request_of_a_module_ends_the_migration() {
    if !are_here("a_value_or_request_of_a_module_ends_the_migration", &[Peer::Redis8]) {
        return;
    }
    let cluster = Cluster::start(Who::Newer(Peer::Redis8), 1, 0, "");
    let mut client = cluster.client(0);
    let add = "VADD vectors VALUES 2 1.5 2.5 one";
    if matches!(client.ask(add), Reply::Error(_)) {
        client.ok("SET plain v");
    }
    let has_vectors = client.ask("EXISTS vectors").int() == 1;
    if !has_vectors {
        println!("this Redis 8 was built without vector sets");
        return;
    }
    let target = Server::start(Kind::Ours("imprint"));
    let text = Migration::start(&cluster.nodes[0], &target, &[]).end(false);
    assert!(text.contains("has data that cannot be moved") && text.contains("vectors"), "{text}");
    client.ok("DEL vectors");
    target.client().ok("REPLICAOF NO ONE");
    let mut migration = Migration::start(&cluster.nodes[0], &target, &[]);
    migration.wait_for("caught up", 1);
    client.ok(add);
    let text = migration.end(false);
    assert!(text.contains("cannot go on") && text.contains("VADD"), "{text}");
    assert!(text.contains("does not have all data, and stays a replica"), "{text}");
}

#[test]
fn a_target_that_goes_away_is_told_and_one_that_returns_starts_anew() {
    let test = "a_target_that_goes_away_is_told_and_one_that_returns_starts_anew";
    if !are_here(test, &[Peer::RedisServer]) {
        return;
    }
    let cluster = Cluster::start(Who::Redis, 3, 0, "");
    let mut random = Random::new("a target that goes away");
    fill(&cluster, &mut random);
    let folder = tempfile::tempdir().expect("a folder");
    let start = |port| Setup::new(Kind::Ours("imprint")).folder(folder.path()).port(port).start();
    let mut target = start(own_port());
    let mut migration = Migration::start(&cluster.nodes[0], &target, &["--timeout", "20"]);
    migration.wait_for("caught up", 1);
    // The link alone: the target resumes.
    target.client().ok("CLIENT KILL TYPE master");
    cluster.client(0).ok(&format!("SET {}:cut 1", Cluster::tag(0, 3)));
    wait_until("the target resumes", || {
        target.client().ask(&format!("EXISTS {}:cut", Cluster::tag(0, 3))).int() == 1
    });
    assert_eq!(migration.text().matches("sends an image").count(), 3, "{}", migration.text());
    target.kill();
    let mut target = start(target.port);
    let own = migration.text();
    assert!(!own.contains("has gone"), "{own}");
    // It begins as a primary, and follows nobody by itself.
    let text = migration.end(false);
    assert!(text.contains("somebody has changed what it follows"), "{text}");
    let again = Migration::start(&cluster.nodes[0], &target, &["--timeout", "2"]);
    let mut again = again;
    again.wait_for("caught up", 1);
    target.kill();
    let text = again.end(false);
    assert!(text.contains("nothing was heard of the target"), "{text}");
}
